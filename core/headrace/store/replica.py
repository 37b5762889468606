"""One replica of a process that is replicated, as masters and authorities are (MillWheel 6.2, 7.1).

Rules of this file:

* A replica stands by, or holds its role. What it does with an input depends on that, and on nothing else: see its table.
* Its clock may be put back at any time. It notices at its next input, since the wake that it has asked for may be hours away.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from headrace.api.options import EngineOptions
from headrace.api.time import MIN_TIME
from headrace.deadlines import ClockWaiter, Wakes
from headrace.dispatch import Transition, undeclared
from headrace.history import History, ProcessStarted
from headrace.rules import Rules
from headrace.store.client import StoreClient
from headrace.store.election import Election, Standing
from headrace.wire.effects import Effect, Event, Start
from headrace.wire.messages import Claimed, Peeked, Refused, Renewed, Reply, Unavailable

Transitions = Mapping[tuple[Standing, type], Transition[Standing]]
"""(standing, input): what happens, and where it leads. All that is not in it is a bug."""


class Replica:
    """One replica of a role.

    Attributes:
        transitions: its table.
    """

    transitions: ClassVar[Transitions]

    def __init__(
        self, role: str, address: str, options: EngineOptions, history: History, rules: Rules
    ) -> None:
        self.address = address
        self._rules = rules
        self._record = history.of(address)
        self._effects: list[Effect] = []
        self._store = StoreClient(self._effects, options.store_timeout_us)
        self._election = Election(role, address, options, self._store, self._take_over, self._forget, rules)
        self._waiters: list[ClockWaiter] = [self._store, self._election]
        self._wakes = Wakes(self._effects)
        self._now = MIN_TIME

    @property
    def epoch(self) -> int:
        """The epoch in which it holds the role, as far as it knows; 0: it does not."""
        return self._election.epoch

    @property
    def is_active(self) -> bool:
        """Whether it holds the role, as far as it knows."""
        return self._election.epoch > 0

    def handle(self, now: int, event: Event) -> list[Effect]:
        """Take an event; return what is to be done (sans-IO). ``now``: this process's clock, microseconds."""
        transition = self.transitions.get((self._election.standing, type(event)))
        if transition is None:
            raise undeclared(self.address, self._election.standing, event)
        was_put_back, self._now = now < self._now, now
        if was_put_back:
            self._set_clock_back(now)
        transition.handler(self, now, event)
        assert self._election.standing in transition.leads_to, f"{event} led to {self._election.standing}"
        effects = self._effects
        if not effects:
            return []
        taken = effects.copy()
        effects.clear()
        return taken

    def _on_start(self, now: int, event: Start) -> None:
        self._record(ProcessStarted, event.incarnation)
        self._store.start(event.incarnation)
        self._election.start(now, event.incarnation)
        self._ask_to_wake()

    def _on_reply(self, now: int, reply: Reply) -> None:
        self._store.reply(now, reply)
        self._ask_to_wake()

    def _take_over(self, now: int, claimed: Claimed) -> None:
        """Go on from what the store holds, as the new holder."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Drop all that only the holder may know."""
        raise NotImplementedError

    def _next_turn(self) -> int:
        """Return when it has something to do besides the election, on its clock; `MAX_TIME`: never."""
        raise NotImplementedError

    def _set_clock_back(self, now: int) -> None:
        self._wakes.set_clock_back()
        for waiter in self._waiters:
            waiter.set_clock_back(now)
        self._ask_to_wake()

    def _ask_to_wake(self) -> None:
        due_us = min(self._election.next_due(), self._store.next_due(), self._next_turn())
        self._wakes.ask(max(due_us, self._now + 1))

    def check_invariants(self) -> None:
        """Assert what must hold between events."""
        self._election.check_invariants()
        self._store.check_invariants()


def transitions_of(
    own: type[Replica], replies: Iterable[type], more: Transitions
) -> dict[tuple[Standing, type], Transition[Standing]]:
    """Return the table of a replicated process.

    Args:
        own: its class.
        replies: of the store, to what it asks for besides the role.
        more: what it does with its other inputs, ``Wake`` among them.
    """
    new, standby, active = Standing.NEW, Standing.STANDBY, Standing.ACTIVE
    table: dict[tuple[Standing, type], Transition[Standing]] = {
        (new, Start): Transition(own._on_start, (standby,)),
        (standby, Claimed): Transition(own._on_reply, (standby, active)),  # 7.1: a replicated master
        # 6.2: a zombie learns that it is one
        (active, Refused): Transition(own._on_reply, (active, standby)),
        **more,
    }
    # Replies may be late, to what was asked in another state: the store client ignores them.
    for reply in (*replies, Peeked, Claimed, Renewed, Refused, Unavailable):
        for state in (standby, active):
            table.setdefault((state, reply), Transition(own._on_reply, (state,)))
    return table
