"""REPORT.md: a function of the report's data and of the paper's numbers, so that a number that was changed by hand shows."""

from collections.abc import Iterable, Iterator

from headrace_benchmarks.section8.experiment import FULL, Experiment, Row
from headrace_benchmarks.section8.experiments import EXPERIMENTS
from headrace_benchmarks.section8.paper import CLAIMS, Claim
from headrace_benchmarks.section8.reporting import Measured, Report, sha256

PLOTS = "docs/report"
"""Where the pictures are, from where REPORT.md is."""

DATA = f"{PLOTS}/runs.json"
"""Where the figures of every run are."""

FITTED = {
    "record_cpu_us": "the median of Figure 13, weak",
    "contended_share": "the 95th percentile of Figure 13, weak",
    "commit_us": "the median of Figure 13, strong",
    "source_lag_us": "the first stage's mean lag in Figure 15",
}
"""Parameter to what it was fitted to."""


def render(report: Report) -> str:
    """Write the report for people."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield f"<!-- Written by `{report.provenance.command}`. Do not edit: `headrace report --check` compares. -->"
    yield f"<!-- sha256 of {DATA}: {sha256(report.to_bytes())} -->"
    yield "# MillWheel's evaluation on the simulated cluster"
    yield ""
    yield "Times on this page are **simulated**, of a model whose few parameters are below; real time has a chapter of its own."
    yield "± is half of a 95 % interval (Student's t) over runs with seeds of their own."
    if report.quick:
        yield "**A quick report**: without the largest clusters."
    fewest = min((one.seeds for one in report.measured if not EXPERIMENTS[one.name].wall), default=FULL.seeds)
    if fewest < FULL.seeds:
        yield f"**Only {fewest} seeds** at each point, where the full report has {FULL.seeds}: the intervals are wide."
    yield ""
    yield from _provenance(report)
    for measured in report.measured:
        if not EXPERIMENTS[measured.name].wall:
            yield from _measured(measured)
    yield from _calibration(report)
    real = [one for one in report.measured if EXPERIMENTS[one.name].wall]
    if real:
        yield "# Real time"
        yield ""
    for measured in real:
        yield from _measured(measured)
    yield from _left_out(report)


def _provenance(report: Report) -> Iterator[str]:
    found = report.provenance
    versions = ", ".join(f"{name} {number}" for name, number in found.versions.items())
    yield f"Command: `{found.command}`. Versions: {versions}. Machine: {found.machine}, {found.cores} cores."
    yield ""


def _measured(measured: Measured) -> Iterator[str]:
    experiment = EXPERIMENTS[measured.name]
    yield f"## {experiment.place}: {experiment.title}"
    yield ""
    yield f"![{experiment.place}]({PLOTS}/{measured.name}.svg)"
    yield ""
    seeds = "Run once" if experiment.wall else f"Seeds: 0 to {measured.seeds - 1} at each point"
    yield f"Command: `headrace report --only {measured.name}`. {seeds}."
    yield ""
    claimed = {row: CLAIMS.get((measured.name, row.point, row.figure)) for row in measured.rows}
    if experiment.wide:
        yield from _wide(measured.rows)
        claimed = {row: claim for row, claim in claimed.items() if claim is not None}
    if claimed:
        yield _header(experiment)
        yield "|---|---|--:|--:|--:|---|"
        for row, claim in claimed.items():
            yield _row(row, claim, wall=experiment.wall)
        yield ""
    yield experiment.remark
    yield ""


def _wide(rows: Iterable[Row]) -> Iterator[str]:
    """A row for each point, a column for each figure; points with other figures are another table."""
    points: dict[str, dict[str, Row]] = {}
    for row in rows:
        points.setdefault(row.point, {})[row.figure] = row
    tables: dict[tuple[str, ...], list[str]] = {}
    for point, found in points.items():
        tables.setdefault(tuple(found), []).append(point)
    for figures, table in tables.items():
        yield f"| | {' | '.join(figures)} |"
        yield f"|---|{'--:|' * len(figures)}"
        for point in table:
            yield f"| {point} | {' | '.join(str(one.value) for one in points[point].values())} |"
        yield ""


def _header(experiment: Experiment) -> str:
    """Simulated time and real time are never in one column; times in a table of several units say what they are."""
    paper, model = (f", {experiment.unit}", f", simulated {experiment.unit}") if experiment.unit else ("", "")
    return f"| | figure | paper{paper} | {'this machine' if experiment.wall else 'model'}{model} | error | |"


def _row(row: Row, claim: Claim | None, *, wall: bool) -> str:
    paper = error = kind = ""
    if claim is not None:
        kind = "measured" if wall else claim.basis.value
        paper = claim.words if claim.value is None else f"{claim.value:g}"
        if claim.value is not None:
            error = f"{(row.value.mean - claim.value) / claim.value:+.0%}"
    return f"| {row.point} | {row.figure} | {paper} | {row.value} | {error} | {kind} |"


def _calibration(report: Report) -> Iterator[str]:
    yield "## Calibration"
    yield ""
    yield "The parameters, with the reason of each in `benchmarks/headrace_benchmarks/section8/calibration.py`. Those that were"
    yield "fitted are found again by `python -m headrace_benchmarks.section8.fitting`, with seeds that this report does not use."
    yield ""
    yield "| parameter | value | fitted to |"
    yield "|---|--:|---|"
    for name, value in report.calibration.items():
        yield f"| {name} | {value:.10g} | {FITTED.get(name, 'not fitted')} |"
    yield ""


def _left_out(report: Report) -> Iterator[str]:
    done = {one.name for one in report.measured}
    left_out = [one for name, one in EXPERIMENTS.items() if name not in done]
    if left_out:
        yield "## Left out of this run"
        yield ""
        for experiment in left_out:
            yield f"- {experiment.place}: {experiment.title} (`headrace report --only {experiment.name}`)"
