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
    from headrace_properties.spark_jobs.targets import SparkTarget
    from headrace_sim.spark.sinks import SinkFinding, SinkReport

_LINE_PERIOD_S = 10.0
"""Choice: a line of progress so often."""


def verify_spark(name: str, schemas: Sequence[str], feed_name: str, seed: int, *, as_json: bool) -> ExitCode:
    """Try a Spark job's sink at each of its effects, and print what was found.

    Args:
        name: ``MODULE:FUNCTION`` or ``MODULE:JOB``.
        schemas: The schema of its input, ``[PARAMETER=]COLUMNS`` each.
        feed_name: What the module calls its rows, or the function that makes them.
        seed: For rows that are drawn.
        as_json: Whether to print one JSON document.

    Raises:
        HeadraceError: The target is not there, is no Spark job, does something that cannot be simulated, or PySpark is missing.

    """
    with stdout_reserved():
        target = _target(name, schemas, feed_name, seed)
        began = time.monotonic()
        report = target.verify(progress=_Progress(name))
        elapsed_s = time.monotonic() - began
    code = ExitCode.VIOLATED if report.findings else ExitCode.UNKNOWN if report.unknown else ExitCode.HOLDS
    if as_json:
        print_document(_document(target.name, report, code))
    else:
        _print(target.name, report, code, elapsed_s)
    return code


def _target(name: str, schemas: Sequence[str], feed_name: str, seed: int) -> "SparkTarget":
    module, found = load_named(name)
    try:
        from headrace_properties.spark_jobs.targets import spark_target  # noqa: PLC0415
    except ModuleNotFoundError:
        import headrace.spark  # noqa: F401, PLC0415  it says which packages are missing

        raise
    feed = getattr(module, feed_name, None)
    return spark_target(name, found, module=module, schemas=_schemas(name, schemas), feed=feed, seed=seed)


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


def _print(name: str, report: "SinkReport", code: ExitCode, elapsed_s: float) -> None:
    console = output_console()
    effects = ", ".join(map(str, report.effects))
    console.print(f"{name}: a sink with {effects} effects in {len(report.effects)} batches")
    console.print(
        f"{report.trials:,} trials in {elapsed_s:.1f} s: each effect of each batch under every fault"
    )
    for finding in report.findings:
        console.print(f"\nVIOLATED: each row exactly once ({finding.wrong.value})", soft_wrap=True)
        console.print(f"  {finding}", soft_wrap=True)
        console.print(f"  Seen in {finding.trials:,} trials.")
    for why in report.unknown:
        console.print(f"\nUNKNOWN: {why}", soft_wrap=True)
    console.print(f"\n{RESULT_WORDS[code].capitalize()}.")


def _document(name: str, report: "SinkReport", code: ExitCode) -> dict[str, Any]:
    return {
        "target": name,
        "result": RESULT_WORDS[code],
        "trials": report.trials,
        "effects": list(report.effects),
        "findings": [_finding_document(finding) for finding in report.findings],
        "unknown": list(report.unknown),
    }


def _finding_document(finding: "SinkFinding") -> dict[str, Any]:
    return {
        **{field.name: getattr(finding, field.name) for field in dataclasses.fields(finding)},
        "wrong": finding.wrong.value,
        "fault": {
            "kind": finding.fault.kind.value,
            "batch": finding.fault.batch,
            "effect": finding.fault.effect,
        },
    }
