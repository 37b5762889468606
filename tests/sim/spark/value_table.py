"""Values of every SQL type in every place that a stateful job can put them, and what Spark makes of each.

The places: the state of ``applyInPandasWithState``; value, list and map state (key and value) of both forms of
``transformWithState``; the grouping key, and output, of all three. The first call of the key writes, the second one reads.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Row

from tests.stateful import StatefulProcessor

OUTCOMES = Path(__file__).parent / "value_outcomes.json"
"""What they came to on Spark 4.3 (local[2]): see tests/spark/recorded/test_value_conformance.py."""
_AT = datetime(2026, 1, 2, 3, 4, 5, 678901)
_PAIR = "STRUCT<a: INT, at: TIMESTAMP>"
FITTING: dict[str, tuple[str, Any]] = {
    "boolean": ("BOOLEAN", True),
    "tinyint": ("TINYINT", -7),
    "smallint": ("SMALLINT", 700),
    "int": ("INT", 70_000),
    "bigint": ("BIGINT", 1 << 40),
    "float": ("FLOAT", 0.1),
    "double": ("DOUBLE", 0.1),
    "decimal": ("DECIMAL(10, 2)", Decimal("12.30")),
    "string": ("STRING", "é"),
    "binary": ("BINARY", b"\x00\xff"),
    "date": ("DATE", date(2026, 1, 2)),
    "timestamp": ("TIMESTAMP", _AT),
    "timestamp_ntz": ("TIMESTAMP_NTZ", _AT),
    "interval": ("INTERVAL DAY TO SECOND", timedelta(days=1, microseconds=5)),
    "array": ("ARRAY<INT>", [1, None]),
    "dates": ("ARRAY<DATE>", [date(2026, 1, 2)]),
    "struct": (_PAIR, Row(a=1, at=_AT)),
    "structs": (f"ARRAY<{_PAIR}>", [Row(a=1, at=_AT)]),
    "map": ("MAP<STRING, INT>", {"a": 1}),
    "times": ("MAP<DATE, TIMESTAMP>", {date(2026, 1, 2): _AT}),
}
"""A type and a value that belongs to it, by the name of its column."""
OTHERS: dict[str, tuple[str, Any]] = {
    "null": ("TIMESTAMP", None),
    "tinyint_wraps": ("TINYINT", 300),
    "int_wraps": ("INT", 1 << 31),
    "int_of_float": ("INT", 1.0),
    "int_of_string": ("INT", "1"),
    "int_of_boolean": ("INT", True),
    "int_of_numpy": ("INT", np.int64(5)),
    "bigint_of_decimal": ("BIGINT", Decimal(1)),
    "float_of_int": ("FLOAT", 1),
    "double_of_int": ("DOUBLE", 1),
    "double_of_numpy": ("DOUBLE", np.float32(1.5)),
    "double_nan": ("DOUBLE", float("nan")),
    "boolean_of_int": ("BOOLEAN", 1),
    "boolean_of_numpy": ("BOOLEAN", np.bool_(True)),
    "decimal_of_int": ("DECIMAL(10, 2)", 3),
    "decimal_of_float": ("DECIMAL(10, 2)", 3.5),
    "decimal_rounded": ("DECIMAL(10, 2)", Decimal("1.235")),
    "string_of_int": ("STRING", 5),
    "string_of_boolean": ("STRING", True),
    "string_of_float": ("STRING", 1e7),
    "string_of_numpy": ("STRING", np.str_("a")),
    "binary_of_string": ("BINARY", "é"),
    "binary_of_bytearray": ("BINARY", bytearray(b"\x01")),
    "date_of_datetime": ("DATE", _AT),
    "date_of_pandas": ("DATE", pd.Timestamp(_AT)),
    "timestamp_with_zone": ("TIMESTAMP", _AT.replace(tzinfo=timezone(timedelta(hours=2)))),
    "timestamp_in_utc": ("TIMESTAMP", _AT.replace(tzinfo=UTC)),
    "timestamp_of_pandas": ("TIMESTAMP", pd.Timestamp(_AT)),
    "ntz_of_pandas": ("TIMESTAMP_NTZ", pd.Timestamp(_AT)),
    "ntz_with_zone": ("TIMESTAMP_NTZ", _AT.replace(tzinfo=UTC)),
    "interval_of_pandas": ("INTERVAL DAY TO SECOND", pd.Timedelta(hours=1)),
    "array_of_tuple": ("ARRAY<INT>", (1, 2)),
    "array_of_floats": ("ARRAY<INT>", [1.5, 2]),
    "struct_of_dict": (_PAIR, {"a": 1, "at": _AT}),
    "struct_of_tuple": (_PAIR, (1, _AT)),
    "map_of_ints": ("MAP<STRING, DOUBLE>", {1: 1}),
}
"""A type and a value of another one, or in another form."""
STATE = FITTING | OTHERS


def _without(columns: dict[str, tuple[str, Any]], *kinds: str) -> dict[str, tuple[str, Any]]:
    return {name: column for name, column in columns.items() if not any(kind in column[0] for kind in kinds)}


KEYS = _without(FITTING, "ARRAY", "MAP", "INTERVAL")
GROUP_STATE = _without(STATE, "ARRAY", "MAP")
"""PySpark 4.3 fails at both: its worker gets these schemas in lower case, and finds no ``elementType`` in them."""
VARIABLES = _without(STATE, "INTERVAL", "MAP<DATE")
USER_KEYS = _without(VARIABLES, "MAP")


def schema(columns: dict[str, tuple[str, Any]]) -> str:
    return ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())


def row(columns: dict[str, tuple[str, Any]]) -> tuple[Any, ...]:
    return tuple(value for _, value in columns.values())


INPUT = schema(FITTING)
OUTPUT = f"texts MAP<STRING, STRING>, {schema(FITTING)}"
FEED = [[row(FITTING)], [row(FITTING)]]


def _texts(place: str, columns: Iterable[str], values: Iterable[Any]) -> dict[str, str]:
    return {
        f"{place} {name}": f"{type(value).__name__} {value!r}"
        for name, value in zip(columns, values, strict=True)
    }


def _of_frames(frames: Iterable[pd.DataFrame]) -> dict[str, str]:
    frame = pd.concat(frames)
    return _texts("input", FITTING, frame.iloc[0]) | _texts("dtype", FITTING, map(str, frame.dtypes))


def in_group_state(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    texts = _of_frames(frames) | _texts("key", KEYS, key)
    if state.exists:
        texts |= _texts("state", GROUP_STATE, state.get)
    else:
        state.update(row(GROUP_STATE))
    yield _frame(texts)


class _Keeps(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.value = handle.getValueState("value", schema(VARIABLES))
        self.items = handle.getListState("list", schema(VARIABLES))
        self.map = handle.getMapState("map", schema(USER_KEYS), schema(VARIABLES))

    def texts(self, key: Any) -> dict[str, str]:
        texts = _texts("key", KEYS, key)
        if self.value.exists():
            return texts | self._kept()
        self.value.update(row(VARIABLES))
        self.items.appendValue(row(VARIABLES))
        self.map.updateValue(row(USER_KEYS), row(VARIABLES))
        return texts

    def _kept(self) -> dict[str, str]:
        """Where all kinds of state make the same of a value, this is told once."""
        value, (item,), ((user_key, of_key),) = self.value.get(), self.items.get(), self.map.iterator()
        assert self.map.getValue(user_key) is not None
        texts = _texts("state", VARIABLES, value)
        for kind, columns, values in (
            ("list", VARIABLES, item), ("map key", USER_KEYS, user_key), ("map value", VARIABLES, of_key),
        ):  # fmt: skip
            told = _texts("state", columns, values)
            texts |= {f"{kind} {name}": text for name, text in told.items() if texts[name] != text}
        return texts

    def close(self) -> None:
        pass


class InRows(_Keeps):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        texts = _texts("input", FITTING, next(rows)) | self.texts(key)
        yield Row(texts=texts, **{name: value for name, (_, value) in FITTING.items()})


class InPandas(_Keeps):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        yield _frame(_of_frames(rows) | self.texts(key))


def _frame(texts: dict[str, str]) -> pd.DataFrame:
    values = {name: [value] for name, (_, value) in FITTING.items()}
    return pd.DataFrame({"texts": [texts], **values})


def _grouped(events: Any) -> Any:
    return events.groupBy(*KEYS)


QUERIES: dict[str, Callable[[Any], Any]] = {
    "applyInPandasWithState": lambda events: _grouped(events).applyInPandasWithState(
        in_group_state, OUTPUT, schema(GROUP_STATE), "append", "NoTimeout"
    ),
    "transformWithState": lambda events: _grouped(events).transformWithState(
        InRows(), OUTPUT, "append", "None"
    ),
    "transformWithStateInPandas": lambda events: _grouped(events).transformWithStateInPandas(
        InPandas(), OUTPUT, "append", "None"
    ),
}


def told(rows: list[tuple[Any, ...]]) -> dict[str, str]:
    """Return what was seen at each place, given all output rows: in order of time, the texts first."""
    texts: dict[str, str] = {}
    for given, *_ in rows:
        texts |= dict(given)
    return texts | _texts("output", FITTING, rows[-1][1:])
