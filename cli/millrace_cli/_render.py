"""What the commands print for people.

Rule of this file: what comes from a run or from a user is printed as it is, never read as markup.
"""

import dataclasses
import enum
import textwrap
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import msgspec
from rich import filesize
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from millrace import HOUR, MAX_TIME, MIN_TIME, SECOND, ComputationProgress, KeyInterval, format_time
from millrace._rows import Version
from millrace_cli._invariants import titles
from millrace_properties.plans import Plan
from millrace_properties.verdict import Holds, Unknown, Verdict, Violated
from millrace_properties.verification import is_finding
from millrace_sim import ClusterOptions

_INDENT = 2
_LONGEST_VALUE = 60
_YEAR_US = 365 * 24 * HOUR


def print_text(console: Console, text: str, *, style: str = "", indent: int = 0) -> None:
    """Print a paragraph, wrapped at the console's width."""
    for line in textwrap.wrap(text, console.width - indent, break_on_hyphens=False) or [""]:
        console.print(Text(" " * indent + line, style=style))


def print_lines(console: Console, text: str, *, indent: int = 0) -> None:
    """Print lines that must not be wrapped, such as a drawing or a command to copy."""
    for line in text.splitlines():
        console.print(" " * indent + line, soft_wrap=True)


def counted(number: int, noun: str) -> str:
    """Write a number of things.

    >>> counted(1, "run"), counted(2_000, "run")
    ('1 run', '2,000 runs')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_heading(console: Console, text: str) -> None:
    """Print a heading, set apart."""
    console.print()
    console.print(Text(text, style="bold"))


def plain_table(*columns: str) -> Table:
    """Make a table without a frame, which survives being copied."""
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column)
    return table


def print_table(console: Console, table: Table, *, indent: int = 0) -> None:
    """Print a table; into a file or a pipe without the blanks that fill its last column."""
    padded = Padding(table, (0, 0, 0, indent))
    if console.is_terminal:
        console.print(padded)
        return
    with console.capture() as capture:
        console.print(padded)
    print_lines(console, "\n".join(line.rstrip() for line in capture.get().splitlines()))


def print_verdicts(console: Console, verdicts: Mapping[str, Verdict]) -> None:
    """Print each invariant: what it says, the verdict, and how often its case came up or why not."""
    table = plain_table("invariant", "", "verdict", "")
    for name, verdict in verdicts.items():
        word, style, detail = _verdict_words(name, verdict)
        table.add_row(Text(name), Text(titles().get(name, "")), Text(word, style=style), Text(detail))
    print_table(console, table, indent=_INDENT)


def _verdict_words(name: str, verdict: Verdict) -> tuple[str, str, str]:
    match verdict:
        case Holds(reached=reached):
            return "holds", "green", "once" if reached == 1 else f"{reached:,} times"
        case Violated() if is_finding(name):
            return "finding", "yellow", "see below"
        case Violated():
            return "VIOLATED", "bold red", "see below"
        case Unknown(why=why):
            return "unknown", "yellow", why


def print_violations(console: Console, verdicts: Mapping[str, Verdict], *, witnesses: bool = False) -> None:
    """Print what each violation was, and the events that show it."""
    for name, verdict in verdicts.items():
        if not isinstance(verdict, Violated):
            continue
        word = "a finding about your code" if is_finding(name) else "VIOLATED"
        print_heading(console, f"{name}, {titles().get(name, 'an invariant')}: {word}")
        print_text(console, verdict.message, indent=2)
        if witnesses and verdict.witness:
            console.print("  Witness:")
            for event in verdict.witness:
                print_text(console, describe_event(event), indent=4)


def print_error(console: Console, error: str, *, sound: bool) -> None:
    """Print what a run stopped with. ``sound``: on the protocol as it is, where a failed assertion is a bug of ours."""
    print_heading(console, "The run stopped")
    print_lines(console, error, indent=2)
    if sound and error.startswith(AssertionError.__name__):
        print_text(console, "This is a bug in Millrace itself, not in your code.", indent=2)


def print_counts(console: Console, counts: Mapping[str, int]) -> None:
    """Print names with numbers, in their order: the same each time, so that two reports can be compared."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right")
    table.add_column()
    for name, count in counts.items():
        table.add_row(f"{count:,}", Text(name))
    print_table(console, table, indent=_INDENT)


