"""Schedules of a job, as data: how its input is cut into micro-batches, in which order, at which times, and what fails."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count
from random import Random
from typing import Any

_LATER = 2
"""Choice: number of batches. With one, a call could see the row beside those it should precede."""
Feed = Sequence[Sequence[tuple[Any, ...]]]
"""The rows of the source, batch by batch."""


class FaultKind(Enum):
    """What can fail."""

    TASK_DIES = "a task dies at a step"
    TASK_DIES_BEFORE_COMMIT = "a task dies before its commit"
    TASK_DIES_AFTER_COMMIT = "a task dies after its commit"
    EXECUTOR_LOST = "an executor is lost with what its tasks have shuffled"
    SPECULATIVE_ATTEMPT = "a second attempt of a task runs at the same time, and wins"
    DRIVER_DIES_BEFORE_OFFSETS = "the driver dies before it writes the offset log"
    DRIVER_DIES_IN_BATCH = "the driver dies in the batch"
    DRIVER_DIES_AFTER_SINK = "the driver dies after the sink, before the commit log"
    COMMIT_ENTRY_LOST = "the entry of the commit log is lost, and the query restarted"
    CHECKPOINT_RESTORED = "the checkpoint is restored from a backup, and the batches since run again"
    ZOMBIE_DRIVER = "a driver that was replaced runs the batch again, later"


@dataclass(frozen=True, slots=True)
class ScheduledFault:
    """One fault."""

    kind: FaultKind  # what happens
    batch: int  # in which batch (from 0)
    partition: int = 0  # to which task of each stateful stage; unused where the driver fails
    # `TASK_DIES`: at which of the task's steps (rows read, calls of state and timers, rows yielded; from 1)
    step: int = 1
    # `ZOMBIE_DRIVER`: after how many later batches. `CHECKPOINT_RESTORED`: how many further batches the backup lacks
    delay: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a job runs."""

    # how many rows of the feed each batch takes, in turn. What is left is the last batch. None: as the feed has them
    cuts: tuple[int, ...] | None = None
    # after which batches the source has nothing for a while, so that Spark may run batches without data. After the last one
    # it always is
    idle_after: frozenset[int] = frozenset()
    # a seed by which the rows of each batch are shuffled. None: as the feed has them
    order: int | None = None
    partitions: int | None = None  # instead of the job's
    # how many rows a pandas frame has at most (``spark.sql.execution.arrow.maxRecordsPerBatch``). None: all
    frame_rows: int | None = None
    start_ms: int = 1_700_000_000_000  # processing time of the first batch, in milliseconds since the epoch
    # how much later each next batch starts, in milliseconds; it may be negative
    steps_ms: tuple[int, ...] = ()
    faults: tuple[ScheduledFault, ...] = ()  # what fails
    delayed: tuple[int, ...] = ()  # which rows come two batches later, numbered from 0 over all batches
    twice: tuple[int, ...] = ()  # which rows come again two batches later
    # the same, where ``steps_ms`` has none. 0: the clock of batches stands still until the last row
    step_ms: int = 1_000
    # which Python worker runs a task: the one at (batch + partition), in turn. (): not said
    workers: tuple[int, ...] = ()

    @property
    def undisturbed(self) -> "Schedule":
        """The schedule with which this one is compared: if frames are cut, with the same batches."""
        return Schedule(self.cuts if self.frame_rows else None, step_ms=self.step_ms)

    def batches(self, feed: Feed) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each batch."""
        if self.delayed or self.twice:
            feed = self._delivered(feed)
        batches = [list(batch) for batch in feed]
        if self.cuts is not None:
            batches = _cut([row for batch in batches for row in batch], self.cuts)
        if self.order is not None:
            for number, batch in enumerate(batches):
                Random(f"{self.order}/{number}").shuffle(batch)
        return batches

    def _delivered(self, feed: Feed) -> Feed:
        """Return the rows as the source delivers them: some delayed, some repeated."""
        numbers = count()
        delivered: list[list[tuple[Any, ...]]] = [[] for _ in range(len(feed) + _LATER)]
        for place, batch in enumerate(feed):
            for row in batch:
                number = next(numbers)
                if number not in self.delayed:
                    delivered[place].append(row)
                if number in self.delayed or number in self.twice:
                    delivered[place + _LATER].append(row)
        while len(delivered) > len(feed) and not delivered[-1]:
            delivered.pop()
        return delivered


def _cut(rows: list[tuple[Any, ...]], sizes: Sequence[int]) -> list[list[tuple[Any, ...]]]:
    batches, start = [], 0
    for size in sizes:
        batches.append(rows[start : start + size])
        start += size
    return [*batches, rows[start:]] if start < len(rows) else batches


_OF_THE_DRIVER = (
    FaultKind.DRIVER_DIES_BEFORE_OFFSETS,
    FaultKind.DRIVER_DIES_AFTER_SINK,
    FaultKind.COMMIT_ENTRY_LOST,
)
"""The faults that strike no task."""
_DELAYED = (FaultKind.ZOMBIE_DRIVER, FaultKind.CHECKPOINT_RESTORED)
"""Those of the driver that have a delay."""


def draw_schedule(seed: int, partitions: int, feed: Feed, *, mean_faults: float = 3.0) -> Schedule:
    """Draw a schedule.

    Each concern has a random stream of its own, and each kind of fault too: adding a kind changes no other's faults.
    ``seed``: determines the whole schedule. ``mean_faults``: the expected number of faults.
    """
    rows = sum(len(batch) for batch in feed)
    cuts = _draw_cuts(Random(f"{seed}/cuts"), rows)
    batches = len(cuts)
    random = Random(f"{seed}/time")
    steps = tuple(random.choice((1_000, 1_000, 1, 60_000, 3_600_000, -5_000)) for _ in range(batches))
    random = Random(f"{seed}/idle")
    idle = frozenset(batch for batch in range(batches) if random.random() < 0.3)
    other = Random(f"{seed}/partitions").choice((None, None, 1, partitions + 1))
    faults = _draw_faults(seed, batches, other or partitions, mean_faults)
    return Schedule(
        cuts, idle, Random(f"{seed}/order").randrange(1 << 30), other, steps_ms=steps, faults=faults,
        delayed=_draw_rows(Random(f"{seed}/delayed"), rows), twice=_draw_rows(Random(f"{seed}/twice"), rows),
        workers=tuple(Random(f"{seed}/workers").choices((0, 1), k=max(2, batches))),
    )  # fmt: skip


def _draw_rows(random: Random, rows: int) -> tuple[int, ...]:
    """Draw one or two rows."""
    return tuple(sorted({random.randrange(rows) for _ in range(random.randint(1, 2))})) if rows else ()


def _draw_cuts(random: Random, rows: int) -> tuple[int, ...]:
    count = random.randint(1, max(1, min(rows, 6)))
    ends = sorted(random.randrange(rows + 1) for _ in range(count - 1))
    return tuple(end - start for start, end in zip([0, *ends], [*ends, rows], strict=True))


def _draw_faults(seed: int, batches: int, partitions: int, mean: float) -> tuple[ScheduledFault, ...]:
    faults = []
    for kind in (*(kind for kind in FaultKind if kind not in _DELAYED), *_DELAYED):
        random = Random(f"{seed}/{kind.name}")
        if random.random() < mean / len(FaultKind):
            batch = random.randrange(batches)
            partition = 0 if kind in _OF_THE_DRIVER + _DELAYED else random.randrange(partitions)
            step = 1 + int(random.expovariate(0.15)) if kind is FaultKind.TASK_DIES else 1
            faults.append(
                ScheduledFault(kind, batch, partition, step, random.randrange(3) if kind in _DELAYED else 0)
            )
    return tuple(faults)
