"""Plans: a fixed-length byte string decoded into everything that varies from run to run.

Zeros mean the healthy default, so that a shrinker that makes bytes smaller removes faults. A plan is cheap to draw (one byte
string), and small to keep. Swarm testing: a header byte pair picks which kinds of fault this plan may use at all, zero meaning
all of them.
"""

import dataclasses
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from millrace import MILLISECOND, SECOND, Eviction, Pipeline
from millrace._messages import MergeIntervals, MoveInterval, SplitInterval
from millrace_sim import ClusterOptions, Feed, Uniform
from millrace_sim import faults as f

FAULT_SLOTS = 10
_SLOT_BYTES = 5
_HEADER_BYTES = 8
_DENSITY = 112
"""Slot bytes from here on mean no fault either: drawn at random, four or five of ten slots act."""

PLAN_BYTES = _HEADER_BYTES + FAULT_SLOTS * _SLOT_BYTES
"""The length of every plan."""


class Plan(msgspec.Struct, frozen=True):
    """What varies from run to run: the faults, the knobs, and the seed of all draws."""

    faults: f.FaultSchedule
    options: ClusterOptions
    seed: int


class Ground(msgspec.Struct, frozen=True):
    """What a plan's bytes refer to: names of processes and keys, and how long there is something to disturb.

    Attributes:
        workers: addresses.
        leaders: addresses of masters and authorities.
        injectors: addresses of injectors' processes.
        computations: names.
        keys: some keys of the feed, for operators' verbs.
        horizon_us: faults begin before this.
    """

    workers: tuple[str, ...]
    leaders: tuple[str, ...]
    injectors: tuple[str, ...]
    computations: tuple[str, ...]
    keys: tuple[str, ...]
    horizon_us: int

    @property
    def processes(self) -> tuple[str, ...]:
        """All addresses."""
        return self.workers + self.leaders + self.injectors


def ground_of(pipeline: Pipeline, feed: Feed, options: ClusterOptions) -> Ground:
    """Find what there is to disturb."""
    engine = options.engine
    authorities = [a for shard in range(engine.authority_shards) for a in engine.authority_addresses(shard)]
    keys = sorted(
        {key for spec in pipeline.computations.values() for key in spec.split_at} | {"c", "g", "m", "s"}
    )
    return Ground(
        workers=tuple(f"worker-{number}" for number in range(options.workers)),
        leaders=(*engine.master_addresses(), *authorities),
        injectors=tuple(a for spec in pipeline.injectors.values() for a in spec.addresses()),
        computations=tuple(pipeline.computations),
        keys=tuple(keys),
        horizon_us=feed.end_us + SECOND,
    )


def decode_plan(data: bytes, ground: Ground, base: ClusterOptions) -> Plan:
    """Turn bytes into a plan; all zeros are a run without faults, with the base options and seed 0.

    Args:
        data: `PLAN_BYTES` bytes.
        ground: what there is to disturb.
        base: the options that zeros stand for.
    """
    assert len(data) == PLAN_BYTES, f"a plan has {PLAN_BYTES} bytes, not {len(data)}"
    swarm = data[0] | data[1] << 8
    kinds = [make for bit, make in enumerate(MAKERS) if not swarm or swarm >> (bit % 16) & 1] or list(MAKERS)
    faults = []
    for begin in range(_HEADER_BYTES, PLAN_BYTES, _SLOT_BYTES):
        kind, when, where, how, how_long = data[begin : begin + _SLOT_BYTES]
        if 0 < kind < _DENSITY:
            at_us = when * ground.horizon_us // 256
            faults.append(kinds[(kind - 1) % len(kinds)](_Bytes(ground, at_us, where, how, how_long)))
    heal_at_us = ground.horizon_us + data[2] % 4 * SECOND
    seed = data[6] | data[7] << 8
    return Plan(f.FaultSchedule(tuple(faults), heal_at_us if faults else 0), _knobs(data, base), seed)


def draw_faults(
    ground: Ground, count: int, seed: int, without: tuple[type[f.Fault], ...] = ()
) -> f.FaultSchedule:
    """Draw a schedule for one run, however long: each fault of any kind, at any time, anywhere.

    Args:
        ground: what there is to disturb.
        count: how many faults.
        seed: of the draws.
        without: kinds that are left out.
    """
    random = Random(f"{seed}/faults")
    faults: list[f.AnyFault] = []
    while len(faults) < count:
        at_us = random.randrange(ground.horizon_us)
        where, how, how_long = random.randbytes(3)
        fault = random.choice(MAKERS)(_Bytes(ground, at_us, where, how, how_long))
        if not isinstance(fault, without):
            faults.append(fault)
    return f.FaultSchedule(tuple(faults), ground.horizon_us + SECOND if faults else 0)


_MORE_KNOBS = {
    1: ("collect_period_us", 100 * MILLISECOND),
    2: ("delete_delay_us", 0),
    4: ("straggler_delay_us", 20 * MILLISECOND),
    8: ("bloom_capacity", 8),
    64: ("commit_linger_us", 20 * MILLISECOND),
}
"""Bit of the second byte of knobs: the option, and what it is set to."""


def _knobs(data: bytes, base: ClusterOptions) -> ClusterOptions:
    """Every knob is drawn too; zero is the default."""
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


class _Bytes:
    """One slot's bytes, with the places that they can mean."""

    def __init__(self, ground: Ground, at_us: int, where: int, how: int, how_long: int) -> None:
        self.ground = ground
        self.at_us = at_us
        self.where = where
        self.how = how
        self.for_us = 20 * MILLISECOND + how_long * how_long * 60  # 20 ms to 3.9 s, mostly short

    def pick(self, places: Sequence[str]) -> str:
        """Which of them."""
        return places[self.where % len(places)]


