"""Figure 12 (MillWheel 6.2): "Transactions cannot prevent inconsistencies in soft state", in its two forms.

Both begin alike: A produces a record to B; B's write is delayed on the wire; B is cut off from the master, which replaces it by
B'. B' scans its rows before the write arrives. With sequencers the write is then refused, A is not ACKed, and sends again
to B'. Without them it is applied, A is ACKed and forgets, B dies, and B' knows nothing of what the row now holds.
"""

import json

from headrace import SECOND, Computation, Context, EngineOptions, Pipeline, Record, Timer, format_time
from headrace import history as h
from headrace.wire.messages import Progress, SplitInterval
from headrace_properties.explain.pictures.timeline import STORE_LANE, TimelineLane
from headrace_scenarios.scenario import Scenario, Story
from headrace_sim import ClusterOptions, FeedBuilder, Protocol, start
from headrace_sim.faults import DelayCommit, Partition

WINDOW_US = SECOND
MASTERS = ("master-0", "master-1")
AUTHORITIES = ("authority-0.0", "authority-0.1")


class Forwarder(Computation):
    """Passes every record on: A in the figure, and B in its second form."""

    def __init__(self, stream: str) -> None:
        self._stream = stream

    def process_record(self, context: Context, record: Record) -> None:
        """Produce the record unchanged."""
        context.produce(self._stream, record.value)


