"""Transcripts and random groupings in the simulated cluster: pane for pane without faults, and the same in the end with them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from headrace import MILLISECOND, MINUTE, SECOND
from headrace.dataflow import (
    END_OF_TIME,
    Accumulation,
    GlobalWindows,
    Pane,
    TimestampCombiner,
    Timing,
    Window,
    read,
)
from headrace.history import FaultStruck, Output
from headrace_properties.checkers import judge
from headrace_properties.proof.mutants import MUTANTS
from headrace_properties.search.plans import PLAN_BYTES, decode_plan, ground_of
from headrace_properties.settling import Settled, settled
from headrace_properties.verdict import Violated
from headrace_scenarios.figures.groupings import LOST, EmittedPane, committed_panes, feed_of
from headrace_sim import SOUND, ClusterOptions, FaultSchedule, Protocol, simulate
from headrace_sim import faults as f
from tests.core.dataflow.chunked import badly_kept, in_small_chunks
from tests.core.dataflow.drawn_groupings import GroupingCase, cases
from tests.core.dataflow.model import run_model
from tests.core.dataflow.test_transcripts import ALL
from tests.core.dataflow.transcripts.cluster_runs import (
    PROMPT,
    TOLERANCE_US,
    bare,
    cluster_mismatches,
    in_the_models_order,
    lost_elements,
    pipeline_of,
    received_panes,
    run_cluster,
    until_the_end,
)
from tests.core.dataflow.transcripts.format import Transcript
from tests.core.dataflow.transcripts.matching import settles

FED = [transcript for transcript in ALL if transcript.can_be_fed and not transcript.wrong]
NEGATIVE = [transcript for transcript in ALL if transcript.can_be_fed and transcript.wrong]
SETTLING = [transcript for transcript in FED if settles(transcript.query)]

pytestmark = pytest.mark.slow

CALM = ClusterOptions(
    engine=replace(
        PROMPT.engine, report_period_us=30 * MILLISECOND, injector_journal_us=30 * MILLISECOND,
        broadcast_period_us=30 * MILLISECOND, sweep_period_us=SECOND, lease_us=10 * SECOND, collect_period_us=MINUTE,
        balance_period_us=MINUTE, masters=1, authority_replicas=1,
    ),
    check_period_us=SECOND,
)  # fmt: skip
"""For runs without faults: the watermark is prompt, and nobody else is woken often."""
STORMY = ClusterOptions(check_period_us=SECOND)
"""For runs with faults, in which a pane may come at any time."""


@pytest.mark.parametrize("transcript", FED, ids=lambda one: one.name)
def test_the_cluster_tells_the_transcript(transcript: Transcript) -> None:
    """As the model does until the end of the source, within the time that messages take."""
    query, steps = transcript.query, until_the_end(transcript.steps)
    panes = committed_panes(run_cluster(query, transcript.steps, options=CALM), pipeline_of(query))
    told = run_model(query, steps).panes
    assert bare(panes) == bare(told)
    assert lateness_us(panes, told) <= TOLERANCE_US
    assert cluster_mismatches(transcript, panes) == []


@pytest.mark.parametrize("transcript", NEGATIVE, ids=lambda one: one.name)
def test_what_a_negative_transcript_gets_wrong_is_reported_by_the_cluster(transcript: Transcript) -> None:
    query = transcript.query
    panes = committed_panes(run_cluster(query, transcript.steps, options=CALM), pipeline_of(query))
    assert cluster_mismatches(transcript, panes)


def storm(steps_end_us: int) -> FaultSchedule:
    """Every machine crashes in turn, writes come late or twice, a zombie wakes up, and the network is bad throughout."""
    parts = [steps_end_us * number // 12 for number in range(12)]
    return FaultSchedule(
        (
            f.Noise(at_us=0, for_us=steps_end_us, drop=0.1, duplicate=0.1, delay=0.2, delay_us=SECOND),
            *(
                f.Crash(at_us=parts[n], process=f"worker-{n % 3}", restart_after_us=SECOND)
                for n in (2, 5, 8, 11)
            ),
            *(
                f.DelayCommit(at_us=parts[n], process=f"worker-{n % 3}", by_us=2 * SECOND)
                for n in (1, 4, 6, 9)
            ),
            *(f.LoseReply(at_us=parts[n], process=f"worker-{n % 3}") for n in (3, 7, 10)),
            f.Pause(at_us=parts[6], process="worker-1", for_us=4 * SECOND),
            f.Crash(at_us=parts[7], process="events/0", restart_after_us=SECOND),
            f.Crash(at_us=parts[8], process="authority-0.0", restart_after_us=SECOND),
        ),
        heal_at_us=steps_end_us + 2 * SECOND,
    )


@pytest.mark.parametrize("transcript", SETTLING, ids=lambda one: one.name)
def test_under_faults_it_comes_to_the_same(transcript: Transcript) -> None:
    query, faults = transcript.query, storm(transcript.steps[-1].at_us)
    events = run_cluster(query, transcript.steps, options=STORMY, faults=faults, seed=1)
    assert sum(isinstance(one, FaultStruck) for one in events) > 5
    told = run_model(query, until_the_end(transcript.steps)).panes
    assert settled(received_panes(events, pipeline_of(query)), query.accumulation) == settled(
        told, query.accumulation
    )


@pytest.mark.parametrize("mutant", ["a new id for each retry", "state in memory only"])
def test_a_protocol_that_counts_twice_or_forgets_is_seen_in_the_panes(mutant: str) -> None:
    assert any(
        comes_to(transcript, seed=seed, protocol=MUTANTS[mutant])
        != comes_to(transcript, seed=seed, protocol=SOUND)
        for seed in (3, 1, 2, 4)  # with seed 3 both mutants show it, and come to an end
        for transcript in SETTLING
        if transcript.name in ("merging/sequence-furthest", "triggers/early-and-late")
    )


def comes_to(transcript: Transcript, *, seed: int, protocol: Protocol) -> Settled:
    query, faults = transcript.query, storm(transcript.steps[-1].at_us)
    events = run_cluster(query, transcript.steps, faults=faults, seed=seed, protocol=protocol)
    return settled(received_panes(events, pipeline_of(query)), query.accumulation)


def cluster_agrees(case: GroupingCase, *, in_chunks: bool) -> None:
    """Panes and lost elements are the model's, at its times but for what messages take; rows are in order at any time."""
    query, lossy = case.query, case.query.allowed_lateness_us is not None
    pipeline = pipeline_of(query, dropped_to=LOST if lossy else "")
    pipeline = in_small_chunks(pipeline) if in_chunks else pipeline
    history = simulate(pipeline, feed_of(pipeline, case.steps), options=CALM)
    told = run_model(query, until_the_end(case.steps))
    panes = in_the_models_order(committed_panes(history, pipeline), told.panes)
    assert bare(panes) == bare(told.panes)
    assert lateness_us(panes, told.panes) <= TOLERANCE_US
    if lossy:
        dropped = [(case.steps[step].element, window) for step, window in told.dropped]
        assert lost_elements(history, pipeline) == Counter(
            (one.key, Pane(one.value, window, one.time, 0, Timing.LATE)) for one, window in dropped if one
        )
    assert badly_kept(history, pipeline) == ""
    if query.timestamps is TimestampCombiner.END_OF_WINDOW and type(query.windows) is not GlobalWindows:
        stamps = {output.production.timestamp for output in history if isinstance(output, Output)}
        assert {stamp for stamp in stamps - {END_OF_TIME} if stamp % SECOND} == set()


