"""``headrace verify`` for Spark: a ``foreachBatch`` function, a function that starts a query, or a `SparkJob`.

PySpark is imported only when such a target is named.
"""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace_cli._consoles import error_console, output_console
from headrace_cli._documents import print_document, stdout_reserved
from headrace_cli._exit import RESULT_WORDS, ExitCode
from headrace_cli._targets import TargetError, load_named

if TYPE_CHECKING:
    from headrace_properties.spark_jobs.outcomes import JobFinding
    from headrace_properties.spark_jobs.targets import SparkReport, SparkTarget
    from headrace_sim.spark.sinks import SinkFinding

_LINE_PERIOD_S = 10.0
"""Choice: a line of progress so often."""


@dataclasses.dataclass(frozen=True, slots=True)
class SparkOptions:
    """What ``headrace verify`` takes for a Spark job: schemas of its input, what its outcome may depend on, how much to try."""

    schemas: Sequence[str]
    allow: str
    feed_name: str
    schedules: int
    seed: int


def verify_spark(name: str, options: SparkOptions, *, as_json: bool) -> ExitCode:
    """Run a Spark job under schedules, try its sink at each of its effects, and print what was found.

    Args:
        name: ``MODULE:FUNCTION`` or ``MODULE:JOB``.
        options: How.
        as_json: Whether to print one JSON document.

    Raises:
        HeadraceError: The target is not there, is no Spark job, does something that cannot be simulated, or PySpark is missing.

    """
    with stdout_reserved():
        target = _target(name, options)
        from headrace_properties.spark_jobs.targets import causes_named  # noqa: PLC0415

        allowed = causes_named([one.strip() for one in options.allow.split(",") if one.strip()])
        began = time.monotonic()
        report = target.verify(
            schedules=options.schedules, seed=options.seed, allow=allowed, progress=_Progress(name)
        )
        elapsed_s = time.monotonic() - began
    code = ExitCode.VIOLATED if report.findings else ExitCode.UNKNOWN if report.unknown else ExitCode.HOLDS
    if as_json:
        print_document(_document(report, code))
    else:
        _print(report, code, elapsed_s)
    return code


def _target(name: str, options: SparkOptions) -> "SparkTarget":
    module, found = load_named(name)
    try:
        from headrace_properties.spark_jobs.targets import spark_target  # noqa: PLC0415
    except ModuleNotFoundError:
        import headrace.spark  # noqa: F401, PLC0415  it says which packages are missing

        raise
    feed = getattr(module, options.feed_name, None)
    schemas = _schemas(name, options.schemas)
    return spark_target(name, found, module=module, schemas=schemas, feed=feed, seed=options.seed)


def _schemas(name: str, given: Sequence[str]) -> str | Mapping[str, str] | None:
    """``word STRING`` is for all parameters, ``events=word STRING`` for one."""
    pairs = [
        (parameter.strip(), columns)
        for parameter, equals, columns in (one.partition("=") for one in given)
        if equals
    ]
    if not pairs:
        return given[0] if given else None
    if len(pairs) < len(given) or not all(parameter.isidentifier() for parameter, _ in pairs):
        raise TargetError(
            name,
            "--schema is given with a parameter's name and without",
            "Write each as --schema PARAMETER=COLUMNS",
        )
    return dict(pairs)


class _Progress:
    """Says now and then on stderr how far the trials are."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._console = error_console()
        self._last = time.monotonic()

    def __call__(self, done: int, wanted: int) -> None:
        now = time.monotonic()
        if now - self._last >= _LINE_PERIOD_S and done < wanted:
            self._last = now
            self._console.print(f"{self._name}: {done:,} of {wanted:,} trials")


def _print(report: "SparkReport", code: ExitCode, elapsed_s: float) -> None:
    console = output_console()
    if report.job is not None:
        late = f"; up to {report.job.late:,} rows were late" if report.job.late else ""
        console.print(f"{report.name}: {report.job.schedules:,} schedules{late}")
    if report.sink is not None:
        effects = ", ".join(map(str, report.sink.effects))
        console.print(f"{report.name}: a sink with {effects} effects in {len(report.sink.effects)} batches")
        console.print(f"{report.sink.trials:,} trials: each effect of each batch under every fault")
    for finding in report.findings:
        console.print(f"\nVIOLATED: {_promise(finding)}", soft_wrap=True)
        console.print(f"  {finding}", soft_wrap=True)
        console.print(f"  Seen in {_seen(finding)}.")
    for why in report.unknown:
        console.print(f"\nUNKNOWN: {why}", soft_wrap=True)
    console.print(f"\n{RESULT_WORDS[code].capitalize()}, after {elapsed_s:.1f} s.")


def _promise(finding: "JobFinding | SinkFinding") -> str:
    kind = getattr(finding, "cause", None) or getattr(finding, "wrong", None)
    assert kind is not None
    return f"{'the same outcome always' if hasattr(finding, 'cause') else 'each row exactly once'} ({kind.value})"


def _seen(finding: "JobFinding | SinkFinding") -> str:
    trials = getattr(finding, "trials", None)
    return f"{getattr(finding, 'schedules', 0):,} schedules" if trials is None else f"{trials:,} trials"


def _document(report: "SparkReport", code: ExitCode) -> dict[str, Any]:
    return {
        "target": report.name,
        "result": RESULT_WORDS[code],
        "schedules": report.job.schedules if report.job else 0,
        "late": report.job.late if report.job else 0,
        "trials": report.sink.trials if report.sink else 0,
        "effects": list(report.sink.effects) if report.sink else [],
        "findings": [_finding_document(finding) for finding in report.findings],
        "unknown": list(report.unknown),
    }


def _finding_document(finding: "JobFinding | SinkFinding") -> dict[str, Any]:
    """All its fields, with what is no plain value as text."""
    fields = {field.name: getattr(finding, field.name) for field in dataclasses.fields(finding)}
    document = {name: getattr(value, "value", value) for name, value in fields.items()}
    if "fault" in document:
        fault = document["fault"]
        document["fault"] = {"kind": fault.kind.value, "batch": fault.batch, "effect": fault.effect}
    if "schedule" in document:
        document |= {
            "feed": [[repr(row) for row in batch] for batch in document["feed"]],
            "schedule": repr(document["schedule"]),
        }
    return document
