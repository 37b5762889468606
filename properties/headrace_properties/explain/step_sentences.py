"""Sentences about records and steps: what came in, which code ran for it, what its write made of the row, what went out.

A sentence claims only what the History shows: a message that is not known to have arrived is only sent.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from headrace import MAX_TIME, MIN_TIME, Clock
from headrace import history as h
from headrace.api.errors import with_article
from headrace.wire.rows import Production
from headrace_properties.explain.decoding import Codecs
from headrace_properties.explain.event_summaries import seconds
from headrace_properties.explain.subject import RowWrite, row_writes

_LONG_VALUE, _LONG_STATE = 160, 80
_MANY_PRODUCTIONS = 3


class StepSentences:
    """Describes the records and steps of one run.

    Args:
        history: of the run.
        codecs: decode its values.
    """

    def __init__(self, history: Sequence[h.Event], codecs: Codecs) -> None:
        self._codecs = codecs
        self._writes: Mapping[int, RowWrite] = row_writes(history)

    def injected(self, at: str, event: h.Injected, loss: h.FaultStruck | None) -> str:
        """Say which record came in, and whether its message is known to be lost."""
        production = event.productions[0]
        text = (
            f"{at} {event.process} sends record {production.record_id} of {production.stream!r} (key"
            f" {production.key!r}, timestamp {seconds(production.timestamp)}) to"
            f" {listed([repr(to.consumer) for to in event.productions])}: {self._value(production)}"
        )
        lost = "" if loss is None else f"; the message{_target(loss)} is lost"
        return f"{text}{lost}."

    def output(self, at: str, event: h.Output, *, shows_value: bool) -> str:
        """Say what the outside world received."""
        production = event.production
        value = f": {self._value(production)}" if shows_value else ""
        return f"{at} {production.record_id} of {production.stream!r} arrives outside{value}."

    def produced(self, productions: Sequence[Production]) -> str:
        """Name the productions of a step, with their values; ``""``: none."""
        distinct = list({production.record_id: production for production in productions}.values())
        named = [
            f"{production.record_id} on {production.stream!r} ({self._value(production)})"
            for production in distinct[:_MANY_PRODUCTIONS]
        ]
        more = len(distinct) - len(named)
        return listed([*named, f"{more} more"] if more else named)

    def ran(self, at: str, events: Sequence[h.Executed], belief: str = "") -> str:
        """Say for what user code ran: a timer, or records that share a write. ``belief``: what its worker wrongly believes."""
        event = events[-1]
        if event.timer is None:
            late, comma = ", which is late" if event.late and len(events) == 1 else "", "," if belief else ""
            causes = listed([other.cause for other in events])
            return (
                f"{at} {event.process}{belief}{comma} runs {event.computation!r} for {causes} (key"
                f" {event.key!r}){late}"
            )
        timer, why = event.timer, ""
        if timer.clock is Clock.WATERMARK and event.input_watermark > MIN_TIME:
            known = event.input_watermark
            why = (
                "; its input has ended"
                if known >= MAX_TIME
                else f"; its input is complete up to {seconds(known)}"
            )
        return (
            f"{at} timer {timer.tag!r} of key {event.key!r}, set for {seconds(timer.timestamp)}, fires at"
            f" {event.process}{belief}{why}"
        )

    def changed(self, number: int, event: h.Applied, run: Sequence[h.Executed] = ()) -> str:
        """Say what a write changed. ``run``: the steps that it carries, if they are described in the same sentence."""
        delta = event.delta
        parts = [f"sets timer {timer.tag!r} for {seconds(timer.timestamp)}" for timer in delta.set_timers]
        fired = [f"removes the fired timer {timer.tag!r}" for timer in delta.fired]
        parts += [] if run else fired
        parts += [f"cancels timer {tag!r}" for tag in delta.cancelled]
        if delta.hold is not None:
            held = f"holds the low watermark at {seconds(delta.hold)}"
            parts.append(held if delta.hold < MAX_TIME else "lets the low watermark go")
        saved = dict.fromkeys(production.record_id for production in delta.productions)
        parts += [] if run else [f"checkpoints production {record_id}" for record_id in saved]
        if not (parts or fired or saved or delta.state is not None):
            parts = ["changes nothing but the ids that it has seen"]
        if run:
            productions = self.produced([production for event_ in run for production in event_.productions])
            parts += [f"produces {productions}"] if productions else []
        if delta.state is not None:
            parts.insert(0, self._of_state(number, event.computation))
        return listed(parts) or "changes nothing else"

    def of_states(self, first: int, last: int, computation: str) -> str:
        """Say from what to what several writes changed the state of a row; ``""``: they did not."""
        before, after = self._writes[first].before, self._writes[last].after
        if before == after:
            return ""
        return (
            f" and {_change(self._codecs.state(computation, before), self._codecs.state(computation, after))}"
        )

    def previous(self, number: int) -> int | None:
        """Return the write before a write of the same row."""
        return self._writes[number].previous

    def place(self, number: int, described: Collection[int]) -> str:
        """Say which of its row's writes a write is, unless the one before it is described, too, or there is none."""
        write = self._writes[number]
        return (
            ""
            if write.previous is None or write.previous in described
            else f", number {write.earlier + 1} of its row,"
        )

    def _of_state(self, number: int, computation: str) -> str:
        write = self._writes[number]
        return _change(
            self._codecs.state(computation, write.before), self._codecs.state(computation, write.after)
        )

    def _value(self, production: Production) -> str:
        return _cut(self._codecs.value(production))


def _target(loss: h.FaultStruck) -> str:
    """Return to whom a lost message went, if the strike tells."""
    _, arrow, target = loss.detail.partition(" -> ")
    return f" to {target}" if arrow else ""


def _change(before: Any, after: Any) -> str:
    """Write how a state changed; of a large dict, only what differs."""
    pair = [_written(before), _written(after)]
    if pair[0] == pair[1]:
        return f"leaves the state at {_cut(pair[1])}"
    if isinstance(before, dict) and isinstance(after, dict) and max(map(len, pair)) > _LONG_STATE:
        old, new = ({name: _written(part) for name, part in state.items()} for state in (before, after))
        differing = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        parts = [
            f"{name!r} from {old.get(name, 'absent')} to {new.get(name, 'absent')}" for name in differing
        ]
        return f"changes the state: {_cut(', '.join(parts))}"
    return f"changes the state from {_cut(pair[0])} to {_cut(pair[1])}"


def _written(value: Any) -> str:
    """Write a value as Python does."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  a repr may be the user's
        return with_article(type(value).__name__)


def _cut(text: str) -> str:
    return text if len(text) <= _LONG_VALUE else f"{text[: _LONG_VALUE - 1]}…"


def listed(words: Sequence[str]) -> str:
    """Join words with commas and "and".

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)
