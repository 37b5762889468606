"""What a person who takes the part of the adversary may choose at a step of a run: each choice is another plan.

Rules of this file:

* A plan with a choice has the same run up to the step: a fault begins at the step, and what ends, ends after it.
* A crash, a pause, a cut and a held message last until the person ends them, or until all faults end.
"""

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any

import msgspec

from headrace import MILLISECOND
from headrace.delivery.routing import OUTSIDE_ADDRESS
from headrace.history import StepReached
from headrace.wire.messages import STORE, ChangeTopology, MergeIntervals, MoveInterval, SplitInterval
from headrace_properties.explorer.cluster_view import in_words
from headrace_properties.explorer.explored_run import ExploredRun, ExploredStep
from headrace_properties.search.ground import Ground
from headrace_properties.search.plans import Plan
from headrace_sim import Delay, Moment, Step, StepFault
from headrace_sim import faults as f
from headrace_sim.arrivals import overtakers
from headrace_sim.faults.wording import describe
from headrace_sim.steps import MESSAGES

_AGAIN_US = 400 * MILLISECOND
_OVERTAKERS = 3
"""Choice: a message can be overtaken by so many different numbers of others; to hold it makes more possible."""


class ChoiceGroup(enum.Enum):
    """The kinds of choices, in the order in which they are offered."""

    MESSAGE = "Messages"
    END = "Let go, revive, reconnect"
    CRASH = "Crash"
    PAUSE = "Pause"
    CUT = "Cut off"
    KEYS = "Move keys"
    PLAN = "Leave out of the file"
    HEAL = "Heal"


@dataclass(frozen=True, slots=True)
class AdversaryChoice:
    """Something that can be made to happen at a step. ``plan``: of the run in which it does."""

    group: ChoiceGroup
    words: str
    plan: Plan


def choices_at(run: ExploredRun, number: int, plan: Plan, ground: Ground) -> list[AdversaryChoice]:
    """Return what can be made to happen at a step; nothing once all faults have ended.

    Args:
        run: of the plan, looked at before the step.
        number: of the step.
        plan: what happens so far.
        ground: what there is to disturb.
    """
    if number >= len(run.steps) or run.steps[number].at_us >= plan.faults.heals_at_us:
        return []
    at = _Adversary(run, number, plan, ground)
    makers = (at.messages, at.ends, at.crashes, at.pauses, at.cuts, at.operators_verbs, at.left_out)
    choices = [choice for make in makers for choice in make()]
    healed = msgspec.structs.replace(plan.faults, heal_at_us=at.step.at_us + 1)
    return [*choices, at.choice(ChoiceGroup.HEAL, "all faults end now, and none begins any more", healed)]


