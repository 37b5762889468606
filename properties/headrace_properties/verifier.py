"""Verify in a test: what the fixture ``headrace_verify`` returns and raises.

A failure shows the smallest fault schedule found, what it breaks, and the command that replays it.
"""

import contextlib
import os
import shlex
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from hypothesis.strategies import SearchStrategy

from headrace import OptionsError, Pipeline
from headrace_properties.checkers.catalogue import is_invariant
from headrace_properties.drawn_feeds import feed_function
from headrace_properties.explain.descriptions import describe_failure
from headrace_properties.promises import Promise, check_promises
from headrace_properties.search.application import Application, FeedOf, stray_entry
from headrace_properties.search.exhaustive import explore
from headrace_properties.search.guard import PRINTED_LINES, guarded
from headrace_properties.search.judging import Failure
from headrace_properties.search.kept_failures import KeptFailures, Retried, found_again, retry
from headrace_properties.search.limits import CALL_S, CodeLimits, call_time_limited
from headrace_properties.search.parallel import cores
from headrace_properties.search.replay_file import to_replay
from headrace_properties.search.scope import Scope
from headrace_properties.search.verification import FEEDS, Verification, verify
from headrace_properties.target_kinds import (
    EACH_EFFECT,
    EFFECT,
    OWN_FAULTS,
    PIPELINE,
    QUERY,
    SPARK,
    SPARK_HAS_IT,
    Heeded,
    TargetKind,
    check_allowed,
    refuse_unheeded,
)
from headrace_properties.user_code.growth import GROWTH
from headrace_properties.user_code.habits import UserFinding
from headrace_properties.user_code.kept_findings import retry_findings
from headrace_properties.user_code.review import CodeReview, review
from headrace_sim import SOUND, ClusterOptions, Feed, Protocol

