"""The totals that the video provider bills are right in the end, whatever came late, early or twice (Dataflow 1, 2.3)."""

from collections import Counter

import pytest

from headrace import SECOND
from headrace.dataflow import Batch, MicroBatch, Pane, Timing
from headrace_properties.reference import Emitted, run_reference
from headrace_properties.results import outputs_of
from headrace_properties.search.application import Application
from headrace_properties.search.plans import draw_faults, ground_of
from headrace_properties.search.steering import Steering
from headrace_properties.search.strategy import search
from headrace_properties.verdict import Violated
from headrace_scenarios.videos import (
    AdView,
    TimedView,
    expected_totals,
    feed,
    feed_of,
    flow,
    pipeline,
    totals_of,
    watch,
)
from headrace_sim import ClusterOptions, simulate

SEEDS = range(6)


def panes(outputs: Counter[Emitted], stream: str = "accounts") -> list[tuple[str, Pane]]:
    codec = pipeline.codec(stream)
    return [
        (output.key, codec.decode(output.value)) for output in outputs.elements() if output.stream == stream
    ]


def cats(time: int, ad_seconds: int, at_us: int | None = None) -> TimedView:
    view = AdView("ann", "cats", "paws inc", "acme", ad_seconds)
    return TimedView(view, time, time if at_us is None else at_us, 0)


def test_an_ad_that_was_hardly_watched_is_free() -> None:
    assert expected_totals([cats(SECOND, 4)]) == {}
    assert expected_totals([cats(SECOND, 5)]) == {("advertiser acme", 0): 10, ("provider paws inc", 0): 5}


def test_views_closer_than_the_gap_are_one_session() -> None:
    """Three seconds and three: free by themselves, six together; one gap apart is together, more is not."""
    assert expected_totals([cats(0, 3), cats(SECOND, 3)])["advertiser acme", 0] == 12
    assert expected_totals([cats(0, 3), cats(SECOND + 1, 3)]) == {}


def test_a_view_that_comes_late_corrects_what_was_billed() -> None:
    """The bridge comes when both sessions are closed: two free ones become one that is paid for."""
    watched = [cats(SECOND, 3), cats(3 * SECOND, 3), cats(2 * SECOND, 1, at_us=9 * SECOND)]
    outputs = run_reference(pipeline, feed_of(watched)).outputs
    sessions = Counter(
        (pane.value["ads"]["acme"], pane.retraction) for _, pane in panes(outputs, "view_sessions")
    )
    assert sessions == {(3, False): 2, (3, True): 2, (7, False): 1}
    assert totals_of(panes(outputs)) == {("advertiser acme", 0): 14, ("provider paws inc", 0): 7}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_totals_are_those_of_a_plain_computation(seed: int) -> None:
    expected = expected_totals(watch(seed))
    assert len(expected) > 5
    assert totals_of(panes(run_reference(pipeline, feed(seed)).outputs)) == expected
    assert totals_of(panes(outputs_of(simulate(pipeline, feed(seed), seed=seed)))) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_the_totals_are_right_under_faults(seed: int) -> None:
    faults = draw_faults(ground_of(pipeline, feed(seed), ClusterOptions()), 25, seed)
    history = simulate(pipeline, feed(seed), faults=faults, seed=seed)
    assert totals_of(panes(outputs_of(history))) == expected_totals(watch(seed))


@pytest.mark.parametrize("engine", [Batch(), MicroBatch(SECOND)], ids=["batch", "micro-batch"])
def test_the_totals_are_the_same_on_the_other_engines(engine: Batch | MicroBatch) -> None:
    other = flow().pipeline("videos", processes=2, engine=engine)
    assert totals_of(panes(run_reference(other, feed(1)).outputs)) == expected_totals(watch(1))


def test_every_invariant_holds_under_faults() -> None:
    verification = search(Steering(Application(pipeline, feed)), examples=12)
    assert verification.failure is None
    assert [name for name, verdict in verification.verdicts.items() if isinstance(verdict, Violated)] == []


def test_late_views_corrected_sessions_already_reported() -> None:
    retracted = [
        pane
        for _, pane in panes(run_reference(pipeline, feed(1)).outputs, "view_sessions")
        if pane.retraction
    ]
    assert sum(pane.timing is Timing.LATE for pane in retracted) > 2
