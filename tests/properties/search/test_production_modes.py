"""What each way to run a pipeline loses, repeats and changes under the same faults (MillWheel 6.1.2, 6.1.3)."""

from collections import Counter
from functools import cache

import pytest

from headrace import SECOND, Computation, Context, Pipeline, Record, UserCodeError
from headrace_properties.proof.workloads import tallies
from headrace_properties.reference import Emitted
from headrace_properties.search.production_modes import WAYS, Account, compare
from headrace_scenarios import wall_clock
from headrace_sim import Feed, FeedBuilder


@cache
def wall_clocks() -> dict[str, Account]:
    accounts = compare(wall_clock.pipeline, wall_clock.feed(0), runs=12, faults=10)
    return {account.way.name: account for account in accounts}


@pytest.mark.parametrize("way", [way.name for way in WAYS])
def test_no_way_breaks_what_it_promises_or_loses_a_record(way: str) -> None:
    account = wall_clocks()[way]
    assert account.runs == 12
    assert not account.errors
    assert not account.violated
    assert account.lost == 0


def test_only_weak_productions_make_bitwise_different_records_of_one_id() -> None:
    diverged = {name: account.with_faults.diverged for name, account in wall_clocks().items()}
    assert diverged["strong"] == diverged["strong, exactly-once off"] == 0
    assert diverged["weak"] > 0


def test_only_without_exactly_once_a_record_counts_twice() -> None:
    twice = {name: account.with_faults.counted_twice for name, account in wall_clocks().items()}
    assert {name for name, count in twice.items() if count} == {
        "strong, exactly-once off",
        "weak, exactly-once off",
    }


def test_a_strong_production_waits_for_a_commit_that_a_weak_one_does_not() -> None:
    strong, weak = wall_clocks()["strong"].without_faults, wall_clocks()["weak"].without_faults
    assert sorted(weak.latencies_us)[len(weak.latencies_us) // 2] * 2 < sorted(strong.latencies_us)[15]
    assert weak.written_bytes < strong.written_bytes


def test_reruns_and_retained_bytes_are_reported() -> None:
    for account in wall_clocks().values():
        storm = account.with_faults
        assert storm.crashes > 0
        assert storm.again >= storm.counted_twice
        assert storm.held_byte_us > 50 * sum(storm.held_us), "a production has more than 50 bytes"


def test_stragglers_are_checkpointed_only_where_that_is_wanted() -> None:
    checkpointed = {name: account.with_faults.checkpointed for name, account in wall_clocks().items()}
    assert checkpointed["weak"] > 0
    assert checkpointed["weak, no straggler checkpoints"] == checkpointed["strong"] == 0


def test_code_independent_of_time_and_order_has_the_same_result_in_every_exactly_once_way() -> None:
    workload = tallies()
    accounts = compare(workload.pipeline, workload.feed(1), runs=5, faults=0)
    assert [(account.lost, account.repeated, account.changed) for account in accounts] == [(0, 0, 0)] * len(
        WAYS
    )


def test_runs_without_faults_waste_nothing() -> None:
    for account in wall_clocks().values():
        calm = account.without_faults
        assert (calm.again, calm.in_vain, calm.counted_twice, calm.diverged, calm.checkpointed) == (0,) * 5
        assert calm.crashes == 0
        assert calm.executions == 2 * wall_clock.VISITS
        assert len(calm.latencies_us) == wall_clock.VISITS


def test_a_duplicated_record_counts_as_repeated_and_one_with_another_value_as_changed() -> None:
    one, other, late = (
        Emitted("counts", key, value, 5) for key, value in [("a", b"1"), ("a", b"2"), ("b", b"1")]
    )
    account = Account(WAYS[0])

    account._compare(Counter([one, late]), Counter([other, other]))

    assert (account.lost, account.repeated, account.changed) == (1, 1, 1)


class Once(Computation):
    """Fails on a value that it has seen: what code does that relies on exactly-once."""

    def initial_state(self) -> list[int]:
        return []

    def process_record(self, context: Context, record: Record) -> None:
        if record.value in context.state:
            raise ValueError(record.value)
        context.state.append(record.value)
        context.produce("passed", record.value)


def once(values: range) -> tuple[Pipeline, Feed]:
    pipeline = Pipeline("once")
    pipeline.injector("values")
    pipeline.add(Once(), name="door", inputs=["values"], outputs=["passed"])
    builder = FeedBuilder(pipeline)
    for number in values:
        at_us = SECOND + number * SECOND // 10
        builder.record(at_us=at_us, value=number % 20, timestamp=at_us, key="door")
    return pipeline, builder.build()


def test_code_that_relies_on_exactly_once_stops_only_the_runs_without_it() -> None:
    accounts = compare(*once(range(20)), runs=6, faults=10)
    stopped = {account.way.name for account in accounts if account.errors}
    assert stopped == {"strong, exactly-once off", "weak, exactly-once off"}
    assert all(account.runs + len(account.errors) == 6 for account in accounts)


def test_code_that_fails_without_faults_is_not_compared() -> None:
    with pytest.raises(UserCodeError, match="ValueError"):
        compare(*once(range(21)), runs=1, faults=0)