if TYPE_CHECKING:
    from headrace_properties.spark_jobs.replay_file import RetriedFinding
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
    ) -> Verification: ...

    @overload
    def __call__(
        self,
        pipeline: "SparkJob | Callable[..., Any]",
        feed: Sequence[Sequence[Any]] | Callable[[int], Sequence[Sequence[Any]]] | None = None,
        *,
        schema: str | None = None,
        prepare: Callable[[], Any] | None = None,
        seed: int | None = None,
        examples: int | None = None,
        allow: Iterable[str] = (),
        duplicates: bool = False,
        promises: Sequence[Promise] | None = None,
        allow_unknown: Collection[str] = (),
        keys: Mapping[str, Sequence[str]] | None = None,
    ) -> "SparkReport": ...

    def __call__(self, pipeline: Any, feed: Any = None, **given: Any) -> Any:
        """Run a pipeline, or the sink of a Spark job, under faults, and fail the test unless all was exercised and holds.

        Args:
            pipeline: a pipeline (see `pipeline`), or a Spark job (see `spark_job`).
            feed: its input.
            given: what else the one or the other takes.
        """
        __tracebackhide__ = True
        try:
            confined = guarded(allows_effects=EFFECT in given.get("allow", ()))
            with confined as guard, call_time_limited(self._limits):
                if isinstance(pipeline, Pipeline):
                    _refuse_unheeded(given, TargetKind.PIPELINE)
                    return self.pipeline(pipeline, feed, **given)
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
            search: ``random``; ``pct``, with orders of arrival by priorities; or ``exhaustive``: every schedule of the scope,
                whatever ``examples`` and ``options``, which are refused.
            depth: with ``pct``, of the failures to look for; default: 2; see docs/explanation/exhaustive.md.
            scope: of an exhaustive search only; default: three records, one fault and two delays, on two workers.
            allow: ``["effect"]``: the code may change files, use sockets and start processes, which is refused otherwise.

        Raises:
            PromiseError: a promise is wrong in itself.
            InvariantViolatedError: an invariant or a promise is broken, the run stopped with an error, or user code keeps
                or shares state.
            NotExercisedError: nothing is violated, but an invariant or a promise that is not allowed to was never exercised, or
                state is left that nothing will ever clean up.
            OptionsError: ``examples`` or ``depth`` is less than 1, there is no such ``search``, it does not heed an argument, or
                ``feed`` makes no input for this pipeline.
        """
        __tracebackhide__ = True
        arguments = {"depth": depth, "scope": scope, "examples": examples, "options": options}
        _refuse_unsearched(search, {name: value for name, value in arguments.items() if value is not None})
        used_seed, runs = self._instead_of(seed, examples)
        _check_search(runs, search)
        check_allowed(allow, TargetKind.PIPELINE)
        asked = _promises_beside(pipeline, feed) if promises is None else promises
        application = Application(
            pipeline, feed_function(pipeline, feed), check_promises(asked, [pipeline]), self._limits
        )
        _check_feed(application, used_seed)
        tested = _TestedPipeline(application, feed, protocol or SOUND, self.folder)
        code = tested.review_code(used_seed, options)
        for finding in code.findings:
            self.record("headrace finding", str(finding))
        broken = [tested.story_of_finding(finding) for finding in code.findings]
        again = () if code.why_no_runs else tested.retry()
        self._settle(tested.kept, (*tested.retried, *again))
        if code.why_no_runs:
            raise InvariantViolatedError("\n\n".join(broken))
        found = found_again(again)
        if found is None and search == "exhaustive":
            found = tested.explore(scope or Scope(), used_seed)
        found = found or tested.verify(
            runs, used_seed, options, (2 if depth is None else depth) if search == "pct" else None
        )
        self.record("headrace runs", found.runs)
        self.record("headrace events", found.events)
        if found.failure is not None:
            broken.append(tested.story_of(found.failure))
        if broken:
            raise InvariantViolatedError("\n\n".join(broken))
        if code.uncompared:
            self.record("headrace not compared", ", ".join(code.uncompared))
        allowed = {*self.allow_unknown, *allow_unknown}
        unknown = _not_allowed(found.unknown, allowed)
        question = "" if allowed & {_ALL, GROWTH} else code.question(application.promises)
        if unknown or question:
            raise NotExercisedError(pipeline.name, found.runs, unknown, question)
        return found

    def spark_job(
        self,
        job: Any,
        feed: Any = None,
        *,
        schema: str | None = None,
        prepare: Callable[[], Any] | None = None,
        seed: int | None = None,
        examples: int | None = None,
        allow: Iterable[str] = (),
        duplicates: bool = False,
        promises: Sequence[Promise] | None = None,
        allow_unknown: Collection[str] = (),
        keys: Mapping[str, Sequence[str]] | None = None,
    ) -> "SparkReport":
        """Run a Spark job under schedules, try its sink at each of its effects, and fail the test unless all outcomes are equal.

        Args:
            job: a ``foreachBatch`` function, a function that starts a query, or a ``SparkJob``.
            feed: the rows of each batch, or a function that makes them from a seed; default: drawn.
            schema: the columns of its input, such as ``"account STRING, amount INT"``; a ``SparkJob`` has it.
            prepare: makes the tables that the sink takes for granted.
            seed: instead of the command line's.
            examples: the number of schedules, instead of the command line's.
            allow: on what its outcome may depend: ``batching``, ``order``, ``partitions``, ``late``, ``growth``, ``loss``.
            duplicates: whether the source may deliver a row twice.
            promises: what its author says of it; default: the list ``promises`` of the job's module.
            allow_unknown: promises that no run needs to test.
            keys: the columns by which a connector of ``df.write`` that is not known writes, by table; none: it adds rows.

        Raises:
            InvariantViolatedError: the outcome depends on something else, or an effect is not idempotent.
            NotExercisedError: nothing is violated, but something could not be judged.
            HeadraceError: the job cannot be tried.
        """
        __tracebackhide__ = True
        # PySpark need not be installed.
        from headrace_properties.spark_jobs.causes import Cause  # noqa: PLC0415
        from headrace_properties.spark_jobs.replay_file import retry_findings, to_file  # noqa: PLC0415
        from headrace_properties.spark_jobs.targets import causes_named, spark_target  # noqa: PLC0415

        used_seed, runs = self._instead_of(seed, examples)
        allow = tuple(allow)
        allowed = causes_named(allow)
        names = _names_of(job, feed, prepare)
        asked = names.promises if promises is None else promises

        def target_of(seed: int) -> "SparkTarget":
            target = spark_target(
                names.job,
                job,
                schemas=schema,
                feed=feed,
                seed=seed,
                prepare=prepare,
                promises=asked,
                keys=keys,
            )
            return replace(target, limits=self._limits)

        target = target_of(used_seed)
        _refuse_unheeded({"examples": examples}, target.kind)
        check_allowed(allow, target.kind)
        kept = KeptFailures(self.folder, names.job) if names.importable else None
        untold = allowed if duplicates else allowed | {Cause.DUPLICATES}
        retried = () if kept is None else retry_findings(kept, names.feed, target_of, untold)
        report = target.verify(
            schedules=runs,
            seed=used_seed,
            allow=allowed,
            duplicates=duplicates,
            allow_unknown={*self.allow_unknown, *allow_unknown},
        )
        self._settle(kept, retried)
        if report.job is not None:
            self.record("headrace schedules", report.job.schedules)
        if report.sink is not None:
            self.record("headrace trials", report.sink.trials)
        found = {(finding.name, finding.place): finding for finding in report.findings}
        found |= {
            (result.found.name, result.found.place): result.found
            for result in retried
            if result.found is not None
        }
        if found:
            files = {
                key: to_file(target, finding, schema, names.feed, used_seed) for key, finding in found.items()
            }
            raise InvariantViolatedError(
                "\n\n".join(
                    f"{target.name} breaks: {finding.name}\n\n  {finding}\n\nRun it again\n  {_kept_command(kept, files[key])}"
                    for key, finding in found.items()
                )
            )
        if report.unknown:
            untested = (promise.name for promise in target.promises)
            asked_for = tuple(
                name for name in untested if any(f"promise {name} " in why for why in report.unknown)
            )
            raise NotExercisedError(names.job, runs, asked_for, "; ".join(report.unknown))
        return report

    @property
    def _limits(self) -> CodeLimits:
        call_s = CALL_S if self.code_timeout is None else self.code_timeout
        return CodeLimits(call_s, option="--headrace-code-timeout")

    def _instead_of(self, seed: int | None, examples: int | None) -> tuple[int, int]:
        """Return the seed and the number of runs: the test's, or else the command line's."""
        return (self.seed if seed is None else seed), (self.examples if examples is None else examples)

    def _settle(self, kept: KeptFailures | None, retried: "Iterable[Retried | RetriedFinding]") -> None:
        """Report the results of kept failures, and retire those that pass."""
        for result in retried:
            self.record("headrace kept failure", str(result))
            if kept is not None and result.passed:
                with contextlib.suppress(OSError):  # a read-only directory: it is tried again
                    kept.retire(result.path)
        for line in () if kept is None else kept.unreadable():
            self.record("headrace kept failure", line)


ARGUMENTS: Mapping[str, Heeded] = {
    "promises": Heeded(),
    "allow_unknown": Heeded(),
    "seed": Heeded(),
    "examples": Heeded(PIPELINE | QUERY, EACH_EFFECT),
    "options": Heeded(PIPELINE, OWN_FAULTS),
    "protocol": Heeded(PIPELINE, OWN_FAULTS),
    "search": Heeded(PIPELINE, OWN_FAULTS),
    "depth": Heeded(PIPELINE, OWN_FAULTS),
    "scope": Heeded(PIPELINE, OWN_FAULTS),
    "schema": Heeded(SPARK, SPARK_HAS_IT),
    "prepare": Heeded(SPARK, SPARK_HAS_IT),
    "duplicates": Heeded(SPARK, SPARK_HAS_IT),
    "keys": Heeded(SPARK, SPARK_HAS_IT),
    "allow": Heeded(),  # not all of its names, which are looked at with it
}
"""Which kinds of targets heed an argument of the fixture."""
_SEARCHES = {
    "depth": ("pct",),
    "scope": ("exhaustive",),
    "examples": ("random", "pct"),
    "options": ("random", "pct"),
}
"""The searches that heed an argument."""


def _refuse_unheeded(given: Mapping[str, object], kind: TargetKind) -> None:
    """Refuse arguments that would have no effect. Those that are not known are left to Python."""
    __tracebackhide__ = True
    known = [
        (name, name, value) for name, value in given.items() if name in ARGUMENTS and value not in (None, ())
    ]
    refuse_unheeded(ARGUMENTS, known, kind)


def _refuse_unsearched(search: str, given: Mapping[str, object]) -> None:
    __tracebackhide__ = True
    for name, value in given.items():
        if search not in _SEARCHES[name]:
            raise OptionsError(name, value, f"given with search={' or '.join(map(repr, _SEARCHES[name]))}")


def _check_search(examples: int, search: str) -> None:
    if examples < 1:
        raise OptionsError("examples", examples, "at least 1")
    if search not in ("random", "pct", "exhaustive"):
        raise OptionsError("search", search, "random, pct or exhaustive")


def _check_feed(application: Application, seed: int) -> None:
    __tracebackhide__ = True
    if not callable(application.feed_of):
        raise OptionsError(
            "feed", application.feed_of, "a function from a seed to a Feed, or a Hypothesis strategy"
        )
    made: object = application.feed(seed)
    if not isinstance(made, Feed):
        raise OptionsError(f"feed({seed})", made, "a Feed, such as FeedBuilder(pipeline).build()")
    if application.feed_of(seed) != made:
        expected = f"a function that makes the same input of seed {seed} each time"
        raise OptionsError("feed", application.feed_of, expected)
    stray = stray_entry(application.pipeline, made)
    if stray is not None:
        injectors = ", ".join(map(repr, application.pipeline.injectors))
        raise OptionsError(
            f"feed({seed})", stray, f"entries for {injectors}, as FeedBuilder of this pipeline makes them"
        )


def _not_allowed(unknown: Iterable[str], allowed: Collection[str]) -> tuple[str, ...]:
    """Return what should have been exercised and was not."""
    return tuple(
        name for name in unknown if name not in allowed and not (_ALL in allowed and is_invariant(name))
    )


class _TestedPipeline:
    """A pipeline that a test verifies, and its kept failures. ``feed``: what the test named so; ``folder``: of all pipelines'."""

    def __init__(self, application: Application, feed: object, protocol: Protocol, folder: Path) -> None:
        self._application, self._feed, self._protocol = application, feed, protocol
        self._name = _importable_name(application.pipeline, feed)
        self._jobs = _jobs()
        self.retried: tuple[Retried, ...] = ()
        self.kept = (
            None
            if self._name is None
            else KeptFailures(folder, self._name[0], protocol=protocol.name, feed=self._name[1])
        )

    def review_code(self, seed: int, options: ClusterOptions | None) -> CodeReview:
        """Review the user's code by itself, kept findings first; `retried` then has their results."""
        application = self._application
        if self._protocol is not SOUND:
            return CodeReview(())
        feeds = {feed_seed: application.feed(feed_seed) for feed_seed in application.feed_seeds(seed, FEEDS)}
        code = review(application.pipeline, feeds, options=options, seed=seed, limits=application.limits)
        kept = () if self.kept is None else self.kept.findings()
        code, self.retried = retry_findings(application, kept, code)
        return code

    def retry(self) -> tuple[Retried, ...]:
        if self.kept is None:
            return ()
        return retry(self._application, self.kept.load(), self._protocol, self._jobs)

    def explore(self, scope: Scope, seed: int) -> Verification:
        return explore(self._application, scope, feed_seed=seed, protocol=self._protocol, jobs=self._jobs)

    def verify(
        self, examples: int, seed: int, options: ClusterOptions | None, depth: int | None
    ) -> Verification:
        """Run random schedules. ``depth``: with orders of arrival by priorities."""
        return verify(
            self._application,
            examples=examples,
            seed=seed,
            options=options,
            protocol=self._protocol,
            jobs=self._jobs,
            depth=depth,
        )

    def story_of_finding(self, finding: UserFinding) -> str:
        """Report a finding about user code, and how to reproduce it."""
        command = self._keep(finding.failure).removesuffix(" --explain")
        story = "\n".join(f"  {sentence}" for sentence in finding.story())
        name = self._application.pipeline.name
        return f"{name} breaks {finding.habit.verdict_name}\n\n{story}\n\nRun it again\n  {command}"

    def story_of(self, failure: Failure) -> str:
        """Report a failure, and how to reproduce it."""
        return describe_failure(failure, self._application) + f"\nRun it again\n  {self._keep(failure)}"

    def _keep(self, failure: Failure) -> str:
        """Keep the failure; return the command that replays it, or why there is none."""
        application = self._application
        if self._name is None:
            return _NO_FILE
        asked = _promises_beside(application.pipeline, self._feed)
        beside = {getattr(promise, "name", "") for promise in asked}
        lacking = [
            violation
            for violation in failure.violations
            if violation.isidentifier() and violation not in beside and not is_invariant(violation)
        ]
        if lacking:
            return f"(no replay file: add {lacking[0]} to a list promises beside the pipeline, where replay reads it)"
        name, feed_name = self._name
        data = to_replay(failure, name, self._protocol.name, feed_name, application=application)
        call_s = application.limits.call_s
        return _kept_command(self.kept, data, f" --code-timeout {call_s:g}" if call_s != CALL_S else "")


def _kept_command(kept: KeptFailures | None, data: bytes, option: str = "") -> str:
    """Keep a failure; return the command that replays it, or why there is none."""
    if kept is None:
        return _NO_FILE
    try:
        return f"headrace replay {shlex.quote(_shown(kept.keep(data)))}{option} --explain"
    except OSError as error:
        return f"(no replay file: cannot write {error.filename}: {error.strerror})"


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
    """

    job: str
    feed: str
    importable: bool
    promises: Sequence[Promise]


def _names_of(job: Any, feed: Any, prepare: Callable[[], Any] | None) -> _NamesOfJob:
    from headrace_properties.spark_jobs.targets import FEED, PREPARE  # noqa: PLC0415  PySpark need not be installed

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
