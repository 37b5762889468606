"""The election (MillWheel 6.2, 7.1): feed an event, assert all that comes out."""

import itertools
from dataclasses import replace

import pytest

from headrace.api.options import EngineOptions
from headrace.store.client import StoreClient
from headrace.store.election import ELECTION, Election, Input, Standing, State
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
    """An election with its store client, and what it has told its owner; each call returns what it sends."""

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
    def state(self) -> State:
        return self.election.state

    @property
    def epoch(self) -> int:
        return self.election.epoch

    @property
    def due_us(self) -> int:
        """When it next has something to do."""
        again = self.store.next_due()
        return self.election.due_us if again is None else min(again, self.election.due_us)


def election(address: str = "master-0", options: EngineOptions = OPTIONS) -> Replica:
    return Replica(address, options)


def claimed(request: int, epoch: int = 1) -> Claimed:
    return Claimed(request, epoch, (), 0, Table())


def ask(message: Message) -> list[Effect]:
    return [Send(STORE, message)]


def in_state(state: State, now: int = 1_000) -> Replica:
    """Bring an election that started at ``now`` into a state, by the shortest way."""
    one = election()
    one.start(now, 1)
    if state is State.PEEKING:
        return one
    if state is State.STANDBY:
        one.answer(now, Peeked(FIRST, 7, 3))
        return one
    one.answer(now, Peeked(FIRST, 0, 0))
    if state is State.CLAIMING:
        return one
    one.answer(now, claimed(FIRST + 1))
    if state is State.RENEWING:
        one.tick(one.due_us)
    return one


@pytest.mark.parametrize("state", State)
def test_each_state_is_reached_as_the_other_tests_assume(state: State) -> None:
    one = in_state(state)
    assert one.state is state


@pytest.mark.parametrize(
    ("state", "given"), list(itertools.product(State, Input)), ids=lambda value: value.name.lower()
)
def test_each_state_and_input_is_declared_or_raises(state: State, given: Input) -> None:
    one = in_state(state)
    if given is Input.CLAIMED:
        one.election.epoch, one.election.standing = 1, Standing.ACTIVE  # the answer brings it
    if (state, given) in ELECTION:
        one.election._step(2_000, given)
        assert one.state is ELECTION[state, given]
        one.sent()
    else:
        with pytest.raises(AssertionError, match="cannot happen"):
            one.election._step(2_000, given)


def test_a_role_that_nobody_has_held_is_claimed_at_once() -> None:
    one = election()
    assert one.start(1_000, 1) == ask(Peek(FIRST, "master"))
    assert one.answer(1_001, Peeked(FIRST, 0, 0)) == ask(Claim(FIRST + 1, "master", 0, "master-0#1"))
    assert one.answer(1_002, claimed(FIRST + 1)) == []
    assert (one.state, one.epoch) == (State.HOLDING, 1)


def test_replicas_take_their_first_turns_a_quarter_of_a_lease_apart() -> None:
    started = [election(f"authority-0.{replica}") for replica in range(3)]
    assert [len(replica.start(1_000, 1)) for replica in started] == [1, 0, 0]
    assert [replica.due_us for replica in started[1:]] == [1_100, 1_200]
    assert started[1].tick(1_099) == []
    assert started[1].tick(1_100) == [Send(STORE, Peek(FIRST, "master"))]


def test_a_replica_without_a_number_is_the_first() -> None:
    assert len(election("master").start(1_000, 1)) == 1


