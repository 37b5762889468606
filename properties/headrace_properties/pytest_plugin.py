"""The pytest plugin: a pipeline goes through the whole harness in one line.

In a test, by the fixture `headrace_verify`; or without any test, by naming pipelines in pytest's settings::

    [tool.pytest.ini_options]
    headrace_pipelines = ["views:pipeline"]

A failure shows the smallest fault schedule found, what it breaks, and the command that replays it. Costly imports wait until they
are needed: the plugin is loaded with every pytest of the environment.
"""

import contextlib
import math
import os
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import pytest

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from headrace import Pipeline
    from headrace_properties.promises import Promise
    from headrace_properties.search.application import Application, FeedOf
    from headrace_properties.search.judging import Failure
    from headrace_properties.search.kept_failures import KeptFailures, Retried
    from headrace_properties.search.limits import CodeLimits
    from headrace_properties.search.scope import Scope
    from headrace_properties.search.verification import Verification
    from headrace_properties.spark_jobs.replay_file import RetriedFinding
    from headrace_properties.spark_jobs.targets import SparkReport, SparkTarget
    from headrace_properties.user_code.habits import UserFinding
    from headrace_sim import ClusterOptions, Protocol
    from headrace_sim.spark.job import SparkJob

PROFILES = {"dev": 50, "ci": 200, "nightly": 5_000}
"""Profile to how many runs each pipeline gets in which a fault really struck."""

_PIPELINES = "headrace_pipelines"
_ALLOW_UNKNOWN = "headrace_allow_unknown"
_CODE_TIMEOUT = "headrace_code_timeout"
_ALL = "all"
_GROUP = "headrace"
_NO_FILE = "(no replay file: it names the module that has both the pipeline and its feed, and there is none)"
_PROMISES = "promises"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, and the setting."""
    group = parser.getgroup(_GROUP, "Headrace: pipelines under faults")
    group.addoption(
        "--headrace-profile",
        choices=sorted(PROFILES),
        default="dev",
        help=f"runs of each pipeline: {', '.join(f'{name} {runs:,}' for name, runs in PROFILES.items())}; default: dev",
    )
    group.addoption(
        "--headrace-examples", type=_positive, metavar="N", help="runs of each pipeline, whatever the profile"
    )
    group.addoption("--headrace-seed", type=int, default=0, metavar="N", help="of every search; default: 0")
    group.addoption(
        "--headrace-failures",
        type=Path,
        metavar="DIR",
        help="where failures are kept as replay files, to be tried first the next time; default: .headrace/failures"
        " in the root directory",
    )
    group.addoption(
        "--headrace-allow-unknown",
        default="",
        metavar="NAME,...",
        help="invariants and promises that no run needs to exercise, or 'all' for all invariants; added to the setting",
    )
    group.addoption(
        "--headrace-code-timeout",
        type=_seconds,
        metavar="SECONDS",
        help=f"a call of your code that takes longer is taken to never end; default: the setting {_CODE_TIMEOUT}, or 10",
    )
    parser.addini(_CODE_TIMEOUT, "seconds after which a call of your code is taken to never end")
    parser.addini(_PIPELINES, "pipelines to verify, MODULE:PIPELINE each", type="args", default=[])
    parser.addini(
        _ALLOW_UNKNOWN,
        "invariants and promises that no run needs to exercise, or 'all' for all invariants",
        type="args",
        default=[],
    )


def _positive(text: str) -> int:
    """Read a number of runs, as argparse's ``type``."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _seconds(text: str) -> float:
    """Read a number of seconds, as argparse's ``type``."""
    seconds = float(text)
    if not _LEAST_S <= seconds < math.inf:
        raise ValueError
    return seconds


_LEAST_S = 0.1
_seconds.__name__ = f"number of seconds from {_LEAST_S} on"
_positive.__name__ = "positive number"  # as argparse's error calls it


class InvariantViolatedError(AssertionError):
    """A pipeline that breaks under faults; the message is the whole story."""


class NotExercisedError(AssertionError):
    """Nothing is violated, but something was never put to the test. Fields: pipeline, runs, names."""

    def __init__(self, pipeline: str, runs: int, names: tuple[str, ...]) -> None:
        super().__init__(pipeline, runs, names)
        self.pipeline, self.runs, self.names = pipeline, runs, names

    def __str__(self) -> str:
        """Say what, and how to allow it."""
        return (
            f"{self.pipeline}: nothing is violated in {self.runs:,} runs, but none of them exercised {', '.join(self.names)}. "
            "Use an input that does, or more runs. If no input can, allow it: allow_unknown=[...] in the test, "
            f"or the setting {_ALLOW_UNKNOWN} = {' '.join(self.names)}"
        )


