"""How large a scope can be exhausted, how much of it is left out, and how small a scope finds a broken protocol.

``python -m headrace_benchmarks.exhaustive`` prints the tables of docs/explanation/exhaustive.md; with ``scopes``, ``mutants``,
``figure-12`` or ``zeitgeist`` as arguments, only these.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import msgspec

from headrace import MILLISECOND, Computation, EngineOptions, Pipeline, Productions
from headrace_properties.mutants import CATALOGUE, MUTANTS
from headrace_properties.search.application import Application
from headrace_properties.search.exhaustive import count_without_reduction, explore
from headrace_properties.search.parallel import cores
from headrace_properties.search.scope import Scope, small_cluster
from headrace_properties.search.workloads import WORKLOADS, Echo, Windows, Workload, same
from headrace_scenarios import zeitgeist
from headrace_scenarios.zeitgeist.queries import UserSearch
from headrace_sim import SOUND, Feed, FeedBuilder, Protocol


@dataclass(frozen=True, slots=True)
class Measured:
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
    """Records of one key for each injector, and the end of the source: what is not about them is little."""
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
    Measured("1 key, 1 record", _stages("one", Echo("out0")), 1, ONE),
    Measured("1 key, 2 records", _stages("one", Echo("out0")), 2, ONE),
    Measured("2 computations", TWO, 1, ONE),
    Measured("2 computations", TWO, 1, Scope(faults=0, delays=3)),
    Measured(
        "weak with stragglers",
        _stages("weak", Echo("out0"), Echo("out1"), productions=Productions.WEAK),
        1,
        ONE,
        _IMPATIENT,
    ),
    Measured("timers", _stages("timers", Windows("out0")), 1, ONE),
    Measured("join of two streams", _stages("join", Echo("out0"), injectors=2), 1, ONE),
    Measured("recovery twice", _stages("one", Echo("out0")), 1, Scope(faults=2, delays=0, kinds=("crash",))),
)

FIGURE_12 = Measured(
    "figure 12", _stages("figure 12", Windows("out0")), 1, Scope(faults=1, delays=2, kinds=("reassign",))
)
"""Two workers, one key, one timer, one reassignment at any step, and every order of arrivals within two delays."""


def _smallest_zeitgeist() -> Measured:
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
    return Measured("zeitgeist", pipeline, 3, Scope(faults=1, delays=1), feed=builder.build())


def sweep_zeitgeist() -> Iterator[str]:
    """Exhaust every fault and every departure of the smallest Zeitgeist."""
    yield from _exhausted(_smallest_zeitgeist())


def scopes(names: Sequence[str] = ()) -> Iterator[str]:
    """Exhaust each scope; give the table's lines."""
    yield "| scope | faults, delays | schedules without reduction | run | factor | time |"
    yield "|---|---|---|---|---|---|"
    for scope in SCOPES:
        if names and scope.name not in names:
            continue
        yield from _exhausted(scope)


def _exhausted(measured: Measured) -> Iterator[str]:
    began_s = time.monotonic()
    found = explore(measured.application, measured.bounds, jobs=cores())
    assert found.exploration is not None
    assert found.exploration.exhausted, f"{measured.name}: {found.failure}"
    run, took_s = found.exploration.total, time.monotonic() - began_s
    naive = count_without_reduction(measured.application, measured.bounds)
    bounds = f"{measured.scope.faults}, {measured.scope.delays}"
    yield f"| {measured.name} | {bounds} | at least {naive:,} | {run:,} | {naive / run:.0f} | {took_s:.0f} s |"


def figure_12() -> Iterator[str]:
    """Exhaust the figure's scope, and find the shortest counterexample without sequencers."""
    for protocol in (SOUND, MUTANTS["without sequencers"]):
        found = explore(FIGURE_12.application, FIGURE_12.bounds, protocol=protocol, jobs=cores())
        exploration, failure = found.exploration, found.failure
        assert exploration is not None
        how_far = "exhausted" if exploration.exhausted else "a counterexample"
        yield f"{protocol.name}: {how_far} after {exploration.total:,} schedules"
        if failure is not None:
            yield from (f"  {line}" for line in failure.plan.describe())
            yield from (f"  {name}: {one.message}" for name, one in failure.violations.items())


def mutants(names: Sequence[str] = ()) -> Iterator[str]:
    """Find the smallest scope, of at most three records and one departure, in which each broken protocol shows; give lines."""
    yield "| mutant | records | faults | delays | schedules |"
    yield "|---|---|---|---|---|"
    for name, mutant in CATALOGUE.items():
        if not names or name in names:
            yield f"| {name} | {' | '.join(map(str, smallest(WORKLOADS[mutant.workload], MUTANTS[name])))} |"


def smallest(workload: Workload, protocol: Protocol) -> tuple[int | str, int | str, int | str, int]:
    """Return the smallest (records, faults, delays) that break a protocol, and how many schedules it took; dashes: none.

    The input is the workload's own; if that shows nothing, records of one key that come nearly at once.
    """
    schedules = 0
    base, engine = small_cluster(), replace(workload.options.engine, masters=1, authority_replicas=1)
    options = msgspec.structs.replace(workload.options, workers=base.workers, engine=engine)
    burst = Application.with_input(workload.deployed, _burst(workload.pipeline))
    bounds = product((workload.application, burst), ((0, 0), (0, 1), (1, 0)), (1, 2, 3))
    for application, (faults, delays), records in bounds:
        scope = Scope(records, faults, delays, options=options)
        found = explore(application, scope, protocol=protocol, jobs=cores())
        assert found.exploration is not None
        schedules += found.exploration.total
        if found.failure is not None:
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


def main(tables: Sequence[str]) -> None:
    """Print the tables named, or all."""
    every = {"scopes": scopes, "mutants": mutants, "figure-12": figure_12, "zeitgeist": sweep_zeitgeist}
    for name in tables or every:
        for line in every[name]():
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
