"""What a hook can do for its key (MillWheel 5.1, Figure 8): state, timers, productions, watermark.

Rules of this file: user code sees only copies, and its changes reach the row as one delta or not at all;
a production is never older than its cause (4.5); setting a timer again under the same tag moves it (4.6).
"""

from collections.abc import Mapping
from typing import Any, Never, Protocol

import msgspec

from headrace.api.codecs import (
    Codec,
    StateCodec,
    TypedCodec,
    decode_state,
    encode_at,
    not_bytes,
    unreadable,
    unwritable,
)
from headrace.api.errors import (
    CodecError,
    ContextArgumentError,
    TimestampRegressionError,
    UndeclaredOutputError,
)
from headrace.api.records import Clock, is_text
from headrace.api.ropes import Encoded, Rope
from headrace.api.time import EVENT_TIME, MAX_TIME, MIN_TIME, is_timestamp


class HasInitialState(Protocol):
    """Anything that creates initial states, such as a `Computation`."""

    def initial_state(self) -> Any:
        """Return a new initial state."""


class Described(Protocol):
    """The part of a `ComputationSpec` that a context reads."""

    @property
    def name(self) -> str:
        """The computation's name."""

    @property
    def computation(self) -> HasInitialState:
        """The user's object."""

    @property
    def state_codec(self) -> StateCodec:
        """The codec of its state."""

    @property
    def initial_state(self) -> bytes:
        """The encoded initial state."""

    @property
    def output_codecs(self) -> Mapping[str, Codec]:
        """Codec by output stream."""


class Emission(msgspec.Struct, eq=False, gc=False):
    """One logical production, before it gets a record id and an address."""

    stream: str
    key: str
    value: bytes
    timestamp: int


class TimerRequest:
    """A timer that user code set; ``None`` in its place cancels the timer."""

    __slots__ = ("clock", "hold", "tag", "timestamp")

    def __init__(self, tag: str, timestamp: int, clock: Clock, hold: int | None) -> None:
        self.tag, self.timestamp, self.clock, self.hold = tag, timestamp, clock, hold


