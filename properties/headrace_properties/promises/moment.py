"""What a promise sees: a moment of a run, decoded on demand by the pipeline's own codecs.

Values are decoded for each promise on its own, once for each state of a row, and compared with the bytes at the end of the
run: a promise that changes one of them is detected, and cannot mislead another.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Self

from headrace import MAX_TIME, Encoded, StateCodec, Timer, format_time
from headrace.api.codecs import decode_state
from headrace.history import Injected
from headrace.wire.rows import Production
from headrace_properties.promises.world import DurableStep, SeenRecord, World

INPUT, OUTPUT = "input", "output"
"""What a promise about tables calls all input, and all that a query gives out, or that leaves a pipeline."""
GIVEN = "what came"
"""What our own promises call the rows that tables are made of: those that reach a sink, or all input of a pipeline."""


class Lender:
    """Decodes values for one promise, and remembers what it has lent out."""

    __slots__ = ("_lent",)

    def __init__(self) -> None:
        self._lent: list[tuple[Any, StateCodec, Encoded, str]] = []

    def decode(self, codec: StateCodec, data: Encoded, what: str, *names: str) -> Any:
        """Decode a value. ``what``: names it, with placeholders for ``names``."""
        value = decode_state(codec, data)
        if type(value) not in _IMMUTABLE:
            self._lent.append((value, codec, data, what.format(*names) if names else what))
        return value

    def changed(self) -> str:
        """Name a value that has changed since it was lent; ``""``: none. Forget all of them."""
        lent, self._lent = self._lent, []
        for value, codec, data, what in lent:
            fresh = decode_state(codec, data)
            if value != fresh and codec.encode(value) != codec.encode(fresh):
                return what
        return ""


_IMMUTABLE = (str, int, float, bool, bytes, type(None))


class RecordView:
    """A record that was injected, or has gone outside.

    Attributes:
        number: of the event in the History.
        event: the event.
        consumers: its consumers; ``""``: the outside world.
    """

    __slots__ = ("_lender", "_production", "_value", "_world", "consumers", "event", "number")

    def __init__(self, arrival: SeenRecord, world: World, lender: Lender) -> None:
        self.number = arrival.number
        self.event = arrival.event
        self.consumers = arrival.consumers
        self._production: Production = arrival.production
        self._world = world
        self._lender = lender
        self._value: Any = _NOT_YET

    @property
    def at_us(self) -> int:
        """When it was injected or arrived outside, true wall time, microseconds."""
        return self.event.at_us

    @property
    def stream(self) -> str:
        """The record's stream."""
        return self._production.stream

    @property
    def key(self) -> str:
        """The key that its first consumer extracts."""
        return self._world.key(self._production)

    @property
    def timestamp(self) -> int:
        """Event time, microseconds."""
        return self._production.timestamp

    @property
    def late(self) -> bool:
        """Whether it was injected behind its injector's low watermark (4.5), because the source delivered it late."""
        return isinstance(self.event, Injected) and self.timestamp < self.event.source_watermark

    @property
    def record_id(self) -> str:
        """The record's id."""
        return self._production.record_id

    @property
    def value(self) -> Any:
        """The value, decoded by the stream's codec. Do not change it."""
        if self._value is _NOT_YET:
            production = self._production
            codec = self._world.codec(production.stream)
            self._value = self._lender.decode(
                codec, production.value, "a record of stream {!r}", production.stream
            )
        return self._value

    @property
    def data(self) -> bytes:
        """The value, encoded."""
        return self._production.value

    def __repr__(self) -> str:
        """Format for messages: stream, key, value, timestamp."""
        return f"{self.stream!r} record of key {self.key!r}: {self.value!r} (timestamp {format_time(self.timestamp)})"


_NOT_YET = object()


class RowChange:
    """A durable change of one row: one atomic write.

    Attributes:
        number: of the event in the History.
        event: the event.
        computation: whose row.
        key: the row's key.
    """

    __slots__ = ("_moment", "_step", "computation", "event", "key", "number")

    def __init__(self, step: DurableStep, moment: "Moment") -> None:
        self._step = step
        self._moment = moment
        self.number = step.number
        self.event = step.event
        self.computation = step.event.computation
        self.key = step.key

    @property
    def before(self) -> Any:
        """The state before the change, decoded; the initial state if there was none. Do not change it."""
        return self._moment.decode_state(self.computation, self.key, self._step.before)

    @property
    def after(self) -> Any:
        """The state after the change. Do not change it."""
        return self._moment.decode_state(self.computation, self.key, self._step.after)

    @property
    def consumed(self) -> tuple[RecordView, ...]:
        """The records that it consumed, as far as the History records them."""
        return self._moment.views(self._step.consumed)

    @property
    def produced(self) -> tuple[RecordView, ...]:
        """The records that it made durable, one for each consumer."""
        return self._moment.views(self._step.produced)

    def __repr__(self) -> str:
        """Format for messages: the row, and its state before and after."""
        row = f"row {self.key!r} of {self.computation!r}"
        if self._step.before == self._step.after:
            return f"{row} was written, with state {self.after!r}"
        return f"{row} changed from {self.before!r} to {self.after!r}"


