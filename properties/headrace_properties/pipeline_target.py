"""A pipeline as a target: what is searched, and how."""

import math
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace import HeadraceError, Pipeline
from headrace_properties.promises import Promise
from headrace_properties.search.application import Application, FeedOf, stray_entry
from headrace_properties.search.enumeration import Enumeration
from headrace_properties.search.exhaustive_search import ExhaustiveSearch
from headrace_properties.search.guard import EndsProcessError
from headrace_properties.search.limits import CodeLimits, OverrunError
from headrace_properties.search.lineage import LINEAGE_KINDS, LineageSearch
from headrace_properties.search.parallel import Jobs
from headrace_properties.search.scope import USUAL_KINDS, Scope
from headrace_properties.search.steering import FEEDS, Steering
from headrace_properties.search.step_faults import single_faults
from headrace_properties.search.strategy import Strategy
from headrace_properties.search.strategy import search as search_with
from headrace_properties.search.verification import Verification
from headrace_properties.target import PipelineSource, TargetError
from headrace_properties.target_kinds import SearchKind, TargetKind
from headrace_properties.user_frames import is_users_file
from headrace_sim import SOUND, ClusterOptions, Feed, FeedSource, Protocol
from headrace_sim.deliveries import UNSAID
from headrace_sim.faults import Breach

RUNS = 200
"""Default number of runs of a search in which a fault strikes."""
_NO_LIMIT = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Search:
    """What to search, and how long.

    Attributes:
        kind: of search.
        examples: number of runs in which a fault strikes, or of pairs; ``None``: 200, or no limit with one of the next two.
        until_quiet: stop once the chance that the next run shows new behaviour is estimated below this.
        minutes: stop after this much wall time.
        seed: of the search, and of the first input.
        feeds: number of inputs.
        depth: of the failures for which the bound of ``pct`` holds.
        scope: of an exhaustive search, or one by lineage.
        resume: file with the runs of such a search that have been made.
        outside: faults outside the model that are wanted.
        small_first: a random search runs small parts of the inputs first.
    """

    kind: SearchKind = SearchKind.RANDOM
    examples: int | None = None
    until_quiet: float = 0.0
    minutes: float | None = None
    seed: int = 0
    feeds: int = FEEDS
    depth: int = 2
    scope: Scope = field(default_factory=Scope)
    resume: Path | None = None
    outside: tuple[Breach, ...] = ()
    small_first: bool = True

    @property
    def runs(self) -> int:
        """How many runs are wanted."""
        if self.examples is not None:
            return self.examples
        return _NO_LIMIT if self.until_quiet or self.minutes is not None else RUNS


@dataclass(frozen=True, slots=True)
class PipelineTarget:
    """A pipeline, its input and its author's promises.

    Attributes:
        name: ``MODULE:PIPELINE``, or the pipeline's own name if no module has it.
        application: what a search runs.
        feed_name: what makes its input, as its module calls it.
        versions: names of further versions of the pipeline, ``MODULE:PIPELINE``.
        protocol: the state machines to host.
        options: of the cluster, where a plan does not vary them; ``None``: the usual ones.
    """

    name: str
    application: Application
    feed_name: str = "feed"
    versions: tuple[str, ...] = ()
    protocol: Protocol = SOUND
    options: ClusterOptions | None = None

    @property
    def kind(self) -> TargetKind:
        """A pipeline."""
        return TargetKind.PIPELINE

    @property
    def source(self) -> PipelineSource:
        """Where it comes from."""
        return PipelineSource(self.name, self.versions, self.protocol.name, self.feed_name)

    @property
    def pipeline(self) -> Pipeline:
        """The version that is in force from the start."""
        return self.application.pipeline

    @property
    def deployed(self) -> tuple[Pipeline, ...]:
        """All versions."""
        return self.application.deployed

    @property
    def feed_source(self) -> FeedSource:
        """What the source of its feed promises."""
        return self.application.source

    @property
    def promises(self) -> tuple[Promise, ...]:
        """What its author says of it."""
        return self.application.promises

    def feed(self, seed: int) -> Feed:
        """Return the input of a seed.

        Raises:
            TargetError: the function fails, or what it returns is no input for this pipeline.
        """
        return self.application.feed(seed)

    def check_input(self, seed: int) -> None:
        """Refuse a function that makes another input of the same seed: no failure on it could be replayed.

        Raises:
            TargetError: it does, or it fails, or what it returns is no input for this pipeline.
        """
        if self.application.feed_of(seed) != self.feed(seed):
            problem = f"{self.feed_name}({seed}) returned another input when it was called again"
            raise TargetError(
                self.name, problem, "Draw everything from the seed, as with random.Random(seed)"
            )

    def expected_runs(self, search: Search) -> int:
        """Return how many runs a search takes, if it finds nothing."""
        if search.kind is SearchKind.ENUMERATE:
            feed = self.application.feed(search.seed)
            return len(single_faults(self.application.versions, feed, self.options or ClusterOptions()))
        return search.runs

    def search(
        self, search: Search, jobs: Jobs = 1, on_run: Callable[[Verification], None] = lambda _: None
    ) -> Verification:
        """Search for a schedule that breaks an invariant or a promise.

        Args:
            search: how.
            jobs: processes that share the runs, or a pool of them.
            on_run: called after each run, for progress.
        """
        exhausts = search.kind in (SearchKind.EXHAUSTIVE, SearchKind.LINEAGE)
        lists = search.kind in (SearchKind.ENUMERATE, SearchKind.PAIRS)
        return search_with(
            self.strategy(search),
            examples=math.inf if lists or (exhausts and search.examples is None) else search.runs,
            until_quiet=0.0 if lists or exhausts else search.until_quiet,
            minutes=math.inf if lists or search.minutes is None else search.minutes,
            jobs=jobs,
            resume=search.resume if exhausts else None,
            on_run=on_run,
        )

    def strategy(self, search: Search) -> Strategy:
        """Return what a search runs next, and when it has run everything."""
        application, seed, protocol = self.application, search.seed, self.protocol
        scope = replace(search.scope, outside=search.outside)
        match search.kind:
            case SearchKind.RANDOM | SearchKind.PCT:
                return Steering(
                    application,
                    seed=seed,
                    feeds=search.feeds,
                    options=self.options,
                    protocol=protocol,
                    outside=search.outside,
                    depth=search.depth if search.kind is SearchKind.PCT else None,
                    small_first=search.small_first,
                )
            case SearchKind.EXHAUSTIVE:
                return ExhaustiveSearch(application, scope, feed_seed=seed, protocol=protocol)
            case SearchKind.LINEAGE:
                kinds = LINEAGE_KINDS if scope.kinds == USUAL_KINDS else scope.kinds
                scope = replace(scope, delays=0, kinds=kinds)
                return LineageSearch(application, scope, feed_seed=seed, protocol=protocol)
            case SearchKind.ENUMERATE | SearchKind.PAIRS:
                return Enumeration(
                    application,
                    feed_seed=seed,
                    options=self.options,
                    protocol=protocol,
                    pairs=search.runs if search.kind is SearchKind.PAIRS else 0,
                    seed=seed,
                    outside=search.outside,
                )


