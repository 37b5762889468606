"""Plans: a fixed-length byte string decoded into everything that varies from run to run.

Zeros mean the healthy default, so a shrinker that makes bytes smaller removes faults. A plan is cheap to draw (one byte string)
and small to keep. Swarm testing: the first two bytes of the header pick the kinds of faults that this plan may use; zero means
all of them. Two bits correlate its faults: all at about the same time, or all at the same place. A few plans never heal the
first process that they stop (`FaultSchedule.lasting`). Some faults are tied to protocol steps instead of times.

`PLAN_BYTES` bytes choose from the first table of kinds. A plan of a later table ends in one more byte, the table's number
(`headrace_properties.search.fault_kinds`).
"""

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import chain
from random import Random
from typing import Any

import msgspec

from headrace import MILLISECOND, SECOND, Eviction
from headrace_properties.search.fault_kinds import FIRST_TABLE, MAKERS, STEPS, TABLES, Slot
from headrace_properties.search.ground import FIRST_KEY, Ground, ground_of
from headrace_sim import ClusterOptions, Delay, Feed, Priorities, Uniform, Versions
from headrace_sim import faults as f
from headrace_sim.steps import role_of

__all__ = [
    "FAULT_SLOTS",
    "FIRST_KEY",
    "HEADER_BYTES",
    "MAKERS",
    "PLAN_BYTES",
    "SLOT_BYTES",
    "STEPS",
    "Ground",
    "Plan",
    "decode_plan",
    "draw_faults",
    "ground_of",
    "random_plan",
]

FAULT_SLOTS = 10
SLOT_BYTES = 5
HEADER_BYTES = 8
_DENSITY = 112
"""Slot bytes from here on also mean no fault: of ten random slots, four or five act."""

PLAN_BYTES = HEADER_BYTES + FAULT_SLOTS * SLOT_BYTES
"""The length of a plan of the first table."""


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """What varies from run to run.

    Attributes:
        faults: what goes wrong.
        options: of the cluster: the knobs.
        seed: of all draws.
        delays: the arrivals that others overtake; all others arrive as early as possible. ``None``: latencies are drawn.
        priorities: by which messages arrive instead of at drawn latencies.
    """

    faults: f.FaultSchedule
    options: ClusterOptions
    seed: int
    delays: tuple[Delay, ...] | None = None
    priorities: Priorities | None = None

    def describe(self) -> list[str]:
        """Describe what is unusual about its run, one item per line."""
        order = [delay.describe() for delay in self.delays or ()]
        order += [] if self.priorities is None else [self.priorities.describe()]
        return order + (self.faults.describe().splitlines() if self.faults.count or not order else [])


def decode_plan(data: bytes, ground: Ground, base: ClusterOptions) -> Plan:
    """Turn bytes into a plan; all zeros are a run without faults, with the base options and seed 0.

    Args:
        data: `PLAN_BYTES` bytes, and one more that names the table of kinds unless it is the first.
        ground: what there is to disturb.
        base: the options that zeros stand for.
    """
    number = data[PLAN_BYTES] if len(data) == PLAN_BYTES + 1 else FIRST_TABLE
    assert len(data) in (PLAN_BYTES, PLAN_BYTES + 1), f"a plan has {PLAN_BYTES} bytes, not {len(data)}"
    assert number in TABLES, f"there is no table {number} of fault kinds, only {[*TABLES]}"
    swarm = data[0] | data[1] << 8
    makers = TABLES[number].makers_for(ground)
    kinds = [make for bit, make in enumerate(makers) if not swarm or swarm >> (bit % 16) & 1] or makers
    faults = list(
        chain.from_iterable(
            _each(kinds[(kind - 1) % len(kinds)](slot)) for kind, slot in _slots(data, ground)
        )
    )
    timed = tuple(fault for fault in faults if not isinstance(fault, f.StepFault))
    tied = tuple(fault for fault in faults if isinstance(fault, f.StepFault))
    heal_at_us = ground.horizon_us + data[2] % 4 * SECOND if faults else 0
    lasting = _lasting(timed, ground) if data[2] >> 4 == _LASTING else ()
    seed = data[6] | data[7] << 8
    return Plan(f.FaultSchedule(timed, heal_at_us, lasting, tied), _knobs(data, base), seed)


def random_plan(
    versions: Versions, feed: Feed, options: ClusterOptions, seed: int, table: int = FIRST_TABLE
) -> Plan:
    """Return the plan of a seed: random, or for seed 0 without faults.

    Args:
        versions: what is run; the first is in force from the start.
        feed: its input.
        options: the base options.
        seed: of the plan.
        table: of the kinds of faults.
    """
    data = Random(f"{seed}/plan").randbytes(PLAN_BYTES) if seed else bytes(PLAN_BYTES)
    if table != FIRST_TABLE:
        data += bytes([table])
    return decode_plan(data, ground_of(versions, feed, options), options)


