"""Print the commands' output for people.

Rule of this file: what comes from a run or from a user is printed as it is, never read as markup.
"""

import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headrace import format_time
from headrace_cli.terminal.exit import ExitCode
from headrace_properties.checkers.invariant_catalogue import is_about_code
from headrace_properties.explain.descriptions import describe_fields, plan_lines, titles
from headrace_properties.search.judging import by_cause
from headrace_properties.search.plans import Plan
from headrace_properties.search.run_error import RunError, StopCause
from headrace_properties.user_code.comparison import OutputComparison
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated

_INDENT = 2
_STYLES = {ExitCode.HOLDS: "bold green", ExitCode.VIOLATED: "bold red"}
_MOST_RECORDS = 20
_FEW_RECORDS = 5


def print_text(console: Console, text: str, *, style: str = "", indent: int = 0) -> None:
    """Print a paragraph, wrapped at the console's width."""
    for line in textwrap.wrap(text, console.width - indent, break_on_hyphens=False) or [""]:
        console.print(Text(" " * indent + line, style=style))


def print_lines(console: Console, text: str, *, indent: int = 0) -> None:
    """Print lines that must not be wrapped, such as a drawing or a command to copy."""
    for line in text.splitlines():
        console.print((" " * indent + line).rstrip(), soft_wrap=True)


def print_sentences(console: Console, text: str, *, indent: int = 0) -> None:
    """Print a paragraph: wrapped on a terminal; as one line in a file or a pipe, where tools look for it."""
    (print_text if console.is_terminal else print_lines)(console, text, indent=indent)


def counted(number: int, noun: str) -> str:
    """Write a number of things.

    >>> counted(1, "run"), counted(2_000, "run")
    ('1 run', '2,000 runs')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_heading(console: Console, text: str) -> None:
    """Print a heading, set apart."""
    console.print()
    print_text(console, text, style="bold")


def print_result(console: Console, text: str, code: ExitCode) -> None:
    """Print a command's result in the colour of its exit code."""
    print_text(console, text, style=_STYLES.get(code, "bold yellow"))


def plain_table(
    *columns: str, numbers: Collection[str] = (), rows: Iterable[Sequence[str | Text]] = ()
) -> Table:
    """Make a table without a frame, which survives being copied. ``numbers``: the columns to align right."""
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left")
    for row in rows:
        table.add_row(*row)
    return table


def print_table(console: Console, table: Table, *, indent: int = 0) -> None:
    """Print a table; in a file or a pipe, without trailing blanks."""
    padded = Padding(table, (0, 0, 0, indent))
    if console.is_terminal:
        console.print(padded)
        return
    with console.capture() as capture:
        console.print(padded)
    print_lines(console, "\n".join(line.rstrip() for line in capture.get().splitlines()))


def print_verdicts(
    console: Console,
    verdicts: Mapping[str, Verdict],
    names: Mapping[str, str] | None = None,
    *,
    only_before_shrinking: Collection[str] = (),
) -> None:
    """Print each invariant or promise: what it says, its verdict, and how often it was exercised or why not.

    Args:
        console: where to.
        verdicts: by name.
        names: what each promise says, by name.
        only_before_shrinking: violated in the run that the smallest one was shrunk from, and not in the smallest.
    """
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, verdict in verdicts.items():
        word, style, detail = _verdict_words(name, verdict)
        if name in only_before_shrinking:
            detail = "in the run before it was shrunk"
        table.add_row(Text(name), Text(_title(name, names)), Text(word, style=style), Text(detail))
    print_table(console, table, indent=_INDENT)


def _title(name: str, names: Mapping[str, str] | None) -> str:
    return titles().get(name) or (names or {}).get(name, "")


def _verdict_words(name: str, verdict: Verdict) -> tuple[str, str, str]:
    match verdict:
        case Holds(reached=reached):
            return "holds", "green", "once" if reached == 1 else f"{reached:,} times"
        case Violated() if is_about_code(name):
            return "finding", "yellow", "see below"
        case Violated():
            return "VIOLATED", "bold red", "see below"
        case Unknown(why=why):
            return "unknown", "yellow", why


