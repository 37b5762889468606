"""``headrace replay``: run a saved failure again, byte for byte."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from headrace import HeadraceError, HistoryFormatError, Pipeline
from headrace.histories import header_of
from headrace.history import History
from headrace_cli._consoles import output_console
from headrace_cli._documents import invariants_document, print_document, stdout_reserved
from headrace_cli._exit import RESULT_WORDS, ExitCode, tidy_errors
from headrace_cli._files import OutputFiles
from headrace_cli._heeded import refuse_unheeded_options
from headrace_cli._histories import HISTORY, SIMULATED, HistoryOption, write_history
from headrace_cli._options import CodeTimeoutOption, JsonOption, PromiseOption, with_options
from headrace_cli._pictures import Showing, print_saved
from headrace_cli._render import (
    print_error,
    print_heading,
    print_input,
    print_plan,
    print_text,
    print_violations,
)
from headrace_cli._replay_file import Recorded, load_failure
from headrace_cli._spark_targets import replay_spark
from headrace_cli._targets import load_target
from headrace_cli._trust import check_trusted
from headrace_cli._until import Until, cut, print_until
from headrace_cli._user_code import AllowEffectOption, Confinement
from headrace_cli._when import measure, print_rates
from headrace_properties.printable import describe_input
from headrace_properties.promises import PromiseError
from headrace_properties.search.application import Application
from headrace_properties.search.inevitability import FailureRates
from headrace_properties.search.judging import run_plan, violations
from headrace_properties.search.limits import CALL_S, CodeLimits, OverrunError, call_time_limited
from headrace_properties.search.plausible import implausible
from headrace_properties.search.replay_file import ReplayFile, is_spark_file
from headrace_properties.search.run_error import RunError
from headrace_properties.target import TargetError
from headrace_properties.target_kinds import TargetKind
from headrace_properties.user_code.kept_findings import shown_again
from headrace_properties.verdict import Verdict
from headrace_sim import SOUND, versions_of

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]
  headrace replay headrace-failure-1f3a90c2.json
  headrace replay headrace-failure-1f3a90c2.json --explain --html failure.html
  headrace replay headrace-failure-1f3a90c2.json --until violation
  headrace replay headrace-failure-1f3a90c2.json installed.package:pipeline

[bold]Exit codes[/]
  0 it no longer violates anything, 1 it violates something again, 2 usage error, 3 nothing is violated, but the code or
  the input has changed, so that the run may no longer show what it showed"""


@dataclass(frozen=True, slots=True)
class ReplayedFailure:
    """A failure that was run again.

    Attributes:
        recorded: the file.
        verdicts: of this run; none if it stopped with an error.
        digest: of its History; ``""`` if it stopped.
        error: that it stopped with, if it did.
        history: what happened; nothing if it stopped.
        versions: of the pipeline.
        changes: what the recorded run was made from and is not known to be the same today: ``code``, ``input``.
        records: the input, a line for each record.
    """

    recorded: Recorded
    verdicts: Mapping[str, Verdict]
    digest: str
    error: RunError | None
    history: History = field(default_factory=History)
    versions: tuple[Pipeline, ...] = ()
    changes: tuple[str, ...] = ()
    records: tuple[str, ...] = ()

    @property
    def identical(self) -> bool:
        """Whether it is the recorded run, byte for byte. A run that stopped has no digest; then the errors are compared."""
        file = self.recorded.file
        if file.about_code:
            return violations(dict(self.verdicts)).keys() == file.violations.keys()
        recorded = RunError.read(file.violations.get("error", ""))
        essences = [error and error.essence for error in (self.error, recorded)]
        return self.digest == file.digest and essences[0] == essences[1]

    @property
    def code(self) -> ExitCode:
        """The command's exit code."""
        if self.error or violations(dict(self.verdicts)):
            return ExitCode.VIOLATED
        return ExitCode.UNKNOWN if self.changes else ExitCode.HOLDS


UntilOption = Annotated[
    str | None,
    typer.Option(
        metavar="EVENT",
        help="Show the run up to an event, and the state of the cluster then. EVENT is a number, a kind such as Applied"
        " (the first one), or [bold]violation[/].",
    ),
]


