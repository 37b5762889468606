"""Calls of InfluxDB's clients and of HappyBase: points of a time and tags, and cells of a row."""

from collections.abc import Iterator, Mapping
from typing import Any, Self

from headrace_sim.spark.stores.client_objects import (
    ClientKind,
    ClientObject,
    nothing,
    recorder,
    refuse,
    several,
)
from headrace_sim.spark.stores.store_changes import StoreChange, add, matching, remove

# InfluxDB: a point replaces the fields of one with its measurement, tags and time; without a time, the server gives it one


class SeriesPoint:
    """A point that is being made."""

    def __init__(self, measurement_name: str) -> None:
        self.name, self.tags, self.fields = measurement_name, dict[str, Any](), dict[str, Any]()
        self.at: Any = None

    @staticmethod
    def measurement(measurement: str) -> "SeriesPoint":
        return SeriesPoint(measurement)

    def tag(self, key: str, value: Any) -> Self:
        self.tags[key] = value
        return self

    def field(self, field: str, value: Any) -> Self:
        self.fields[field] = value
        return self

    def time(self, time: Any, write_precision: Any = None) -> Self:
        del write_precision
        self.at = time
        return self


def _points(at: ClientObject, record: Any) -> Iterator[SeriesPoint]:
    if isinstance(record, str):
        for line in record.splitlines():
            yield _of_line(line)
    elif isinstance(record, Mapping):
        point = SeriesPoint(record["measurement"])
        point.tags, point.fields = dict(record.get("tags", {})), dict(record["fields"])
        point.at = record.get("time")
        yield point
    elif isinstance(record, SeriesPoint):
        yield record
    elif hasattr(record, "columns"):
        refuse(f"writing a {type(record).__name__} with {at._kind.name}", at._client)
    else:
        for one in record:
            yield from _points(at, one)


def _of_line(line: str) -> SeriesPoint:
    """Return a point of a line of the line protocol."""
    head, fields, *time = line.split(" ")
    measurement, *tags = head.split(",")
    point = SeriesPoint(measurement)
    point.tags, point.fields = (
        dict(pair.split("=", 1) for pair in pairs) for pairs in (tags, fields.split(","))
    )
    point.at = time[0] if time else None
    return point


def _changes(at: ClientObject, bucket: Any, record: Any) -> list[StoreChange]:
    changes = []
    for point in _points(at, record):
        target = f"influxdb: {bucket}.{point.name}"
        if point.at is None:
            changes.append(add(target, {**point.tags, **point.fields}))
        else:
            changes.append(StoreChange(target, {**point.tags, "time": point.at}, (("set", point.fields),)))
    return changes


def _write(at: ClientObject, bucket: str = "", org: Any = None, record: Any = None, **_: Any) -> Any:
    """Write now, or let a batch of points wait: that is what `write_api()` does without another option."""
    del org
    options = at._options.get("write_options")
    mode = str(getattr(options, "write_type", options)).lower()
    if not mode.endswith("synchronous") or mode.endswith("asynchronous"):
        return at._later("write", *_changes(at, bucket, record))
    several(at, "write", _changes(at, bucket, record))
    return None


class Options:
    """Options of a write API, which send in batches."""

    def __init__(self, *_: Any, **__: Any) -> None: ...


def _flush(*_: Any) -> None:
    recorder().send_waiting()


_WRITE_API = ClientKind("influxdb_client's write API", {"write": _write, "flush": _flush, "close": _flush})
INFLUX = ClientKind(
    "influxdb_client's client", {"close": nothing(), "ping": nothing(True)}, {"write_api": _WRITE_API}
)


def _write_points(at: ClientObject, points: Any, database: Any = None, tags: Any = None, **_: Any) -> bool:
    written = list(_points(at, points))
    for point in written:
        point.tags = {**(tags or {}), **point.tags}
    several(at, "write_points", _changes(at, database or at._options.get("database", ""), written))
    return True


INFLUX_1 = ClientKind(
    "influxdb's client",
    {name: nothing() for name in ("close", "create_database", "switch_database")}
    | {"write_points": _write_points},
)

# HBase


def _table(at: ClientObject) -> str:
    return f"hbase: {text(at._names[-1])}"


def text(value: Any) -> Any:
    """Return bytes as a text."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _cells(at: ClientObject, row: Any, data: Mapping[Any, Any]) -> StoreChange:
    cells = {text(name): text(value) for name, value in data.items()}
    return StoreChange(_table(at), {"row": text(row)}, (("set", cells),))


def _counted(at: ClientObject, row: Any, column: Any, value: int = 1) -> None:
    at._write(
        "counter_inc", StoreChange(_table(at), {"row": text(row)}, (("increment", {text(column): value}),))
    )


def _row(at: ClientObject, row: Any, columns: Any = None) -> dict[bytes, bytes]:
    del columns
    rows = matching(at._documents(_table(at)), {"row": text(row)})
    return {
        name.encode(): str(value).encode() for kept in rows for name, value in kept.items() if name != "row"
    }


def _send(at: ClientObject) -> None:
    changes = [one for one in at._held if isinstance(one, StoreChange)]
    at._held[:] = [one for one in at._held if not isinstance(one, StoreChange)]
    several(at, "batch", changes)


_HBASE_BATCH = ClientKind(
    "happybase's batch",
    {
        "put": lambda at, row, data: at._held.append(_cells(at, row, data)),
        "delete": lambda at, row: at._held.append(remove(_table(at), {"row": text(row)})),
        "send": _send,
        "close": _send,
    },
)
_HBASE_TABLE = ClientKind(
    "happybase's table",
    {
        "put": lambda at, row, data: at._write("put", _cells(at, row, data)),
        "delete": lambda at, row: at._write("delete", remove(_table(at), {"row": text(row)})),
        "counter_inc": _counted,
        "row": _row,
    },
    {"batch": _HBASE_BATCH},
)
HBASE = ClientKind(
    "happybase's connection", {name: nothing() for name in ("open", "close", "create_table")}, {"table": _HBASE_TABLE}
)  # fmt: skip
HBASE_POOL = ClientKind("happybase's pool", opens={"connection": HBASE})
