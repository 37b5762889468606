"""Format computations' progress for people: as a table's rows, or as lines of a log."""

from collections.abc import Iterable
from datetime import UTC, datetime

from rich import filesize
from rich.table import Table

from headrace import HOUR, MAX_TIME, MIN_TIME, SECOND, ComputationProgress, format_time
from headrace_cli.terminal.render import plain_table

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
