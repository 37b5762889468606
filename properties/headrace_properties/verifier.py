"""Verify in a test: what the fixture ``headrace_verify`` returns and raises.

A failure shows the smallest fault schedule found, what it breaks, and the command that replays it.
"""

import os
import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from hypothesis.strategies import SearchStrategy

from headrace import OptionsError, Pipeline
from headrace_properties.checkers.invariant_catalogue import rules
from headrace_properties.drawn_feeds import feed_function
from headrace_properties.kept_failures import KeptFailures
from headrace_properties.pipeline_target import PipelineTarget, Search, pipeline_target
from headrace_properties.pipeline_trials import PipelineTrials
from headrace_properties.promises import Promise, check_promises
from headrace_properties.search.application import FeedOf
from headrace_properties.search.guard import PRINTED_LINES, guarded
from headrace_properties.search.limits import CALL_S, CodeLimits, call_time_limited
from headrace_properties.search.parallel import cores
from headrace_properties.search.scope import Scope
from headrace_properties.search.verification import Verification
from headrace_properties.session import Memory, Result, Session
from headrace_properties.target import Source, SparkSource, TargetError, source_in, spark_source
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
from headrace_properties.verify_arguments import (
    ARGUMENTS,
    JobArguments,
    PipelineArguments,
    ProgramArguments,
    QueryArguments,
    TrialArguments,
    VerifyArguments,
)
from headrace_sim import SOUND, FeedSource
from headrace_sim.spark.declares import Declares, Meant

