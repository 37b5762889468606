"""The client of the store: numbered requests, resent until they are answered.

Rules of this file:

* Every request is safe to repeat (see `headrace.store.mediator`), so silence and `Unavailable` are met in the same way: by the
  same request, under its own number.
* Numbers of different incarnations differ, so that a reply to a former one is never taken for one to this one.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from headrace.api.time import MAX_TIME
from headrace.deadlines import brought_forward
from headrace.wire.effects import Effect, Send
from headrace.wire.messages import STORE, Reply, Request, Unavailable

OnReply = Callable[[int, Reply], None]
"""Called with the asker's clock in microseconds, and the reply."""


class _Open(msgspec.Struct, eq=False):
    """An unanswered request, when it was last sent, and when it is resent."""

    request: Request
    on_reply: OnReply
    owner: object
    timeout_us: int
    asked_us: int
    due_us: int
    is_open: bool = True


class StoreClient:
    """The unanswered requests of a process.

    Args:
        effects: where sends are appended.
        timeout_us: an unanswered request is resent after this.

    Attributes:
        asked_us: when the request that is being answered was last sent.
    """

    def __init__(self, effects: list[Effect], timeout_us: int) -> None:
        self._effects = effects
        self._timeout_us = timeout_us
        self._last = 0
        self._open: dict[int, _Open] = {}
        self._due: dict[int, deque[_Open]] = {timeout_us: deque()}  # by time-out, the shortest first
        self.asked_us = 0

    def start(self, incarnation: int) -> None:
        """Begin an incarnation."""
        self._last = incarnation << 32

    def number(self) -> int:
        """Return the number for the next request."""
        self._last += 1
        return self._last

    def ask(
        self, now: int, request: Request, on_reply: OnReply, owner: object, *, timeout_us: int | None = None
    ) -> None:
        """Send a request, and resend it until it is answered.

        Args:
            now: the asker's clock, microseconds.
            request: with a number of its own.
            on_reply: called once, with the reply.
            owner: the owner under which `forget` drops the request.
            timeout_us: resend this request after this; default: the client's own.
        """
        wait_us = self._timeout_us if timeout_us is None else timeout_us
        if wait_us not in self._due:
            self._due = dict(sorted([*self._due.items(), (wait_us, deque())]))
        asked = self._open[request.request] = _Open(request, on_reply, owner, wait_us, now, now + wait_us)
        self._due[wait_us].append(asked)
        self._effects.append(Send(STORE, request))

    def reply(self, now: int, reply: Reply) -> None:
        """Take a reply; ignore one to a request that is no longer open."""
        if type(reply) is Unavailable:
            return
        asked = self._open.pop(reply.request, None)
        if asked is not None:
            asked.is_open = False
            queue = self._due[asked.timeout_us]
            while queue and not queue[0].is_open:  # it would keep what they were about until the next sweep
                queue.popleft()
            self.asked_us = asked.asked_us
            asked.on_reply(now, reply)

    def open_requests(self) -> list[Request]:
        """Return the unanswered requests."""
        return [asked.request for asked in self._open.values()]

    def asks(self, owner: object) -> int:
        """Count an owner's open requests."""
        return sum(asked.owner is owner for asked in self._open.values())

    def forget(self, owner: object) -> None:
        """Drop the open requests of an owner that no longer exists."""
        if self._open:
            for number in [number for number, asked in self._open.items() if asked.owner is owner]:
                self._open.pop(number).is_open = False

    def set_clock_back(self, now: int) -> None:
        """Adjust to an asker's clock that was set back; see `headrace.deadlines`."""
        for asked in self._open.values():
            asked.asked_us = min(asked.asked_us, now)
            asked.due_us = brought_forward(asked.due_us, now, asked.timeout_us)

    def next_due(self) -> int:
        """Return when the next request is resent, microseconds; `MAX_TIME` if all are answered."""
        return min([asked.due_us for asked in self._open.values()]) if self._open else MAX_TIME

    def sweep(self, now: int) -> None:
        """Resend the requests that have waited too long."""
        for due in self._due.values():
            while due and (due[0].due_us <= now or not due[0].is_open):
                asked = due.popleft()
                if asked.is_open:
                    asked.asked_us, asked.due_us = now, now + asked.timeout_us
                    due.append(asked)
                    self._effects.append(Send(STORE, asked.request))

    def check_invariants(self) -> None:
        """Assert that each open request is queued once, by its own time-out and in the order of time."""
        for timeout_us, queue in self._due.items():
            times = [asked.due_us for asked in queue if asked.is_open]
            assert times == sorted(times), f"requests are out of order: {times}"
            assert all(asked.timeout_us == timeout_us for asked in queue)
        queued = [asked for queue in self._due.values() for asked in queue if asked.is_open]
        assert sorted(asked.request.request for asked in queued) == sorted(self._open), "a request is lost"
        assert [*self._due] == sorted(self._due)
        first_us = min((asked.due_us for asked in queued), default=MAX_TIME)
        assert self.next_due() == first_us, f"a request is due at {first_us}, and nobody will look then"

    def __len__(self) -> int:
        """Return the number of open requests."""
        return len(self._open)
