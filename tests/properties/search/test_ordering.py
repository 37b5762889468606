"""Orders of arrival by priorities: which messages wait for which, the bound, and failures found this way."""

from collections.abc import Iterator
from itertools import combinations

import pytest

from headrace import MILLISECOND, OptionsError
from headrace_properties.proof.mutants import CATALOGUE
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import try_plan
from headrace_properties.search.ordering import Ordering, ordering_of
from headrace_properties.search.plans import Plan
from headrace_properties.search.steering import Steering
from headrace_properties.search.strategy import search
from headrace_sim import NO_FAULTS, Arrivals, ClusterOptions, LogNormal, Priorities, simulate
from headrace_sim.arrivals import ArrivedMessage

WORKLOAD = WORKLOADS["tallies"]
TALLIES = Application.with_input(WORKLOAD.deployed, WORKLOAD.feed(0))


def handled(priorities: Priorities) -> list[ArrivedMessage]:
    """The messages that could wait, in the order in which they arrived."""
    arrivals = Arrivals(priorities=priorities)
    simulate(TALLIES.versions, TALLIES.feed(0), options=WORKLOAD.options, arrivals=arrivals)
    return [arrival for arrival in arrivals.handled if arrival.priority is not None]


def overtakes(messages: list[ArrivedMessage]) -> Iterator[tuple[float, float]]:
    """Give the priorities of each message and of one that came before it and arrived after it."""
    for first, second in combinations(messages, 2):
        if second.clock < first.clock:
            assert first.priority is not None
            assert second.priority is not None
            yield first.priority, second.priority


@pytest.mark.parametrize("seed", range(3))
def test_only_messages_of_a_higher_priority_overtake_and_none_waits_beyond_its_interval(seed: int) -> None:
    messages = handled(Priorities(seed, 1, 0))
    found = list(overtakes(messages))
    assert len(found) > 20
    assert all(first > second for first, second in found)
    assert all(message.at_us <= message.latest_us for message in messages)


def test_a_message_waits_to_the_end_of_its_interval_or_of_that_of_one_of_lower_priority() -> None:
    early = 0
    for seed in range(10):
        messages = handled(Priorities(seed, 1, 0))
        for message in messages:
            if message.at_us < message.latest_us:
                ends = [end for end in messages if end.at_us == end.latest_us == message.at_us]
                assert any((end.priority or 0) < (message.priority or 0) for end in ends)
                early += 1
    assert early > 30


def test_a_chain_falls_behind_all_others_at_the_message_of_a_change() -> None:
    """Its messages before that one had the priority that was drawn first."""
    usual = {message.step: message.priority for message in handled(Priorities(4, 1, 0))}
    assert all(0 <= priority < 1 for priority in usual.values() if priority is not None)
    messages = handled(Priorities(4, 3, 40))
    fallen = {
        message.priority for message in messages if message.priority is not None and message.priority < 0
    }
    assert fallen <= {-1, -2}
    assert fallen
    assert all(first > second for first, second in overtakes(messages))


def test_messages_of_a_chain_never_overtake_each_other_and_a_chain_has_several() -> None:
    messages = handled(Priorities(1, 1, 0))
    arrivals = Arrivals(priorities=Priorities(1, 1, 0))
    simulate(TALLIES.versions, TALLIES.feed(0), options=WORKLOAD.options, arrivals=arrivals)
    chains, size = arrivals.size
    assert len({message.priority for message in messages}) == chains
    assert size == len(messages) > chains


def test_the_bound_is_one_in_chains_times_messages_for_each_further_order() -> None:
    ordering = Ordering(3, messages=100, chains=7)
    ordering.take((9, 120))
    ordering.take((8, 200))
    assert ordering.chance == 1 / (9 * 100 * 100)
    assert Ordering(1, messages=100, chains=4).chance == 1 / 4


def test_a_failure_is_found_shrunk_and_reproduced() -> None:
    mutant = CATALOGUE["ack on receipt"]
    workload = WORKLOADS[mutant.workload]
    application = Application.with_input(workload.deployed, workload.feed(0))
    found = search(
        Steering(application, feeds=1, depth=2, options=workload.options, protocol=mutant.protocol()),
        examples=100,
    )
    failure = found.failure
    assert failure is not None
    again = try_plan(application, failure.trial, mutant.protocol())
    assert again.digest == failure.digest
    assert set(failure.violations) & set(mutant.breaks)


def test_the_sound_engine_holds_in_orders_by_priorities() -> None:
    found = search(Steering(TALLIES, feeds=1, depth=3, options=WORKLOAD.options), examples=60)
    assert found.failure is None
    assert found.ordering is not None
    assert found.ordering.messages > 50
    assert found.ordering.chains > ordering_of(TALLIES, WORKLOAD.options, 0, 3).chains  # retries


def test_each_run_has_its_own_order() -> None:
    plans = [Plan(NO_FAULTS, WORKLOAD.options, 0, priorities=Priorities(seed, 2, 100)) for seed in range(8)]
    digests = [try_plan(TALLIES, PipelineTrial(plan)).digest for plan in plans]
    assert len(set(digests)) == 8
    assert digests == [try_plan(TALLIES, PipelineTrial(plan)).digest for plan in plans]


def test_an_ordering_without_a_bound_is_refused() -> None:
    with pytest.raises(OptionsError, match="depth"):
        search(Steering(TALLIES, depth=0))
    with pytest.raises(OptionsError, match="link"):
        search(Steering(TALLIES, depth=2, options=ClusterOptions(link=LogNormal(MILLISECOND, 0.5))))
