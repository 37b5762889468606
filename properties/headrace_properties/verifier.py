"""Verify in a test: what the fixture ``headrace_verify`` returns and raises.

A failure shows the smallest fault schedule found, what it breaks, and the command that replays it.
"""

import os
import shlex
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from hypothesis.strategies import SearchStrategy
from msgspec import structs

from headrace import OptionsError, Pipeline
from headrace_properties.checkers.catalogue import rules
from headrace_properties.drawn_feeds import feed_function
from headrace_properties.kept_failures import KeptFailures
from headrace_properties.pipeline_target import Search, pipeline_target
from headrace_properties.pipeline_trials import PipelineTrials
from headrace_properties.promises import Promise, check_promises
from headrace_properties.search.application import FeedOf
from headrace_properties.search.guard import PRINTED_LINES, guarded
from headrace_properties.search.limits import CALL_S, CodeLimits, call_time_limited
from headrace_properties.search.parallel import cores
from headrace_properties.search.scope import Scope
from headrace_properties.search.verification import Verification
from headrace_properties.session import Memory, Result, Session
from headrace_properties.target import Source, TargetError, source_in, spark_source
from headrace_properties.target_kinds import (
    EFFECT,
    OPTIONS,
    SearchKind,
    TargetKind,
    check_allowed,
    refuse_unheeded,
)
from headrace_properties.user_code.habits import Habit
from headrace_properties.user_code.review import NOT_COMPARED, CodeReview
from headrace_sim import SOUND, ClusterOptions, FeedSource, Protocol
from headrace_sim.spark.declares import Declares, Meant

if TYPE_CHECKING:
    from headrace_properties.program_trials import ProgramTrials
    from headrace_properties.spark_jobs.targets import SparkReport, SparkTarget
    from headrace_sim.spark.job import SparkJob

_ALL = "all"
_PROMISES = "promises"
_NO_FILE = "(no replay file: it names the module that has both the pipeline and its feed, and there is none)"


class InvariantViolatedError(AssertionError):
    """A pipeline breaks under faults; the message is the whole story."""


class NotExercisedError(AssertionError):
    """Nothing is violated, but something was not exercised, or only its author knows. Fields: pipeline, runs, names, question."""

    def __init__(self, pipeline: str, runs: int, names: tuple[str, ...], question: str = "") -> None:
        super().__init__(pipeline, runs, names, question)
        self.pipeline, self.runs, self.names, self.question = pipeline, runs, names, question

    def __str__(self) -> str:
        """Say what, and how to allow it."""
        exercised = (
            f"none of them exercised {', '.join(self.names)}. Use an input that does, or more runs. If no input can, allow it: "
            f"allow_unknown=[...] in the test, or the setting headrace_allow_unknown = {' '.join(self.names)}"
        )
        told = [exercised] if self.names else []
        told += [self.question] if self.question else []
        return f"{self.pipeline}: nothing is violated in {self.runs:,} runs, but {'. And '.join(told)}"


