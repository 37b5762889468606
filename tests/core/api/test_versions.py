"""What may differ between deployed versions of a pipeline (MillWheel 3)."""

import pytest

from headrace import Computation, CycleError, Pipeline, PipelineError, Productions
from headrace.api.versions import check_versions
from tests.core.driver import counter

WEAK = {"productions": Productions.WEAK}
OFF = {"exactly_once": False}


def test_computations_come_and_go_and_change_their_other_switches() -> None:
    first = counter()
    second = first.with_computation("counter", watermark_percentile=90.0, split_at=["m"])
    second.add(Computation(), name="sink", inputs=["counts"], productions=Productions.WEAK)
    check_versions([first, second, first])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (WEAK, "has productions=strong in version 0 and productions=weak in version 1"),
        (OFF, "has exactly_once=True in version 0 and exactly_once=False in version 1"),
    ],
    ids=["productions", "exactly_once"],
)
def test_a_computation_keeps_its_kind_of_productions_and_of_delivery(
    change: dict[str, object], problem: str
) -> None:
    first = counter()
    with pytest.raises(PipelineError) as caught:
        check_versions([first, first.with_computation("counter", **change)])
    assert str(caught.value) == (
        f"pipeline 'clicks': computation 'counter' {problem}. Its stored rows and sent records are valid for one setting only: "
        "give the computation a new name in the version that changes it"
    )


@pytest.mark.parametrize("change", [WEAK, OFF], ids=["productions", "exactly_once"])
def test_its_rows_stay_when_it_is_removed_and_so_it_keeps_them_when_it_comes_back(
    change: dict[str, object],
) -> None:
    first = counter()
    second = Pipeline("clicks")
    second.injector("feed", outputs=["clicks"])
    with pytest.raises(PipelineError, match=r"in version 0 and .* in version 2"):
        check_versions([first, second, first.with_computation("counter", **change)])


def test_under_a_new_name_it_may_be_anything() -> None:
    first = counter()
    second = first.without("counter")
    second.add(
        Computation(),
        name="weak counter",
        inputs=["clicks"],
        productions=Productions.WEAK,
        exactly_once=False,
    )
    check_versions([first, second])


def test_each_version_has_to_fit_together() -> None:
    broken = counter()
    broken.add(Computation(), name="loop", inputs=["counts"], outputs=["clicks"])
    with pytest.raises(CycleError):
        check_versions([counter(), broken])


def test_a_version_has_the_streams_that_the_injectors_fill() -> None:
    second = Pipeline("clicks")
    second.injector("feed", outputs=["taps"])
    second.add(Computation(), name="taps", inputs=["taps"])
    with pytest.raises(PipelineError, match="'feed' goes on to inject into 'clicks', which version 1 lacks"):
        check_versions([counter(), second])
