"""REPORT.md: a function of the report's data and the paper's numbers, so that manual changes are detected."""

from collections.abc import Iterable, Iterator

from headrace_benchmarks.section8.experiment import FULL, Experiment, Row
from headrace_benchmarks.section8.experiments import EXPERIMENTS
from headrace_benchmarks.section8.paper import CLAIMS, PaperFigure
from headrace_benchmarks.section8.reporting import ExperimentReport, ExperimentResult, sha256

PLOTS = "docs/report"
"""The directory of the pictures, relative to REPORT.md."""

DATA = f"{PLOTS}/runs.json"
"""The file with the figures of every run, relative to REPORT.md."""

FITTED = {
    "record_cpu_us": "the median of Figure 13, weak",
    "contended_share": "the 95th percentile of Figure 13, weak",
    "commit_us": "the median of Figure 13, strong",
    "source_lag_us": "the first stage's mean lag in Figure 15",
}
"""The number that each fitted parameter was fitted to."""


def render(report: ExperimentReport) -> str:
    """Return the text of REPORT.md."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: ExperimentReport) -> Iterator[str]:
    yield f"<!-- Written by `{report.provenance.command}`. Do not edit: `headrace paper report --check` compares. -->"
    yield f"<!-- sha256 of {DATA}: {sha256(report.to_bytes())} -->"
    yield "# MillWheel's evaluation on the simulated cluster"
    yield ""
    yield "Times on this page are **simulated**, by a model whose few parameters are listed below; real time has its own chapter."
    yield "± gives half of a 95 % confidence interval (Student's t) over runs with different seeds."
    if report.quick:
        yield "**A quick report**: without the largest clusters."
    simulated = [measured for measured in report.measured if not EXPERIMENTS[measured.name].wall]
    fewest = min((measured.seeds for measured in simulated), default=FULL.seeds)
    if fewest < FULL.seeds:
        yield f"**Only {fewest} seeds** at each point; the full report has {FULL.seeds}. The intervals are wide."
    yield ""
    yield from _provenance(report)
    for measured in simulated:
        yield from _measured(measured)
    yield from _calibration(report)
    real = [measured for measured in report.measured if EXPERIMENTS[measured.name].wall]
    if real:
        yield "# Real time"
        yield ""
    for measured in real:
        yield from _measured(measured)
    yield from _left_out(report)


def _provenance(report: ExperimentReport) -> Iterator[str]:
    provenance = report.provenance
    versions = ", ".join(f"{name} {number}" for name, number in provenance.versions.items())
    yield f"Command: `{provenance.command}`. Versions: {versions}. Machine: {provenance.machine}, {provenance.cores} cores."
    yield ""


def _measured(measured: ExperimentResult) -> Iterator[str]:
    experiment = EXPERIMENTS[measured.name]
    yield f"## {experiment.place}: {experiment.title}"
    yield ""
    yield f"![{experiment.place}]({PLOTS}/{measured.name}.svg)"
    yield ""
    seeds = "Run once" if experiment.wall else f"Seeds: 0 to {measured.seeds - 1} at each point"
    yield f"Command: `headrace paper report --only {measured.name}`. {seeds}."
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
    """Yield tables with a row for each point and a column for each figure; points with the same figures share a table."""
    points: dict[str, dict[str, Row]] = {}
    for row in rows:
        points.setdefault(row.point, {})[row.figure] = row
    tables: dict[tuple[str, ...], list[str]] = {}
    for point, by_figure in points.items():
        tables.setdefault(tuple(by_figure), []).append(point)
    for figures, table in tables.items():
        yield f"| | {' | '.join(figures)} |"
        yield f"|---|{'--:|' * len(figures)}"
        for point in table:
            yield f"| {point} | {' | '.join(str(row.value) for row in points[point].values())} |"
        yield ""


def _header(experiment: Experiment) -> str:
    """Return a table's header. Simulated and real time never share a column; without a common unit, figures name their own."""
    paper, model = (f", {experiment.unit}", f", simulated {experiment.unit}") if experiment.unit else ("", "")
    return f"| | figure | paper{paper} | {'this machine' if experiment.wall else 'model'}{model} | error | |"


def _row(row: Row, claim: PaperFigure | None, *, wall: bool) -> str:
    paper = error = kind = ""
    if claim is not None:
        kind = "measured" if wall else claim.basis.value
        paper = claim.words if claim.value is None else f"{claim.value:g}"
        if claim.value is not None:
            error = f"{(row.value.mean - claim.value) / claim.value:+.0%}"
    return f"| {row.point} | {row.figure} | {paper} | {row.value} | {error} | {kind} |"


def _calibration(report: ExperimentReport) -> Iterator[str]:
    yield "## Calibration"
    yield ""
    yield "The reason for each parameter is given in `benchmarks/headrace_benchmarks/section8/calibration.py`. To repeat the fit,"
    yield "run `python -m headrace_benchmarks.section8.fitting`; it uses other seeds than this report."
    yield ""
    yield "| parameter | value | fitted to |"
    yield "|---|--:|---|"
    for name, value in report.calibration.items():
        yield f"| {name} | {value:.10g} | {FITTED.get(name, 'not fitted')} |"
    yield ""


def _left_out(report: ExperimentReport) -> Iterator[str]:
    done = {measured.name for measured in report.measured}
    left_out = [experiment for name, experiment in EXPERIMENTS.items() if name not in done]
    if left_out:
        yield "## Left out of this run"
        yield ""
        for experiment in left_out:
            yield f"- {experiment.place}: {experiment.title} (`headrace paper report --only {experiment.name}`)"
