"""Runs in which what random plans seldom do is sure to happen, each kind on several workloads in turn.

* **moved**: intervals are moved, split and merged, while tables and rows take long (MillWheel 6.2, 7.1).
* **replaced**: versions of the topology follow each other (3).
* **unanswered**: the store's requests and replies get lost, from the start (6.2).
* **set back**: clocks jump ahead by an hour, and back (7.1).
* **deposed**: masters and authorities stop for longer than their lease, with requests under way (7.1, 7.2).

The oracles are those of the workload.
"""

from collections.abc import Callable, Mapping
from random import Random

import msgspec

from headrace import MILLISECOND, SECOND
from headrace.history import History, VersionAdopted
from headrace.wire.messages import STORE, ChangeTopology, MergeIntervals, MoveInterval, SplitInterval
from headrace_properties.search.ground import Ground, ground_of
from headrace_properties.search.judging import JudgedRun
from headrace_properties.search.oracles import EXPECTED, try_workload
from headrace_properties.search.plans import Plan
from headrace_properties.search.workloads import HOUR_US, WORKLOADS
from headrace_properties.verdict import Verdict, Violated
from headrace_sim import SOUND, FaultSchedule, Protocol
from headrace_sim.faults import AnyFault, Noise, Operate, Pause, SkewClock

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
    at_us, verbs = _at(random, ground), list[AnyFault]()
    for topology in (1, 0, 1)[: random.randint(1, 3)]:
        verbs.append(Operate(at_us=at_us, verb=ChangeTopology(topology)))
        at_us += random.choice([50, 400, 2_000]) * MILLISECOND
    return [*verbs, *(_moved(random, ground) if random.random() < 0.5 else [])]


def _unanswered(random: Random, ground: Ground) -> list[AnyFault]:
    del ground
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
    struck = random.sample(ground.processes, random.randint(1, len(ground.processes)))
    return [
        SkewClock(
            at_us=_at(random, ground, 300 * MILLISECOND),
            process=process,
            by_us=HOUR_US,
            for_us=random.randrange(1, 600) * MILLISECOND,
        )
        for process in struck
    ]


def _deposed(random: Random, ground: Ground) -> list[AnyFault]:
    pauses: list[AnyFault] = [
        Pause(at_us=_at(random, ground), process=process, for_us=random.randrange(1, 5) * SECOND)
        for process in random.sample(ground.leaders, random.randint(1, len(ground.leaders)))
    ]
    late = Noise(at_us=_BEGIN_US, for_us=4 * SECOND, delay=0.5, delay_us=2 * SECOND, kinds=_LEADERS_ASK)
    return [*pauses, late, *_moved(random, ground)]


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
    "moved": (
        _moved,
        (
            "slow scans",
            "weak slow scans",
            "holding",
            "weak windows",
            "slips",
            "stragglers",
        ),
    ),
    "replaced": (_replaced, ("changing", "draining", "gaining", "withdrawing", "weak changing")),
    "unanswered": (_unanswered, (*_PLAIN, "slow scans")),
    "set back": (_set_back, _PLAIN),
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
    options = msgspec.structs.replace(workload.options, limit_us=600 * SECOND)
    plan = Plan(FaultSchedule(tuple(faults), max(fault.end_us for fault in faults) + SECOND), options, seed)
    wanted = [
        fault.verb.topology
        for fault in faults
        if isinstance(fault, Operate) and isinstance(fault.verb, ChangeTopology)
    ]

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
        return {EXPECTED: Violated(problem, ())} if problem else {}

    return try_workload(workload, feed, plan, protocol, more=expected)
