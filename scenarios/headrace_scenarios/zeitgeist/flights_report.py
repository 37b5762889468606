"""Report what Zeitgeist found in the flights: in lines of text, as JSON, and as a picture."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from headrace import HOUR
from headrace_scenarios.zeitgeist.chart import AROUND, draw
from headrace_scenarios.zeitgeist.flight_findings import BLIZZARD, Dip, Findings
from headrace_scenarios.zeitgeist.flight_log import FlightLog, LogOptions, airlines, local, midnight_us

_BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class FlightsReport:
    """What a run found, and the log that it read."""

    findings: Findings
    log: FlightLog

    def about(self) -> list[str]:
        """Describe the input, in paragraphs."""
        log, departures = self.log, len(self.log.reports)
        days = f"{log.options.first} to {log.options.until - timedelta(days=1)}"
        return [
            f"{_counted(log.flights, 'flight')} from New York, {days}: {log.cancelled:,} cancelled, {departures:,} departed",
            (
                f"{_part(log.out_of_order, departures)} of the departures are reported out of order, and "
                f"{_part(len(log.late), departures)} late ({len(log.late):,}): these are dropped and counted (4.5)"
            ),
        ]

    def lines(self) -> list[str]:
        """Draw the blizzard's dips by hour and by airline, if the flights reach as far."""
        if self.findings.options.until < BLIZZARD[1]:
            return []
        dips = self.findings.dips_in(BLIZZARD)
        return [
            "The blizzard of 8-9 February 2013", *_hours(self.findings, dips), "", *_table(dips)
        ]  # fmt: skip

    def summary(self) -> str:
        """Count the dips on other days, and the spikes."""
        dips = self.findings.dips_in(BLIZZARD)
        others = len(self.findings.dips) - len(dips)
        most = f", most on {_busiest(self.findings, dips)}" if others else ""
        hours = sum(map(len, self.findings.comparisons.values()))
        counts = [_counted(others, "other dip") + most, _counted(len(self.findings.spikes), "spike")]
        return f"{'; '.join(counts)}; in {_counted(hours, 'hour')} of airlines"

    def document(self) -> dict[str, Any]:
        """Return the findings as JSON; times are ISO 8601 in New York's time zone."""
        findings, log = self.findings, self.log
        return {
            "flights": log.flights,
            "cancelled": log.cancelled,
            "out_of_order": log.out_of_order,
            "departures": len(log.reports),
            "late": findings.late.total(),
            "dips": [_dip_document(dip) for dip in findings.dips],
            "blizzard": [_dip_document(dip) for dip in findings.dips_in(BLIZZARD)],
            "spikes": [
                {
                    "start": local(spike.start).isoformat(),
                    "key": spike.key,
                    "count": spike.count,
                    "expected": spike.expected,
                }
                for spike in findings.spikes
            ],
        }

    def draw(self, path: Path) -> None:
        """Draw expected against actual departures.

        Raises:
            OSError: the file cannot be written, or its name ends with no known format.
        """
        try:
            draw(self.findings, path, airlines(), _days(self.findings.options))
        except ValueError as error:
            raise OSError(str(error)) from error


def _table(dips: Sequence[Dip]) -> list[str]:
    names = airlines()
    rows = [("", "airline", "dip from", "to", "expected", "departed")]
    for dip in dips:
        start, end = (f"{local(time):%a %H:%M}" for time in (dip.start_us, dip.end_us))
        rows.append((dip.key, names.get(dip.key, ""), start, end, f"{dip.expected:.0f}", f"{dip.departed:,}"))
    totals = f"{sum(dip.expected for dip in dips):.0f}", f"{sum(dip.departed for dip in dips):,}"
    rows.append(("", "all", "", "", *totals))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < 4 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


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
    """Return the other days on which most dips began."""
    days = Counter(
        f"{then.day} {then:%b}" for then in (local(dip.start_us) for dip in findings.dips if dip not in dips)
    )
    return ", ".join(f"{name} ({number})" for name, number in days.most_common(3))


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _part(number: int, whole: int) -> str:
    return f"{number / whole:.1%}" if whole else "0%"


def _days(options: LogOptions) -> tuple[date, date]:
    """Return the days around the blizzard, or the last ones if the flights do not include it."""
    if options.first <= AROUND[0] and options.until >= AROUND[1]:
        return AROUND
    return max(options.first, options.until - (AROUND[1] - AROUND[0])), options.until


def _dip_document(dip: Dip) -> dict[str, Any]:
    return {
        "start": local(dip.start_us).isoformat(),
        "end": local(dip.end_us).isoformat(),
        "expected": round(dip.expected, 1),
        "key": dip.key,
        "reports": dip.reports,
        "departed": dip.departed,
    }
