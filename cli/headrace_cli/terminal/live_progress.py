"""Show the progress of a search or a run on stderr: a bar on a terminal, an occasional line elsewhere."""

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from rich import filesize
from rich.console import Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from headrace import HOUR, MAX_TIME, MIN_TIME, SECOND, ComputationProgress, format_time
from headrace_cli.terminal.consoles import error_console
from headrace_cli.terminal.render import counted, plain_table, print_text
from headrace_properties.findings import Finding
from headrace_properties.search.verification import Verification

_YEAR_US = 365 * 24 * HOUR
_COLUMNS = ("records", "late", "out", "low watermark", "lag", "timers", "keys", "state")


def progress_table(computations: Iterable[ComputationProgress]) -> Table:
    """Return computations' progress as a table, one per row."""
    table = plain_table("computation", *_COLUMNS, numbers=_COLUMNS)
    for progress in computations:
        hot = (
            f" (hot key {progress.hot_key}: {progress.hot_share:.0%})" if progress.hot_key is not None else ""
        )
        hot += f" (dropped {progress.dropped:,})" if progress.dropped else ""
        table.add_row(progress.name + hot, *_progress_cells(progress))
    return table


def progress_line(progress: ComputationProgress) -> str:
    """Return a computation's progress as a line of a log.

    >>> progress_line(ComputationProgress("counter", 1_234, 3, 55, 1_500_000, 2_000_000, timers=17))
    'counter: records 1,234, late 3, out 55, low watermark 1.500000s, lag 2.0s, timers 17'
    """
    cells = zip(_COLUMNS, _progress_cells(progress), strict=True)
    hot = f", hot key {progress.hot_key} ({progress.hot_share:.0%})" if progress.hot_key is not None else ""
    hot += f", dropped {progress.dropped:,}" if progress.dropped else ""
    return f"{progress.name}: " + ", ".join(f"{column} {cell}" for column, cell in cells if cell) + hot


def _progress_cells(progress: ComputationProgress) -> list[str]:
    lag = "" if progress.lag_us is None else f"{progress.lag_us / SECOND:,.1f}s"
    counts = [f"{number:,}" for number in (progress.records, progress.late_records, progress.outputs)]
    size = "" if progress.state_bytes is None else filesize.decimal(progress.state_bytes)
    rest = ["" if number is None else f"{number:,}" for number in (progress.timers, progress.keys)]
    return [*counts, time_cell(progress.low_watermark), lag, *rest, size]


def time_cell(time_us: int) -> str:
    """Write an event time, as a date if it is plausible as one."""
    if not MIN_TIME < time_us < MAX_TIME:
        return "unknown" if time_us == MIN_TIME else "the end"
    if time_us < _YEAR_US:
        return format_time(time_us)
    return f"{datetime.fromtimestamp(time_us / SECOND, UTC):%Y-%m-%d %H:%M:%S}"


_LINE_PERIOD_S = 10.0
"""Choice: interval between lines without a terminal, so that a CI log shows life but is not flooded."""


