"""Every fault at every protocol step of a small run.

The workload runs once without faults, and its steps are counted; each applicable fault can begin at the first few of each kind
of step, and at the last one. `headrace_properties.search.enumeration` tries them one by one;
`headrace_properties.search.steering` draws from them.

A table of kinds defines what a seed means, as in `headrace_properties.search.fault_kinds`: a table never changes, and a new
kind goes in a new one.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from random import Random
from typing import get_args

from headrace import MILLISECOND, SECOND
from headrace.wire.messages import ChangeTopology, MergeIntervals, MoveInterval, Reply, SplitInterval
from headrace_properties.search.fault_kinds import FIRST_TABLE
from headrace_properties.search.plans import FIRST_KEY, Ground, ground_of
from headrace_sim import ClusterOptions, Does, Feed, Moment, Step, StepFault, Versions, start
from headrace_sim import faults as f
from headrace_sim.steps import EVENTS, role_of

ZOMBIE_US = 1_800 * MILLISECOND
"""Choice: long enough to be replaced, with the default heartbeat time-out of a second."""

_REPLIES = frozenset(kind.__name__ for kind in get_args(Reply))
_WORK = frozenset({"Deliver", "Ack", "Write", "Written", "Scan", "Scanned", "Report", "CollectIds"})
"""Choice: an operator's verb is tried where a worker is handling records, rows or watermarks."""


def steps_of(
    pipeline: Versions, feed: Feed, options: ClusterOptions, seed: int = 0, first: int = 2
) -> list[Step]:
    """Return the protocol steps of a run without faults, in order of process and message.

    Args:
        pipeline: the pipeline.
        feed: its input.
        options: of the cluster.
        seed: of the run.
        first: number of each kind of step, besides the last one.
    """
    cluster = start(pipeline, feed, options=options, seed=seed)
    watch = cluster.watch()
    cluster.run_to_the_end()
    counts = watch.counts
    told_apart = {place[:3] for place in counts if place[3]}
    steps = []
    for place in sorted(counts, key=lambda place: (place[0], place[1].value, place[2:])):
        process, does, message, computation = place
        if computation or place[:3] not in told_apart:
            numbers = sorted({*range(1, min(first, counts[place]) + 1), counts[place]})
            steps += [Step(process, does, message, nth, computation) for nth in numbers]
    return steps


def faults_at(step: Step, ground: Ground, table: int = FIRST_TABLE) -> Iterator[StepFault]:
    """Yield every fault that can be tried at a step. ``table``: of the kinds."""
    for make in STEP_TABLES[table]:
        yield from make(step, ground)


def _process_faults(step: Step, ground: Ground) -> Iterator[StepFault]:
    process = step.process
    crash = f.Crash(at_us=0, process=process, restart_after_us=300 * MILLISECOND)
    yield StepFault(step, crash)
    yield StepFault(step, crash, Moment.AFTER)
    yield StepFault(step, f.Crash(at_us=0, process=process))
    yield StepFault(step, f.Pause(at_us=0, process=process, for_us=ZOMBIE_US))
    masters = tuple(leader for leader in ground.leaders if role_of(leader) == "master" and leader != process)
    for other_side in ((), masters, ("store",)):
        yield StepFault(step, f.Partition(at_us=0, side=(process,), other=other_side, for_us=ZOMBIE_US))
    yield StepFault(step, f.Slow(at_us=0, process=process, factor=20_000, for_us=SECOND))


def _operators_verbs(step: Step, ground: Ground) -> Iterator[StepFault]:
    if role_of(step.process) == "worker" and step.message in _WORK:
        computation = step.computation or ground.computations[0]
        for verb in _verbs(computation, ground):
            yield StepFault(step, f.Operate(at_us=0, verb=verb))
        for version in range(1, ground.versions):
            yield StepFault(step, f.Operate(at_us=0, verb=ChangeTopology(version)))


def _verbs(computation: str, ground: Ground) -> Iterator[MoveInterval | SplitInterval | MergeIntervals]:
    """Yield an operator's effective verbs on a computation's first intervals."""
    boundaries = ground.boundaries[ground.computations.index(computation)]
    yield MoveInterval(computation, ground.keys[0])
    yield SplitInterval(computation, next(key for key in ground.keys if key not in boundaries))
    if boundaries:
        yield MergeIntervals(computation, FIRST_KEY)


def _message_faults(step: Step, _: Ground) -> Iterator[StepFault]:
    """Message faults strike when it is sent; for the store's replies, which no process sends, when they arrive."""
    if step.message in EVENTS or (step.does is Does.RECEIVES and step.message not in _REPLIES):
        return
    yield StepFault(step, f.DropMessage(at_us=0))
    yield StepFault(step, f.DuplicateMessage(at_us=0, by_us=400 * MILLISECOND))
    yield StepFault(step, f.DelayMessage(at_us=0, by_us=SECOND))


StepMaker = Callable[[Step, Ground], Iterator[StepFault]]

STEP_TABLES: dict[int, tuple[StepMaker, ...]] = {
    FIRST_TABLE: (_process_faults, _message_faults, _operators_verbs)
}
"""All tables by number. Add, never change: the next is ``2: (*STEP_TABLES[1], ...)``."""


def single_faults(
    pipeline: Versions, feed: Feed, options: ClusterOptions, first: int = 2, table: int = FIRST_TABLE
) -> list[StepFault]:
    """Return every applicable fault at every step; the arguments are those of `steps_of` and `faults_at`."""
    ground = ground_of(pipeline, feed, options)
    steps = steps_of(pipeline, feed, options, first=first)
    return [fault for step in steps for fault in faults_at(step, ground, table)]


def pairs_of(faults: Sequence[StepFault], most: int, seed: int = 0) -> list[tuple[StepFault, ...]]:
    """Return pairs of faults: all, or a number drawn without order or repetition."""
    total = len(faults) * (len(faults) - 1) // 2
    if total <= most:
        return list(combinations(faults, 2))
    random = Random(f"{seed}/pairs")
    chosen: dict[tuple[int, int], None] = {}
    while len(chosen) < most:
        first, second = sorted(random.sample(range(len(faults)), 2))
        chosen[first, second] = None
    return [(faults[first], faults[second]) for first, second in chosen]