def _each(
    faults: f.AnyFault | f.StepFault | tuple[f.AnyFault | f.StepFault, ...],
) -> tuple[f.AnyFault | f.StepFault, ...]:
    return faults if isinstance(faults, tuple) else (faults,)


_SAME_TIME, _SAME_PLACE, _LASTING = 4, 8, 1
"""In the third byte of the header: all faults within an eighth of the run, all at one place, and one that is never healed."""


def _slots(data: bytes, ground: Ground) -> Iterator[tuple[int, Slot]]:
    """Yield the active slots, each with the byte that chooses its kind."""
    slots = (data[begin : begin + SLOT_BYTES] for begin in range(HEADER_BYTES, PLAN_BYTES, SLOT_BYTES))
    first: bytes | None = None
    for kind, when, where, how, how_long in slots:
        if not 0 < kind < _DENSITY:
            continue
        first = first or bytes([when, where])
        if data[2] & _SAME_TIME:
            when = min(first[0] + when // 8, 255)  # noqa: PLW2901
        if data[2] & _SAME_PLACE:
            where = first[1]  # noqa: PLW2901
        at_us = ground.moment(when * ground.busy_us // 256)
        yield kind, Slot(ground, at_us, when, where, how, how_long)


def _lasting(faults: Sequence[f.AnyFault], ground: Ground) -> tuple[str, ...]:
    """Find the first process that is stopped or cut off, if the others can do without it: a bad minority for good (TigerBeetle).

    Choice: only one that is cut off from all others, both ways. A process that the masters still hear is not replaced.
    """
    for fault in faults:
        match fault:
            case f.Crash(process=process) | f.Pause(process=process):
                pass
            case f.Partition(side=(process,), other=(), one_way=False):
                pass
            case _:
                continue
        if process in _spare(ground):
            return (process,)
    return ()


def _spare(ground: Ground) -> tuple[str, ...]:
    """List the processes of which any single one is dispensable; no injectors, whose sources have no other reader."""
    groups = [leader.rpartition(".")[0] or role_of(leader) for leader in ground.leaders]
    workers = ground.workers if len(ground.workers) > 1 else ()
    return workers + tuple(
        leader for leader, group in zip(ground.leaders, groups, strict=True) if groups.count(group) > 1
    )


def draw_faults(
    ground: Ground,
    count: int,
    seed: int,
    without: tuple[type[f.Fault], ...] = (),
    table: int = FIRST_TABLE,
) -> f.FaultSchedule:
    """Draw a schedule for one run of any length: faults of any kind, at any time, anywhere.

    Args:
        ground: what there is to disturb.
        count: how many faults.
        seed: of the draws.
        without: kinds that are left out.
        table: of the kinds; a seed means the same faults of the same table for ever.
    """
    random, makers = Random(f"{seed}/faults"), TABLES[table].makers_for(ground)
    faults: list[f.AnyFault] = []
    while len(faults) < count:
        at_us = ground.moment(random.randrange(ground.busy_us))
        where, how, how_long = random.randbytes(3)
        drawn = _each(random.choice(makers)(Slot(ground, at_us, 0, where, how, how_long)))
        timed = [fault for fault in drawn if not isinstance(fault, f.StepFault)]
        if len(timed) == len(drawn) and not isinstance(timed[0], without):
            faults += timed
    return f.FaultSchedule(tuple(faults), ground.horizon_us + SECOND if faults else 0)


_MORE_KNOBS = {
    1: ("collect_period_us", 100 * MILLISECOND),
    2: ("delete_delay_us", 0),
    4: ("straggler_delay_us", 20 * MILLISECOND),
    8: ("bloom_capacity", 8),
    64: ("commit_linger_us", 20 * MILLISECOND),
}
"""Bit of the second byte of knobs: the option and its value."""


def _knobs(data: bytes, base: ClusterOptions) -> ClusterOptions:
    """Set the options that the bytes vary; zero leaves the default."""
    knobs, more, skew = data[3], data[4], data[5]
    engine = base.engine
    changes: dict[str, Any] = {}
    if knobs & 3:
        changes["commit_batch"] = (1, 2, 8)[(knobs & 3) - 1]
    if knobs & 4:
        changes["commits_in_flight"] = 1
    if knobs & 24:
        changes["cache_bytes"] = (0, 600, 2_000)[(knobs >> 3 & 3) - 1]
    if knobs & 32:
        changes["eviction"] = Eviction.LRU
    if knobs & 64:
        changes["scan_page_rows"] = 1
    if knobs & 128:
        changes["id_slack_us"] = 0
    changes |= {name: value for bit, (name, value) in _MORE_KNOBS.items() if more & bit}
    if changes:
        engine = dataclasses.replace(engine, **changes)
    clock = Uniform(0, skew * 4 * MILLISECOND) if skew else base.clock_skew
    lag = Uniform(0, 30 * MILLISECOND) if more & 16 else base.timer_lag
    store = Uniform(500, 60_000) if more & 32 else base.store_write
    return msgspec.structs.replace(base, engine=engine, clock_skew=clock, timer_lag=lag, store_write=store)