class Context(msgspec.Struct, eq=False):
    """What a hook can do for its key: state, timers, productions, watermark (MillWheel 5.1, Figure 8).

    It is a struct because the engine builds one for every record and timer.

    Attributes:
        key: the key that the hook runs for.
        low_watermark: the input low watermark, event time in microseconds (4.5); `MIN_TIME` while unknown.
        wall_time: this machine's clock, microseconds. Code that uses it in state or productions is not deterministic.
        stamp: the default timestamp of productions, event time in microseconds; see `produce`.
        emissions: what the hook has produced so far; like the next two, for the engine to commit once the hook returns.
        timers: timers that the hook has set or cancelled (``None``), by tag.
        new_hold: what the hook has asked of `hold_watermark`; ``None``: nothing.
        state_copy: what the state is decoded to, for this hook if it wants the state, or else for the next; ``None``: not known.
    """

    _spec: Described
    key: str
    _before: Encoded
    _cause_us: int
    low_watermark: int
    wall_time: int
    stamp: int
    emissions: list[Emission] | None = None
    timers: dict[str, TimerRequest | None] | None = None
    new_hold: int | None = None
    state_copy: Any = None
    _state: Any = None
    _touched: bool = False

    @property
    def state(self) -> Any:
        """This key's persistent state: change it in place, or assign a new one (``MutablePersistentState``)."""
        if not self._touched:
            self._touched = True
            spec = self._spec
            if self.state_copy is not None:
                self._state = self.state_copy
            elif self._before:
                try:
                    self._state = decode_state(spec.state_codec, self._before)
                except Exception as error:
                    raise unreadable(
                        error, _STATE, spec.state_codec, self._before, spec.name, self.key
                    ) from error
            else:
                self._state = spec.computation.initial_state()
        return self._state

    @state.setter
    def state(self, value: Any) -> None:
        self._touched = True
        self._state = value

    def clear_state(self) -> None:
        """Reset to the initial state, and release the state's hold."""
        self.state = self._spec.computation.initial_state()
        self.new_hold = MAX_TIME

    def hold_watermark(self, timestamp: int | None) -> None:
        """Hold this computation's low watermark at or before a timestamp, on behalf of the key's state (5.2).

        Args:
            timestamp: event time, microseconds; ``None`` releases the hold.

        Raises:
            ContextArgumentError: the timestamp is not an event time.
        """
        if timestamp is not None:
            self._check_event_time("hold_watermark", "timestamp", timestamp)
        self.new_hold = MAX_TIME if timestamp is None else timestamp

    def set_timer(self, tag: str, at: int) -> None:
        """Call `Computation.process_timer` once the low watermark reaches a time (4.6).

        Args:
            tag: the timer's name; setting it again moves the timer.
            at: event time, microseconds. At or before the watermark, the timer fires at once, after those already due. When it
                fires, records stamped exactly ``at`` may still come; to wait for them too, use ``at + 1``. ``MAX_TIME - 1`` fires
                once all input has ended.

        Raises:
            ContextArgumentError: the tag is not text, or the time is not an event time.
        """
        self._check_text("set_timer", "tag", tag)
        self._check_event_time("set_timer", "at", at)
        self._set(TimerRequest(tag, at, Clock.WATERMARK, None))

    def set_wall_timer(self, tag: str, at: int, hold: int | None = None) -> None:
        """Call `Computation.process_timer` once this machine's clock reaches a time (4.6).

        Args:
            tag: the timer's name; setting it again moves the timer.
            at: wall time, microseconds.
            hold: event time, microseconds, that the low watermark must not pass until the timer fires; ``None``: no hold.

        Raises:
            ContextArgumentError: the tag is not text, or a time is not one of its kind.
        """
        self._check_text("set_wall_timer", "tag", tag)
        if type(at) is not int or not MIN_TIME <= at <= MAX_TIME:
            self._refuse("set_wall_timer", "at", at, "a wall time as an int of microseconds")
        if hold is not None:
            self._check_event_time("set_wall_timer", "hold", hold)
        self._set(TimerRequest(tag, at, Clock.WALL, hold))

    def cancel_timer(self, tag: str) -> None:
        """Cancel the timer with this tag, if one is set."""
        if self.timers is None:
            self.timers = {}
        self.timers[tag] = None

    def produce(self, stream: str, value: Any, timestamp: int | None = None, key: str | None = None) -> None:
        """Send a record to every consumer of a stream (``ProduceRecord``).

        Args:
            stream: one of the computation's declared outputs.
            value: anything that the stream's codec can encode.
            timestamp: event time, microseconds; default: that of the record or timer being handled. A wall timer's default is its
                hold, else the low watermark, or, while that is unknown or at its end, the event time at which the timer was set.
            key: the record's own key, for consumers whose extractor keeps it; default: this key.

        Raises:
            UndeclaredOutputError: the stream is not among the outputs.
            ContextArgumentError: the timestamp is not an event time, or the key is not text.
            TimestampRegressionError: the timestamp is earlier than its cause's (4.5).
            CodecError: the stream's codec cannot encode the value.

        Deviation: the paper leaves it to the user to pick a timestamp no smaller than that of any source record (4.5). Here a
        smaller one is an error, since the record could be behind a low watermark that was reported before.
        """
        spec = self._spec
        codec = spec.output_codecs.get(stream)
        if codec is None:
            raise UndeclaredOutputError(spec.name, stream, tuple(spec.output_codecs))
        if key is not None and not (type(key) is str and key.isascii()):
            self._check_text("produce", "key", key)
        if timestamp is not None:
            self._check_event_time("produce", "timestamp", timestamp)
        if timestamp is None:
            timestamp = self.stamp
        elif timestamp < self._cause_us:
            raise TimestampRegressionError(spec.name, self.key, timestamp, self._cause_us)
        data = encode_at(_PRODUCED, codec, value, stream, spec.name, self.key)
        if self.emissions is None:
            self.emissions = []
        self.emissions.append(Emission(stream, self.key if key is None else key, data, timestamp))

    # Wrong arguments are refused here, at the call, before they reach a row.

    def _check_text(self, call: str, argument: str, value: object) -> None:
        if type(value) is not str or not is_text(value):
            self._refuse(call, argument, value, "a str that can be written as UTF-8")

    def _check_event_time(self, call: str, argument: str, value: object) -> None:
        if not is_timestamp(value):
            self._refuse(call, argument, value, EVENT_TIME)

    def _refuse(self, call: str, argument: str, value: object, expected: str) -> Never:
        raise ContextArgumentError(self._spec.name, self.key, call, argument, value, expected)

    def _set(self, request: TimerRequest) -> None:
        if self.timers is None:
            self.timers = {}
        self.timers[request.tag] = request

    # Read by the engine after the hook returns.

    @property
    def untouched(self) -> bool:
        """Whether the hook used neither state nor timers, like a stateless function."""
        return not self._touched and self.timers is None and self.new_hold is None

    @property
    def uses_state(self) -> bool:
        """Whether the hook read the state or assigned one."""
        return self._touched

    def new_state(self) -> Encoded | None:
        """Encode the state if it changed. ``None``: unchanged; ``b""``: equal to the initial state."""
        if not self._touched:
            return None
        spec = self._spec
        codec = spec.state_codec
        after: Encoded
        try:
            if type(codec) is TypedCodec:
                after, self.state_copy = codec.encode_and_decode(self._state)
            else:
                after, self.state_copy = codec.encode(self._state), None
        except Exception as error:
            raise unwritable(error, _STATE, codec, self._state, spec.name, self.key) from error
        if type(after) is not bytes and not isinstance(after, Rope):
            raise not_bytes(after, _STATE, codec, spec.name, self.key)
        if after == spec.initial_state:
            after, self.state_copy = b"", None
        elif not after:
            where = f"state of {spec.name!r}, key {self.key!r}"
            raise CodecError(
                where, repr(spec.state_codec), "write", "empty bytes are reserved for the initial state"
            )
        return None if after == self._before else after


_STATE = "state of {!r}, key {!r}"


_PRODUCED = "stream {!r}, produced by {!r} for key {!r}"
