"""Recorded trials of pipelines, and of their code by itself, that are made again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from headrace import HeadraceError, HistoryFormatError
from headrace.histories import header_of
from headrace.history import History
from headrace_cli.reports.pictures import print_story, save_comparison, save_pictures, story_document
from headrace_cli.reruns.moments import Until, cut, measure, print_rates, print_until
from headrace_cli.reruns.reruns import ReplayOptions, Rerun
from headrace_cli.targets.loading import load_target
from headrace_cli.targets.protocols import load_protocol
from headrace_cli.terminal.documents import invariants_document
from headrace_cli.terminal.files import SIMULATED, OutputFiles, write_history
from headrace_cli.terminal.render import (
    print_error,
    print_heading,
    print_input,
    print_plan,
    print_text,
    print_violations,
)
from headrace_cli.terminal.usage_errors import WrongOptionError
from headrace_properties.findings import Family
from headrace_properties.pipeline_target import PipelineTarget
from headrace_properties.pipeline_trials import explain_code, shown_again
from headrace_properties.printable import describe_input
from headrace_properties.promises import PromiseError
from headrace_properties.replays import ERROR, ReplayFile, kind_of
from headrace_properties.search.application import PipelineTrial
from headrace_properties.search.inevitability import FailureRates
from headrace_properties.search.judging import run_plan, violations
from headrace_properties.search.limits import CodeLimits, OverrunError, call_time_limited
from headrace_properties.search.origins import input_digest
from headrace_properties.search.plausible import implausible, missing_records
from headrace_properties.search.run_error import RunError
from headrace_properties.target import PipelineSource, TargetError
from headrace_properties.user_code.code_trial import CodeTrial
from headrace_properties.verdict import Verdict
from headrace_sim import SOUND

_NO_STORY = "no explanation or diagram is available"


def rerun_pipeline(
    replay: ReplayFile, source: PipelineSource, trial: PipelineTrial | CodeTrial, options: ReplayOptions
) -> Rerun:
    """Repeat a trial of a pipeline, or of its code by itself.

    Args:
        replay: what was recorded.
        source: its source.
        trial: its trial.
        options: what is shown.

    Raises:
        HistoryFormatError: the file has implausible numbers, or a protocol that is no more.
        TargetError: the pipeline, its input, or a promise that was broken is not there.
    """
    target = load_recorded(source, trial, options.path, options.promises, options.limits)
    input_ = target.application.input_of(trial)
    said = _Subject(replay, target, tuple(describe_input(target.pipeline, input_)), trial.feed_seed)
    changes = replay.changes(input_digest(input_))
    if isinstance(trial, CodeTrial):
        return _look(said, trial, changes, options)
    return _run(said, trial, changes, options)


def load_recorded(
    source: PipelineSource,
    trial: PipelineTrial | CodeTrial,
    path: Path,
    promises: Sequence[str],
    limits: CodeLimits,
) -> PipelineTarget:
    """Load the pipeline of a replay file.

    Args:
        source: of the file; so is ``trial``.
        trial: checked to fit the pipeline's input.
        path: of the file, for messages.
        promises: those to judge by; none: all.
        limits: of each call of the user's code.

    Raises:
        HistoryFormatError: the file has implausible numbers, or a protocol that is no more.
        TargetError: the pipeline, its input, or a promise is not there.
    """
    try:
        protocol = load_protocol(source.protocol)
    except WrongOptionError as error:
        raise HistoryFormatError("replay file", str(path), error.problem) from error
    target = load_target(source.name, source.feed, source.versions, promises, limits, protocol)
    feed = target.feed(trial.feed_seed)
    plan = trial.plan if isinstance(trial, PipelineTrial) else None
    wrong = missing_records(feed, trial.kept) if plan is None else implausible(plan, feed, trial.kept)
    if wrong:
        raise HistoryFormatError("replay file", str(path), wrong)
    return target


@dataclass(frozen=True, slots=True)
class _Subject:
    """The description of any trial of a pipeline: ``records`` has a line for each record of its input."""

    replay: ReplayFile
    target: PipelineTarget
    records: tuple[str, ...]
    feed_seed: int

    @property
    def subtitle(self) -> str:
        return f"input {self.target.feed_name}({self.feed_seed}), protocol: {self.target.protocol.name}"

    @property
    def document(self) -> dict[str, Any]:
        return {
            "pipeline": self.target.name,
            "feed": self.target.feed_name,
            "feed_seed": self.feed_seed,
            "protocol": self.target.protocol.name,
            "input": self.records,
        }

    def tell(self, console: Console, sameness: str) -> None:
        print_text(console, sameness)
        print_heading(console, f"{self.target.name}, {self.subtitle}")
        print_input(console, self.records)


def _look(said: _Subject, trial: CodeTrial, changes: tuple[str, ...], options: ReplayOptions) -> Rerun:
    """Repeat a look at the code."""
    kinds = said.replay.kinds
    again = shown_again(said.target.application, trial, kinds)
    verdicts = again.verdicts
    identical = {kind.name for kind in verdicts} == {kind.name for kind in kinds}
    named: dict[str, Verdict] = {kind.title: verdict for kind, verdict in verdicts.items()}

    def tell(console: Console) -> None:
        shows = "It shows as recorded" if identical else "It does not show as recorded"
        said.tell(console, f"{shows}: your code by itself, with no fault and no cluster.")
        for finding in again.findings:
            print_heading(console, finding.kind.title)
            for sentence in finding.sentences:
                print_text(console, sentence, indent=2)
        if explanation is not None and showing.explain:
            for line in explanation.paragraphs():
                print_text(console, line)
        elif showing.explain:
            print_heading(console, f"This is your code by itself: {_NO_STORY}")

    showing, explanation = options.showing, None
    if showing.explain or showing.html is not None:
        explanation = explain_code(said.target.application, trial, tuple(verdicts))
    document = said.document | {"identical": identical, "invariants": invariants_document(named)}
    document |= {"explanation": explanation} if showing.explain and explanation is not None else {}

    def save(files: OutputFiles) -> None:
        finding = next(iter(again.findings), None)
        save_comparison(showing.html, files, said.target.name, finding, explanation)

    return Rerun(tuple(verdicts), changes, lambda: document, tell, save)


@dataclass(slots=True)
class _Run:
    """A repeated run of a cluster.

    Attributes:
        said: what is said of any trial.
        trial: what was run.
        options: what is shown.
        verdicts: of the run; none if it stopped with an error.
        history: what happened; nothing if it stopped.
        error: that it stopped with, if it did.
        until: it up to the event that was asked for.
        rates: how many of its continuations fail, if that was asked for.
    """

    said: _Subject
    trial: PipelineTrial
    options: ReplayOptions
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    history: History = field(default_factory=History)
    error: RunError | None = None
    until: Until | None = None
    rates: FailureRates | None = None

    @property
    def digest(self) -> str:
        return "" if self.error else self.history.digest()

    @property
    def identical(self) -> bool:
        """Whether it is the recorded run, byte for byte. A run that stopped has no digest; then the errors are compared."""
        replay = self.said.replay
        recorded = RunError.read(replay.found.get(Family.ERROR, {}).get(ERROR.name, ""))
        essences = [error and error.essence for error in (self.error, recorded)]
        return self.digest == replay.digest and essences[0] == essences[1]

    def document(self) -> dict[str, Any]:
        document = self.said.document | {
            "identical": self.identical,
            "digest": self.digest,
            "recorded_digest": self.said.replay.digest,
            "error": str(self.error or ""),
            "fault_schedule": self.trial.plan.describe(),
            "invariants": invariants_document(self.verdicts),
        }
        document |= story_document(
            self.options.showing, self.history, self.verdicts, self.said.target.deployed
        )
        more = {"until": self.until, "failure_rates": self.rates}
        return document | {name: value for name, value in more.items() if value is not None}

    def tell(self, console: Console) -> None:
        self.said.tell(console, self._sameness)
        print_plan(console, self.trial.plan)
        print_violations(console, self.verdicts, witnesses=True)
        if self.error:
            print_error(console, self.error, sound=self.said.target.protocol is SOUND)
        showing = self.options.showing
        if self.history:
            print_story(showing, console, self.history, self.verdicts, self.said.target.deployed)
        elif self.options.until is not None or showing.explain or showing.pictures:
            print_heading(console, f"The run stopped with an error: {_NO_STORY}")
        if self.until is not None:
            print_until(console, self.until)
        if self.rates is not None:
            print_rates(console, self.rates, self.history)

    @property
    def _sameness(self) -> str:
        if self.identical and self.error:
            return "The run stopped with the recorded error."
        if self.identical:
            return f"The run is the recorded one, byte for byte (History digest {self.digest[:16]})."
        recorded = ", ".join(kind.title for kind in self.said.replay.kinds)
        return (
            "The run is not the recorded one: the pipeline, its input or Headrace has changed since. "
            f"Recorded was a violation of {recorded}."
        )

    def save(self, files: OutputFiles) -> None:
        """Save pictures and the History; a run that stopped with an error has none."""
        if self.history:
            name, deployed = self.said.target.name, self.said.target.deployed
            save_pictures(
                self.options.showing,
                files,
                self.history,
                self.verdicts,
                title=name,
                subtitle=self.said.subtitle,
                rates=self.rates,
                pipelines=deployed,
            )
            header = header_of(deployed, SIMULATED, self.trial.plan.options.engine)
            write_history(files, self.options.history, self.history, header)


def _run(said: _Subject, trial: PipelineTrial, changes: tuple[str, ...], options: ReplayOptions) -> Rerun:
    """Repeat a run of the cluster."""
    run, target = _Run(said, trial, options), said.target
    try:
        with call_time_limited(options.limits):
            run.history, run.verdicts, _ = run_plan(target.application, trial, target.protocol)
        if not options.promises:
            _check_promises_are_there(said.replay, run.verdicts)
    except (PromiseError, TargetError):
        raise
    except (HeadraceError, AssertionError, SystemExit, OverrunError) as error:
        run.error = RunError.of(error)
    kinds = (ERROR,) if run.error else tuple(map(kind_of, violations(run.verdicts)))
    if options.until and run.history:
        run.until = cut(run.history, options.until, run.verdicts)
    stopped = None
    if options.when and kinds:
        try:
            run.rates = measure(
                target.application, trial, target.protocol, run.history, run.verdicts, run.error, options.jobs
            )
        except KeyboardInterrupt as signaled:  # the run itself is told even so
            stopped = signaled
    return Rerun(kinds, changes, run.document, run.tell, run.save, stopped)


def _check_promises_are_there(replay: ReplayFile, verdicts: Mapping[str, Verdict]) -> None:
    """Refuse to judge a promise that the module no longer makes."""
    gone = [name for name in replay.found.get(Family.PROMISE, {}) if name not in verdicts]
    if gone:
        problem = f"the file records a violation of {gone[0]!r}, which the module no longer promises"
        raise TargetError(
            replay.source.name, problem, "Put it back into the list promises, or delete the file"
        )
