"""The session's time zone: a TIMESTAMP is an instant, which rows have in the process's own zone.

Spark's texts, days and hours are those of the session's zone. Without one, both are the same.
"""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.errors import IllegalArgumentException
from pyspark.sql import types as t

from headrace_sim.spark.columns.held import held
from headrace_sim.spark.columns.in_force import ZONE, in_force, is_set

_MACHINE = ContextVar("the time zone of the machine that runs a trial", default="UTC")


def machine_in(zone: str) -> AbstractContextManager[Any]:
    """Let trials run on a machine of this time zone within."""
    return held(_MACHINE, zone)


def machines_clock(at: datetime) -> datetime:
    """Return an instant with the time zone of the machine that runs a trial. Without one, ``at`` is of UTC."""
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(ZoneInfo(_MACHINE.get()))


def of_machine(value: Any, kind: t.DataType) -> Any:
    """Return a value of this type whose times, without a zone, are of UTC, as a clock of that machine shows them."""
    return _with_times(value, kind, lambda at: machines_clock(at).replace(tzinfo=None))


def at_time(value: Any, kind: t.DataType, at: datetime) -> Any:
    """Return a value of this type with this instant in place of its times."""
    return _with_times(value, kind, lambda _: machines_clock(at).replace(tzinfo=None))


def _with_times(value: Any, kind: t.DataType, moved: Callable[[datetime], datetime]) -> Any:
    match kind:
        case t.TimestampType() if isinstance(value, datetime):
            return moved(value)
        case t.StructType() if isinstance(value, tuple):
            parts = zip(value, kind.fields, strict=True)
            return tuple(_with_times(part, field.dataType, moved) for part, field in parts)
        case t.ArrayType() if isinstance(value, list):
            return [_with_times(part, kind.elementType, moved) for part in value]
        case _:
            return value


def wall_time(at: datetime) -> datetime:
    """Return what a clock in the session's zone shows at an instant. Where an hour occurs twice, ``fold`` says which."""
    return at.astimezone(zone_of(in_force(ZONE))).replace(tzinfo=None) if is_set(ZONE) else at


def instant(wall: datetime) -> datetime:
    """Return when a clock in the session's zone shows a time: an hour that is left out counts as the one behind it."""
    if not is_set(ZONE):
        return wall
    return wall.replace(tzinfo=zone_of(in_force(ZONE))).astimezone().replace(tzinfo=None)


def days_later(at: datetime, days: timedelta) -> datetime:
    """Return the same time of another day, in the session's zone. Where an hour occurs twice, the one with the same offset."""
    wall = wall_time(at) + days
    second = instant(wall.replace(fold=1))
    is_second = wall_time(second) == wall and offset_time(second).utcoffset() == offset_time(at).utcoffset()
    return second if is_second else instant(wall)


def offset_time(at: datetime) -> datetime:
    """Return an instant with the session's zone."""
    return at.astimezone(zone_of(in_force(ZONE)) if is_set(ZONE) else None)


def clock_is_moved() -> bool:
    """Return whether days of the session's zone may have more or less than 24 hours."""
    return is_set(ZONE) and zone_of(in_force(ZONE)).utcoffset(None) is None


@cache
def zone_of(name: str) -> tzinfo:
    """Return a time zone by its name in Java. Raise `IllegalArgumentException`, as Spark does, if there is none."""
    match = re.fullmatch(r"(?:UTC|GMT|UT)?(?:([+-])(\d\d?)(?::?(\d\d))?(?::?(\d\d))?)?|Z", name)
    if match and name:
        hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
        away = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(-away if match[1] == "-" else away) if away else UTC
    with suppress(KeyError, OSError, ValueError):
        return ZoneInfo(_SHORT.get(name, name))
    message = f"[INVALID_CONF_VALUE.TIME_ZONE] The value {name!r} in the config {ZONE!r} is invalid: cannot resolve the time zone"
    raise IllegalArgumentException(message=message)


_SHORT = {
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "ECT": "Europe/Paris", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo",
    "PST": "America/Los_Angeles",
}  # fmt: skip
"""Zones that Java knows by three letters, and Python not."""
