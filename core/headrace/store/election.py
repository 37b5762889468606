"""Who is active among the replicas of a role (MillWheel 6.2, 7.1): masters, and each shard of the authority.

Rules of this file:

* Safety rests on epochs at the store, never on clocks: two may believe that they hold the role, but only the latest is obeyed.
* A standby that sees the holder's renewals stand still for a lease of its own clock claims the role; nobody has held epoch 0.
* The holder renews four times in a lease; a journal entry or a mint that the store took counts as a renewal.
* Silence and `Unavailable` are the same: the request is asked again, under its own number. Numbers of different
  incarnations never meet, so that no delayed reply can be taken for an answer to somebody else's question.
"""

import enum

from headrace.api.options import EngineOptions
from headrace.rules import RULES, Rules
from headrace.wire.effects import Effect, Send
from headrace.wire.messages import STORE, Claim, Claimed, Peek, Peeked, Refused, Renew, Renewed, Unavailable


class State(enum.Enum):
    """Where a replica stands."""

    STANDBY = "standby"
    """Waits for its next look at the journal."""
    PEEKING = "peeking"
    """Has asked whether the holder has renewed."""
    CLAIMING = "claiming"
    """Has asked for the role."""
    HOLDING = "holding"
    """Has the role, as far as it knows."""
    RENEWING = "renewing"
    """Has the role, and has asked to keep it."""


class Input(enum.Enum):
    """What moves a replica on."""

    TURN = "turn"
    """It is time to ask, or to ask again."""
    ALIVE = "alive"
    """The holder has renewed, or has not yet stood still for a lease."""
    SILENT = "silent"
    """The holder has stood still for a lease, or there was never one."""
    CLAIMED = "claimed"
    """The role is this replica's."""
    RENEWED = "renewed"
    """The store took a renewal, a journal entry or a mint of this epoch."""
    REFUSED = "refused"
    """The epoch has moved on."""
    UNAVAILABLE = "unavailable"
    """The store could not serve the request."""


ELECTION: dict[tuple[State, Input], State] = {
    (State.STANDBY, Input.TURN): State.PEEKING,
    (State.PEEKING, Input.TURN): State.PEEKING,
    (State.PEEKING, Input.ALIVE): State.STANDBY,
    (State.PEEKING, Input.SILENT): State.CLAIMING,  # 7.1: a replicated master
    (State.PEEKING, Input.UNAVAILABLE): State.PEEKING,
    (State.CLAIMING, Input.TURN): State.CLAIMING,
    (State.CLAIMING, Input.CLAIMED): State.HOLDING,
    (State.CLAIMING, Input.REFUSED): State.STANDBY,  # another replica was quicker
    (State.CLAIMING, Input.UNAVAILABLE): State.CLAIMING,
    (State.HOLDING, Input.TURN): State.RENEWING,
    (State.HOLDING, Input.RENEWED): State.HOLDING,
    (State.HOLDING, Input.REFUSED): State.STANDBY,  # 6.2: a zombie learns that it is one
    (State.RENEWING, Input.TURN): State.RENEWING,
    (State.RENEWING, Input.RENEWED): State.HOLDING,
    (State.RENEWING, Input.REFUSED): State.STANDBY,  # 6.2
    (State.RENEWING, Input.UNAVAILABLE): State.RENEWING,
}
"""What is not here can not happen: a reply is taken only while its request is open."""

Answer = Peeked | Claimed | Renewed | Refused | Unavailable

_REQUESTS_AN_INCARNATION = 1 << 32


