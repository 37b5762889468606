"""``headrace verify`` for Spark: a ``foreachBatch`` function, a function that starts a query, or a `SparkJob`.

PySpark is imported only when such a target is named.
"""

import dataclasses
import shlex
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from headrace import HistoryFormatError
from headrace_cli._consoles import error_console, output_console
from headrace_cli._documents import print_document, stdout_reserved
from headrace_cli._exit import RESULT_WORDS, ExitCode
from headrace_cli._files import OutputFiles, write_bytes
from headrace_cli._heeded import refuse_unheeded_options
from headrace_cli._invariants import invariants_named
from headrace_cli._kept import save_findings
from headrace_cli._pictures import Showing
from headrace_cli._signals import StopRequest, stop_requested
from headrace_cli._targets import DEFAULT_FEED, load_named, picked
from headrace_cli._trust import check_trusted
from headrace_cli._user_code import Confinement, names_of
from headrace_properties.findings import Finding, FindingClass
from headrace_properties.session import Memory, Session
from headrace_properties.target import TargetError
from headrace_properties.target_kinds import check_allowed
from headrace_scenarios.pictures.side_by_side import side_by_side_html

if TYPE_CHECKING:
    from headrace_properties.spark_jobs.spark_trials import SparkTrials
    from headrace_properties.spark_jobs.targets import SparkReport, SparkTarget
    from headrace_sim.spark.schedules import Feed

_LINE_PERIOD_S = 10.0
"""Choice: a line of progress so often."""


@dataclasses.dataclass(frozen=True, slots=True)
class SparkOptions:
    """What ``headrace verify`` takes for a Spark job: schemas of its input, what its outcome may depend on, how much to try.

    ``promises`` are those to judge by (none: all), ``allow_unknown`` those that need not be tested, and ``keys`` those of tables.
    """

    schemas: Sequence[str]
    allow: str
    duplicates: bool
    feed_name: str
    schedules: int
    seed: int
    promises: Sequence[str] = ()
    allow_unknown: str = ""
    keys: Sequence[str] = ()
    confinement: Confinement = Confinement()  # noqa: RUF009  it is frozen


def verify_spark(
    name: str,
    options: SparkOptions,
    memory: Memory,
    files: OutputFiles,
    save: Path | None,
    context: typer.Context,
    *,
    as_json: bool,
    verbose: bool,
) -> ExitCode:
    """Run a Spark job under schedules, try its sink at each of its effects, and print what was found.

    Args:
        name: ``MODULE:FUNCTION`` or ``MODULE:JOB``.
        options: How.
        memory: Has what was found before, which is tried first.
        files: Writes the first finding, if the user asks for it.
        save: To which file.
        context: What is given on the command line.
        as_json: Whether to print one JSON document.
        verbose: Whether to print the whole input of each finding.

    Raises:
        HeadraceError: The target is not there, is no Spark job, does something that cannot be simulated, or PySpark is missing.

    """
    with stdout_reserved(), options.confinement.entered(verbose=verbose):
        target = _target(name, options)
        refuse_unheeded_options(context, target.kind)
        check_allowed(names_of(options.allow), target.kind)
        from headrace_properties.spark_jobs.spark_trials import SparkTrials  # noqa: PLC0415
        from headrace_properties.spark_jobs.targets import causes_named  # noqa: PLC0415

        began = time.monotonic()
        with stop_requested() as stop:
            trials = SparkTrials(
                target,
                lambda seed: _target(name, dataclasses.replace(options, seed=seed)),
                _schemas(name, options.schemas),
                options.feed_name,
                options.seed,
                options.schedules,
                causes_named(names_of(options.allow)),
                options.duplicates,
                invariants_named(options.allow_unknown, (), target.promises),
                _Progress(name, stop),
            )
            session = Session(trials, memory)
            session.run()
        elapsed_s = time.monotonic() - began
        save_findings(session, save, files)
    verified = Verified(session, stop.signal)
    if as_json:
        print_document(_document(verified))
    else:
        _print(verified, elapsed_s, target.feed if verbose else None)
    return files.code(verified.code)


@dataclasses.dataclass(frozen=True, slots=True)
class Verified:
    """What was found, and what came of what was found before.

    Attributes:
        session: What was verified, and what was found.
        stopped_by: The signal that ended the search early, or None.
    """

    session: "Session[SparkTrials]"
    stopped_by: signal.Signals | None = None

    @property
    def report(self) -> "SparkReport":
        """What came of the search."""
        report = self.session.trials.report
        assert report is not None
        return report

    @property
    def findings(self) -> "list[tuple[Finding, Path | None]]":
        """Everything that was found, each with its replay file; violated ones first."""
        return [
            (finding, self.session.files.get(number))
            for number, finding in enumerate(self.session.trials.findings)
        ]

    @property
    def code(self) -> ExitCode:
        """The command's exit code."""
        if self.stopped_by is not None:
            return ExitCode(128 + self.stopped_by)
        classes = {finding.finding_class for finding, _ in self.findings}
        if FindingClass.VIOLATED in classes:
            return ExitCode.VIOLATED
        is_open = self.report.unknown or FindingClass.UNDECLARED in classes
        return ExitCode.UNKNOWN if is_open else ExitCode.HOLDS


