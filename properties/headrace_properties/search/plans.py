"""Plans: a fixed-length byte string decoded into everything that varies from run to run.

Zeros mean the healthy default, so that a shrinker that makes bytes smaller removes faults. A plan is cheap to draw (one byte
string), and small to keep. Swarm testing: a header byte pair picks which kinds of fault this plan may use at all, zero meaning
all of them. Two bits correlate its faults: all at about one time, or all at one place; a few plans leave what they stopped first
as it is for good (`FaultSchedule.lasting`). Some faults are tied to protocol steps instead of times.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

import msgspec

from headrace import MILLISECOND, SECOND, Eviction
from headrace.wire.messages import ChangeTopology, MergeIntervals, MoveInterval, SplitInterval
from headrace_sim import ClusterOptions, Does, Feed, Moment, Step, Uniform, Versions, versions_of
from headrace_sim import faults as f
from headrace_sim.steps import MESSAGES, role_of

FAULT_SLOTS = 10
SLOT_BYTES = 5
HEADER_BYTES = 8
_DENSITY = 112
"""Slot bytes from here on mean no fault either: drawn at random, four or five of ten slots act."""

PLAN_BYTES = HEADER_BYTES + FAULT_SLOTS * SLOT_BYTES
"""The length of every plan."""


FIRST_KEY = ""
"""It is in the first interval of every computation."""


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
        versions: how many versions of the pipeline an operator can put in force.
        boundaries: of each computation, in order: the keys at which its key space is divided from the start.
    """

    workers: tuple[str, ...]
    leaders: tuple[str, ...]
    injectors: tuple[str, ...]
    computations: tuple[str, ...]
    keys: tuple[str, ...]
    horizon_us: int
    versions: int = 1
    boundaries: tuple[tuple[str, ...], ...] = ()

    @property
    def processes(self) -> tuple[str, ...]:
        """All addresses."""
        return self.workers + self.leaders + self.injectors