class Election:
    """One replica's part in the election for a role.

    Its owner calls `start` and `tick` (at each `Wake`), passes on the store's answers, and compares `epoch` before
    and after: what only a holder may know goes when it changes.

    Args:
        role: the journal to hold.
        address: of this replica.
        options: for the lease and the store's time-out.
        rules: what it asks.

    Attributes:
        state: where it stands.
        epoch: under which it holds the role; 0: it does not.
        due_us: when `tick` will have something to do, on this replica's clock.
    """

    __slots__ = (
        "_address", "_asked_us", "_holder", "_lease_us", "_now", "_open", "_pause_us", "_rank", "_requests", "_role", "_rules",
        "_seen", "_seen_at_us", "_turn_us", "due_us", "epoch", "state",
    )  # fmt: skip

    def __init__(self, role: str, address: str, options: EngineOptions, rules: Rules = RULES) -> None:
        self._role = role
        self._rules = rules
        self._address = address
        self._lease_us = options.lease_us
        self._turn_us = max(1, options.lease_us // 4)
        self._pause_us = min(options.store_timeout_us, self._turn_us)
        self._rank = _rank(address)
        self._holder = address
        self._requests = 0
        self._open: Peek | Claim | Renew | None = None
        self._seen: tuple[int, int] | None = None
        self._seen_at_us = 0
        self._now = 0
        self._asked_us = 0
        self.due_us = 0
        self.epoch = 0
        self.state = State.STANDBY

    def start(self, now: int, incarnation: int) -> list[Effect]:
        """Begin. Replicas take turns by their number, so that fresh ones do not duel (it would be harmless)."""
        self._requests = incarnation * _REQUESTS_AN_INCARNATION
        self._holder = f"{self._address}#{incarnation}"
        self._now = now
        self.due_us = now + self._rank * self._turn_us
        return self.tick(now)

    def tick(self, now: int) -> list[Effect]:
        """Ask what is to be asked by now. A clock that was put back makes it ask at once."""
        before, self._now = self._now, now
        if before <= now < self.due_us:
            return []
        return self._step(now, Input.TURN)

    def request(self) -> int:
        """Number the owner's own next request to the store; it is different from all of this election's."""
        self._requests += 1
        return self._requests

    def answer(self, now: int, answer: Answer) -> list[Effect]:
        """Take an answer of the store; one to a request that is not open any more is ignored."""
        if self._open is None or answer.request != self._open.request:
            return []
        match answer:
            case Peeked():
                return self._step(now, Input.SILENT if self._is_silent(now, answer) else Input.ALIVE)
            case Claimed():
                self.epoch = answer.epoch
                return self._step(now, Input.CLAIMED)
            case Renewed():
                return self._step(now, Input.RENEWED)
            case Refused():
                return self._step(now, Input.REFUSED)
            case Unavailable():
                return self._step(now, Input.UNAVAILABLE)

    def renewed(self, asked_us: int) -> None:
        """The store took a journal entry or a mint of this epoch that was sent at this time."""
        self._asked_us = max(self._asked_us, asked_us)
        self._step(asked_us, Input.RENEWED)

    def refused(self, now: int) -> None:
        """The store refused a journal entry or a mint of this epoch."""
        self._step(now, Input.REFUSED)

    def _is_silent(self, now: int, peeked: Peeked) -> bool:
        if peeked.epoch == 0:
            return True
        seen = (peeked.epoch, peeked.renewals)
        if seen != self._seen or now < self._seen_at_us:
            self._seen, self._seen_at_us = seen, now
        return self._rules.may_lead(now - self._seen_at_us, self._lease_us)

    def _step(self, now: int, given: Input) -> list[Effect]:
        before = self.state
        after = ELECTION.get((before, given))
        if after is None:
            raise AssertionError(
                f"{self._address}: {given} can not happen to {before} of role {self._role!r}"
            )
        self.state = after
        match given:
            case Input.TURN | Input.SILENT:
                return self._ask(now, again=after is before)
            case Input.ALIVE | Input.CLAIMED | Input.RENEWED:
                self._open = None
                self.due_us = self._asked_us + self._turn_us
            case Input.REFUSED:
                self._open = None
                self.epoch = 0
                self.due_us = now + self._turn_us
            case Input.UNAVAILABLE:
                pass
        return []

    def _ask(self, now: int, *, again: bool) -> list[Effect]:
        """Send what the state stands for, or send it again."""
        if self._open is None or not again:
            self._open = self._build()
        self._asked_us = now
        self.due_us = now + self._pause_us
        return [Send(STORE, self._open)]

    def _build(self) -> Peek | Claim | Renew:
        request = self.request()
        if self.state is State.PEEKING:
            return Peek(request, self._role)
        if self.state is State.CLAIMING:
            return Claim(request, self._role, self._seen[0] if self._seen else 0, self._holder)
        return Renew(request, self._role, self.epoch)

    def check_invariants(self) -> None:
        """Assert what must hold between events."""
        holds = self.state in {State.HOLDING, State.RENEWING}
        assert holds == (self.epoch > 0), f"{self._address}: epoch {self.epoch} while {self.state}"
        asks = self.state in {State.PEEKING, State.CLAIMING, State.RENEWING}
        assert asks == (self._open is not None), f"{self._address}: open {self._open} while {self.state}"


def _rank(address: str) -> int:
    """Return the replica's number, the digits that its address ends in."""
    digits = address[len(address.rstrip("0123456789")) :]
    return int(digits or "0")