@app.command("replay", epilog=_EXAMPLES)
@with_options
def replay(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Replay file saved by [bold]headrace verify[/].")
    ],
    showing: Showing,
    pipeline: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE:PIPELINE]", help="Run this pipeline instead of the one that the file names."
        ),
    ] = None,
    promise: PromiseOption = None,
    until: UntilOption = None,
    history: HistoryOption = None,
    trust: Annotated[  # noqa: FBT002  typer's way
        bool, typer.Option("--trust", help="Import the file's module even if it is not part of this project.")
    ] = False,
    when: Annotated[  # noqa: FBT002  typer's way
        bool,
        typer.Option(
            "--when",
            help="Find the moment after which the run fails whatever else happens: 1,000 more runs.",
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, show_default="all cores", help="Processes that share the runs of --when."),
    ] = None,
    code_timeout: CodeTimeoutOption = CALL_S,
    allow: AllowEffectOption = "",
    as_json: JsonOption = False,  # noqa: FBT002  typer's way
) -> None:
    """Run a saved failure again, byte for byte, and show what it violates and which events prove it.

    Run it where you ran verify: the pipeline is imported by its name. A module outside that project is imported only if you
    name it, too, or pass --trust.
    """
    with tidy_errors():
        files = showing.files([file])
        files.claim(history, HISTORY)
        confinement = Confinement(CodeLimits(call_s=code_timeout), allow)
        limits = confinement.limits
        confined = confinement.entered
        _replay_if_spark(context, file, pipeline, showing, files, confinement, trust=trust, as_json=as_json)
        with stdout_reserved(), confined():
            recorded = load_failure(file)
            refuse_unheeded_options(
                context, TargetKind.CODE if recorded.file.about_code else TargetKind.PIPELINE
            )
            if not trust:
                check_trusted(file, _targets(recorded.file, pipeline), pipeline)
            replayed = _run(recorded, pipeline, promise or (), limits)
        with confined():  # codecs and promises are asked for what is told
            rates = stopped = None
            if when and replayed.code is ExitCode.VIOLATED:
                application = _application(recorded, pipeline, promise or (), limits)
                rates, stopped = _measure(application, replayed, jobs)
            stop = (
                cut(replayed.history, until, dict(replayed.verdicts)) if until and replayed.history else None
            )
            if as_json:
                _print_json(replayed, showing, stop, rates)
                _save(showing, replayed, files, history, rates)
            else:
                console = output_console()
                _print(console, replayed)
                _print_story(console, replayed, showing, stop, rates, is_cut=until is not None)
                _save(showing, replayed, files, history, rates)
                print_saved(console, files.saved)
        if stopped is not None:
            raise stopped
        raise typer.Exit(files.code(replayed.code))


def _replay_if_spark(
    context: typer.Context,
    file: Path,
    pipeline: str | None,
    showing: Showing,
    files: OutputFiles,
    confinement: Confinement,
    **options: bool,
) -> None:
    """End the command with the replay of a Spark job, if the file is about one."""
    if is_spark_file(file):
        refuse_unheeded_options(context, TargetKind.QUERY)
        raise typer.Exit(replay_spark(file, pipeline, showing, files, confinement, **options))


def _measure(
    application: Application, replayed: ReplayedFailure, jobs: int | None
) -> tuple[FailureRates | None, KeyboardInterrupt | None]:
    """Find the moment after which the run fails whatever else happens; or the signal that stopped the search."""
    file, protocol = replayed.recorded.file, replayed.recorded.protocol
    verdicts = dict(replayed.verdicts)
    try:
        with stdout_reserved():
            return measure(
                application, file, protocol, replayed.history, verdicts, replayed.error, jobs
            ), None
    except KeyboardInterrupt as signaled:  # the run itself is told even so
        return None, signaled


def _save(
    showing: Showing,
    replayed: ReplayedFailure,
    files: OutputFiles,
    history: Path | None,
    rates: FailureRates | None,
) -> None:
    if not replayed.history:  # a run that stopped with an error has none
        return
    file = replayed.recorded.file
    subtitle = f"input {file.feed}({file.feed_seed}), protocol: {file.protocol}"
    showing.save(
        files,
        replayed.history,
        replayed.verdicts,
        title=file.pipeline,
        subtitle=subtitle,
        rates=rates,
        pipelines=replayed.versions,
    )
    header = header_of(replayed.versions, SIMULATED, file.plan.options.engine)
    write_history(files, history, replayed.history, header)


def _targets(file: ReplayFile, pipeline: str | None) -> list[str]:
    """Return what is imported: ``MODULE:PIPELINE`` of each version."""
    return [pipeline or file.pipeline, *file.versions]


def _application(
    recorded: Recorded, pipeline: str | None, promises: Sequence[str], limits: CodeLimits
) -> Application:
    first, *others = _targets(recorded.file, pipeline)
    target = load_target(first, recorded.file.feed, others, promises)
    return replace(target.application, limits=limits)


def _run(
    recorded: Recorded, pipeline: str | None, promises: Sequence[str], limits: CodeLimits
) -> ReplayedFailure:
    file = recorded.file
    first = pipeline or file.pipeline
    application = _application(recorded, pipeline, promises, limits)
    feed = application.feed(file.feed_seed)
    wrong = implausible(file.plan, feed, file.kept)
    if wrong:
        raise HistoryFormatError("replay file", recorded.path, wrong)
    records = tuple(describe_input(application.pipeline, application.input_of(file.trial)))
    if file.about_code:
        again = shown_again(application, file).verdicts
        changes = file.changes(application, first)
        return ReplayedFailure(recorded, again, "", None, changes=changes, records=records)
    try:
        with call_time_limited(application.limits):
            history, verdicts, _ = run_plan(application, file.trial, recorded.protocol)
        if not promises:
            _check_promises_are_there(first, file, verdicts)
    except (PromiseError, TargetError):
        raise
    except (HeadraceError, AssertionError, SystemExit, OverrunError) as error:
        changes = file.changes(application, first)
        return ReplayedFailure(recorded, {}, "", RunError.of(error), changes=changes, records=records)
    return ReplayedFailure(
        recorded,
        verdicts,
        history.digest(),
        None,
        history,
        tuple(versions_of(application.versions)),
        file.changes(application, first),
        records,
    )


