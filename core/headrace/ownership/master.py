"""The master (MillWheel 7.1): divides key spaces into intervals, and gives them to workers that live.

Rules of this file:

* The table is what the store minted, never what this master would like. One mint is under way at a time.
* A mint kills the sequencers that it replaces before anybody hears of it (6.2): so a worker that is given up may live on.
* A process that has not been heard of for `heartbeat_timeout_us` is dead. A fresh master knows nobody: it counts from its claim,
  and waits for two heartbeat periods before it changes anything. So does one whose own clock has jumped or stood still.
* In this order: repair what has no live owner; do what the operator says; let the drained leave; follow the load.
* Each `Wake` asks for the next one, unless one comes as early.

Choice: verbs go to every master; a standby ignores them, lest it repeat old ones when it takes over.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.api.options import EngineOptions
from headrace.api.pipeline import Pipeline
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.deadlines import Deadline
from headrace.delivery.routing import routing_of
from headrace.dispatch import Transition, ignore
from headrace.history import History
from headrace.ownership.balance import (
    BalanceView,
    Candidate,
    Unowned,
    assign,
    first_intervals,
    merge_intervals,
    move_interval,
    rebalance,
    split_interval,
)
from headrace.ownership.draining import Draining
from headrace.rules import RULES, Rules
from headrace.store.election import Standing
from headrace.store.mediator import MASTER_ROLE
from headrace.store.replica import Replica, Transitions, transitions_of
from headrace.wire import messages as m
from headrace.wire.effects import Send, Start, Wake

_GRACE = 4
"""An interval that its live owner neither has nor scans for this many heartbeat timeouts gets a new sequencer."""


@dataclass(slots=True)
class _Member:
    """A worker or an injector's process: its latest heartbeat, and when it came."""

    beat: m.Heartbeat
    heard_us: int


