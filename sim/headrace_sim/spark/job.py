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
from headrace_sim.spark.refusals import shown_place

Frame = Any
"""A DataFrame."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a stream is read from.

    Attributes:
        name: Of the stream: that of its column in the job's input, if there are several.
        format: ``kafka``, ``rate``, ``json``. "" where a function takes it as a parameter.
        schema: That of its rows.
        options: What the reader was given.
        path: Or table, or "".
        place: ``file:line`` of the user's code.

    """

    name: str
    format: str
    schema: t.StructType
    options: tuple[tuple[str, str], ...] = ()
    path: str = ""
    place: str = ""

    @property
    def label(self) -> str:
        """What a user calls it: its topic, the last part of its path or table, or the parameter."""
        options = {name.lower(): value for name, value in self.options}
        return options.get("subscribe") or self.path.rstrip("/").rpartition("/")[2] or self.name


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
    """A step that computes each row separately, such as ``select``, ``filter`` or ``withColumn``.

    Attributes:
        call: What was called: ``filter``.
        compute: Does it to a frame of rows in memory.
        output: The schema of what comes out.
        place: ``file:line`` of the user's code.
        functions: The user's functions that it calls.
        nodes: The columns that it computes, or goes by.

    """

    call: str
    compute: Callable[[Rows], Rows]
    output: t.StructType
    place: str = ""
    functions: tuple[Callable[..., Any], ...] = ()
    nodes: tuple[Recorded, ...] = ()


@dataclass(frozen=True, slots=True)
class Watermark:
    """``withWatermark``: the column with the event time, and how far a row may lag behind the latest one, in microseconds."""

    column: str
    delay_us: int
    output: t.StructType
    place: str = ""


@dataclass(frozen=True, slots=True)
class Branch:
    """The steps of one of several streams before they come together.

    Attributes:
        source: The column of the job's input that has the rows of the stream. "": the steps begin with the whole input.
        steps: What is done to them.

    """

    source: str
    steps: "tuple[Step, ...]" = ()


@dataclass(frozen=True, slots=True)
class Union:
    """``union`` of several streams, a job's first step.

    The job's input has a column for each stream, a struct. Each of its rows has a value in one of them.
    """

    branches: tuple[Branch, ...]
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
    """``groupBy(keys).transformWithState`` or ``transformWithStateInPandas``.

    Attributes:
        processor: The user's, of any class; each task gets a copy of it, as Spark pickles it.
        keys: The columns grouped by.
        output: The schema of what it gives out.
        output_mode: Which rows it gives out.
        time_mode: By what its timers fire.
        pandas: Whether it takes and gives pandas DataFrames instead of rows.
        initial: What it begins with, or None.
        event_time: The column of its output that has the event time (``eventTimeColumnName``), or "".
        place: ``file:line`` of the user's code.

    """

    processor: Any
    keys: tuple[str, ...]
    output: t.StructType
    output_mode: OutputMode
    time_mode: TimeMode
    pandas: bool = False
    initial: InitialState | None = None
    event_time: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class ApplyWithState:
    """``groupBy(keys).applyInPandasWithState``.

    Attributes:
        function: The user's: it takes a key, pandas DataFrames and a ``GroupState``, and gives pandas DataFrames.
        keys: The columns grouped by.
        output: The schema of what it gives out.
        state: The schema of the state of a key.
        output_mode: Which rows it gives out.
        timeout: ``NoTimeout``, ``ProcessingTimeTimeout`` or ``EventTimeTimeout``.
        place: ``file:line`` of the user's code.

    """

    function: Callable[..., Any]
    keys: tuple[str, ...]
    output: t.StructType
    state: t.StructType
    output_mode: OutputMode
    timeout: str
    place: str = ""

    @property
    def time_mode(self) -> TimeMode:
        """The clock of its timeouts."""
        return {
            "NoTimeout": TimeMode.NONE,
            "ProcessingTimeTimeout": TimeMode.PROCESSING_TIME,
            "EventTimeTimeout": TimeMode.EVENT_TIME,
        }[self.timeout]


@dataclass(frozen=True, slots=True)
class MapInPandas:
    """``mapInPandas``: a function from pandas DataFrames to pandas DataFrames, called for each partition."""

    function: Callable[[Iterator[Any]], Iterator[Any]]
    output: t.StructType
    place: str = ""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``groupBy(groups).agg(values)``, which Spark computes itself.

    Attributes:
        groups: The columns grouped by, of which one may be a ``window`` or a ``session_window``.
        values: The aggregates.
        output: The schema of both.
        output_mode: The query's.
        place: ``file:line`` of the user's code.

    """

    groups: tuple[Recorded, ...]
    values: tuple[Recorded, ...]
    output: t.StructType
    output_mode: OutputMode = OutputMode.APPEND
    place: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the columns grouped by."""
        return tuple(self.output.names[: len(self.groups)])


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """``dropDuplicates`` or ``dropDuplicatesWithinWatermark``.

    Attributes:
        keys: The columns whose values are there once.
        output: The schema, as before.
        output_mode: The query's.
        within_watermark: Whether a value counts as new again when the watermark's delay after its time is over.
        place: ``file:line`` of the user's code.

    """

    keys: tuple[str, ...]
    output: t.StructType
    output_mode: OutputMode = OutputMode.APPEND
    within_watermark: bool = False
    place: str = ""


