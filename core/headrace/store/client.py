"""How a process talks to the store: numbered requests, asked again until they are answered.

Every request is safe to repeat (see `headrace.store.mediator`), so silence and `Unavailable` are met in the same way.
"""

from collections import deque
from collections.abc import Callable

from headrace.wire.effects import Effect, Send
from headrace.wire.messages import STORE, Reply, Request, Unavailable

OnReply = Callable[[int, Reply], None]
"""Takes the asker's clock in microseconds, and the reply."""


class _Open:
    __slots__ = ("on_reply", "owner", "request")

    def __init__(self, request: Request, on_reply: OnReply, owner: object) -> None:
        self.request = request
        self.on_reply = on_reply
        self.owner = owner


class StoreClient:
    """Requests that are not answered yet.

    Args:
        effects: where sends are appended.
        timeout_us: an unanswered request is sent again after this.
    """

    __slots__ = ("_due", "_effects", "_last", "_open", "_timeout_us")

    def __init__(self, effects: list[Effect], timeout_us: int) -> None:
        self._effects = effects
        self._timeout_us = timeout_us
        self._last = 0
        self._open: dict[int, _Open] = {}
        self._due: deque[tuple[int, int]] = deque()

    def start(self, incarnation: int) -> None:
        """Number requests anew, so that no answer to a former incarnation can be taken for one of this one's."""
        self._last = incarnation << 32

    def number(self) -> int:
        """The number for the next request."""
        self._last += 1
        return self._last

    def ask(self, now: int, request: Request, on_reply: OnReply, owner: object) -> None:
        """Send a request; ``on_reply`` is called once. ``owner``: whose requests `forget` drops."""
        self._open[request.request] = _Open(request, on_reply, owner)
        self._due.append((now + self._timeout_us, request.request))
        self._effects.append(Send(STORE, request))

    def reply(self, now: int, reply: Reply) -> None:
        """Take a reply; one to a request that is not open any more is ignored."""
        if type(reply) is Unavailable:
            return
        found = self._open.pop(reply.request, None)
        if found is not None:
            found.on_reply(now, reply)

    def open_requests(self) -> list[Request]:
        """What is not answered yet."""
        return [one.request for one in self._open.values()]

    def forget(self, owner: object) -> None:
        """Drop the open requests of an owner that is gone."""
        for number in [number for number, one in self._open.items() if one.owner is owner]:
            del self._open[number]

    def set_clock_back(self, now: int) -> None:
        """The asker's clock was put back: nothing waits for longer than the time-out, counted from now."""
        latest = now + self._timeout_us
        self._due = deque((min(due, latest), number) for due, number in self._due)

    def sweep(self, now: int) -> None:
        """Ask again what has waited too long."""
        due, open_ = self._due, self._open
        while due and due[0][0] <= now:
            number = due.popleft()[1]
            found = open_.get(number)
            if found is not None:
                due.append((now + self._timeout_us, number))
                self._effects.append(Send(STORE, found.request))

    def __len__(self) -> int:
        """How many requests are open."""
        return len(self._open)
