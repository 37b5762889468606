"""What a job's code keeps in modules, in the Python workers that run its tasks.

PySpark reuses workers: what is in a module lasts until its worker dies. A task that runs again may find what its first attempt
left there, or run in a new worker and find nothing. A later batch of the same partition may run in another worker, whose modules
missed the batches between. What is on ``self`` lasts for a task.
"""

from typing import Any

from headrace_properties.spark_jobs.watching import OutsideState
from headrace_sim.spark.query.schedules import FaultKind, Schedule
from headrace_sim.spark.query.streaming_query import ATTEMPT, REPLACED, Event

SAME_WORKER = frozenset({
    FaultKind.TASK_DIES, FaultKind.TASK_DIES_BEFORE_COMMIT, FaultKind.TASK_DIES_AFTER_COMMIT, FaultKind.DRIVER_DIES_IN_BATCH,
    FaultKind.DRIVER_DIES_AFTER_SINK,
})  # fmt: skip
"""Faults after which a task may run again in a worker that ran it before: a task that fails outside its code, a query that fails
and starts again in its session."""


class WorkerModules:
    """The modules of the workers of a run.

    ``outside``: what the code of the job can reach outside state. ``schedule``: of the run: its ``workers`` say which worker
    runs a task. ``renewed``: whether each task has a new worker, if the schedule does not say.
    """

    def __init__(self, outside: OutsideState, schedule: Schedule, *, renewed: bool) -> None:
        self._outside = outside
        self._workers = schedule.workers
        self._renewed = renewed and not schedule.workers
        self._worker = 0
        self._held: dict[int, list[Any]] = {}
        self._dying: Event | None = None

    def at_event(self, event: Event) -> None:
        """Bring in the modules of the worker that runs a task."""
        if event.partition < 0:
            return
        if self._renewed:
            self._outside.restore()
        elif self._workers and event.what == FaultKind.TASK_DIES.value:
            self._dying = event
        elif self._workers and event.what in {ATTEMPT, REPLACED}:
            self._begin(event)

    def at_end_of_batch(self) -> None:
        """End the workers, if each task has a new one."""
        if self._renewed:
            self._outside.restore()

    def _begin(self, event: Event) -> None:
        worker = self._workers[(event.batch + event.partition) % len(self._workers)]
        if worker != self._worker:
            self._held[self._worker] = self._outside.contents()
            self._outside.restore()
            if worker in self._held:
                self._outside.put(self._held[worker])
            self._worker = worker
        if self._dying is not None and self._dying.what == ATTEMPT:
            self._outside.restore()  # its worker died with it
            self._dying = None
        elif self._dying is not None:
            self._dying = event
