"""The example pipelines keep their promises under faults, and broken ones break them."""

from typing import Any

import pytest

from headrace import Computation, Context, Pipeline, Record, Timer
from headrace.history import History, RunEnded
from headrace_properties.checkers import judge
from headrace_properties.promises import Promise, judge_promises
from headrace_properties.reference import run_reference
from headrace_properties.results import outputs_of
from headrace_properties.search.ground import ground_of
from headrace_properties.search.plans import draw_faults
from headrace_properties.user_code.examiner import examine
from headrace_properties.verdict import Holds, Verdict, Violated
from headrace_scenarios.chaos import turnstiles
from headrace_scenarios.examples import bank, orders, windowed_join
from headrace_sim import ClusterOptions, simulate

EXAMPLES: dict[str, Any] = {"bank": bank, "orders": orders, "windowed join": windowed_join}


def run(example: Any, pipeline: Pipeline, seed: int, faults: int) -> History:
    feed = example.feed(seed)
    schedule = draw_faults(ground_of(pipeline, feed, ClusterOptions()), faults, seed)
    return simulate(pipeline, feed, faults=schedule, seed=seed)


def judged(example: Any, pipeline: Pipeline, seed: int, faults: int) -> dict[str, Verdict]:
    return judge_promises(run(example, pipeline, seed, faults), example.promises, [pipeline])


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_an_example_without_faults_does_what_the_reference_does(example: Any) -> None:
    history = run(example, example.pipeline, seed=1, faults=0)

    assert history.events[-1] == RunEnded(history.events[-1].at_us, "", "quiescent")
    assert outputs_of(history) == run_reference(example.pipeline, example.feed(1)).outputs


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_an_example_keeps_its_promises_under_faults_and_each_is_exercised(example: Any) -> None:
    exercised = set()
    for seed in range(60):
        history = run(example, example.pipeline, seed, faults=seed % 12)
        verdicts = judge_promises(history, example.promises, [example.pipeline])
        verdicts |= judge(history, [example.pipeline])
        assert not {name: verdict for name, verdict in verdicts.items() if isinstance(verdict, Violated)}
        exercised |= {name for name, verdict in verdicts.items() if isinstance(verdict, Holds)}

    assert {promise.name for promise in example.promises} <= exercised


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_nothing_is_found_in_the_code_of_an_example(example: Any) -> None:
    for seed in range(12):
        assert examine(example.pipeline, example.feed(seed), seed) == []


class Generous(bank.Payers):
    """Pays whatever is asked."""

    def transfer(self, context: Context, transfer: dict[str, Any]) -> None:
        context.state["cents"] -= transfer["cents"]
        context.produce("credits", transfer)
        context.produce("answers", {"transfer": transfer["transfer"], "booked": True})


class Swallowing(bank.Payers):
    """Debits a transfer that it then refuses."""

    def transfer(self, context: Context, transfer: dict[str, Any]) -> None:
        if transfer["cents"] <= context.state["cents"]:
            context.state["cents"] -= transfer["cents"]
        context.produce("answers", {"transfer": transfer["transfer"], "booked": False})


class Silent(bank.Payers):
    """Answers only what it books."""

    def transfer(self, context: Context, transfer: dict[str, Any]) -> None:
        if transfer["cents"] <= context.state["cents"]:
            super().transfer(context, transfer)


class Dropping(windowed_join.Join):
    """Joins only the first click of a window."""

    def process_timer(self, context: Context, timer: Timer) -> None:
        window = context.state[timer.tag]
        window["clicks"] = sorted(window["clicks"])[:1]
        super().process_timer(context, timer)


class Keeping(windowed_join.Join):
    """Keeps the clicks of closed windows."""

    def process_timer(self, context: Context, timer: Timer) -> None:
        kept = context.state[timer.tag]["clicks"]
        super().process_timer(context, timer)
        context.state.setdefault("closed", []).extend(kept)


class Trusting(orders.Process):
    """Ships what nobody has paid."""

    def process_record(self, context: Context, record: Record) -> None:
        super().process_record(context, record)
        if record.stream == "orders":
            context.state.setdefault("payments", record.timestamp)


class Forgetful(orders.Process):
    """Cancels the deadline of an order that is paid."""

    def process_record(self, context: Context, record: Record) -> None:
        super().process_record(context, record)
        if record.stream == "payments":
            context.cancel_timer("pay")


class Hasty(orders.Process):
    """Tells that an order is shipped as soon as it is, and once more at the deadline."""

    def process_record(self, context: Context, record: Record) -> None:
        super().process_record(context, record)
        if record.stream == "shipments":
            context.produce("outcomes", {"order": context.key, "outcome": "shipped"})


BROKEN = [
    (bank, "payers", Generous(), "no_overdraft"),
    (bank, "payers", Swallowing(), "no_money_is_lost"),
    (bank, "payers", Silent(), "answered_once"),
    (windowed_join, "join", Dropping(), "every_pair_is_joined"),
    (windowed_join, "join", Keeping(), "bounded_state"),
    (orders, "process", Trusting(), "unpaid_goods_are_shipped"),
    (orders, "process", Forgetful(), "every_order_is_closed"),
    (orders, "process", Forgetful(), "bounded_state"),
    (orders, "process", Hasty(), "answered_once"),
]


@pytest.mark.parametrize(("example", "name", "broken", "promise"), BROKEN)
def test_a_broken_example_breaks_its_promise(
    example: Any, name: str, broken: Computation, promise: str
) -> None:
    pipeline = example.pipeline.with_computation(name, computation=broken)

    verdicts = [judged(example, pipeline, seed, faults=0)[promise] for seed in range(8)]

    assert any(isinstance(verdict, Violated) for verdict in verdicts)


def test_every_promise_of_the_examples_is_broken_by_some_broken_example() -> None:
    promises: set[Promise] = {promise for example in EXAMPLES.values() for promise in example.promises}

    assert {promise.name for promise in promises if promise.kind.value != "sometimes"} == {
        case[3] for case in BROKEN
    }


def test_an_uncounted_person_breaks_a_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop(_: Computation, context: Context, timer: Timer) -> None:
        context.state.pop(timer.tag)

    assert isinstance(judged(turnstiles, turnstiles.pipeline, 0, faults=3)["everybody_is_counted"], Holds)
    monkeypatch.setattr(turnstiles.SecondCounter, "process_timer", drop)
    assert isinstance(judged(turnstiles, turnstiles.pipeline, 0, faults=3)["everybody_is_counted"], Violated)
