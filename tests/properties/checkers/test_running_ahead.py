"""The skew limit, percentile watermarks, sequencers, and what a computation that leaves is owed."""

from functools import partial

import pytest

from headrace import Computation, KeyInterval, Pipeline
from headrace.history import (
    ComputationRemoved,
    FaultStruck,
    Healed,
    IntervalMinted,
    ProcessStarted,
    Published,
    SourceHeld,
    VersionAdopted,
)
from headrace.wire.effects import SourceRecord, SourceWatermark
from headrace.wire.messages import Progress
from headrace_properties.checkers import judge
from tests.properties.checkers.steps import (
    QUERY,
    Row,
    Step,
    add,
    check,
    holds,
    inject,
    publish,
    spares,
    take,
    unknown,
    violates,
    wait,
)
from tests.properties.stories import Story, begin, counting, record


def limited() -> Story:
    """Records may be 50 ahead; nothing is known of the detector in the first version, which has it."""
    versions = []
    for detects in (True, False):
        pipeline = Pipeline("limited")
        pipeline.injector("queries", skew_limit_us=50)
        pipeline.add(Computation(), name="counter", inputs=["queries"], outputs=["counts"])
        if detects:
            pipeline.add(Computation(), name="detector", inputs=["counts"], outputs=["dips"])
        versions.append(pipeline)
    return begin(*versions)


def outliers(percent: float = 80) -> Story:
    """The detector follows a percentile of the counts; one of three records stays pending."""
    pipeline = Pipeline("outliers")
    pipeline.injector("queries")
    pipeline.add(Computation(), name="counter", inputs=["queries"], outputs=["counts"])
    pipeline.add(
        Computation(), name="detector", inputs=["counts"], outputs=["dips"], watermark_percentile=percent
    )
    return begin(pipeline)


def percentile(low_us: int, percent: float = 80, *, low_watermark: int = 0) -> Step:
    """The authority broadcasts a percentile watermark of the counts."""
    return add(Published, "authority-0.0", (("counter", Progress(low_watermark, 0, ((percent, low_us),))),))


def lone(offset: int, timestamp: int) -> Step:
    """A record of an origin of its own."""
    return inject(offset, timestamp, origin=offset + 1)


# fmt: off
HISTORIES: dict[str, Row] = {
    # S18
    "a record ahead of the slowest by more than the limit is caught": (
        limited, publish("counter", 100), publish("detector", 90), inject(0, 140), spares("S18"), inject(1, 141),
        violates("S18", "the record at offset 1, with timestamp 0.000141s", "of 'detector' was 0.000090s, and the limit is")),
    "a computation of which nothing is known is the slowest": (
        limited, publish("counter", 100), inject(0, 100),
        violates("S18", "the low watermark of 'detector' was unknown")),
    "a late record does not wait": (
        limited, inject(0, 100, watermark=101),
        unknown("S18", "no record was injected under a skew limit")),
    "a computation that is not in the injector's version is not waited for": (
        limited, publish("counter", 100), add(VersionAdopted, "queries/0", 1), inject(0, 150),
        holds("S18", 1)),
    "a new incarnation begins with the first version": (
        limited, publish("counter", 100), add(VersionAdopted, "queries/0", 1),
        add(ProcessStarted, "queries/0", 2), inject(0, 150),
        violates("S18")),
    # S19
    "a percentile that passes more than its share is caught": (
        outliers, lone(0, 100), lone(1, 110), wait(2_000), percentile(105),
        violates("S19", "the 80 % watermark of 'counter' was broadcast as 0.000105s", "of 1 that it passed; 0 of 4")),
    "records that reports may name twice are counted twice": (
        outliers, lone(0, 100), lone(1, 110), lone(2, 120), wait(2_000), percentile(105),
        holds("S19", 1)),
    "a percentile that passes its share holds": (
        partial(outliers, 50.0), lone(0, 100), lone(1, 110), wait(2_000), percentile(105, 50.0),
        holds("S19", 1)),
    "what the authority may not have heard of is not held against it": (
        outliers, lone(0, 100), wait(500), percentile(105),
        holds("S19", 1)),
    "nothing is held against it while faults strike": (
        outliers, lone(0, 100), add(FaultStruck, "worker-0", "pause", ""), wait(2_000), percentile(105),
        unknown("S19"),
        add(Healed, "", ()), wait(2_000), percentile(106),
        violates("S19")),
    **{f"nor while what {kind} kept back may still come": (
        outliers, lone(0, 100), add(FaultStruck, "authority-0.0", kind, ""), add(Healed, "", ()), wait(4_900), percentile(105),
        unknown("S19"),
        wait(200), percentile(106),
        violates("S19")) for kind in ("noise_delay", "noise_duplicate", "delay_message", "duplicate_message")},
    "what is done is not passed": (
        outliers, lone(0, 100), take("counter", 1, record("queries/0:0", "counter", 100, origin=1)), wait(2_000), percentile(105),
        holds("S19", 1)),
    "after a late record of the source nothing is judged": (
        outliers, lone(0, 100), add(SourceHeld, "queries/0", SourceWatermark(0, 200)),
        add(SourceHeld, "queries/0", SourceRecord(1, "queries", "cats", b"1", 199)), wait(2_000), percentile(105),
        unknown("S19", "no percentile watermark ahead of the low watermark was broadcast")),
    "a percentile behind the low watermark is caught": (
        outliers, percentile(99, low_watermark=100),
        violates("S19", "the 80 % watermark of 'counter' was broadcast as 0.000099s", "behind its low watermark, 0.000100s")),
    "a percentile that is the low watermark tells nothing": (
        outliers, percentile(100, low_watermark=100),
        unknown("S19")),
    # S6
    "a sequencer that is minted twice is caught": (
        begin, add(IntervalMinted, "store", "detector", KeyInterval("m"), 1, "worker-1", 1),
        violates("S6", "sequencer 1 was minted twice: for 'counter' ['', end)", "for 'detector' ['m', end)")),
    # S1
    "a computation that leaves while it is owed something is caught": (
        begin, inject(0, 100), add(ComputationRemoved, "store", "counter"),
        violates("S1", "'counter' left the topology", "record queries/0:0")),
    "a computation may leave when it has got everything": (
        begin, inject(0, 100), take("counter", 1, QUERY), add(ComputationRemoved, "store", "counter"),
        spares("S1")),
}
# fmt: on


@pytest.mark.parametrize("row", HISTORIES.values(), ids=HISTORIES)
def test_checkers_give_the_expected_verdicts(row: Row) -> None:
    check(row)


def test_they_are_judged_only_where_they_apply() -> None:
    assert not {"S18", "S19"} & judge([], [counting()]).keys()
    assert {"S18"} == {"S18", "S19"} & judge([], limited().pipelines).keys()
    assert {"S19"} == {"S18", "S19"} & judge([], outliers().pipelines).keys()
