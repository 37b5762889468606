"""Runs in which what random plans seldom do is sure to happen, each kind on several workloads in turn.

* **moved**: intervals are moved, split and merged, while tables and rows take long (MillWheel 6.2, 7.1).
* **rescanned**: owners change again and again while records come (6.2).
* **replaced**: versions of the topology follow each other (3).
* **restarted**: injectors and workers lose their memory again and again (5.2, 7.1).
* **unanswered**: the store's requests and replies get lost, from the start (6.2).
* **set back**: clocks jump ahead by an hour, and back, some while their process is paused (7.1).
* **driven**: the master mints without a pause (7.1).
* **mended**: workers lose an interval, as no sound worker does, and the master has to notice (7.1).
* **deposed**: masters and authorities stop for longer than their lease, with requests under way (7.1, 7.2).

The oracles are those of the workload.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import msgspec

from headrace import MILLISECOND, SECOND
from headrace.history import History, RoleClaimed, VersionAdopted
from headrace.store.mediator import MASTER_ROLE
from headrace.wire.effects import Effect, Event, Wake
from headrace.wire.messages import STORE, ChangeTopology, MergeIntervals, MoveInterval, Refused, SplitInterval
from headrace.worker.states import IntervalInput
from headrace.worker.worker import Worker
from headrace_properties.proof.oracles import EXPECTED, try_workload
from headrace_properties.proof.workloads import HOUR_US, WORKLOADS
from headrace_properties.search.agreement import QUIET_US
from headrace_properties.search.ground import Ground, ground_of
from headrace_properties.search.judging import JudgedRun
from headrace_properties.search.plans import Plan
from headrace_properties.verdict import Verdict, Violated
from headrace_sim import SOUND, FaultSchedule, Protocol
from headrace_sim.faults import AnyFault, Crash, Noise, Operate, Pause, SkewClock

_BEGIN_US = 900 * MILLISECOND
"""By then the first intervals have been scanned."""
_LEADERS_ASK = (
    "Peek",
    "Peeked",
    "Claim",
    "Claimed",
    "Renew",
    "Renewed",
    "Mint",
    "Minted",
    "JournalWatermarks",
    "Journaled",
)
_OTHERS_ASK = (
    "JournalPosition",
    "Read",
    "RowRead",
    "Scan",
    "Scanned",
    "Write",
    "Written",
    "CollectIds",
    "Collected",
)
_Verb = MoveInterval | SplitInterval | MergeIntervals
_Draw = Callable[[Random, Ground], list[AnyFault]]


def _at(random: Random, ground: Ground, begin_us: int = _BEGIN_US) -> int:
    return random.randrange(begin_us, max(ground.horizon_us, 2 * SECOND), MILLISECOND)


def _moved(random: Random, ground: Ground) -> list[AnyFault]:
    verbs: list[AnyFault] = []
    for _ in range(8):
        name, key = random.choice(ground.computations), random.choice(["", "a", "ab", "ac", "b"])
        drawn: list[_Verb] = [MoveInterval(name, key), SplitInterval(name, key), MergeIntervals(name, key)]
        verbs.append(Operate(at_us=_at(random, ground), verb=random.choice([drawn[0], *drawn])))
    late = ("Table", "Scanned", "RowRead", "Ack")
    return [*verbs, Noise(at_us=0, for_us=4 * SECOND, delay=0.5, delay_us=300 * MILLISECOND, kinds=late)]


def _replaced(random: Random, ground: Ground) -> list[AnyFault]:
    at_us = random.randrange(
        _BEGIN_US, max(ground.horizon_us - SECOND, 2 * SECOND), MILLISECOND
    )  # while records come
    verbs, topology = list[AnyFault](), 0
    for _ in range(random.randint(1, ground.versions + 1)):
        topology = random.choice([other for other in range(ground.versions) if other != topology])
        verbs.append(Operate(at_us=at_us, verb=ChangeTopology(topology)))
        at_us += random.choice([50, 400, 2_000]) * MILLISECOND
    late = ("Heartbeat", "Ack", "Deliver")  # who leaves goes by what others owe, and by what it has itself
    noise = Noise(at_us=0, for_us=at_us, delay=0.3, drop=0.1, delay_us=600 * MILLISECOND, kinds=late)
    slow = Noise(
        at_us=0, for_us=at_us + SECOND, delay=0.5, delay_us=random.choice([600, 2_000]) * MILLISECOND,
        kinds=("Table", "Written"),
    )  # fmt: skip
    also = random.randrange(4)
    return [
        *verbs,
        *([noise] if also == 1 else _moved(random, ground) if also == 2 else [slow] if also else []),
    ]


def _rescanned(random: Random, ground: Ground) -> list[AnyFault]:
    """Owners change again and again while records come, some of them for the second time."""
    at_us, verbs = _BEGIN_US, list[AnyFault]()
    while at_us < ground.horizon_us:
        name, key = random.choice(ground.computations), random.choice(["ab", "ad", "b"])
        moves: list[_Verb] = [MoveInterval(name, key), SplitInterval(name, key), MergeIntervals(name, key)]
        verbs.append(Operate(at_us=at_us, verb=random.choice([moves[0], *moves])))
        at_us += random.randrange(100, 600) * MILLISECOND
    again = Noise(at_us=0, for_us=at_us, duplicate=0.5, delay=0.2, delay_us=SECOND, kinds=("Deliver", "Ack"))
    return [*verbs, *([again] if random.random() < 0.5 else [])]


def _restarted(random: Random, ground: Ground) -> list[AnyFault]:
    """Injectors and workers lose their memory again and again, at times with the answers to what they have just asked."""
    faults: list[AnyFault] = []
    for process in (*ground.injectors, *random.sample(ground.workers, 1)):
        at_us = 300 * MILLISECOND
        while at_us < ground.horizon_us:
            after_us = random.randrange(1, 200) * MILLISECOND
            faults.append(Crash(at_us=at_us, process=process, restart_after_us=after_us))
            at_us += after_us + random.randrange(100, 700) * MILLISECOND
    verbs: list[AnyFault] = [
        Operate(at_us=_at(random, ground), verb=ChangeTopology(topology))
        for topology in range(1, ground.versions)
    ]
    late = Noise(
        at_us=0,
        for_us=ground.horizon_us,
        delay=0.3,
        delay_us=random.choice([300 * MILLISECOND, SECOND]),
        kinds=("Ack", "Claim", "Claimed", "Journaled", "Scanned", "Written"),
    )
    if ground.versions > 1 and random.random() < 0.6:
        return _left_owing(random, ground)
    return [*faults, *verbs, *([late] if random.random() < 0.5 else [])]


def _left_owing(random: Random, ground: Ground) -> list[AnyFault]:
    """An injector loses what it sends while a computation retires, and then its memory; it reads that again later."""
    at_us, down_us = _at(random, ground) + 700 * MILLISECOND, random.choice([100, 1_500, 2_500]) * MILLISECOND
    (injector, *_), before_us = ground.injectors, random.randrange(400, 900) * MILLISECOND
    change = Operate(at_us=at_us - before_us, verb=ChangeTopology(ground.versions - 1))
    lost = Noise(
        at_us=at_us - before_us - 200 * MILLISECOND, for_us=before_us + down_us, drop=1.0, kinds=("Deliver",), process=injector,
    )  # fmt: skip
    return [lost, change, Crash(at_us=at_us, process=injector, restart_after_us=down_us)]


def _unanswered(random: Random, ground: Ground) -> list[AnyFault]:
    del ground
    if random.random() < 0.3:  # writes are under way for so long that watermarks and horizons go on meanwhile
        slow = ("Write", "Written")
        return [Noise(at_us=0, for_us=4 * SECOND, delay=0.8, delay_us=SECOND, kinds=slow)]
    kinds = (*_LEADERS_ASK, *_OTHERS_ASK)
    return [
        Noise(
            at_us=0,
            for_us=4 * SECOND,
            drop=random.choice([0.1, 0.3, 0.5]),
            duplicate=0.2,
            delay_us=SECOND,
            kinds=kinds,
        )
    ]


def _set_back(random: Random, ground: Ground) -> list[AnyFault]:
    faults: list[AnyFault] = []
    for process in random.sample(ground.processes, random.randint(1, len(ground.processes))):
        at_us, for_us = _at(random, ground, 300 * MILLISECOND), random.randrange(1, 600) * MILLISECOND
        faults.append(SkewClock(at_us=at_us, process=process, by_us=HOUR_US, for_us=for_us))
        if random.random() < 0.5:  # alarms that came while it stood still are early when it goes on
            faults.append(Pause(at_us=at_us + for_us // 2, process=process, for_us=for_us))
        if random.random() < 0.5:  # the same, with a clock that is then behind
            at_us, for_us = _at(random, ground), random.randrange(200, 900) * MILLISECOND
            faults.append(Pause(at_us=at_us, process=process, for_us=for_us))
            faults.append(
                SkewClock(at_us=at_us + for_us - 1, process=process, by_us=-3 * SECOND, for_us=SECOND)
            )
    return faults


def _driven(random: Random, ground: Ground) -> list[AnyFault]:
    times = range(_BEGIN_US, _BEGIN_US + 3 * SECOND, 150 * MILLISECOND)
    moves = [MoveInterval(random.choice(ground.computations), "a") for _ in times]
    return [Operate(at_us=at_us, verb=verb) for at_us, verb in zip(times, moves, strict=True)]


class _Losing(Worker):
    """Loses one of its intervals when it has been woken a few times, and does not even know."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._left = 12

    def handle(self, now: int, event: Event) -> list[Effect]:
        self._left -= isinstance(event, Wake) and bool(self.owned)
        if self._left == 0:
            self._left = -1
            self.intervals[0].drop(IntervalInput.REASSIGNED)
            super().handle(now, Refused(-1, 0))  # it answers no request, but what was dropped is forgotten
        return super().handle(now, event)


