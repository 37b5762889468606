"""Recorded trials of pipelines, and of their code by itself, that are made again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from headrace import HeadraceError, HistoryFormatError
from headrace.histories import header_of
from headrace.history import History
from headrace_cli._documents import invariants_document
from headrace_cli._files import OutputFiles
from headrace_cli._histories import SIMULATED, write_history
from headrace_cli._render import (
    print_error,
    print_heading,
    print_input,
    print_plan,
    print_text,
    print_violations,
)
from headrace_cli._reruns import ReplayOptions
from headrace_cli._targets import load_target
from headrace_cli._until import Until, cut, print_until
from headrace_cli._when import measure, print_rates
from headrace_properties.findings import Family, Kind
from headrace_properties.kept_failures import shown_again
from headrace_properties.mutants import protocol_named
from headrace_properties.pipeline_target import PipelineTarget
from headrace_properties.printable import describe_input
from headrace_properties.promises import PromiseError
from headrace_properties.replays import ERROR, Replay, kind_of
from headrace_properties.search.application import Trial
from headrace_properties.search.inevitability import FailureRates
from headrace_properties.search.judging import run_plan, violations
from headrace_properties.search.limits import OverrunError, call_time_limited
from headrace_properties.search.origins import input_digest
from headrace_properties.search.plausible import implausible, missing_records
from headrace_properties.search.run_error import RunError
from headrace_properties.target import PipelineSource, TargetError
from headrace_properties.user_code.code_trial import CodeTrial
from headrace_properties.verdict import Verdict, Violated
from headrace_sim import SOUND

_NO_STORY = "no explanation or diagram is available"


def rerun_pipeline(
    replay: Replay, source: PipelineSource, trial: Trial | CodeTrial, options: ReplayOptions
) -> "PipelineRerun | CodeRerun":
    """Make a trial of a pipeline, or of its code by itself, again.

    Args:
        replay: what was recorded.
        source: its source.
        trial: its trial.
        options: what is shown.

    Raises:
        HistoryFormatError: the file has implausible numbers, or a protocol that is no more.
        TargetError: the pipeline, its input, or a promise that was broken is not there.
    """
    try:
        protocol = protocol_named(source.protocol)
    except KeyError as error:
        raise HistoryFormatError("replay file", str(options.path), f"there is no protocol {error}") from error
    target = load_target(
        source.name, source.feed, source.versions, options.promises, options.limits, protocol
    )
    feed = target.feed(trial.feed_seed)
    plan = trial.plan if isinstance(trial, Trial) else None
    wrong = missing_records(feed, trial.kept) if plan is None else implausible(plan, feed, trial.kept)
    if wrong:
        raise HistoryFormatError("replay file", str(options.path), wrong)
    if isinstance(trial, CodeTrial):
        return _look(replay, trial, target, options)
    return _run(replay, trial, target, options)


def _records(target: PipelineTarget, trial: Trial | CodeTrial) -> tuple[str, ...]:
    return tuple(describe_input(target.pipeline, target.application.input_of(trial)))


def _changes(replay: Replay, target: PipelineTarget, trial: Trial | CodeTrial) -> tuple[str, ...]:
    return replay.changes(input_digest(target.application.input_of(trial)))


def _document_of(replay: Replay, trial: Trial | CodeTrial, records: tuple[str, ...]) -> dict[str, Any]:
    source = replay.source
    assert isinstance(source, PipelineSource)
    return {
        "pipeline": source.name,
        "feed": source.feed,
        "feed_seed": trial.feed_seed,
        "protocol": source.protocol,
        "input": list(records),
    }


def _subtitle(target: PipelineTarget, trial: Trial | CodeTrial) -> str:
    return f"input {target.feed_name}({trial.feed_seed}), protocol: {target.protocol.name}"


@dataclass(frozen=True, slots=True)
class CodeRerun:
    """A look at user code that was made again.

    Attributes:
        replay: what was recorded.
        trial: what was looked at.
        target: the pipeline.
        options: what is shown.
        verdicts: what was found, by kind.
        records: the input, a line for each record.
        changes: see `headrace_cli._reruns.Rerun`.
    """

    replay: Replay
    trial: CodeTrial
    target: PipelineTarget
    options: ReplayOptions
    verdicts: Mapping[Kind, Violated]
    records: tuple[str, ...]
    changes: tuple[str, ...]
    stopped: KeyboardInterrupt | None = None

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What it shows now."""
        return tuple(self.verdicts)

    @property
    def _identical(self) -> bool:
        return {kind.name for kind in self.kinds} == {kind.name for kind in self.replay.kinds}

    @property
    def _named(self) -> dict[str, Verdict]:
        return {kind.title: verdict for kind, verdict in self.verdicts.items()}

    def document(self) -> dict[str, Any]:
        """Return it as JSON, without its result."""
        document = _document_of(self.replay, self.trial, self.records)
        return document | {"identical": self._identical, "invariants": invariants_document(self._named)}

    def print(self, console: Console) -> None:
        """Print all but its headline."""
        same = "It shows as recorded" if self._identical else "It does not show as recorded"
        print_text(console, f"{same}: your code by itself, with no fault and no cluster.")
        print_heading(console, f"{self.target.name}, {_subtitle(self.target, self.trial)}")
        print_input(console, self.records)
        print_violations(console, self._named, witnesses=True)
        if self.options.showing.explain:
            print_heading(console, f"This is your code by itself: {_NO_STORY}")

    def save(self, files: OutputFiles) -> None:
        """Save nothing: it has no History."""