def test_a_holder_that_renews_is_left_alone() -> None:
    one = election()
    one.start(0, 1)
    for turn in range(20):
        request = FIRST + turn
        assert one.answer(turn * 100 + 1, Peeked(request, 5, 3 + turn // 4)) == []
        assert one.tick(turn * 100 + 99) == []
        assert one.tick(turn * 100 + 100) == ask(Peek(request + 1, "master"))
    assert one.epoch == 0


def test_a_holder_that_stands_still_for_a_lease_is_replaced() -> None:
    one = election()
    one.start(0, 1)
    for turn in range(4):
        assert one.answer(turn * 100 + 1, Peeked(FIRST + turn, 5, 3)) == []
        one.tick(turn * 100 + 100)
    assert one.answer(400, Peeked(FIRST + 4, 5, 3)) == []  # seen first at 1: not a lease yet
    assert one.tick(500) == ask(Peek(FIRST + 5, "master"))
    assert one.answer(501, Peeked(FIRST + 5, 5, 3)) == ask(Claim(FIRST + 6, "master", 5, "master-0#1"))
    one.answer(502, claimed(FIRST + 6, 6))
    assert one.epoch == 6


def test_a_refused_claim_means_that_another_was_quicker() -> None:
    one = in_state(State.CLAIMING)
    assert one.answer(1_010, Refused(FIRST + 1, 1)) == []
    assert (one.state, one.epoch, one.due_us) == (State.STANDBY, 0, 1_110)
    assert one.tick(1_110) == ask(Peek(FIRST + 2, "master"))
    assert one.answer(1_111, Peeked(FIRST + 2, 1, 1)) == []  # a whole lease again
    assert one.state is State.STANDBY


@pytest.mark.parametrize(
    ("state", "request_"),
    [
        (State.PEEKING, Peek(FIRST, "master")),
        (State.CLAIMING, Claim(FIRST + 1, "master", 0, "master-0#1")),
        (State.RENEWING, Renew(FIRST + 2, "master", 1)),
    ],
)
def test_silence_and_unavailability_are_met_by_the_same_request_again(
    state: State, request_: Peek | Claim | Renew
) -> None:
    one = in_state(state)
    asked = one.due_us - OPTIONS.store_timeout_us
    assert one.tick(asked + 59) == []
    assert one.tick(asked + 60) == ask(request_)
    assert one.answer(asked + 61, Unavailable(request_.request)) == []
    assert one.state is state
    assert one.tick(asked + 119) == []
    assert one.tick(asked + 120) == ask(request_)


def test_silence_is_met_within_a_quarter_of_a_lease_however_patient_with_the_store() -> None:
    one = election(options=replace(OPTIONS, store_timeout_us=10_000))
    one.start(0, 1)
    assert one.due_us == 100


def test_the_holder_renews_four_times_in_a_lease() -> None:
    one = in_state(State.HOLDING, now=0)
    sent = []
    for now in range(1, 401):
        effects = one.tick(now)
        sent += [now] * len(effects)
        for effect in effects:
            assert isinstance(effect, Send)
            assert isinstance(effect.message, Renew)
            assert one.answer(now, Renewed(effect.message.request)) == []
    assert sent == [100, 200, 300, 400]


def test_a_journal_entry_counts_as_a_renewal() -> None:
    one = in_state(State.HOLDING, now=0)
    one.election.renewed(70)
    assert one.tick(169) == []
    assert one.tick(170) == ask(Renew(FIRST + 2, "master", 1))


def test_a_late_answer_to_an_earlier_journal_entry_makes_no_turn_earlier() -> None:
    one = in_state(State.HOLDING, now=1_000)
    one.election.renewed(950)
    assert one.due_us == 1_100


def test_a_refused_renewal_ends_the_tenure() -> None:
    one = in_state(State.RENEWING)
    assert one.answer(2_000, Refused(FIRST + 2, 9)) == []
    assert (one.state, one.epoch) == (State.STANDBY, 0)


def test_a_refused_journal_entry_ends_the_tenure() -> None:
    one = in_state(State.HOLDING)
    one.election.refused(2_000)
    assert (one.state, one.epoch, one.due_us) == (State.STANDBY, 0, 2_100)


@pytest.mark.parametrize(
    "answer", [Peeked(FIRST + 9, 0, 0), claimed(FIRST + 9), Renewed(FIRST + 9), Refused(FIRST + 9, 4)]
)
@pytest.mark.parametrize("state", State)
def test_answers_to_other_requests_change_nothing(state: State, answer: Claimed) -> None:
    one = in_state(state)
    assert one.answer(2_000, answer) == []
    assert one.state is state


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
    one = in_state(State.HOLDING)
    assert one.told == [claimed(FIRST + 1)]
    one.tick(one.due_us)
    one.answer(2_000, Refused(FIRST + 2, 9))
    assert one.told == [claimed(FIRST + 1), "lost"]


def test_nobody_is_told_of_a_claim_that_was_refused() -> None:
    one = in_state(State.CLAIMING)
    one.answer(1_010, Refused(FIRST + 1, 1))
    assert one.told == []


def test_a_clock_that_is_put_back_delays_no_turn_beyond_one_and_shortens_no_lease() -> None:
    one = in_state(State.STANDBY, now=1_000_000)
    one.set_clock_back(500)
    assert one.tick(599) == []
    assert one.tick(600) == ask(Peek(FIRST + 1, "master"))
    assert one.answer(601, Peeked(FIRST + 1, 7, 3)) == []
    one.tick(700)
    assert one.answer(899, Peeked(FIRST + 2, 7, 3)) == []  # 399 since the clock was put back
    assert one.state is State.STANDBY
    one.tick(900)
    assert one.answer(901, Peeked(FIRST + 3, 7, 3)) == ask(Claim(FIRST + 4, "master", 7, "master-0#1"))


@pytest.mark.parametrize("state", State)
def test_a_clock_that_is_put_back_leaves_nothing_waiting_for_longer_than_a_turn(state: State) -> None:
    one = in_state(state, now=1_000_000)
    one.set_clock_back(500)
    assert one.due_us <= 600
    for turn in (State.PEEKING, State.RENEWING):  # nor does an answer to what was asked before
        if state is turn:
            one.answer(510, Peeked(FIRST, 7, 3) if turn is State.PEEKING else Renewed(FIRST + 2))
            assert one.due_us <= 610