def _mended(random: Random, ground: Ground) -> list[AnyFault]:
    """Nothing more: the workers are broken themselves."""
    return [Operate(at_us=_at(random, ground), verb=MoveInterval("nothing", ""))]


def _deposed(random: Random, ground: Ground) -> list[AnyFault]:
    pauses: list[AnyFault] = [
        Pause(at_us=_at(random, ground), process=process, for_us=random.randrange(2, 5) * SECOND)
        for process in random.sample(ground.leaders, random.randint(1, len(ground.leaders)))
    ]
    late = Noise(at_us=_BEGIN_US, for_us=4 * SECOND, delay=0.5, delay_us=2 * SECOND, kinds=_LEADERS_ASK)
    moves: list[AnyFault] = [
        Operate(at_us=pause.at_us - MILLISECOND, verb=MoveInterval(random.choice(ground.computations), "a"))
        for pause in pauses
    ]
    return [*pauses, *moves, late, *_moved(random, ground)]


_PLAIN = (
    "windows",
    "echoes",
    "limited",
    "two shards",
    "two processes",
    "weak echoes",
    "refusing",
    "prompt",
    "stragglers",
)
_KINDS: Mapping[str, tuple[_Draw, tuple[str, ...]]] = {
    "moved": (_moved, ("slow scans", "weak slow scans", "holding", "weak windows", "slips", "stragglers")),
    "rescanned": (
        _rescanned,
        (
            "slow scans",
            "weak slow scans",
            "crowd",
            "weak windows",
            "reminders",
            "eager slow scans",
            "holding",
            "repeating slow scans",
        ),
    ),
    "replaced": (
        _replaced,
        ("changing", "staged", "draining", "gaining", "staged", "withdrawing", "weak changing"),
    ),
    "restarted": (
        _restarted,
        (
            "withdrawing",
            "staged",
            "two processes",
            "withdrawing",
            "malformed",
            "draining",
            "withdrawing",
            "windows",
            "limited",
            "files",
            "late windows",
            "apart",
        ),
    ),
    "unanswered": (_unanswered, (*_PLAIN, "slow scans")),
    "set back": (_set_back, ("patient", *_PLAIN[:3], "patient", *_PLAIN[3:])),
    "driven": (_driven, ("windows", "two shards")),
    "mended": (_mended, ("windows", "echoes", "weak windows", "two shards")),
    "deposed": (_deposed, ("windows", "two shards", "outliers", "two processes", "late start")),
}
DISTURBED = tuple(_KINDS)
"""The kinds of runs."""