def ground_of(pipeline: Versions, feed: Feed, options: ClusterOptions) -> Ground:
    """Find what there is to disturb."""
    engine, versions = options.engine, versions_of(pipeline)
    specs = {name: spec for version in versions for name, spec in version.computations.items()}
    authorities = [a for shard in range(engine.authority_shards) for a in engine.authority_addresses(shard)]
    keys = sorted({key for spec in specs.values() for key in spec.split_at} | {"c", "g", "m", "s"})
    return Ground(
        workers=tuple(f"worker-{number}" for number in range(options.workers)),
        leaders=(*engine.master_addresses(), *authorities),
        injectors=tuple(a for spec in versions[0].injectors.values() for a in spec.addresses()),
        computations=tuple(specs),
        keys=tuple(keys),
        horizon_us=feed.end_us + SECOND,
        versions=len(versions),
        boundaries=tuple(spec.split_at for spec in specs.values()),
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
    makers = makers_for(ground)
    kinds = [make for bit, make in enumerate(makers) if not swarm or swarm >> (bit % 16) & 1] or makers
    faults = [kinds[(one.kind - 1) % len(kinds)](one.bytes) for one in _slots(data, ground)]
    timed = tuple(one for one in faults if not isinstance(one, f.StepFault))
    tied = tuple(one for one in faults if isinstance(one, f.StepFault))
    heal_at_us = ground.horizon_us + data[2] % 4 * SECOND if faults else 0
    lasting = _lasting(timed, ground) if data[2] >> 4 == _LASTING else ()
    seed = data[6] | data[7] << 8
    return Plan(f.FaultSchedule(timed, heal_at_us, lasting, tied), _knobs(data, base), seed)


_SAME_TIME, _SAME_PLACE, _LASTING = 4, 8, 1
"""In the third byte of the header: all faults within an eighth of the run, all at one place, and one that is never healed."""


class _Slot(NamedTuple):
    kind: int
    bytes: "_Bytes"


def _slots(data: bytes, ground: Ground) -> Iterator[_Slot]:
    """The slots that act."""
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
        at_us = when * ground.horizon_us // 256
        yield _Slot(kind, _Bytes(ground, at_us, when, where, how, how_long))


def _lasting(faults: Sequence[f.AnyFault], ground: Ground) -> tuple[str, ...]:
    """The first process that is stopped or cut off, if the others can do without it: a permanently bad minority (TigerBeetle).

    Choice: only who is cut off from everybody, both ways. Whom the masters still hear is not replaced, and then nothing is due.
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
    """Processes one of which is not missed: an injector's source has no other reader."""
    leaders = [one.rpartition(".")[0] or role_of(one) for one in ground.leaders]
    workers = ground.workers if len(ground.workers) > 1 else ()
    return workers + tuple(
        one for one, group in zip(ground.leaders, leaders, strict=True) if leaders.count(group) > 1
    )


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
        fault = random.choice(makers_for(ground))(_Bytes(ground, at_us, 0, where, how, how_long))
        if not isinstance(fault, f.StepFault) and not isinstance(fault, without):
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

    def __init__(self, ground: Ground, at_us: int, when: int, where: int, how: int, how_long: int) -> None:
        self.ground = ground
        self.at_us = at_us
        self.when = when
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


def _operate(b: _Bytes) -> f.Operate:
    computation, which = b.pick(b.ground.computations), b.how // 3
    key = b.ground.keys[which % len(b.ground.keys)]
    # Half of the merges are of the first two intervals: all keys may be of the last one, which nothing can be merged with.
    first = key if which % 2 else FIRST_KEY
    makers: tuple[Callable[[], f.Operate], ...] = (
        lambda: f.Operate(at_us=b.at_us, verb=MoveInterval(computation, key)),
        lambda: f.Operate(at_us=b.at_us, verb=SplitInterval(computation, key)),
        lambda: f.Operate(at_us=b.at_us, verb=MergeIntervals(computation, first)),
    )
    return makers[b.how % 3]()


STEPS: dict[str, tuple[tuple[Does, str], ...]] = {
    "worker": (
        (Does.SENDS, "Write"), (Does.RECEIVES, "Written"), (Does.RECEIVES, "Deliver"), (Does.SENDS, "Ack"),
        (Does.SENDS, "Deliver"), (Does.RECEIVES, "Ack"), (Does.RECEIVES, "Table"), (Does.SENDS, "Scan"),
        (Does.RECEIVES, "Scanned"), (Does.SENDS, "Report"), (Does.RECEIVES, "Watermarks"), (Does.SENDS, "CollectIds"),
        (Does.RECEIVES, "Refused"), (Does.SENDS, "Heartbeat"),
    ),
    "master": (
        (Does.SENDS, "Mint"), (Does.RECEIVES, "Minted"), (Does.SENDS, "Table"), (Does.RECEIVES, "Heartbeat"),
        (Does.SENDS, "Claim"), (Does.RECEIVES, "Claimed"), (Does.SENDS, "Renew"),
    ),
    "authority": (
        (Does.SENDS, "JournalWatermarks"), (Does.RECEIVES, "Journaled"), (Does.RECEIVES, "Report"),
        (Does.SENDS, "Watermarks"), (Does.RECEIVES, "InjectorReport"), (Does.RECEIVES, "Claimed"),
    ),
    "injector": (
        (Does.SENDS, "Deliver"), (Does.RECEIVES, "Ack"), (Does.SENDS, "JournalPosition"), (Does.RECEIVES, "Journaled"),
        (Does.SENDS, "InjectorReport"), (Does.RECEIVES, "SourceRecord"), (Does.RECEIVES, "Watermarks"),
    ),
}  # fmt: skip
"""The protocol steps that random plans tie faults to, by role; those of every role come up in most runs."""


def _step(b: _Bytes, *, of_message: bool = False) -> Step:
    """Which step: its kind is the time's byte, its number the upper bits of what is to happen."""
    process = b.pick(b.ground.workers * 2 + b.ground.processes)
    steps = [one for one in STEPS[role_of(process)] if one[1] in MESSAGES or not of_message]
    does, message = steps[b.when % len(steps)]
    return Step(process, does, message, 1 + (b.how >> 3) % 12)


def _crash_at_step(b: _Bytes) -> f.StepFault:
    step, moment = _step(b), Moment.AFTER if b.how & 1 else Moment.BEFORE
    crash = f.Crash(at_us=0, process=step.process, restart_after_us=None if b.how & 6 == 6 else b.for_us)
    return f.StepFault(step, crash, moment)


def _pause_at_step(b: _Bytes) -> f.StepFault:
    step = _step(b)
    return f.StepFault(step, f.Pause(at_us=0, process=step.process, for_us=1_200 * MILLISECOND + b.for_us))


def _message_at_step(b: _Bytes) -> f.StepFault:
    fates = (
        f.DropMessage(at_us=0),
        f.DuplicateMessage(at_us=0, by_us=b.for_us),
        f.DelayMessage(at_us=0, by_us=b.for_us),
    )
    return f.StepFault(_step(b, of_message=True), fates[b.how % 3])


def _partition_at_step(b: _Bytes) -> f.StepFault:
    step = _step(b)
    masters = tuple(one for one in b.ground.leaders if role_of(one) == "master" and one != step.process)
    other = ((), masters, ("store",), masters)[b.how >> 1 & 3]
    cut = f.Partition(
        at_us=0, side=(step.process,), other=other, for_us=SECOND + b.for_us, one_way=bool(b.how & 1)
    )
    return f.StepFault(step, cut)


def _operate_at_step(b: _Bytes) -> f.StepFault:
    return f.StepFault(_step(b), _operate(b))


def _change(b: _Bytes) -> f.Operate:
    """To any version, and half as often to the first one, which is in force until then."""
    versions = b.ground.versions
    return f.Operate(at_us=b.at_us, verb=ChangeTopology((b.how % (2 * versions - 1) + 1) % versions))


def _change_at_step(b: _Bytes) -> f.StepFault:
    return f.StepFault(_step(b), _change(b))


MAKERS: tuple[Callable[[_Bytes], f.AnyFault | f.StepFault], ...] = (
    _operate, _pause, _crash, _partition, _noise, _delay_commit, _hold, _drop, _zombie, _crash_worker, _lose_commit,
    _lose_reply, _duplicate_commit, _store_unavailable, _store_errors, _slow, _skew, _late, _stall,
    _crash_at_step, _pause_at_step, _message_at_step, _partition_at_step, _operate_at_step,
)  # fmt: skip
"""What a slot can become, whatever is disturbed. Every kind of fault is among them."""

_CHANGES: tuple[Callable[[_Bytes], f.AnyFault | f.StepFault], ...] = (_change, _change_at_step) * 3
"""Where there is another version to change to. Choice: a fifth of all, for every change is one that the others must meet."""


def makers_for(ground: Ground) -> list[Callable[[_Bytes], f.AnyFault | f.StepFault]]:
    """What a slot can become there."""
    return [*MAKERS, *(_CHANGES if ground.versions > 1 else ())]
