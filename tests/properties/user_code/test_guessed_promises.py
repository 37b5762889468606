"""Promises that are proposed for a pipeline find what no invariant can: planted pipelines, and their sound twins."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace import SECOND, Computation, Context, Pipeline, Record
from headrace_properties import promises
from headrace_properties.promises import judge_promises
from headrace_properties.search.limits import CodeLimits
from headrace_properties.user_code.guessed_promises import guessed_promises
from headrace_properties.verdict import Violated
from headrace_sim import ClusterOptions, Feed, FeedBuilder, simulate

Work = Callable[[dict[str, Any], dict[str, Any]], list[dict[str, Any]]]
"""Takes an order's state and value, and returns what leaves."""


class Desk(Computation):
    def __init__(self, work: Work) -> None:
        self.work = work

    def initial_state(self) -> dict[str, Any]:
        return {}

    def process_record(self, context: Context, record: Record) -> None:
        for told in self.work(context.state, record.value):
            context.produce("done", told)


def refuses_silently(_state: dict[str, Any], order: dict[str, Any]) -> list[dict[str, Any]]:
    return [order] if order["amount"] > 5 else []


def answers_all(_state: dict[str, Any], order: dict[str, Any]) -> list[dict[str, Any]]:
    return [order | {"accepted": order["amount"] > 5}]


def tells_twice(_state: dict[str, Any], order: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"order_id": order["id"], "id": order["id"]}] * (1 + (order["amount"] > 5))


def keeps_first(state: dict[str, Any], order: dict[str, Any]) -> list[dict[str, Any]]:
    return [] if state.setdefault("first", order["seq"]) != order["seq"] else [order]


def keeps_newest(state: dict[str, Any], order: dict[str, Any]) -> list[dict[str, Any]]:
    newest = state.get("newest", -1) < order["seq"]
    state["newest"] = max(state.get("newest", -1), order["seq"])
    return [order] if newest else []


def rounds(_state: dict[str, Any], order: dict[str, Any]) -> list[dict[str, Any]]:
    return [order | {"amount": order["amount"] // 2 * 2}]


def pipeline_of(work: Work) -> tuple[Pipeline, Feed]:
    """Return a pipeline and its input, of which the orders of `keeps_first` and `keeps_newest` come in versions."""
    pipeline = Pipeline("desk")
    pipeline.injector("shop", outputs=["orders"])
    pipeline.add(Desk(work), name="desk", inputs=["orders"], outputs=["done"], ordered=True)
    builder, versioned = FeedBuilder(pipeline), work in {keeps_first, keeps_newest}
    for number in range(6):
        id_ = number % 3 if versioned else number
        value = {"id": id_, "amount": 3 + number} | ({"seq": number} if versioned else {})
        at_us = (number + 1) * SECOND
        builder.record(at_us=at_us, stream="orders", key=str(id_), value=value, timestamp=at_us)
    return pipeline, builder.build()


def proposed(work: Work) -> dict[str, str]:
    pipeline, feed = pipeline_of(work)
    found = guessed_promises(pipeline, feed, ClusterOptions(), 0, CodeLimits())
    return {proposal.code: proposal.broken for proposal in found}


ANSWERED = 'answered_once("orders", "done", by="id")'
NEWEST = 'newest_wins("id", version="seq", table="done")'
TOTAL = 'same_total({"input": "amount", "done": "amount"})'
PLANTS: list[tuple[Work, Work, str, str]] = [
    (refuses_silently, answers_all, ANSWERED, "request 0 is never answered"),
    (tells_twice, answers_all, ANSWERED, "request 3 is answered again"),
    (keeps_first, keeps_newest, NEWEST, "and a newer version came"),
    (rounds, answers_all, TOTAL, "the input has 33, but done has 30"),
]


@pytest.mark.parametrize(
    ("wrong", "sound", "code", "why"), PLANTS, ids=lambda given: getattr(given, "__name__", "")
)
def test_proposed_promise_finds_what_nobody_stated_and_holds_for_the_sound_twin(
    wrong: Work, sound: Work, code: str, why: str
) -> None:
    assert why in proposed(wrong)[code]
    assert proposed(sound)[code] == ""
    promise = eval(code, vars(promises))  # noqa: S307  as it is pasted
    for work in (wrong, sound):
        pipeline, feed = pipeline_of(work)
        verdict = judge_promises(simulate(pipeline, feed), [promise], [pipeline])[promise.name]
        assert isinstance(verdict, Violated) is (work is wrong)


def fails(_state: dict[str, Any], order: dict[str, Any]) -> list[dict[str, Any]]:
    raise ValueError(order)


def test_nothing_is_proposed_for_a_pipeline_that_fails_or_leaves_no_columns() -> None:
    assert proposed(fails) == {}
    assert proposed(lambda _state, order: [order["amount"]]) == {}