def lateness_us(panes: Iterable[EmittedPane], told: Iterable[EmittedPane]) -> int:
    """By how much a pane of a key comes later or earlier than the model tells, at most."""
    pairs = zip(*(sorted(some, key=lambda pane: pane.key) for some in (panes, told)), strict=True)
    return max((abs(pane.at_us - other.at_us) for pane, other in pairs), default=0)


def test_windows_that_end_at_once_may_be_told_in_any_order_and_nothing_else_may() -> None:
    def told(window: int, at_us: int, value: int = 1) -> EmittedPane:
        span = Window(window, window + 1)
        return EmittedPane(0, at_us, "k", span, value, index=0, timing=Timing.EARLY, time=span.last)

    model = [told(0, 10), told(5, 10), told(7, 20)]
    assert in_the_models_order([told(5, 11), told(0, 12), told(7, 21)], model) == [
        told(0, 12), told(5, 11), told(7, 21),
    ]  # fmt: skip
    late = [told(0, 11), told(7, 12), told(5, 21)]
    assert in_the_models_order(late, model) == late
    one_step = [told(5, 11), told(0, 11), told(7, 21)]
    assert in_the_models_order(one_step, model) == one_step


def faulty_cluster_settles(case: GroupingCase, data: bytes) -> None:
    query = case.query
    pipeline = pipeline_of(query)
    plan = decode_plan(data, ground_of(pipeline, feed_of(pipeline, case.steps), STORMY), STORMY)
    events = run_cluster(query, case.steps, faults=plan.faults, options=plan.options, seed=plan.seed)
    event("struck" if any(isinstance(one, FaultStruck) for one in events) else "idle")
    told = run_model(query, until_the_end(case.steps)).panes
    assert settled(received_panes(events, pipeline_of(query)), query.accumulation) == settled(
        told, query.accumulation
    )
    broken = {n: one.message for n, one in judge(events, [pipeline]).items() if isinstance(one, Violated)}
    assert broken == {}


