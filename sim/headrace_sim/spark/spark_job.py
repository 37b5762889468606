"""A Spark job as a value: its input, its sequence of steps, and its sink.

`SparkJob` can be written by hand, or recorded from the function that starts the query (`recording`).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any

from pyspark.sql import types as t

from headrace.api.errors import HeadraceError
from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.columns.recorded import Recorded
from headrace_sim.spark.declares import Declares
from headrace_sim.spark.refusals import label_of, shown_place

Frame = Any
"""A DataFrame."""


@dataclass(frozen=True, slots=True)
class StreamSource:
    """What a stream is read from."""

    name: str  # of the stream: that of its column in the job's input, if there are several
    format: str  # ``kafka``, ``rate``, ``json``. "" where a function takes it as a parameter
    schema: t.StructType  # that of its rows
    options: tuple[tuple[str, str], ...] = ()  # what the reader was given
    path: str = ""  # or table, or ""
    place: str = ""

    @property
    def label(self) -> str:
        """What a user calls it: its topic, the last part of its path or table, or the parameter."""
        options = {name.lower(): value for name, value in self.options}
        return options.get("subscribe") or label_of(self.path) or self.name


class OutputMode(Enum):
    """Which rows a stateful operator emits."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


class TimeMode(Enum):
    """The clock of a processor's timers."""

    NONE = "none"
    PROCESSING_TIME = "processingtime"
    EVENT_TIME = "eventtime"


@dataclass(frozen=True, slots=True)
class Columns:
    """A step that computes each row separately, such as ``select``, ``filter`` or ``withColumn``."""

    call: str  # what was called: ``filter``
    compute: Callable[[Rows], Rows]  # does it to a frame of rows in memory
    output: t.StructType  # the schema of what comes out
    place: str = ""
    functions: tuple[Callable[..., Any], ...] = ()  # the user's functions that it calls
    nodes: tuple[Recorded, ...] = ()  # the columns that it computes, or goes by


@dataclass(frozen=True, slots=True)
class WatermarkStep:
    """``withWatermark``: the column with the event time, and how far a row may lag behind the latest one, in microseconds."""

    column: str
    delay_us: int
    output: t.StructType
    place: str = ""


@dataclass(frozen=True, slots=True)
class StreamBranch:
    """The steps of one of several streams before they come together."""

    # the column of the job's input that has the rows of the stream. "": the steps begin with the whole input
    source: str
    steps: "tuple[Step, ...]" = ()  # what is done to them


@dataclass(frozen=True, slots=True)
class Union:
    """``union`` of several streams, a job's first step.

    The job's input has a column for each stream, a struct. Each of its rows has a value in one of them.
    """

    branches: tuple[StreamBranch, ...]
    output: t.StructType
    place: str = ""


class WatermarkPolicy(Enum):
    """How several watermarks are combined: ``spark.sql.streaming.multipleWatermarkPolicy``."""

    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class InitialState:
    """A processor's initial state: rows, grouped by the same number of key columns."""

    schema: t.StructType
    keys: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class TransformWithState:
    """``groupBy(keys).transformWithState`` or ``transformWithStateInPandas``."""

    processor: Any  # the user's, of any class; each task gets a copy of it, as Spark pickles it
    keys: tuple[str, ...]  # the columns grouped by
    output: t.StructType  # the schema of what it gives out
    output_mode: OutputMode  # which rows it gives out
    time_mode: TimeMode  # by what its timers fire
    pandas: bool = False  # whether it takes and gives pandas DataFrames instead of rows
    initial: InitialState | None = None  # what it begins with, or None
    event_time: str = ""  # the column of its output that has the event time (``eventTimeColumnName``), or ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class ApplyWithState:
    """``groupBy(keys).applyInPandasWithState``."""

    # the user's: it takes a key, pandas DataFrames and a ``GroupState``, and gives pandas DataFrames
    function: Callable[..., Any]
    keys: tuple[str, ...]  # the columns grouped by
    output: t.StructType  # the schema of what it gives out
    state: t.StructType  # the schema of the state of a key
    output_mode: OutputMode  # which rows it gives out
    timeout: str  # ``NoTimeout``, ``ProcessingTimeTimeout`` or ``EventTimeTimeout``
    place: str = ""

    @property
    def time_mode(self) -> TimeMode:
        """The clock of its timeouts."""
        name = self.timeout.removesuffix("Timeout")
        return TimeMode.NONE if name == "No" else TimeMode(name.lower())


