"""The queries that a program starts, and the life of each as the program sees it.

A query is captured, and no batch of it runs. It is active for some simulated time, until it is awaited or stopped. One that is
started again after its end, as programs do that watch over their queries, is the same query.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import get_ident, main_thread
from typing import Any
from uuid import UUID

from pyspark.errors import IllegalArgumentException
from pyspark.sql import types as t

from headrace_sim.spark.client.listeners import Listeners
from headrace_sim.spark.client.script_time import ScriptTime
from headrace_sim.spark.spark_job import SparkJob

MOST_STARTS = 3
"""Choice: how often a program may start a query again that has ended, before it is taken to do so for ever."""
LIFE_S = 60.0
"""Choice: how long a query that nobody stops runs, in simulated seconds."""
BATCH_S = 10.0
"""Choice: how long each of its batches takes, in simulated seconds."""
_BATCHES_TOLD = 2
"""Choice: of how many batches of each query listeners are told."""
_LOOK_S = 1.0
"""Choice: how much time passes whenever a program looks at a query, in simulated seconds."""


@dataclass(slots=True)
class QueryLife:
    """A captured query that its program looks at."""

    number: int  # its place among the queries of its program
    job: SparkJob  # what it does
    time: ScriptTime  # its program's
    awaited: int = 0  # which thread of its program waits without end until it ends, or 0
    starts: int = 1  # how often it was started
    beside: tuple[int, ...] = ()  # the numbers of the queries that ran when it was started
    # the query whose end the program has awaited before it starts this one, though it ends only by failing; or None
    behind: "QueryLife | None" = None
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)  # what each `observe` tells of a batch
    _since_s: float = 0.0
    _over: bool = False

    def __post_init__(self) -> None:
        self._since_s = self.time.passed_s

    def start_again(self) -> None:
        """Run it again. Raise `WaitsForEverError` if it has been started too often."""
        self.starts += 1
        if self.starts > MOST_STARTS:
            self.time.interrupt()
        self._since_s, self._over = self.time.passed_s, False

    @property
    def name(self) -> str | None:
        """Its name."""
        return self.job.sink.name or None

    @property
    def id(self) -> str:
        """Its id, for all its runs."""
        return str(UUID(int=self.number + 1))

    @property
    def run_id(self) -> str:
        """The id of this run."""
        return str(UUID(int=(self.starts << 64) + self.number + 1))

    @property
    def ids(self) -> dict[str, str]:
        """Its id and that of its run, as Spark tells them."""
        return {"id": self.id, "runId": self.run_id}

    def look(self) -> bool:
        """Let some time pass, and return whether it is active."""
        self.time.wait(_LOOK_S)
        return self.is_active

    @property
    def is_active(self) -> bool:
        """Whether it runs."""
        self._over = self._over or self.time.passed_s - self._since_s >= LIFE_S
        return not self._over

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end, and return whether it has come. ``timeout_s``: how long; None: until it has."""
        if timeout_s is None:
            self.awaited, self._over = get_ident(), True
        elif self.is_active:
            self.time.wait(timeout_s)
        return not self.is_active

    def stop(self) -> None:
        """End it."""
        self._over = True

    @property
    def status(self) -> dict[str, Any]:
        """What Spark tells of it."""
        message = "Waiting for data to arrive" if self.is_active else "Stopped"
        return {"message": message, "isDataAvailable": False, "isTriggerActive": False}

    @property
    def progress(self) -> list[str]:
        """What Spark tells of each of its batches so far, as JSON."""
        passed_s = min(self.time.passed_s - self._since_s, LIFE_S)
        return [json.dumps(self.batch(number), default=str) for number in range(int(passed_s / BATCH_S))]

    def batch(self, number: int) -> dict[str, Any]:
        """Return what Spark tells of a batch."""
        source = {
            "description": "source", "startOffset": str(number), "endOffset": str(number + 1),
            "latestOffset": str(number + 1), "numInputRows": 1, "inputRowsPerSecond": 0.1,
            "processedRowsPerSecond": 10.0, "metrics": {},
        }  # fmt: skip
        times = (
            "addBatch", "commitOffsets", "getBatch", "latestOffset", "queryPlanning", "triggerExecution", "walCommit",
        )  # fmt: skip
        return {
            **self.ids, "name": self.name, "timestamp": f"2030-01-01T00:00:{number:02}.000Z",
            "batchId": number, "batchDuration": 100, "numInputRows": 1, "inputRowsPerSecond": 0.1,
            "processedRowsPerSecond": 10.0, "durationMs": dict.fromkeys(times, 10), "eventTime": {}, "stateOperators": [],
            "sources": [source], "sink": {"description": "sink", "numOutputRows": 1, "metrics": {}},
            "observedMetrics": self.metrics,
        }  # fmt: skip