if TYPE_CHECKING:
    from headrace_properties.spark_jobs.laboratory import Laboratory
    from headrace_properties.spark_jobs.targets import SparkReport, SparkTarget
    from headrace_properties.spark_trials import SparkTrials
    from headrace_sim.spark.spark_job import SparkJob

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
        """Name what was not exercised, and how to allow it."""
        exercised = (
            f"none of them exercised {', '.join(self.names)}. Use an input that does, or more runs. If no input can, allow it: "
            f"allow_unknown=[...] in the test, or the setting headrace_allow_unknown = {' '.join(self.names)}"
        )
        sentences = [exercised] if self.names else []
        sentences += [self.question] if self.question else []
        return f"{self.pipeline}: nothing is violated in {self.runs:,} runs, but {'. And '.join(sentences)}"


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
        on_progress: called now and then with the number of runs or trials that are done, and of all.
    """

    examples: int
    seed: int
    folder: Path
    record: Callable[[str, object], None]
    allow_unknown: tuple[str, ...] = ()
    code_timeout: float | None = None
    on_progress: Callable[[int, int], None] = lambda _done, _wanted: None

    @overload
    def __call__(
        self, pipeline: Pipeline, feed: FeedOf | SearchStrategy[Any], **arguments: Unpack[PipelineArguments]
    ) -> Verification: ...

    @overload
    def __call__(
        self,
        pipeline: Pipeline,
        feed: FeedOf | SearchStrategy[Any],
        *,
        on: Literal["spark"],
        **arguments: Unpack[TrialArguments],
    ) -> "SparkReport": ...

    @overload
    def __call__(
        self,
        pipeline: "SparkJob | Callable[..., Any]",
        feed: Sequence[Sequence[Any]] | Callable[[int], Sequence[Sequence[Any]]] | None = None,
        **arguments: Unpack[JobArguments],
    ) -> "SparkReport": ...

    @overload
    def __call__(
        self,
        pipeline: str | os.PathLike[str],
        feed: Sequence[Sequence[Any]] | Mapping[str, Any] | Callable[[int], Any] | None = None,
        **arguments: Unpack[ProgramArguments],
    ) -> "SparkTrials": ...

    def __call__(self, pipeline: Any, feed: Any = None, **arguments: Any) -> Any:
        """Run a pipeline, a Spark job or a program under faults, and fail the test unless all was exercised and holds.

        Args:
            pipeline: a pipeline, simulated or with ``on="spark"`` hosted by Spark; a ``foreachBatch`` function, a function that
                starts a query, or a ``SparkJob``; or the file of a program, as text or path.
            feed: its input: of a pipeline a function from a seed, or a strategy (`headrace_properties.drawn_feeds`); of a Spark
                job the rows of each batch, or a function that makes them from a seed; of a program the same, or each by the
                label of its query. Rows that are not given are drawn.
            arguments: what else it takes: the fields of `PipelineArguments`, `TrialArguments`, `JobArguments` or
                `ProgramArguments`, each of which also takes those of the classes that it extends.

        Raises:
            InvariantViolatedError: an invariant or a promise is broken, a run stopped with an error, user code keeps or shares
                state, an outcome depends on what is not allowed, or an effect is not idempotent.
            NotExercisedError: nothing is violated, but something was never exercised or could not be judged, or only the author
                knows what is meant.
            OptionsError: an argument is of no use for this target, or out of its range.
            TargetError: ``feed`` makes no input for it, or Spark is to host a pipeline that no module has together with its feed.
            PromiseError: a promise is wrong in itself.
            HeadraceError: the job cannot be tried, or the program starts no query.
        """
        __tracebackhide__ = True
        kind, verify = self._verifying(pipeline, arguments.get("on", "here"))
        _refuse_unheeded(arguments, kind, _search_kind(arguments.get("search", "random")))
        for name in arguments.keys() - ARGUMENTS[kind].__annotations__.keys() - {"on"}:
            raise TypeError(f"headrace_verify() takes no argument {name!r} for {kind.value}")
        confined = guarded(allows_effects=EFFECT in arguments.get("allow", ()))
        try:
            with confined as guard, call_time_limited(self._limits):
                return verify(pipeline, feed, arguments)
        finally:
            if printed := guard.printed.splitlines():  # pytest shows it if the test fails
                sys.stdout.write(
                    "\n".join(["Your code printed, among others:", *printed[:PRINTED_LINES], ""])
                )

    def _verifying(self, target: Any, engine: str) -> tuple[TargetKind, Callable[[Any, Any, Any], Any]]:
        """Return the kind of a target, and the method that verifies it."""
        __tracebackhide__ = True
        if isinstance(target, str | os.PathLike):
            return TargetKind.PROGRAM, self._program
        if not isinstance(target, Pipeline):
            return TargetKind.QUERY, self._spark_job
        if engine not in {"here", "spark"}:
            raise OptionsError("on", engine, "here or spark, for a pipeline")
        return (
            (TargetKind.PIPELINE, self._pipeline)
            if engine == "here"
            else (TargetKind.HOSTED, self._hosted_pipeline)
        )

    def _pipeline(self, pipeline: Pipeline, feed: Any, arguments: PipelineArguments) -> Verification:
        """Run a pipeline under fault schedules. What else is found about the code goes into the test's report, as a property."""
        __tracebackhide__ = True
        kind, examples = _search_kind(arguments.get("search", "random")), arguments.get("examples")
        runs = self._runs(arguments)
        if runs < 1:
            raise OptionsError("examples", runs, "at least 1")
        wanted = Search(
            kind,
            examples if kind is SearchKind.EXHAUSTIVE else runs,
            seed=self._seed(arguments),
            depth=2 if arguments.get("depth") is None else arguments["depth"] or 0,
            scope=arguments.get("scope") or Scope(),
        )
        check_allowed(arguments.get("allow", ()), TargetKind.PIPELINE)
        names = _importable_name(pipeline, feed)
        target = _pipeline_target(pipeline, feed, names, arguments, self._limits)
        trials = PipelineTrials(target, wanted, _jobs())
        trials.on_run = lambda verification: self.on_progress(verification.runs, trials.expected)
        beside = {promise.name for promise in _promises_beside(names)}
        trials.elsewhere = frozenset(promise.name for promise in target.promises) - beside
        trials.allow_unknown = self._allowed(arguments.get("allow_unknown", ()))
        session = self._run(Session(trials, self._memory(target.source if names else None)))
        verification, code = trials.verification, trials.code or CodeReview(())
        if verification.runs:
            self.record("headrace runs", verification.runs)
            self.record("headrace events", verification.events)
        if uncompared := code.noted(NOT_COMPARED):
            self.record("headrace not compared", ", ".join(uncompared))
        self._raise(session, pipeline.name, verification.runs, trials.unknown)
        return verification

    def _hosted_pipeline(self, pipeline: Pipeline, feed: Any, arguments: TrialArguments) -> "SparkReport":
        """Let the real Spark host a pipeline, and strike it at each crash point."""
        __tracebackhide__ = True
        names = _importable_name(pipeline, feed)
        if names is None:
            problem = "each driver on Spark imports it, and no module has both it and its feed"
            raise TargetError(pipeline.name, problem, "Name both at the top level of a module")
        _, where = self._laboratory(arguments)
        assert where is not None, "it is on Spark"
        hosted = _pipeline_target(pipeline, feed, names, arguments, self._limits)
        from headrace_properties.spark_jobs.named_targets import hosted_target  # noqa: PLC0415  as below

        def target_of(seed: int) -> "SparkTarget":
            return hosted_target(names[0], hosted.application, seed, where)

        source = spark_source(names[0], None, names[1])
        return self._tried(target_of, source, where, arguments, importable=True)

    def _spark_job(self, job: Any, feed: Any, arguments: JobArguments) -> "SparkReport":
        """Run a Spark job under schedules, and try its sink at each of its effects."""
        __tracebackhide__ = True
        # PySpark need not be installed.
        from headrace_properties.spark_jobs.named_targets import spark_target_on  # noqa: PLC0415

        names = _names_of(job, feed, arguments.get("prepare"))
        schema, asked, samples = (
            arguments.get("schema"),
            arguments.get("promises"),
            _samples(arguments.get("sample")),
        )
        meant, where = self._laboratory(arguments)

        def target_of(seed: int) -> "SparkTarget":
            return spark_target_on(
                where, names.job, job, schemas=schema, feed=feed, seed=seed, prepare=arguments.get("prepare"),
                promises=names.promises if asked is None else asked, keys=arguments.get("keys"), declares=names.declares | meant,
                samples=samples,
            )  # fmt: skip

        source = spark_source(names.job, schema, names.feed, arguments.get("keys"), samples)
        return self._tried(target_of, source, where, arguments, importable=names.importable)

    def _tried(
        self,
        target_of: Callable[[int], "SparkTarget"],
        source: SparkSource,
        where: "Laboratory | None",
        arguments: QueryArguments | TrialArguments,
        *,
        importable: bool,
    ) -> "SparkReport":
        """Try a query, a sink or a hosted pipeline. ``importable``: whether a replay file can name it."""
        __tracebackhide__ = True
        from headrace_properties.spark_jobs.named_targets import causes_named  # noqa: PLC0415
        from headrace_properties.spark_trials import TrialOptions, trials_of_query  # noqa: PLC0415

        def limited(seed: int) -> "SparkTarget":
            return replace(target_of(seed), limits=self._limits)

        seed, runs, allow = self._seed(arguments), self._runs(arguments), tuple(arguments.get("allow", ()))
        target = limited(seed)
        stateful = {name: arguments.get(name) or None for name in ("late", "bounded_by")}
        _refuse_unheeded({"examples": arguments.get("examples"), **stateful}, target.kind)
        check_allowed(allow, target.kind)
        how = TrialOptions(seed, runs, causes_named(allow), self._untested(arguments), where)
        trials = trials_of_query(target, limited, source, how)
        trials.progress = self._go_on
        session = self._run(Session(trials, self._memory(trials.source if importable else None)))
        report = trials.parts[0].report
        assert report is not None
        if report.job is not None:
            self.record("headrace schedules", report.job.schedules)
        if report.sink is not None:
            self.record("headrace trials", report.sink.trials)
        names = [promise.name for promise in target.promises]
        unjudged = {word for why in report.unknown for word in re.findall(r"\bpromise (\w+)", why)}
        self._raise(
            session, source.name, runs, tuple(name for name in names if name in unjudged), report.unknown
        )
        return report

    def _program(self, path: str | os.PathLike[str], feed: Any, arguments: ProgramArguments) -> "SparkTrials":
        """Run a program that starts queries, as its owner runs it, and try each of its queries as a Spark job."""
        __tracebackhide__ = True
        # PySpark need not be installed.
        from headrace_properties.spark_jobs.named_targets import causes_named  # noqa: PLC0415
        from headrace_properties.spark_jobs.programs import ProgramInput  # noqa: PLC0415
        from headrace_properties.spark_trials import TrialOptions, trials_of_program  # noqa: PLC0415
        from headrace_sim.spark.client.scripts import Script, surroundings  # noqa: PLC0415

        name, runs, (meant, where) = os.fspath(path), self._runs(arguments), self._laboratory(arguments)
        beside = ProgramInput(
            feed, prepare=arguments.get("prepare"), promises=arguments.get("promises"), keys=arguments.get("keys"),
            declares=meant, samples=_samples(arguments.get("sample")), limits=self._limits,
        )  # fmt: skip
        script = Script(
            name,
            tuple(arguments.get("args", ())),
            arguments.get("env") or {},
            tuple(arguments.get("stand_ins", ())),
        )
        how = TrialOptions(
            self._seed(arguments), runs, causes_named(arguments.get("allow", ())),
            self._untested(arguments), None if where is None else replace(where, script=script),
        )  # fmt: skip
        with surroundings(script) as module:
            trials = trials_of_program(script, module, beside, how, arguments.get("query", ""))
            trials.progress = self._go_on
            session = self._run(Session(trials, self._memory(trials.source)))
        self.record("headrace queries", len(trials.parts))
        self._raise(session, name, runs, (), trials.why_open)
        return trials

    def _laboratory(self, arguments: Mapping[str, Any]) -> tuple[Declares, "Laboratory | None"]:
        """Return what a test declares of a job, and where it is tried."""
        from headrace_properties.spark_jobs.laboratory import laboratory_on  # noqa: PLC0415  as above

        lets = [name for name in ("writes", "network") if arguments.get(f"allow_{name}")]
        meant = {name: value for name, value in arguments.items() if name in Meant.__annotations__}
        where = laboratory_on(
            arguments.get("on", "here"), arguments.get("postgres", ""), 1, lets, arguments.get("batches", 0)
        )
        repeats = Declares(source=FeedSource(once=False if arguments.get("duplicates") else None))
        return Declares(**meant) | repeats, where

    def _seed(self, arguments: VerifyArguments) -> int:
        """Return the test's seed, or else the command line's."""
        seed = arguments.get("seed")
        return self.seed if seed is None else seed

    def _runs(self, arguments: Mapping[str, Any]) -> int:
        """Return the number of runs: the test's, or else the command line's."""
        examples: int | None = arguments.get("examples")
        return self.examples if examples is None else examples

    def _untested(self, arguments: VerifyArguments) -> set[str]:
        return {*self.allow_unknown, *arguments.get("allow_unknown", ())}

    @property
    def _limits(self) -> CodeLimits:
        call_s = CALL_S if self.code_timeout is None else self.code_timeout
        return CodeLimits(call_s, option="--headrace-code-timeout")

    def _memory(self, source: Source | None) -> Memory:
        """Return where failures are kept. ``source``: of what is verified; ``None``: no file can name it."""
        return Memory(None if source is None else KeptFailures(self.folder, source))

    def _allowed(self, allow_unknown: Iterable[str]) -> frozenset[str]:
        """Return what may go unexercised: by name, or every invariant, and state that may stay."""
        allowed = {*self.allow_unknown, *allow_unknown}
        return frozenset(allowed | {*rules(), Habit.GROWTH.kind.name} if _ALL in allowed else allowed)

    def _run(self, session: Session) -> Session:
        """Verify, keep the findings, and put the results of kept failures into the test's report."""
        try:
            session.run()
            session.keep()
        finally:
            for line in session.kept:
                self.record("headrace kept failure", line)
        return session

    def _go_on(self, done: int, wanted: int) -> bool:
        """Tell of the progress of trials, and let them go on."""
        self.on_progress(done, wanted)
        return False

    def _raise(
        self, session: Session, name: str, runs: int, unknown: tuple[str, ...], why: Iterable[str] = ()
    ) -> None:
        """Fail the test unless all holds. ``unknown``: what was not exercised; ``why``: what else was not judged."""
        __tracebackhide__ = True
        stories = []
        for number, finding in enumerate(session.trials.findings):
            self.record("headrace finding", " ".join(finding.sentences))
            again = ""
            if finding.trial is not None:
                command = self._command(session, number)
                self.record("headrace replay", command)
                again = f"\n\nRun it again\n  {command}"
            stories.append(f"{session.trials.told(finding)}{again}")
        if session.result is Result.VIOLATED:
            raise InvariantViolatedError("\n\n".join(stories))
        if session.result is not Result.HOLDS and (unknown or why or stories):
            raise NotExercisedError(name, runs, unknown, "\n\n".join([*why, *stories]))

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


