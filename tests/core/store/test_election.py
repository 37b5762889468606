"""The election (MillWheel 6.2, 7.1): feed an event, assert all effects."""

import itertools
from dataclasses import replace

import pytest

from headrace.api.options import EngineOptions
from headrace.store.client import StoreClient
from headrace.store.election import ELECTION, Election, ElectionInput, ElectionState, Standing
from headrace.wire.effects import Effect, Send
from headrace.wire.messages import (
    STORE,
    Claim,
    Claimed,
    Message,
    Peek,
    Peeked,
    Refused,
    Renew,
    Renewed,
    Reply,
    Table,
    Unavailable,
)

OPTIONS = EngineOptions(lease_us=400, store_timeout_us=60)
FIRST = (1 << 32) + 1
"""The number of an incarnation's first request."""


class Replica:
    """An election with its store client, and its notifications to its owner; each call returns what it sends."""

    def __init__(self, address: str = "master-0", options: EngineOptions = OPTIONS) -> None:
        self.effects: list[Effect] = []
        self.told: list[Claimed | str] = []
        self.store = StoreClient(self.effects, 10**9)
        self.election = Election(
            "master", address, options, self.store,
            lambda _, claimed: self.told.append(claimed), lambda: self.told.append("lost"),
        )  # fmt: skip

    def start(self, now: int, incarnation: int) -> list[Effect]:
        self.store.start(incarnation)
        self.election.start(now, incarnation)
        return self.sent()

    def tick(self, now: int) -> list[Effect]:
        self.election.tick(now)
        self.store.sweep(now)
        return self.sent()

    def answer(self, now: int, reply: Reply) -> list[Effect]:
        self.store.reply(now, reply)
        return self.sent()

    def set_clock_back(self, now: int) -> None:
        self.store.set_clock_back(now)
        self.election.set_clock_back(now)

    def sent(self) -> list[Effect]:
        self.election.check_invariants()
        taken = self.effects.copy()
        self.effects.clear()
        return taken

    @property
    def state(self) -> ElectionState:
        return self.election.state

    @property
    def epoch(self) -> int:
        return self.election.epoch

    @property
    def due_us(self) -> int:
        """When it next has something to do."""
        return min(self.store.next_due(), self.election.next_due())


def election(address: str = "master-0", options: EngineOptions = OPTIONS) -> Replica:
    return Replica(address, options)


def claimed(request: int, epoch: int = 1) -> Claimed:
    return Claimed(request, epoch, (), 0, Table())


def ask(message: Message) -> list[Effect]:
    return [Send(STORE, message)]


def in_state(state: ElectionState, now: int = 1_000, options: EngineOptions = OPTIONS) -> Replica:
    """Bring an election that started at ``now`` into a state, by the shortest way."""
    candidate = election(options=options)
    candidate.start(now, 1)
    if state is ElectionState.PEEKING:
        return candidate
    if state is ElectionState.STANDBY:
        candidate.answer(now, Peeked(FIRST, 7, 3))
        return candidate
    candidate.answer(now, Peeked(FIRST, 0, 0))
    if state is ElectionState.CLAIMING:
        return candidate
    candidate.answer(now, claimed(FIRST + 1))
    if state is ElectionState.RENEWING:
        candidate.tick(candidate.due_us)
    return candidate


@pytest.mark.parametrize("state", ElectionState)
def test_each_state_is_reached_as_the_other_tests_assume(state: ElectionState) -> None:
    candidate = in_state(state)
    assert candidate.state is state


@pytest.mark.parametrize(
    ("state", "given"),
    list(itertools.product(ElectionState, ElectionInput)),
    ids=lambda value: value.name.lower(),
)
def test_each_state_and_input_is_declared_or_raises(state: ElectionState, given: ElectionInput) -> None:
    candidate = in_state(state)
    if given is ElectionInput.CLAIMED:
        candidate.election.epoch, candidate.election.standing = 1, Standing.ACTIVE  # the answer brings it
    if (state, given) in ELECTION:
        candidate.election._step(2_000, given)
        assert candidate.state is ELECTION[state, given]
        candidate.sent()
    else:
        with pytest.raises(AssertionError, match="cannot happen"):
            candidate.election._step(2_000, given)


def test_a_role_that_nobody_has_held_is_claimed_at_once() -> None:
    candidate = election()
    assert candidate.start(1_000, 1) == ask(Peek(FIRST, "master"))
    assert candidate.answer(1_001, Peeked(FIRST, 0, 0)) == ask(Claim(FIRST + 1, "master", 0, "master-0#1"))
    assert candidate.answer(1_002, claimed(FIRST + 1)) == []
    assert (candidate.state, candidate.epoch) == (ElectionState.HOLDING, 1)


