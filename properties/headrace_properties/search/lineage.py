"""Lineage-driven fault injection: derive the faults that could have prevented a run's outcome from what led to it.

Rules of this file (Alvaro, Rosen and Hellerstein, SIGMOD 2015):

* The outcome of a run is its goals: every row that was written, and every stream and key that left the system. A goal's *support*
  is the messages that led to it one by one: also those that brought the records, that the row's earlier handlers had run for,
  and by which the owner of the key had taken it over.
* A fault at a message of a support may break that support; any other one leaves all its messages alone. So a set of faults is
  worth a run only if it hits, for some goal, the support in the run of each of its subsets that was made (a hitting set).
* A run with faults that still reaches its goals reveals other supports, from which the search continues.

A result holds for this input and these latencies, since a fault also shifts what comes after it.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

from headrace import OptionsError
from headrace.history import Applied, Event, Executed, History, Output, ScanEnded
from headrace.wire.messages import Deliver
from headrace_properties.closure import closure
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.moves import Recording, ScopedRuns
from headrace_properties.search.parallel import RunTrials
from headrace_properties.search.scope import FAULT_KINDS, Exploration, Scope
from headrace_properties.search.step_faults import faults_at
from headrace_properties.search.strategy import Batch
from headrace_properties.search.verification import Verification
from headrace_sim import SOUND, Does, Moment, Protocol, Step, StepFault
from headrace_sim import faults as f
from headrace_sim.arrivals import ArrivedMessage

LINEAGE_KINDS = ("crash", "drop", "cut")
"""The kinds of faults, as in `FAULT_KINDS`, that keep a message from its effect."""

Goal = tuple[str, str, str]
"""Part of an outcome: its kind, its computation or stream, and its key."""

_Faults = tuple[StepFault, ...]


class LineageSearch:
    """Every set of faults that hits all known supports of a goal, smallest first.

    Args:
        application: what is under test.
        scope: how many records and faults, and which kinds of `LINEAGE_KINDS`; no arrival is delayed.
        feed_seed: of the input.
        protocol: the state machines to host.

    Raises:
        OptionsError: a latency of the scope's cluster is no interval, or a kind of fault is none of `LINEAGE_KINDS`.
    """

    usual = None

    def __init__(
        self, application: Application, scope: Scope, *, feed_seed: int = 0, protocol: Protocol = SOUND
    ) -> None:
        for kind in (*scope.kinds, *(breach.value for breach in scope.outside)):
            if kind not in LINEAGE_KINDS:
                raise OptionsError("kinds", kind, f"one of {', '.join(LINEAGE_KINDS)} in a search by lineage")
        self.application, self.protocol = application, protocol
        self._exploration = Exploration(scope, lineage=True)
        self.verification = Verification(feed_seeds=(feed_seed,), exploration=self._exploration)
        self._runs = ScopedRuns(application, scope, feed_seed)
        self.described = f"{self._runs.described} on the protocol {protocol.name}, lineage"
        self._supports: dict[frozenset[StepFault], dict[Goal, dict[StepFault, None]]] = {}

    def batches(self, run: RunTrials) -> Iterator[Batch]:
        """Run the sets by their size."""
        exploration, candidates = self._exploration, list[_Faults]([()])
        for size in range(self._runs.scope.faults + 1):
            if size:
                candidates = self._larger(candidates)
            exploration.done, exploration.expected = 0, len(candidates)
            trials = [self._runs.trial(faults) for faults in candidates]
            yield zip(trials, run(trials), strict=True)
            exploration.rounds = size + 1
        exploration.exhausted = True

    def _larger(self, sets: list[_Faults]) -> list[_Faults]:
        """Return the sets with one more fault that are worth running. ``sets``: of faults, each run without a failure."""
        for faults in sets:
            lineage = Lineage(self.application, self._runs.trial(faults), self.protocol)
            self._supports[frozenset(faults)] = {
                goal: dict.fromkeys(fault for step in steps for fault in self._faults_at(step))
                for goal, steps in lineage.supports.items()
            }
            if not faults:
                self._exploration.singles = sum(1 for step in lineage.steps for _ in self._faults_at(step))
        larger: dict[frozenset[StepFault], _Faults] = {}
        for faults in sets:
            for support in self._supports[frozenset(faults)].values():
                for fault in support:
                    together = frozenset((*faults, fault))
                    if len(together) == len(faults) or together in larger:
                        continue
                    if self._hits(together):
                        larger[together] = (*faults, fault)
                    else:
                        self._exploration.pruned += 1
        return [*larger.values()]

    def _hits(self, faults: frozenset[StepFault]) -> bool:
        """Return whether faults hit, for some goal, its support in every run of a subset of them."""
        smaller = [(run, supports) for run, supports in self._supports.items() if run < faults]
        goals = dict.fromkeys(goal for _, supports in smaller for goal in supports)
        return any(
            all(
                goal not in supports or not supports[goal].keys().isdisjoint(faults - run)
                for run, supports in smaller
            )
            for goal in goals
        )

    def _faults_at(self, step: Step) -> Iterator[StepFault]:
        """Yield the faults that prevent the effect of a step's message."""
        wanted = tuple(FAULT_KINDS[kind] for kind in LINEAGE_KINDS if kind in self._runs.scope.kinds)
        for tied in faults_at(step, self._runs.ground):
            if not isinstance(tied.fault, wanted):
                continue
            match tied.fault:
                case f.Crash(restart_after_us=None):
                    continue
                case f.Crash() if tied.moment is Moment.AFTER and step.does is Does.SENDS:
                    continue  # it has left: the crash may as well come before the next step
                case f.Partition(other=other) if other or step.does is Does.RECEIVES:
                    continue
            yield tied


