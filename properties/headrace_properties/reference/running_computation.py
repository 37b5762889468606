"""One computation of the reference: its rows, its waiting records and its watermarks (4.5, 4.6, 6.2)."""

from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from headrace.api.codecs import decode_state_at, encode_state_at
from headrace.api.errors import CodecError
from headrace.api.records import Clock
from headrace.api.ropes import Encoded
from headrace.api.specs import ComputationSpec
from headrace.api.time import MAX_TIME, MIN_TIME


class Emitted(msgspec.Struct, frozen=True):
    """A record as the outside receives it. It omits ids and origins, which differ from run to run."""

    stream: str
    key: str
    value: bytes
    timestamp: int


class Delivery(msgspec.Struct):
    """A record on its way to one consumer, which keys it (4.2). The id is the same for all consumers (6.1.1)."""

    consumer: str
    key: str
    record: Emitted
    record_id: str


class PendingTimer(msgspec.Struct, gc=False):
    """A pending timer (4.6).

    Attributes:
        tag: its name; a key has one timer per tag.
        at: what user code asked for, microseconds of its clock.
        clock: what it waits for.
        held: event time at which it holds the low watermark, if any (4.5).
        due: when it fires; at once, if its time had passed when it was set.
        turn: the timers of a key fire in this order: by due time; one set after its time follows those due by then.
        stamp: the default timestamp of the hook that set it.
        holds: it was not late when set, and so holds the low watermark.
    """

    tag: str
    at: int
    clock: Clock
    held: int | None
    due: int
    turn: tuple[int, bool, int, str]
    stamp: int
    holds: bool = False


class KeyRow(msgspec.Struct):
    """The row of a key (6.2)."""

    state: Encoded = b""
    hold: int = MAX_TIME
    timers: dict[str, PendingTimer] = {}

    def oldest(self) -> int:
        """Return the smallest event time that it holds; `MAX_TIME`: none."""
        held = [timer.held for timer in self.timers.values() if timer.holds and timer.held is not None]
        return min([self.hold, *held])


class RunningComputation:
    """One computation: its rows, its waiting records, and its progress.

    ``before``: the one of an earlier version (3), whose they are.
    """

    __slots__ = ("_initial", "input_us", "low_us", "queue", "rows", "senders", "spec", "wall_timers")

    def __init__(
        self, spec: ComputationSpec, senders: tuple[str, ...], before: "RunningComputation | None" = None
    ) -> None:
        self.spec = spec
        self.senders = senders
        self.queue: deque[Delivery] = deque() if before is None else before.queue
        self.rows: dict[str, KeyRow] = {} if before is None else before.rows
        self.input_us: int = MIN_TIME if before is None else before.input_us
        self.low_us: int = MIN_TIME if before is None else before.low_us
        self.wall_timers: int = 0 if before is None else before.wall_timers
        self._initial = spec.state_codec.encode(spec.computation.initial_state())

    def load(self, key: str) -> Any:
        """Return a copy of a key's state, for user code."""
        spec, state = self.spec, self.rows[key].state
        if not state:
            return spec.computation.initial_state()
        return decode_state_at(_STATE, spec.state_codec, state, spec.name, key)

    def encode(self, key: str, state: Any) -> Encoded:
        """Encode a state; the initial one as empty bytes."""
        spec = self.spec
        data = encode_state_at(_STATE, spec.state_codec, state, spec.name, key)
        if not data and self._initial:
            place, reason = _STATE.format(spec.name, key), "empty bytes are reserved for the initial state"
            raise CodecError(place, repr(spec.state_codec), "write", reason)
        return b"" if data == self._initial else data

    def adopt(
        self, key: str, state: Encoded | None, hold: int | None, timers: Mapping[str, PendingTimer | None]
    ) -> None:
        """Apply what a hook did to its key; ``None``: nothing. A late hold or timer holds nothing (4.5)."""
        row = self.rows[key]
        if state is not None:
            row.state = state
        if hold is not None:
            row.hold = hold if hold >= self.low_us else MAX_TIME
        for tag, timer in timers.items():
            self.forget(row, tag)
            if timer is not None:
                timer.holds = timer.held is not None and timer.held >= self.low_us
                row.timers[tag] = timer
                self.wall_timers += timer.clock is Clock.WALL

    def forget(self, row: KeyRow, tag: str) -> None:
        """Remove a timer, if it is set."""
        timer = row.timers.pop(tag, None)
        self.wall_timers -= timer is not None and timer.clock is Clock.WALL

    def due(self, key: str, now: int) -> PendingTimer | None:
        """Return a key's next timer to fire, if one is due (4.6)."""
        row = self.rows.get(key)
        if row is None or not row.timers:
            return None
        for clock, reading in ((Clock.WATERMARK, self.input_us), (Clock.WALL, now)):
            due = [timer for timer in row.timers.values() if timer.clock is clock and timer.due <= reading]
            if due:
                return min(due, key=lambda timer: timer.turn)
        return None

    def oldest(self) -> int:
        """Return the smallest event time that its rows hold."""
        return min((row.oldest() for row in self.rows.values()), default=MAX_TIME)

    def next_wall_us(self) -> int:
        """Return when its next wall timer is due; `MAX_TIME`: it has none."""
        if not self.wall_timers:
            return MAX_TIME
        timers = (timer for row in self.rows.values() for timer in row.timers.values())
        return min((timer.due for timer in timers if timer.clock is Clock.WALL), default=MAX_TIME)


_STATE = "state of {!r}, key {!r}"
