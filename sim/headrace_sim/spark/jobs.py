"""A streaming job as a value: its input, its stages, its sink.

A job is what a user's code says with ``readStream``, ``withWatermark``, ``groupBy``, ``transformWithState`` and ``writeStream``.
The user's own functions and processors are in it unchanged.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyspark.sql import types as t
from pyspark.sql.streaming import StatefulProcessor

from headrace.api.errors import HeadraceError
from headrace_sim.spark.ddl import parse_schema

Sink = Callable[[Any, int], None]


class Api(Enum):
    """What a processor is given and gives: rows (``transformWithState``) or pandas (``transformWithStateInPandas``)."""

    ROWS = "rows"
    PANDAS = "pandas"


class TimeMode(Enum):
    """Spark's time modes."""

    NONE = "None"
    PROCESSING = "ProcessingTime"
    EVENT = "EventTime"


class JobError(HeadraceError):
    """A job that Spark would refuse to start. Fields: part (of the job), problem, remedy."""

    def __init__(self, part: str, problem: str, remedy: str) -> None:
        super().__init__(part, problem, remedy)
        self.part, self.problem, self.remedy = part, problem, remedy

    def __str__(self) -> str:
        """Name the part, what is wrong with it, and what to do."""
        return f"{self.part}: {self.problem}. {self.remedy}"


@dataclass(frozen=True, slots=True)
class Watermark:
    """``withWatermark(column, delay)``.

    Args:
        column: The event-time column, a TIMESTAMP.
        delay_ms: How far the watermark stays behind the latest event time, in milliseconds.

    """

    column: str
    delay_ms: int


@dataclass(frozen=True, slots=True)
class InitialState:
    """The rows of ``initialState``, grouped by the columns ``keys``: as many as the stage has, of the same types."""

    schema: str | t.StructType
    keys: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class Stateful:
    """``groupBy(*keys).transformWithState[InPandas](processor, ...)``.

    Args:
        processor: The user's. Each task gets a copy of its own, pickled as Spark does.
        keys: The grouping columns.
        output_schema: That of the rows it yields.
        output_mode: ``"Append"``, ``"Update"`` or ``"Complete"``. It changes nothing but what Spark allows.
        time_mode: What its timers go by.
        api: Whether rows or pandas frames are its input and output.
        initial_state: What ``handleInitialState`` is given in the first batch.
        event_time_column: ``eventTimeColumnName``: the column of its output that a later stage takes as event time.

    """

    processor: StatefulProcessor
    keys: tuple[str, ...]
    output_schema: str | t.StructType
    output_mode: str = "Append"
    time_mode: TimeMode = TimeMode.NONE
    api: Api = Api.ROWS
    initial_state: InitialState | None = None
    event_time_column: str = ""


@dataclass(frozen=True, slots=True)
class PerFrame:
    """A step without state on the DataFrame of a micro-batch: ``select``, ``filter``, ``withColumn``."""

    function: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class MapInPandas:
    """``mapInPandas(function, output_schema)``."""

    function: Callable[[Iterable[Any]], Iterable[Any]]
    output_schema: str | t.StructType


Stage = Watermark | Stateful | PerFrame | MapInPandas


@dataclass(frozen=True, slots=True)
class SparkJob:
    """A streaming query from one source to one sink.

    Args:
        input_schema: That of the source's rows: a text such as ``"word STRING, at TIMESTAMP"``, or a ``StructType``.
        stages: What is done with them, in order.
        sink: The function given to ``foreachBatch``, or None to only collect the output.
        partitions: ``spark.sql.shuffle.partitions``.

    Raises:
        JobError: If Spark would refuse to start it.
        SchemaTextError: If a schema does not parse.

    """

    input_schema: str | t.StructType
    stages: tuple[Stage, ...]
    sink: Sink | None = None
    partitions: int = 2

    def __post_init__(self) -> None:
        """Refuse what Spark refuses when the query starts."""
        as_schema(self.input_schema)
        if self.partitions < 1:
            problem = f"there are {self.partitions}"
            raise JobError("partitions", problem, "Give at least 1")
        for number, stage in enumerate(self.stages):
            _check(f"stage {number + 1}", stage, self.stages[:number])

    def stateful(self) -> tuple[tuple[int, Stateful], ...]:
        """Return the stages that keep state, each with its place among `stages`."""
        return tuple((place, stage) for place, stage in enumerate(self.stages) if isinstance(stage, Stateful))


def as_schema(schema: str | t.StructType) -> t.StructType:
    """Return the schema itself, parsed if it is a text. Raise `SchemaTextError`."""
    return parse_schema(schema) if isinstance(schema, str) else schema


def _check(part: str, stage: Stage, before: tuple[Stage, ...]) -> None:
    if isinstance(stage, MapInPandas):
        as_schema(stage.output_schema)
    if isinstance(stage, Watermark):
        if stage.delay_ms < 0:
            problem = f"the delay is {stage.delay_ms} ms"
            raise JobError(
                part, problem, "Spark refuses a negative delay (INVALID_DELAY_THRESHOLD): give 0 or more"
            )
        if any(isinstance(other, Watermark) for other in before):
            raise JobError(part, "a second watermark", "One watermark for each query is simulated: keep one")
    if isinstance(stage, Stateful):
        _check_stateful(part, stage, before)


def _check_stateful(part: str, stage: Stateful, before: tuple[Stage, ...]) -> None:
    as_schema(stage.output_schema)
    if not isinstance(stage.processor, StatefulProcessor):
        kind = type(stage.processor).__name__
        raise JobError(
            part, f"the processor is an object of class {kind}", "Give an instance of a StatefulProcessor"
        )
    if not stage.keys:
        raise JobError(part, "there are no key columns", "Name the columns of groupBy()")
    if stage.output_mode not in {"Append", "Update", "Complete"}:
        raise JobError(part, f"output mode {stage.output_mode!r}", "Give 'Append', 'Update' or 'Complete'")
    if stage.time_mode is TimeMode.EVENT and not any(isinstance(other, Watermark) for other in before):
        problem = "time mode EventTime without a watermark"
        raise JobError(
            part, problem, "Call withWatermark() before groupBy(): Spark refuses the query otherwise"
        )
    if stage.event_time_column and stage.event_time_column not in as_schema(stage.output_schema).names:
        problem = f"its output has no column {stage.event_time_column!r}"
        raise JobError(part, problem, "Name a TIMESTAMP column of the output in eventTimeColumnName")