def parity(total: int) -> str:
    return "odd" if total % 2 else "even"


def second_grouping_settles(case: GroupingCase, data: bytes) -> None:
    """Sums are grouped by their parity: a sum that grows may change sides, and must then be taken back where it was (2.3)."""
    query = replace(case.query, accumulation=Accumulation.ACCUMULATING_AND_RETRACTING)
    events_ = read("events", bounded=True).allowed_lateness(query.allowed_lateness_us)
    sums = events_.window_into(query.windows).trigger(query.trigger)
    sums = sums.accumulating_and_retracting(compact=query.compacts)
    totals = sums.sum().key_by(parity).sum().to("totals")
    pipeline = totals.pipeline("second grouping", engine=query.engine)
    feed = feed_of(pipeline, case.steps)
    plan = decode_plan(data, ground_of(pipeline, feed, STORMY), STORMY)
    history = simulate(pipeline, feed, options=plan.options, faults=plan.faults, seed=plan.seed)
    first = settled(run_model(query, until_the_end(case.steps)).panes, query.accumulation)
    expected: Counter[tuple[str, Window | None]] = Counter()
    for _, window, total in first.elements():
        expected[parity(total), window] += total
    panes = received_panes(history, pipeline)
    found = settled(panes, query.accumulation)
    assert {(key, window): total for key, window, total in found.elements()} == dict(expected)


PLANS = st.binary(min_size=PLAN_BYTES, max_size=PLAN_BYTES)


@given(cases(), st.booleans())
@settings(max_examples=25)
def test_without_faults_the_cluster_emits_what_the_model_tells(case: GroupingCase, in_chunks: bool) -> None:  # noqa: FBT001
    cluster_agrees(case, in_chunks=in_chunks)


@given(cases(settling=True), PLANS)
@settings(max_examples=25)
def test_under_random_faults_nothing_is_lost_or_counted_twice(case: GroupingCase, data: bytes) -> None:
    faulty_cluster_settles(case, data)


@given(cases(settling=True, merging=False), PLANS)
@settings(max_examples=25)
def test_retractions_come_out_right_of_a_second_grouping_under_random_faults(
    case: GroupingCase, data: bytes
) -> None:
    second_grouping_settles(case, data)


@pytest.mark.nightly
@given(cases(), st.booleans())
@settings(max_examples=5_000)
def test_without_faults_it_does_so_thousands_of_times(case: GroupingCase, in_chunks: bool) -> None:  # noqa: FBT001
    cluster_agrees(case, in_chunks=in_chunks)


@pytest.mark.nightly
@given(cases(settling=True), PLANS)
@settings(max_examples=5_000)
def test_under_random_faults_it_does_so_thousands_of_times(case: GroupingCase, data: bytes) -> None:
    faulty_cluster_settles(case, data)


@pytest.mark.nightly
@given(cases(settling=True, merging=False), PLANS)
@settings(max_examples=2_000)
def test_retractions_come_out_right_thousands_of_times(case: GroupingCase, data: bytes) -> None:
    second_grouping_settles(case, data)
