"""An invalid promise is an error of its own, never a violation of the pipeline."""

import inspect
import signal
import sys
from contextlib import suppress
from typing import Any

import pytest

from headrace import Pipeline
from headrace_properties.checkers import Judge
from headrace_properties.promises import (
    Moment,
    PromiseError,
    always,
    at_end,
    bounded_state,
    check_promises,
    eventually,
    expected,
    in_order,
    judge_promises,
    never,
    promise_checkers,
    sometimes,
)
from headrace_properties.verdict import Violated
from tests.properties.promises.rig import Told, bank


def told() -> Told:
    story = Told()
    story.inject("deposits", "ann", {"amount": 5}, name="a")
    story.apply("ann", {"balance": 5}, seen=["a"])
    story.output("ann", {"id": 1})
    return story.end()


def spoil_state(moment: Moment) -> bool:
    moment.state("accounts", "ann")["balance"] = -5
    return bool(moment.state("accounts", "ann")["balance"] == 5)


def spoil_output(moment: Moment) -> bool:
    moment.outputs()[0].value.clear()
    return True


def spoil_input(moment: Moment) -> bool:
    moment.inputs()[0].value["amount"] = 7
    return False


def spoil_change(moment: Moment) -> bool:
    moment.changed.after["balance"] = 7
    return True


@pytest.mark.parametrize(
    ("promise", "what"),
    [
        (at_end(spoil_state), "the state of key 'ann' of 'accounts'"),
        (at_end(spoil_output), "a record of stream 'told'"),
        (at_end(spoil_input), "a record of stream 'deposits'"),
        (always(of="accounts")(spoil_change), "the state of key 'ann' of 'accounts'"),
    ],
)
def test_a_promise_that_changes_its_arguments_is_detected(promise: Any, what: str) -> None:
    with pytest.raises(PromiseError) as error:
        told().judge(promise)
    assert error.value.kind == "changes"
    assert what in str(error.value)
    assert error.value.where.startswith("test_promise_errors.py, line ")


def test_no_promise_can_mislead_another() -> None:
    @at_end
    def looks(moment: Moment) -> bool:
        return bool(
            moment.state("accounts", "ann") == {"balance": 5} and moment.outputs()[0].value == {"id": 1}
        )

    with pytest.raises(PromiseError, match="spoil_output"):
        told().judge(at_end(spoil_output), looks)
    assert not isinstance(told().verdict(looks), Violated)


def divides(_moment: Moment) -> bool:
    return 1 // 0 == 0


def leaves(_moment: Moment) -> bool:
    sys.exit(0)


def recurses(moment: Moment) -> bool:
    return recurses(moment)


@pytest.mark.parametrize(
    ("check", "error"), [(divides, "ZeroDivisionError"), (leaves, "SystemExit"), (recurses, "RecursionError")]
)
def test_a_raising_promise_is_reported_with_error_and_place(check: Any, error: str) -> None:
    with pytest.raises(PromiseError, match=error) as raised:
        told().judge(at_end(check))
    assert raised.value.kind == "raises"
    assert "at test_promise_errors.py, line" in str(raised.value)


def test_a_promise_that_never_returns_is_stopped_and_the_timer_of_others_is_kept() -> None:
    @at_end
    def hangs(_moment: Moment) -> bool:
        while True:
            with suppress(Exception):
                signal.sigtimedwait([], 0.01)

    before = signal.getsignal(signal.SIGALRM)
    judge = Judge(promise_checkers([hangs], [bank()], patience_s=0.02))
    with pytest.raises(PromiseError) as error:
        judge.take(told().events)
    assert error.value.kind == "hangs"
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


@pytest.mark.parametrize("made", [None, [{"id": 1}], ["id"], [("ann",)], 7])
def test_a_model_that_returns_no_pairs_is_told_so(made: Any) -> None:
    @expected("told")
    def model(_records: Any) -> Any:
        return made

    with pytest.raises(PromiseError, match=r"is no \(key, value\) pair, and no \(key, value, timestamp\)"):
        told().judge(model)


def test_a_ready_made_promise_is_named_by_the_line_that_asks_for_it() -> None:
    here = inspect.currentframe()
    assert here is not None
    promises = [in_order("told", by=len), bounded_state("accounts")]
    assert {promise.where for promise in promises} == {f"test_promise_errors.py, line {here.f_lineno - 1}"}


@pytest.mark.parametrize("decorate", [never, sometimes, eventually(within_us=1)])
def test_a_forgotten_return_is_refused(decorate: Any) -> None:
    def forgets(moment: Moment) -> None:
        assert moment.state("accounts", "ann") is not None

    with pytest.raises(PromiseError, match=r"returned None. Return True or False") as error:
        told().judge(decorate(forgets))
    assert error.value.kind == "returns"


def test_an_answer_that_is_not_a_bool_is_refused() -> None:
    @at_end
    def counts(moment: Moment) -> Any:
        return len(moment.outputs())

    with pytest.raises(PromiseError, match=r"returned 1. Return True or False, or nothing"):
        told().judge(counts)


@pytest.mark.parametrize(
    ("promise", "problem"),
    [
        (always(of="acounts")(divides), "names a computation 'acounts'"),
        (always(stream="credits")(divides), "which a computation consumes"),
        (always(name="S1")(divides), "has the name of an invariant"),
        (divides, "is a function, not a promise"),
    ],
)
def test_a_promise_that_does_not_fit_the_pipeline_is_refused_before_any_run(
    promise: Any, problem: str
) -> None:
    with pytest.raises(PromiseError, match=problem) as error:
        check_promises([promise], [bank()])
    assert error.value.kind == "declaration"


def test_two_promises_with_the_same_name_are_refused() -> None:
    with pytest.raises(PromiseError, match="name of another promise"):
        check_promises([always(divides), at_end(divides)], [bank()])


def test_an_unknown_name_is_reported_with_the_pipelines_names() -> None:
    @at_end
    def asks(moment: Moment) -> bool:
        return not moment.states("acounts")

    with pytest.raises(
        PromiseError,
        match=r"there is no computation 'acounts'. Did you mean 'accounts'\? There are: 'accounts', 'received'",
    ):
        told().judge(asks)


def test_only_plain_functions_can_be_promises() -> None:
    async def waits(_moment: Moment) -> bool:
        return True

    with pytest.raises(PromiseError, match="not a plain function"):
        always(waits)  # type: ignore[arg-type]
    with pytest.raises(PromiseError, match="not an identifier"):
        always(lambda _moment: True)
    with pytest.raises(PromiseError, match=r"within_us=1.5"):
        eventually(within_us=1.5)(divides)  # type: ignore[arg-type]


def test_an_error_survives_pickling_to_another_process() -> None:
    error = PromiseError("no_overdraft", "hangs", "bank.py, line 3", "did not return")
    assert str(type(error)(*error.args)) == str(error)
    assert "no_overdraft" in str(error)


def test_promises_read_only_what_the_versions_have() -> None:
    @at_end
    def asks(moment: Moment) -> bool:
        return moment.states("accounts") == {} and moment.timers("accounts", "x") == ()

    empty = Pipeline("none")
    empty.injector("in")
    with pytest.raises(PromiseError, match=r"there is no computation 'accounts'\. There are: none"):
        judge_promises(told().events[-1:], [asks], [empty])