@dataclass(slots=True)
class StartedQueries:
    """The queries that a program has started."""

    time: ScriptTime  # the program's
    lives: list[QueryLife] = field(default_factory=list)  # of each query, in order
    listeners: Listeners = field(default_factory=Listeners)  # who is told of them

    @property
    def jobs(self) -> list[SparkJob]:
        """What each does."""
        return [life.job for life in self.lives]

    @property
    def active(self) -> list[QueryLife]:
        """Those that run."""
        return [life for life in self.lives if life.is_active]

    def start(self, job: SparkJob) -> QueryLife:
        """Start a query. Raise `IllegalArgumentException` if one of this name is active, as Spark does."""
        # A thread of a pool takes what comes next once it is free: that says nothing of the order that is meant.
        mine = self.lives if get_ident() == main_thread().ident else []
        behind = next((life for life in mine if life.awaited == get_ident() and not _ends(life.job)), None)
        beside = tuple(other.number for other in self.active)
        life = QueryLife(len(self.lives), job, self.time, beside=beside, behind=behind)
        if life.name is not None and any(life.name == other.name for other in self.active):
            problem = f"Cannot start query with name {life.name} as a query with that name is already active in this SparkSession"
            raise IllegalArgumentException(problem)
        for other in self.lives:
            if not other.is_active and tuple(_identity(other.job)) == tuple(_identity(job)):
                other.start_again()
                return other
        self.lives.append(life)
        self.listeners.started(life.ids, life.name)
        return life

    def tell_ends(self) -> None:
        """Tell the listeners of the batches of each query, and of its end."""
        for life in self.lives:
            self.listeners.ended(life.ids, map(life.batch, range(_BATCHES_TOLD)))

    def get(self, query_id: str) -> QueryLife | None:
        """Return a query by its id."""
        return next((life for life in self.lives if query_id in {life.id, life.run_id}), None)

    def schema_written(self, place: str) -> t.StructType | None:
        """Return the schema of what a query writes to a table or a path; None: none does."""
        place = place.rstrip("/").lower()
        targets = ((job.sink.target.rstrip("/").lower(), job) for job in reversed(self.jobs))
        return next((job.output for target, job in targets if place and target == place), None)

    def wait_for_any(self, timeout_s: float | None = None) -> bool:
        """Wait until one of them ends, and return whether one has. ``timeout_s``: how long; None: until then."""
        if timeout_s is not None:
            self.time.wait(timeout_s)
            return len(self.active) < len(self.lives)
        for life in self.active:
            life.wait()
        return True


def _ends(job: SparkJob) -> bool:
    """Return whether a query ends once it has seen all of its input."""
    return job.sink.trigger is not None and job.sink.trigger[0] in {"availableNow", "once"}


def _identity(job: SparkJob) -> Iterator[Any]:
    """Yield what tells a query from another one that is started in the same line."""
    sink = job.sink
    yield from (job.input, job.output, sink.format, sink.target, sink.options, sink.place, sink.name)
    yield from (step.place for step in job.steps)
    yield from (source.options for source in job.sources)
