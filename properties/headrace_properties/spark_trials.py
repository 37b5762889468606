"""The trials of what runs on Spark, in one session: of each query, and what those of a program do to each other."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from msgspec import structs

from headrace.api.errors import HeadraceError
from headrace_properties.explanation import Explanation
from headrace_properties.findings import Finding, FindingClass, ranked
from headrace_properties.kept_failures import KeptFailures, Retried
from headrace_properties.query_search import QuerySearch
from headrace_properties.sinks.sink_reports import Progress
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.laboratory import Laboratory, batches_and_server
from headrace_properties.spark_jobs.outcomes import SCHEDULES
from headrace_properties.spark_jobs.programs import (
    Program,
    ProgramInput,
    prepare_of,
    program_of,
    run_program,
    said_beside,
)
from headrace_properties.spark_jobs.shared_tables import shared_tables
from headrace_properties.spark_jobs.targets import SparkTarget
from headrace_properties.spark_jobs.together import labels_of
from headrace_properties.spark_jobs.upgrades import earlier_of_program
from headrace_properties.target import SparkSource
from headrace_properties.target_kinds import TargetKind
from headrace_sim.spark.client.scripts import Script, ScriptRun
from headrace_sim.spark.laboratory.looks import called_in_laboratory
from headrace_sim.spark.pyspark_versions import INSTALLED
from headrace_sim.spark.refusals import CannotFollowError
from headrace_sim.spark.sinks.trial_contents import Contents


@dataclass(slots=True)
class SparkTrials:
    """The trials of a job, of a sink, or of each query of a program."""

    source: SparkSource  # where it comes from
    parts: tuple[QuerySearch, ...]  # the search of each query
    program: Program | None = None  # that starts the queries; None: a job or sink by itself
    progress: Progress | None = None  # told how much is done, and of how much; a true result stops the search
    # told of the first finding that is violated, while the search goes on
    on_first: Callable[[Finding], object] = lambda _: None
    untried: list[str] = field(default_factory=list)  # what was not judged, each with the reason
    shared: Sequence[Finding] = ()  # what the queries do to each other's rows
    _stopped: bool = False
    _is_told: bool = False

    pyspark: ClassVar[str] = INSTALLED

    def __post_init__(self) -> None:
        """Hear of the progress of each part."""
        for part in self.parts:
            part.progress, part.on_finding = self._on_progress, self._on_finding

    @property
    def kind(self) -> TargetKind:
        """What it is."""
        return self.parts[0].target.kind if self.program is None else TargetKind.PROGRAM

    @property
    def name(self) -> str:
        """As the user wrote it."""
        return self.source.name

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth knowing of all."""
        return () if self.program is None else self.program.notes

    @property
    def why_open(self) -> tuple[str, ...]:
        """What was not judged, of all and of each query, each with the reason."""
        of_program = () if self.program is None else self.program.unknown
        several = len(self.parts) > 1
        of_parts = (
            f"{part.source.query}: {why}" if several else why
            for part in self.parts
            if part.report is not None
            for why in part.report.unknown
        )
        return (*of_program, *self.untried, *of_parts)

    def review(self) -> None:
        """Do nothing: the search watches a job's code in its undisturbed run."""

    def retry(self, kept: KeptFailures) -> Sequence[Retried]:
        """Look for kept findings of each query again."""
        kept.load()  # which notes what cannot be read
        return [
            again
            for part in self.parts
            for again in part.retry(KeptFailures(kept.folder.parent, part.source))
        ]

    def search(self) -> None:
        """Try each query. One that cannot be tried leaves the others as they are."""
        for part in self.parts:
            if self._stopped and len(self.parts) > 1:
                self.untried.append(f"{part.target.name}: the search was stopped before its first trial")
                continue
            try:
                part.search()
            except HeadraceError as error:
                if len(self.parts) == 1:
                    raise
                self.untried.append(f"{part.target.name}: {error}")
        if not self._stopped:
            allow = next((part.allow for part in self.parts), ())
            targets = {part.source.query: part.target for part in self.parts}
            self.shared, untold = shared_tables(targets, allow, self._left_on_spark())
            self.untried += untold

    def _left_on_spark(self) -> dict[str, Contents]:
        """Return what each query leaves whose function only the real Spark can call."""
        return {
            part.source.query: part.report.sink.left
            for part in self.parts
            if part.target.job.sink.function is called_in_laboratory and part.report and part.report.sink
        }

    def _on_finding(self, finding: Finding) -> None:
        if not self._is_told and finding.finding_class is FindingClass.VIOLATED:
            self._is_told = True
            self.on_first(finding)

    def _on_progress(self, done: int, wanted: int) -> bool:
        self._stopped = self._stopped or (self.progress is not None and bool(self.progress(done, wanted)))
        return self._stopped

    @property
    def expected(self) -> int:
        """How many schedules are wanted of each."""
        return max((part.schedules for part in self.parts), default=0)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is found of all, violated ones first."""
        of_program = () if self.program is None else self.program.findings
        return ranked(
            [*of_program, *self.shared, *(finding for part in self.parts for finding in part.findings)]
        )

    @property
    def leading(self) -> Finding | None:
        """The first of them."""
        return next(iter(self.findings), None)

    def part_of(self, finding: Finding) -> QuerySearch | None:
        """Return the search of the query that a finding is about; None: it is about several."""
        return next((part for part in self.parts if any(finding is each for each in part.findings)), None)

    def explanation(self, finding: Finding) -> Explanation | None:
        """Return both runs that tell a finding; None: no trial shows it, or none of these."""
        part = self.part_of(finding)
        return None if part is None or finding.trial is None else part.explanation(finding)

    def replay(self, finding: Finding) -> bytes | None:
        """Write a finding for a file; None: no trial shows it."""
        part = self.part_of(finding)
        return None if part is None else part.replay(finding)

    def file_of(self, finding: Finding) -> Path | None:
        """Return the file of a kept finding that is found again only under its own schedule."""
        part = self.part_of(finding)
        return None if part is None else part.file_of(finding)

    def why_not_kept(self, finding: Finding) -> str:
        """Return why later sessions do not look for it."""
        return "" if finding.trial is not None else "no trial shows it: the program says it"

    def told(self, finding: Finding) -> str:
        """Tell a finding in paragraphs."""
        part = self.part_of(finding)
        return finding.told(self.name if part is None else part.target.name)

    @property
    def is_open(self) -> bool:
        """Whether something was not judged."""
        return bool(self.why_open) or any(part.report is None for part in self.parts)


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """How each query is tried; the fields are those of `QuerySearch`."""

    seed: int = 0
    schedules: int = SCHEDULES
    allow: Collection[Cause] = ()
    allow_unknown: Collection[str] = ()
    laboratory: Laboratory | None = None  # as in `SparkTarget`
    version: str = ""  # the job or program before, from whose checkpoints the queries go on, or ""

    def search(
        self, target: SparkTarget, target_of: Callable[[int], SparkTarget], source: SparkSource
    ) -> QuerySearch:
        """Return the search of a query. ``target_of``: returns it with the rows of another seed."""
        return QuerySearch(
            target, target_of, source, self.seed, self.schedules, self.allow, self.allow_unknown
        )

    def source(self, source: SparkSource) -> SparkSource:
        """Return where a job or program comes from, with what its replay needs of these options."""
        return structs.replace(source, version=self.version, **batches_and_server(self.laboratory))


def trials_of_query(
    target: SparkTarget, target_of: Callable[[int], SparkTarget], source: SparkSource, options: TrialOptions
) -> SparkTrials:
    """Return the trials of a job, a sink or a hosted pipeline.

    Args:
        target: It, with the rows of the search's seed.
        target_of: Returns it with the rows of another seed.
        source: Where it comes from.
        options: How it is tried.

    """
    source = options.source(source)
    return SparkTrials(source, (options.search(target, target_of, source),))


def trials_of_program(
    script: Script, module: Any, program_input: ProgramInput, options: TrialOptions, query: str = ""
) -> SparkTrials:
    """Run a program, and return the trials of its queries.

    Args:
        script: It.
        module: Its own, from `headrace_sim.spark.client.scripts.surroundings`, which must be in force for the trials, too.
        program_input: What its queries are tried with.
        options: How they are tried.
        query: The only one that is wanted, or "".

    Raises:
        TargetError: There is no such query, or a feed fits none.
        HeadraceError: The program starts no query, or does something that is refused.

    """
    run, laboratory, is_read = read_program(script, module, options.laboratory)
    program = program_of(script, run, program_input, options.seed, query)
    source = replace(options, laboratory=laboratory).source(source_of(script, program_input, query))
    earlier = {
        label: earlier_of_program(options.version, script, label)
        for label in program.queries
        if options.version
    }

    def engaged(label: str, target: SparkTarget) -> SparkTarget:
        target = replace(target, earlier=earlier.get(label))
        return in_laboratory(target, label, run, program_input, laboratory, is_read=is_read)

    def part(label: str, target: SparkTarget) -> QuerySearch:
        def target_of(seed: int) -> SparkTarget:
            return engaged(label, program_of(script, run, program_input, seed, label).queries[label])

        return options.search(engaged(label, target), target_of, structs.replace(source, query=label))

    return SparkTrials(
        source, tuple(part(label, target) for label, target in program.queries.items()), program
    )


def read_program(
    script: Script, module: Any, laboratory: Laboratory | None
) -> tuple[ScriptRun, Laboratory | None, bool]:
    """Run a program in the simulation, or, if that cannot read it, in the laboratory; return where, and whether it was read.

    Its variables are also those of the file beside it, ``NAME_promises.py``. Raises as `run_program` does.
    """
    beside = said_beside(script)
    try:
        run, is_read = run_program(script, module), True
    except CannotFollowError as error:
        if laboratory is None:
            raise
        run, is_read = laboratory.looked(str(error)), False
        laboratory = replace(laboratory, beside=False)
    return replace(run, variables={**run.variables, **beside}), laboratory, is_read


def in_laboratory(
    target: SparkTarget,
    label: str,
    run: ScriptRun,
    program_input: ProgramInput,
    laboratory: Laboratory | None,
    *,
    is_read: bool,
) -> SparkTarget:
    """Return a query of a program with where it is tried. ``is_read``: whether the simulation has read the program."""
    if laboratory is None:
        return target
    number = labels_of(run.queries).index(label)
    engaged = replace(laboratory, queries=run.queries, number=number, prepare=prepare_of(run, program_input))
    return replace(target, laboratory=engaged, assumed=target.assumed or not is_read)


def source_of(script: Script, program_input: ProgramInput, query: str = "") -> SparkSource:
    """Return where a program comes from."""
    schemas = dict(script.schemas) if isinstance(script.schemas, Mapping) else script.schemas
    keys = {table: tuple(names) for table, names in (program_input.keys or {}).items()}
    return SparkSource(
        script.name, schemas, program_input.feed_name, keys,
        dict(program_input.samples or {}), script.arguments, tuple(script.environment), script.stand_ins, query,
    )  # fmt: skip
