"""How large a scope can be exhausted, how much of it is left out, and how small a scope finds a broken protocol.

What docs/explanation/exhaustive.md says of them, `headrace_benchmarks.studies` measures.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product, takewhile

import msgspec

from headrace import MILLISECOND, Computation, EngineOptions, Pipeline, Productions
from headrace_properties.explain.narrative import narrate
from headrace_properties.proof.mutants import CATALOGUE, MUTANTS
from headrace_properties.proof.workloads import WORKLOADS, Echo, Windows, Workload, same
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.exhaustive_search import ExhaustiveSearch, ScheduleMoves
from headrace_properties.search.judging import Failure, run_plan
from headrace_properties.search.parallel import cores
from headrace_properties.search.scope import Scope, small_cluster
from headrace_properties.search.strategy import search
from headrace_scenarios import zeitgeist
from headrace_scenarios.zeitgeist.search_traffic import UserSearch
from headrace_sim import SOUND, Feed, FeedBuilder, Protocol


@dataclass(frozen=True, slots=True)
class ExhaustedScope:
    """A scope to be exhausted.

    Attributes:
        name: what the table calls it.
        pipeline: what is run.
        records: how many, of one key, a millisecond apart.
        scope: the bounds.
        engine: options that are not the usual ones.
        feed: the input, if it is another one.
    """

    name: str
    pipeline: Pipeline
    records: int
    scope: Scope
    engine: EngineOptions | None = None
    feed: Feed | None = None

    @property
    def application(self) -> Application:
        """It, as a search takes it."""
        return Application.with_input(self.pipeline, self.feed or _one_key(self.pipeline, self.records))

    @property
    def bounds(self) -> Scope:
        """The scope, with the options of the engine."""
        options = small_cluster()
        if self.engine is not None:
            options = msgspec.structs.replace(options, engine=self.engine)
        return replace(self.scope, records=self.records, options=options)


def _one_key(pipeline: Pipeline, records: int) -> Feed:
    """Return records of one key for each injector, and the end of the source, with little else."""
    builder = FeedBuilder(pipeline)
    for number, injector in product(range(records), pipeline.injectors):
        at_us = (100 + number) * MILLISECOND
        builder.record(at_us=at_us, value=number + 1, timestamp=at_us, key="k", injector=injector)
    return builder.build()


def _stages(
    name: str, *computations: Computation, productions: Productions = Productions.STRONG, injectors: int = 1
) -> Pipeline:
    """Build computations one after the other; the first reads all injectors."""
    pipeline = Pipeline(name)
    inputs = [f"in{number}" for number in range(injectors)]
    for stream in inputs:
        pipeline.injector(stream)
    for number, computation in enumerate(computations):
        output = f"out{number}"
        pipeline.add(
            computation, name=f"stage{number}", inputs=dict.fromkeys(inputs, same), outputs=[output], productions=productions,
        )  # fmt: skip
        inputs = [output]
    return pipeline


ONE = Scope(faults=1, delays=1, kinds=("crash", "drop"))
_IMPATIENT = replace(small_cluster().engine, straggler_delay_us=20 * MILLISECOND)

TWO = _stages("two", Echo("out0"), Echo("out1"))

SCOPES = (
    ExhaustedScope("1 key, 1 record", _stages("one", Echo("out0")), 1, ONE),
    ExhaustedScope("1 key, 2 records", _stages("one", Echo("out0")), 2, ONE),
    ExhaustedScope("2 computations", TWO, 1, ONE),
    ExhaustedScope("2 computations", TWO, 1, Scope(faults=0, delays=3)),
    ExhaustedScope(
        "weak with stragglers",
        _stages("weak", Echo("out0"), Echo("out1"), productions=Productions.WEAK),
        1,
        ONE,
        _IMPATIENT,
    ),
    ExhaustedScope("timers", _stages("timers", Windows("out0")), 1, ONE),
    ExhaustedScope("join of two streams", _stages("join", Echo("out0"), injectors=2), 1, ONE),
    ExhaustedScope(
        "recovery twice", _stages("one", Echo("out0")), 1, Scope(faults=2, delays=0, kinds=("crash",))
    ),
)

FIGURE_12 = ExhaustedScope(
    "figure 12", _stages("figure 12", Windows("out0")), 1, Scope(faults=1, delays=2, kinds=("reassign",))
)
"""Two workers, one key, one timer, one reassignment at any step, and every order of arrivals within two delays."""


def _smallest_zeitgeist() -> ExhaustedScope:
    """Return its two stages that make the model, and one search for each of three queries."""
    options = zeitgeist.ZeitgeistOptions(quiet_windows=0, warm_up_windows=0)
    pipeline = zeitgeist.anomaly_pipeline(
        "zeitgeist", "searches", UserSearch, zeitgeist.search_query, options=options
    )
    for detector in ("spike_detector", "dip_detector"):
        pipeline = pipeline.without(detector)
    builder = FeedBuilder(pipeline)
    for number, query in enumerate(("cat videos", "météo", "tahrir square")):
        at_us = (100 + number) * MILLISECOND
        builder.record(at_us=at_us, value=UserSearch(query), timestamp=at_us)
    return ExhaustedScope("zeitgeist", pipeline, 3, Scope(faults=1, delays=1), feed=builder.build())


Row = dict[str, str]
"""A line of a table: what its columns are called, and what they say."""


def sweep_zeitgeist() -> Iterator[Row]:
    """Exhaust every fault and every departure of the smallest Zeitgeist."""
    yield _exhausted(_smallest_zeitgeist())


def scopes() -> Iterator[Row]:
    """Exhaust each scope."""
    yield from map(_exhausted, SCOPES)


def _exhausted(measured: ExhaustedScope) -> Row:
    began_s = time.monotonic()
    result = search(ExhaustiveSearch(measured.application, measured.bounds), jobs=cores())
    exploration = result.exploration
    assert exploration is not None
    assert exploration.exhausted, f"{measured.name}: {result.failure}"
    took_s = time.monotonic() - began_s
    plain = count_without_reduction(measured.application, measured.bounds)
    return {
        "scope": measured.name,
        "fault kinds": ", ".join(measured.scope.kinds) if measured.scope.faults else "none",
        "faults, delays": f"{measured.scope.faults}, {measured.scope.delays}",
        "schedules without reduction": f"at least {plain:,}",
        "run": f"{exploration.total:,}",
        "pruned": f"{exploration.pruned:,}",
        "factor": f"{plain / exploration.total:.0f}",
        "time": f"{took_s:.0f} s",
    }


def matching() -> Iterator[Row]:
    """Count what matching of states could leave out at most, of the schedules with two departures."""
    for measured in (*(scope for scope in SCOPES if scope.scope == ONE), _smallest_zeitgeist()):
        counted, matched = count_matched(measured.application, measured.bounds)
        yield {
            "scope": measured.name,
            "schedules with two departures": f"{counted:,}",
            "left out at most": f"{matched:,}",
            "factor at most": f"{counted / (counted - matched):.1f}",
        }


def count_without_reduction(application: Application, scope: Scope, *, feed_seed: int = 0) -> int:
    """Count the schedules that a search without reduction would run, by the possible successors of each.

    Orders that only a run with a longer delay reveals are not counted, so the count is a lower bound.

    Args:
        application: what is under test.
        scope: the bounds.
        feed_seed: of the input.
    """
    plain = replace(scope, reduced=False)
    strategy = ExhaustiveSearch(application, plain, feed_seed=feed_seed)
    frontier, counted = [ScheduleMoves()], 1
    for moves in range(1, scope.moves + 1):
        children = (
            schedule.then(move) for schedule in frontier for move in strategy.moves(schedule, every=True)
        )
        frontier = list(children) if moves < scope.moves else []
        counted += len(frontier) or sum(1 for _ in children)
    return counted


def count_matched(application: Application, scope: Scope, *, feed_seed: int = 0) -> tuple[int, int]:
    """Count the schedules of two departures, and those whose second begins when the first has left no trace.

    That is, all further arrivals equal those of the run without departures, at the same times. State matching could leave
    out at most these.

    Args:
        application: what is under test.
        scope: the bounds.
        feed_seed: of the input.
    """
    strategy = ExhaustiveSearch(application, scope, feed_seed=feed_seed)
    root = ScheduleMoves()
    usual = strategy.recording(root).arrivals.handled
    counted = matched = 0
    for schedule in map(root.then, strategy.moves(root)):
        recording = strategy.recording(schedule)
        handled = recording.arrivals.handled
        pairs = zip(reversed(handled), reversed(usual), strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0].is_as(pair[1]), pairs))
        starts = [move.position.clock for move in strategy.moves(schedule, recording)]
        counted += len(starts)
        matched += sum(clock > len(handled) - same for clock in starts)
    return counted, matched


def figure_12() -> Iterator[Row]:
    """Exhaust the figure's scope, and find the shortest counterexample without sequencers."""
    for protocol in (SOUND, MUTANTS["without sequencers"]):
        result = search(
            ExhaustiveSearch(FIGURE_12.application, FIGURE_12.bounds, protocol=protocol), jobs=cores()
        )
        exploration, failure = result.exploration, result.failure
        assert exploration is not None
        assert exploration.exhausted == (failure is None)
        yield {
            "protocol": protocol.name,
            "schedules": f"{exploration.total:,}",
            "result": "exhausted, nothing breaks" if failure is None else "a counterexample",
            "story": "" if failure is None else "\n".join(_story(failure, protocol)),
        }


