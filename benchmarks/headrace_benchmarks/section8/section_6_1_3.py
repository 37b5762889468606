"""6.1.3: deep pipelines on failing machines, with strong and weak productions."""

from collections.abc import Iterator
from statistics import fmean

from headrace import MILLISECOND, Productions
from headrace_benchmarks.section8.deep import (
    FAILS_A_MINUTE,
    MINUTE_US,
    Depth,
    Found,
    chance_to_meet_a_failure,
    closed_form,
    run_deep,
)
from headrace_benchmarks.section8.experiment import Experiment, RunSample
from headrace_benchmarks.section8.paper import CHANCE
from headrace_benchmarks.section8.statistics import quantile
from headrace_properties.search.production_modes import ProductionMode

CLOSED_FORM = "closed form, %"
TAIL = "95 % of latencies, simulated ms"
RETAINED = "retained by senders, mean kB"
WAYS = (
    ProductionMode("weak, no straggler checkpoints", Productions.WEAK, checkpoints=False),
    ProductionMode("weak, checkpoints after 1 s", Productions.WEAK),
    ProductionMode("strong", Productions.STRONG),
)
_POINTS = ("1 stage", *(f"{stages} stages" for stages in range(2, 9)))


def sample(point: str, seed: int) -> RunSample:
    """Run one depth in each combination, with the same failures."""
    stages = int(point.split(maxsplit=1)[0])
    results = {way.name: run_deep(Depth(stages, way), seed) for way in WAYS}
    values = [(f"{point}, {way}", *value) for way, result in results.items() for value in _figures(result)]
    values += [
        (point, CHANCE, 100 * chance_to_meet_a_failure(stages, seed)),
        (point, CLOSED_FORM, 100 * closed_form(stages)),
    ]
    return RunSample(point, seed, tuple(values))


def _figures(result: Found) -> Iterator[tuple[str, float]]:
    latencies, held = sorted(result.costs.latencies_us), sorted(result.costs.held_us)
    yield "median latency, simulated ms", quantile(latencies, 0.5) / MILLISECOND
    yield TAIL, quantile(latencies, 0.95) / MILLISECOND
    yield "99 % of latencies, simulated ms", quantile(latencies, 0.99) / MILLISECOND
    yield RETAINED, result.retained_bytes / 1_000
    yield "retention of a production, mean simulated ms", fmean(held) / MILLISECOND
    yield "retention of a production, 99 %, simulated ms", quantile(held, 0.99) / MILLISECOND


EXPERIMENT = Experiment(
    "depth",
    "6.1.3",
    "Pipelines of depth 1 to 8 on failing machines",
    _POINTS,
    (_POINTS[0], _POINTS[4], _POINTS[7]),
    sample,
    f"As the paper assumes, {FAILS_A_MINUTE:.0%} of the machines fail per minute; here a minute is compressed to"
    f" {MINUTE_US // 1_000_000} s, and it takes as long to notice a failure. Records that hit a failure: those that passed a"
    " machine that failed in the same minute, according to the History of a 20-minute run; closed form: 1 - 0.99^depth. Retained:"
    " bytes of productions from when they are made until their sender receives the ACK, including injectors. A weak sender"
    " retains its productions until all later stages are done, so the retained bytes grow with the square of the depth; a strong"
    " sender retains them only until the next stage is done. Checkpoints of stragglers free earlier senders. They hardly change"
    " latencies here: records that wait for the failed machine still wait; only other records of the earlier keys can proceed.",
    wide=True,
)
