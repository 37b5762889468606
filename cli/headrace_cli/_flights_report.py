"""Report what Zeitgeist found in the flights, for people and as JSON."""

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from rich.console import Console

from headrace import HOUR
from headrace_cli._documents import fields_of
from headrace_cli._render import counted, plain_table, print_heading, print_lines, print_table, print_text
from headrace_scenarios.zeitgeist.chart import AROUND, draw
from headrace_scenarios.zeitgeist.findings import BLIZZARD, Dip, Findings
from headrace_scenarios.zeitgeist.flight_log import FlightLog, LogOptions, airlines, local, midnight_us

_BARS = " ▁▂▃▄▅▆▇█"


def print_flights(console: Console, log: FlightLog) -> None:
    """Describe the input."""
    options, departures = log.options, len(log.reports)
    days = f"{options.first} to {options.until - timedelta(days=1)}"
    print_text(
        console,
        f"{counted(log.flights, 'flight')} from New York, {days}: {log.cancelled:,} cancelled, {departures:,} departed",
    )
    print_text(
        console,
        f"{_part(log.out_of_order, departures)} of the departures are reported out of order, and "
        f"{_part(len(log.late), departures)} late ({len(log.late):,}): these are dropped and counted (4.5)",
    )


def print_findings(console: Console, findings: Findings) -> None:
    """Print the blizzard's dips by hour and by airline, and the number of other dips."""
    dips = findings.dips_in(BLIZZARD)
    if findings.options.until >= BLIZZARD[1]:
        print_heading(console, "The blizzard of 8-9 February 2013")
        print_lines(console, "\n".join(_hours(findings, dips)), indent=2)
        console.print()
        _print_dips(console, dips)
    others = len(findings.dips) - len(dips)
    most = f", most on {_busiest(findings, dips)}" if others else ""
    hours = sum(map(len, findings.comparisons.values()))
    found = [counted(others, "other dip") + most, counted(len(findings.spikes), "spike")]
    print_text(console, f"{'; '.join(found)}; in {counted(hours, 'hour')} of airlines", indent=2)


def _print_dips(console: Console, dips: Sequence[Dip]) -> None:
    names = airlines()
    counts = ("expected", "departed")
    table = plain_table("", "airline", "dip from", "to", *counts, numbers=counts)
    for dip in dips:
        start, end = (f"{local(time):%a %H:%M}" for time in (dip.start_us, dip.end_us))
        table.add_row(dip.key, names.get(dip.key, ""), start, end, f"{dip.expected:.0f}", f"{dip.departed:,}")
    table.add_row(
        "",
        "all",
        "",
        "",
        f"{sum(dip.expected for dip in dips):.0f}",
        f"{sum(dip.departed for dip in dips):,}",
    )
    print_table(console, table, indent=2)


def _hours(findings: Findings, dips: Sequence[Dip]) -> list[str]:
    """Draw both days as rows of bars, one character per hour; below, the number of airlines with a dip in progress."""
    starts = range(midnight_us(BLIZZARD[0]), midnight_us(BLIZZARD[1]), HOUR)
    totals = [findings.total(start) for start in starts]
    highest = max(max(expected, actual) for expected, actual in totals) or 1
    days = "".join(
        f"{local(start):%a} {local(start).day} {local(start):%b}".ljust(24) for start in starts[::24]
    )
    low = [sum(dip.start_us <= start < dip.end_us for dip in dips) for start in starts]
    return [
        f"{'':10}{days}".rstrip(),
        f"{'':10}{''.join(f'{hour:<6}' for _ in starts[::24] for hour in range(0, 24, 6))}".rstrip(),
        f"{'expected':10}{_bars([expected for expected, _ in totals], highest)}",
        f"{'departed':10}{_bars([actual for _, actual in totals], highest)}",
        f"{'dips':10}{''.join(str(min(number, 9)) if number else ' ' for number in low)}".rstrip(),
    ]


def _bars(values: Sequence[float], highest: float) -> str:
    return "".join(
        _BARS[max(round(value / highest * (len(_BARS) - 1)), value >= 0.5)] for value in values
    ).rstrip()


def _busiest(findings: Findings, dips: Sequence[Dip]) -> str:
    """The other days on which most dips began."""
    days: dict[str, int] = {}
    for dip in findings.dips:
        if dip not in dips:
            then = local(dip.start_us)
            name = f"{then.day} {then:%b}"
            days[name] = days.get(name, 0) + 1
    most = sorted(days, key=lambda name: -days[name])[:3]
    return ", ".join(f"{name} ({days[name]})" for name in most)


def _part(number: int, whole: int) -> str:
    return f"{number / whole:.1%}" if whole else "0%"


def draw_chart(findings: Findings, path: Path) -> None:
    """Draw expected against actual.

    Raises:
        OSError: the file cannot be written, or its name ends with no known format.
    """
    try:
        draw(findings, path, airlines(), _days(findings.options))
    except ValueError as error:
        raise OSError(str(error)) from error


def _days(options: LogOptions) -> tuple[date, date]:
    """Return the days around the blizzard, or the last ones if the flights do not include it."""
    if options.first <= AROUND[0] and options.until >= AROUND[1]:
        return AROUND
    return max(options.first, options.until - (AROUND[1] - AROUND[0])), options.until


def findings_document(findings: Findings, log: FlightLog) -> dict[str, Any]:
    """Return the findings as JSON; times are ISO 8601 in New York's time zone."""
    return {
        **fields_of(log, "flights", "cancelled", "out_of_order"),
        "departures": len(log.reports),
        "late": findings.late.total(),
        "dips": [_dip_document(dip) for dip in findings.dips],
        "blizzard": [_dip_document(dip) for dip in findings.dips_in(BLIZZARD)],
        "spikes": [
            {"start": local(spike.start).isoformat(), **fields_of(spike, "key", "count", "expected")}
            for spike in findings.spikes
        ],
    }


def _dip_document(dip: Dip) -> dict[str, Any]:
    return {
        "start": local(dip.start_us).isoformat(),
        "end": local(dip.end_us).isoformat(),
        "expected": round(dip.expected, 1),
        **fields_of(dip, "key", "reports", "departed"),
    }
