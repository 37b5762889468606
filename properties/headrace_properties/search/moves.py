"""Possible departures from a run: arrivals that others could overtake, and faults that could begin at its steps."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice

import msgspec

from headrace import SECOND
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.ground import Ground, ground_of
from headrace_properties.search.judging import arrivals_of
from headrace_properties.search.plans import Plan
from headrace_properties.search.scope import FAULT_KINDS, Scope
from headrace_properties.search.step_faults import faults_at
from headrace_properties.search.store_breaches import breaches_at
from headrace_sim import Arrivals, Delay, Does, FaultSchedule, Moment, Protocol, Step, StepFault, start
from headrace_sim import faults as f
from headrace_sim.arrivals import Routine, overtakers


class ScopedRuns:
    """The runs of an application within a scope.

    Args:
        application: what is run.
        scope: the bounds.
        feed_seed: of the input.

    Attributes:
        scope: the bounds.
        ground: what there is to disturb.
    """

    def __init__(self, application: Application, scope: Scope, feed_seed: int) -> None:
        self.scope = scope
        self._feed_seed = feed_seed
        feed = application.feed(feed_seed)
        self._kept = tuple(range(min(scope.records, feed.records)))
        self.ground = ground_of(application.versions, feed.only(self._kept), scope.options)
        self._heal_at_us = self.ground.horizon_us + SECOND

    @property
    def described(self) -> str:
        """Which runs they are."""
        return f"a search by {self.scope} of input {self._feed_seed}"

    def trial(self, faults: tuple[StepFault, ...] = (), delays: tuple[Delay, ...] = ()) -> PipelineTrial:
        """Return the run with some departures."""
        schedule = FaultSchedule((), self._heal_at_us, at_steps=faults)
        return PipelineTrial(Plan(schedule, self.scope.options, 0, delays), self._feed_seed, self._kept)


class Position(msgspec.Struct, frozen=True, order=True):
    """When a move begins in its run.

    Attributes:
        clock: how many arrivals had come.
        step: which protocol step of the run it was; -1: it is a delayed arrival.
        which: which fault of those that can begin there.
    """

    clock: int = 0
    step: int = -1
    which: int = -1


class Move(msgspec.Struct, frozen=True):
    """One departure of a schedule from the default."""

    position: Position
    what: StepFault | Delay


class _Reached(msgspec.Struct):
    """A protocol step that a run has reached, before the heal."""

    clock: int
    number: int
    step: Step


class Recording:
    """A run, and its possible departures.

    Args:
        application: what is run.
        trial: the run; its plan has delays, if only none.
        protocol: the state machines to host.

    Attributes:
        arrivals: of the run.
        history: of the run.
        sent: the step of each message that a process sent, by the message's identity and where it went.
        received: the step of each event that a process received, by the event's identity and the process.
    """

    def __init__(self, application: Application, trial: PipelineTrial, protocol: Protocol) -> None:
        plan, arrivals = trial.plan, arrivals_of(trial.plan)
        assert arrivals is not None, "whose latencies are drawn has no order to vary"
        self.arrivals: Arrivals = arrivals
        self.sent: dict[tuple[int, str], Step] = {}
        self.received: dict[tuple[int, str], Step] = {}
        self._number = 0
        self._steps: list[_Reached] = []
        self._routine = Routine()
        self._healed = False
        cluster = start(
            application.versions, application.input_of(trial), options=plan.options, faults=plan.faults, seed=plan.seed,
            protocol=protocol, arrivals=arrivals,
        )  # fmt: skip
        self.history = cluster.history
        cluster.tell_steps(self._tell)
        cluster.run_until(plan.faults.heals_at_us)
        self._healed = True
        cluster.heal(plan.faults.lasting)
        cluster.run_to_the_end()

    def _tell(self, step: Step, event: object, to: str) -> None:
        self._number += 1
        if not self._healed:
            steps = self.sent if step.does is Does.SENDS else self.received
            steps[id(event), to] = step  # arrivals are kept alive, so their ids stay unique
        if (
            self._healed
            or type(event).__name__ in ROUTINE_EVENTS
            or self._routine.takes(step.process, to, event)
        ):
            return
        self._steps.append(_Reached(self.arrivals.clock, self._number, step))

    @property
    def steps(self) -> list[Step]:
        """The steps at which faults can begin."""
        return [reached.step for reached in self._steps]

    def delays(self, after: Position, *, reduced: bool, every: bool = False) -> Iterator[Move]:
        """Yield each arrival after a position that another could overtake, with the smallest delay that makes a difference.

        ``every``: also with each longer delay that this run shows to be possible.
        """
        handled = self.arrivals.handled
        for index, arrival in enumerate(handled):
            if arrival.content is None or arrival.periodic or arrival.clock <= after.clock:
                continue
            for past in islice(overtakers(handled, index, anywhere=not reduced), None if every else 1):
                yield Move(Position(arrival.clock), Delay(arrival.step, past, anywhere=not reduced))

    def faults(
        self, after: Position, ground: Ground, kinds: Sequence[str], outside: Sequence[f.Breach] = ()
    ) -> Iterator[tuple[Move, bool]]:
        """Yield each fault of some kinds that could begin after a position, and whether another one is equivalent."""
        wanted: tuple[type[f.Fault], ...] = (f.BreakStore, *(FAULT_KINDS[kind] for kind in kinds))
        followed = self._followed_at_once()
        verbs: set[tuple[int, object]] = set()
        for reached in self._steps:
            possible = chain(faults_at(reached.step, ground), breaches_at(reached.step, outside))
            for which, tied in enumerate(possible):
                position = Position(reached.clock, reached.number, which)
                if not isinstance(tied.fault, wanted):
                    continue
                same = tied.moment is Moment.AFTER and reached.number in followed
                if isinstance(tied.fault, f.Operate):
                    same = (reached.clock, tied.fault.verb) in verbs
                    verbs.add((reached.clock, tied.fault.verb))
                if position > after:
                    yield Move(position, tied), same

    def _followed_at_once(self) -> set[int]:
        """Return the steps after which their process takes another one before anything else arrives anywhere.

        A crash after the first is a crash before the second.
        """
        numbers, following = set[int](), dict[str, _Reached]()
        for reached in reversed(self._steps):
            other = following.get(reached.step.process)
            if other is not None and other.clock == reached.clock:
                numbers.add(reached.number)
            following[reached.step.process] = reached
        return numbers


ROUTINE_EVENTS = ("Wake", "SourceWatermark", "Replayed")
"""Choice: these are routine, except that the process takes a step at them."""