@dataclass(frozen=True, slots=True)
class MapInPandas:
    """``mapInPandas``: a function from pandas DataFrames to pandas DataFrames, called for each partition."""

    function: Callable[[Iterator[Any]], Iterator[Any]]
    output: t.StructType
    place: str = ""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``groupBy(groups).agg(values)``, which Spark computes itself."""

    # the columns grouped by, of which one may be a ``window`` or a ``session_window``
    groups: tuple[Recorded, ...]
    values: tuple[Recorded, ...]  # the aggregates
    output: t.StructType  # the schema of both
    output_mode: OutputMode = OutputMode.APPEND  # the query's
    place: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the columns grouped by."""
        return tuple(self.output.names[: len(self.groups)])


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """``dropDuplicates`` or ``dropDuplicatesWithinWatermark``."""

    keys: tuple[str, ...]  # the columns whose values are there once
    output: t.StructType  # the schema, as before
    output_mode: OutputMode = OutputMode.APPEND  # the query's
    # whether a value counts as new again when the watermark's delay after its time is over
    within_watermark: bool = False
    place: str = ""


@dataclass(frozen=True, slots=True)
class StreamJoin:
    """A join of two streams. It comes first in a job, or in a branch."""

    left: StreamBranch  # the steps of one stream
    right: StreamBranch  # those of the other
    how: str  # ``inner``, ``left``, ``right``, ``full`` or ``semi``
    on: tuple[str, ...] | Recorded  # the names of the columns that are equal, or a condition
    output: t.StructType  # the schema of both
    output_mode: OutputMode = OutputMode.APPEND  # the query's
    place: str = ""
    keys: tuple[str, ...] = ()

    @property
    def branches(self) -> tuple[StreamBranch, StreamBranch]:
        """Both of them."""
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class Limit:
    """``limit`` of a stream: its first rows."""

    count: int  # how many
    output: t.StructType  # the schema, as before
    output_mode: OutputMode = OutputMode.APPEND  # the query's
    place: str = ""
    keys: tuple[str, ...] = ()


SparksOwn = Aggregate | Deduplicate | StreamJoin | Limit
UsersOwn = TransformWithState | ApplyWithState
Stateful = SparksOwn | UsersOwn
Step = Columns | WatermarkStep | Union | MapInPandas | Stateful


@dataclass(frozen=True, slots=True)
class SparkSink:
    """Where a query's output goes."""

    function: Callable[[Frame, int], Any] | None = None  # the function given to ``foreachBatch``, or None
    writer: Any = None  # the object or function given to ``foreach``, or None
    format: str = ""  # the format of a sink of Spark's own: ``kafka``, ``delta``. "" with a function
    output_mode: OutputMode = OutputMode.APPEND  # the query's output mode
    # the trigger's name and value: ``processingTime``, ``10 seconds``. Or None
    trigger: tuple[str, Any] | None = None
    options: tuple[tuple[str, str], ...] = ()  # its options
    target: str = ""  # the path or table, or ""
    name: str = ""  # of the query, or ""
    place: str = ""  # ``file:line`` of the user's code that starts it


