"""Figure 16: CPU time of workers and store against the caches' size, by policy and load (MillWheel 8.3)."""

from itertools import product
from statistics import correlation

from headrace import Eviction
from headrace_benchmarks.section8.caching import COSTS, Buffering, load_of
from headrace_benchmarks.section8.experiment import Experiment, Sample
from headrace_benchmarks.section8.paper import FACTOR, STRAIGHT

PAPER_MB = 550
_PARTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
_HOLDS_ALL = 1.25
_LOADS = {"written once": 1, "written 3 times": 3}
"""How many records a session has; its bytes are the same."""
_POLICIES = {"by boundary": Eviction.BOUNDARY, "LRU": Eviction.LRU}
_POINTS = tuple(f"{policy}, {load}" for load, policy in product(_LOADS, _POLICIES))
STRAIGHT_POINTS = tuple(point for point in _POINTS if point.startswith("by boundary"))
"""By LRU there is no line: as long as anything is lost, it is what is fetched next."""
_WORKING_SET_BYTES = Buffering(cache_part=1.0).working_set_bytes


def sample(point: str, seed: int) -> Sample:
    """Run one policy on one load, with each size of the cache."""
    found = {part: load_of(_buffering(point, part), seed).cpu_us for part in _PARTS}
    percent = [(place_of(part), point, 100 * cpu_us / found[0.0]) for part, cpu_us in found.items()]
    rising = [part for part in _PARTS if part <= 1]
    values = [*percent, (FACTOR, point, found[0.0] / found[_HOLDS_ALL])]
    if point in STRAIGHT_POINTS:
        straight = correlation(rising, [found[part] for part in rising]) ** 2
        values.append((STRAIGHT, point, straight))
    return Sample(point, seed, tuple(values))


def place_of(part: float) -> str:
    """How the table calls a size.

    >>> place_of(0.0), place_of(0.5)
    ('no cache', '50 %, 2.8 MB')
    """
    return f"{part * 100:.0f} %, {part * _WORKING_SET_BYTES / 1e6:.1f} MB" if part else "no cache"


def part_of(place: str) -> float | None:
    """Which part of the working set a row of the table is about; ``None``: about all of them."""
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
    "CPU of workers and store against cache size, % of that without a cache",
    _POINTS,
    _POINTS[:2],
    sample,
    f"Scale: the working set, the rows that wait for the watermark at a time, has {_WORKING_SET_BYTES / 1e6:g} MB, where the"
    f" paper's had about {PAPER_MB}: 1 to {PAPER_MB * 1e6 / _WORKING_SET_BYTES:.0f}. What waits is a tenth more, by the lag of"
    " the watermark, which is why the last bit comes between 100 and 125 %. CPU time is counted, not drawn: each request"
    f" for rows costs by its bytes. A read of a row: 4 messages of {COSTS.message:g} µs, {COSTS.block:g} µs for a block of"
    f" 64 KiB, {COSTS.read_kb + COSTS.code_kb:g} µs a kB; a write: the messages and {COSTS.write_kb + COSTS.code_kb:g} µs a kB:"
    " from Bigtable's own evaluation, nothing fitted (reasons in `section8/caching.py`). The paper's load is not known: with"
    " larger rows and more user code the factor is smaller. Sessions end one after the other. A row that is written once is"
    " fetched when it is the oldest, so that LRU has always just lost it, until nothing need be lost; by boundary the part that"
    " is kept is the part that is found. Rows that are written 3 times within 0.2 s show the other side: by boundary the"
    " newest row leaves first, also if it is about to be written again, and with a small cache LRU is better.",
    wide=True,
)
