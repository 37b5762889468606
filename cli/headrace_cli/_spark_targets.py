"""``headrace verify`` for Spark: a ``foreachBatch`` function, a function that starts a query, or a `SparkJob`.

PySpark is imported only when such a target is named.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace import HistoryFormatError
from headrace_cli._consoles import output_console
from headrace_cli._documents import print_document, stdout_reserved
from headrace_cli._exit import RESULT_WORDS, ExitCode
from headrace_cli._files import OutputFiles, write_bytes
from headrace_cli._invariants import invariants_named
from headrace_cli._pictures import Showing
from headrace_cli._spark_report import finding_document
from headrace_cli._targets import DEFAULT_FEED, load_named, picked
from headrace_cli._trust import check_trusted
from headrace_cli._user_code import Confinement, names_of
from headrace_properties.findings import FindingClass
from headrace_properties.pipeline_target import Search
from headrace_properties.search.limits import CodeLimits
from headrace_properties.target import TargetError
from headrace_properties.target_kinds import check_allowed
from headrace_scenarios.pictures.side_by_side import side_by_side_html

if TYPE_CHECKING:
    from headrace_properties.spark_jobs.spark_trials import SparkTrials
    from headrace_properties.spark_jobs.targets import SparkTarget


@dataclasses.dataclass(frozen=True, slots=True)
class SparkOptions:
    """What is known of a Spark job, as the command line has it.

    Attributes:
        schemas: Of its input.
        feed_name: What its module calls its rows.
        keys: Of tables: ``table=column,column``.
        promises: Those to judge by; none: all.
        allow: On what its outcome may depend.
        allow_unknown: Promises that need not be tested.
        duplicates: Whether the source may deliver a row twice.
    """

    schemas: Sequence[str]
    feed_name: str
    keys: Sequence[str]
    promises: Sequence[str]
    allow: str
    allow_unknown: str
    duplicates: bool


def spark_trials(name: str, search: Search, options: SparkOptions, limits: CodeLimits) -> "SparkTrials":
    """Load a Spark job or sink, and say how it is tried.

    Args:
        name: ``MODULE:FUNCTION`` or ``MODULE:JOB``.
        search: How many schedules, and of which seed.
        options: What is known of it.
        limits: Of each call of its code.

    Raises:
        HeadraceError: The target is not there, is no Spark job, or PySpark is missing.

    """
    schemas = _schemas(name, options.schemas)

    def target_of(seed: int) -> "SparkTarget":
        target = load_spark_target(name, schemas, options.feed_name, seed, options.keys)
        promises = picked(name, target.promises, options.promises)
        return dataclasses.replace(target, promises=promises, limits=limits)

    target = target_of(search.seed)
    from headrace_properties.spark_jobs.spark_trials import SparkTrials  # noqa: PLC0415
    from headrace_properties.spark_jobs.targets import causes_named  # noqa: PLC0415

    names = names_of(options.allow)
    check_allowed(names, target.kind)
    unknown = invariants_named(options.allow_unknown, (), target.promises)
    return SparkTrials(
        target, target_of, schemas, options.feed_name, search.seed, search.runs, causes_named(names), options.duplicates,
        unknown,
    )  # fmt: skip


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
            "finding": None if finding is None else finding_document(finding),
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


def _say(line: str, style: str = "") -> None:
    output_console().print(line, markup=False, highlight=False, soft_wrap=True, style=style or None)
