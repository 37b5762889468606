"""A promise that holds has put its claim to the test, or it is unknown, however the claim is written."""

import random
import time
from collections.abc import Callable

import pytest

from headrace.history import History
from headrace_properties.promises import Moment, Promise, PromiseError, always, at_end, never
from headrace_properties.promises.claims import claims_of
from headrace_properties.promises.steadiness import judge_steadily
from headrace_properties.verdict import Holds, Unknown, Violated
from tests.properties.promises import claiming
from tests.properties.promises.rig import Told, bank


@pytest.mark.parametrize(
    "check",
    [
        claiming.plain,
        claiming.early,
        claiming.filtered,
        claiming.none_of_them,
        claiming.none_by_any,
        claiming.none_in_a_variable,
        claiming.implied,
        claiming.guarded,
        claiming.nested,
        claiming.in_a_loop,
        claiming.by_a_helper,
    ],
)
def test_a_case_that_never_comes_up_is_unknown(check: Callable[[Moment], bool | None]) -> None:
    promise = always(stream="told")(check)
    assert isinstance(told(3, 5).verdict(promise), Unknown)
    assert isinstance(told(3, 50, 5).verdict(promise), Holds)


def test_what_must_never_be_is_tested_by_the_last_of_its_conditions() -> None:
    promise = never(stream="told")(claiming.both)
    assert isinstance(told(3, 5).verdict(promise), Unknown)
    assert isinstance(told(3, 50).verdict(promise), Holds)


@pytest.mark.parametrize(
    "check",
    [
        claiming.simple,
        claiming.one_of,
        claiming.range_of,
        claiming.raised,
        claiming.sums_up,
        claiming.one_of_several,
        claiming.in_a_try,
    ],
)
def test_a_claim_that_is_put_to_the_test_or_not_understood_holds(
    check: Callable[[Moment], bool | None],
) -> None:
    assert isinstance(told(3, 5).verdict(always(stream="told")(check)), Holds)


def told(*numbers: int) -> Told:
    story = Told()
    for number in numbers:
        story.output("ann", {"id": number, "ok": True})
    return story.end()


def test_the_unknown_says_what_was_not_tested() -> None:
    verdict = told(3).verdict(always(stream="told")(claiming.implied))
    assert isinstance(verdict, Unknown)
    assert "amount_of(moment) <= 10 or" in verdict.why


def rewritten(moment: Moment) -> None:
    assert moment.changed.value["id"] <= 10 or moment.changed.value["ok"]


def rewritten_case(moment: Moment) -> None:
    if moment.changed.value["id"] > 10:
        assert moment.changed.value["ok"]


def test_of_an_assertion_that_pytest_has_rewritten_only_lines_are_known() -> None:
    assert isinstance(told(3).verdict(always(stream="told")(rewritten)), Holds)
    assert isinstance(told(3).verdict(always(stream="told")(rewritten_case)), Unknown)


def test_a_claim_that_nobody_can_read_counts_as_tested() -> None:
    made: dict[str, Callable[[Moment], bool | None]] = {}
    exec("def check(moment):\n    if moment.changed.value['id'] > 10:\n        assert False, 'x'", made)  # noqa: S102
    promise = always(stream="told")(made["check"])
    assert claims_of(promise) == ()
    assert isinstance(told(3).verdict(promise), Holds)


SEEN: list[int] = []


def counts_itself(moment: Moment) -> bool:
    SEEN.append(moment.changed.value["id"])
    return len(SEEN) <= len(moment.outputs("told"))


def by_chance(_: Moment) -> bool:
    return random.random() < 0.5


def by_day(_: Moment) -> bool:
    return time.time() < 0 or time.localtime().tm_year != 2025


def counts_in_memory(moment: Moment) -> bool:
    moment.memory["seen"] = moment.memory.get("seen", 0) + 1
    return bool(moment.memory["seen"] <= len(moment.outputs("told")))


def steadily(promise: Promise, story: Told) -> object:
    return judge_steadily(History(story.events), (promise,), [bank()])[promise.name]


@pytest.mark.parametrize("check", [counts_itself, by_chance, by_day])
def test_a_promise_that_goes_by_more_than_its_moment_is_wrong_in_itself(
    check: Callable[[Moment], bool | None],
) -> None:
    SEEN.clear()
    random.seed(0)
    with pytest.raises(PromiseError, match="goes by more than its moment") as error:
        steadily(always(stream="told")(check), told(*range(40)))
    assert error.value.kind == "unsteady"


def test_a_promise_that_goes_by_its_moment_is_asked_again_and_judged() -> None:
    promise = always(stream="told")(counts_in_memory)
    assert steadily(promise, told(1, 2)) == Holds(2)
    assert steadily(promise, told(1, 2)) == Holds(2)
    broken = at_end(name="many")(lambda moment: len(moment.outputs("told")) > 2)
    assert isinstance(steadily(broken, told(1, 2)), Violated)