@dataclass(frozen=True, slots=True)
class Verifier:
    """Verifies pipelines as the command line asks for: what the fixture `headrace_verify` gives.

    Attributes:
        examples: runs of each pipeline in which a fault really struck.
        seed: of the search and of the input.
        folder: where failures are kept.
        record: told a name and a value for the test's report (JUnit's properties).
        allow_unknown: invariants and promises that no run needs to exercise.
        code_timeout: what a call of user code may take, seconds; ``None``: 10.
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
        pipeline: "Pipeline",
        feed: "FeedOf | SearchStrategy[Any]",
        *,
        examples: int | None = None,
        seed: int | None = None,
        options: "ClusterOptions | None" = None,
        protocol: "Protocol | None" = None,
        promises: "Sequence[Promise] | None" = None,
        allow_unknown: Iterable[str] = (),
        search: Literal["random", "pct", "exhaustive"] = "random",
        depth: int = 2,
        scope: "Scope | None" = None,
    ) -> "Verification": ...

    @overload
    def __call__(
        self,
        pipeline: "SparkJob | Callable[..., Any]",
        feed: "Sequence[Sequence[Any]] | Callable[[int], Sequence[Sequence[Any]]] | None" = None,
        *,
        schema: str | None = None,
        prepare: Callable[[], Any] | None = None,
        seed: int | None = None,
        examples: int | None = None,
        allow: Iterable[str] = (),
        duplicates: bool = False,
        promises: "Sequence[Promise] | None" = None,
    ) -> "SparkReport": ...

    def __call__(self, pipeline: Any, feed: Any = None, **given: Any) -> Any:
        """Run a pipeline, or the sink of a Spark job, under faults, and fail the test unless all was exercised and holds.

        Args:
            pipeline: a pipeline (see `pipeline`), or a Spark job (see `spark_job`).
            feed: its input.
            given: what else the one or the other takes.
        """
        __tracebackhide__ = True
        from headrace import Pipeline  # noqa: PLC0415

        return (self.pipeline if isinstance(pipeline, Pipeline) else self.spark_job)(pipeline, feed, **given)

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
        promises: "Sequence[Promise] | None" = None,
    ) -> "SparkReport":
        """Run a Spark job under schedules, try its sink at each of its effects, and fail the test unless all outcomes are equal.

        Args:
            job: a ``foreachBatch`` function, a function that starts a query, or a ``SparkJob``.
            feed: the rows of each batch, or a function that makes them from a seed; default: drawn.
            schema: the columns of its input, such as ``"account STRING, amount INT"``; a ``SparkJob`` has it.
            prepare: makes the tables that the sink takes for granted.
            seed: instead of the command line's.
            examples: the number of schedules, instead of the command line's.
            allow: on what its outcome may depend: ``batching``, ``order``, ``partitions``, ``late``, ``growth``.
            duplicates: whether the source may deliver a row twice.
            promises: what its author says of it; default: the list ``promises`` of the job's module.

        Raises:
            InvariantViolatedError: the outcome depends on something else, or an effect is not idempotent.
            NotExercisedError: nothing is violated, but something could not be judged.
            HeadraceError: the job cannot be tried.
        """
        __tracebackhide__ = True
        from headrace_properties.search.kept_failures import KeptFailures  # noqa: PLC0415
        from headrace_properties.spark_jobs.outcomes import Cause  # noqa: PLC0415
        from headrace_properties.spark_jobs.replay_file import retry_findings, to_file  # noqa: PLC0415
        from headrace_properties.spark_jobs.targets import FEED, PREPARE, causes_named, spark_target  # noqa: PLC0415

        used_seed = self.seed if seed is None else seed
        runs = self.examples if examples is None else examples
        allowed = causes_named(allow)
        importable = _importable_name(job, job if feed is None else feed)
        module = sys.modules.get(importable[0].partition(":")[0]) if importable else None
        if module is None or prepare not in {None, getattr(module, PREPARE, None)}:
            importable = None  # a replay file finds only what its module has
        name = importable[0] if importable else getattr(job, "__name__", "the Spark job")
        home = sys.modules.get(getattr(job, "__module__", "")) if module is None else module
        asked = getattr(home, _PROMISES, ()) if promises is None else promises
        feed_name = FEED if importable is None or feed is None else importable[1]

        def target_of(seed: int) -> "SparkTarget":
            return spark_target(
                name, job, schemas=schema, feed=feed, seed=seed, prepare=prepare, promises=asked
            )

        untold = allowed if duplicates else allowed | {Cause.DUPLICATES}
        target = target_of(used_seed)
        kept = KeptFailures(self.folder, name) if importable else None
        retried = () if kept is None else retry_findings(kept, feed_name, target_of, untold)
        report = target.verify(schedules=runs, seed=used_seed, allow=allowed, duplicates=duplicates)
        self._settle(kept, retried)
        if report.job is not None:
            self.record("headrace schedules", report.job.schedules)
        if report.sink is not None:
            self.record("headrace trials", report.sink.trials)
        found = {(finding.name, finding.place): finding for finding in report.findings}
        found |= {(one.found.name, one.found.place): one.found for one in retried if one.found is not None}
        stories = []
        for finding in found.values():
            command = (
                _NO_FILE
                if kept is None
                else _kept_command(kept, to_file(target, finding, schema, feed_name, used_seed))
            )
            stories.append(
                f"{target.name} breaks: {finding.name}\n\n  {finding}\n\nRun it again\n  {command}"
            )
        if stories:
            raise InvariantViolatedError("\n\n".join(stories))
        if report.unknown:
            raise NotExercisedError(name, runs, report.unknown)
        return report

    @property
    def _limits(self) -> "CodeLimits":
        from headrace_properties.search.limits import CodeLimits  # noqa: PLC0415

        return CodeLimits() if self.code_timeout is None else CodeLimits(call_s=self.code_timeout)

    def _settle(self, kept: "KeptFailures | None", retried: "Iterable[Retried | RetriedFinding]") -> None:
        """Tell what has come of kept failures, and retire those that pass."""
        for one in retried:
            self.record("headrace kept failure", str(one))
            if kept is not None and one.passed:
                with contextlib.suppress(OSError):  # a read-only directory: it is tried again
                    kept.retire(one.path)

    def pipeline(
        self,
        pipeline: "Pipeline",
        feed: "FeedOf | SearchStrategy[Any]",
        *,
        examples: int | None = None,
        seed: int | None = None,
        options: "ClusterOptions | None" = None,
        protocol: "Protocol | None" = None,
        promises: "Sequence[Promise] | None" = None,
        allow_unknown: Iterable[str] = (),
        search: Literal["random", "pct", "exhaustive"] = "random",
        depth: int = 2,
        scope: "Scope | None" = None,
    ) -> "Verification":
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
            allow_unknown: invariants and promises that no run needs to exercise, or ``["all"]`` for all invariants; added to
                the setting ``headrace_allow_unknown``.
            search: ``random``; ``pct``, with orders of arrival by priorities; or ``exhaustive``: every schedule of the scope;
                ``examples`` and ``options`` then do nothing.
            depth: with ``pct``, of the failures to look for; see docs/explanation/exhaustive.md.
            scope: of an exhaustive search; default: three records, one fault and two delays, on two workers.

        Raises:
            PromiseError: a promise is wrong in itself.
            InvariantViolatedError: an invariant or a promise is broken, the run stopped with an error, or user code keeps
                or shares state.
            NotExercisedError: nothing is violated, but an invariant or a promise that is not allowed to was never exercised.
            OptionsError: ``examples`` or ``depth`` is less than 1, or there is no such ``search``.
        """
        __tracebackhide__ = True
        from headrace_properties.checkers.catalogue import is_invariant  # noqa: PLC0415
        from headrace_properties.drawn_feeds import feed_function  # noqa: PLC0415
        from headrace_properties.explain.descriptions import describe_failure  # noqa: PLC0415
        from headrace_properties.promises import check_promises  # noqa: PLC0415
        from headrace_properties.search.application import Application  # noqa: PLC0415
        from headrace_properties.search.exhaustive import explore  # noqa: PLC0415
        from headrace_properties.search.kept_failures import KeptFailures, Retried, found_again, retry  # noqa: PLC0415
        from headrace_properties.search.scope import Scope  # noqa: PLC0415
        from headrace_properties.search.verification import FEEDS, verify  # noqa: PLC0415
        from headrace_properties.user_code.kept_findings import retry_findings  # noqa: PLC0415
        from headrace_properties.user_code.review import CodeReview, review  # noqa: PLC0415  see the module's docstring
        from headrace_sim import SOUND  # noqa: PLC0415

        hosted, used_seed = protocol or SOUND, self.seed if seed is None else seed
        runs = self.examples if examples is None else examples
        _check_search(runs, search)
        asked = _promises_beside(pipeline, feed) if promises is None else promises
        application = Application(
            pipeline, feed_function(pipeline, feed), check_promises(asked, [pipeline]), self._limits
        )
        name = _importable_name(pipeline, feed)
        kept = (
            None if name is None else KeptFailures(self.folder, name[0], protocol=hosted.name, feed=name[1])
        )
        feeds = {
            feed_seed: application.feed(feed_seed) for feed_seed in application.feed_seeds(used_seed, FEEDS)
        }
        code, retried = CodeReview(()), tuple[Retried, ...]()
        if hosted is SOUND:
            code = review(pipeline, feeds, options=options, seed=used_seed, limits=application.limits)
            code, retried = retry_findings(application, () if kept is None else kept.findings(), code)
        for finding in code.findings:
            self.record("headrace finding", str(finding))
        broken = [_story_of(finding, application, feed, hosted, kept) for finding in code.findings]
        jobs = _jobs()
        again: tuple[Retried, ...] = ()
        if kept is not None and not code.why_no_runs:
            again = retry(application, kept.load(), hosted, jobs)
        self._settle(kept, (*retried, *again))
        if code.why_no_runs:
            raise InvariantViolatedError("\n\n".join(broken))
        found = found_again(again)
        if found is None and search == "exhaustive":
            found = explore(application, scope or Scope(), feed_seed=used_seed, protocol=hosted, jobs=jobs)
        found = found or verify(
            application,
            examples=runs,
            seed=used_seed,
            options=options,
            protocol=hosted,
            jobs=jobs,
            depth=depth if search == "pct" else None,
        )
        self.record("headrace runs", found.runs)
        self.record("headrace events", found.events)
        if found.failure is not None:
            command = _save(found.failure, application, feed, hosted, kept)
            broken.append(describe_failure(found.failure, application) + f"\nRun it again\n  {command}")
        if broken:
            raise InvariantViolatedError("\n\n".join(broken))
        allowed = {*self.allow_unknown, *allow_unknown}
        unknown = [
            name
            for name in found.unknown
            if name not in allowed and not (_ALL in allowed and is_invariant(name))
        ]
        if unknown:
            raise NotExercisedError(pipeline.name, found.runs, tuple(unknown))
        return found