def _crash(b: _Bytes) -> f.AnyFault:
    return f.Crash(at_us=b.at_us, process=b.pick(b.ground.processes), restart_after_us=b.for_us)


def _crash_worker(b: _Bytes) -> f.AnyFault:
    return f.Crash(
        at_us=b.at_us, process=b.pick(b.ground.workers), restart_after_us=None if b.how & 1 else b.for_us
    )


def _pause(b: _Bytes) -> f.AnyFault:
    return f.Pause(at_us=b.at_us, process=b.pick(b.ground.processes), for_us=b.for_us)


def _zombie(b: _Bytes) -> f.AnyFault:
    return f.Pause(at_us=b.at_us, process=b.pick(b.ground.workers), for_us=1_200 * MILLISECOND + b.for_us)


def _partition(b: _Bytes) -> f.AnyFault:
    side = b.pick(b.ground.processes)
    others: tuple[tuple[str, ...], ...] = ((), ("master-0", "master-1"), ("store",), b.ground.workers)
    other = tuple(name for name in others[b.how >> 1 & 3] if name != side)
    return f.Partition(at_us=b.at_us, side=(side,), other=other, for_us=b.for_us, one_way=bool(b.how & 1))


def _noise(b: _Bytes) -> f.AnyFault:
    kinds: tuple[tuple[str, ...], ...] = (
        (),
        ("Ack",),
        ("Deliver",),
        ("Report", "Watermarks"),
        ("Heartbeat", "Table"),
    )
    rates = ((0.2, 0.2, 0.2), (0.5, 0.0, 0.0), (0.0, 0.7, 0.0), (0.0, 0.0, 0.8))[b.how & 3]
    return f.Noise(
        at_us=b.at_us, for_us=b.for_us + SECOND, drop=rates[0], duplicate=rates[1], delay=rates[2],
        delay_us=(100 * MILLISECOND, SECOND, 3 * SECOND)[(b.how >> 2) % 3],
        kinds=kinds[b.where % len(kinds)],
    )  # fmt: skip


def _hold(b: _Bytes) -> f.AnyFault:
    message = ("Deliver", "Ack", "Report", "Table", "Watermarks", "InjectorReport", "Heartbeat")[b.how % 7]
    return f.Hold(at_us=b.at_us, message=message, count=1 + b.where % 4, for_us=b.for_us)


def _drop(b: _Bytes) -> f.AnyFault:
    message = ("Deliver", "Ack", "Report", "Table", "Watermarks", "InjectorReport", "Heartbeat")[b.how % 7]
    return f.DropMessages(at_us=b.at_us, message=message, count=1 + b.where % 4)


def _delay_commit(b: _Bytes) -> f.AnyFault:
    return f.DelayCommit(at_us=b.at_us, process=b.pick(b.ground.workers), count=1 + b.how % 3, by_us=b.for_us)


def _lose_commit(b: _Bytes) -> f.AnyFault:
    return f.LoseCommit(at_us=b.at_us, process=b.pick(b.ground.workers), count=1 + b.how % 3)


def _lose_reply(b: _Bytes) -> f.AnyFault:
    return f.LoseReply(at_us=b.at_us, process=b.pick(b.ground.workers), count=1 + b.how % 3)


def _duplicate_commit(b: _Bytes) -> f.AnyFault:
    return f.DuplicateCommit(
        at_us=b.at_us, process=b.pick(b.ground.workers), count=1 + b.how % 3, by_us=b.for_us
    )


def _store_unavailable(b: _Bytes) -> f.AnyFault:
    return f.StoreUnavailable(at_us=b.at_us, for_us=b.for_us // 2, silent=bool(b.how & 1))


def _store_errors(b: _Bytes) -> f.AnyFault:
    return f.StoreErrors(at_us=b.at_us, for_us=b.for_us, rate=0.5)


def _slow(b: _Bytes) -> f.AnyFault:
    return f.Slow(at_us=b.at_us, process=b.pick(b.ground.processes), for_us=b.for_us, factor=100 + b.how * 40)


def _skew(b: _Bytes) -> f.AnyFault:
    by_us = (b.how - 128) * 20 * MILLISECOND or SECOND
    return f.SkewClock(at_us=b.at_us, process=b.pick(b.ground.processes), by_us=by_us, for_us=b.for_us)


def _late(b: _Bytes) -> f.AnyFault:
    return f.LateRecords(
        at_us=b.at_us, process=b.pick(b.ground.injectors), count=1 + b.how % 4, by_us=b.for_us
    )


def _stall(b: _Bytes) -> f.AnyFault:
    return f.StallSource(at_us=b.at_us, process=b.pick(b.ground.injectors), for_us=b.for_us)


def _operate(b: _Bytes) -> f.AnyFault:
    computation, key = b.pick(b.ground.computations), b.ground.keys[b.how // 3 % len(b.ground.keys)]
    makers: tuple[Callable[[], f.Operate], ...] = (
        lambda: f.Operate(at_us=b.at_us, verb=MoveInterval(computation, key)),
        lambda: f.Operate(at_us=b.at_us, verb=SplitInterval(computation, key)),
        lambda: f.Operate(at_us=b.at_us, verb=MergeIntervals(computation, key)),
    )
    return makers[b.how % 3]()


MAKERS: tuple[Callable[[_Bytes], f.AnyFault], ...] = (
    _operate, _pause, _crash, _partition, _noise, _delay_commit, _hold, _drop, _zombie, _crash_worker, _lose_commit,
    _lose_reply, _duplicate_commit, _store_unavailable, _store_errors, _slow, _skew, _late, _stall,
)  # fmt: skip
"""What a slot can become. Every kind of fault is among them."""
