"""The format of transcripts: TOML, times in seconds. See docs/reference/transcripts.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from headrace import MAX_TIME, HeadraceError
from headrace.dataflow import (
    COUNT,
    GLOBAL,
    LIST,
    MAX,
    MEAN,
    MIN,
    SUM,
    Accumulation,
    Batch,
    CombineFn,
    Element,
    Engine,
    MicroBatch,
    Streaming,
    TimestampCombiner,
    Timing,
    Window,
)
from headrace_scenarios.figures.groupings import InputStep, Query
from tests.core.dataflow.transcripts.window_expressions import (
    ExpressionError,
    microseconds,
    parse_trigger,
    parse_windows,
)

COMBINERS: dict[str, CombineFn] = {
    "sum": SUM,
    "count": COUNT,
    "mean": MEAN,
    "min": MIN,
    "max": MAX,
    "list": LIST,
}
"""Those that a transcript can name."""

KEY = "k"
"""Of elements and panes that name none."""

END = "end"
"""The watermark of a source that has ended."""


class TranscriptError(HeadraceError):
    """A malformed transcript. Fields: path, problem."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path, self.problem = path, problem

    def __str__(self) -> str:
        """Say where and what."""
        return f"{self.path}: {self.problem}"


class PaneLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pane that is expected; omitted fields are not checked.

    Attributes:
        value: of its contents.
        window: its start and end, event time in seconds, or ``"global"``.
        key: whose.
        retraction: it takes back a pane.
        timing: ``early``, ``on_time`` or ``late``.
        index: how many panes its window had before.
        time: its event time, seconds.
    """

    value: Any
    window: tuple[float, float] | Literal["global"]
    key: str = KEY
    retraction: bool = False
    timing: Literal["early", "on_time", "late"] | None = None
    index: int | None = None
    time: float | None = None


class StepLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happens: an element (``value`` and ``time``), a watermark, or that time has passed, all of that instant included.

    Attributes:
        at: wall time, seconds.
        value: of an element.
        time: its event time, seconds.
        key: its key.
        retraction: it takes back an element.
        watermark: event time in seconds, or ``"end"``.
        panes: what is emitted by then, in order, since the step before.
    """

    at: float
    value: Any = None
    time: float | None = None
    key: str = KEY
    retraction: bool = False
    watermark: float | Literal["end"] | None = None
    panes: tuple[PaneLine, ...] = ()


class TranscriptFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file.

    Attributes:
        title: what it shows, as a claim.
        source: where it comes from.
        windows: a strategy of `headrace.dataflow`, times in seconds.
        trigger: the trigger, in the same form.
        accumulation: ``discarding``, ``accumulating`` or ``accumulating_and_retracting``.
        steps: what happens, in order of time.
        combine: name of a combiner.
        allowed_lateness: event time, seconds; left out: unlimited.
        engine: ``streaming``, ``batch``, or a micro-batch engine's period in seconds.
        timestamps: ``end_of_window``, ``earliest`` or ``latest``: the event times of panes.
        compact: what would replace a pane by the same is left out.
        wrong: of a negative transcript: what is wrong with it. It must not be met.
        exact_time: it holds only where time is exact, and so not where messages take time.
    """

    title: str
    source: str
    windows: str
    trigger: str
    accumulation: Literal["discarding", "accumulating", "accumulating_and_retracting"]
    steps: tuple[StepLine, ...]
    combine: str = "sum"
    allowed_lateness: float | None = None
    engine: Literal["streaming", "batch"] | float = "streaming"
    timestamps: Literal["end_of_window", "earliest", "latest"] = "end_of_window"
    compact: bool = False
    wrong: str = ""
    exact_time: bool = False


@dataclass(frozen=True, slots=True)
class ExpectedPane:
    """A pane that is expected.

    Attributes:
        step: number of the step by which it is emitted; ``None``: not looked at.
        line: what it says.
    """

    step: int | None
    line: PaneLine

    @property
    def window(self) -> Window:
        """Whose result it is."""
        return _window(self.line.window)

    @property
    def timing(self) -> Timing | None:
        """Early, on time or late; ``None``: not looked at."""
        return None if self.line.timing is None else Timing(self.line.timing)


@dataclass(frozen=True, slots=True)
class Transcript:
    """Expected behaviour of windows and triggers, the same on every engine.

    Attributes:
        name: of its file, from the folder on.
        title: what it shows.
        source: where it comes from.
        query: what, where, when and how.
        steps: what happens.
        expected: the panes emitted, in order.
        wrong: of a negative one: what is wrong with it; ``""``: nothing.
        exact_time: it can be told only where time is exact.
    """

    name: str
    title: str
    source: str
    query: Query
    steps: tuple[InputStep, ...]
    expected: tuple[ExpectedPane, ...]
    wrong: str = ""
    exact_time: bool = False

    @property
    def can_be_fed(self) -> bool:
        """Whether a source can play it to a pipeline in which messages take time."""
        retractions = any(step.element is not None and step.element.retraction for step in self.steps)
        return not self.exact_time and not retractions


def load_transcripts(folder: Path) -> list[Transcript]:
    """Read all transcripts of a folder and its subfolders, by name.

    Raises:
        TranscriptError: one cannot be read, or there is none.
    """
    paths = sorted(folder.rglob("*.toml"))
    if not paths:
        raise TranscriptError(str(folder), "there is no transcript *.toml in this directory")
    return [load_transcript(path, path.relative_to(folder).with_suffix("").as_posix()) for path in paths]


def load_transcript(path: Path, name: str = "") -> Transcript:
    """Read a transcript; ``name``: default: that of the file.

    Raises:
        TranscriptError: it cannot be read.
    """
    try:
        file = msgspec.toml.decode(path.read_bytes(), type=TranscriptFile)
        return compiled(name or path.stem, file)
    except OSError as error:
        raise TranscriptError(str(path), f"cannot be read: {error.strerror or error}") from error
    except (msgspec.MsgspecError, ValueError, HeadraceError) as error:
        raise TranscriptError(str(path), str(error)) from error


def compiled(name: str, file: TranscriptFile) -> Transcript:
    """Make a transcript from a file's contents.

    Raises:
        ExpressionError: windows, trigger or combiner are none.
        TranscriptError: the steps make no sense.
    """
    if file.combine not in COMBINERS:
        raise ExpressionError(file.combine, f"there is no such combiner. There are: {', '.join(COMBINERS)}")
    lateness = file.allowed_lateness
    query = Query(
        parse_windows(file.windows),
        parse_trigger(file.trigger),
        Accumulation(file.accumulation),
        COMBINERS[file.combine],
        None if lateness is None else microseconds(lateness),
        _engine(file.engine),
        TimestampCombiner(file.timestamps),
        file.compact,
    )
    _check(name, file.steps)
    expected = [ExpectedPane(number, pane) for number, step in enumerate(file.steps) for pane in step.panes]
    steps = tuple(map(_step, file.steps))
    return Transcript(
        name, file.title, file.source, query, steps, tuple(expected), file.wrong, file.exact_time
    )


def _engine(engine: str | float) -> Engine:
    if isinstance(engine, str):
        return Batch() if engine == "batch" else Streaming()
    return MicroBatch(microseconds(engine))


def _check(name: str, steps: Sequence[StepLine]) -> None:
    before = float("-inf")
    for number, step in enumerate(steps):
        where = f"steps[{number}]"
        if step.at < before:
            raise TranscriptError(name, f"{where} is at {step.at} s, before the step that precedes it")
        if (step.value is None) is not (step.time is None):
            raise TranscriptError(name, f"{where} has to have both value and time, or neither")
        if step.value is not None and step.watermark is not None:
            raise TranscriptError(name, f"{where} is both an element and a watermark: make two steps of it")
        before = step.at


def _step(line: StepLine) -> InputStep:
    at_us = microseconds(line.at)
    if line.time is not None:
        element = Element(line.key, line.value, microseconds(line.time), retraction=line.retraction)
        return InputStep(at_us, element)
    if line.watermark is not None:
        return InputStep(at_us, watermark=_watermark(line.watermark))
    return InputStep(at_us + 1)  # everything that the clock does at this instant is done


def _watermark(watermark: float | str) -> int:
    return MAX_TIME if isinstance(watermark, str) else microseconds(watermark)


def _window(window: tuple[float, float] | str) -> Window:
    if isinstance(window, str):
        return GLOBAL
    return Window(*map(microseconds, window))