def _story(failure: Failure, protocol: Protocol) -> tuple[str, ...]:
    """Tell how the figure's rule was broken, in sentences."""
    trial = PipelineTrial(failure.plan, failure.feed_seed, failure.kept)
    history, verdicts, _ = run_plan(FIGURE_12.application, trial, protocol)
    narrative = narrate(history, verdicts, pipelines=[FIGURE_12.pipeline])
    assert narrative is not None
    return narrative.paragraphs


def mutants(names: Sequence[str] = ()) -> Iterator[Row]:
    """Find the smallest scope, of at most three records and one departure, in which each broken protocol shows."""
    for name, mutant in CATALOGUE.items():
        if not names or name in names:
            scope = smallest(WORKLOADS[mutant.workload], MUTANTS[name])
            cells = zip(("records", "faults", "delays", "schedules"), map(str, scope), strict=True)
            yield {"mutant": name, **dict(cells)}


def smallest(workload: Workload, protocol: Protocol) -> tuple[int | str, int | str, int | str, int]:
    """Return the smallest (records, faults, delays) that break a protocol, and how many schedules it took; dashes: none.

    The input is the workload's own; if that shows nothing, records of one key that come nearly at once.
    """
    schedules = 0
    options = small_cluster(options=workload.options)
    burst = Application.with_input(workload.deployed, _burst(workload.pipeline))
    bounds = product((workload.application, burst), ((0, 0), (0, 1), (1, 0)), (1, 2, 3))
    for application, (faults, delays), records in bounds:
        scope = Scope(records, faults, delays, options=options)
        result = search(ExhaustiveSearch(application, scope, protocol=protocol), jobs=cores())
        assert result.exploration is not None
        schedules += result.exploration.total
        if result.failure is not None:
            return records, faults, delays, schedules
    return "-", "-", "-", schedules


def _burst(pipeline: Pipeline) -> Feed:
    """Three records of one key a millisecond apart, each of a time far from the others', and the end of the source."""
    builder, doors = FeedBuilder(pipeline), [*pipeline.injectors]
    for number in range(3):
        at_us, timestamp = (2_000 + number) * MILLISECOND, (number + 1) * 600 * MILLISECOND
        injector = doors[number % len(doors)]
        builder.record(at_us=at_us, value=number + 1, timestamp=timestamp, key="ab", injector=injector)
    return builder.build()