class Windower(Computation):
    """Counts the records of a window, and produces the count once the watermark has passed its end (Figure 9)."""

    def process_record(self, context: Context, record: Record) -> None:
        """Count the record unless it is late."""
        if record.late:
            context.produce("late", record.value)
            return
        window = str(record.timestamp // WINDOW_US)
        context.state[window] = context.state.get(window, 0) + 1
        context.set_timer(f"window {window}", (record.timestamp // WINDOW_US + 1) * WINDOW_US)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Produce the count."""
        window = timer.tag.removeprefix("window ")
        context.produce("counts", {"window": window, "count": context.state.pop(window)}, timer.timestamp)


def timer_pipeline() -> Pipeline:
    """Build A -> B: B keeps a window's count and its timer."""
    pipeline = Pipeline("figure 12")
    pipeline.injector("searches")
    pipeline.add(Forwarder("from_a"), name="A", inputs=["searches"], outputs=["from_a"])
    pipeline.add(Windower(), name="B", inputs=["from_a"], outputs=["counts", "late"])
    return pipeline


def production_pipeline() -> Pipeline:
    """Build A -> B -> C: B keeps only checkpoints of its productions; C counts."""
    pipeline = Pipeline("figure 12, last part")
    pipeline.injector("searches")
    pipeline.add(Forwarder("from_a"), name="A", inputs=["searches"], outputs=["from_a"])
    pipeline.add(Forwarder("from_b"), name="B", inputs=["from_a"], outputs=["from_b"])
    pipeline.add(Windower(), name="C", inputs=["from_b"], outputs=["counts", "late"])
    return pipeline


def zombie(pipeline: Pipeline, protocol: Protocol, *, first_key: str, cut_from: str = "") -> Story:
    """Run the part that both forms share.

    Args:
        pipeline: with computations A and B.
        protocol: the state machines.
        first_key: key of a record that arrives before any fault.
        cut_from: a computation whose owner B cannot reach either.
    """
    feed = FeedBuilder(pipeline)
    feed.record(at_us=1_500_000, value="first", timestamp=1_100_000, key=first_key)
    feed.record(at_us=2 * SECOND, value="second", timestamp=1_200_000, key="cat videos")
    feed.watermark(at_us=6 * SECOND, low_watermark=3 * SECOND)
    feed.watermark(at_us=16 * SECOND, low_watermark=4 * SECOND)
    # B does not repeat its write.
    patient = ClusterOptions(workers=5, engine=EngineOptions(store_timeout_us=10 * SECOND))
    story = Story(start(pipeline, feed.build(), options=patient, protocol=protocol), pipeline)
    cluster = story.cluster

    cluster.run_until(1_900_000)  # The first record has long been processed.
    a, b = story.owner("A"), story.owner("B")
    others = (*MASTERS, *AUTHORITIES, *([story.owner(cut_from)] if cut_from else []))
    # B's transaction is delayed on the wire, B seems dead to the master, and A learns of it late.
    cluster.store.expect(DelayCommit(at_us=0, process=b, by_us=3 * SECOND))
    away = cluster.network.begin(Partition(at_us=0, side=(b,), other=others, for_us=0))
    deaf = cluster.network.begin(Partition(at_us=0, side=MASTERS, other=(a,), for_us=0, one_way=True))

    # B' gets the keys, scans and begins; then B's transaction reaches the store.
    cluster.run_until(5_300_000)
    cluster.crash(b)
    cluster.release(away)
    cluster.release(deaf)
    cluster.run_until(12 * SECOND)  # The watermark has passed the window's end.
    successor = story.owner("B")
    # B' scans again when its interval is split, and finds what it never saw.
    cluster.operate(SplitInterval("B", "m"))
    cluster.heal()
    cluster.run_to_the_end()
    story.lanes = (
        TimelineLane(a, "A", "A"), TimelineLane(b, "B (zombie)", "B"), STORE_LANE, TimelineLane(successor, "B'", "B"),
        TimelineLane("", "watermarks", "B"),
    )  # fmt: skip
    return story


def tell_lost_timer(protocol: Protocol) -> Story:
    """Tell the first form: B's write sets a timer."""
    story = zombie(timer_pipeline(), protocol, first_key="dog videos")
    story.conclusion = _timer_conclusion(story)
    return story


def tell_missed_production(protocol: Protocol) -> Story:
    """Tell the second form: B's write checkpoints a production, and B cannot reach C."""
    story = zombie(production_pipeline(), protocol, first_key="cat videos", cut_from="C")
    story.conclusion = _production_conclusion(story)
    return story


def _timer_conclusion(story: Story) -> list[str]:
    events = story.cluster.history.events
    refused = sum(isinstance(event, h.WriteRefused) for event in events)
    stale = [event for event in events if isinstance(event, h.Applied) and event.sequencer != event.live]
    passed = next(
        event.at_us
        for event in events
        if isinstance(event, h.Published)
        and dict(event.values).get("A", Progress()).low_watermark >= 2 * SECOND
    )
    fired = [e for e in events if isinstance(e, h.Executed) and e.timer is not None and e.key == "cat videos"]
    delay_us = fired[-1].at_us - passed
    if stale:
        first = f"The zombie's write was applied {format_time(stale[0].at_us)} into the run, after its successor's scan."
    else:
        first = f"The zombie's late write was refused ({refused} refused); A sent its record again, to B'."
    return [
        first,
        f"The timer of 'cat videos' was due at {format_time(passed)} and fired {format_time(delay_us)} later.",
    ]


def _production_conclusion(story: Story) -> list[str]:
    outputs = [event.production for event in story.cluster.history if isinstance(event, h.Output)]
    counts = [output.value.decode() for output in outputs if output.stream == "counts"]
    late = [output.value.decode() for output in outputs if output.stream == "late"]
    counted = f"Two searches fell into window 1; C counted {' and '.join(counts) or 'nothing'}."
    if late:
        return [counted, f"Late at C: {', '.join(late)}: the watermark had run ahead of it."]
    if sum(json.loads(count)["count"] for count in counts) < 2:
        return [
            counted,
            "The other one is lost: watermark and horizon had run ahead of it, and C took it for a remnant.",
        ]
    return [counted, "Nothing came late."]


ZOMBIE_TIMER = Scenario(
    name="zombie-timer",
    title="A zombie's late write sets a timer that its successor never learns of",
    source="MillWheel 6.2, Figure 12",
    story=__doc__.split("\n\n", 1)[1].strip() + " The row holds a timer.",
    tell=tell_lost_timer,
)

ZOMBIE_PRODUCTION = Scenario(
    name="zombie-production",
    title="A checkpointed production eludes the scan, and the low watermark runs ahead of it",
    source="MillWheel 6.2, after Figure 12",
    story=__doc__.split("\n\n", 1)[1].strip()
    + " The row holds a production to C, and nobody counts it as pending.",
    tell=tell_missed_production,
)