def _check_search(examples: int, search: str) -> None:
    from headrace import OptionsError  # noqa: PLC0415

    if examples < 1:
        raise OptionsError("examples", examples, "at least 1")
    if search not in ("random", "pct", "exhaustive"):
        raise OptionsError("search", search, "random, pct or exhaustive")


@pytest.fixture
def headrace_verify(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Verifier:
    """Verify a pipeline: ``headrace_verify(pipeline, feed)``."""
    return _verifier(request.config, record_property)


@pytest.hookimpl(tryfirst=True)  # before -k and -m choose
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[Any]) -> None:
    """Add a test for each pipeline that the settings name, unless only files or single tests were asked for."""
    directories = [config.invocation_params.dir / argument for argument in config.args]
    if any(directory.is_dir() for directory in directories):
        items += [PipelineItem.from_parent(session, name=name) for name in config.getini(_PIPELINES)]


class PipelineItem(pytest.Item):
    """The test of one pipeline that the settings name."""

    def runtest(self) -> None:
        """Find it, and verify it."""
        pipeline, feed = _load(self.name, self.config.rootpath)
        _verifier(self.config, self._record)(pipeline, feed)

    def _record(self, name: str, value: object) -> None:
        self.user_properties.append((name, value))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show the story without a traceback through the harness."""
        if isinstance(excinfo.value, InvariantViolatedError | NotExercisedError | pytest.UsageError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Name it in reports."""
        return self.config.rootpath, None, f"headrace verify {self.name}"


