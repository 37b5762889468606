"""Hand-written Histories: a small builder, and one healthy run that every checker holds for.

``queries`` -> ``counter`` -> ``detector`` -> outside. Times of day are in milliseconds, event times are bare numbers.
"""

from typing import Any

from headrace import MIN_TIME, Clock, Computation, KeyInterval, Pipeline
from headrace.history import (
    AckSent,
    Applied,
    CheckpointsDeleted,
    Event,
    Executed,
    IdsCollected,
    Injected,
    InjectorReported,
    InputWatermarkAdvanced,
    IntervalMinted,
    Output,
    Published,
    Reported,
    RunEnded,
    ScanEnded,
)
from headrace.wire.messages import Progress
from headrace.wire.rows import Asked, Production, RowDelta, StoredTimer, Version
from headrace_properties.checkers import judge
from headrace_properties.verdict import Verdict, Violated

ALL = KeyInterval()


def counting(**counter: Any) -> Pipeline:
    """The pipeline of the stories. ``counter``: switches of its first computation."""
    pipeline = Pipeline("counting")
    pipeline.injector("queries")
    pipeline.add(Computation(), name="counter", inputs=["queries"], outputs=["counts"], **counter)
    pipeline.add(Computation(), name="detector", inputs=["counts"], outputs=["dips"])
    return pipeline


def record(
    record_id: str, consumer: str, ts: int, *, value: bytes = b"1", origin: int = 0, key: str = "cats"
) -> Production:
    """A production on its way."""
    stream = {"counter": "queries", "detector": "counts"}.get(consumer, "dips")
    return Production(record_id, stream, consumer, key, value, ts, origin)


def timer(
    tag: str, at: int, number: int, *, sequencer: int = 1, clock: Clock = Clock.WATERMARK
) -> StoredTimer:
    """A pending timer that version ``sequencer.number`` has set."""
    return StoredTimer(
        tag, at, clock, at, overdue=False, hold=None, set_by=Version(sequencer, number), origin=0
    )