def try_disturbed(kind: str, seed: int, protocol: Protocol = SOUND) -> JudgedRun:
    """Disturb the workload whose turn it is with a seed, and judge it by all oracles.

    Args:
        kind: one of `DISTURBED`.
        seed: of the disturbance, the input and the draws.
        protocol: the state machines to host.
    """
    draw, names = _KINDS[kind]
    workload = WORKLOADS[names[seed % len(names)]]
    feed = workload.feed(seed)
    faults = draw(Random(f"{seed}/{kind}"), ground_of(workload.deployed, feed, workload.options))
    faults.sort(key=lambda fault: fault.at_us)
    heals_at_us = (
        max(fault.end_us for fault in faults) + QUIET_US + SECOND
    )  # everybody learns what has happened
    options = msgspec.structs.replace(workload.options, limit_us=600 * SECOND, check_invariants=True)
    plan = Plan(
        FaultSchedule(tuple(faults), heals_at_us),
        options,
        seed,
    )
    wanted = [
        fault.verb.topology
        for fault in faults
        if isinstance(fault, Operate) and isinstance(fault.verb, ChangeTopology)
    ]

    if kind == "mended":
        protocol = replace(protocol, worker=_Losing)

    def expected(history: History) -> dict[str, Verdict]:
        adopted = [
            0,
            *(
                event.version
                for event in history
                if isinstance(event, VersionAdopted) and event.process == STORE
            ),
        ]
        problem = (
            f"versions {wanted} were asked for, and {adopted} adopted"
            if wanted and adopted[-1] != wanted[-1]
            else ""
        )
        claims = sum(isinstance(event, RoleClaimed) and event.role == MASTER_ROLE for event in history)
        if kind == "driven" and claims > 1:
            problem = (
                f"the master's role was claimed {claims} times, although its holder minted without a pause"
            )
        return {EXPECTED: Violated(problem, ())} if problem else {}

    return try_workload(workload, feed, plan, protocol, more=expected)
