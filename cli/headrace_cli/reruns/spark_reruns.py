"""Recorded trials of Spark jobs and sinks that are made again."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console

from headrace import HistoryFormatError
from headrace_cli.options.program_options import script_of
from headrace_cli.reports.pictures import save_comparison
from headrace_cli.reruns.reruns import ReplayOptions, Rerun
from headrace_cli.targets.spark_loading import load_spark_target
from headrace_cli.terminal.documents import finding_document
from headrace_properties.findings import Finding
from headrace_properties.replays import ReplayFile
from headrace_properties.spark_jobs.trials import QueryTrial, SinkTrial
from headrace_properties.target import SparkSource

if TYPE_CHECKING:
    from headrace_properties.explanation import Explanation
    from headrace_properties.spark_jobs.targets import SparkTarget


def rerun_spark(
    replay: ReplayFile, source: SparkSource, trial: QueryTrial | SinkTrial, options: ReplayOptions
) -> Rerun:
    """Repeat a trial of a Spark job or a sink.

    Args:
        replay: what was recorded.
        source: its source.
        trial: its trial.
        options: what is shown.

    Raises:
        HistoryFormatError: the file has implausible numbers.
        HeadraceError: the job is not there, or PySpark is missing.
    """
    from headrace_sim.spark.pyspark_versions import LET_THROUGH

    loaded = _loaded(source, trial, options, (replay.versions or {}).get(LET_THROUGH, ""))
    from headrace_properties.query_search import Again

    again, showing = Again(replay, trial, replace(loaded, limits=options.limits)), options.showing
    if again.wrong:
        raise HistoryFormatError("replay file", str(options.path), again.wrong)
    finding, explanation = again.finding, None
    if showing.explain or showing.html is not None:
        explanation = again.explanation()
    document = {
        "target": source.name,
        "recorded": {kind.title: replay.found[kind.family][kind.name] for kind in replay.kinds},
        "finding": None if finding is None else finding_document(finding),
    }
    return Rerun(
        () if finding is None else (finding.kind,),
        again.changes,
        lambda: document | ({"explanation": explanation} if showing.explain else {}),
        partial(
            _tell,
            replay,
            finding,
            tuple(again.of_another_release.values()),
            explanation if showing.explain else None,
        ),
        lambda files: save_comparison(showing.html, files, source.name, finding, explanation),
    )


def _loaded(
    source: SparkSource, trial: QueryTrial | SinkTrial, options: ReplayOptions, let_through: str
) -> "SparkTarget":
    """Load a target, or run the program that starts it, whose surroundings last as long as the command."""
    seed = trial.feed_seed
    from headrace_properties.spark_jobs.laboratory import laboratory_on

    is_real = isinstance(trial, SinkTrial) and bool(trial.spark)
    lets = let_through.split(", ") if let_through else ()
    engine = laboratory_on("spark", source.postgres or "", 1, lets, source.batches or 0) if is_real else None
    if not source.is_program:
        return load_spark_target(
            source.name, source.schemas, source.feed, seed, samples=source.samples,
            laboratory=engine, version=source.version,
        )  # fmt: skip
    from headrace_properties.spark_jobs.programs import ProgramInput, program_of
    from headrace_properties.spark_jobs.upgrades import earlier_of_program
    from headrace_properties.spark_trials import in_laboratory, read_program
    from headrace_sim.spark.client.scripts import surroundings

    assert options.context is not None
    script = script_of(source.name, source.arguments, options.environment, source.stand_ins)
    script = replace(script, schemas=source.schemas)
    module = options.context.with_resource(surroundings(script))
    run, laboratory, is_read = read_program(script, module, engine and replace(engine, script=script))
    program_input = ProgramInput(feed_name=source.feed, keys=source.keys, samples=source.samples)
    target = program_of(script, run, program_input, seed, source.query).queries[source.query]
    if source.version:
        target = replace(target, earlier=earlier_of_program(source.version, script, source.query))
    return in_laboratory(target, source.query, run, program_input, laboratory, is_read=is_read)


def _tell(
    replay: ReplayFile,
    finding: Finding | None,
    versions: tuple[str, ...],
    explanation: "Explanation | None",
    console: Console,
) -> None:
    lines = [*([] if finding is None else [f"  {finding}"]), *versions]
    if finding is not None and not replay.shows(finding.kind):
        lines.append(f"Recorded was: {', '.join(kind.title for kind in replay.kinds)}")
    for line in (*lines, *(explanation.paragraphs() if explanation else ())):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
