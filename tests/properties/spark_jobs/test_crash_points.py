"""What the real Spark came to at each crash point of a job of the corpus, the simulation comes to, without Java."""

import json
from typing import Any

import pytest

from tests.crash_points import RECORDED, outcomes_of
from tests.properties.spark_jobs.corpus_table import CORPUS

REAL: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text())
BY_DAY = ("orders_jdbc_lambda",)


def wrong_at(outcomes: dict[str, Any]) -> dict[str, str]:
    """Return what is wrong at each crash point."""
    return {point: wrong for wrong, points in outcomes["points"].items() for point in points.split(", ")}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in BY_DAY else [pytest.mark.nightly]) for name in REAL]
)
def test_simulation_comes_to_what_the_real_spark_came_to_at_each_crash_point(name: str) -> None:
    ((_, simulated),) = outcomes_of([CORPUS[name]], "here")
    for query, real in REAL[name].items():
        assert set(real.get("found", ())) <= set(simulated[query]["found"])
        ours, theirs = wrong_at(simulated[query]), wrong_at(real)
        if (
            not ours
        ):  # it has no code of its own: its sink's row says that nothing is lost and nothing doubled
            assert set(theirs.values()) <= {""}
            continue
        both = ours.keys() & theirs.keys()
        assert both
        assert {point: ours[point] for point in both} == {point: theirs[point] for point in both}
        assert sorted(simulated[query]["left"].values()) == sorted(real["left"].values())