@dataclass(frozen=True, slots=True)
class StreamJoin:
    """A join of two streams. It comes first in a job, or in a branch.

    Attributes:
        left: The steps of one stream.
        right: Those of the other.
        how: ``inner``, ``left``, ``right``, ``full`` or ``semi``.
        on: The names of the columns that are equal, or a condition.
        output: The schema of both.
        output_mode: The query's.
        place: ``file:line`` of the user's code.

    """

    left: Branch
    right: Branch
    how: str
    on: tuple[str, ...] | Recorded
    output: t.StructType
    output_mode: OutputMode = OutputMode.APPEND
    place: str = ""
    keys: tuple[str, ...] = ()

    @property
    def branches(self) -> tuple[Branch, Branch]:
        """Both of them."""
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class Limit:
    """``limit`` of a stream: its first rows.

    Attributes:
        count: How many.
        output: The schema, as before.
        output_mode: The query's.
        place: ``file:line`` of the user's code.

    """

    count: int
    output: t.StructType
    output_mode: OutputMode = OutputMode.APPEND
    place: str = ""
    keys: tuple[str, ...] = ()


SparksOwn = Aggregate | Deduplicate | StreamJoin | Limit
UsersOwn = TransformWithState | ApplyWithState
Stateful = SparksOwn | UsersOwn
Step = Columns | Watermark | Union | MapInPandas | Stateful


@dataclass(frozen=True, slots=True)
class SparkSink:
    """Where a query's output goes.

    Attributes:
        function: The function given to ``foreachBatch``, or None.
        writer: The object or function given to ``foreach``, or None.
        format: The format of a sink of Spark's own: ``kafka``, ``delta``. "" with a function.
        output_mode: The query's output mode.
        trigger: The trigger's name and value: ``processingTime``, ``10 seconds``. Or None.
        options: Its options.
        target: The path or table, or "".
        name: Of the query, or "".
        place: ``file:line`` of the user's code that starts it.

    """

    function: Callable[[Frame, int], Any] | None = None
    writer: Any = None
    format: str = ""
    output_mode: OutputMode = OutputMode.APPEND
    trigger: tuple[str, Any] | None = None
    options: tuple[tuple[str, str], ...] = ()
    target: str = ""
    name: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class SparkJob:
    """A streaming query.

    Attributes:
        input: The schema of its input.
        steps: What is done to it, one step after the other.
        sink: Where the output goes.
        partitions: Into how many partitions a shuffle by key deals the rows.
        policy: Which of several watermarks counts.
        declares: What its author means.
        sources: What its streams are read from.
        plan: The query's relation as PySpark's client sends it (`pyspark.sql.connect.proto.Relation`), or empty.
        state: What its session knows when it is started (`client.answers.SessionState`): views, functions, settings. Or None.

    """

    input: t.StructType
    steps: tuple[Step, ...] = ()
    sink: SparkSink = field(default_factory=SparkSink)
    partitions: int = 2
    policy: WatermarkPolicy = WatermarkPolicy.MIN
    declares: Declares = field(default_factory=Declares)
    sources: tuple[Source, ...] = ()
    plan: bytes = b""
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
        found = self.steps[place] if place < len(self.steps) else inner[place - len(self.steps)]
        assert isinstance(found, Stateful)
        return found

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
    """Return steps in an output mode. In complete mode, each result of an aggregate is limited anew."""
    found = list[Step]()
    for step in steps:
        match step:
            case Limit() if mode is OutputMode.COMPLETE and any(
                isinstance(before, Aggregate) for before in found
            ):
                limited = partial(_first, step.count)
                found.append(Columns("limit", limited, step.output, step.place))
            case StreamJoin():
                left, right = (replace(part, steps=_in_mode(part.steps, mode)) for part in step.branches)
                found.append(replace(step, left=left, right=right, output_mode=mode))
            case Union():
                parts = (replace(part, steps=_in_mode(part.steps, mode)) for part in step.branches)
                found.append(replace(step, branches=tuple(parts)))
            case Aggregate() | Deduplicate() | Limit():
                found.append(replace(step, output_mode=mode))
            case _:
                found.append(step)
    return tuple(found)


def _first(count: int, rows: Rows) -> Rows:
    return rows.first(count)


def watermarks_of(steps: Iterable[Step]) -> Iterator[Watermark]:
    """Yield the watermarks of some steps, including those within unions and joins."""
    return (step for step in _each(steps) if isinstance(step, Watermark))


class SparkJobError(HeadraceError):
    """A job that Spark would refuse, or that is no job. Fields: problem (with Spark's error class, if any), place, remedy."""

    def __init__(self, problem: str, place: str, remedy: str) -> None:
        super().__init__(problem, place, remedy)
        self.problem, self.place, self.remedy = problem, shown_place(place), remedy

    def __str__(self) -> str:
        """Say what is wrong, where, and what to do."""
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.problem}. {self.remedy}"