def print_plan(console: Console, plan: Plan) -> None:
    """Print a plan: its faults, when they end, and what is unusual about the cluster."""
    print_lines(console, plan.faults.describe(), indent=2)
    if plan.faults.faults:
        print_lines(console, f"{format_time(plan.faults.heals_at_us)} everything heals", indent=2)
    unusual = unusual_options(plan.options)
    print_text(console, "; ".join([f"seed {plan.seed}", *unusual]), indent=2)


def unusual_options(options: ClusterOptions) -> list[str]:
    """The options that are not at their defaults, as ``name=value``."""
    usual = ClusterOptions()
    names = [name for name in options.__struct_fields__ if name != "engine"]
    found = [
        f"{name}={_short(getattr(options, name))}"
        for name in names
        if getattr(options, name) != getattr(usual, name)
    ]
    for field in dataclasses.fields(options.engine):
        value = getattr(options.engine, field.name)
        if value != getattr(usual.engine, field.name):
            found.append(f"{field.name}={_short(value)}")
    return found


def describe_event(event: msgspec.Struct) -> str:
    """Write an event of a History in a line.

    >>> from millrace.history import AckSent
    >>> describe_event(AckSent(1_500_000, "worker-1", "B", ("A@1.1#0",), "worker-0"))
    "1.500000s worker-1: AckSent computation='B' record_ids=['A@1.1#0'] to='worker-0'"
    """
    fields = [name for name in event.__struct_fields__ if name not in ("at_us", "process")]
    words = [
        f"{name}={_short(getattr(event, name))}"
        for name in fields
        if getattr(event, name) not in (None, (), "")
    ]
    place = getattr(event, "process", "") or "the run"
    return " ".join([format_time(getattr(event, "at_us", 0)), f"{place}:", type(event).__name__, *words])


def _short(value: object) -> str:
    """A value for people: empty fields are left out, times at their ends are named, bytes are cut."""
    match value:
        case Version() | KeyInterval():
            return str(value)
        case enum.Enum():
            return repr(value.value)
        case msgspec.Struct():
            pairs = [(name, getattr(value, name)) for name in value.__struct_fields__]
            inner = ", ".join(
                f"{name}={_short(one)}" for name, one in pairs if one not in (None, (), "", b"")
            )
            return f"{type(value).__name__}({inner})"
        case tuple():
            return f"[{', '.join(_short(one) for one in value)}]"
        case bytes() if len(value) > _LONGEST_VALUE:
            return f"{value[:_LONGEST_VALUE]!r}..."
        case int() if value in (MAX_TIME, MIN_TIME):
            return format_time(value)
        case _:
            return repr(value)


_COLUMNS = ("records", "late", "out", "low watermark", "lag", "timers", "keys", "state")


def progress_table(computations: Iterable[ComputationProgress]) -> Table:
    """How far computations are, one a line."""
    table = plain_table("computation", *_COLUMNS)
    for column in table.columns[1:]:
        column.justify = "right"
    for one in computations:
        table.add_row(one.name, *_progress_cells(one))
    return table


def progress_line(one: ComputationProgress) -> str:
    """How far a computation is, as a line of a log.

    >>> progress_line(ComputationProgress("counter", 1_234, 3, 55, 1_500_000, 2_000_000, timers=17))
    'counter: records 1,234, late 3, out 55, low watermark 1.500000s, lag 2.0s, timers 17'
    """
    cells = zip(_COLUMNS, _progress_cells(one), strict=True)
    return f"{one.name}: " + ", ".join(f"{column} {cell}" for column, cell in cells if cell)


def _progress_cells(one: ComputationProgress) -> list[str]:
    lag = "" if one.lag_us is None else f"{one.lag_us / SECOND:,.1f}s"
    counts = [f"{number:,}" for number in (one.records, one.late_records, one.outputs)]
    size = "" if one.state_bytes is None else filesize.decimal(one.state_bytes)
    rest = ["" if number is None else f"{number:,}" for number in (one.timers, one.keys)]
    return [*counts, _time(one.low_watermark), lag, *rest, size]


def _time(time_us: int) -> str:
    """An event time: a date if it can be one of our days."""
    if not MIN_TIME < time_us < MAX_TIME:
        return "unknown" if time_us == MIN_TIME else "the end"
    if time_us < _YEAR_US:
        return format_time(time_us)
    return f"{datetime.fromtimestamp(time_us / SECOND, UTC):%Y-%m-%d %H:%M:%S}"