def _target(name: str, options: SparkOptions) -> "SparkTarget":
    target = load_spark_target(
        name, _schemas(name, options.schemas), options.feed_name, options.seed, options.keys
    )
    promises = picked(name, target.promises, options.promises)
    return dataclasses.replace(target, promises=promises, limits=options.confinement.limits)


def load_spark_target(
    name: str,
    schemas: str | Mapping[str, str] | None,
    feed_name: str,
    seed: int,
    keys: Sequence[str] = (),
) -> "SparkTarget":
    """Import a Spark job or sink, and what it is tried with.

    Args:
        name: ``MODULE:NAME``.
        schemas: Of its input.
        feed_name: What the module calls its rows.
        seed: Of the rows.
        keys: Of tables: ``table=column,column``.

    Raises:
        HeadraceError: It is not there, is no Spark job, or PySpark is missing.

    """
    try:
        from headrace_properties.spark_jobs.targets import keys_named, spark_target  # noqa: PLC0415
        from headrace_sim.spark.recorded_columns import columns_without_java  # noqa: PLC0415
        from headrace_sim.spark.sessions import ModuleSession  # noqa: PLC0415
    except ModuleNotFoundError:
        import headrace.spark  # noqa: F401, PLC0415  it says which packages are missing

        raise
    with columns_without_java(ModuleSession()):  # for modules that get a session when they are imported
        module, found = load_named(name)
    feed = getattr(module, feed_name, None)
    if feed is None and feed_name != DEFAULT_FEED:
        problem = f"module {module.__name__!r} has no {feed_name!r} with the rows of its input"
        raise TargetError(
            name, problem, "Write it as batches of rows, or leave --feed out: rows are then drawn"
        )
    return spark_target(
        name, found, module=module, schemas=schemas, feed=feed, seed=seed, keys=keys_named(keys)
    )


def _schemas(name: str, given: Sequence[str]) -> str | Mapping[str, str] | None:
    """``word STRING`` is for all parameters, ``events=word STRING`` for one."""
    pairs = [
        (parameter.strip(), columns)
        for parameter, equals, columns in (option.partition("=") for option in given)
        if equals
    ]
    if not pairs:
        return given[0] if given else None
    if len(pairs) < len(given) or not all(parameter.isidentifier() for parameter, _ in pairs):
        raise TargetError(
            name,
            "--schema is given with a parameter's name and without",
            "Write each as --schema PARAMETER=COLUMNS",
        )
    return dict(pairs)


class _Progress:
    """Says now and then on stderr how far the trials are, and returns whether a signal asks to stop."""

    def __init__(self, name: str, stop: StopRequest) -> None:
        self._name = name
        self._stop = stop
        self._console = error_console()
        self._last = time.monotonic()

    def __call__(self, done: int, wanted: int) -> bool:
        now = time.monotonic()
        if now - self._last >= _LINE_PERIOD_S and done < wanted:
            self._last = now
            self._console.print(f"{self._name}: {done:,} of {wanted:,} trials")
        return self._stop()


def _print(verified: Verified, elapsed_s: float, feed: "Feed | None") -> None:
    """Print the report. ``feed``: the target's, to print with each finding what is left of it, or None."""
    report = verified.report
    for line in verified.session.kept:
        _say(line)
    if report.job is not None:
        late = f"; up to {report.job.late:,} rows were late" if report.job.late else ""
        left_out = f"; {report.job.left_out}" if report.job.left_out else ""
        _say(f"{report.name}: {report.job.schedules:,} schedules{late}{left_out}")
    if report.sink is not None and report.sink.effects:
        effects = ", ".join(map(str, report.sink.effects))
        _say(f"{report.name}: a sink with {effects} effects in {len(report.sink.effects)} batches")
        _say(f"{report.sink.trials:,} trials: each effect of each batch under every fault")
        for note in report.sink.notes:
            _say(f"Note: {note}")
    for note in () if report.job is None else report.job.notes:
        _say(f"Note: {note}")
    for finding, path in verified.findings:
        _say(f"\n{finding.finding_class.name}: {finding.kind.title}")
        _say(f"  {finding}")
        _say(f"  Seen in {_seen(finding)}.")
        if feed is not None:
            _print_input(finding, feed)
        if path is not None:
            _say(f"  headrace replay {shlex.quote(str(path))} --explain")
    for why in report.unknown:
        _say(f"\nUNKNOWN: {why}")
    _say(f"\n{RESULT_WORDS[verified.code].capitalize()}, after {elapsed_s:.1f} s.")


