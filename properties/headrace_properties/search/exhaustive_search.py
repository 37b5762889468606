"""Exhaustive search: every order of arrivals and every fault within stated bounds, fewest departures first.

Rules of this file:

* A schedule is a number of moves: arrivals that others overtake (`headrace_sim.arrivals`) and faults at protocol steps. A
  move is found in the run of the previous moves, and begins after the last of them. So no two schedules have the same moves,
  and a run equals its parent's up to the start of its last move.
* Schedules are run in the order of their number of moves, so the first one that fails has the fewest.
* Only what no process can tell apart is left out as equivalent. A scope is exhausted when everything else has been run.
"""

from collections.abc import Iterator

import msgspec

from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.moves import Move, Position, Recording, ScopedRuns
from headrace_properties.search.parallel import RunTrials
from headrace_properties.search.scope import Exploration, Scope
from headrace_properties.search.strategy import Batch
from headrace_properties.search.verification import Verification
from headrace_sim import SOUND, Delay, Protocol, StepFault


class ScheduleMoves(msgspec.Struct, frozen=True):
    """The moves of a schedule, and the start of the last one."""

    faults: tuple[StepFault, ...] = ()
    delays: tuple[Delay, ...] = ()
    position: Position = Position()

    @property
    def moves(self) -> int:
        """How many there are."""
        return len(self.faults) + len(self.delays)

    @property
    def ends_in_delay(self) -> bool:
        """Whether its last move is a delay."""
        return bool(self.delays) and self.position.step < 0

    def then(self, move: Move) -> "ScheduleMoves":
        """Return it with one more move."""
        if isinstance(move.what, Delay):
            return ScheduleMoves(self.faults, (*self.delays, move.what), move.position)
        return ScheduleMoves((*self.faults, move.what), self.delays, move.position)

    def later(self, past: int) -> "ScheduleMoves":
        """Return it with its last delay extended."""
        *before, last = self.delays
        return msgspec.structs.replace(self, delays=(*before, msgspec.structs.replace(last, past=past)))


_AT_ONCE = 256
"""Choice: number of runs made at once, to keep all processes busy."""


class ExhaustiveSearch:
    """Every schedule of a scope, fewest moves first.

    Args:
        application: what is under test.
        scope: what to exhaust.
        feed_seed: of the input.
        protocol: the state machines to host.

    Raises:
        OptionsError: a latency of the scope's cluster is no interval.
    """

    usual = None

    def __init__(
        self, application: Application, scope: Scope, *, feed_seed: int = 0, protocol: Protocol = SOUND
    ) -> None:
        self.application, self.protocol = application, protocol
        self._exploration = Exploration(scope)
        self.verification = Verification(feed_seeds=(feed_seed,), exploration=self._exploration)
        self._runs = ScopedRuns(application, scope, feed_seed)
        self.described = f"{self._runs.described} on the protocol {protocol.name}, exhaustive"

    def batches(self, run: RunTrials) -> Iterator[Batch]:
        """Run all schedules, in rounds by their number of moves."""
        exploration = self._exploration
        frontier = [ScheduleMoves()]
        for moves in range(self._runs.scope.moves + 1):
            families = self._children(frontier) if moves else iter([frontier])
            passed: list[ScheduleMoves] = []
            yield from self._run(families, run, passed)
            exploration.rounds, frontier = moves + 1, passed if moves else frontier
        exploration.exhausted = True

    def _children(self, frontier: list[ScheduleMoves]) -> Iterator[list[ScheduleMoves]]:
        exploration, known = self._exploration, 0
        exploration.done = 0
        for number, parent in enumerate(frontier, 1):
            children = [parent.then(move) for move in self.moves(parent)]
            known += len(children)
            exploration.expected = max(known * len(frontier) // number, exploration.done)
            yield children

    def _run(
        self, families: Iterator[list[ScheduleMoves]], run: RunTrials, passed: list[ScheduleMoves]
    ) -> Iterator[Batch]:
        """Run schedules, and rerun each with its last delay extended as long as that makes a difference.

        ``passed``: takes those that did not fail and may have one more move.
        """
        waiting: list[ScheduleMoves] = []

        def outcomes(batch: list[ScheduleMoves]) -> Batch:
            trials = [self.trial(schedule) for schedule in batch]
            for schedule, trial, judged in zip(batch, trials, run(trials), strict=True):
                yield trial, judged
                if not judged.failed and schedule.moves < self._runs.scope.moves:
                    passed.append(schedule)
                if judged.further is not None and schedule.ends_in_delay:
                    waiting.append(schedule.later(judged.further))
                    self._exploration.expected += 1

        while True:
            while len(waiting) < _AT_ONCE and (family := next(families, None)) is not None:
                waiting += family
            if not waiting:
                return
            batch, waiting[:] = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
            yield outcomes(batch)

    def trial(self, schedule: ScheduleMoves) -> PipelineTrial:
        """Return the run of a schedule."""
        return self._runs.trial(schedule.faults, schedule.delays)

    def recording(self, schedule: ScheduleMoves) -> Recording:
        """Make the run of a schedule, and record what could depart from it."""
        return Recording(self.application, self.trial(schedule), self.protocol)

    def moves(
        self, parent: ScheduleMoves, recording: Recording | None = None, *, every: bool = False
    ) -> Iterator[Move]:
        """Return the moves that can follow a schedule's last one, in the order in which they begin.

        Args:
            parent: the schedule.
            recording: of it; default: a new one.
            every: see `Recording.delays`.
        """
        scope, recording = self._runs.scope, recording or self.recording(parent)
        moves: list[Move] = []
        if len(parent.delays) < scope.delays:
            moves += recording.delays(parent.position, reduced=scope.reduced, every=every)
        if len(parent.faults) < scope.faults:
            for move, same in recording.faults(
                parent.position, self._runs.ground, scope.kinds, scope.outside
            ):
                if same and scope.reduced:
                    self._exploration.pruned += 1
                else:
                    moves.append(move)
        return iter(sorted(moves, key=lambda move: move.position))