def _check_promises_are_there(name: str, file: ReplayFile, verdicts: Mapping[str, Verdict]) -> None:
    """Refuse to say that a promise is kept that the module no longer makes."""
    gone = [
        violation
        for violation in file.violations
        if violation.isidentifier() and violation not in (*verdicts, "error")
    ]
    if gone:
        problem = f"the file records a violation of {gone[0]!r}, which the module no longer promises"
        raise TargetError(name, problem, "Put it back into the list promises, or delete the file")


def _print(console: Console, replayed: ReplayedFailure) -> None:
    file = replayed.recorded.file
    if replayed.code is ExitCode.HOLDS:
        print_text(console, "HOLDS: this run no longer violates anything", style="bold green")
    elif replayed.code is ExitCode.UNKNOWN:
        print_text(console, f"UNKNOWN: nothing is violated, but {_changed(replayed)}", style="bold yellow")
    else:
        broken = ", ".join(violations(dict(replayed.verdicts))) or "the run stopped with an error"
        print_text(console, f"VIOLATED again: {broken}", style="bold red")
    print_text(console, _sameness(replayed))
    print_heading(
        console,
        f"{file.pipeline}, input {replayed.recorded.file.feed}({file.feed_seed}), protocol: {file.protocol}",
    )
    print_input(console, replayed.records)
    if not file.about_code:
        print_plan(console, file.plan)
    print_violations(console, replayed.verdicts, witnesses=True)
    if replayed.error:
        print_error(console, replayed.error, sound=file.protocol == SOUND.name)


def _print_story(
    console: Console,
    replayed: ReplayedFailure,
    showing: Showing,
    stop: Until | None,
    rates: FailureRates | None,
    *,
    is_cut: bool,
) -> None:
    """Explain the run, or say why it cannot be. ``is_cut``: a cut was asked for."""
    if replayed.history:
        showing.print_story(console, replayed.history, dict(replayed.verdicts), replayed.versions)
    elif is_cut or showing.explain or showing.pictures:
        about_code = replayed.recorded.file.about_code
        why = "This is your code by itself" if about_code else "The run stopped with an error"
        print_heading(console, f"{why}: no explanation or diagram is available")
    if stop:
        print_until(console, stop)
    if rates is not None:
        print_rates(console, rates, replayed.history)


def _changed(replayed: ReplayedFailure) -> str:
    """Say what is not as it was recorded."""
    what, file = " and the ".join(replayed.changes), replayed.recorded.file
    known = all(digest for digest in (file.code_digest, file.input_digest))
    verb = "have" if len(replayed.changes) > 1 else "has"
    return (
        f"the {what} {verb} changed since" if known else f"whether the {what} {verb} changed is not recorded"
    )


def _sameness(replayed: ReplayedFailure) -> str:
    if replayed.recorded.file.about_code:
        same = "It shows as recorded" if replayed.identical else "It does not show as recorded"
        return f"{same}: your code by itself, with no fault and no cluster."
    if replayed.identical and replayed.error:
        return "The run stopped with the recorded error."
    if replayed.identical:
        return f"The run is the recorded one, byte for byte (History digest {replayed.digest[:16]})."
    return (
        "The run is not the recorded one: the pipeline, its input or Headrace has changed since. "
        f"Recorded was a violation of {', '.join(replayed.recorded.file.violations)}."
    )


def _print_json(
    replayed: ReplayedFailure, showing: Showing, stop: Until | None, rates: FailureRates | None
) -> None:
    story = showing.document(replayed.history, dict(replayed.verdicts), replayed.versions)
    document = _document(replayed) | story
    if stop:
        document["until"] = stop
    if rates is not None:
        document["failure_rates"] = rates
    print_document(document)


def _document(replayed: ReplayedFailure) -> dict[str, Any]:
    file = replayed.recorded.file
    return {
        "pipeline": file.pipeline,
        "feed": replayed.recorded.file.feed,
        "feed_seed": file.feed_seed,
        "protocol": file.protocol,
        "result": RESULT_WORDS[replayed.code],
        "identical": replayed.identical,
        "changed": list(replayed.changes),
        "digest": replayed.digest,
        "recorded_digest": file.digest,
        "error": str(replayed.error or ""),
        "input": list(replayed.records),
        "fault_schedule": file.plan.describe(),
        "invariants": invariants_document(replayed.verdicts),
    }
