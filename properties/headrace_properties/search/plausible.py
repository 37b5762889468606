"""Plausible numbers: a plan from an edited file must not run for days or exhaust memory.

Plans drawn by a search are far within these limits.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from headrace import HOUR, MILLISECOND
from headrace_properties.search.plans import Plan
from headrace_sim import Feed

_MOST = 1_000_000
_MOST_PROCESSES = 1_000
_MOST_BYTES = 1 << 40
_PROCESSES = ("workers", "masters", "authority_replicas", "authority_shards")


def implausible(plan: Plan, feed: Feed, kept: Sequence[int] | None = None) -> str:
    """Name the first field with an implausible value, and what is expected; ``""``: none.

    Args:
        plan: as the file has it.
        feed: its input; the plan may last an hour longer.
        kept: which of the input's records the run keeps, by their order from 0; ``None``: all.
    """
    last_us = feed.end_us + HOUR
    for path, name, value in _numbers("plan", "", plan):
        low, high = _limits(name, last_us, "faults" in path)
        if not low <= value <= high:
            return f"{path} is {value}; expected a number from {low:,} to {high:,}"
    return missing_records(feed, kept)


def missing_records(feed: Feed, kept: Sequence[int] | None) -> str:
    """Name the first record that a trial keeps and its input has not; ``""``: none.

    Args:
        feed: the whole input.
        kept: as in `implausible`.
    """
    records = feed.records
    wrong = [number for number in kept or () if not 0 <= number < records]
    return f"kept has {wrong[0]}; the number of records in the input is only {records:,}" if wrong else ""


def _limits(name: str, last_us: int, of_faults: bool) -> tuple[float, float]:  # noqa: FBT001  a private helper
    match name:
        case "seed":
            return -(1 << 63), 1 << 63
        case "at_us" | "for_us" | "heal_at_us" | "restart_after_us" | "delay_us":
            return 0, last_us
        case "by_us":  # a clock may be put back
            return -last_us, last_us
        case "drop" | "duplicate" | "delay" | "rate" if of_faults:
            return 0, 1
        case _ if name in _PROCESSES:
            return 1, _MOST_PROCESSES
        case _ if name.endswith("_period_us"):
            return 0 if name == "balance_period_us" else MILLISECOND, last_us
        case _ if name.endswith("us"):
            return -last_us, last_us
        case _ if name.endswith("_bytes"):
            return 0, _MOST_BYTES
        case _:
            return 0, _MOST


def _numbers(path: str, name: str, value: Any) -> Iterator[tuple[str, str, float]]:
    """Walk through a value: (path, the field's name, number)."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield path, name, value
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from _numbers(f"{path}.{field}", field, getattr(value, field))
    elif dataclasses.is_dataclass(value):
        for member in dataclasses.fields(value):
            yield from _numbers(f"{path}.{member.name}", member.name, getattr(value, member.name))
    elif isinstance(value, tuple | list):
        for number, item in enumerate(value):
            yield from _numbers(f"{path}[{number}]", name, item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(f"{path}.{key}", name, item)