class Story:
    """Writes a History, a millisecond an event."""

    def __init__(self, *pipelines: Pipeline) -> None:
        self.pipelines = pipelines or (counting(),)
        self.events: list[Event] = []
        self.now = 0

    def add(self, event: Event) -> Event:
        self.events.append(event)
        return event

    def tick(self, ms: int = 1) -> int:
        self.now += ms * 1000
        return self.now

    def own(
        self, computation: str, sequencer: int, owner: str = "worker-0", interval: KeyInterval = ALL
    ) -> None:
        """Mint and scan an interval that has nothing yet."""
        self.mint(computation, sequencer, owner, interval)
        self.scan(computation, sequencer, owner, interval)

    def mint(
        self, computation: str, sequencer: int, owner: str = "worker-0", interval: KeyInterval = ALL
    ) -> None:
        self.add(IntervalMinted(self.tick(), "store", computation, interval, sequencer, owner, 1))

    def scan(
        self, computation: str, sequencer: int, owner: str = "worker-0", interval: KeyInterval = ALL, *,
        timers: tuple[tuple[str, str], ...] = (), productions: tuple[tuple[str, str], ...] = (),
    ) -> None:  # fmt: skip
        self.add(ScanEnded(self.tick(), owner, computation, interval, sequencer, 0, timers, productions))

    def inject(
        self, offset: int, ts: int, *, watermark: int = MIN_TIME, origin: int = 0, value: bytes = b"1"
    ) -> Production:
        production = record(f"queries/0:{offset}", "counter", ts, origin=origin, value=value)
        self.add(Injected(self.tick(), "queries/0", offset, watermark, (production,)))
        return production

    def run(
        self, computation: str, number: int, cause: Production | StoredTimer, *productions: Production, sequencer: int = 1,
        watermark: int = 0, process: str = "worker-0", asked: Asked | None = None,
    ) -> None:  # fmt: skip
        """User code runs; nothing is written yet."""
        fired = cause if isinstance(cause, StoredTimer) else None
        identity = (
            f"{computation}@{cause.set_by}!{cause.tag}" if isinstance(cause, StoredTimer) else cause.record_id
        )
        self.add(
            Executed(
                at_us=self.tick(),
                process=process,
                computation=computation,
                key="cats",
                cause=identity,
                timestamp=cause.timestamp,
                late=False,
                timer=fired,
                input_watermark=watermark,
                version=Version(sequencer, number),
                productions=productions,
                asked=asked,
            )
        )

    def write(
        self,
        /,
        computation: str,
        number: int,
        *,
        sequencer: int = 1,
        live: int | None = None,
        key: str = "cats",
        **changes: Any,
    ) -> None:
        """The store applies a delta."""
        live = sequencer if live is None else live
        self.add(
            Applied(self.tick(), "store", computation, sequencer, live, RowDelta(key, number, **changes))
        )

    def take(
        self,
        /,
        computation: str,
        number: int,
        taken: Production,
        *made: Production,
        sequencer: int = 1,
        **changes: Any,
    ) -> None:
        """A strong step for a record: run, written, ACKed."""
        self.run(computation, number, taken, *made, sequencer=sequencer)
        seen = ((taken.record_id, taken.origin),)
        self.write(computation, number, sequencer=sequencer, seen=seen, productions=made, **changes)
        self.ack(computation, taken.record_id)

    def fire(
        self, /, computation: str, number: int, fired: StoredTimer, *made: Production, sequencer: int = 1,
        watermark: int | None = None, **changes: Any,
    ) -> None:  # fmt: skip
        """A strong step for a timer: run and written."""
        known = fired.due if watermark is None else watermark
        self.run(computation, number, fired, *made, sequencer=sequencer, watermark=known)
        self.write(computation, number, sequencer=sequencer, fired=(fired,), productions=made, **changes)

    def delete(
        self,
        computation: str,
        *gone: Production,
        sequencer: int = 1,
        live: int | None = None,
        key: str = "cats",
    ) -> None:
        """The store deletes checkpoints."""
        live = sequencer if live is None else live
        checkpoints = tuple((key, production.record_id, production.consumer) for production in gone)
        self.add(CheckpointsDeleted(self.tick(), "store", computation, sequencer, live, checkpoints))

    def ack(self, computation: str, *record_ids: str, process: str = "worker-0") -> None:
        self.add(AckSent(self.tick(), process, computation, record_ids, "sender"))

    def report(self, low: int, horizon: int = 0) -> None:
        self.add(InjectorReported(self.tick(), "queries/0", "queries", low, horizon))

    def owner_reports(
        self, computation: str, low: int, horizon: int = 0, *, sequencer: int = 1, process: str = "worker-0",
        interval: KeyInterval = ALL,
    ) -> None:  # fmt: skip
        self.add(Reported(self.tick(), process, computation, interval, sequencer, low, horizon))

    def collect(self, computation: str, below: int, count: int, interval: KeyInterval = ALL) -> None:
        """The store deletes ids."""
        self.add(IdsCollected(self.tick(), "store", computation, interval, below, count))

    def publish(self, name: str, low: int, horizon: int = 0, process: str = "authority-0.0") -> None:
        self.add(Published(self.tick(), process, ((name, Progress(low, horizon)),)))

    def advance(self, computation: str, low: int, *, sequencer: int = 1, process: str = "worker-0") -> None:
        self.add(InputWatermarkAdvanced(self.tick(), process, computation, sequencer, low))

    def output(self, production: Production) -> None:
        self.add(Output(self.tick(), "outside", production))

    def end(self, why: str = "quiescent") -> None:
        self.add(RunEnded(self.tick(), "", why))

    def verdicts(self) -> dict[str, Verdict]:
        return judge(self.events, self.pipelines)

    def violated(self, name: str) -> str:
        """Return the message of a required violation."""
        verdict = self.verdicts()[name]
        assert isinstance(verdict, Violated), f"{name} is {verdict}"
        assert verdict.witness
        assert all(event in self.events for event in verdict.witness)
        return verdict.message

    def broken(self) -> set[str]:
        """Return the names of all violated invariants."""
        return {name for name, verdict in self.verdicts().items() if isinstance(verdict, Violated)}


def begin(*pipelines: Pipeline) -> Story:
    """Both computations have an owner."""
    story = Story(*pipelines)
    story.own("counter", 1)
    story.own("detector", 2)
    return story


def healthy() -> Story:
    """One query is counted; the timer of its window produces the count, and a detector reports a dip."""
    story = begin()
    query = story.inject(0, 100, origin=5)
    window = timer("w", 200, 1)
    story.take("counter", 1, query, set_timers=(window,))
    story.report(300, horizon=10)
    story.publish("queries", 300, horizon=10)
    story.advance("counter", 300)
    story.collect("counter", 6, 1)
    story.owner_reports("counter", 200, horizon=5)
    story.publish("counter", 200, horizon=5)
    count = record("counter@1.2#0", "detector", 200, origin=10)
    story.fire("counter", 2, window, count, watermark=300)
    dip = record("detector@2.1#0", "", 200, origin=10)
    story.take("detector", 1, count, dip, sequencer=2)
    story.owner_reports("counter", 300, horizon=10)
    story.publish("counter", 300, horizon=10)
    story.output(dip)
    story.delete("counter", count)
    story.owner_reports("detector", 300, horizon=10, sequencer=2)
    story.publish("detector", 300, horizon=10)
    story.end()
    return story
