"""Requests to the store (see docs/protocol.md): numbered, and repeated until answered."""

import weakref

import pytest

from headrace.api.time import MAX_TIME
from headrace.store.client import StoreClient
from headrace.wire.effects import Effect, Send
from headrace.wire.messages import STORE, Read, Refused, Reply, Request, RowRead, Unavailable

TIMEOUT_US = 100


class Desk:
    """A store client, and the replies that were passed on."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.replies: list[tuple[int, Reply]] = []
        self.client = StoreClient(self.effects, TIMEOUT_US)

    def ask(self, now: int, key: str = "dog", owner: object = None) -> Request:
        request = Read(self.client.number(), "counter", 7, key)
        self.client.ask(now, request, lambda at, reply: self.replies.append((at, reply)), owner)
        return request

    def sent(self) -> list[Effect]:
        taken = self.effects.copy()
        self.effects.clear()
        return taken

    def sweep(self, now: int) -> list[Effect]:
        self.client.sweep(now)
        return self.sent()


def test_a_request_is_sent_at_once_and_its_reply_is_passed_on_once() -> None:
    desk = Desk()
    request = desk.ask(0)
    assert desk.sent() == [Send(STORE, request)]
    reply = RowRead(request.request, None)
    desk.client.reply(5, reply)
    desk.client.reply(6, reply)
    assert desk.replies == [(5, reply)]
    assert (len(desk.client), desk.sweep(1_000)) == (0, [])


def test_what_a_request_was_about_is_free_as_soon_as_all_before_it_are_answered() -> None:
    class Steps:
        def written(self, now: int, reply: Reply) -> None: ...

    desk, steps = Desk(), Steps()
    first = desk.ask(0)
    request = Read(desk.client.number(), "counter", 7, "dog")
    desk.client.ask(0, request, steps.written, steps)
    freed = weakref.ref(steps)
    del steps
    desk.client.reply(1, RowRead(request.request, None))
    desk.client.reply(2, RowRead(first.request, None))
    assert freed() is None, "an answered request is kept until the next sweep"


def test_each_request_has_a_number_of_its_own() -> None:
    desk = Desk()
    numbers = [desk.ask(0).request for _ in range(3)]
    assert sorted(set(numbers)) == numbers


def test_two_lives_of_a_process_have_no_number_in_common() -> None:
    numbers: set[int] = set()
    for incarnation in (1, 2, 3):
        client = Desk().client
        client.start(incarnation)
        numbers.update(client.number() for _ in range(1_000))
    assert len(numbers) == 3_000


@pytest.mark.parametrize("unavailable", [False, True], ids=["silence", "unavailable"])
def test_an_unanswered_request_is_asked_again_as_it_was_until_it_is_answered(unavailable: bool) -> None:  # noqa: FBT001
    desk = Desk()
    request = desk.ask(0)
    desk.sent()
    if unavailable:
        desk.client.reply(1, Unavailable(request.request))
    assert desk.sweep(TIMEOUT_US - 1) == []
    assert desk.sweep(TIMEOUT_US) == [Send(STORE, request)]
    assert desk.sweep(2 * TIMEOUT_US - 1) == []
    assert desk.sweep(2 * TIMEOUT_US) == [Send(STORE, request)]
    desk.client.reply(250, Refused(request.request, 8))
    assert desk.sweep(1_000) == []
    assert desk.replies == [(250, Refused(request.request, 8))]


def test_only_what_is_due_is_asked_again() -> None:
    desk = Desk()
    first, second = desk.ask(0, "a"), desk.ask(60, "b")
    desk.sent()
    assert desk.sweep(TIMEOUT_US) == [Send(STORE, first)]
    assert desk.sweep(TIMEOUT_US + 60) == [Send(STORE, second)]


def test_a_reply_to_an_unknown_request_is_ignored() -> None:
    desk = Desk()
    desk.client.reply(0, RowRead(99, None))
    assert desk.replies == []


def test_the_requests_of_an_owner_that_is_gone_are_neither_repeated_nor_answered() -> None:
    desk = Desk()
    mine, gone = object(), object()
    kept, dropped = desk.ask(0, "a", mine), desk.ask(0, "b", gone)
    desk.sent()
    desk.client.forget(gone)
    desk.client.reply(1, RowRead(dropped.request, None))
    assert desk.replies == []
    assert desk.sweep(1_000) == [Send(STORE, kept)]


def test_it_says_when_it_will_ask_again_and_when_it_asked() -> None:
    desk = Desk()
    assert desk.client.next_due() == MAX_TIME
    first, second = desk.ask(0, "a"), desk.ask(60, "b")
    assert desk.client.next_due() == TIMEOUT_US
    desk.sweep(130)
    assert desk.client.next_due() == 60 + TIMEOUT_US
    desk.client.reply(150, RowRead(second.request, None))
    assert (desk.client.asked_us, desk.client.next_due()) == (60, 130 + TIMEOUT_US)
    desk.client.reply(150, RowRead(first.request, None))
    assert (desk.client.asked_us, desk.client.next_due()) == (130, MAX_TIME)


def test_a_request_may_have_a_time_out_of_its_own_and_the_shorter_ones_go_first() -> None:
    desk = Desk()
    slow = desk.ask(0)
    quick = Read(desk.client.number(), "counter", 7, "cat")
    desk.client.ask(60, quick, lambda *_: None, None, timeout_us=30)
    desk.sent()
    assert desk.client.next_due() == 90
    assert desk.sweep(90) == [Send(STORE, quick)]
    assert desk.sweep(130) == [Send(STORE, quick), Send(STORE, slow)]


def test_when_the_clock_is_put_back_nothing_waits_for_longer_than_its_time_out() -> None:
    desk = Desk()
    slow = desk.ask(5_000)
    quick = Read(desk.client.number(), "counter", 7, "cat")
    desk.client.ask(5_000, quick, lambda *_: None, None, timeout_us=30)
    desk.client.set_clock_back(10)
    desk.sent()
    assert desk.sweep(39) == []
    assert desk.sweep(40) == [Send(STORE, quick)]
    desk.client.set_clock_back(35)  # a little: what is due soon anyhow is not put off
    assert desk.sweep(65) == [Send(STORE, quick)]
    desk.client.reply(66, RowRead(quick.request, None))
    assert (desk.sweep(109), desk.sweep(110)) == ([], [Send(STORE, slow)])


def test_what_is_answered_after_the_clock_was_put_back_was_not_asked_in_the_future() -> None:
    desk = Desk()
    request = desk.ask(5_000)
    desk.client.set_clock_back(10)
    desk.client.reply(20, RowRead(request.request, None))
    assert desk.client.asked_us == 10


def test_an_owner_learns_how_much_it_requests() -> None:
    desk = Desk()
    mine, other = object(), object()
    desk.ask(0, "a", mine)
    desk.ask(0, "b", other)
    assert [desk.client.asks(mine), desk.client.asks(None)] == [1, 0]
    desk.client.forget(mine)
    assert desk.client.asks(mine) == 0
