"""Invariants, plans and failures in words, for the command and for test reports alike."""

import dataclasses
import enum
from collections.abc import Collection
from functools import cache

import msgspec

from headrace import MAX_TIME, MIN_TIME, KeyInterval, format_time
from headrace.wire.rows import Version
from headrace_properties.checkers.invariant_catalogue import rules
from headrace_properties.histories.batch_checks import BATCH_TITLES
from headrace_properties.histories.file_judge import record_titles
from headrace_properties.printable import describe_input, visible
from headrace_properties.search.application import Application
from headrace_properties.search.judging import Failure
from headrace_properties.search.plans import Plan
from headrace_sim import ClusterOptions


@cache
def titles() -> dict[str, str]:
    """Invariant to its statement, in one line."""
    return {name: rule.title for name, rule in rules().items()} | dict(record_titles()) | BATCH_TITLES


def describe_failure(failure: Failure, application: Application) -> str:
    """Write a failure: what it violates, and the smallest input and fault schedule that do.

    Args:
        failure: the failure found by a search.
        application: the application under test.
    """
    name = application.pipeline.name
    lines = [f"{name} breaks {', '.join(failure.violations) or 'under faults: the run stopped'}"]
    for invariant, violated in failure.violations.items():
        lines += ["", f"{invariant}, {titles().get(invariant, 'a promise')}", f"  {violated.message}"]
    if failure.error:
        lines += ["", *str(failure.error).splitlines()]
    records = input_lines(failure, application)
    lines += ["", "The smallest input found that does this", *(f"  {line}" for line in records)]
    lines += ["", "The smallest fault schedule found that does this"]
    lines += [f"  {line}" for line in plan_lines(failure.plan)]
    return visible("\n".join([*lines, ""]))


def input_lines(failure: Failure, application: Application) -> list[str]:
    """Write the input of a failure, one record per line; and that its arrivals are closer than its author has them, if so."""
    lines = [*describe_input(application.pipeline, application.input_of(failure.trial))]
    if failure.gap_us is not None:
        closer = f"records and watermarks arrive at most {format_time(failure.gap_us)} apart; further apart, this was not seen"
        lines.append(closer)
    return lines


def plan_lines(plan: Plan) -> list[str]:
    """Write a plan: its faults, when they end, and the cluster's unusual options, one per line."""
    lines = plan.describe()
    if plan.faults.count:
        lines.append(f"{format_time(plan.faults.heals_at_us)} all faults end")
    if plan.delays is not None:
        lines.append("every other arrival comes as early as it can")
    return [*lines, "; ".join([f"seed {plan.seed}", *unusual_options(plan.options)])]


def unusual_options(options: ClusterOptions) -> list[str]:
    """Return the options that differ from their defaults, as ``name=value``."""
    usual = ClusterOptions()
    names = [name for name in options.__struct_fields__ if name != "engine"]
    options_set = [
        f"{name}={short(getattr(options, name))}"
        for name in names
        if getattr(options, name) != getattr(usual, name)
    ]
    for field in dataclasses.fields(options.engine):
        value = getattr(options.engine, field.name)
        if value != getattr(usual.engine, field.name):
            options_set.append(f"{field.name}={short(value)}")
    return options_set


def short(value: object) -> str:
    """Write an option's value without empty fields; the ends of time are written by name."""
    match value:
        case enum.Enum():
            return repr(value.value)
        case msgspec.Struct():
            pairs = [(name, getattr(value, name)) for name in value.__struct_fields__]
            inner = ", ".join(
                f"{name}={short(part)}" for name, part in pairs if part not in (None, (), "", b"")
            )
            return f"{type(value).__name__}({inner})"
        case tuple():
            return f"[{', '.join(short(item) for item in value)}]"
        case int() if value in (MAX_TIME, MIN_TIME):
            return format_time(value)
        case _:
            return repr(value)


_TIMES = ("timestamp", "due", "set_at", "origin", "held", "low_watermark")


def describe_fields(value: msgspec.Struct, without: Collection[str] = ()) -> str:
    """Write the fields of an event, or of a part of one, as ``name=value``, without empty ones; bytes are shown as text.

    Args:
        value: the event, row, timer or record.
        without: fields to leave out.
    """
    fields = [(name, getattr(value, name)) for name in value.__struct_fields__ if name not in without]
    return " ".join(f"{name}={_described(name, part)}" for name, part in fields if part not in _EMPTY)


_EMPTY = (None, (), "", b"", False)


def _described(name: str, value: object) -> str:
    match value:
        case Version() | KeyInterval():
            return str(value)
        case enum.Enum():
            return str(value.value)
        case msgspec.Struct():
            return f"({describe_fields(value)})"
        case tuple() | list():
            return f"[{', '.join(_described(name, item) for item in value)}]"
        case bytes():
            return _text(value)
        case int() if name in _TIMES or name.endswith("_us"):
            return format_time(value)
        case _:
            return repr(value)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return repr(data)
