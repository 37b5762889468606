"""Failures that are made on Spark and in the simulated one at the same place: what a query comes to must agree.

On Spark a task dies because the processor raises, or ends its Python worker or its executor, the first time it gets there; or
because what reads its output raises when there is no more, which is after its commit. A driver dies because the function of the
sink raises; and what a driver's death leaves in the checkpoint is made by deleting entries of its logs, or by a copy of it. A
zombie is a driver in a process of its own, held in the function of its sink until its successor has ended.
"""

import enum
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace_sim.spark.query.schedules import FaultKind, Schedule, ScheduledFault
from headrace_sim.spark.query.streaming_query import run_job
from headrace_sim.spark.spark_job import TimeMode
from tests.sim.spark.processors import Case, Processor, as_text, ms

FAILED = Path(__file__).parent / "failure_outcomes.json"
"""What Spark came to. Written by ``python -m tests.spark.recorded.stateful_failures``."""


class Totals(Processor):
    """Adds up numbers, and tells and clears the total 3 s after the first row.

    Args:
        dies: Where it dies the first time: ``row``, ``state``, ``output``, ``timer`` or ``close``. A second word says how, if
            not by raising: ``exit`` ends the process, ``executor`` kills the executor.
        mark: The file that says that it has died.

    """

    def __init__(self, dies: str = "", mark: Path | None = None) -> None:
        self.dies, _, self.how = dies.partition(" ")
        self.mark = mark
        self.worked = False

    def declare(self, handle: Any) -> None:
        """Make a total, and a list of what was added."""
        self.total = handle.getValueState("total", "n INT, due LONG")
        self.parts = handle.getListState("parts", "n INT")

    def rows(self, key: str, rows: list[Any], times: Any) -> Any:
        """Add."""
        for row in rows:
            self.worked = True
            total, due = self.total.get() or (0, ms(row) + 3000)
            self.total.update((total + row.n, due))
            self._here("state", row.n == 4)
            self.parts.appendValue((row.n,))
            self.handle.registerTimer(due)
            self._here("row", row.n == 4)
            yield total + row.n
            self._here("output", row.n == 4)

    def timer(self, key: str, expiry: int, times: Any) -> Any:
        """Tell and clear."""
        yield expiry, self.total.get(), [n for (n,) in self.parts.get()]
        self._here("timer", key == "a")
        self.total.clear()
        self.parts.clear()

    def close(self) -> None:
        """Die, perhaps, with all done and nothing committed."""
        self._here("close", self.worked)

    def _here(self, place: str, now: bool) -> None:
        if place == self.dies and now and self.mark is not None and not self.mark.exists():
            self.mark.touch()
            if self.how == "exit":
                os._exit(1)
            if self.how == "executor":
                os.kill(_parent(os.getppid()), signal.SIGKILL)  # its child forks the Python workers
            problem = f"dies in {place}"
            raise RuntimeError(problem)


def _parent(process: int) -> int:
    asked = subprocess.run(["ps", "-o", "ppid=", "-p", str(process)], capture_output=True, check=True)  # noqa: S607
    return int(asked.stdout)


BATCH = 1
"""The batch in which it happens."""


def case(processor: Callable[[], Totals] = Totals) -> Case:
    """Return the job, and its batches: a timer fires in the batch of the failure."""
    rows = (
        (("a", 1.0, 1), ("b", 2.0, 2), ("c", 4.5, 7)),
        (("b", 4.9, 3), ("a", 5.0, 4), ("d", 6.0, 5)),
        (("a", 9.0, 6), ("d", 20.0, 8)),
    )
    return Case(processor, TimeMode.EVENT_TIME, rows)


class After(enum.Enum):
    """What is done on Spark about a driver that has ended, or hangs, in the function of the sink."""

    RESTART = "the query is started again"
    RESTORE = (
        "the checkpoint is put back to what it was when the sink was called, and the query is started again"
    )
    REPLACE = "another driver runs the query to its end, and then the first one goes on"


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure.

    Attributes:
        kind: What it is in the simulated Spark.
        dies: Where the processor dies on Spark, or "".
        sink: In which batch, and ``before`` or ``after`` its effect, the sink's function raises on Spark. None: it does not.
        lost: Entries of the checkpoint's logs that are deleted before the query is started again.
        after: What is done about the driver.
        output: Whether what reads the output of the first task that ends raises on Spark.
        executors: Whether it takes executors that are processes of their own.
        delay: In the simulated Spark, as in `ScheduledFault`.

    """

    kind: FaultKind
    dies: str = ""
    sink: tuple[int, str] | None = None
    lost: tuple[str, ...] = ()
    after: After = After.RESTART
    output: bool = False
    executors: bool = False
    delay: int = 0


FAILURES = {
    "task dies at a row": Failure(FaultKind.TASK_DIES, "row"),
    "task dies at a state call": Failure(FaultKind.TASK_DIES, "state"),
    "task dies after an output": Failure(FaultKind.TASK_DIES, "output"),
    "task dies in a timer": Failure(FaultKind.TASK_DIES, "timer"),
    "task dies before its commit": Failure(FaultKind.TASK_DIES_BEFORE_COMMIT, "close"),
    "worker process ends at a row": Failure(FaultKind.TASK_DIES, "row exit"),
    "worker process ends in a timer": Failure(FaultKind.TASK_DIES, "timer exit"),
    "worker process ends before its commit": Failure(FaultKind.TASK_DIES_BEFORE_COMMIT, "close exit"),
    "driver dies in the batch": Failure(FaultKind.DRIVER_DIES_IN_BATCH, sink=(1, "before")),
    "driver dies between sink and commit log": Failure(FaultKind.DRIVER_DIES_AFTER_SINK, sink=(1, "after")),
    "entry of the commit log is lost": Failure(
        FaultKind.COMMIT_ENTRY_LOST, sink=(2, "before"), lost=("commits/1", "offsets/2")
    ),
    "driver dies before the offset log": Failure(
        FaultKind.DRIVER_DIES_BEFORE_OFFSETS, sink=(2, "before"), lost=("offsets/2",)
    ),
    "task dies after its commit": Failure(FaultKind.TASK_DIES_AFTER_COMMIT, output=True),
    "executor is lost": Failure(FaultKind.EXECUTOR_LOST, "row executor", executors=True),
    "checkpoint is restored": Failure(FaultKind.CHECKPOINT_RESTORED, sink=(2, "before"), after=After.RESTORE),
    "replaced driver goes on": Failure(
        FaultKind.ZOMBIE_DRIVER, sink=(1, "before"), after=After.REPLACE, delay=3
    ),
}


def simulated_failure(failure: Failure) -> dict[str, Any]:
    """Return what the simulated Spark comes to: outputs, state, timers, and the batches that the sink was called with."""
    job = case().job()
    faults = tuple(
        ScheduledFault(failure.kind, BATCH, partition, step=2, delay=failure.delay)
        for partition in range(job.partitions)
    )
    if failure.sink is not None:
        faults = faults[:1]
    outcome = run_job(job, case().feed(), Schedule(faults=faults))
    return as_text(outcome) | {"sink": [call.batch for call in outcome.sink_calls]}