def print_violations(
    console: Console,
    verdicts: Mapping[str, Verdict],
    names: Mapping[str, str] | None = None,
    *,
    witnesses: bool = False,
    brief: bool = False,
) -> None:
    """Print each violation, the cause first, and the events that prove it.

    Args:
        console: where to.
        verdicts: by name.
        names: see `print_verdicts`.
        witnesses: with the events that prove it.
        brief: only the cause, and the names of the others.
    """
    ranked = by_cause(verdicts)
    shown = dict([*ranked.items()][:1]) if brief else ranked
    for name, verdict in shown.items():
        word = "a finding about your code" if is_about_code(name) else "VIOLATED"
        title = _title(name, names)
        print_heading(console, f"{name}, {title}: {word}" if title else f"{name}: {word}")
        print_text(console, verdict.message, indent=2)
        if witnesses and verdict.witness:
            console.print("  Witness:")
            for event in verdict.witness:
                print_text(console, describe_event(event), indent=4)
    if others := [name for name in ranked if name not in shown]:
        print_text(console, f"With it: {', '.join(others)} (--verbose shows each)", indent=2)


def print_questions(console: Console, questions: Mapping[str, Unknown]) -> None:
    """Print what a run leaves open, and what answers it."""
    for name, verdict in questions.items():
        print_heading(console, f"{name}, {_title(name, None)}: unknown")
        print_text(console, verdict.why, indent=2)


def print_error(console: Console, error: RunError, *, sound: bool) -> None:
    """Print the error that stopped a run. ``sound``: on the sound protocol, where a failed assertion is a bug of ours."""
    print_heading(console, "The run stopped")
    print_lines(console, str(error), indent=2)
    if sound and error.stop is StopCause.DEFECT:
        print_text(console, "This is a bug in Headrace itself, not in your code.", indent=2)


def print_counts(console: Console, counts: Mapping[str, int]) -> None:
    """Print names with numbers in a fixed order, so that two reports can be compared."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right")
    table.add_column()
    for name, count in counts.items():
        table.add_row(f"{count:,}", Text(name))
    print_table(console, table, indent=_INDENT)


def print_plan(console: Console, plan: Plan) -> None:
    """Print a plan: its faults, when they end, and what is unusual about the cluster."""
    *lines, options = plan_lines(plan)
    print_lines(console, "\n".join(lines), indent=2)
    print_text(console, options, indent=2)


def print_input(console: Console, lines: Sequence[str], *, whole: bool = False, brief: bool = False) -> None:
    """Print an input, as `describe_input` writes it: the ``whole``, or its first records, fewer if ``brief``."""
    most = _FEW_RECORDS if brief else _MOST_RECORDS
    shown = lines if whole or len(lines) <= most else lines[:most]
    print_lines(console, "\n".join(shown) or "no records", indent=2)
    if len(shown) < len(lines):
        print_text(console, f"... and {len(lines) - len(shown):,} more", indent=2)


def describe_event(event: msgspec.Struct) -> str:
    """Write an event of a History in a line.

    >>> from headrace.history import AckSent
    >>> describe_event(AckSent(1_500_000, "worker-1", "B", ("A@1.1#0",), "worker-0"))
    "1.500000s worker-1: AckSent computation='B' record_ids=['A@1.1#0'] to='worker-0'"
    """
    place = getattr(event, "process", "") or "the run"
    fields = describe_fields(event, ("at_us", "process"))
    return f"{format_time(getattr(event, 'at_us', 0))} {place}: {type(event).__name__} {fields}".rstrip()


def print_differences(console: Console, comparison: OutputComparison, first: str, second: str) -> None:
    """Print the first records in which two outputs differ. ``first``, ``second``: labels of records that only that output has."""
    words = {"first": first, "second": second}
    for side, output in comparison.examples():
        value = output.value.decode(errors="backslashreplace")
        text = f"{words[side]}: {output.stream} {output.key!r} at {output.timestamp} us: {value}"
        print_text(console, text, indent=2)


def print_dropped(console: Console, dropped: Mapping[str, int]) -> None:
    """Report what groupings of the Dataflow layer dropped, if anything."""
    if dropped:
        counts = ", ".join(f"{name} {count:,}" for name, count in sorted(dropped.items()))
        print_text(
            console,
            f"elements dropped by groupings, too late or behind their trigger's last firing: {counts}",
            style="yellow",
        )
