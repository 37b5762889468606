"""The output of ``--json``: one document on stdout, and nothing else there.

Rule of this file: a document is made from the commands' values as they are; see `printable_json`.
"""

import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any

import msgspec
from rich.console import Console

from headrace import MAX_TIME, MIN_TIME, ComputationProgress
from headrace_cli.terminal.consoles import output_console
from headrace_properties.explain.descriptions import titles
from headrace_properties.findings import Finding
from headrace_properties.printable import path_text, printable_json
from headrace_properties.search.judging import Failure
from headrace_properties.verdict import Verdict


@contextmanager
def stdout_reserved() -> Iterator[None]:
    """Send what the user's code prints to stderr, so that stdout has the report and nothing else."""
    with redirect_stdout(sys.stderr):
        yield


def print_document(document: Any) -> None:
    """Write a document, made of any values, to stdout: indented, and as UTF-8 whatever the terminal's encoding."""
    sys.stdout.buffer.write(printable_json(document) + b"\n")
    sys.stdout.flush()


def show(document: Callable[[], Any], tell: Callable[[Console], None], *, as_json: bool) -> None:
    """Print a result on stdout: as one JSON document, or for people."""
    if as_json:
        print_document(document())
    else:
        tell(output_console())


def fields_of(value: object, *names: str) -> dict[str, Any]:
    """Return the attributes that a document shows of a value, by name.

    >>> fields_of(1 + 2j, "real", "imag")
    {'real': 1.0, 'imag': 2.0}
    """
    return {name: getattr(value, name) for name in names}


def invariants_document(
    verdicts: Mapping[str, Verdict], names: Mapping[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the verdicts of invariants or promises, by name.

    Args:
        verdicts: by name.
        names: what each promise says, by name.
    """
    known = {**titles(), **(names or {})}
    return {
        name: {"title": known.get(name, ""), **msgspec.to_builtins(verdict)}
        for name, verdict in verdicts.items()
    }


def finding_document(finding: Finding) -> dict[str, Any]:
    """Return a finding with its fields, and its kind by name, class and title."""
    kind = finding.kind
    document: dict[str, Any] = msgspec.to_builtins(finding, enc_hook=path_text)
    return document | {"kind": kind.name, "class": kind.finding_class.value, "name": kind.title}


def progress_document(progress: Iterable[ComputationProgress]) -> list[dict[str, Any]]:
    """Return each computation's progress; a low watermark that is unknown or at its end is null; ``ended`` distinguishes them."""
    return [
        {
            **dataclasses.asdict(row),
            "low_watermark": row.low_watermark if MIN_TIME < row.low_watermark < MAX_TIME else None,
            "ended": row.low_watermark == MAX_TIME,
        }
        for row in progress
    ]


def failure_document(failure: Failure) -> dict[str, Any]:
    """Return a failing run: what it violated, and everything that determines it."""
    return {
        "violations": invariants_document(failure.violations),
        "error": str(failure.error or ""),
        "fault_schedule": failure.plan.describe(),
        "plan": failure.plan,
        "feed_seed": failure.feed_seed,
        "digest": failure.digest,
    }
