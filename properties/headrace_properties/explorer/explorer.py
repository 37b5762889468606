"""Go through the runs of a pipeline by hand: a position is a list of choices, and the step before which the run stands.

Rules of this file:

* What is shown at a position depends on the choices up to it only. The run is judged as if nothing else happened after them.
* A choice is named by its step and its number among those that are possible there, so an address is a position.
* A saved schedule is an ordinary replay file: it is run once more, as the command runs it, before it is written.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import msgspec

from headrace import HeadraceError
from headrace.history import Activation, History
from headrace_properties.checkers.invariant_catalogue import is_invariant, rule
from headrace_properties.explain.event_summaries import phrase, seconds
from headrace_properties.explain.pictures.spacetime import spacetime_html
from headrace_properties.explorer.adversary import AdversaryChoice, choices_at
from headrace_properties.explorer.cluster_view import ClusterView, in_words
from headrace_properties.explorer.explored_run import ExploredRun
from headrace_properties.pipeline_target import PipelineTarget
from headrace_properties.replays import messages_of, to_replay
from headrace_properties.search.application import PipelineTrial
from headrace_properties.search.ground import ground_of
from headrace_properties.search.judging import Failure, try_plan
from headrace_properties.search.origins import input_digest
from headrace_properties.verdict import Holds, Unknown, Violated

Made = tuple[int, int]
"""A choice that was made: the number of its step, and its number among the choices there."""


class UnknownPositionError(HeadraceError):
    """There is no such position. Fields: position, problem."""

    def __init__(self, position: str, problem: str) -> None:
        super().__init__(position, problem)
        self.position, self.problem = position, problem

    def __str__(self) -> str:
        """Say what is wrong with it."""
        return f"there is no position {self.position!r}: {self.problem}"


class ExploredPosition(msgspec.Struct, frozen=True):
    """Where a person is. ``made``: the choices, in the order of their steps; ``at``: the run stands before this step."""

    made: tuple[Made, ...] = ()
    at: int = 0

    @classmethod
    def read(cls, choices: str, at: str) -> "ExploredPosition":
        """Read a position from an address: ``12.3-40.0`` and ``41``.

        Raises:
            UnknownPositionError: it is not one.

        >>> ExploredPosition.read("12.3-40.0", "41")
        ExploredPosition(made=((12, 3), (40, 0)), at=41)
        """
        if not re.fullmatch(r"(\d{1,7}\.\d{1,7}(-\d{1,7}\.\d{1,7})*)?", choices) or not re.fullmatch(
            r"\d{1,7}", at
        ):
            raise UnknownPositionError(f"{choices}@{at}", "write choices=STEP.CHOICE-... and at=STEP")
        pairs = [pair.split(".") for pair in choices.split("-") if pair]
        return cls(tuple((int(step), int(choice)) for step, choice in pairs), int(at))

    def __str__(self) -> str:
        """Write it as in an address."""
        return f"{'-'.join(f'{step}.{choice}' for step, choice in self.made)}@{self.at}"

    @property
    def past(self) -> "ExploredPosition":
        """The same without the choices of later steps."""
        return ExploredPosition(tuple(made for made in self.made if made[0] <= self.at), self.at)


class ExplorerState(msgspec.Struct, frozen=True):
    """What is shown at a position.

    Attributes:
        title: the pipeline.
        subtitle: its input and the protocol.
        choices: those made, in words, each with its step.
        planned: what the file plans, in words.
        at: the run stands before this step.
        steps: how many it has, if nothing else happens.
        stops: the steps that are not routine: number, process, what it receives.
        next: what happens next, in words; ``""``: the run is over.
        possible: what can be made to happen instead, each with its group.
        cluster: the processes, rows and messages in flight.
        time: true time, in words.
        events: the last that happened: time, process, words.
        verdicts: of the invariants and promises, if nothing else happens.
        error: that stops the run.
    """

    title: str
    subtitle: str
    choices: list[tuple[int, str]]
    planned: list[str]
    at: int
    steps: int
    stops: list[tuple[int, str, str]]
    next: str
    possible: list[tuple[str, str]]
    cluster: ClusterView
    time: str
    events: list[tuple[str, str, str]]
    verdicts: list["ShownVerdict"]
    error: str = ""


class ShownVerdict(msgspec.Struct, frozen=True):
    """A verdict at a position.

    Attributes:
        name: of the invariant or promise.
        title: what it says.
        section: of the paper; ``""``: it is a promise.
        verdict: ``broken``, ``breaks`` (later, if nothing else happens), ``holds`` or ``unknown``.
        message: of the finding, or why it is unknown.
    """

    name: str
    title: str
    section: str
    verdict: str
    message: str


class Explorer:
    """The runs of a target that begin as a trial does.

    Args:
        target: the pipeline, its input, and its promises.
        trial: the run without any choice.
    """

    def __init__(self, target: PipelineTarget, trial: PipelineTrial) -> None:
        self._target = target
        application = target.application
        self._ground = ground_of(application.versions, application.input_of(trial), trial.plan.options)
        self._trial = trial
        self._reached: OrderedDict[tuple[Made, ...], tuple[PipelineTrial, tuple[str, ...]]] = OrderedDict()
        self._latest: tuple[ExploredPosition, ExploredRun] | None = None

    def state(self, position: ExploredPosition) -> ExplorerState:
        """Return what is shown at a position.

        Raises:
            UnknownPositionError: there is no such position.
            PromiseError: a promise is wrong in itself.
        """
        position = position.past
        trial, words = self._trial_of(position.made)
        run = self._run(position)
        at = min(position.at, len(run.steps))
        ended = run.events_before(at)
        step = run.steps[at] if at < len(run.steps) else None
        possible = choices_at(run, at, trial.plan, self._ground)
        target = self._target
        return ExplorerState(
            title=target.name,
            subtitle=f"input {target.feed_name}({trial.feed_seed}), protocol: {target.protocol.name}",
            choices=[(number, text) for (number, _), text in zip(position.made, words, strict=True)],
            planned=self._trial.plan.describe() if self._trial.plan.faults.count else [],
            at=at,
            steps=len(run.steps),
            stops=[
                (number, explored.step.process, explored.step.message)
                for number, explored in enumerate(run.steps)
                if not explored.quiet
            ],
            next="" if step is None else f"{step.step.process} receives: {in_words(step.event)}",
            possible=[(choice.group.value, choice.words) for choice in possible],
            cluster=run.view,
            time=seconds(run.view.at_us),
            events=[
                (seconds(event.at_us), event.process, phrase(event))
                for event in run.history[max(0, ended - _TAIL) : ended]
            ],
            verdicts=list(self._verdicts(run, ended)),
            error="" if run.error is None else str(run.error),
        )

    def _verdicts(self, run: ExploredRun, ended: int) -> Iterator[ShownVerdict]:
        words = {promise.name: promise.title for promise in self._target.promises}
        for name, verdict in run.verdicts.items():
            about = rule(name)
            is_rule = is_invariant(name)
            title, section = (about.title, about.section) if is_rule else (words.get(name, ""), "")
            match verdict:
                case Violated():
                    when = "broken" if run.broken_at(verdict) < ended else "breaks"
                    yield ShownVerdict(name, title, section, when, verdict.message)
                case Holds():
                    yield ShownVerdict(name, title, section, "holds", "")
                case Unknown():
                    yield ShownVerdict(name, title, section, "unknown", verdict.why)

    def diagram(self, position: ExploredPosition) -> str:
        """Draw the run up to a position as a page of its own."""
        position = position.past
        run = self._run(position)
        events = run.events_before(min(position.at, len(run.steps)))
        past = History(run.history[:events], _activations(run.history, events))
        broken = {
            name: verdict
            for name, verdict in run.verdicts.items()
            if not isinstance(verdict, Violated) or run.broken_at(verdict) < events
        }
        return spacetime_html(past, broken, title=self._target.name, pipelines=self._target.deployed)

    def replay(self, position: ExploredPosition) -> tuple[bytes, Failure]:
        """Return a replay file of the run that goes on from a position without anything else, and what it shows."""
        trial, _ = self._trial_of(position.past.made)
        target = self._target
        failure = try_plan(target.application, trial, target.protocol).failure(trial)
        messages = messages_of(failure) if failure.violations or failure.error else {}
        digest = input_digest(target.application.input_of(trial))
        return to_replay(target.source, trial, messages, digest=failure.digest, input_digest=digest), failure

    def _run(self, position: ExploredPosition) -> ExploredRun:
        """Make the run of a position, unless it is the latest one."""
        if self._latest is None or self._latest[0] != position:
            trial, _ = self._trial_of(position.made)
            run = ExploredRun(self._target.application, self._target.protocol, trial, position.at)
            self._latest = position, run
        return self._latest[1]

    def _trial_of(self, made: tuple[Made, ...]) -> tuple[PipelineTrial, tuple[str, ...]]:
        """Return the run with some choices, and the choices in words."""
        if not made:
            return self._trial, ()
        if made not in self._reached:
            trial, words = self._trial_of(made[:-1])
            number, choice = made[-1]
            run = self._run(ExploredPosition(made[:-1], number))
            possible: Sequence[AdversaryChoice] = choices_at(run, number, trial.plan, self._ground)
            if choice >= len(possible) or any(step > number for step, _ in made[:-1]):
                raise UnknownPositionError(
                    str(ExploredPosition(made, number)), "no such choice is possible there"
                )
            chosen = possible[choice]
            trial = msgspec.structs.replace(trial, plan=chosen.plan)
            self._reached[made] = trial, (*words, chosen.words)
            while len(self._reached) > _KEPT:
                self._reached.popitem(last=False)
        return self._reached[made]


_TAIL = 60
"""Events that are shown."""
_KEPT = 1_000
"""Trials whose choices are remembered: each is small."""


def _activations(history: History, events: int) -> list[Activation]:
    return [activation for activation in history.activations if activation.first_event <= events]