def _samples(sample: str | Path | Mapping[str, str | Path] | None) -> dict[str, str]:
    files = sample if isinstance(sample, Mapping) else {} if sample is None else {"": sample}
    return {name: str(path) for name, path in files.items()}


def _search_kind(name: str) -> SearchKind:
    __tracebackhide__ = True
    kinds = {kind.value: kind for kind in (SearchKind.RANDOM, SearchKind.PCT, SearchKind.EXHAUSTIVE)}
    if name not in kinds:
        raise OptionsError("search", name, "one of random, pct, exhaustive")
    return kinds[name]


def _refuse_unheeded(
    arguments: Mapping[str, object], kind: TargetKind, search: SearchKind = SearchKind.RANDOM
) -> None:
    """Refuse arguments that would have no effect. Those that are not known are left to `Verifier`."""
    __tracebackhide__ = True
    named = {name: value for name, value in arguments.items() if name in OPTIONS and value not in (None, ())}
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


def _pipeline_target(
    pipeline: Pipeline,
    feed: Any,
    names: tuple[str, str] | None,
    arguments: Mapping[str, Any],
    limits: CodeLimits,
) -> PipelineTarget:
    """Return a pipeline with what a test says of it. ``names``: those of it and its feed in a module that has both, or None."""
    feed_of, source, promises = (
        feed_function(pipeline, feed),
        arguments.get("source"),
        arguments.get("promises"),
    )
    if not callable(feed_of):
        remedy = "Name a function from a seed to a Feed, or a Hypothesis strategy"
        raise TargetError(pipeline.name, f"its feed is {feed_of!r:.60}, not a function", remedy)
    return pipeline_target(
        names[0] if names else pipeline.name,
        pipeline,
        feed_of,
        feed_name=names[1] if names else getattr(feed, "__name__", "feed"),
        promises=check_promises(_promises_beside(names) if promises is None else promises, [pipeline]),
        limits=limits,
        protocol=arguments.get("protocol") or SOUND,
        options=arguments.get("options"),
        feed_source=source_in(sys.modules.get(names[0].partition(":")[0] if names else ""))
        if source is None
        else source,
    )


def _promises_beside(names: tuple[str, str] | None) -> Sequence[Promise]:
    """Return the list ``promises`` of the module that has a pipeline and its feed; nothing if there is none."""
    value = None if names is None else getattr(sys.modules[names[0].partition(":")[0]], _PROMISES, None)
    if value is None:
        return ()
    return value if isinstance(value, list | tuple) else [value]


def _importable_name(pipeline: object, feed: object) -> tuple[str, str] | None:
    """Return (``MODULE:PIPELINE``, the feed's name) of a module that has both; if several do, of one that has promises, too."""
    home = sys.modules.get(getattr(feed, "__module__", ""))
    candidates: list[tuple[bool, tuple[str, str]]] = []
    for module in [home, *sys.modules.values()]:
        variables = getattr(module, "__dict__", {})
        names = [
            next((n for n, value in variables.items() if value is target), None)
            for target in (pipeline, feed)
        ]
        if names[0] and names[1]:
            candidates.append((_PROMISES in variables, (f"{variables['__name__']}:{names[0]}", names[1])))
    promising = [name for has_promises, name in candidates if has_promises]
    return next(iter([*promising, *[name for _, name in candidates]]), None)
