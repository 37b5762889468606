"""What the real Spark came to at each crash point of a job of the corpus, the simulation comes to, without Java."""

import json
from typing import Any

import pytest

from tests.crash_points import JOBS, RECORDED, outcomes_of

REAL: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text())
BY_DAY = ("orders_jdbc_lambda", "idle_carts")
DIFFERENT = {
    "idle_carts_module": "what a restart loses of a module is found by the schedules of the query, not at points of its sink",
    "scores_kafka_producer": "a real thread sends at once what the simulation may lose, as nothing waits for it",
}
"""Jobs of which only what is left undisturbed is the same, and that what is wrong for the real Spark is wrong here."""


def wrong_at(outcomes: dict[str, Any]) -> dict[str, str]:
    """Return what is wrong at each crash point."""
    return {point: wrong for wrong, points in outcomes["points"].items() for point in points.split(", ")}


def rows_of(outcomes: dict[str, Any], *, counted: bool) -> list[Any]:
    """Return the rows that are left, or how many they are, however the destinations are called."""
    left = outcomes["left"].values()
    return sorted(len(rows) if counted and isinstance(rows, list) else rows for rows in left if rows)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in BY_DAY else [pytest.mark.nightly]) for name in REAL]
)
def test_simulation_comes_to_what_the_real_spark_came_to_at_each_crash_point(name: str) -> None:
    ((_, simulated),) = outcomes_of([JOBS[name]], "here")
    assert simulated.keys() == REAL[name].keys()
    for query, real in REAL[name].items():
        assert set(real.get("found", ())) <= set(simulated[query]["found"])
        are_counts = any(isinstance(rows, int) for rows in real["left"].values())
        assert rows_of(simulated[query], counted=are_counts) == rows_of(real, counted=are_counts)
        if name in DIFFERENT:
            continue
        ours, theirs = wrong_at(simulated[query]), wrong_at(real)
        # A query without code of its own has no points here: its sink's row says that nothing is lost and nothing doubled.
        judged = [point for point in theirs if point in ours or not ours]
        assert judged or not theirs
        assert {point: ours.get(point, "") for point in judged} == {point: theirs[point] for point in judged}


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted({"idle_carts", "idle_carts_module"} & REAL.keys()))
def test_real_spark_comes_to_the_same_again_at_each_call_of_state_timers_and_times_to_live(name: str) -> None:
    ((_, outcomes),) = outcomes_of([JOBS[name]], "spark")
    for query, real in REAL[name].items():
        assert outcomes[query]["found"] == real["found"]
        assert rows_of(outcomes[query], counted=False) == rows_of(real, counted=False)
        again, before = wrong_at(outcomes[query]), wrong_at(real)
        both = again.keys() & before.keys()  # Spark may reach its calls in another order
        assert len(both) > 30
        assert {point: again[point] for point in both} == {point: before[point] for point in both}
