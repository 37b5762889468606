"""What is durable, what was injected and what went outside, replayed from a History in its true order.

It holds bytes only; `headrace_properties.promises.moment` decodes what a promise asks for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace import MAX_TIME, MIN_TIME, Codec, Encoded, Pipeline
from headrace.api.errors import did_you_mean
from headrace.history import (
    Applied,
    ComputationRemoved,
    Event,
    Executed,
    Injected,
    KeysSampled,
    Output,
    Published,
)
from headrace.wire.rows import Production, StoredTimer
from headrace_properties.checkers.topology_union import TopologyUnion
from headrace_properties.promises.promise_errors import NotInPipelineError


@dataclass(slots=True, eq=False)
class SeenRecord:
    """A record that was injected, went outside, or was produced by a step.

    Attributes:
        number: of the event in the History.
        event: that brought it.
        production: the record, as it was addressed to its first consumer.
        consumers: the names of all its consumers.
    """

    number: int
    event: Event
    production: Production
    consumers: tuple[str, ...]


@dataclass(slots=True, eq=False)
class RowView:
    """The store's contents for a key.

    Attributes:
        state: encoded; ``b""``: none.
        hold: event time at which the state holds the watermark; `MAX_TIME`: no hold.
        timers: by tag.
    """

    state: Encoded = b""
    hold: int = MAX_TIME
    timers: dict[str, StoredTimer] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class DurableStep:
    """A durable change of a row.

    Attributes:
        number: of the event in the History.
        event: the write.
        key: of the row, as user code knows it.
        before: the state before it, encoded; ``b""``: none.
        after: the state after it.
        consumed: the records that it consumed, as far as the History tells.
        produced: the records that it made durable, one for each consumer.
    """

    number: int
    event: Applied
    key: str
    before: Encoded
    after: Encoded
    consumed: tuple[SeenRecord, ...] = ()
    produced: tuple[SeenRecord, ...] = ()


Change = DurableStep | SeenRecord


class World:
    """The world at a moment of a run.

    Args:
        pipelines: the deployed versions.
        key_of: the key as user code knows it, of one in the History.

    Attributes:
        topology: of the versions.
        number: of the last event taken.
        at_us: true time of it, microseconds.
        rows: computation to key to what is durable of it.
        inputs: what was injected, each record once, in the order of first injection.
        outputs: what has gone outside, each record once.
        low: name to its low watermark as broadcast last.
        change: what the last event changed.
        fraction: of the keys that the History has.
    """

    def __init__(self, pipelines: Sequence[Pipeline], key_of: Callable[[str], str] = str) -> None:
        self.topology = TopologyUnion(pipelines)
        self.number = -1
        self.at_us = 0
        self.rows: dict[str, dict[str, RowView]] = {name: {} for name in self.topology.computations}
        self.inputs: list[SeenRecord] = []
        self.outputs: list[SeenRecord] = []
        self.low: dict[str, int] = {}
        self.change: Change | None = None
        self.fraction = 1.0
        self._key_of = key_of
        self._codecs = {
            stream: pipeline.codec(stream) for pipeline in pipelines for stream in pipeline.streams
        }
        computations, injectors = self.topology.computations, self.topology.injectors
        self._names = {
            "computation": computations.keys(),
            "stream": self._codecs.keys(),
            "computation or injector": computations.keys() | injectors.keys(),
        }
        self._seen_inputs: set[str] = set()
        self._seen_outputs: set[str] = set()
        self._sent: dict[tuple[str, str], SeenRecord] = {}
        self._runs: dict[tuple[int, int, str], list[Executed]] = {}
        self.handlers: dict[type, Callable[[Any], None]] = {
            Applied: self._on_applied,
            Output: self._on_output,
            Injected: self._on_injected,
            Published: self._on_published,
            ComputationRemoved: self._on_removed,
            KeysSampled: self._on_sampled,
        }
        if self.topology.weak or self.topology.at_least_once:
            self.handlers[Executed] = self._on_executed

    def take(self, number: int, event: Event) -> None:
        """Take the next event. ``number``: its number in the History."""
        self.number, self.at_us, self.change = number, event.at_us, None
        handler = self.handlers.get(type(event))
        if handler is not None:
            handler(event)

    def check(self, what: str, name: str) -> None:
        """Refuse a name that no version has. ``what``: ``computation``, ``stream`` or ``computation or injector``.

        Raises:
            NotInPipelineError: it is one.
        """
        known = self._names[what]
        if name not in known:
            names = ", ".join(map(repr, sorted(known))) or "none"
            hint = did_you_mean(name, known)
            raise NotInPipelineError(f"there is no {what} {name!r}. {hint}There are: {names}")

    def has_stream(self, name: str) -> bool:
        """Return whether any version has a stream."""
        return name in self._codecs

    def codec(self, stream: str) -> Codec:
        """Return the codec of a stream."""
        return self._codecs[stream]

    def key(self, production: Production) -> str:
        """Return the key of a record, as user code knows it."""
        return self._key_of(production.key) if production.consumer else production.key

    def low_watermark(self, name: str) -> int:
        """Return the last broadcast low watermark of a computation or injector; `MIN_TIME`: none yet."""
        return self.low.get(name, MIN_TIME)

    def _on_applied(self, event: Applied) -> None:
        delta = event.delta
        key = self._key_of(delta.key)
        rows = self.rows[event.computation]
        row = rows.get(key)
        if row is None:
            row = rows[key] = RowView()
        before = row.state
        if delta.state is not None:
            row.state = delta.state
        if delta.hold is not None:
            row.hold = delta.hold
        timers = row.timers
        for fired in delta.fired:
            stored = timers.get(fired.tag)
            if stored is not None and stored.set_by == fired.set_by:
                del timers[fired.tag]
        for tag in delta.cancelled:
            timers.pop(tag, None)
        for timer in delta.set_timers:
            timers[timer.tag] = timer
        self.change = step = DurableStep(self.number, event, key, before, row.state)
        self._link(step)

    def _link(self, step: DurableStep) -> None:
        """Find what a step consumed and produced: in its write or, failing that, in the executions it makes durable."""
        event, delta = step.event, step.event.delta
        computation = event.computation
        runs = self._runs.pop((event.sequencer, delta.number, delta.key), []) if self._runs else []
        ids = [record_id for record_id, _ in delta.seen]
        if computation in self.topology.at_least_once:
            ids = [run.cause for run in runs if run.timer is None]
        productions = delta.productions
        if computation in self.topology.weak:
            checkpointed = {(production.consumer, production.record_id) for production in productions}
            productions += tuple(
                production
                for run in runs
                for production in run.productions
                if (production.consumer, production.record_id) not in checkpointed
            )
        if ids:
            arrivals = [self._sent.get((computation, record_id)) for record_id in ids]
            step.consumed = tuple(arrival for arrival in arrivals if arrival is not None)
        if productions:
            step.produced = tuple(self._send(event, production) for production in productions)

    def _send(self, event: Event, production: Production) -> SeenRecord:
        arrival = SeenRecord(self.number, event, production, (production.consumer,))
        self._sent[production.consumer, production.record_id] = arrival
        return arrival

    def _on_executed(self, event: Executed) -> None:
        version = (event.version.sequencer, event.version.number, event.key)
        self._runs.setdefault(version, []).append(event)
        if event.computation in self.topology.weak:  # sent before it is durable
            for production in event.productions:
                self._send(event, production)

    def _on_injected(self, event: Injected) -> None:
        arrivals: dict[str, list[Production]] = {}
        for production in event.productions:
            if production.record_id not in self._seen_inputs:
                arrivals.setdefault(production.record_id, []).append(production)
        for record_id, productions in arrivals.items():
            self._seen_inputs.add(record_id)
            consumers = tuple(production.consumer for production in productions)
            self.change = arrival = SeenRecord(self.number, event, productions[0], consumers)
            self.inputs.append(arrival)
            for sent in productions:
                self._sent[sent.consumer, record_id] = SeenRecord(self.number, event, sent, (sent.consumer,))

    def _on_output(self, event: Output) -> None:
        production = event.production
        if production.record_id not in self._seen_outputs:
            self._seen_outputs.add(production.record_id)
            self.change = SeenRecord(self.number, event, production, (production.consumer,))
            self.outputs.append(self.change)

    def _on_published(self, event: Published) -> None:
        for name, progress in event.values:
            self.low[name] = progress.low_watermark

    def _on_removed(self, event: ComputationRemoved) -> None:
        self.rows[event.computation] = {}

    def _on_sampled(self, event: KeysSampled) -> None:
        self.fraction = event.fraction
