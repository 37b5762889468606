"""A query of a program, or of a function, in the laboratory: what tries it is the real Spark, which runs it as it is."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace import OptionsError
from headrace_properties.search.guard import effects_let_through
from headrace_properties.spark_jobs.hosted_outcomes import TrialReader
from headrace_sim.spark.client.query_lives import QueryLife
from headrace_sim.spark.client.script_time import ScriptTime
from headrace_sim.spark.client.scripts import Script, ScriptRun
from headrace_sim.spark.laboratory.called import Called
from headrace_sim.spark.laboratory.jars import settings_for_jars
from headrace_sim.spark.laboratory.jvm import SparkJvm, shared
from headrace_sim.spark.laboratory.kept_files import BY_CLOCK, digests_of_query, kept
from headrace_sim.spark.laboratory.laboratory_program import LaboratoryProgram
from headrace_sim.spark.laboratory.real_drivers import RealDrivers, looked
from headrace_sim.spark.sinks.processes import LetThrough, Sink
from headrace_sim.spark.spark_job import SparkJob


@dataclass(frozen=True, slots=True)
class Laboratory:
    """Where a program runs on the real Spark, or a function."""

    script: Script | Called = Script("")  # noqa: RUF009  it is frozen
    beside: bool = False  # whether its queries are simulated, too, and what both find is compared
    postgres: str = ""  # the URL of the owner's server for tests; "": of one that is installed
    lets: frozenset[LetThrough] = frozenset()  # what trials do outside them
    queries: tuple[SparkJob, ...] = ()  # what the program starts, in order
    number: int = 0  # the place of the query that is tried
    sparks: int = 1  # how many of them share the trials
    prepare: Callable[[], Any] | None = None  # makes what sinks take for granted, as the author says. Or None
    reader: TrialReader | None = None  # of a pipeline: reads what trials left, and judges it
    batches: int = (
        0  # how many are run of its own sources, at most; 0: drawn or sampled rows come in their place
    )

    @property
    def reached(self) -> str:
        """What its trials could do outside them, as a report says it."""
        return "".join(f"; {words}" for let, words in _REACHED.items() if let in self.lets)

    @property
    def jvm(self) -> SparkJvm:
        """Spark, which is started when it is first asked for.

        Raises:
            JavaNotFoundError: There is no Java.
            MissingJarsError: The program asks for jars that are not on this machine.

        """
        state = self.queries[self.number].state if self.queries else None
        return shared(settings_for_jars({} if state is None else state.settings.values), self.lets)

    def looked(self, why: str) -> ScriptRun:
        """Run the program without rows, which the simulation cannot read; ``why``: it says. Raises as `looked` does."""
        jobs, variables = looked(LaboratoryProgram(self.script, (), within=effects_let_through), self.jvm)
        time = ScriptTime(_no_time, _no_time)
        lives = tuple(QueryLife(number, job, time) for number, job in enumerate(jobs))
        return ScriptRun(lives, variables, (f"only the real Spark can read the program: {why}",))

    def sink(
        self, job: SparkJob, feed: Sequence[Sequence[tuple[Any, ...]]], keys: Mapping[str, Sequence[str]]
    ) -> Sink:
        """Return what is tried: the query from its streams to its sink."""
        read = self.reader or dict
        program = LaboratoryProgram(self.script, self.queries, self.number, effects_let_through, read)
        host = RealDrivers(program, self.jvm, postgres=self.postgres)
        declared = {table: tuple(columns) for table, columns in keys.items()}
        rows, of_pipeline = tuple(map(tuple, feed)), self.reader is not None
        if self.batches:
            host.kept = kept(job, host.home, self.jvm.folder, self.batches, self.lets)
            begins, by_clock = (
                host.kept.begins,
                any(source.format in BY_CLOCK for source in job.sources),
            )
            return Sink(
                job.sink.function,
                job.input,
                (),
                self.prepare,
                declared,
                host=host,
                begins=begins,
                by_clock=by_clock,
            )
        return Sink(
            job.sink.function, job.input, rows, self.prepare, declared, host=host, of_pipeline=of_pipeline
        )

    def went_on(self, sink: Sink, batches: int) -> str:
        """Return with which batches a sink of its own sources went on, and from what, as a report says it."""
        if sink.begins is None or not isinstance(sink.host, RealDrivers) or sink.host.kept is None:
            return ""
        known = sink.host.kept
        last = f" to {sink.begins + batches - 1}" * (batches > 1)
        ran = f"batch{'es' * (batches > 1)} {sink.begins}{last} of its own source" if batches else "no batch"
        behind = f"copy of {known.checkpoint}" if sink.begins else "new checkpoint"
        return f". It ran {ran} from a {behind}" + "".join(f"; {note}" for note in known.notes)

    @property
    def versions(self) -> dict[str, str]:
        """Of what runs the trials, and where they go on, as a replay file has it."""
        job = self.queries[self.number]
        return self.jvm.versions | (digests_of_query(job, Path.cwd()) if self.batches else {})


_REACHED = {
    LetThrough.WRITES: "other writes reached what they name, in each trial anew (--allow-writes)",
    LetThrough.NETWORK: "they could reach other machines (--allow-network)",
}


def batches_and_server(laboratory: Laboratory | None) -> dict[str, Any]:
    """Return what the source of a target keeps of where it is tried, by its attributes: no password, which may be a secret."""
    if laboratory is None:
        return {}
    server = re.sub(r"(?<=//)([^:@/]*):[^@/]*@", r"\1@", laboratory.postgres)
    known = {"batches": laboratory.batches, "postgres": server}
    return {name: value for name, value in known.items() if value}


def laboratory_on(
    engine: str, postgres: str = "", sparks: int = 1, lets: Collection[str] = (), batches: int = 0
) -> Laboratory | None:
    """Return where a query is tried on an engine: ``here`` (None: it is simulated), ``spark`` or ``both``.

    The other arguments are fields of `Laboratory`; ``lets`` has values of `LetThrough`.

    Raises:
        OptionsError: There is no such engine, or something is given that is of no use in the simulation.

    """
    if engine not in {"here", "spark", "both"}:
        raise OptionsError("on", engine, "one of here, spark, both")
    options = {"postgres": postgres, **{f"allow_{name}": True for name in lets}}
    for name, value in options.items():
        if value and engine == "here":
            raise OptionsError(name, value, "given with on=spark, or on=both")
    if batches < 0:
        raise OptionsError("batches", batches, "at least 1, or 0: rows are drawn")
    if batches and engine != "spark":
        raise OptionsError("batches", batches, "given with on=spark")
    if engine == "here":
        return None
    through = frozenset(map(LetThrough, lets))
    return Laboratory(
        beside=engine == "both", postgres=postgres, lets=through, sparks=sparks, batches=batches
    )


def _no_time(_seconds: float) -> None:
    """Let no time pass: the program has ended."""
