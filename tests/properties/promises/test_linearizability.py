"""The search for a sequential order, against a search that tries all orders, and the promise built on it."""

from itertools import permutations
from random import Random
from typing import Any

import pytest

from headrace_properties.promises import linearizable
from headrace_properties.promises.linearizability import Operation, TooLargeError, is_linearizable
from headrace_properties.verdict import Holds, Unknown, Violated
from tests.properties.promises.rig import Told


def register(state: int, request: int) -> tuple[int, int]:
    """0 reads; a greater number is written. Both return the old value."""
    return request or state, state


def tries_all(operations: list[Operation]) -> bool:
    """The definition: some subset with all that ended, in some order, fits the model and real time."""
    ended = [operation for operation in operations if operation.end is not None]
    open_ones = [operation for operation in operations if operation.end is None]
    for chosen in range(1 << len(open_ones)):
        some = ended + [operation for place, operation in enumerate(open_ones) if chosen >> place & 1]
        if any(_fits(order) for order in permutations(some)):
            return True
    return False


def _fits(order: tuple[Operation, ...]) -> bool:
    state = 0
    for place, operation in enumerate(order):
        if any(later.end is not None and later.end < operation.begin for later in order[place + 1 :]):
            return False
        state, answer = register(state, operation.request)
        if operation.end is not None and answer != operation.answer:
            return False
    return True


def some_operations(random: Random) -> list[Operation]:
    made = []
    for _ in range(random.randrange(1, 6)):
        begin = random.randrange(12)
        end = None if random.random() < 0.2 else begin + random.randrange(1, 8)
        made.append(Operation(random.randrange(3), begin, random.randrange(3), end))
    return sorted(made, key=lambda operation: operation.begin)


def test_the_search_agrees_with_trying_all_orders() -> None:
    random, outcomes = Random(7), set[bool]()
    for _ in range(400):
        operations = some_operations(random)
        wanted = tries_all(operations)
        assert is_linearizable(operations, register, 0) == wanted, operations
        outcomes.add(wanted)
    assert outcomes == {True, False}


def test_an_oversized_search_is_abandoned() -> None:
    at_once = [Operation(number + 1, 0, 99, 10) for number in range(12)]
    with pytest.raises(TooLargeError):
        is_linearizable([*at_once, Operation(0, 0, 98, 10)], lambda s, r: ((*s, r), 99), (), most_steps=50)


def model(state: int, request: Any) -> tuple[int, Any]:
    return state + request["amount"], state + request["amount"]


counter = linearizable(
    "transfers",
    "told",
    model=model,
    initial=0,
    by=lambda value: value["id"],
    answer=lambda value: value["sum"],
)


def ask(told: Told, number: int, key: str = "ann") -> None:
    told.inject("transfers", key, {"id": number, "amount": 1})


def answer(told: Told, number: int, total: int) -> None:
    told.output("ann", {"id": number, "sum": total})


def test_concurrent_requests_may_be_answered_in_either_order() -> None:
    told = Told()
    ask(told, 1)
    ask(told, 2)
    answer(told, 1, 2)
    answer(told, 2, 1)
    assert told.end().verdict(counter) == Holds(1)


def test_a_request_that_began_after_an_answer_comes_after_it() -> None:
    told = Told()
    ask(told, 1)
    answer(told, 1, 2)
    ask(told, 2)
    answer(told, 2, 1)
    verdict = told.end().verdict(counter)
    assert isinstance(verdict, Violated)
    assert len(verdict.witness) == 4
    assert "{'amount': 1, 'id': 1} -> 2" in verdict.message


def test_each_key_is_an_object_of_its_own() -> None:
    told = Told()
    ask(told, 1, "ann")
    ask(told, 2, "bob")
    answer(told, 1, 1)
    answer(told, 2, 1)
    assert told.end().verdict(counter) == Holds(1)


def test_a_request_without_an_answer_may_have_taken_effect_or_not() -> None:
    for total in (1, 2):
        told = Told()
        ask(told, 1)
        ask(told, 2)
        answer(told, 2, total)
        assert told.end().verdict(counter) == Holds(1)


def test_without_any_answer_the_verdict_is_unknown() -> None:
    told = Told()
    ask(told, 1)
    assert isinstance(told.end().verdict(counter), Unknown)