@dataclass(frozen=True, slots=True)
class SparkJob:
    """A streaming query."""

    input: t.StructType  # the schema of its input
    steps: tuple[Step, ...] = ()  # what is done to it, one step after the other
    sink: SparkSink = field(default_factory=SparkSink)  # where the output goes
    partitions: int = 2  # into how many partitions a shuffle by key deals the rows
    policy: WatermarkPolicy = WatermarkPolicy.MIN  # which of several watermarks counts
    declares: Declares = field(default_factory=Declares)  # what its author means
    sources: tuple[StreamSource, ...] = ()  # what its streams are read from
    # the query's relation as PySpark's client sends it (`pyspark.sql.connect.proto.Relation`), or empty
    plan: bytes = b""
    # what its session knows when it is started (`client.answers.SessionState`): views, functions, settings. Or None
    state: Any = None

    @property
    def output(self) -> t.StructType:
        """The schema of what reaches the sink."""
        return self.steps[-1].output if self.steps else self.input

    @property
    def stateful(self) -> tuple[Stateful, ...]:
        """The stateful steps, also within joins."""
        return tuple(step for step in _each(self.steps) if isinstance(step, Stateful))

    @property
    def processing(self) -> tuple[UsersOwn, ...]:
        """The stateful steps with code of the user's."""
        return tuple(step for step in self.stateful if isinstance(step, UsersOwn))

    @property
    def working(self) -> tuple[Step, ...]:
        """The steps that run code of the user's, also within unions and joins."""
        kinds = (MapInPandas, TransformWithState, ApplyWithState)
        return tuple(
            step
            for step in _each(self.steps)
            if isinstance(step, kinds) or (isinstance(step, Columns) and step.functions)
        )

    def step_at(self, place: int) -> Stateful:
        """Return the stateful step at a place: among the steps, or, behind them all, among those within joins and unions."""
        own = [step for step in self.steps if isinstance(step, Stateful)]
        inner = [step for step in self.stateful if not any(step is top for top in own)]
        stateful = self.steps[place] if place < len(self.steps) else inner[place - len(self.steps)]
        assert isinstance(stateful, Stateful)
        return stateful

    def into(self, sink: SparkSink) -> "SparkJob":
        """Return the job with a sink, whose output mode holds for Spark's own operators."""
        return replace(self, steps=_in_mode(self.steps, sink.output_mode), sink=sink)

    def then(self, step: Step) -> "SparkJob":
        """Return the job with one more step."""
        return replace(self, steps=(*self.steps, step))


def _each(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield steps, each behind those of its branches."""
    for step in steps:
        if isinstance(step, Union | StreamJoin):
            for branch in step.branches:
                yield from _each(branch.steps)
        yield step


def _in_mode(steps: Iterable[Step], mode: OutputMode) -> tuple[Step, ...]:
    """Return steps in an output mode. In complete mode, each result of an aggregate is limited afresh."""
    changed = list[Step]()
    for step in steps:
        match step:
            case Limit() if mode is OutputMode.COMPLETE and any(
                isinstance(before, Aggregate) for before in changed
            ):
                limited = partial(_first, step.count)
                changed.append(Columns("limit", limited, step.output, step.place))
            case StreamJoin():
                left, right = (replace(part, steps=_in_mode(part.steps, mode)) for part in step.branches)
                changed.append(replace(step, left=left, right=right, output_mode=mode))
            case Union():
                parts = (replace(part, steps=_in_mode(part.steps, mode)) for part in step.branches)
                changed.append(replace(step, branches=tuple(parts)))
            case Aggregate() | Deduplicate() | Limit():
                changed.append(replace(step, output_mode=mode))
            case _:
                changed.append(step)
    return tuple(changed)


def _first(count: int, rows: Rows) -> Rows:
    return rows.first(count)


def watermarks_of(steps: Iterable[Step]) -> Iterator[WatermarkStep]:
    """Yield the watermarks of some steps, including those within unions and joins."""
    return (step for step in _each(steps) if isinstance(step, WatermarkStep))


class SparkJobError(HeadraceError):
    """A job that Spark would refuse, or that is no job. Fields: problem (with Spark's error class, if any), place, remedy."""

    def __init__(self, problem: str, place: str, remedy: str) -> None:
        super().__init__(problem, place, remedy)
        self.problem, self.place, self.remedy = problem, shown_place(place), remedy

    def __str__(self) -> str:
        """Say what is wrong, where, and what to do."""
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.problem}. {self.remedy}"
