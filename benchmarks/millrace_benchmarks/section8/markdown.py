"""REPORT.md: a function of the report's JSON and of the paper's numbers, so that a number that was changed by hand shows."""

from collections.abc import Iterator

from millrace_benchmarks.section8.calibration import CALIBRATION
from millrace_benchmarks.section8.experiments import EXPERIMENTS, FULL, Row
from millrace_benchmarks.section8.paper import CLAIMS, Claim
from millrace_benchmarks.section8.reporting import Measured, Report, sha256

PLOTS = "docs/report"
"""Where the pictures are, from where REPORT.md is."""

FITTED = {
    "record_cpu_us": "the median of Figure 13, weak",
    "contended_share": "the 95th percentile of Figure 13, weak",
    "commit_us": "the median of Figure 13, strong",
    "source_lag_us": "the first stage's mean lag in Figure 15",
}
"""Parameter to what it was fitted to."""

UNMEASURED = (
    ("Figure 16", "the framework's cache"),
    ("6.1.3", "pipelines of depth 1 to 8 with machines failing, and what senders hold meanwhile"),
    ("6.1.2, 6.1.3", "strong against weak in one table; until then `millrace compare MODULE:PIPELINE`"),
    ("wall time", "the same on real Spark"),
)
"""What no command of this report measures yet."""

_REMARKS = {
    "figure-13": (
        "Latency: from a record's arrival at the stage that buckets to the arrival of what it becomes at the stage that sorts, so"
        " that each stage's CPU, commit and wire count once. The paper does not say where it begins and ends."
        f" Nor does it say how many keys there are: here {CALIBRATION.keys:,}, on which the tails depend. The fit's runs have"
        " other seeds; the error of a fitted figure shows how far that carries."
    ),
    "figure-14": (
        f"The input grows with the cluster, and the program's {CALIBRATION.keys:,} keys do not, so that in a larger cluster more"
        " records meet at a key and wait for each other there: a weak step holds its key until its productions are ACKed. That"
        " is what makes the tail grow here; with keys in proportion it would not. Whether it is what made the paper's grow, the"
        " paper does not say; with a tenth of the keys the median would grow, too."
    ),
    "figure-15": (
        "Lag: real time less the low watermark that the authority has broadcast, polled once a second; stdev: of a run's polls."
        " The model's processes keep their periods to the microsecond; only a source's promises come at random. The period of"
        " reports was chosen for the paper's less than 200 ms a stage, the promises' was not."
        " Productions are strong, with exactly-once."
    ),
}


def render(report: Report) -> str:
    """Write the report for people."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield f"<!-- Written by `{report.provenance.command}`. Do not edit: `millrace report --check` compares. -->"
    yield f"<!-- sha256 of the JSON beside this file: {sha256(report.to_bytes())} -->"
    yield "# MillWheel's evaluation on the simulated cluster"
    yield ""
    yield "All times on this page are **simulated** milliseconds, of a model whose few parameters are below; none is wall time."
    yield "± is half of a 95 % interval (Student's t) over runs with seeds of their own."
    if report.quick:
        yield "**A quick report**: without the largest clusters."
    fewest = min((one.seeds for one in report.measured), default=0)
    if fewest < FULL.seeds:
        yield f"**Only {fewest} seeds** at each point, where the full report has {FULL.seeds}: the intervals are wide."
    yield ""
    yield from _provenance(report)
    for measured in report.measured:
        yield from _measured(measured)
    yield from _calibration(report)
    yield from _unmeasured(report)


def _provenance(report: Report) -> Iterator[str]:
    found = report.provenance
    versions = ", ".join(f"{name} {number}" for name, number in found.versions.items())
    yield f"Command: `{found.command}`. Versions: {versions}. Machine: {found.machine}, {found.cores} cores."
    yield ""


def _measured(measured: Measured) -> Iterator[str]:
    experiment = EXPERIMENTS[measured.name]
    yield f"## {heading(measured.name)}: {experiment.title}"
    yield ""
    yield f"![{heading(measured.name)}]({PLOTS}/{measured.name}.svg)"
    yield ""
    yield f"Command: `millrace report --only {measured.name}`. Seeds: 0 to {measured.seeds - 1} at each point."
    yield ""
    yield "| | figure | paper, ms | model, simulated ms | error | |"
    yield "|---|---|--:|--:|--:|---|"
    for row in measured.rows:
        yield _row(row, CLAIMS.get((measured.name, row.point, row.figure)))
    yield ""
    yield _REMARKS[measured.name]
    yield ""


def heading(name: str) -> str:
    """How people call an experiment.

    >>> heading("figure-13")
    'Figure 13'
    """
    return name.capitalize().replace("-", " ")


def _row(row: Row, claim: Claim | None) -> str:
    paper = error = kind = ""
    if claim is not None:
        kind = "fitted" if claim.fitted else "predicted"
        paper = claim.words if claim.ms is None else f"{claim.ms:g}"
        if claim.ms is not None:
            error = f"{(row.ms.mean - claim.ms) / claim.ms:+.0%}"
    return f"| {row.point} | {row.figure} | {paper} | {row.ms} | {error} | {kind} |"


def _calibration(report: Report) -> Iterator[str]:
    yield "## Calibration"
    yield ""
    yield "The parameters, with the reason of each in `benchmarks/millrace_benchmarks/section8/calibration.py`. Those that were"
    yield "fitted are found again by `python -m millrace_benchmarks.section8.fitting`, with seeds that this report does not use."
    yield ""
    yield "| parameter | value | fitted to |"
    yield "|---|--:|---|"
    for name, value in report.calibration.items():
        yield f"| {name} | {value:.10g} | {FITTED.get(name, 'not fitted')} |"
    yield ""


def _unmeasured(report: Report) -> Iterator[str]:
    yield "## Not yet measured"
    yield ""
    done = {one.name for one in report.measured}
    for name, experiment in EXPERIMENTS.items():
        if name not in done:
            yield f"- {heading(name)}: {experiment.title} (left out of this run)"
    for what, words in UNMEASURED:
        yield f"- {what}: {words}"