def pipeline_target(
    name: str,
    pipeline: Pipeline,
    feed_of: Callable[[int], object],
    *,
    feed_name: str = "feed",
    versions: Mapping[str, Pipeline] | None = None,
    promises: tuple[Promise, ...] = (),
    limits: CodeLimits | None = None,
    protocol: Protocol = SOUND,
    options: ClusterOptions | None = None,
    feed_source: FeedSource = UNSAID,
) -> PipelineTarget:
    """Return a pipeline as a target.

    Args:
        name: as in `PipelineTarget`; so are the names of the versions, ``feed_name``, ``protocol`` and ``options``.
        pipeline: it.
        feed_of: makes its input from a seed.
        feed_name: what its module calls that.
        versions: further versions of it, by name.
        promises: what its author says of it.
        limits: of each call of its code.
        protocol: the state machines to host.
        options: of the cluster.
        feed_source: what the source of the feed promises.

    Raises:
        TargetError: ``feed_source`` promises an order, which does not reach a pipeline's computations.
    """
    if feed_source.ordered:
        problem = "source promises an order, and records may overtake each other behind it"
        raise TargetError(name, problem, "Declare it of what counts on it: pipeline.add(..., ordered=True)")
    others = versions or {}
    checked = _checked(name, pipeline, feed_of, feed_name)
    application = Application(
        (pipeline, *others.values()), checked, promises, limits or CodeLimits(), feed_source
    )
    return PipelineTarget(name, application, feed_name, tuple(others), protocol, options)


def _checked(name: str, pipeline: Pipeline, feed_of: Callable[[int], object], feed_name: str) -> FeedOf:
    """Return the function that makes the input, with its errors and its results looked at."""

    def feed(seed: int) -> Feed:
        function = f"{feed_name}({seed})"
        try:
            value = feed_of(seed)
        except (Exception, SystemExit, OverrunError) as error:
            problem = f"{function} {failure_told(error)}"
            raise TargetError(name, problem, "It must return the input, a Feed") from error
        if not isinstance(value, Feed):
            problem = f"{function} returned {value!r:.60} ({type(value).__name__}), not a Feed"
            raise TargetError(name, problem, "Return FeedBuilder(pipeline).build()")
        stray = stray_entry(pipeline, value)
        if stray is not None:
            problem = f"{function} has an entry for {stray.address!r}, which is not a process of the pipeline's injectors"
            variable = name.partition(":")[2] or "pipeline"
            raise TargetError(name, problem, f"Build it with FeedBuilder({variable})")
        return value

    return feed


def failure_told(error: BaseException) -> str:
    """Say that something failed, where in the user's code, and how, without the traceback."""
    text = " ".join(str(error).split())
    if not isinstance(error, HeadraceError | OverrunError | EndsProcessError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"failed{_place(error)}: {text}"


def _place(error: BaseException) -> str:
    """Return the innermost line of the user's own code that was running; a `SyntaxError` names its place itself."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users_file(frame.filename)]
    if not frames or isinstance(error, SyntaxError):
        return ""
    return f" at {Path(frames[-1].filename).name}, line {frames[-1].lineno}"
