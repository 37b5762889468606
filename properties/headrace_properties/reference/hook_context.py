"""What a hook sees and requests (MillWheel 5.1, Figure 7): the interface of `headrace.Context`, without its code."""
# ruff: noqa: D102  `headrace.Context` says what each call means

from typing import Any

from headrace.api.codecs import encode_at
from headrace.api.errors import (
    ContextArgumentError,
    HeadraceError,
    TimestampRegressionError,
    UndeclaredOutputError,
)
from headrace.api.records import Clock
from headrace.api.ropes import Encoded
from headrace.api.time import EVENT_TIME, MAX_TIME, MIN_TIME, is_timestamp
from headrace_properties.reference.running_computation import Emitted, PendingTimer, RunningComputation


class HookContext:
    """Stands in for a `headrace.Context`.

    Args:
        computation: the computation.
        key: of the hook.
        now: wall time, microseconds.
        moment_us: event time at which the hook runs: the input low watermark, or that of the timer that fires.
        earliest_us: productions are not older than this, their cause (4.5).
        stamp: the default timestamp of productions.

    Attributes:
        refused: what it has refused so far.
    """

    __slots__ = (
        "_computation", "_earliest_us", "_loaded", "_moment_us", "_state", "hold", "key", "low_watermark", "made", "refused",
        "stamp", "timers", "wall_time",
    )  # fmt: skip

    def __init__(
        self, computation: RunningComputation, key: str, now: int, *, moment_us: int, earliest_us: int, stamp: int
    ) -> None:  # fmt: skip
        self.key = key
        self.low_watermark = computation.input_us
        self.wall_time = now
        self.stamp = stamp
        self.made: list[Emitted] = []
        self.timers: dict[str, PendingTimer | None] = {}
        self.hold: int | None = None
        self.refused: list[HeadraceError] = []
        self._computation = computation
        self._moment_us = moment_us
        self._earliest_us = earliest_us
        self._loaded = False
        self._state: Any = None

    @property
    def state(self) -> Any:
        if not self._loaded:
            self.state = self._computation.load(self.key)
        return self._state

    @state.setter
    def state(self, value: Any) -> None:
        self._loaded, self._state = True, value

    def clear_state(self) -> None:
        self.state = self._computation.spec.computation.initial_state()
        self.hold = MAX_TIME

    def hold_watermark(self, timestamp: int | None) -> None:
        if timestamp is None:
            self.hold = MAX_TIME
        else:
            self._check("hold_watermark", "timestamp", timestamp, is_timestamp(timestamp), EVENT_TIME)
            self.hold = timestamp

    def set_timer(self, tag: str, at: int) -> None:
        self._check("set_timer", "tag", tag, is_text(tag), _TEXT)
        self._check("set_timer", "at", at, is_timestamp(at), EVENT_TIME)
        self._set(tag, at, Clock.WATERMARK, self._moment_us, at)

    def set_wall_timer(self, tag: str, at: int, hold: int | None = None) -> None:
        self._check("set_wall_timer", "tag", tag, is_text(tag), _TEXT)
        is_time = type(at) is int and MIN_TIME <= at <= MAX_TIME
        self._check("set_wall_timer", "at", at, is_time, "a wall time as an int of microseconds")
        self._check("set_wall_timer", "hold", hold, hold is None or is_timestamp(hold), EVENT_TIME)
        self._set(tag, at, Clock.WALL, self.wall_time, hold)

    def cancel_timer(self, tag: str) -> None:
        self.timers[tag] = None

    def produce(self, stream: str, value: Any, timestamp: int | None = None, key: str | None = None) -> None:
        try:
            self._produce(stream, value, timestamp, key)
        except HeadraceError as error:
            if error not in self.refused:
                self.refused.append(error)
            raise

    def _produce(self, stream: str, value: Any, timestamp: int | None, key: str | None) -> None:
        spec = self._computation.spec
        if stream not in spec.outputs:
            raise UndeclaredOutputError(spec.name, stream, spec.outputs)
        key = self.key if key is None else key
        stamp = self.stamp if timestamp is None else timestamp
        self._check("produce", "key", key, is_text(key), _TEXT)
        self._check("produce", "timestamp", stamp, is_timestamp(stamp), EVENT_TIME)
        if stamp < self._earliest_us:
            raise TimestampRegressionError(spec.name, self.key, stamp, self._earliest_us)
        where = "stream {!r}, produced by {!r} for key {!r}"
        data = encode_at(where, spec.output_codecs[stream], value, stream, spec.name, self.key)
        self.made.append(Emitted(stream, key, data, stamp))

    def new_state(self) -> Encoded | None:
        """Return the state, encoded; ``None``: user code has not read it."""
        return self._computation.encode(self.key, self._state) if self._loaded else None

    def _set(self, tag: str, at: int, clock: Clock, now: int, held: int | None) -> None:
        turn = (max(at, now), at <= now, at, tag)
        self.timers[tag] = PendingTimer(tag, at, clock, held, max(at, now), turn, self.stamp)

    def _check(self, call: str, argument: str, value: object, fits: bool, expected: str) -> None:  # noqa: FBT001
        if not fits:
            self.refused.append(
                ContextArgumentError(self._computation.spec.name, self.key, call, argument, value, expected)
            )
            raise self.refused[-1]


_TEXT = "a str that can be written as UTF-8"


def is_text(value: object) -> bool:
    """Return whether it can leave this process: lone surrogates cannot."""
    return type(value) is str and value == value.encode(errors="ignore").decode()
