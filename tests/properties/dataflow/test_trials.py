"""The long differential trials say what went wrong, with the seed's cases counted."""

import pytest
from hypothesis import strategies as st

from tests.properties.dataflow import trials


def refuse(number: int) -> None:
    assert number < 50


def test_a_case_that_goes_wrong_is_shrunk_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(trials.KINDS, "numbers", trials.Kind(refuse, (st.integers(0, 99),), "layer"))
    count, problem = trials.tried("numbers", 100, 1)
    assert 0 < count <= 1_000
    assert "drawn=(50,)" in problem
    monkeypatch.setitem(trials.KINDS, "numbers", trials.Kind(refuse, (st.integers(0, 49),), "layer"))
    assert trials.tried("numbers", 20, 1) == (20, "")


def test_parts_have_seeds_of_their_own_and_come_to_the_number_asked_for() -> None:
    found = list(trials.parts({"layer": 6_000, "cluster": 10}, 3))
    assert len({(name, number) for name, _, number in found}) == len(found)
    assert sum(count for name, count, _ in found if trials.KINDS[name].place == "layer") == 6_000
    assert sum(count for name, count, _ in found if trials.KINDS[name].place == "cluster") == 10