def _say(line: str, style: str = "") -> None:
    output_console().print(line, markup=False, highlight=False, soft_wrap=True, style=style or None)


def _print_input(finding: "Finding", feed: "Feed") -> None:
    from headrace_properties.spark_jobs.shrinking import narrowed  # noqa: PLC0415

    for number, rows in enumerate(narrowed(feed, finding.trial.kept)):
        for row in rows:
            _say(f"  batch {number} has {row}")


def _seen(finding: "Finding") -> str:
    fault, trials = getattr(finding.trial, "fault", None), finding.trials
    if fault.kind.value == "undisturbed" if fault else finding.trial.schedule is None:
        return "a run without faults"
    return f"{trials:,} {'trial' if fault else 'schedule'}{'s' * (trials != 1)}"


def _document(verified: Verified) -> dict[str, Any]:
    report = verified.report
    return {
        "target": report.name,
        "result": RESULT_WORDS[verified.code],
        "schedules": report.job.schedules if report.job else 0,
        "late": report.job.late if report.job else 0,
        "left_out": report.job.left_out if report.job else "",
        "trials": report.sink.trials if report.sink else 0,
        "effects": list(report.sink.effects) if report.sink else [],
        "notes": [*(report.job.notes if report.job else ()), *(report.sink.notes if report.sink else ())],
        "kept": list(verified.session.kept),
        "findings": [
            _finding_document(finding) | {"replay_file": None if path is None else str(path)}
            for finding, path in verified.findings
        ],
        "unknown": list(report.unknown),
    }


def _finding_document(finding: "Finding") -> dict[str, Any]:
    return {
        "name": finding.kind.title,
        "kind": finding.kind.name,
        "class": finding.finding_class.value,
        "message": finding.message,
        "place": None if finding.place is None else str(finding.place),
        "remedy": finding.remedy,
        "story": list(finding.story),
        "trials": finding.trials,
        "trial": msgspec.to_builtins(finding.trial),
    }


def replay_spark(
    path: Path,
    pipeline: str | None,
    showing: Showing,
    files: OutputFiles,
    confinement: Confinement,
    *,
    trust: bool,
    as_json: bool,
) -> ExitCode:
    """Look for a saved finding again, and print what has come of it.

    Args:
        path: The replay file.
        pipeline: ``MODULE:NAME`` of what is tried instead of what the file names, or None.
        showing: Whether to tell how it comes about, and where to draw it.
        files: That may be written.
        confinement: Of the code.
        trust: Whether to import any module that the file names.
        as_json: Whether to print one JSON document.

    Raises:
        HeadraceError: The file or the target cannot be read.

    """
    from headrace_properties.spark_jobs.replay_file import Again, read_file  # noqa: PLC0415

    with stdout_reserved(), confinement.entered():
        file = read_file(path)
        name = pipeline or file.spark_job
        if not trust:
            check_trusted(path, [name], pipeline)
        loaded = load_spark_target(name, file.schemas, file.feed, file.feed_seed)
        target = dataclasses.replace(file.declared(loaded), limits=confinement.limits)
        if wrong := file.wrong(target):
            raise HistoryFormatError("replay file", str(path), wrong)
        again, changes = Again(file, target), file.changes(target)
        explanation = again.explanation() if showing.explain or showing.html is not None else None
    finding = again.finding
    is_violated = finding is not None and finding.finding_class is FindingClass.VIOLATED
    code = ExitCode.VIOLATED if is_violated else ExitCode.UNKNOWN if finding or changes else ExitCode.HOLDS
    if showing.html is not None:
        said = "Nothing is violated." if finding is None else f"{finding.kind.title}: {finding}"
        runs, difference = (explanation.runs, explanation.difference) if explanation else ((), ())
        page = side_by_side_html(runs, title=name, said=said, difference=difference)
        files.write(showing.html, "--html", write_bytes(page.encode()))
    if as_json:
        document = {
            "target": name,
            "result": RESULT_WORDS[code],
            "changed": list(changes),
            "recorded": file.violations,
            "finding": None if finding is None else _finding_document(finding),
        }
        print_document(document | ({"explanation": explanation} if showing.explain else {}))
        return code
    if finding is not None:
        style = "bold red" if is_violated else "bold yellow"
        _say(f"{finding.finding_class.name} again: {finding.kind.title}", style)
        _say(f"  {finding}")
        if finding.kind.title not in file.violations:
            _say(f"Recorded was: {', '.join(file.violations)}")
    elif changes:
        what = " and the ".join(changes)
        verb = "have" if len(changes) > 1 else "has"
        _say(
            f"UNKNOWN: nothing is violated, but the {what} {verb} changed since",
            "bold yellow",
        )
    else:
        _say("HOLDS: this run no longer violates anything", "bold green")
    if explanation is not None and showing.explain:
        for line in explanation.paragraphs():
            _say(line)
    return code
