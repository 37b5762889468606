"""Exhaustive search: every order of arrivals and every fault within stated bounds, fewest departures first.

Rules of this file:

* A schedule is a number of moves: arrivals that others overtake (`headrace_sim.arrivals`) and faults at protocol steps. A
  move is found in the run of the previous moves, and begins after the last of them. So no two schedules have the same moves,
  and a run equals its parent's up to the start of its last move.
* Schedules are run in the order of their number of moves, so the first one that fails has the fewest.
* Only what no process can tell apart is left out as equivalent. A scope is exhausted when everything else has been run.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from pathlib import Path

import msgspec

from headrace import SECOND
from headrace_properties.search.application import Application, Trial
from headrace_properties.search.ground import ground_of
from headrace_properties.search.journal import Journal
from headrace_properties.search.judging import JudgedRun
from headrace_properties.search.parallel import Jobs, RunTrials, runner
from headrace_properties.search.plans import Plan
from headrace_properties.search.schedules import Move, Position, Recording
from headrace_properties.search.scope import Exploration, Scope
from headrace_properties.search.verification import Verification
from headrace_sim import SOUND, Delay, FaultSchedule, Protocol, StepFault
from headrace_sim.kernel import seldom_collected


class _Node(msgspec.Struct, frozen=True):
    """A schedule, and the start of its last move."""

    faults: tuple[StepFault, ...] = ()
    delays: tuple[Delay, ...] = ()
    position: Position = Position()

    @property
    def ends_in_delay(self) -> bool:
        """Whether its last move is a delay."""
        return bool(self.delays) and self.position.step < 0

    def then(self, move: Move) -> "_Node":
        if isinstance(move.what, Delay):
            return _Node(self.faults, (*self.delays, move.what), move.position)
        return _Node((*self.faults, move.what), self.delays, move.position)

    def later(self, past: int) -> "_Node":
        """Return it with its last delay extended."""
        *before, last = self.delays
        return msgspec.structs.replace(self, delays=(*before, msgspec.structs.replace(last, past=past)))


def explore(
    application: Application,
    scope: Scope,
    *,
    feed_seed: int = 0,
    protocol: Protocol = SOUND,
    examples: float = math.inf,
    minutes: float = math.inf,
    jobs: Jobs = 1,
    resume: Path | None = None,
    on_run: Callable[[Verification], None] | None = None,
    on_judged: Callable[[Plan, JudgedRun], None] | None = None,
) -> Verification:
    """Run every schedule of a scope, fewest moves first, until one breaks an invariant or a promise.

    Args:
        application: what is under test.
        scope: what to exhaust.
        feed_seed: of the input.
        protocol: the state machines to host.
        examples: stop after so many schedules.
        minutes: stop after so much wall time; how far it has come then depends on the machine.
        jobs: processes that share the runs, or a pool of them. The result does not depend on it.
        resume: a file to go on from, and to note all runs in; a new one is begun.
        on_run: told after each run, for progress.
        on_judged: given each run; then the search goes on after a failure, too.

    Raises:
        JournalError: ``resume`` is the file of another search.
        OptionsError: a latency of the scope's cluster is no interval.
    """
    found = Verification(feed_seeds=(feed_seed,), exploration=Exploration(scope))
    search = _Search(application, scope, feed_seed, protocol, found)
    until_s = time.monotonic() + minutes * 60
    with seldom_collected(), runner(application, protocol, jobs) as run:
        if resume is not None:
            words = f"a search by {scope} of input {feed_seed} on the protocol {protocol.name}, exhaustive"
            run = Journal(resume, words, application).through(run)  # noqa: PLW2901  the same runs
        for node, judged in search.schedules(run):
            trial = search.trial(node)
            found.take(judged)
            if on_judged is not None:
                on_judged(trial.plan, judged)
            elif judged.failed:
                found.fail(judged.failure(trial))
                search.exploration.stopped_for = "failure"
            elif search.exploration.total >= examples:
                search.exploration.stopped_for = "examples"
            elif time.monotonic() >= until_s:
                search.exploration.stopped_for = "minutes"
            if on_run is not None:
                on_run(found)
            if search.exploration.stopped_for:
                return found
    search.exploration.exhausted = True
    return found


def count_without_reduction(application: Application, scope: Scope, *, feed_seed: int = 0) -> int:
    """Count the schedules that a search without reduction would run, by the possible successors of each.

    Orders that only a run with a longer delay reveals are not counted, so the count is a lower bound.

    Args:
        application: what is under test.
        scope: the bounds.
        feed_seed: of the input.
    """
    plain = dataclasses.replace(scope, reduced=False)
    found = Verification(exploration=Exploration(plain))
    search = _Search(application, plain, feed_seed, SOUND, found)
    frontier, counted = [_Node()], 1
    for moves in range(1, scope.moves + 1):
        children = (node.then(move) for node in frontier for move in search.moves(node, every=True))
        frontier = list(children) if moves < scope.moves else []
        counted += len(frontier) or sum(1 for _ in children)
    return counted


def count_matched(application: Application, scope: Scope, *, feed_seed: int = 0) -> tuple[int, int]:
    """Count the schedules of two departures, and those whose second begins when the first has left no trace.

    That is, all further arrivals equal those of the run without departures, at the same times. State matching could leave
    out at most these.

    Args:
        application: what is under test.
        scope: the bounds.
        feed_seed: of the input.
    """
    search = _Search(application, scope, feed_seed, SOUND, Verification(exploration=Exploration(scope)))
    root = _Node()
    usual = search.recording(root).arrivals.handled
    counted = matched = 0
    for node in map(root.then, search.moves(root)):
        recording = search.recording(node)
        handled = recording.arrivals.handled
        pairs = zip(reversed(handled), reversed(usual), strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0].is_as(pair[1]), pairs))
        starts = [move.position.clock for move in search.moves(node, recording)]
        counted += len(starts)
        matched += sum(clock > len(handled) - same for clock in starts)
    return counted, matched


_AT_ONCE = 256
"""Choice: number of runs made at once, to keep all processes busy."""


class _Search:
    def __init__(
        self, application: Application, scope: Scope, feed_seed: int, protocol: Protocol, found: Verification
    ) -> None:
        assert found.exploration is not None
        self.exploration = found.exploration
        self._application = application
        self._scope = scope
        self._protocol = protocol
        self._feed_seed = feed_seed
        self._kept = tuple(range(min(scope.records, application.feed(feed_seed).records)))
        feed = application.feed(feed_seed).only(self._kept)
        self._ground = ground_of(application.versions, feed, scope.options)
        self._heal_at_us = self._ground.horizon_us + SECOND

    def trial(self, node: _Node) -> Trial:
        faults = FaultSchedule((), self._heal_at_us, at_steps=node.faults)
        return Trial(Plan(faults, self._scope.options, 0, node.delays), self._feed_seed, self._kept)

    def schedules(self, run: RunTrials) -> Iterator[tuple[_Node, JudgedRun]]:
        """Run all schedules, in rounds by their number of moves."""
        exploration, most = self.exploration, self._scope.moves
        frontier = [_Node()]
        yield from self._run(iter([frontier]), run)
        exploration.rounds = 1
        for moves in range(1, most + 1):
            following: list[_Node] = []
            for node, judged in self._run(self._children(frontier), run):
                if moves < most and not judged.failed:
                    following.append(node)
                yield node, judged
            exploration.rounds, frontier = moves + 1, following

    def _children(self, frontier: list[_Node]) -> Iterator[list[_Node]]:
        exploration, known = self.exploration, 0
        exploration.done = 0
        for number, parent in enumerate(frontier, 1):
            children = [parent.then(move) for move in self.moves(parent)]
            known += len(children)
            exploration.expected = max(known * len(frontier) // number, exploration.done)
            yield children

    def _run(self, families: Iterable[list[_Node]], run: RunTrials) -> Iterator[tuple[_Node, JudgedRun]]:
        """Run schedules, and rerun each with its last delay extended as long as that makes a difference."""
        exploration, waiting, families = self.exploration, list[_Node](), iter(families)
        while True:
            while len(waiting) < _AT_ONCE and (family := next(families, None)) is not None:
                waiting += family
            if not waiting:
                return
            batch, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
            for node, judged in zip(batch, run([self.trial(node) for node in batch]), strict=True):
                exploration.runs[len(node.faults), len(node.delays)] += 1
                exploration.done += 1
                yield node, judged
                if judged.further is not None and node.ends_in_delay:
                    waiting.append(node.later(judged.further))
                    exploration.expected += 1

    def recording(self, node: _Node) -> Recording:
        return Recording(self._application, self.trial(node), self._protocol)

    def moves(
        self, parent: _Node, recording: Recording | None = None, *, every: bool = False
    ) -> Iterator[Move]:
        """Return the moves that can follow a schedule's last one, in the order in which they begin.

        Args:
            parent: the schedule.
            recording: of it; default: a new one.
            every: see `Recording.delays`.
        """
        scope, recording = self._scope, recording or self.recording(parent)
        moves: list[Move] = []
        if len(parent.delays) < scope.delays:
            moves += recording.delays(parent.position, reduced=scope.reduced, every=every)
        if len(parent.faults) < scope.faults:
            for move, same in recording.faults(parent.position, self._ground, scope.kinds, scope.outside):
                if same and scope.reduced:
                    self.exploration.pruned += 1
                else:
                    moves.append(move)
        return iter(sorted(moves, key=lambda move: move.position))