class Lineage:
    """What caused the outcome of a run.

    Args:
        application: what is run.
        trial: the run.
        protocol: the state machines to host.

    Attributes:
        steps: of the run, before the heal and without routine work.
    """

    def __init__(self, application: Application, trial: PipelineTrial, protocol: Protocol = SOUND) -> None:
        recording = Recording(application, trial, protocol)
        self.steps = recording.steps
        self._recording = recording
        self._history: History = recording.history
        self._led_to: defaultdict[int, list[int | None]] = defaultdict(list)
        self._arrivals = {
            number: arrival for arrival in recording.arrivals.handled for number in arrival.activations
        }

    @cached_property
    def supports(self) -> dict[Goal, dict[Step, None]]:
        """The protocol steps of each goal's support."""
        goals: dict[Goal, list[int]] = {}
        latest: dict[tuple[str, ...], int] = {}
        versions: dict[tuple[str, str, int, int], int] = {}
        for number, events in self._activations():
            arrival = self._arrivals.get(number)
            if arrival is not None and isinstance(arrival.content, Deliver):  # it may wait there for a scan
                production = arrival.content.production
                latest["delivered", arrival.place, production.consumer, production.record_id] = number
            for event in events:
                match event:
                    case ScanEnded(process=process, computation=computation):
                        latest["scanned", process, computation] = number
                    case Executed(computation=computation, key=key, version=version):
                        self._led_to[number] += (
                            latest.get(("delivered", event.process, computation, event.cause)),
                            latest.get(("scanned", event.process, computation)),
                            latest.get(("executed", computation, key)),
                        )
                        latest["executed", computation, key] = number
                        versions[computation, key, version.sequencer, version.number] = number
                    case Applied(computation=computation, sequencer=sequencer, delta=delta):
                        self._led_to[number].append(
                            versions.get((computation, delta.key, sequencer, delta.number))
                        )
                        goals.setdefault(("row", computation, delta.key), []).append(number)
                    case Output(production=sent):
                        goals.setdefault(("output", sent.stream, sent.key), []).append(number)
                    case _:
                        pass
        return {goal: self._support(reached) for goal, reached in goals.items()}

    def _activations(self) -> Iterator[tuple[int, Sequence[Event]]]:
        activations, events = self._history.activations, self._history.events
        ends = [*(activation.first_event for activation in activations[1:]), len(events)]
        for number, (activation, end) in enumerate(zip(activations, ends, strict=True)):
            yield number, events[activation.first_event : end]

    def _support(self, reached: list[int]) -> dict[Step, None]:
        """Return the steps of all messages without which some activations would not have come about as they did."""
        activations = self._history.activations
        led = closure(reached[::-1], lambda number: (*self._led_to[number], activations[number].cause))
        arrivals = [self._arrivals[number] for number in led if number in self._arrivals]
        return {
            step: None
            for arrival in arrivals
            if arrival.content is not None
            for step in self._steps_of(arrival)
        }

    def _steps_of(self, arrival: ArrivedMessage) -> Iterator[Step]:
        """Yield the steps that sent and received a message, except those of the store, which takes no steps."""
        for steps in (self._recording.sent, self._recording.received):
            step = steps.get((id(arrival.content), arrival.place))
            if step is not None:
                yield step