@dataclass(frozen=True, slots=True)
class Verifier:
    """Verifies pipelines with the command line's settings: the value of the fixture `headrace_verify`.

    Attributes:
        examples: runs of each pipeline in which a fault really struck.
        seed: of the search and of the input.
        folder: where failures are kept.
        record: called with a name and a value for the test's report (JUnit's properties).
        allow_unknown: invariants and promises that no run needs to exercise.
        code_timeout: time limit for a call of user code, seconds; ``None``: 10.
    """

    examples: int
    seed: int
    folder: Path
    record: Callable[[str, object], None]
    allow_unknown: tuple[str, ...] = ()
    code_timeout: float | None = None

    @overload
    def __call__(
        self,
        pipeline: Pipeline,
        feed: FeedOf | SearchStrategy[Any],
        *,
        examples: int | None = None,
        seed: int | None = None,
        options: ClusterOptions | None = None,
        protocol: Protocol | None = None,
        promises: Sequence[Promise] | None = None,
        allow_unknown: Iterable[str] = (),
        search: Literal["random", "pct", "exhaustive"] = "random",
        depth: int | None = None,
        scope: Scope | None = None,
        allow: Iterable[str] = (),
        source: FeedSource | None = None,
    ) -> Verification: ...

    @overload
    def __call__(
        self,
        pipeline: "SparkJob | Callable[..., Any]",
        feed: Sequence[Sequence[Any]] | Callable[[int], Sequence[Sequence[Any]]] | None = None,
        *,
        schema: str | None = None,
        sample: str | Path | Mapping[str, str | Path] | None = None,
        prepare: Callable[[], Any] | None = None,
        seed: int | None = None,
        examples: int | None = None,
        allow: Iterable[str] = (),
        duplicates: bool = False,
        promises: Sequence[Promise] | None = None,
        allow_unknown: Collection[str] = (),
        keys: Mapping[str, Sequence[str]] | None = None,
        on: Literal["here", "spark", "both"] = "here",
        postgres: str = "",
        batches: int = 0,
        allow_writes: bool = False,
        allow_network: bool = False,
        **meant: Unpack[Meant],
    ) -> "SparkReport": ...

    @overload
    def __call__(
        self,
        pipeline: str | os.PathLike[str],
        feed: Sequence[Sequence[Any]] | Mapping[str, Any] | Callable[[int], Any] | None = None,
        *,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        stand_ins: Sequence[str] = (),
        query: str = "",
        sample: str | Path | Mapping[str, str | Path] | None = None,
        prepare: Callable[[], Any] | None = None,
        seed: int | None = None,
        examples: int | None = None,
        allow: Iterable[str] = (),
        duplicates: bool = False,
        promises: Sequence[Promise] | None = None,
        allow_unknown: Collection[str] = (),
        keys: Mapping[str, Sequence[str]] | None = None,
        on: Literal["here", "spark", "both"] = "here",
        postgres: str = "",
        batches: int = 0,
        allow_writes: bool = False,
        allow_network: bool = False,
        **meant: Unpack[Meant],
    ) -> "ProgramTrials": ...

    def __call__(self, pipeline: Any, feed: Any = None, **given: Any) -> Any:
        """Run a pipeline, or the sink of a Spark job, under faults, and fail the test unless all was exercised and holds.

        Args:
            pipeline: a pipeline (see `pipeline`), a Spark job (see `spark_job`), or the file of a program (see `program`).
            feed: its input.
            given: what else the one or the other takes.
        """
        __tracebackhide__ = True
        try:
            confined = guarded(allows_effects=EFFECT in given.get("allow", ()))
            with confined as guard, call_time_limited(self._limits):
                if isinstance(pipeline, Pipeline):
                    _refuse_unheeded(given, TargetKind.PIPELINE, _search_kind(given.get("search", "random")))
                    return self.pipeline(pipeline, feed, **given)
                if isinstance(pipeline, str | os.PathLike):
                    _refuse_unheeded(given, TargetKind.PROGRAM)
                    return self.program(os.fspath(pipeline), feed, **given)
                _refuse_unheeded(given, TargetKind.QUERY)
                return self.spark_job(pipeline, feed, **given)
        finally:
            if printed := guard.printed.splitlines():  # pytest shows it if the test fails
                sys.stdout.write(
                    "\n".join(["Your code printed, among others:", *printed[:PRINTED_LINES], ""])
                )

    def pipeline(
        self,
        pipeline: Pipeline,
        feed: FeedOf | SearchStrategy[Any],
        *,
        examples: int | None = None,
        seed: int | None = None,
        options: ClusterOptions | None = None,
        protocol: Protocol | None = None,
        promises: Sequence[Promise] | None = None,
        allow_unknown: Iterable[str] = (),
        search: Literal["random", "pct", "exhaustive"] = "random",
        depth: int | None = None,
        scope: Scope | None = None,
        allow: Iterable[str] = (),
        source: FeedSource | None = None,
    ) -> Verification:
        """Run a pipeline under fault schedules, and fail the test unless every invariant and promise was exercised and holds.

        What else is found about the code goes into the test's report, as a property.

        Args:
            pipeline: what to verify.
            feed: makes the input from a seed: a function, or a strategy (`headrace_properties.drawn_feeds`).
            examples: instead of the command line's.
            seed: instead of the command line's.
            options: of the cluster, where a plan does not vary them.
            protocol: the state machines to host; default: the engine's own.
            promises: what must hold besides the invariants; default: the list ``promises`` beside the pipeline and its feed.
            allow_unknown: invariants and promises that no run needs to exercise, ``"growth"`` if state may stay that nothing
                cleans up, or ``["all"]`` for all but promises; added to the setting ``headrace_allow_unknown``.
            search: ``random``; ``pct``, with orders of arrival by priorities; or ``exhaustive``: every schedule of the scope, or
                the first ``examples``. It takes no ``options``.
            depth: with ``pct``, of the failures to look for; default: 2; see docs/explanation/exhaustive.md.
            scope: of an exhaustive search only; default: three records, one fault and two delays, on two workers.
            allow: ``["effect"]``: the code may change files, use sockets and start processes, which is refused otherwise.
            source: what the source of the feed promises; default: ``source`` beside the pipeline and its feed.

        Raises:
            PromiseError: a promise is wrong in itself.
            InvariantViolatedError: an invariant or a promise is broken, the run stopped with an error, or user code keeps
                or shares state.
            NotExercisedError: nothing is violated, but an invariant or a promise that is not allowed to was never exercised, or
                state is left that nothing will ever clean up.
            OptionsError: ``examples`` or ``depth`` is less than 1, there is no such ``search``, or it does not heed an argument.
            TargetError: ``feed`` makes no input for this pipeline.
        """
        __tracebackhide__ = True
        arguments = {"depth": depth, "scope": scope, "examples": examples, "options": options}
        kind = _search_kind(search)
        _refuse_unheeded(arguments, TargetKind.PIPELINE, kind)
        used_seed, runs = self._instead_of(seed, examples)
        if runs < 1:
            raise OptionsError("examples", runs, "at least 1")
        wanted = Search(
            kind,
            examples if kind is SearchKind.EXHAUSTIVE else runs,
            seed=used_seed,
            depth=2 if depth is None else depth,
            scope=scope or Scope(),
        )
        check_allowed(allow, TargetKind.PIPELINE)
        asked = _promises_beside(pipeline, feed) if promises is None else promises
        names = _importable_name(pipeline, feed)
        made = feed_function(pipeline, feed)
        if not callable(made):
            remedy = "Name a function from a seed to a Feed, or a Hypothesis strategy"
            raise TargetError(pipeline.name, f"its feed is {made!r:.60}, not a function", remedy)
        target = pipeline_target(
            names[0] if names else pipeline.name,
            pipeline,
            made,
            feed_name=names[1] if names else getattr(feed, "__name__", "feed"),
            promises=check_promises(asked, [pipeline]),
            limits=self._limits,
            protocol=protocol or SOUND,
            options=options,
            feed_source=source_in(sys.modules.get(names[0].partition(":")[0] if names else ""))
            if source is None
            else source,
        )
        memory = self._memory(target.source if names else None)
        trials = PipelineTrials(target, wanted, _jobs())
        beside = {promise.name for promise in _promises_beside(pipeline, feed)}
        trials.elsewhere = frozenset(promise.name for promise in target.promises) - beside
        trials.allow_unknown = self._allowed(allow_unknown)
        session = self._run(Session(trials, memory))
        found, code = trials.verification, trials.code or CodeReview(())
        if found.runs:
            self.record("headrace runs", found.runs)
            self.record("headrace events", found.events)
        if uncompared := code.noted(NOT_COMPARED):
            self.record("headrace not compared", ", ".join(uncompared))
        self._raise(session, pipeline.name, found.runs, trials.unknown)
        return found

    def spark_job(
        self,
        job: Any,
        feed: Any = None,
        *,
        schema: str | None = None,
        sample: str | Path | Mapping[str, str | Path] | None = None,
        prepare: Callable[[], Any] | None = None,
        seed: int | None = None,
        examples: int | None = None,
        allow: Iterable[str] = (),
        duplicates: bool = False,
        promises: Sequence[Promise] | None = None,
        allow_unknown: Collection[str] = (),
        keys: Mapping[str, Sequence[str]] | None = None,
        on: Literal["here", "spark", "both"] = "here",
        postgres: str = "",
        batches: int = 0,
        allow_writes: bool = False,
        allow_network: bool = False,
        **meant: Unpack[Meant],
    ) -> "SparkReport":
        """Run a Spark job under schedules, try its sink at each of its effects, and fail the test unless all outcomes are equal.

        Args:
            job: a ``foreachBatch`` function, a function that starts a query, or a ``SparkJob``.
            feed: the rows of each batch, or a function that makes them from a seed; default: drawn.
            schema: the columns of its input, such as ``"account STRING, amount INT"``; a ``SparkJob`` has it.
            sample: a file of JSON Lines, CSV or Parquet with the rows of its input; of several sources, by their names.
            prepare: makes the tables that the sink takes for granted.
            seed: instead of the command line's.
            examples: the number of schedules, instead of the command line's.
            allow: on what its outcome may depend: ``batching``, ``order``, ``partitions``, ``late``, ``growth``, ``loss``.
            duplicates: whether the source may deliver a row twice.
            promises: what its author says of it; default: the list ``promises`` of the job's module.
            allow_unknown: promises that no run needs to test.
            keys: the columns by which a connector of ``df.write`` that is not known writes, by table; none: it adds rows.
            on: simulate it (here), run it on the real Spark (spark), or compare (both).
            postgres: on the real Spark, the URL of a PostgreSQL for tests; default: one that is installed.
            batches: on the real Spark, how many of its own sources are run, at most, from a copy of its checkpoint; 0: drawn.
            allow_writes: on the real Spark, whether each trial writes to what it cannot have for itself.
            allow_network: on the real Spark, whether trials reach other machines.
            meant: the fields of `Declares` (``running=True``), which add to what its module declares.

        Raises:
            InvariantViolatedError: the outcome depends on something else, or an effect is not idempotent.
            NotExercisedError: nothing is violated, but something could not be judged, or only its author knows what is meant.
            HeadraceError: the job cannot be tried.
        """
        __tracebackhide__ = True
        # PySpark need not be installed.
        from headrace_properties.spark_jobs.laboratory import batches_and_server, laboratory_on  # noqa: PLC0415
        from headrace_properties.spark_jobs.named_targets import causes_named, spark_target_on  # noqa: PLC0415
        from headrace_properties.spark_trials import SparkTrials  # noqa: PLC0415

        used_seed, runs = self._instead_of(seed, examples)
        allow = tuple(allow)
        names = _names_of(job, feed, prepare)
        asked = names.promises if promises is None else promises
        samples = _samples(sample)
        declared = Declares(**meant)
        lets = _let_through(writes=allow_writes, network=allow_network)
        where = laboratory_on(on, postgres, 1, lets, batches)

        def target_of(seed: int) -> "SparkTarget":
            target = spark_target_on(
                where,
                names.job,
                job,
                schemas=schema,
                feed=feed,
                seed=seed,
                prepare=prepare,
                promises=asked,
                keys=keys,
                declares=names.declares | declared,
                samples=samples,
            )
            return replace(target, limits=self._limits)

        target = target_of(used_seed)
        stateful = {name: meant.get(name) or None for name in ("late", "bounded_by")}
        _refuse_unheeded({"examples": examples, **stateful}, target.kind)
        check_allowed(allow, target.kind)
        untested = {*self.allow_unknown, *allow_unknown}
        named = spark_source(names.job, schema, names.feed, target.keys, samples)
        named = structs.replace(named, **batches_and_server(where))
        trials = SparkTrials(
            target, target_of, named, used_seed, runs, causes_named(allow), duplicates, untested
        )
        session = self._run(Session(trials, self._memory(named if names.importable else None)))
        report = trials.report
        assert report is not None
        if report.job is not None:
            self.record("headrace schedules", report.job.schedules)
        if report.sink is not None:
            self.record("headrace trials", report.sink.trials)
        untold = (promise.name for promise in target.promises)
        asked_for = tuple(name for name in untold if any(f"promise {name} " in why for why in report.unknown))
        self._raise(session, names.job, runs, asked_for, report.unknown)
        return report

    def program(
        self,
        path: str,
        feed: Any = None,
        *,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        stand_ins: Sequence[str] = (),
        query: str = "",
        sample: str | Path | Mapping[str, str | Path] | None = None,
        seed: int | None = None,
        examples: int | None = None,
        allow: Iterable[str] = (),
        duplicates: bool = False,
        allow_unknown: Collection[str] = (),
        prepare: Callable[[], Any] | None = None,
        promises: Sequence[Promise] | None = None,
        keys: Mapping[str, Sequence[str]] | None = None,
        on: Literal["here", "spark", "both"] = "here",
        postgres: str = "",
        batches: int = 0,
        allow_writes: bool = False,
        allow_network: bool = False,
        **meant: Unpack[Meant],
    ) -> "ProgramTrials":
        """Run a program that starts queries, as its owner runs it, and try each of its queries as `spark_job` does.

        Args:
            path: its file.
            feed: the rows of its query, or of each query by its label; default: drawn.
            args: its arguments.
            env: variables that are added to its environment.
            stand_ins: modules that inert ones replace.
            query: the only query to try, by its name, its sink or its line.
            sample: a file with the rows of its input; of several sources, by their names.
            seed: instead of the command line's. What follows is as for `spark_job`.
            examples: the number of schedules.
            allow: on what outcomes may depend.
            duplicates: whether sources may deliver a row twice.
            allow_unknown: promises that no run needs to test.
            prepare: makes what sinks take for granted.
            promises: what its author says of it.
            keys: the columns by which connectors that are not known write.
            on: where.
            postgres: the URL of a PostgreSQL for tests.
            batches: how many of its own sources are run, at most; 0: drawn rows.
            allow_writes: whether each trial writes to what it cannot have for itself.
            allow_network: whether trials reach other machines.
            meant: the fields of `Declares`.

        Raises:
            InvariantViolatedError: an outcome depends on something else, or an effect is not idempotent.
            NotExercisedError: nothing is violated, but something could not be judged, or only its author knows what is meant.
            HeadraceError: the program starts no query, or one that cannot be tried.
        """
        __tracebackhide__ = True
        # PySpark need not be installed.
        from headrace_properties.program_trials import TrialOptions, trials_of_program  # noqa: PLC0415
        from headrace_properties.spark_jobs.laboratory import laboratory_on  # noqa: PLC0415
        from headrace_properties.spark_jobs.named_targets import causes_named  # noqa: PLC0415
        from headrace_properties.spark_jobs.programs import ProgramInput  # noqa: PLC0415
        from headrace_sim.spark.client.scripts import Script, surroundings  # noqa: PLC0415

        used_seed, runs = self._instead_of(seed, examples)
        allow = tuple(allow)
        beside = ProgramInput(
            feed, prepare=prepare, promises=promises, keys=keys, declares=Declares(**meant), samples=_samples(sample),
            limits=self._limits,
        )  # fmt: skip
        untested = {*self.allow_unknown, *allow_unknown}
        script = Script(path, tuple(args), env or {}, tuple(stand_ins))
        lets = _let_through(writes=allow_writes, network=allow_network)
        where = laboratory_on(on, postgres, 1, lets, batches)
        laboratory = None if where is None else replace(where, script=script)
        how = TrialOptions(used_seed, runs, causes_named(allow), duplicates, untested, laboratory)
        with surroundings(script) as module:
            trials = trials_of_program(script, module, beside, how, query)
            session = self._run(Session(trials, self._memory(trials.source)))
        self.record("headrace queries", len(trials.parts))
        self._raise(session, path, runs, (), trials.why_open)
        return trials

    @property
    def _limits(self) -> CodeLimits:
        call_s = CALL_S if self.code_timeout is None else self.code_timeout
        return CodeLimits(call_s, option="--headrace-code-timeout")

    def _instead_of(self, seed: int | None, examples: int | None) -> tuple[int, int]:
        """Return the seed and the number of runs: the test's, or else the command line's."""
        return (self.seed if seed is None else seed), (self.examples if examples is None else examples)

    def _memory(self, source: Source | None) -> Memory:
        """Return where failures are kept. ``source``: of what is verified; ``None``: no file can name it."""
        return Memory(None if source is None else KeptFailures(self.folder, source))

    def _allowed(self, allow_unknown: Iterable[str]) -> frozenset[str]:
        """Return what may go unexercised: by name, or every invariant, and state that may stay."""
        allowed = {*self.allow_unknown, *allow_unknown}
        return frozenset(allowed | {*rules(), Habit.GROWTH.kind.name} if _ALL in allowed else allowed)

    def _run(self, session: Session) -> Session:
        """Verify, keep what is found, and put what came of kept failures into the test's report."""
        try:
            session.run()
            session.keep()
        finally:
            for line in session.kept:
                self.record("headrace kept failure", line)
        return session

    def _raise(
        self, session: Session, name: str, runs: int, unknown: tuple[str, ...], why: Iterable[str] = ()
    ) -> None:
        """Fail the test unless all holds. ``unknown``: what was not exercised; ``why``: what else was not judged."""
        __tracebackhide__ = True
        told = []
        for number, finding in enumerate(session.trials.findings):
            self.record("headrace finding", " ".join(finding.sentences))
            again = (
                f"\n\nRun it again\n  {self._command(session, number)}" if finding.trial is not None else ""
            )
            told.append(f"{session.trials.told(finding)}{again}")
        if session.result is Result.VIOLATED:
            raise InvariantViolatedError("\n\n".join(told))
        if session.result is not Result.HOLDS and (unknown or why or told):
            raise NotExercisedError(name, runs, unknown, "\n\n".join([*why, *told]))

    def _command(self, session: Session, number: int) -> str:
        """Return the command that runs a finding again, by its number, or why there is none."""
        path = session.files.get(number)
        if path is None:
            why_not = session.trials.why_not_kept(session.trials.findings[number])
            if why_not:
                return f"(no replay file: {why_not})"
            error = session.memory.refused
            return f"(no replay file: cannot write {error.filename}: {error.strerror})" if error else _NO_FILE
        call_s = self._limits.call_s
        option = f" --code-timeout {call_s:g}" if call_s != CALL_S else ""
        return f"headrace replay {shlex.quote(_shown(path))}{option} --explain"


