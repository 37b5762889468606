"""Figure 16: CPU time of workers and store over the caches' size, by policy and load (MillWheel 8.3)."""

from itertools import product
from statistics import correlation

from headrace import Eviction
from headrace_benchmarks.section8.caching import COSTS, Buffering, load_of
from headrace_benchmarks.section8.experiment import Experiment, RunSample
from headrace_benchmarks.section8.paper import FACTOR, STRAIGHT

PAPER_MB = 550
_PARTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
_HOLDS_ALL = 1.25
_LOADS = {"written once": 1, "written 3 times": 3}
"""The number of records in a session; its size is the same."""
_POLICIES = {"by boundary": Eviction.BOUNDARY, "LRU": Eviction.LRU}
_POINTS = tuple(f"{policy}, {load}" for load, policy in product(_LOADS, _POLICIES))
STRAIGHT_POINTS = tuple(point for point in _POINTS if point.startswith("by boundary"))
"""LRU gives no straight line: as long as it evicts anything, it evicts the row that is fetched next."""
_WORKING_SET_BYTES = Buffering(cache_part=1.0).working_set_bytes


def sample(point: str, seed: int) -> RunSample:
    """Run one policy with one load at each cache size."""
    loads_us = {part: load_of(_buffering(point, part), seed).cpu_us for part in _PARTS}
    percent = [(place_of(part), point, 100 * cpu_us / loads_us[0.0]) for part, cpu_us in loads_us.items()]
    rising = [part for part in _PARTS if part <= 1]
    values = [*percent, (FACTOR, point, loads_us[0.0] / loads_us[_HOLDS_ALL])]
    if point in STRAIGHT_POINTS:
        straight = correlation(rising, [loads_us[part] for part in rising]) ** 2
        values.append((STRAIGHT, point, straight))
    return RunSample(point, seed, tuple(values))


def place_of(part: float) -> str:
    """Return a cache size's name in the table.

    >>> place_of(0.0), place_of(0.5)
    ('no cache', '50 %, 2.8 MB')
    """
    return f"{part * 100:.0f} %, {part * _WORKING_SET_BYTES / 1e6:.1f} MB" if part else "no cache"


def part_of(place: str) -> float | None:
    """Return the cache size of a table row, as a fraction of the working set; ``None``: the row is about all sizes."""
    return {place_of(part): part for part in _PARTS}.get(place)


def _buffering(point: str, part: float) -> Buffering:
    policy, load = point.split(", ")
    records = _LOADS[load]
    return Buffering(
        part, _POLICIES[policy], records=records, record_bytes=Buffering(part).record_bytes // records
    )


EXPERIMENT = Experiment(
    "figure-16",
    "Figure 16",
    "CPU of workers and store over cache size, % of that without cache",
    _POINTS,
    _POINTS[:2],
    sample,
    f"Scale: the working set, the rows that wait for the watermark at one time, has {_WORKING_SET_BYTES / 1e6:g} MB; the paper's"
    f" had about {PAPER_MB} MB: 1 to {PAPER_MB * 1e6 / _WORKING_SET_BYTES:.0f}. Because the watermark lags, about a tenth more"
    " rows wait, so the last gain is between 100 and 125 %. CPU time is computed, not random: each request for rows costs"
    f" according to its size. A read of a row costs 4 messages of {COSTS.message:g} µs, {COSTS.block:g} µs for a block of 64 KiB,"
    f" and {COSTS.read_kb + COSTS.code_kb:g} µs per kB; a write costs the messages and {COSTS.write_kb + COSTS.code_kb:g} µs per"
    " kB. These costs are from Bigtable's own evaluation; nothing is fitted (see `section8/caching.py` for the reasons). The"
    " paper does not describe its load: with larger rows and more user code, the factor is smaller. Sessions end one after the"
    " other. A row that is written once is fetched when it is the oldest, so LRU has always just evicted it, unless the cache"
    " holds everything; by boundary, the hit rate equals the fraction that the cache holds. Rows that are written 3 times within"
    " 0.2 s show the opposite: by boundary, the newest row is evicted first, even if it is about to be written again, so LRU is"
    " better with a small cache.",
    wide=True,
)