class Moment:
    """A moment of a run, for one promise. It advances with the run and always shows the present.

    Attributes:
        memory: the promise's own, for as long as the run lasts; empty when it begins.
        widely: whether the promise has looked beyond single rows and the last change.
        saw: whether the promise has seen anything so far: a record, a row, or how many there are of them.
        empty: what it has gone through that was empty.
    """

    __slots__ = ("_inputs", "_lender", "_outputs", "_states", "_world", "empty", "memory", "saw", "widely")

    def __init__(self, world: World) -> None:
        self._world = world
        self._lender = Lender()
        self._states: dict[tuple[str, str], tuple[Encoded, Any]] = {}
        self._inputs: list[RecordView] = []
        self._outputs: list[RecordView] = []
        self.memory: dict[Any, Any] = {}
        self.widely = self.saw = False
        self.empty: dict[str, None] = {}

    @property
    def at_us(self) -> int:
        """True wall time since the run began, microseconds."""
        self.saw = True
        return self._world.at_us

    @property
    def changed(self) -> Any:
        """What changed since the last moment: a `RowChange`, or the `RecordView` of a record; ``None``: neither."""
        self.saw = True
        change = self._world.change
        if change is None:
            return None
        return RowChange(change, self) if isinstance(change, DurableStep) else self.views((change,))[0]

    def state(self, computation: str, key: str) -> Any:
        """Return the durable state of a key, decoded; the initial state if it has none. Do not change it.

        Raises:
            NotInPipelineError: the pipeline has no such computation.
        """
        self.saw = True
        row = self._rows(computation).get(key)
        return self.decode_state(computation, key, b"" if row is None else row.state)

    def states(self, computation: str) -> Mapping[str, Any]:
        """Return the states of a computation by key, in the order of their first writes.

        Raises:
            NotInPipelineError: the pipeline has no such computation.
        """
        self.widely = True
        self.empty[f"states({computation!r})"] = None
        return _States(self, computation, self._rows(computation))

    def initial_state(self, computation: str) -> Any:
        """Return the state of a key that has none. Do not change it.

        Raises:
            NotInPipelineError: the pipeline has no such computation.
        """
        self._world.check("computation", computation)
        return self.decode_state(computation, "", b"")

    def timers(self, computation: str, key: str) -> tuple[Timer, ...]:
        """Return the pending timers of a key, in the order in which they are due.

        Raises:
            NotInPipelineError: the pipeline has no such computation.
        """
        self.saw = True
        row = self._rows(computation).get(key)
        stored = sorted(row.timers.values(), key=lambda timer: timer.order) if row else []
        return tuple(Timer(timer.tag, timer.timestamp, timer.clock) for timer in stored)

    def hold(self, computation: str, key: str) -> int | None:
        """Return the event time at which the state of a key holds the low watermark, microseconds; ``None``: it does not.

        Raises:
            NotInPipelineError: the pipeline has no such computation.
        """
        self.saw = True
        row = self._rows(computation).get(key)
        return None if row is None or row.hold >= MAX_TIME else row.hold

    def inputs(self, stream: str | None = None) -> tuple[RecordView, ...]:
        """Return what has been injected so far, each record once, in the order of first injection.

        Args:
            stream: only this one; default: all.

        Raises:
            NotInPipelineError: the pipeline has no such stream.
        """
        return self._views("inputs", self._inputs, self._world.inputs, stream)

    def outputs(self, stream: str | None = None) -> tuple[RecordView, ...]:
        """Return what has gone outside so far, each record once, in the order of arrival there.

        Args:
            stream: only this one; default: all.

        Raises:
            NotInPipelineError: the pipeline has no such stream.
        """
        return self._views("outputs", self._outputs, self._world.outputs, stream)

    def table(self, name: str = "") -> list[Any]:
        """Return the values of the records on a stream, or of all ``input`` or ``output``, for a promise about tables.

        ``name``: of the stream; ``""``: all that left.

        Raises:
            NotInPipelineError: the pipeline has no such stream.
        """
        named = {INPUT: self.inputs, OUTPUT: self.outputs, "": self.outputs, GIVEN: self.inputs}
        views = named[name]() if name in named else (*self.inputs(name), *self.outputs(name))
        return [view.value for view in views]

    def has_stream(self, name: str) -> bool:
        """Return whether the pipeline has a stream, for a promise that judges several pipelines."""
        return self._world.has_stream(name)

    def low_watermark(self, name: str) -> int:
        """Return the last broadcast low watermark of a computation or injector, event time in microseconds.

        `MIN_TIME`: not known yet; `MAX_TIME`: its input has ended.

        Raises:
            NotInPipelineError: the pipeline has neither of this name.
        """
        self.saw = True
        self._world.check("computation or injector", name)
        return self._world.low_watermark(name)

    def encode(self, stream: str, value: Any) -> bytes:
        """Encode a value as the stream's codec does, to compare it with `RecordView.data`.

        Raises:
            NotInPipelineError: the pipeline has no such stream.
        """
        self._world.check("stream", stream)
        return self._world.codec(stream).encode(value)

    # For the harness

    def decode_state(self, computation: str, key: str, data: Encoded) -> Any:
        """Decode a row's state, each only once."""
        known = self._states.get((computation, key))
        if known is not None and known[0] == data:
            return known[1]
        self.saw = True
        spec = self._world.topology.computations[computation]
        value = self._lender.decode(
            spec.state_codec, data or spec.initial_state, "the state of key {!r} of {!r}", key, computation
        )
        self._states[computation, key] = (data, value)
        return value

    def views(self, arrivals: tuple[SeenRecord, ...]) -> tuple[RecordView, ...]:
        """Show records."""
        return tuple(RecordView(arrival, self._world, self._lender) for arrival in arrivals)

    def changed_value(self) -> str:
        """Name a value that the promise has changed; ``""``: none since the last call."""
        changed = self._lender.changed()
        self._states.clear()
        self._inputs.clear()
        self._outputs.clear()
        return changed

    def _rows(self, computation: str) -> Mapping[str, Any]:
        rows = self._world.rows.get(computation)
        if rows is None:
            self._world.check("computation", computation)
            return {}
        return rows

    def _views(
        self, called: str, views: list[RecordView], arrivals: list[SeenRecord], stream: str | None
    ) -> tuple[RecordView, ...]:
        self.widely = True
        if len(views) < len(arrivals):
            views += [RecordView(arrival, self._world, self._lender) for arrival in arrivals[len(views) :]]
        if stream is not None:
            self._world.check("stream", stream)
        on_stream = tuple(view for view in views if stream is None or view.stream == stream)
        if on_stream:
            self.saw = True
            return on_stream
        self.empty[f"{called}({'' if stream is None else repr(stream)})"] = None
        return _NoRecords(self)


