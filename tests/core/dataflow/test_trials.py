"""The long differential trials say at once what went wrong, and count what they checked."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st

from headrace.dataflow import Element
from headrace_scenarios.figures.groupings import InputStep
from tests.core.dataflow import trials


@dataclass(frozen=True)
class Numbered:
    """A case with two elements."""

    number: int
    steps: tuple[InputStep, ...] = (
        InputStep(0, Element("k", 1, 0)),
        InputStep(1),
        InputStep(2, Element("k", 1, 0)),
    )


def refuse(case: Numbered) -> int:
    assert case.number < 50
    return 1


def numbers(most: int) -> trials.Kind:
    return trials.Kind(refuse, (st.integers(0, most).map(Numbered),), "layer")


def test_a_case_that_goes_wrong_is_shrunk_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(trials.KINDS, "numbers", numbers(99))
    tally, problem = trials.tried("numbers", 100, 1)
    assert 0 < tally.cases <= 1_000
    assert tally.problems == 1
    assert "number=50" in problem
    monkeypatch.setitem(trials.KINDS, "numbers", numbers(49))
    tally, problem = trials.tried("numbers", 20, 1)
    assert (tally.cases, tally.elements, tally.dropped, tally.problems, problem) == (20, 40, 20, 0, "")
    assert tally.cpu_s > 0


@pytest.mark.parametrize(("most", "code"), [(49, 0), (99, 1)])
def test_it_tells_problems_and_counts_and_ends_with_1_if_there_was_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], most: int, code: int
) -> None:
    def threads(jobs: int, _: Any) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(jobs)

    monkeypatch.setattr(trials, "KINDS", {"numbers": numbers(most)})
    monkeypatch.setattr(trials, "PARTS", {"layer": 25, "cluster": 25})
    monkeypatch.setattr(trials, "ProcessPoolExecutor", threads)
    assert trials.main(["--layer", "50", "--cluster", "0", "--jobs", "1"]) == code
    out = capsys.readouterr().out
    if code:
        assert "problems so far: 1" in out
        assert "number=50" in out
        assert out.endswith("; problems: 2\n")
    else:
        assert out.endswith("50 cases, 100 elements checked, 50 dropped; all counts agreed\n")


def test_parts_have_seeds_of_their_own_and_come_to_the_number_asked_for() -> None:
    found = list(trials.parts({"layer": 6_000, "cluster": 10}, 3))
    assert len({(name, number) for name, _, number in found}) == len(found)
    assert sum(count for name, count, _ in found if trials.KINDS[name].place == "layer") == 6_000
    assert sum(count for name, count, _ in found if trials.KINDS[name].place == "cluster") == 10