def _verifier(config: pytest.Config, record: Callable[[str, object], None]) -> Verifier:
    from headrace_properties.search.kept_failures import FOLDER  # noqa: PLC0415

    examples = config.getoption("--headrace-examples")
    allowed = (name.strip() for name in config.getoption("--headrace-allow-unknown").split(","))
    return Verifier(
        PROFILES[config.getoption("--headrace-profile")] if examples is None else examples,
        config.getoption("--headrace-seed"),
        config.getoption("--headrace-failures") or config.rootpath / FOLDER,
        record,
        (*config.getini(_ALLOW_UNKNOWN), *allowed),
        _code_timeout(config),
    )


def _code_timeout(config: pytest.Config) -> float | None:
    given: float | None = config.getoption("--headrace-code-timeout")
    setting = config.getini(_CODE_TIMEOUT)
    if given is not None or not setting:
        return given
    try:
        return _seconds(setting)
    except ValueError:
        raise pytest.UsageError(f"{_CODE_TIMEOUT}: {setting!r} is not a {_seconds.__name__}") from None


def _jobs() -> int:
    """As many processes as there are cores; one where that is of no use, or a fork would lose something.

    pytest-xdist keeps the cores busy already. A fork copies no threads; tracers (coverage, debuggers) see this process only.
    """
    from headrace_properties.search.parallel import cores  # noqa: PLC0415

    traced = sys.gettrace() is not None or (
        hasattr(sys, "monitoring") and any(map(sys.monitoring.get_tool, range(6)))
    )
    alone = "PYTEST_XDIST_WORKER" in os.environ or threading.active_count() > 1 or traced
    return 1 if alone else cores()