def _let_through(*, writes: bool, network: bool) -> tuple[str, ...]:
    return ("writes",) * writes + ("network",) * network


def _samples(sample: str | Path | Mapping[str, str | Path] | None) -> dict[str, str]:
    files = sample if isinstance(sample, Mapping) else {} if sample is None else {"": sample}
    return {name: str(path) for name, path in files.items()}


def _search_kind(name: str) -> SearchKind:
    __tracebackhide__ = True
    kinds = {kind.value: kind for kind in (SearchKind.RANDOM, SearchKind.PCT, SearchKind.EXHAUSTIVE)}
    if name not in kinds:
        raise OptionsError("search", name, "random, pct or exhaustive")
    return kinds[name]


def _refuse_unheeded(
    given: Mapping[str, object], kind: TargetKind, search: SearchKind = SearchKind.RANDOM
) -> None:
    """Refuse arguments that would have no effect. Those that are not known are left to Python."""
    __tracebackhide__ = True
    named = {name: value for name, value in given.items() if name in OPTIONS and value not in (None, ())}
    refuse_unheeded(OPTIONS, named, kind, search)


def _shown(path: Path) -> str:
    """Shorten a path below the current directory."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _jobs() -> int:
    """Return one process per core; only one if more would not help, or a fork would lose something.

    pytest-xdist keeps the cores busy already. A fork copies no threads; tracers (coverage, debuggers) see this process only.
    """
    traced = sys.gettrace() is not None or (
        hasattr(sys, "monitoring") and any(map(sys.monitoring.get_tool, range(6)))
    )
    alone = "PYTEST_XDIST_WORKER" in os.environ or threading.active_count() > 1 or traced
    return 1 if alone else cores()


@dataclass(frozen=True, slots=True)
class _NamesOfJob:
    """The names of a Spark job and what belongs to it.

    Attributes:
        job: ``MODULE:NAME`` if it is importable.
        feed: what its module calls its rows.
        importable: whether a replay file can name it.
        promises: that its module makes.
        declares: what its module declares.
    """

    job: str
    feed: str
    importable: bool
    promises: Sequence[Promise]
    declares: "Declares"


def _names_of(job: Any, feed: Any, prepare: Callable[[], Any] | None) -> _NamesOfJob:
    # PySpark need not be installed.
    from headrace_properties.spark_jobs.named_targets import FEED, PREPARE, declared_in  # noqa: PLC0415

    names = _importable_name(job, job if feed is None else feed)
    module = sys.modules.get(names[0].partition(":")[0]) if names else None
    if module is None or prepare not in {None, getattr(module, PREPARE, None)}:
        names = None  # a replay file finds only what its module has
    home = sys.modules.get(getattr(job, "__module__", "")) if module is None else module
    return _NamesOfJob(
        names[0] if names else getattr(job, "__name__", "the Spark job"),
        FEED if names is None or feed is None else names[1],
        names is not None,
        getattr(home, _PROMISES, ()),
        declared_in(names[0] if names else str(job), home),
    )


def _promises_beside(pipeline: Pipeline, feed: object) -> Sequence[Promise]:
    """Return the list ``promises`` of the module that has the pipeline and its feed; nothing if there is none."""
    name = _importable_name(pipeline, feed)
    found = None if name is None else getattr(sys.modules[name[0].partition(":")[0]], _PROMISES, None)
    if found is None:
        return ()
    return found if isinstance(found, list | tuple) else [found]


def _importable_name(pipeline: object, feed: object) -> tuple[str, str] | None:
    """(``MODULE:PIPELINE``, the feed's name) of a module that has both; if several do, of one that has promises, too."""
    home = sys.modules.get(getattr(feed, "__module__", ""))
    found: list[tuple[bool, tuple[str, str]]] = []
    for module in [home, *sys.modules.values()]:
        variables = getattr(module, "__dict__", {})
        names = [
            next((n for n, value in variables.items() if value is target), None)
            for target in (pipeline, feed)
        ]
        if names[0] and names[1]:
            found.append((_PROMISES in variables, (f"{variables['__name__']}:{names[0]}", names[1])))
    promising = [name for has_promises, name in found if has_promises]
    return next(iter([*promising, *[name for _, name in found]]), None)
