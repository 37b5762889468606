"""Side inputs (Dataflow 2.1): each element meets the value that another collection had at the element's event time.

Rules of this file:

* A side element is a version of its key's value, valid from its event time on. A pane's event time is its window's last
  microsecond, so that a window's result holds from the window's end until the next one's.
* An on-time element at event time t waits until the watermark is past t. Then all on-time versions up to t are known, and the
  result depends on event times only. A late element is handled at once, with the versions that are still kept.
* Of the versions that the watermark has passed by the allowed lateness, only the last one of each key is kept. A timer drops the
  others, so that what is kept in the end does not depend on when records arrived.
* An element leaves with the event time that it came with, at most a microsecond later in watermark time: see `transforms` on lag.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import msgspec

from headrace import MAX_TIME, Computation, Context, Record, Timer
from headrace.dataflow.elements import Element, Window
from headrace.dataflow.key_text import key_of
from headrace.dataflow.transforms import element_of, pane_of, watermark_at

_ENCODE = msgspec.json.Encoder(order="deterministic").encode
_Version = list[Any]
"""[event time, pane index, value, count]."""
_READY, _FORGET = "ready", "forget "


@dataclass(frozen=True, slots=True)
class Enrich:
    """How elements are enriched.

    Attributes:
        function: takes an element's value and what is known at its event time: the side's value for its key, or ``None``; with
            ``is_broadcast``, all the side's values by key. Returns the new value.
        is_broadcast: whether every element sees the whole side input.
        shards: number of keys over which the elements are spread in that case; each has a copy of the side input.
        lateness_us: how long versions are kept for late elements, event time in microseconds; ``None``: for ever.
    """

    function: Callable[[Any, Any], Any]
    is_broadcast: bool = False
    shards: int = 1
    lateness_us: int | None = 0


@dataclass(frozen=True, slots=True)
class Spread:
    """Spreads elements over shards by key, and copies side elements to each shard; values carry their key along."""

    shards: int

    def main(self, element: Element) -> Iterable[Element]:
        """Send an element to its key's shard."""
        shard = str(crc32(element.key.encode()) % self.shards)
        return (msgspec.structs.replace(element, key=shard, value=[element.key, element.value]),)

    def side(self, element: Element) -> Iterable[Element]:
        """Send a side element to each shard."""
        value = [element.key, element.value]
        return [msgspec.structs.replace(element, key=str(shard), value=value) for shard in range(self.shards)]