def test_replicas_take_their_first_turns_a_quarter_of_a_lease_apart() -> None:
    started = [election(f"authority-0.{replica}") for replica in range(3)]
    assert [len(replica.start(1_000, 1)) for replica in started] == [1, 0, 0]
    assert [replica.due_us for replica in started[1:]] == [1_100, 1_200]
    assert started[1].tick(1_099) == []
    assert started[1].tick(1_100) == [Send(STORE, Peek(FIRST, "master"))]


def test_a_replica_without_a_number_is_the_first() -> None:
    assert len(election("master").start(1_000, 1)) == 1


def test_a_holder_that_renews_is_left_alone() -> None:
    candidate = election()
    candidate.start(0, 1)
    for turn in range(20):
        request = FIRST + turn
        assert candidate.answer(turn * 200 + 1, Peeked(request, 5, 3 + turn // 2)) == []
        assert candidate.tick(turn * 200 + 199) == []
        assert candidate.tick(turn * 200 + 200) == ask(Peek(request + 1, "master"))
    assert candidate.epoch == 0


def test_a_holder_that_makes_no_progress_for_a_lease_is_replaced() -> None:
    candidate = election()
    candidate.start(0, 1)
    for turn in range(2):
        assert candidate.answer(turn * 200 + 1, Peeked(FIRST + turn, 5, 3)) == []
        candidate.tick(turn * 200 + 200)
    assert candidate.answer(400, Peeked(FIRST + 2, 5, 3)) == []  # seen first at 1: not a lease yet
    assert candidate.tick(600) == ask(Peek(FIRST + 3, "master"))
    assert candidate.answer(601, Peeked(FIRST + 3, 5, 3)) == ask(Claim(FIRST + 4, "master", 5, "master-0#1"))
    candidate.answer(602, claimed(FIRST + 4, 6))
    assert candidate.epoch == 6


def test_a_refused_claim_means_that_another_was_quicker() -> None:
    candidate = in_state(ElectionState.CLAIMING)
    assert candidate.answer(1_010, Refused(FIRST + 1, 1)) == []
    assert (candidate.state, candidate.epoch, candidate.due_us) == (ElectionState.STANDBY, 0, 1_110)
    assert candidate.tick(1_110) == ask(Peek(FIRST + 2, "master"))
    assert candidate.answer(1_111, Peeked(FIRST + 2, 1, 1)) == []  # a whole lease again
    assert candidate.state is ElectionState.STANDBY


@pytest.mark.parametrize(
    ("state", "request_"),
    [
        (ElectionState.PEEKING, Peek(FIRST, "master")),
        (ElectionState.CLAIMING, Claim(FIRST + 1, "master", 0, "master-0#1")),
        (ElectionState.RENEWING, Renew(FIRST + 2, "master", 1)),
    ],
)
def test_silence_and_unavailability_are_answered_by_repeating_the_request(
    state: ElectionState, request_: Peek | Claim | Renew
) -> None:
    candidate = in_state(state)
    asked = candidate.due_us - OPTIONS.store_timeout_us
    assert candidate.tick(asked + 59) == []
    assert candidate.tick(asked + 60) == ask(request_)
    assert candidate.answer(asked + 61, Unavailable(request_.request)) == []
    assert candidate.state is state
    assert candidate.tick(asked + 119) == []
    assert candidate.tick(asked + 120) == ask(request_)


@pytest.mark.parametrize(
    ("state", "turn_us"),
    [(ElectionState.PEEKING, 200), (ElectionState.CLAIMING, 100), (ElectionState.RENEWING, 100)],
)
def test_silence_is_met_when_the_next_turn_comes_however_patient_with_the_store(
    state: ElectionState, turn_us: int
) -> None:
    candidate = in_state(state, options=replace(OPTIONS, store_timeout_us=10_000))
    asked = 1_100 if state is ElectionState.RENEWING else 1_000
    assert candidate.due_us == asked + turn_us


def test_the_holder_renews_four_times_in_a_lease() -> None:
    candidate = in_state(ElectionState.HOLDING, now=0)
    sent = []
    for now in range(1, 401):
        effects = candidate.tick(now)
        sent += [now] * len(effects)
        for effect in effects:
            assert isinstance(effect, Send)
            assert isinstance(effect.message, Renew)
            assert candidate.answer(now, Renewed(effect.message.request)) == []
    assert sent == [100, 200, 300, 400]


def test_a_journal_entry_counts_as_a_renewal() -> None:
    candidate = in_state(ElectionState.HOLDING, now=0)
    candidate.election.renewed(70)
    assert candidate.tick(169) == []
    assert candidate.tick(170) == ask(Renew(FIRST + 2, "master", 1))


def test_a_late_answer_to_an_earlier_journal_entry_makes_no_turn_earlier() -> None:
    candidate = in_state(ElectionState.HOLDING, now=1_000)
    candidate.election.renewed(950)
    assert candidate.due_us == 1_100


def test_a_refused_renewal_ends_the_tenure() -> None:
    candidate = in_state(ElectionState.RENEWING)
    assert candidate.answer(2_000, Refused(FIRST + 2, 9)) == []
    assert (candidate.state, candidate.epoch) == (ElectionState.STANDBY, 0)


def test_a_refused_journal_entry_ends_the_tenure() -> None:
    candidate = in_state(ElectionState.HOLDING)
    candidate.election.refused(2_000)
    assert (candidate.state, candidate.epoch, candidate.due_us) == (ElectionState.STANDBY, 0, 2_100)


@pytest.mark.parametrize(
    "answer", [Peeked(FIRST + 9, 0, 0), claimed(FIRST + 9), Renewed(FIRST + 9), Refused(FIRST + 9, 4)]
)
@pytest.mark.parametrize("state", ElectionState)
def test_answers_to_other_requests_change_nothing(state: ElectionState, answer: Claimed) -> None:
    candidate = in_state(state)
    assert candidate.answer(2_000, answer) == []
    assert candidate.state is state


def test_a_former_incarnations_claim_does_not_make_its_successor_the_holder() -> None:
    # The first incarnation claims and crashes; the answer comes late, to the second, whose own claim is open.
    first, second = election(), election()
    first.start(0, 1)
    first.answer(1, Peeked(FIRST, 0, 0))
    second.start(10, 2)
    asked = second.answer(11, Peeked((2 << 32) + 1, 0, 0))
    assert asked == ask(Claim((2 << 32) + 2, "master", 0, "master-0#2"))
    assert second.answer(12, claimed(FIRST + 1)) == []
    assert second.epoch == 0


def test_its_owner_is_told_when_it_becomes_the_holder_and_when_it_is_the_holder_no_longer() -> None:
    candidate = in_state(ElectionState.HOLDING)
    assert candidate.told == [claimed(FIRST + 1)]
    candidate.tick(candidate.due_us)
    candidate.answer(2_000, Refused(FIRST + 2, 9))
    assert candidate.told == [claimed(FIRST + 1), "lost"]


def test_a_refused_claim_is_not_announced() -> None:
    candidate = in_state(ElectionState.CLAIMING)
    candidate.answer(1_010, Refused(FIRST + 1, 1))
    assert candidate.told == []


def test_a_clock_that_is_put_back_delays_no_turn_beyond_one_and_shortens_no_lease() -> None:
    candidate = in_state(ElectionState.STANDBY, now=1_000_000)
    candidate.set_clock_back(500)
    assert candidate.tick(599) == []
    assert candidate.tick(600) == ask(Peek(FIRST + 1, "master"))
    assert candidate.answer(601, Peeked(FIRST + 1, 7, 3)) == []
    assert candidate.tick(800) == ask(Peek(FIRST + 2, "master"))
    assert candidate.answer(899, Peeked(FIRST + 2, 7, 3)) == []  # 399 since the clock was put back
    assert candidate.state is ElectionState.STANDBY
    assert candidate.tick(1_000) == ask(Peek(FIRST + 3, "master"))
    assert candidate.answer(1_001, Peeked(FIRST + 3, 7, 3)) == ask(
        Claim(FIRST + 4, "master", 7, "master-0#1")
    )


@pytest.mark.parametrize("state", ElectionState)
def test_a_clock_that_is_put_back_leaves_nothing_waiting_for_longer_than_a_turn(state: ElectionState) -> None:
    candidate = in_state(state, now=1_000_000)
    candidate.set_clock_back(500)
    assert candidate.due_us <= 600
    # Nor does an answer to what was asked before.
    if state is ElectionState.PEEKING:
        candidate.answer(510, Peeked(FIRST, 7, 3))
        assert candidate.due_us <= 710
    if state is ElectionState.RENEWING:
        candidate.answer(510, Renewed(FIRST + 2))
        assert candidate.due_us <= 610
