"""State that nothing will ever clean up is a question to its author, and only where its key comes no more."""

import pytest

from headrace import SECOND, Computation, Context, Record, Timer
from headrace.api.specs import KeyExtractor
from headrace_properties.findings import FindingClass
from headrace_properties.promises import Promise, bounded_state
from headrace_properties.user_code.habits import Habit
from headrace_properties.user_code.review import CodeReview, review
from headrace_properties.verifier import NotExercisedError
from tests.properties.user_code.numbers import numbers


class Dedup(Computation):
    """Lets the first of a key pass. ``ends``: what ends its state."""

    def __init__(self, ends: str = "") -> None:
        self.ends = ends

    def process_record(self, context: Context, record: Record) -> None:
        if not context.state:
            context.state["seen"] = True
            context.produce("out", context.key)
        if self.ends == "timer":
            context.set_timer("forget", at=record.timestamp + SECOND)
        if self.ends == "hold":
            context.hold_watermark(record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.clear_state()


class ForgetsPairs(Dedup):
    """Forgets a key with its second record; some have only one."""

    def process_record(self, context: Context, record: Record) -> None:
        if context.state:
            context.clear_state()
        else:
            super().process_record(context, record)


def reviewed(computation: Computation, key: KeyExtractor, *promises: Promise) -> CodeReview:
    pipeline, feed = numbers(computation)
    return review(pipeline.with_computation("planted", inputs={"in": key}), feed, promises=promises)


def by_pair(record: Record) -> str:
    return str(record.value // 2)


def question(found: CodeReview) -> str:
    assert {finding.kind for finding in found.findings} <= {Habit.GROWTH.kind}
    assert found.of(FindingClass.UNDECLARED) == found.findings
    return "".join(map(str, found.findings))


def test_keys_that_come_no_more_and_keep_their_state_are_asked_about() -> None:
    found = reviewed(Dedup(), by_pair)
    told = question(found)
    assert "key '0' of 'planted' comes no more after 2 of 20 records, and is left with {'seen': True}" in told
    assert "5 of 10 keys" in told
    assert "bounded_state" in told
    meant = bounded_state("planted", keeps=lambda key, state: True)
    assert question(reviewed(Dedup(), by_pair, meant)) == ""


def test_a_key_that_is_cleared_only_if_its_pair_comes_is_asked_about() -> None:
    alone = reviewed(ForgetsPairs(), lambda record: by_pair(record) + "*" * (record.value % 8 == 1))
    assert "so are" in question(alone)
    assert question(reviewed(ForgetsPairs(), by_pair)) == ""


@pytest.mark.parametrize("ends", ["timer", "hold"])
def test_keys_that_something_will_end_are_not_asked_about(ends: str) -> None:
    assert question(reviewed(Dedup(ends), by_pair)) == ""


def test_keys_that_come_again_and_again_are_not_asked_about() -> None:
    assert question(reviewed(Dedup(), lambda record: "ab"[record.value % 2])) == ""


def test_a_test_is_told_the_question() -> None:
    told = str(NotExercisedError("numbers", 200, (), "key '0' is left"))
    assert told == "numbers: nothing is violated in 200 runs, but key '0' is left"
    both = str(NotExercisedError("numbers", 200, ("S8",), "key '0' is left"))
    assert "none of them exercised S8" in both
    assert both.endswith("And key '0' is left")
