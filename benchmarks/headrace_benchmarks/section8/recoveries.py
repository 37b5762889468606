"""Recovery by size of the interval, with and without asynchronous scans (MillWheel 6.2).

An owner crashes; its successor scans the rows of the interval while records come for it.
"""

import dataclasses
import random
from collections.abc import Iterator
from statistics import fmean

import msgspec

from headrace import SECOND, Pipeline
from headrace.history import Applied, History, Injected, IntervalMinted, ScanEnded
from headrace_benchmarks.section8.calibration import CALIBRATION
from headrace_benchmarks.section8.experiment import Experiment, RunSample
from headrace_benchmarks.section8.statistics import quantile
from headrace_benchmarks.shuffle import KeySum
from headrace_sim import ClusterOptions, FaultSchedule, Feed, FeedBuilder, simulate
from headrace_sim.faults import Crash

SCAN = "until all rows are scanned, ms"
MEDIAN = "until a record is applied, median, ms"
MOST = "until a record is applied, 95 %, ms"
EARLY = "applied before the scan ends, %"
WAITS, ASYNCHRONOUS = "records wait", "asynchronous"
_PAGE_ROWS = 100
_BEGIN_US = 2 * SECOND
_A_SECOND = 250
"""Records a second while the rows are made; one machine can process about 350."""
_CALM_US = SECOND
_RECORDS_US = 6 * SECOND
_OWNER = "worker-0"


def pipeline() -> Pipeline:
    """One computation, with one interval."""
    built = Pipeline("recovery")
    built.injector("records")
    built.add(KeySum(), name="count", inputs=["records"])
    return built


def run_recovery(keys: int, seed: int, *, asynchronous: bool) -> History:
    """Let the owner of an interval with this many rows crash, while records come.

    Args:
        keys: how many keys have a row.
        seed: of the run.
        asynchronous: see `EngineOptions.asynchronous_scans`.
    """
    crash = Crash(at_us=_made_us(keys) + _CALM_US, process=_OWNER, restart_after_us=2 * _RECORDS_US)
    faults = FaultSchedule((crash,))
    counting = pipeline()
    return simulate(
        counting,
        _feed(counting, keys, seed),
        options=_cluster(asynchronous=asynchronous),
        faults=faults,
        seed=seed,
    )


def _made_us(keys: int) -> int:
    """Return when all rows have been made, true time."""
    return _BEGIN_US + keys * SECOND // _A_SECOND


def _cluster(*, asynchronous: bool) -> ClusterOptions:
    cluster = CALIBRATION.cluster(2)
    engine = dataclasses.replace(cluster.engine, scan_page_rows=_PAGE_ROWS, asynchronous_scans=asynchronous)
    return msgspec.structs.replace(cluster, engine=engine)


def _feed(counting: Pipeline, keys: int, seed: int) -> Feed:
    """Return a record for each key; then records for any of them."""
    builder, draw = FeedBuilder(counting), random.Random(f"{seed}/recovery")
    for number in range(keys):
        at_us = _BEGIN_US + number * SECOND // _A_SECOND
        builder.record(at_us=at_us, value=1, timestamp=at_us, key=f"{number:06d}")
    at = float(_made_us(keys))
    while at < _made_us(keys) + _CALM_US + _RECORDS_US:
        builder.record(at_us=int(at), value=1, timestamp=int(at), key=f"{draw.randrange(keys):06d}")
        at += draw.expovariate(CALIBRATION.records_per_cpu / SECOND)
    return builder.build()


def figures_of(history: History) -> Iterator[tuple[str, float]]:
    """Yield the figures of a run: times from the mint of the successor's sequencer on."""
    mint = [event for event in history if isinstance(event, IntervalMinted)][-1]
    assert mint.owner != _OWNER, "the crashed owner has no successor"
    ended_us = next(
        event.at_us for event in history if isinstance(event, ScanEnded) and event.sequencer == mint.sequencer
    )
    came: dict[str, int] = {}
    applied: dict[str, int] = {}
    for event in history:
        if isinstance(event, Injected):
            for production in event.productions:
                came.setdefault(production.record_id, event.at_us)
        elif isinstance(event, Applied):
            for record_id, _ in event.delta.seen:
                applied.setdefault(record_id, event.at_us)
    waited = [id_ for id_, at_us in came.items() if at_us <= ended_us and applied[id_] > mint.at_us]
    waits_us = sorted(applied[id_] - max(came[id_], mint.at_us) for id_ in waited)
    yield SCAN, (ended_us - mint.at_us) / 1_000
    yield MEDIAN, quantile(waits_us, 0.5) / 1_000
    yield MOST, quantile(waits_us, 0.95) / 1_000
    yield EARLY, 100 * fmean(applied[id_] < ended_us for id_ in waited)


def sample(point: str, seed: int) -> RunSample:
    """Run one size of the interval, both ways."""
    keys = int(point.partition(" ")[0].replace(",", ""))
    values: list[tuple[str, str, float]] = []
    for way in (WAITS, ASYNCHRONOUS):
        history = run_recovery(keys, seed, asynchronous=way == ASYNCHRONOUS)
        values += [(f"{point}, {way}", figure, value) for figure, value in figures_of(history)]
    return RunSample(point, seed, tuple(values))


_POINTS = ("100 keys", "400 keys", "1,600 keys", "6,400 keys")

EXPERIMENT = Experiment(
    "recovery",
    "6.2, asynchronous scans",
    "A new owner's recovery by size of its interval: records wait for the scan, or are processed meanwhile",
    _POINTS,
    _POINTS[:3],
    sample,
    f"Times begin when the store mints the new owner's sequencer. A page of a scan has {_PAGE_ROWS} rows and takes as long as a"
    " write. Counted are the records that were not applied by then, or came before the scan ended. With asynchronous scans, a"
    " record whose key the scan has not reached waits for a read of its row instead of the rest of the scan. For an interval of"
    " one page there is no difference. Such a read costs the store as much as a page, and the scan ends later, as the machine is"
    " busy with records; until then the low watermark stands still. So asynchronous scans are an option"
    " (`EngineOptions.asynchronous_scans`), not the default.",
    wide=True,
)