@dataclass(eq=False, repr=False)
class Enrichment(Computation):
    """Enriches the elements of a key, or of a shard of all keys.

    The state is ``versions``, a list of [event time, index, value, count] by the side's key, and ``waiting``, elements that the
    watermark has not passed. A retraction of a version takes one off its count, also if it comes first.

    Attributes:
        enrich: how.
        output: output stream, of panes.
        sides: the side's streams.
        lag: number of transforms above it that emit at a watermark.
        panes: those of the input streams whose values are panes.
    """

    enrich: Enrich
    output: str
    sides: Collection[str]
    lag: int
    panes: Collection[str]

    def __post_init__(self) -> None:
        """Note how long versions are kept."""
        self._lateness_us = self.enrich.lateness_us or 0

    @property
    def forgets(self) -> bool:
        """Whether it forgets versions of the side that no element will meet."""
        return self.enrich.lateness_us is not None

    def initial_state(self) -> dict[str, Any]:
        """Return a state that knows nothing."""
        return {"versions": {}, "waiting": []}

    def process_record(self, context: Context, record: Record) -> None:
        """Take in a version, or an element, which waits until the watermark has passed it."""
        element = element_of(record, self.panes)
        key, value = element.value if self.enrich.is_broadcast else (element.key, element.value)
        if record.stream in self.sides:
            index = record.value.index if record.stream in self.panes else 0
            _learn(context.state["versions"].setdefault(key, []), element, index, value)
            horizon = watermark_at(context, self.lag) - self._lateness_us
            waited_for = [
                waits[0] for waits in context.state["waiting"]
            ]  # some may have been passed just now
            self._forget(context, key, min([horizon, *waited_for]))
        elif watermark_at(context, self.lag) > element.time:
            self._send(context, msgspec.structs.replace(element, key=key, value=value))
        else:
            waits = [element.time, key, value, [element.window.start, element.window.end], element.retraction]
            context.state["waiting"].append(waits)
            self._wait(context)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Send what the watermark has passed, in the order of event time, or forget old versions of a key."""
        if timer.tag != _READY:
            # By the timer's own time: the watermark may have passed elements that are to be sent after it.
            horizon = timer.timestamp - 1 - self.lag - self._lateness_us
            self._forget(context, timer.tag.removeprefix(_FORGET), horizon)
            return
        state, watermark = context.state, watermark_at(context, self.lag)
        ready = [waits for waits in state["waiting"] if waits[0] < watermark]
        state["waiting"] = [waits for waits in state["waiting"] if waits[0] >= watermark]
        for time, key, value, window, retraction in sorted(ready, key=_ENCODE):
            self._send(context, Element(key, value, time, Window(*window), retraction))
        self._wait(context)

    def _wait(self, context: Context) -> None:
        """Set the timer for the first element that waits; it holds the output watermark there."""
        times = [waits[0] for waits in context.state["waiting"]]
        if times:
            context.set_timer(_READY, min(times) + 1 + self.lag)

    def _send(self, context: Context, element: Element) -> None:
        known = context.state["versions"]
        if self.enrich.is_broadcast:
            values = {key: _as_of(versions, element.time) for key, versions in sorted(known.items())}
            side: Any = {key_of(key): value[0] for key, value in values.items() if value}
        else:
            value = _as_of(known.get(element.key, []), element.time)
            side = value[0] if value else None
        enriched = msgspec.structs.replace(element, value=self.enrich.function(element.value, side))
        # One timer may send elements of several times: each has its own, whichever timer comes first.
        timestamp = max(enriched.time + 1 + self.lag, context.stamp)
        context.produce(self.output, pane_of(enriched), key=enriched.key, timestamp=timestamp)

    def _forget(self, context: Context, key: str, horizon: int) -> None:
        """Drop versions of a key that no element after an event time will meet, and set a timer for the next ones."""
        if self.enrich.lateness_us is None:
            return
        known = context.state["versions"]
        kept = _kept(known.pop(key, []), horizon)
        if not kept:
            context.cancel_timer(f"{_FORGET}{key}")
            return
        known[key] = kept
        times = sorted({version[0] for version in kept})
        next_us = next((time for time in times if len(_kept(kept, time)) < len(kept)), None)
        if next_us is not None:
            context.set_timer(
                f"{_FORGET}{key}", min(next_us + self._lateness_us + 1 + self.lag, MAX_TIME - 1)
            )


def _learn(versions: list[_Version], element: Element, index: int, value: Any) -> None:
    """Count a version, or count it off."""
    by = -1 if element.retraction else 1
    for version in versions:
        if version[:3] == [element.time, index, value]:
            version[3] += by
            if not version[3]:
                versions.remove(version)
            return
    versions.append([element.time, index, value, by])


def _kept(versions: Sequence[_Version], horizon: int) -> list[_Version]:
    """Return the versions that elements after an event time meet."""
    last = _last(versions, horizon)
    return [version for version in versions if version[0] > horizon or version is last]


def _last(versions: Sequence[_Version], time: int) -> _Version | None:
    """Return the version that holds at an event time: the latest, and of several the one whose JSON sorts last."""
    known = [version for version in versions if version[0] <= time and version[3] > 0]
    return max(known, key=lambda version: (version[0], version[1], _ENCODE(version[2])), default=None)


def _as_of(versions: Sequence[_Version], time: int) -> tuple[Any, ...]:
    """Return the value at an event time; nothing if there was none yet."""
    version = _last(versions, time)
    return () if version is None else (version[2],)