class RunProgress:
    """The display of a run or a measurement in progress; a context manager.

    Args:
        title: what is running.
        columns: of the bar, after the title. Default: percentage and remaining time.

    Attributes:
        elapsed_s: how long it took, wall time in seconds.
    """

    def __init__(self, title: str, *columns: ProgressColumn) -> None:
        self.elapsed_s = 0.0
        self._title = self._at = title
        self._done = 0.0
        self._console = error_console()
        columns = columns or (TaskProgressColumn(), TimeRemainingColumn())
        self._bar = Progress(TextColumn("{task.description}"), BarColumn(), *columns, console=self._console)
        self._task = self._bar.add_task(title, total=None, rate="")
        self._live = Live(self._bar, console=self._console, transient=True)
        self._began = self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        """Start the display."""
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove the display."""
        self.elapsed_s = time.monotonic() - self._began
        self._live.stop()
        if isinstance(error, KeyboardInterrupt):
            self._console.print(f"{self._at}: stopped at {self._done:.0%}", soft_wrap=True)

    def say(self, text: str) -> None:
        """Print a line, above the bar if there is one."""
        print_text(self._console, text)

    def advance(self, done: float, what: str = "", computations: Sequence[ComputationProgress] = ()) -> None:
        """Show its progress.

        Args:
            done: part of the run that is done, 0 to 1.
            what: what it is doing, if that is not the run itself.
            computations: how far each of them is.
        """
        title = self._at = f"{self._title}: {what}" if what else self._title
        self._done = done

        def lines() -> str:
            return "\n".join([f"{title}: {done:.0%}", *(f"  {progress_line(one)}" for one in computations)])

        self.show(title, done, 1.0, lines)
        if computations and self._console.is_terminal:
            self._live.update(Group(self._bar, progress_table(computations)))

    def on_part(self, what: str, done: int, total: int) -> None:
        """Show what is being measured, how much of it is done, and the total."""
        text = self._at = f"{what}: {done:,} of {total:,}"
        self._done = done / max(total, 1)
        self.show(text, done, total, lambda: text)

    def show(self, what: str, done: float, of: float, lines: Callable[[], str], rate: str = "") -> None:
        """Show how much is done.

        Args:
            what: what is being done.
            done: how much of it is done.
            of: how much there is to do.
            lines: makes the line that is printed occasionally if there is no terminal.
            rate: for the bar.
        """
        now = time.monotonic()
        self.elapsed_s = now - self._began
        if self._console.is_terminal:
            self._bar.update(self._task, description=what, completed=done, total=of, rate=rate)
        elif now - self._last_line >= _LINE_PERIOD_S:
            self._last_line = now
            self._console.print(lines(), soft_wrap=True)


class SearchProgress:
    """The display of a search while it runs; a context manager.

    Args:
        examples: how many runs are wanted.

    Attributes:
        latest: what has been found so far; ``None`` before the first run.
        runs: all runs, also those in which no fault struck, and those that shrink a failure.
    """

    def __init__(self, examples: int) -> None:
        self.latest: Verification | None = None
        self.runs = 0
        self._said = False
        self._examples = examples
        columns = (MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
        self._display = RunProgress("searching", *columns)

    def __enter__(self) -> Self:
        """Start the display."""
        self._display.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the display."""
        self._display.__exit__(None, None, None)

    @property
    def elapsed_s(self) -> float:
        """The wall time of the search, in seconds."""
        return self._display.elapsed_s

    @property
    def runs_per_second(self) -> float:
        """The rate over the whole search, in runs a second of wall time."""
        return self.runs / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def shrinking(self) -> bool:
        """Whether a failure is being shrunk."""
        return self.latest is not None and self.runs > self.latest.runs + self.latest.idle

    def on_run(self, verification: Verification) -> None:
        """Count a run; `verify` calls it after each."""
        self.latest = verification
        self.runs += 1
        if verification.failure is not None and not self._said:
            self._said = True
            names = ", ".join(verification.failure.violations) or "the run stopped with an error"
            self._display.say(f"VIOLATED in run {self.runs:,}: {names}. The report follows.")
        word, (done, of) = self._how_far(verification)
        rate = f"{self._rate} runs/s"
        self._display.show(word, done, of, lambda: self._line(verification), rate)

    def on_trial(self, done: int, wanted: int) -> None:
        """Show how many trials of a Spark job or sink are done."""
        text = f"{done:,} of {wanted:,} trials" if wanted else "running undisturbed"
        self._display.show("searching" if wanted else text, done, wanted, lambda: text)

    def on_first(self, finding: Finding) -> None:
        """Show the first finding that is violated, while the search goes on."""
        what, how = finding.finding_class.name, finding.sentences[0]
        self._display.say(f"{what}: {finding.kind.title}. {how} The search goes on.")

    def _how_far(self, verification: Verification) -> tuple[str, tuple[int, int]]:
        """Show the current part, how much of it is done, and the total."""
        exploration = verification.exploration
        if exploration is not None:
            departures = counted(exploration.rounds, "departure")
            return f"schedules with {departures}", (exploration.done, exploration.expected)
        word = "shrinking a failure" if self.shrinking else "searching"
        return word, (verification.runs, self._examples)

    @property
    def _rate(self) -> str:
        rate = self.runs_per_second
        return f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}"

    def _line(self, verification: Verification) -> str:
        if self.shrinking:
            return f"shrinking a failure: {self.runs - verification.runs - verification.idle} runs"
        if verification.exploration is not None:
            word, (done, of) = self._how_far(verification)
            return f"{word}: {done:,} of about {of:,}, {self._rate} runs a second"
        return f"{verification.runs} of {self._examples} runs, {self._rate} a second"