class Master(Replica):
    """One replica of the master.

    Args:
        topologies: the deployed pipeline versions; the table says which is in force. The others are those of a `Replica`.

    Attributes:
        table: the assignment as the store holds it; empty on a standby.
    """

    def __init__(
        self,
        address: str,
        topologies: Sequence[Pipeline],
        options: EngineOptions,
        history: History,
        rules: Rules = RULES,
    ) -> None:
        super().__init__(MASTER_ROLE, address, options, history, rules)
        self._topologies = topologies
        self._options = options
        self._members: dict[str, _Member] = {}
        self._balance_due = Deadline(options.balance_period_us)
        self._waiters.append(self._balance_due)
        self._ticked_us = MIN_TIME
        self._forget()

    def _forget(self) -> None:
        """Drop all that only the active master may know."""
        self.table = m.Table()
        self._mint: m.Mint | None = None
        self._mints = 0
        self._store.forget(self)
        self._since_us = 0
        self._verbs: list[m.Verb] = []
        self._joined_at: int | None = None
        self._unlisted: dict[int, int] = {}
        self._draining = Draining(self._topologies)

    # Being the active one

    def _on_start(self, now: int, event: Start) -> None:
        self._ticked_us = now
        super()._on_start(now, event)

    def _take_over(self, now: int, claimed: m.Claimed) -> None:
        self._ticked_us = now
        self._settle(now)
        self._balance_due.begin(now)
        self._adopt(claimed.table)

    def _settle(self, now: int) -> None:
        """Begin to listen; this master has missed what was said before."""
        self._since_us = now
        for member in self._members.values():
            member.heard_us = min(member.heard_us, now)

    def _on_wake(self, now: int, _event: Wake) -> None:
        self._wakes.came(now)
        gap, self._ticked_us = now - self._ticked_us, now
        if gap > 2 * self._options.heartbeat_period_us:
            self._settle(now)
        self._election.tick(now)
        self._store.sweep(now)
        if self.is_active:
            self._decide(now)
        self._ask_to_wake()

    def _set_clock_back(self, now: int) -> None:
        if now >= self._ticked_us:
            return  # not even behind its last wake: nothing waits for longer than for its next one
        self._ticked_us = now
        self._settle(now)
        super()._set_clock_back(now)

    def _next_turn(self) -> int:
        return self._now + self._options.heartbeat_period_us if self.is_active else MAX_TIME

    # Who lives

    def _listen(self, now: int, beat: m.Heartbeat) -> bool:
        """Note who lives; ``False``: it is a network remnant of a process that is gone."""
        member = self._members.get(beat.sender)
        if member is None:
            self._members[beat.sender] = _Member(beat, now)
        elif beat.incarnation < member.beat.incarnation:
            return False
        else:
            member.heard_us = now
            # A process's heartbeats count up by incarnation, and then by the table that it knows.
            if beat.incarnation > member.beat.incarnation or beat.table_version >= member.beat.table_version:
                member.beat = beat
        return True

    def _on_heartbeat_as_standby(self, now: int, beat: m.Heartbeat) -> None:
        self._listen(now, beat)

    def _on_heartbeat(self, now: int, beat: m.Heartbeat) -> None:
        if not self._listen(now, beat):
            return
        if beat.table_version < self.table.version:
            self._effects.append(Send(beat.sender, self.table))
            return
        self._note_unlisted(now, beat)
        if self.table.joining is not None:
            self._decide(now)

    def _note_unlisted(self, now: int, beat: m.Heartbeat) -> None:
        assigned = routing_of(self.table).assigned_to(beat.sender)
        if not assigned:
            return
        listed = {load.sequencer for load in beat.loads}.union(beat.scanning)
        for assignment in assigned:
            if not self._rules.is_owner(beat.incarnation, assignment.incarnation):
                continue
            if assignment.sequencer in listed:
                self._unlisted.pop(assignment.sequencer, None)
            else:
                self._unlisted.setdefault(assignment.sequencer, now)

    def _live(self, now: int) -> list[m.Heartbeat]:
        """Return the latest heartbeats of those heard of lately, sorted by address."""
        timeout = self._options.heartbeat_timeout_us
        members = [member for _, member in sorted(self._members.items())]
        return [member.beat for member in members if not self._rules.is_lost(now - member.heard_us, timeout)]

    def _is_orphan(self, now: int, assignment: m.Assignment) -> bool:
        """Return whether an interval's owner was restarted, or has been silent for too long while this master listened."""
        member, heard_us = self._members.get(assignment.owner), self._since_us
        if member is not None:
            heard_us = max(heard_us, member.heard_us)
        lost = self._rules.is_lost(now - heard_us, self._options.heartbeat_timeout_us)
        return self._rules.is_orphan(
            lost, member is not None and member.beat.incarnation > assignment.incarnation
        )

    def _cluster(self, now: int) -> BalanceView:
        beats = [beat for beat in self._live(now) if beat.is_worker]
        loads = {load.sequencer: load for beat in beats for load in beat.loads}
        return BalanceView(self.table, [Candidate(beat.sender, beat.incarnation) for beat in beats], loads)

    # What to change

    def _decide(self, now: int) -> None:
        """Mint the next change, if one is due and none is under way."""
        if self._mint or not self._since_us + 2 * self._options.heartbeat_period_us <= now:
            return
        mint = (
            self._repair(now)
            or self._switch(now)
            or self._obey(now)
            or self._drain(now)
            or self._balance(now)
        )
        if mint is not None:
            self._mint = mint
            self._store.ask(now, mint, self._on_minted, self)

    def _repair(self, now: int) -> m.Mint | None:
        """Give what nobody owns to live workers, and mint anew what a live owner has lost."""
        grace = _GRACE * self._options.heartbeat_timeout_us
        unowned: list[Unowned] = []
        lost: list[m.MintChange] = []
        for assignment in self.table.assignments:
            if self._is_orphan(now, assignment):
                unowned.append(Unowned(assignment.computation, assignment.interval))
            elif self._rules.is_lost(now - self._unlisted.get(assignment.sequencer, now), grace):
                lost.append(
                    m.MintChange(
                        assignment.computation, assignment.interval, assignment.owner, assignment.incarnation
                    )
                )
        unowned += first_intervals(self._topologies[self.table.topology], self.table)
        changes = assign(unowned, self._cluster(now)) if unowned else []
        return self._change(changes + lost)

    def _on_verb(self, now: int, verb: m.Verb) -> None:
        self._verbs.append(verb)
        self._decide(now)

    def _obey(self, now: int) -> m.Mint | None:
        """Carry out the operator's first verb that can be carried out."""
        if not self._verbs:
            return None
        cluster = self._cluster(now)
        while self._verbs and cluster.workers:
            mint = self._try(self._verbs.pop(0), cluster)
            if mint is not None:
                return mint
        return None

    def _switch(self, now: int) -> m.Mint | None:
        """Put the version in force that is joining, once everybody has reported a table that has its computations (3).

        The watermark and horizon of an owner that did not count a new sender could pass what that sender sends.
        """
        table = self.table
        if table.joining is None:
            return None
        if self._joined_at is None:
            self._joined_at = table.version
        members = [self._members.get(address) for address in self._required(now)]
        all_know = all(
            member is not None and member.beat.table_version >= self._joined_at for member in members
        )
        if not self._rules.may_switch(all_know):
            return None
        self._joined_at = None
        return self._put_in_force(table.joining)

    def _try(self, verb: m.Verb, cluster: BalanceView) -> m.Mint | None:
        match verb:
            case m.MoveInterval():
                return self._change(move_interval(verb, cluster, self._options, self._rules))
            case m.SplitInterval():
                return self._change(split_interval(verb, cluster))
            case m.MergeIntervals():
                return self._change(merge_intervals(verb, cluster))
            case m.ChangeTopology():
                return self._change_topology(verb.topology, cluster)

    def _change_topology(self, topology: int, cluster: BalanceView) -> m.Mint | None:
        """Give added computations their intervals first, in the topology that is still in force (3)."""
        table = self.table
        if not 0 <= topology < len(self._topologies) or (
            topology == table.topology and table.joining is None
        ):
            return None
        added = assign(first_intervals(self._topologies[topology], self.table), cluster)
        self._joined_at = None
        if not added:
            return self._put_in_force(topology)
        return self._build(added, table.topology, table.retiring, topology)

    def _put_in_force(self, topology: int) -> m.Mint:
        """Build the mint that puts a topology in force; computations that are not in it begin to drain."""
        pipeline = self._topologies[topology]
        present = dict.fromkeys(assignment.computation for assignment in self.table.assignments)
        retiring = tuple(name for name in present if name not in pipeline.computations)
        return self._build([], topology, retiring, None)

    def _drain(self, now: int) -> m.Mint | None:
        table = self.table
        if not table.retiring:
            return None
        beats = {address: member.beat for address, member in self._members.items()}
        drained = self._draining.look(beats, self._required(now))
        removed = tuple(name for name in table.retiring if self._rules.may_remove(name in drained))
        if not removed and not self._draining.wants_mint:
            return None
        retiring = tuple(name for name in table.retiring if name not in removed)
        return self._build([], table.topology, retiring, table.joining, removed)

    def _required(self, now: int) -> list[str]:
        """Return whose word counts when the topology changes: the living, the owners, and the expected injector processes."""
        injectors = self._topologies[self.table.topology].injectors.values()
        required = [beat.sender for beat in self._live(now)]
        required += [assignment.owner for assignment in self.table.assignments]
        required += [address for spec in injectors for address in spec.addresses()]
        return list(dict.fromkeys(required))

    def _balance(self, now: int) -> m.Mint | None:
        if not self._options.balance_period_us or not self._balance_due.is_due(now):
            return None
        self._balance_due.begin(now)
        return self._change(rebalance(self._cluster(now), self._options, self._rules))

    # Minting

    def _change(self, changes: Sequence[m.MintChange]) -> m.Mint | None:
        """Build a mint that only changes intervals; ``None`` if there is nothing to change."""
        table = self.table
        return self._build(changes, table.topology, table.retiring, table.joining) if changes else None

    def _build(
        self,
        changes: Sequence[m.MintChange],
        topology: int,
        retiring: tuple[str, ...],
        joining: int | None,
        removed: tuple[str, ...] = (),
    ) -> m.Mint:
        self._mints += 1
        request, epoch = self._store.number(), self._election.epoch
        return m.Mint(request, epoch, self._mints, tuple(changes), topology, retiring, removed, joining)

    def _on_minted(self, now: int, reply: m.Reply) -> None:
        if isinstance(reply, m.Refused):
            self._election.refused(now)
            return
        assert isinstance(reply, m.Minted)
        self._mint = None
        self._election.renewed(self._store.asked_us)
        self._adopt(reply.table)
        self._effects.extend(Send(beat.sender, self.table) for beat in self._live(now))
        self._decide(now)

    def _adopt(self, table: m.Table) -> None:
        self.table = table
        self._draining.adopt(table)
        current = {assignment.sequencer for assignment in table.assignments}
        self._unlisted = {known: since for known, since in self._unlisted.items() if known in current}

    def check_invariants(self) -> None:
        """Assert what must hold between events."""
        super().check_invariants()
        turn_us = self._ticked_us + self._options.heartbeat_period_us if self.is_active else MAX_TIME
        due_us = min(self._election.next_due(), turn_us) if self._store.next_due() == MAX_TIME else turn_us
        assert self._wakes.next_us <= max(due_us, self._now + 1), f"{self.address} would wake too late"
        assert self.is_active or (self._mint is None and self.table == m.Table() and not self._verbs)
        if self._mint:
            assert self._mint.epoch == self._election.epoch, "a mint of another tenure is under way"
            assert self._mint.number == self._mints, "a mint is under way that is not the latest"
        routing_of(self.table)  # the intervals of each computation cover all keys
        current = {assignment.sequencer for assignment in self.table.assignments}
        assert all(sequencer in current for sequencer in self._unlisted)


# The states and their inputs


def _transitions() -> Transitions:
    standby, active = Standing.STANDBY, Standing.ACTIVE
    own = Master
    table: dict[tuple[Standing, type], Transition[Standing]] = {
        # A standby listens, to know who lives when it takes over.
        (standby, Wake): Transition(own._on_wake, (standby,)),
        (standby, m.Heartbeat): Transition(own._on_heartbeat_as_standby, (standby,)),
        (active, Wake): Transition(own._on_wake, (active,)),
        (active, m.Heartbeat): Transition(own._on_heartbeat, (active,)),
    }
    for verb in (m.MoveInterval, m.SplitInterval, m.MergeIntervals, m.ChangeTopology):
        table[standby, verb] = Transition(ignore, (standby,))  # lest it repeat old ones when it takes over
        table[active, verb] = Transition(own._on_verb, (active,))
    return transitions_of(own, (m.Minted,), table)


Master.transitions = _transitions()