class _Adversary:
    """The choices at one step, by kind."""

    def __init__(self, run: ExploredRun, number: int, plan: Plan, ground: Ground) -> None:
        self._run, self._plan, self._ground = run, plan, ground
        self.step: ExploredStep = run.steps[number]
        self._left_us = plan.faults.heals_at_us - self.step.at_us
        own = self.step.step.process
        up = [process.address for process in run.view.processes if process.state in ("up", "starting")]
        self._up = sorted(up, key=lambda address: address != own)
        self._begun = dict(self._begun_at(run.history[: self.step.events]))

    def messages(self) -> Iterator[AdversaryChoice]:
        step = self.step
        if step.step.message in MESSAGES:
            yield from self._fates(step.step, step.event, step.step.process)
        for sent in step.sent:
            if sent.to in (STORE, OUTSIDE_ADDRESS):  # it comes to no process whose step this could be later
                yield from self._fates(sent.step, sent.message, sent.to)

    def _fates(self, step: Step, message: Any, to: str) -> Iterator[AdversaryChoice]:
        words = f"the {in_words(message)}"
        fates: tuple[tuple[str, f.MessageFault], ...] = (
            ("is lost", f.DropMessage(at_us=0)),
            ("is held until you let it go", f.DelayMessage(at_us=0, by_us=self._left_us)),
            ("comes twice, the second time 0.4 s later", f.DuplicateMessage(at_us=0, by_us=_AGAIN_US)),
        )
        for fate, fault in fates:
            yield self._faulty(ChoiceGroup.MESSAGE, f"{words} {fate}", StepFault(step, fault))
        arrivals = self._run.arrivals
        handled = () if arrivals is None or self._plan.delays is None else arrivals.handled
        for index, arrival in enumerate(handled):
            if arrival.content is message and arrival.place == to:
                for past in islice(overtakers(handled, index), _OVERTAKERS):
                    others = "the next arrival" if past == 1 else f"the next {past} arrivals"
                    delays = (*(self._plan.delays or ()), Delay(arrival.step, past))
                    late = msgspec.structs.replace(self._plan, delays=delays)
                    yield AdversaryChoice(ChoiceGroup.MESSAGE, f"{words} comes after {others} at {to}", late)

    def crashes(self) -> Iterator[AdversaryChoice]:
        for address in self._up:
            crash = f.Crash(at_us=0, process=address)
            yield self._at_step(ChoiceGroup.CRASH, f"{address} crashes", crash)
            if address == self.step.step.process:
                after = StepFault(self.step.step, crash, Moment.AFTER)
                yield self._faulty(ChoiceGroup.CRASH, f"{address} crashes once it has handled this", after)
                yield from self._before_sending(ChoiceGroup.CRASH, "crashes", crash)

    def pauses(self) -> Iterator[AdversaryChoice]:
        for address in self._up:
            pause = f.Pause(at_us=0, process=address, for_us=self._left_us)
            yield self._at_step(ChoiceGroup.PAUSE, f"{address} stops, and seems dead", pause)
            if address == self.step.step.process:
                yield from self._before_sending(ChoiceGroup.PAUSE, "stops", pause)

    def _before_sending(
        self, group: ChoiceGroup, verb: str, fault: f.Crash | f.Pause
    ) -> Iterator[AdversaryChoice]:
        for sent in self.step.sent:
            if sent.to in (STORE, OUTSIDE_ADDRESS):
                words = f"{fault.process} {verb} before it sends the {in_words(sent.message)}"
                yield self._faulty(group, words, StepFault(sent.step, fault))

    def cuts(self) -> Iterator[AdversaryChoice]:
        masters = tuple(leader for leader in self._ground.leaders if leader.startswith("master"))
        for address in self._up:
            others = ("", ()), ("the masters", masters), ("the store", (STORE,))
            for name, other in others:
                if address not in other:
                    cut = f.Partition(at_us=0, side=(address,), other=other, for_us=self._left_us)
                    words = f"{address} is cut off from {name or 'everybody'}"
                    yield self._at_step(ChoiceGroup.CUT, words, cut)
            deaf = f.Partition(at_us=0, side=(address,), for_us=self._left_us, one_way=True)
            yield self._at_step(ChoiceGroup.CUT, f"{address} hears everybody, and nobody hears it", deaf)

    def operators_verbs(self) -> Iterator[AdversaryChoice]:
        def offer(words: str, verb: Any) -> AdversaryChoice:
            return self._at_step(ChoiceGroup.KEYS, words, f.Operate(at_us=0, verb=verb))

        table, view = self._run.view.table, self._run.view
        for assignment, following in zip_longest(table, table[1:]):
            name, interval = assignment.computation, assignment.interval
            keys = f"the keys {interval} of {name!r}"
            for worker in self._ground.workers:
                if worker != assignment.owner:
                    move = MoveInterval(name, interval.low, worker)
                    yield offer(f"move {keys} from {assignment.owner} to {worker}", move)
            rows = sorted({row.key for row in view.rows if row.computation == name})
            known = [*rows, *self._ground.keys]
            inner = next((key for key in known if interval.contains(key) and key != interval.low), None)
            if inner is not None:
                yield offer(f"split {keys} at {inner!r}", SplitInterval(name, inner))
            if following is not None and following.computation == name:
                merge = MergeIntervals(name, interval.low)
                yield offer(f"merge {keys} with the next", merge)
        for version in range(1, self._ground.versions):
            yield offer(f"put version {version} of the pipeline in force", ChangeTopology(version))

    def ends(self) -> Iterator[AdversaryChoice]:
        """Offer to end what lasts."""
        planned = self._plan.faults.planned
        for place, begun_us in self._begun.items():
            fault = _fault_of(planned[place])
            row = _LASTING.get(type(fault))
            lasts_us = None if row is None else getattr(fault, row[0])
            if row is None or (lasts_us is not None and begun_us + lasts_us <= self.step.at_us + 1):
                continue
            ended = msgspec.structs.replace(fault, **{row[0]: self.step.at_us + 1 - begun_us})
            others = (*planned[:place], _with_fault(planned[place], ended), *planned[place + 1 :])
            yield self.choice(ChoiceGroup.END, row[1](planned[place]), self._plan.faults.with_planned(others))

    def left_out(self) -> Iterator[AdversaryChoice]:
        """Offer to leave out what has not begun: only a file plans ahead."""
        planned = self._plan.faults.planned
        for place, fault in enumerate(planned):
            if place not in self._begun:
                faults = self._plan.faults.with_planned((*planned[:place], *planned[place + 1 :]))
                words = fault.describe() if isinstance(fault, StepFault) else describe(fault)
                yield self.choice(ChoiceGroup.PLAN, words, faults)

    def _begun_at(self, past: Sequence[Any]) -> Iterator[tuple[int, int]]:
        """Yield the place of each planned fault that has begun, and when it began."""
        reached = {
            (event.process, event.step, event.nth, event.fault, event.moment): event.at_us
            for event in past
            if isinstance(event, StepReached)
        }
        for place, fault in enumerate(self._plan.faults.planned):
            if not isinstance(fault, StepFault):
                if fault.at_us <= self.step.at_us:
                    yield place, fault.at_us
                continue
            step = fault.step
            known = (step.process, step.verb, step.nth, fault.fault.kind, fault.moment.value)
            if known in reached:
                yield place, reached[known] + fault.fault.at_us

    def _at_step(self, group: ChoiceGroup, words: str, fault: f.AnyFault) -> AdversaryChoice:
        return self._faulty(group, words, StepFault(self.step.step, fault))

    def _faulty(self, group: ChoiceGroup, words: str, fault: StepFault) -> AdversaryChoice:
        faults = self._plan.faults
        faults = msgspec.structs.replace(
            faults, heal_at_us=faults.heals_at_us, at_steps=(*faults.at_steps, fault)
        )
        return self.choice(group, words, faults)

    def choice(self, group: ChoiceGroup, words: str, faults: f.FaultSchedule) -> AdversaryChoice:
        return AdversaryChoice(group, words, msgspec.structs.replace(self._plan, faults=faults))


def _fault_of(planned: f.AnyFault | StepFault) -> Any:
    return planned.fault if isinstance(planned, StepFault) else planned


def _with_fault(planned: f.AnyFault | StepFault, fault: Any) -> Any:
    return msgspec.structs.replace(planned, fault=fault) if isinstance(planned, StepFault) else fault


_LASTING: dict[type, tuple[str, Callable[[Any], str]]] = {
    f.Crash: ("restart_after_us", lambda planned: f"{_fault_of(planned).process} restarts"),
    f.Pause: ("for_us", lambda planned: f"{_fault_of(planned).process} goes on"),
    f.Partition: ("for_us", lambda planned: f"{' and '.join(_fault_of(planned).side)} is reconnected"),
    f.DelayMessage: (
        "by_us",
        lambda planned: (
            f"the {planned.step.what} that {planned.step.process} {planned.step.does.value} is let go"
        ),
    ),
}
"""Faults that last until they are ended: the field that says how long, and what is said of their end."""