class _NoRecords(tuple[RecordView, ...]):  # noqa: SLOT001  a tuple cannot have slots
    """No records. Whoever asks how many there are has seen something; whoever goes through them has not."""

    _moment: Moment

    def __new__(cls, moment: Moment) -> Self:
        empty = super().__new__(cls)
        empty._moment = moment
        return empty

    def __len__(self) -> int:
        self._moment.saw = True
        return 0

    def __contains__(self, view: object) -> bool:
        self._moment.saw = True
        return False

    def __eq__(self, other: object) -> bool:
        self._moment.saw = True
        return other == ()

    def __hash__(self) -> int:
        return hash(())


class _States(Mapping[str, Any]):
    """The states of a computation, decoded on access."""

    __slots__ = ("_computation", "_moment", "_rows")

    def __init__(self, moment: Moment, computation: str, rows: Mapping[str, Any]) -> None:
        self._moment = moment
        self._computation = computation
        self._rows = rows

    def __getitem__(self, key: str) -> Any:
        row = self._rows[key]
        if not row.state:
            raise KeyError(key)
        return self._moment.decode_state(self._computation, key, row.state)

    def __iter__(self) -> Iterator[str]:
        for key, row in self._rows.items():
            if row.state:
                self._moment.saw = True
                yield key

    def __len__(self) -> int:
        self._moment.saw = True
        return sum(1 for row in self._rows.values() if row.state)