def _load(name: str, root: Path) -> tuple["Pipeline", "FeedOf | SearchStrategy[Any]"]:
    """Import a pipeline and its feed; from pytest's root directory, too, whichever way pytest was started."""
    import importlib  # noqa: PLC0415

    if str(root) not in sys.path:
        sys.path.append(str(root))
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
        return getattr(module, attribute), module.feed
    except (ImportError, ValueError, AttributeError) as error:
        raise pytest.UsageError(
            f"{_PIPELINES}: {name!r}: {error}. Name MODULE:PIPELINE, with a function feed(seed) or a strategy feed in the module"
        ) from error


def _story_of(
    finding: "UserFinding", application: "Application", feed: object, protocol: "Protocol", kept: "KeptFailures | None"
) -> str:  # fmt: skip
    """Tell a finding about user code, and how to see it again."""
    command = _save(finding.failure, application, feed, protocol, kept).removesuffix(" --explain")
    story = "\n".join(f"  {sentence}" for sentence in finding.story())
    name = application.pipeline.name
    return f"{name} breaks {finding.habit.verdict_name}\n\n{story}\n\nRun it again\n  {command}"


def _save(
    failure: "Failure", application: "Application", feed: object, protocol: "Protocol", kept: "KeptFailures | None"
) -> str:  # fmt: skip
    """Keep the failure; returns the command that replays it, or why there is none."""
    from headrace_properties.checkers.catalogue import is_invariant  # noqa: PLC0415
    from headrace_properties.search.limits import CALL_S  # noqa: PLC0415
    from headrace_properties.search.replay_file import to_replay  # noqa: PLC0415

    pipeline = application.pipeline
    name = _importable_name(pipeline, feed)
    if name is None or kept is None:
        return _NO_FILE
    beside = {getattr(promise, "name", "") for promise in _promises_beside(pipeline, feed)}
    lacking = [
        violation
        for violation in failure.violations
        if violation.isidentifier() and violation not in beside and not is_invariant(violation)
    ]
    if lacking:
        return f"(no replay file: add {lacking[0]} to a list promises beside the pipeline, where replay reads it)"
    data = to_replay(failure, name[0], protocol.name, name[1], application=application)
    call_s = application.limits.call_s
    return _kept_command(kept, data, f" --code-timeout {call_s:g}" if call_s != CALL_S else "")


def _kept_command(kept: "KeptFailures", data: bytes, option: str = "") -> str:
    """Keep a failure; returns the command that replays it, or why there is none."""
    try:
        return f"headrace replay {shlex.quote(_shown(kept.keep(data)))}{option} --explain"
    except OSError as error:
        return f"(no replay file: cannot write {error.filename}: {error.strerror})"


def _shown(path: Path) -> str:
    """Shorten a path below the current directory."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _promises_beside(pipeline: "Pipeline", feed: object) -> "Sequence[Promise]":
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
            next((n for n, value in variables.items() if value is one), None) for one in (pipeline, feed)
        ]
        if names[0] and names[1]:
            found.append((_PROMISES in variables, (f"{variables['__name__']}:{names[0]}", names[1])))
    promising = [name for has_promises, name in found if has_promises]
    return next(iter([*promising, *[name for _, name in found]]), None)