def _look(replay: Replay, trial: CodeTrial, target: PipelineTarget, options: ReplayOptions) -> CodeRerun:
    verdicts = shown_again(target.application, trial, replay.kinds).verdicts
    records, changes = _records(target, trial), _changes(replay, target, trial)
    return CodeRerun(replay, trial, target, options, verdicts, records, changes)


@dataclass(slots=True)
class PipelineRerun:
    """A run of a cluster that was made again.

    Attributes:
        replay: what was recorded.
        trial: what was run.
        target: the pipeline.
        options: what is shown.
        records: the input, a line for each record.
        changes: see `headrace_cli._reruns.Rerun`.
        verdicts: of this run; none if it stopped with an error.
        history: what happened; nothing if it stopped.
        error: that it stopped with, if it did.
        until: it up to the event that was asked for.
        rates: how many of its continuations fail, if that was asked for.
        stopped: the signal that stopped the search for these.
    """

    replay: Replay
    trial: Trial
    target: PipelineTarget
    options: ReplayOptions
    records: tuple[str, ...]
    changes: tuple[str, ...]
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    history: History = field(default_factory=History)
    error: RunError | None = None
    until: Until | None = None
    rates: FailureRates | None = None
    stopped: KeyboardInterrupt | None = None

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What it shows now, the cause first."""
        return (ERROR,) if self.error else tuple(map(kind_of, violations(self.verdicts)))

    @property
    def digest(self) -> str:
        """Of its History; ``""`` if it stopped."""
        return "" if self.error else self.history.digest()

    @property
    def identical(self) -> bool:
        """Whether it is the recorded run, byte for byte. A run that stopped has no digest; then the errors are compared."""
        recorded = RunError.read(self.replay.found.get(Family.ERROR, {}).get(ERROR.name, ""))
        essences = [error and error.essence for error in (self.error, recorded)]
        return self.digest == self.replay.digest and essences[0] == essences[1]

    def document(self) -> dict[str, Any]:
        """Return it as JSON, without its result."""
        showing = self.options.showing
        document = _document_of(self.replay, self.trial, self.records) | {
            "identical": self.identical,
            "digest": self.digest,
            "recorded_digest": self.replay.digest,
            "error": str(self.error or ""),
            "fault_schedule": self.trial.plan.describe(),
            "invariants": invariants_document(self.verdicts),
        }
        document |= showing.document(self.history, self.verdicts, self.target.deployed)
        if self.until is not None:
            document["until"] = self.until
        if self.rates is not None:
            document["failure_rates"] = self.rates
        return document

    def print(self, console: Console) -> None:
        """Print all but its headline."""
        print_text(console, self._sameness)
        print_heading(console, f"{self.target.name}, {_subtitle(self.target, self.trial)}")
        print_input(console, self.records)
        print_plan(console, self.trial.plan)
        print_violations(console, self.verdicts, witnesses=True)
        if self.error:
            print_error(console, self.error, sound=self.target.protocol is SOUND)
        if self.history:
            self.options.showing.print_story(console, self.history, self.verdicts, self.target.deployed)
            if self.until is not None:
                print_until(console, self.until)
        elif self.options.wants_story:
            print_heading(console, f"The run stopped with an error: {_NO_STORY}")
        if self.rates is not None:
            print_rates(console, self.rates, self.history)

    @property
    def _sameness(self) -> str:
        if self.identical and self.error:
            return "The run stopped with the recorded error."
        if self.identical:
            return f"The run is the recorded one, byte for byte (History digest {self.digest[:16]})."
        recorded = ", ".join(kind.title for kind in self.replay.kinds)
        return (
            "The run is not the recorded one: the pipeline, its input or Headrace has changed since. "
            f"Recorded was a violation of {recorded}."
        )

    def save(self, files: OutputFiles) -> None:
        """Save pictures and the History; a run that stopped with an error has none."""
        if not self.history:
            return
        self.options.showing.save(
            files,
            self.history,
            self.verdicts,
            title=self.target.name,
            subtitle=_subtitle(self.target, self.trial),
            rates=self.rates,
            pipelines=self.target.deployed,
        )
        header = header_of(self.target.deployed, SIMULATED, self.trial.plan.options.engine)
        write_history(files, self.options.history, self.history, header)


def _run(replay: Replay, trial: Trial, target: PipelineTarget, options: ReplayOptions) -> PipelineRerun:
    records, changes = _records(target, trial), _changes(replay, target, trial)
    rerun = PipelineRerun(replay, trial, target, options, records, changes)
    try:
        with call_time_limited(options.limits):
            rerun.history, rerun.verdicts, _ = run_plan(target.application, trial, target.protocol)
        if not options.promises:
            _check_promises_are_there(replay, rerun.verdicts)
    except (PromiseError, TargetError):
        raise
    except (HeadraceError, AssertionError, SystemExit, OverrunError) as error:
        rerun.error = RunError.of(error)
    if options.until and rerun.history:
        rerun.until = cut(rerun.history, options.until, rerun.verdicts)
    if options.when and rerun.kinds:
        try:
            rerun.rates = measure(
                target.application, trial, target.protocol, rerun.history, rerun.verdicts, rerun.error, options.jobs
            )  # fmt: skip
        except KeyboardInterrupt as signaled:  # the run itself is told even so
            rerun.stopped = signaled
    return rerun


def _check_promises_are_there(replay: Replay, verdicts: Mapping[str, Verdict]) -> None:
    """Refuse to say that a promise is kept that the module no longer makes."""
    gone = [name for name in replay.found.get(Family.PROMISE, {}) if name not in verdicts]
    if gone:
        problem = f"the file records a violation of {gone[0]!r}, which the module no longer promises"
        raise TargetError(
            replay.source.name, problem, "Put it back into the list promises, or delete the file"
        )
