"""The library's ready-made promises, on hand-written Histories."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from headrace_properties.promises import (
    Promise,
    RecordView,
    answered_once,
    bounded_state,
    conserved,
    expected,
    in_order,
    newest_wins,
    no_gap,
    same_total,
    unique,
)
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated
from tests.properties.promises.rig import Told, production, timer


def amount(value: Any) -> int:
    return int(value["amount"])


def balance(state: Any) -> int:
    return int(state["balance"])


def by_id(value: Any) -> Any:
    return value["id"]


money = conserved(
    "money",
    held={"accounts": balance, "received": balance},
    carried={"deposits": amount, "credits": amount},
)
once = answered_once("transfers", "told", by=by_id)
ordered = in_order("told", by=by_id)
strict = in_order("told", by=by_id, strictly=True)
totals = same_total({"transfers": "id", "output": by_id})
tidy = bounded_state("accounts", keeps=lambda key, _state: key == "bank")


@expected("told")
def sums(inputs: tuple[RecordView, ...]) -> Iterable[tuple[str, Any]]:
    return [(view.key, {"id": view.value["id"]}) for view in inputs if view.stream == "transfers"]


@expected("told", of="accounts", initial=int)
def running(state: int, record: RecordView) -> tuple[int, list[tuple[str, Any]]]:
    total = state + record.value["amount"]
    return total, [(record.key, {"sum": total})]


def transfer(told: Told, *, paid: int = 4, credited: int = 4, times: int = 1) -> None:
    """Ann deposits 10 and pays bob 4."""
    told.inject("deposits", "ann", {"amount": 10}, name="d")
    told.apply("ann", {"balance": 10}, seen=["d"])
    told.inject("transfers", "ann", {"id": 1, "amount": paid}, name="t")
    credit = production("credits", "received", "bob", {"amount": credited}, "c")
    told.apply("ann", {"balance": 10 - paid}, seen=["t"], makes=[credit])
    for time in range(1, times + 1):
        told.apply("bob", {"balance": time * credited}, computation="received", seen=["c"])


def ask(told: Told, *ids: int) -> None:
    for number in ids:
        told.inject("transfers", "ann", {"id": number})


def answer(told: Told, *ids: int) -> None:
    for number in ids:
        told.output("ann", {"id": number})


def fee(told: Told) -> None:
    transfer(told, credited=3)


def adds(told: Told, *sums: int) -> None:
    """1 comes in before 2, and takes effect after it; these sums are told."""
    for number in (1, 2):
        told.inject("deposits", "ann", {"amount": number}, name=f"r{number}")
    for number in (2, 1):
        told.apply("ann", {"balance": 0}, seen=[f"r{number}"])
    for total in sums:
        told.output("ann", {"sum": total})


def write(*things: Any) -> Callable[[Told], None]:
    """Make a story of (method, arguments)."""

    def story(told: Told) -> None:
        for method, *arguments in things:
            method(told, *arguments)

    return story


CASES: dict[str, tuple[Promise, Callable[[Told], Any], str | type[Verdict]]] = {
    "money that moves is conserved": (money, transfer, Holds),
    "a fee that nobody gets": (money, fee, "9 is held and 0 has left. The first step that does not balance made 9 of 10: the"),
    "a credit that is lost": (money, lambda told: transfer(told, times=0), "6 is held and 0 has left; each step balances"),
    "a credit that takes effect twice": (money, lambda told: transfer(told, times=2), "10 came in, but 14 is held"),
    "no money at all": (money, lambda told: ask(told, 1), Unknown),
    "ids once in a table": (unique("id", table="told"), write((answer, 1, 2)), Holds),
    "an id twice in a table": (unique("id", table="told"), write((answer, 1, 1)), "told has id=1 2 times: {'id': 1}, {'id': 1}"),
    "numbers in a table": (no_gap("id", table="told"), write((answer, 2, 1, 3)), Holds),
    "a gap in a table": (no_gap("id", table="told"), write((answer, 1, 4)), "told has 1 and then 4 as id"),
    "totals that agree": (totals, write((ask, 1, 2), (answer, 3)), Holds),
    "totals that differ": (totals, write((ask, 1, 2), (answer, 1)), "transfers has 3, but the output has 1"),
    "no versions at all": (newest_wins("id", version="id", table="told"), write((ask, 1), (answer, 1)), Unknown),
    "each request answered": (once, write((ask, 1, 2), (answer, 2, 1)), Holds),
    "a request without an answer": (once, write((ask, 1, 2), (answer, 2)), "request 1 is never answered"),
    "a request with two answers": (once, write((ask, 1), (answer, 1, 1)), "request 1 is answered again"),
    "an answer to nothing": (once, write((ask, 1), (answer, 1, 3)), "answer is to 3, which nobody asked"),
    "an answer before its request": (once, write((answer, 1), (ask, 1)), "answer is to 1, which nobody asked"),
    "no request": (once, write(), Unknown),
    "in order": (ordered, write((answer, 1, 1, 2)), Holds),
    "out of order": (ordered, write((answer, 1, 3, 2)), "key 'ann' has 2 after 3"),
    "equal is not strictly in order": (strict, write((answer, 1, 1)), "key 'ann' has 1 after 1"),
    "one of a key is in no order": (ordered, write((answer, 1)), Unknown),
    "state with a timer": (tidy, lambda told: told.apply("ann", {"balance": 1}, timers=[timer("end")]), Holds),
    "state with a hold": (tidy, lambda told: told.apply("ann", {"balance": 1}, hold=5), Holds),
    "state that is cleared": (tidy, lambda told: (told.apply("ann", {"balance": 1}), told.apply("ann", "")), Holds),
    "state that is meant to stay": (tidy, lambda told: told.apply("bank", {"balance": 1}), Holds),
    "state whose timer fired": (
        tidy,
        lambda told: (
            told.apply("ann", {"balance": 1}, timers=[timer("end")]),
            told.apply("ann", fired=[timer("end")]),
        ),
        "key 'ann' of 'accounts' is left with {'balance': 1}",
    ),
    "no state ever": (tidy, write(), Unknown),
    "as expected": (sums, write((ask, 1, 2), (answer, 2, 1)), Holds),
    "one missing": (sums, write((ask, 1, 2), (answer, 2)), "1 missing on 'told': ('ann', {'id': 1})"),
    "one twice": (sums, write((ask, 1), (answer, 1, 1)), "1 not expected on 'told': ('ann', {'id': 1})"),
    "one wrong": (sums, write((ask, 1), (answer, 5)), "1 missing on 'told': ('ann', {'id': 1}); 1 not expected"),
    "nothing expected": (sums, write(), Unknown),
    "stepped in the order of effect": (running, write((adds, 2, 3)), Holds),
    "stepped in the order of arrival": (running, write((adds, 1, 3)), "1 missing on 'told': ('ann', {'sum': 2})"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_ready_made_promises(case: str) -> None:
    promise, story, outcome = CASES[case]
    told = Told()
    story(told)
    verdict = told.end().verdict(promise)
    if isinstance(outcome, str):
        assert isinstance(verdict, Violated)
        assert outcome in verdict.message
    else:
        assert isinstance(verdict, outcome)


@pytest.mark.parametrize("case", [name for name, row in CASES.items() if row[2] is Holds])
def test_promises_at_rest_are_unknown_for_a_truncated_run(case: str) -> None:
    promise, story, _ = CASES[case]
    told = Told()
    story(told)
    verdict = told.end("limit").verdict(promise)
    assert isinstance(verdict, Unknown)
    assert verdict.cut_short


def test_the_step_that_loses_money_is_the_witness() -> None:
    told = Told()
    transfer(told, credited=3)
    verdict = told.end().verdict(money)
    assert isinstance(verdict, Violated)
    assert verdict.witness == (told.events[3],)


def test_a_timestamp_counts_only_where_it_is_expected() -> None:
    @expected("told")
    def timed(inputs: tuple[RecordView, ...]) -> Iterable[tuple[str, Any, int]]:
        return [(view.key, view.value, view.timestamp + 1) for view in inputs]

    told = Told()
    told.inject("transfers", "ann", {"id": 1}, timestamp=5)
    told.output("ann", {"id": 1}, timestamp=6)
    assert told.end().verdict(timed) == Holds(1)
    told.events[1] = Told().output("ann", {"id": 1}, timestamp=5)
    assert isinstance(told.verdict(timed), Violated)
