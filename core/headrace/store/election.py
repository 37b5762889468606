"""Elect the active replica of a role (MillWheel 6.2, 7.1): masters, and each shard of the authority.

Rules of this file:

* Safety rests on epochs at the store, never on clocks: two may believe that they hold the role, but only the latest is obeyed.
* A standby that sees the holder's renewals stand still for a lease of its own clock claims the role; nobody has held epoch 0.
* The holder renews four times in a lease; a journal entry or a mint that the store took counts as a renewal. A standby looks
  twice in a lease.
* It asks through its owner's `StoreClient`, and again when its next turn comes at the latest.
"""

import enum
from collections.abc import Callable

from headrace.api.options import EngineOptions
from headrace.api.time import MAX_TIME
from headrace.deadlines import Deadline
from headrace.rules import RULES, Rules
from headrace.store.client import StoreClient
from headrace.wire.messages import Claim, Claimed, Peek, Peeked, Refused, Renew, Renewed, Reply


class Standing(enum.Enum):
    """A replica's standing in its role."""

    NEW = "new"
    """It has not been started."""
    STANDBY = "standby"
    """It would take over from the holder."""
    ACTIVE = "active"
    """It holds the role, as far as it knows."""

    __hash__ = object.__hash__  # looked up with each event; an enumeration's own hash is slower


class ElectionState(enum.Enum):
    """A replica's state in the election."""

    STANDBY = "standby"
    """It waits for its next look at the journal."""
    PEEKING = "peeking"
    """It has asked whether the holder has renewed."""
    CLAIMING = "claiming"
    """It has asked for the role."""
    HOLDING = "holding"
    """It has the role, as far as it knows."""
    RENEWING = "renewing"
    """It has the role, and has asked to keep it."""

    __hash__ = object.__hash__


class ElectionInput(enum.Enum):
    """An input that changes a replica's state."""

    TURN = "turn"
    """It is time to ask."""
    ALIVE = "alive"
    """The holder has renewed, or has been silent for less than a lease."""
    SILENT = "silent"
    """The holder has been silent for a lease, or there was never one."""
    CLAIMED = "claimed"
    """The role is this replica's."""
    RENEWED = "renewed"
    """The store took a renewal, a journal entry or a mint of this epoch."""
    REFUSED = "refused"
    """The epoch has moved on."""

    __hash__ = object.__hash__


ELECTION: dict[tuple[ElectionState, ElectionInput], ElectionState] = {
    (ElectionState.STANDBY, ElectionInput.TURN): ElectionState.PEEKING,
    (ElectionState.PEEKING, ElectionInput.ALIVE): ElectionState.STANDBY,
    (ElectionState.PEEKING, ElectionInput.SILENT): ElectionState.CLAIMING,  # 7.1: a replicated master
    (ElectionState.CLAIMING, ElectionInput.CLAIMED): ElectionState.HOLDING,
    (ElectionState.CLAIMING, ElectionInput.REFUSED): ElectionState.STANDBY,  # another replica was quicker
    (ElectionState.HOLDING, ElectionInput.TURN): ElectionState.RENEWING,
    (ElectionState.HOLDING, ElectionInput.RENEWED): ElectionState.HOLDING,
    (
        ElectionState.HOLDING,
        ElectionInput.REFUSED,
    ): ElectionState.STANDBY,  # 6.2: a zombie learns that it is one
    (ElectionState.RENEWING, ElectionInput.RENEWED): ElectionState.HOLDING,
    (ElectionState.RENEWING, ElectionInput.REFUSED): ElectionState.STANDBY,  # 6.2
}
"""All possible transitions: no others can occur, since a reply is taken only while its request is open."""

OnClaimed = Callable[[int, Claimed], None]
"""Called with this replica's clock in microseconds, and the store's reply to its new holder."""


class Election:
    """One replica's part in the election for a role.

    Its owner calls `start`, and `tick` at each `Wake`.

    Args:
        role: the journal to hold.
        address: of this replica.
        options: for the lease and the store's time-out.
        store: of this replica.
        on_claimed: called when it has become the holder.
        on_lost: called when it has learned that it no longer holds the role; it drops what only a holder may know.
        rules: the rules of the protocol.

    Attributes:
        state: its state in the election.
        epoch: under which it holds the role; 0: it does not.
        standing: what this replica is to its role; kept, as it is looked up with each event.
    """

    def __init__(
        self, role: str, address: str, options: EngineOptions, store: StoreClient,
        on_claimed: OnClaimed, on_lost: Callable[[], None], rules: Rules = RULES,
    ) -> None:  # fmt: skip
        self._role = role
        self._rules = rules
        self._store = store
        self._on_claimed = on_claimed
        self._on_lost = on_lost
        self._address = address
        self._lease_us = options.lease_us
        self._turn = Deadline(max(1, options.lease_us // 4))
        self._look_us = 2 * self._turn.wait_us
        self._store_timeout_us = options.store_timeout_us
        self._holder = address
        self._seen: tuple[int, int] | None = None
        self._seen_at_us = 0
        self.epoch = 0
        self.standing = Standing.NEW
        self.state = ElectionState.STANDBY

    def start(self, now: int, incarnation: int) -> None:
        """Start. Replicas take turns by number, so that fresh ones do not duel (which would be harmless)."""
        self._holder = f"{self._address}#{incarnation}"
        self.standing = Standing.STANDBY
        self._turn.due_us = now + _rank(self._address) * self._turn.wait_us
        self.tick(now)

    def tick(self, now: int) -> None:
        """Send the requests that are due."""
        if self.state in _WAITING and self._turn.is_due(now):
            self._step(now, ElectionInput.TURN)

    def next_due(self) -> int:
        """Return when `tick` is next due, on this replica's clock; `MAX_TIME`: not before the store has answered."""
        return self._turn.due_us if self.state in _WAITING else MAX_TIME

    def set_clock_back(self, now: int) -> None:
        """Adjust to a clock that was set back: wait no longer than one turn, and begin a new lease."""
        self._turn.set_clock_back(now)
        self._seen_at_us = min(self._seen_at_us, now)

    def renewed(self, asked_us: int) -> None:
        """Note that the store accepted a journal entry or a mint of this epoch that was sent at this time."""
        self._step(asked_us, ElectionInput.RENEWED)

    def refused(self, now: int) -> None:
        """Note that the store refused a journal entry or a mint of this epoch."""
        self._step(now, ElectionInput.REFUSED)

    def _answered(self, now: int, reply: Reply) -> None:
        asked_us = self._store.asked_us
        match reply:
            case Peeked() if self._is_silent(now, reply):
                self._step(now, ElectionInput.SILENT)
            case Peeked():
                self._step(asked_us, ElectionInput.ALIVE)
            case Claimed():
                self.epoch = reply.epoch
                self._step(asked_us, ElectionInput.CLAIMED)
                self.standing = Standing.ACTIVE
                self._on_claimed(now, reply)
            case Renewed():
                self._step(asked_us, ElectionInput.RENEWED)
            case _:
                assert isinstance(reply, Refused)
                self._step(now, ElectionInput.REFUSED)

    def _is_silent(self, now: int, peeked: Peeked) -> bool:
        if peeked.epoch == 0:
            return True
        seen = (peeked.epoch, peeked.renewals)
        if seen != self._seen:
            self._seen, self._seen_at_us = seen, now
        return self._rules.may_lead(now - self._seen_at_us, self._lease_us)

    def _step(self, now: int, input_: ElectionInput) -> None:
        """Move on; ``now``: this replica's clock, or when it asked for what it is given: its next turn is counted from then."""
        after = ELECTION.get((self.state, input_))
        if after is None:
            raise AssertionError(
                f"{self._address}: {input_} cannot happen to {self.state} of role {self._role!r}"
            )
        held, self.state = self.epoch > 0, after
        pause_us = self._look_us if input_ is ElectionInput.ALIVE else self._turn.wait_us
        self._turn.due_us = max(self._turn.due_us, now + pause_us)
        self._store.forget(self)
        if after not in _WAITING:
            again_us = self._look_us if after is ElectionState.PEEKING else self._turn.wait_us
            timeout_us = min(self._store_timeout_us, again_us)
            self._store.ask(now, self._request(), self._answered, self, timeout_us=timeout_us)
        if input_ is ElectionInput.REFUSED and held:
            self.epoch = 0
            self.standing = Standing.STANDBY
            self._on_lost()

    def _request(self) -> Peek | Claim | Renew:
        """Build the request that the state stands for."""
        number = self._store.number()
        if self.state is ElectionState.PEEKING:
            return Peek(number, self._role)
        if self.state is ElectionState.CLAIMING:
            return Claim(number, self._role, self._seen[0] if self._seen else 0, self._holder)
        return Renew(number, self._role, self.epoch)

    def check_invariants(self) -> None:
        """Assert what must hold between events."""
        holds = self.state in {ElectionState.HOLDING, ElectionState.RENEWING}
        assert holds == (self.epoch > 0), f"{self._address}: epoch {self.epoch} while {self.state}"
        active = self.standing is Standing.ACTIVE
        assert holds == active, f"{self._address}: {self.standing} while {self.state}"
        asks = self._store.asks(self)
        assert asks == (self.state not in _WAITING), f"{self._address}: asks {asks} times while {self.state}"


_WAITING = (ElectionState.STANDBY, ElectionState.HOLDING)
"""The states without an open request to the store."""


def _rank(address: str) -> int:
    """Return the replica's number, the digits that its address ends in."""
    digits = address[len(address.rstrip("0123456789")) :]
    return int(digits or "0")
