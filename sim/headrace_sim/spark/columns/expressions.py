"""Recorded columns, evaluated in Python on rows: with types, nulls and errors as in Spark's default ANSI mode.

Binding a column to a schema, once, determines its type and rejects what cannot be followed; the result is a plain function
of a row.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from itertools import compress
from typing import Any

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    SparkRuntimeException,
)
from pyspark.sql import types as t

from headrace_sim.spark.columns.aggregates import NAMES, aggregate
from headrace_sim.spark.columns.avro_values import avro_type, decoded
from headrace_sim.spark.columns.bound import (
    Bound,
    Values,
    alike,
    all_alike,
    as_type,
    boolean,
    converted,
    fitting,
    frame_of,
    is_shared,
    lifted,
    literal,
    number,
    ordered,
    refused,
    text,
    time_kept,
)
from headrace_sim.spark.columns.casts import BITS, cast_value
from headrace_sim.spark.columns.ddl import parse_type
from headrace_sim.spark.columns.decimals import OPERATIONS, as_decimal, fitted
from headrace_sim.spark.columns.functions import FUNCTIONS, PARSED
from headrace_sim.spark.columns.held import held
from headrace_sim.spark.columns.in_force import (
    CORRUPT,
    MAP_KEYS,
    SIZE_OF_NULL,
    expect_followed,
    folded,
    in_force,
    is_ansi,
    is_on,
)
from headrace_sim.spark.columns.json_values import from_json, json_writer
from headrace_sim.spark.columns.recorded import (
    LAMBDA_VARIABLE,
    OF_A_FRAME,
    USER_FUNCTION,
    Recorded,
    case_parts,
    is_name,
    shown,
)
from headrace_sim.spark.columns.task_context import METADATA, metadata_of_file
from headrace_sim.spark.columns.user_functions import called
from headrace_sim.spark.columns.zones import days_later, wall_time
from headrace_sim.spark.refusals import CannotFollowError, NotSimulatedError

_NONE: Mapping[str, int] = {}


def bind(node: Any, schema: t.StructType, grouped_by: Sequence[str] | None = None) -> Bound:
    """Return a recorded column bound to a schema.

    ``node``: what was recorded, or a plain value. ``grouped_by``: if given, the result is a function of the rows of a group
    instead of one row, and these columns are constant. Raise `CannotFollowError` if it calls a function that is not
    simulated, or `AnalysisException` if Spark would refuse it.
    """
    return _Binder(schema, grouped_by).bind(node)


def time_of(inner: Bound) -> Bound:
    """Return the time that a column of windows counts as, its last microsecond; any other column as it is."""
    if not isinstance(inner.type, t.StructType) or inner.type.names != ["start", "end"]:
        return inner
    value = inner.value

    def last(row: Values) -> datetime | None:
        return None if (window := value(row)) is None else window[1] - timedelta(microseconds=1)

    return replace(inner, type=inner.type["end"].dataType, value=last)


def expand(node: Recorded, schema: t.StructType) -> list[Recorded]:
    """Return the columns that ``*`` or ``data.*`` stands for; any other column, alone."""
    name = node.args[0] if node.name == "col" else None
    if name == "*":
        return _fields(schema, node)
    if isinstance(name, str) and name.endswith(".*"):
        alias = name.removesuffix(".*")
        fields = zip(_fields(schema, node), schema.fields, strict=True)
        of_frame = [part for part, field in fields if folded(frame_of(field)) == folded(alias)]
        if of_frame and any(map(is_shared, schema.fields)):
            raise CannotFollowError(f"{name} behind a join on names", node.place, "Name the columns")
        if of_frame:
            return of_frame
        parent = Recorded("col", (alias,), node.place)
        kind = bind(parent, schema).type
        if not isinstance(kind, t.StructType):
            raise refused(node, f"[CANNOT_EXPAND] {name}: the column is {kind.simpleString()}, not a struct")
        return [
            Recorded("as", (Recorded("apply", (parent, field.name), node.place), field.name), node.place)
            for field in kind.fields
        ]
    return [node]


def _fields(schema: t.StructType, node: Recorded) -> list[Recorded]:
    return [Recorded("field", (place, field.name), node.place) for place, field in enumerate(schema.fields)]


_NOW: ContextVar[datetime | None] = ContextVar("now", default=None)


def columns_at(now: datetime) -> AbstractContextManager[Any]:
    """Give columns that ask for the time this one within: a batch that Spark runs again keeps its time."""
    return held(_NOW, now)


class _Binder:
    """Binds the columns of one schema."""

    def __init__(
        self, schema: t.StructType, grouped_by: Sequence[str] | None, variables: Mapping[str, int] = _NONE
    ) -> None:
        self.schema = schema
        self.grouped_by = grouped_by
        self.variables = variables

    def bind(self, node: Any) -> Bound:
        if not isinstance(node, Recorded):
            return literal(node)
        expect_followed(node.name, node.place)
        if node.name in _BINARY:
            return self._binary(node)
        if node.name in NAMES and self.grouped_by is not None:
            return aggregate(node, _Binder(self.schema, None).bind)
        method = _METHODS.get(node.name)
        if method is None:
            alike = get_close_matches(node.name, [*_METHODS, *_BINARY, *NAMES], 1)
            remedy = f"Compute it in Python{f', or use {alike[0]}()' if alike else ''}"
            if node.name in NAMES:
                remedy = "Use it in agg() after groupBy()"
            raise CannotFollowError(f"the function {node.name}() of a column", node.place, remedy)
        return method(self, node)

    def _name(self, node: Recorded) -> Bound:
        name = node.args[0]
        first, *inner = parts = _name_parts(name)
        fields = [(folded(field.name), folded(frame_of(field))) for field in self.schema.fields]
        matching = [place for place, (_, frame) in enumerate(fields) if parts[1:] and frame == folded(first)]
        if matching:
            first, *inner = inner
        places = matching or range(len(fields))
        matching = [place for place in places if fields[place][0] == folded(first)]
        if not matching and parts[1:] and any(map(is_shared, self.schema.fields)):
            what = f"{name!r} behind a join on names"
            raise CannotFollowError(what, node.place, "Name the column without an alias")
        if len(matching) > 1 and OF_A_FRAME in node.args:
            what = f"{name!r} of one of two joined frames that both have it"
            raise CannotFollowError(what, node.place, "Join on names, on='id', or rename it before the join")
        if len(matching) > 1:
            problem = f"Reference {name!r} is ambiguous: {len(matching)} columns have this name"
            raise refused(node, f"[AMBIGUOUS_REFERENCE] {problem}")
        if not matching and folded(first) == "_metadata":
            bound = Bound(first, METADATA, False, lambda _row: metadata_of_file())
        elif not matching:
            problem = f"A column with name {name!r} cannot be resolved. Is it one of: {', '.join(self.schema.names)}"
            raise refused(node, f"[UNRESOLVED_COLUMN.WITH_SUGGESTION] {problem}")
        else:
            field = self.schema.fields[place := matching[0]]
            value = self._reader(place, field.name, node)
            bound = Bound(first, field.dataType, field.nullable, value, field.metadata)
        for part in inner:
            bound = _field(bound, part, node)
        return bound

    def _field_at(self, node: Recorded) -> Bound:
        place, name = node.args
        field = self.schema.fields[place]
        return Bound(name, field.dataType, field.nullable, self._reader(place, name, node), field.metadata)

    def _reader(self, place: int, name: str, node: Recorded) -> Callable[[Values], Any]:
        if self.grouped_by is None:
            return operator.itemgetter(place)
        if name not in self.grouped_by:
            problem = f"The column {name!r} is neither grouped by nor aggregated"
            raise refused(node, f"[MISSING_AGGREGATION] {problem}")
        return lambda rows: rows[0][place]

    def _lit(self, node: Recorded) -> Bound:
        bound = literal(node.args[0])
        return replace(bound, type=node.args[1]) if len(node.args) > 1 else bound

    def _now(self, node: Recorded) -> Bound:
        """Return one time for all rows, as in a Spark query."""
        now, is_date = _NOW.get() or datetime.now(), node.name == "current_date"
        kind = t.DateType() if is_date else t.TimestampType()
        return Bound(shown(node), kind, False, lambda _row: wall_time(now).date() if is_date else now)

    def _file(self, node: Recorded) -> Bound:
        return Bound(shown(node), t.StringType(), False, lambda _row: metadata_of_file()[0])

    def _alias(self, node: Recorded) -> Bound:
        if not isinstance(node.args[1], str):
            raise CannotFollowError("alias() with several names", node.place, "Give one name to each column")
        inner = self.bind(node.args[0])
        return Bound(node.args[1], inner.type, inner.nullable, inner.value, time_kept(inner.metadata))

    def _cast(self, node: Recorded) -> Bound:
        target = parse_type(node.args[1]) if isinstance(node.args[1], str) else node.args[1]
        inner = self.bind(node.args[0])
        return converted(inner, target, node, inner.name if is_name(node.args[0]) else shown(node))

    def _binary(self, node: Recorded) -> Bound:
        left, right = self.bind(node.args[0]), self.bind(node.args[1])
        kinds = {type(left.type), type(right.type)}
        if node.name in OPERATIONS and t.DecimalType in kinds and kinds <= {t.DecimalType, *BITS}:
            return _of_decimals(node, left, right)
        if t.DayTimeIntervalType in kinds and node.name in {"plus", "minus"}:
            return _moved(node, left, right)
        return _BINARY[node.name](node, *alike(left, right, node))

    def _logical_not(self, node: Recorded) -> Bound:
        return lifted(node, t.BooleanType(), operator.not_, boolean(self.bind(node.args[0]), node))

    def _time_of_window(self, node: Recorded) -> Bound:
        return replace(time_of(self.bind(node.args[0])), name="window_time")

    def _of_number(self, node: Recorded) -> Bound:
        inner, function = self.bind(node.args[0]), abs if node.name == "abs" else operator.neg
        return lifted(node, inner.type, fitting(inner.type, function), number(inner, node))

    def _is_null(self, node: Recorded) -> Bound:
        value, wanted = self.bind(node.args[0]).value, node.name in {"isNull", "isnull"}
        return Bound(shown(node), t.BooleanType(), False, lambda row: (value(row) is None) is wanted)

    def _is_in(self, node: Recorded) -> Bound:
        tested = self.bind(node.args[0])
        pairs = [alike(tested, self.bind(option), node) for option in node.args[1]]
        equals = [lifted(node, t.BooleanType(), _equal, left, right).value for left, right in pairs]

        def value(row: Values) -> bool | None:
            unknown = False
            for equal in equals:
                if is_equal := equal(row):
                    return True
                unknown |= is_equal is None
            return None if unknown else False

        return Bound(shown(node), t.BooleanType(), True, value)

    def _case(self, node: Recorded) -> Bound:
        pairs, default = case_parts(node)
        tests = [boolean(self.bind(condition), node) for condition, _ in pairs]
        if any(isinstance(test.type, t.NullType) for test in tests):
            problem = f"[DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE] {shown(node)}: a condition is VOID"
            raise refused(node, problem)
        conditions = [test.value for test in tests]
        options = [self.bind(value) for _, value in pairs] + [self.bind(default[0] if default else None)]
        *chosen, otherwise = all_alike(options, node)

        def value(row: Values) -> Any:
            for test, outcome in zip(conditions, chosen, strict=True):
                if test(row):
                    return outcome.value(row)
            return otherwise.value(row)

        nullable = any(bound.nullable for bound in (*chosen, otherwise))
        return Bound(shown(node), otherwise.type, nullable, value)

    def _coalesce(self, node: Recorded) -> Bound:
        options = all_alike([self.bind(argument) for argument in node.args[0]], node)
        values = [option.value for option in options]
        return Bound(
            shown(node), options[0].type, all(option.nullable for option in options),
            lambda row: next((item for value in values if (item := value(row)) is not None), None),
        )  # fmt: skip

    def _extreme(self, node: Recorded) -> Bound:
        options = all_alike([self.bind(argument) for argument in node.args[0]], node)
        choose = max if node.name == "greatest" else min

        def value(row: Values) -> Any:
            known = (item for option in options if (item := option.value(row)) is not None)
            return choose(known, key=ordered, default=None)

        return Bound(shown(node), options[0].type, all(option.nullable for option in options), value)

    def _concat(self, node: Recorded) -> Bound:
        parts = [text(self.bind(argument), node) for argument in node.args[0]]
        return lifted(node, t.StringType(), lambda *texts: "".join(texts), *parts)

    def _joined(self, node: Recorded) -> Bound:
        """Return ``concat_ws``: nulls are left out, in arrays too."""
        parts = [self._texts(self.bind(argument), node) for argument in node.args[1]]
        between = str(node.args[0])
        return Bound(
            shown(node), t.StringType(), False,
            lambda row: between.join(text for part in parts for text in part(row)),
        )  # fmt: skip

    @staticmethod
    def _texts(inner: Bound, node: Recorded) -> Callable[[Values], list[str]]:
        if not isinstance(inner.type, t.ArrayType):
            alone = text(inner, node).value
            return lambda row: [] if (value := alone(row)) is None else [value]
        cast = cast_value(inner.type.elementType, t.StringType())
        if cast is None:
            what = f"{node.name}() of {inner.type.simpleString()}"
            raise CannotFollowError(what, node.place, "Join it in Python")
        return lambda row: [cast(item) for item in inner.value(row) or () if item is not None]

    def _sorted(self, node: Recorded) -> Bound:
        """Return ``array_sort``, which puts nulls last, or ``sort_array``, for which they are the smallest."""
        inner, nulls_last = self.bind(node.args[0]), node.name == "array_sort"
        descends = self.bind(node.args[1]).value(()) is False if len(node.args) > 1 else False
        if not isinstance(inner.type, t.ArrayType) or (nulls_last and len(node.args) > 1):
            what = f"{node.name}() of {inner.type.simpleString()} with {len(node.args)} arguments"
            raise CannotFollowError(what, node.place, "Give it an array alone, or sort it in Python")

        def call(items: list[Any]) -> list[Any]:
            known = sorted((item for item in items if item is not None), key=ordered, reverse=descends)
            nulls = [None] * (len(items) - len(known))
            return known + nulls if nulls_last or descends else nulls + known

        return lifted(node, inner.type, call, inner)

    def _size(self, node: Recorded) -> Bound:
        inner = self.bind(node.args[0])
        if not isinstance(inner.type, (t.ArrayType, t.MapType, t.NullType)):
            raise _mismatch(node, inner, "is no collection")
        if is_ansi() or not is_on(SIZE_OF_NULL):
            return lifted(node, t.IntegerType(), len, inner)

        def size(row: Values) -> int:
            return -1 if (items := inner.value(row)) is None else len(items)

        return Bound(shown(node), t.IntegerType(), False, size)

    def _over_items(self, node: Recorded) -> Bound:
        """Return ``transform``, ``filter``, ``exists`` or ``forall``, which call a function of columns for each item."""
        inner, (body, variables) = self.bind(node.args[0]), node.args[1].args
        if not isinstance(inner.type, t.ArrayType) or self.grouped_by is not None or len(variables) > 2:
            what = f"{node.name}() of {inner.type.simpleString()} here"
            raise CannotFollowError(what, node.place, "Give it an array, in select() or withColumn()")
        width = len(self.schema.fields)
        added = [t.StructField(_ITEM, inner.type.elementType, inner.type.containsNull)]
        added.append(t.StructField(_ITEM, t.IntegerType(), nullable=False))
        places = {variable.args[0]: width + place for place, variable in enumerate(variables)}
        extended = t.StructType([*self.schema.fields, *added])
        bound = _Binder(extended, None, {**self.variables, **places}).bind(body)
        if node.name != "transform" and not isinstance(bound.type, t.BooleanType | t.NullType):
            problem = f"{bound.name} is {bound.type.simpleString().upper()}, not BOOLEAN"
            raise refused(node, f"[DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE] {shown(node)}: {problem}")
        kind, call, nullable = _OVER_ITEMS[node.name](inner.type, bound)

        def value(row: Values) -> Any:
            items = inner.value(row)
            if items is None:
                return None
            return call(items, [bound.value((*row, item, place)) for place, item in enumerate(items)])

        return Bound(shown(node), kind, inner.nullable or nullable, value)

    def _variable(self, node: Recorded) -> Bound:
        place = self.variables[node.args[0]]
        field = self.schema.fields[place]
        return Bound(shown(node), field.dataType, field.nullable, operator.itemgetter(place))

    def _of_row(self, node: Recorded) -> Bound:
        function = FUNCTIONS[node.name]
        if len(node.args) > 1:
            function = PARSED.get(node.name, function)
        inputs = [self.bind(argument) for argument in node.args]
        if len(inputs) > len(function.takes):
            what = f"{node.name}() with {len(inputs)} arguments"
            remedy = f"Give it {len(function.takes)}, or compute it in Python"
            raise CannotFollowError(what, node.place, remedy)
        pairs = [*zip(inputs, function.takes, strict=False)]
        for inner, kind in pairs if function.exact else ():
            if inner.type != kind:
                what, wanted = f"{node.name}() of {inner.type.simpleString()}", kind.simpleString().upper()
                raise CannotFollowError(what, node.place, f"Cast it to {wanted}, or compute it in Python")
        arguments = [as_type(inner, kind, node) for inner, kind in pairs]

        def call(*values: Any) -> Any:
            try:
                return function.call(*values)
            except NotSimulatedError as error:
                what = f"{node.name}() with {error}"
                raise CannotFollowError(what, node.place, "Compute it in Python") from error

        return lifted(node, function.returns, call, *arguments, nullable=function.nullable)

    def _substring(self, node: Recorded) -> Bound:
        whole, start, length = (self.bind(argument) for argument in node.args)
        if isinstance(whole.type, t.BinaryType):
            return lifted(node, t.BinaryType(), _part_of_text, whole, start, length)
        return lifted(node, t.StringType(), _part_of_text, text(whole, node), start, length)

    def _struct(self, node: Recorded) -> Bound:
        expanded = [part for argument in node.args[0] for part in expand(argument, self.schema)]
        parts = [self.bind(argument) for argument in expanded]
        kind = t.StructType([t.StructField(part.name, part.type, part.nullable) for part in parts])
        return Bound(
            shown(node), kind, False, lambda row: t._create_row(kind.names, [part.value(row) for part in parts]),
        )  # fmt: skip

    def _array(self, node: Recorded) -> Bound:
        parts = all_alike([self.bind(argument) for argument in node.args[0]], node)
        kind = t.ArrayType(parts[0].type, any(part.nullable for part in parts))
        return Bound(shown(node), kind, False, lambda row: [part.value(row) for part in parts])

    def _map(self, node: Recorded) -> Bound:
        parts = [self.bind(argument) for argument in node.args[0]]
        keys, items = all_alike(parts[::2], node), all_alike(parts[1::2], node)
        kind = t.MapType(keys[0].type, items[0].type, any(item.nullable for item in items))

        def value(row: Any) -> dict[Any, Any]:
            entries = [(key.value(row), item.value(row)) for key, item in zip(keys, items, strict=True)]
            pairs = dict(entries)
            if None in pairs:
                raise SparkRuntimeException(message="[NULL_MAP_KEY] Cannot use null as map key")
            if len(pairs) < len(entries) and in_force(MAP_KEYS).upper() != "LAST_WIN":
                problem = f"a key is given twice, which {MAP_KEYS} does not allow"
                raise SparkRuntimeException(message=f"[DUPLICATED_MAP_KEY] {shown(node)}: {problem}")
            return pairs

        return Bound(shown(node), kind, False, value)

    def _is_nan(self, node: Recorded) -> Bound:
        value = number(self.bind(node.args[0]), node).value
        return Bound(shown(node), t.BooleanType(), False, lambda row: (item := value(row)) != item)

    def _contains(self, node: Recorded) -> Bound:
        """Return ``array_contains``: null if the item is absent and the array has a null."""
        inner = self.bind(node.args[0])
        if not isinstance(inner.type, t.ArrayType):
            raise _mismatch(node, inner, "is no array")
        wanted = as_type(self.bind(node.args[1]), inner.type.elementType, node)

        def call(items: list[Any], item: Any) -> bool | None:
            is_there = any(other is not None and _equal(other, item) for other in items)
            return True if is_there else None if None in items else False

        return lifted(node, t.BooleanType(), call, inner, wanted, nullable=inner.type.containsNull)

    def _element(self, node: Recorded) -> Bound:
        """Return ``element_at``, which counts from 1, or from the end if the index is negative."""
        inner, key = self.bind(node.args[0]), self.bind(node.args[1])
        if isinstance(inner.type, t.MapType):
            return lifted(node, inner.type.valueType, dict.get, inner, key, nullable=True)
        if not isinstance(inner.type, t.ArrayType):
            raise _mismatch(node, inner, "has no elements")
        return lifted(node, inner.type.elementType, _element_at, inner, key, nullable=True)

    def _to_json(self, node: Recorded) -> Bound:
        if len(node.args) > 1 and node.args[1]:
            remedy = "Leave the options out, or write it in Python"
            raise CannotFollowError("to_json() with options", node.place, remedy)
        inner = self.bind(node.args[0])
        writer = json_writer(inner.type, node.place)
        return lifted(node, t.StringType(), writer, inner, nullable=True)

    def _item(self, node: Recorded) -> Bound:
        inner, key = self.bind(node.args[0]), node.args[1]
        if isinstance(inner.type, t.StructType) and isinstance(key, str):
            field = _field(inner, key, node)
            return Bound(f"{inner.name}.{field.name}", field.type, field.nullable, field.value)
        at = self.bind(key)
        if isinstance(inner.type, t.ArrayType):
            return lifted(node, inner.type.elementType, _element, inner, at, nullable=True)
        if isinstance(inner.type, t.MapType):
            return lifted(node, inner.type.valueType, dict.get, inner, at, nullable=True)
        problem = f"{shown(node)}: {inner.type.simpleString()} has no items"
        raise refused(node, f"[INVALID_EXTRACT_BASE_FIELD_TYPE] {problem}")

    def _from_json(self, node: Recorded) -> Bound:
        options = node.args[2] if len(node.args) > 2 else {}  # column, schema, options
        if options:
            remedy = "Leave the options out, or parse the text in Python"
            raise CannotFollowError("from_json() with options", node.place, remedy)
        schema = node.args[1]
        if isinstance(schema, Recorded):
            what = "from_json() with a column as its schema"
            raise CannotFollowError(what, node.place, "Give a StructType or a text")
        parse = t._parse_datatype_json_string if schema.lstrip().startswith("{") else parse_type
        kind = parse(schema)
        if isinstance(kind, t.StructType) and in_force(CORRUPT) in kind.names:
            what = f"from_json() with the column {in_force(CORRUPT)!r} for malformed texts"
            raise CannotFollowError(what, node.place, "Parse the text in Python")
        return lifted(
            node, kind, lambda text: from_json(text, kind), text(self.bind(node.args[0]), node), nullable=True
        )

    def _from_avro(self, node: Recorded) -> Bound:
        inner, (schema, mode) = self.bind(node.args[0]), _avro_arguments(node)
        try:
            avro = avro_type(schema)
        except NotSimulatedError as error:
            what = f"from_avro() with {error}"
            raise CannotFollowError(what, node.place, "Parse the bytes in Python") from error
        permissive = mode.upper() == "PERMISSIVE"
        return lifted(
            node, avro.kind, lambda data: decoded(bytes(data), avro, permissive=permissive), inner, nullable=True,
        )  # fmt: skip

    def _user_function(self, node: Recorded) -> Bound:
        value = called(node, lambda column: self.bind(column).value)
        return Bound(shown(node), node.args[0].returnType, True, value)


def _mismatch(node: Recorded, inner: Bound, problem: str) -> AnalysisException:
    return refused(node, f"[DATATYPE_MISMATCH] {shown(node)}: {inner.type.simpleString()} {problem}")


def _avro_arguments(node: Recorded) -> tuple[str, str]:
    """Return the schema and the mode of a call of ``from_avro``."""
    schema, *options = (each.args[0] if isinstance(each, Recorded) else each for each in node.args[1:])
    flat = [each.args[0] if isinstance(each, Recorded) else each for each in (options[0] if options else ())]
    named = dict(zip(flat[::2], flat[1::2], strict=True))
    if set(named) - {"mode"}:
        what = f"from_avro() with {', '.join(map(str, named))}"
        raise CannotFollowError(what, node.place, "Leave the options out")
    return str(schema), str(named.get("mode", "FAILFAST"))


def _name_parts(name: str) -> list[str]:
    return [quoted or plain for quoted, plain in re.findall(r"`([^`]+)`|([^.`]+)", name)]


def _field(inner: Bound, name: str, node: Recorded) -> Bound:
    if isinstance(inner.type, t.MapType) and isinstance(inner.type.keyType, t.StringType):
        value = lifted(node, inner.type.valueType, lambda pairs: pairs.get(name), inner, nullable=True)
        return replace(value, name=name)
    if not isinstance(inner.type, t.StructType):
        problem = f"{inner.name} is {inner.type.simpleString()}, which has no field {name!r}"
        raise refused(node, f"[INVALID_EXTRACT_BASE_FIELD_TYPE] {problem}")
    fields = inner.type.fields
    matching = [(place, field) for place, field in enumerate(fields) if folded(field.name) == folded(name)]
    if not matching:
        problem = f"{inner.name} ({inner.type.simpleString()}) has no field {name!r}"
        raise refused(node, f"[FIELD_NOT_FOUND] {problem}")
    place, field = matching[0]
    return Bound(
        name, field.dataType, inner.nullable or field.nullable,
        lambda row: None if (whole := inner.value(row)) is None else whole[place],
    )  # fmt: skip


def _moved(node: Recorded, left: Bound, right: Bound) -> Bound:
    """Return the sum or difference of a time and an interval. Days are calendar days, hours are elapsed time."""
    is_behind = isinstance(left.type, t.DayTimeIntervalType) and node.name == "plus"
    time, interval = (right, left) if is_behind else (left, right)
    kind, length = time.type, interval.type
    whole_days = isinstance(length, t.DayTimeIntervalType) and length.endField == 0
    if not isinstance(length, t.DayTimeIntervalType) or not (
        isinstance(kind, t.TimestampType) or (isinstance(kind, t.DateType) and whole_days)
    ):
        kinds = f"{left.type.simpleString()} and {right.type.simpleString()}"
        raise CannotFollowError(f"{shown(node)} of {kinds}", node.place, "Add an interval to a TIMESTAMP")
    sign = 1 if node.name == "plus" else -1

    def moved(at: Any, by: timedelta) -> Any:
        part = abs(by) % timedelta(days=1) * (1 if by > timedelta() else -1)
        day = days_later(at, (by - part) * sign) if isinstance(at, datetime) else at + (by - part) * sign
        if whole_days or not part:
            return day
        return kind.fromInternal(kind.toInternal(day) + part * sign // _MICROSECOND)

    return lifted(node, kind, moved, time, interval)


_MICROSECOND = timedelta(microseconds=1)


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[[Recorded, Bound, Bound], Bound]:
    def bound(node: Recorded, left: Bound, right: Bound) -> Bound:
        number(left, node), number(right, node)
        return lifted(node, left.type, fitting(left.type, function), left, right)

    return bound


def _of_decimals(node: Recorded, left: Bound, right: Bound) -> Bound:
    type_of, operation = OPERATIONS[node.name]
    values = [arg.args[0] if isinstance(arg, Recorded) and arg.name == "lit" else arg for arg in node.args]
    kinds = [
        as_decimal(bound.type, value if isinstance(value, int) else None)
        for bound, value in zip((left, right), values, strict=True)
    ]
    kind = type_of(*kinds)
    operands = [as_type(bound, kind, node) for bound, kind in zip((left, right), kinds, strict=True)]
    return lifted(node, kind, fitted(kind, operation), *operands)


def _quotient(node: Recorded, left: Bound, right: Bound) -> Bound:
    return lifted(node, t.DoubleType(), _divided, number(left, node), number(right, node))


def _divided(dividend: float, divisor: float) -> float:
    if divisor == 0:
        raise ArithmeticException(message="[DIVIDE_BY_ZERO] Division by zero")
    return dividend / divisor


def _remainder(dividend: Any, divisor: Any) -> Any:
    """Return a remainder with the sign of the dividend, as in Java."""
    if divisor == 0:
        raise ArithmeticException(message="[REMAINDER_BY_ZERO] Remainder by zero")
    if isinstance(dividend, float):
        return math.fmod(dividend, divisor)
    return int(math.copysign(1, dividend)) * (abs(dividend) % abs(divisor))


def _equal(left: Any, right: Any) -> bool:
    return bool(ordered(left) == ordered(right))


def _comparison(function: Callable[[Any, Any], bool]) -> Callable[[Recorded, Bound, Bound], Bound]:
    def bound(node: Recorded, left: Bound, right: Bound) -> Bound:
        return lifted(
            node, t.BooleanType(), lambda left, right: function(ordered(left), ordered(right)), left, right
        )

    return bound


def _null_safe(node: Recorded, left: Bound, right: Bound) -> Bound:
    def value(row: Values) -> bool:
        first, second = left.value(row), right.value(row)
        return first is second if first is None or second is None else _equal(first, second)

    return Bound(shown(node), t.BooleanType(), False, value)


def _connective(decisive: bool) -> Callable[[Recorded, Bound, Bound], Bound]:
    """Return what binds AND or OR: a false decides AND, and a true decides OR, even if the other side is null."""

    def bound(node: Recorded, left: Bound, right: Bound) -> Bound:
        boolean(left, node), boolean(right, node)

        def value(row: Values) -> bool | None:
            one: bool | None = left.value(row)
            if one is decisive:
                return decisive
            other: bool | None = right.value(row)
            return decisive if other is decisive else None if one is None or other is None else not decisive

        return Bound(shown(node), t.BooleanType(), left.nullable or right.nullable, value)

    return bound


def _part_of_text(text: str, start: int, length: int) -> str:
    """Return a part of a text. Positions start at 1, which 0 also means; negative ones count from the end."""
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(0, begin) : max(0, begin + length)]


def _element_at(values: list[Any], place: int) -> Any:
    if place == 0:
        raise SparkRuntimeException(
            message="[INVALID_INDEX_OF_ZERO] an element has no place 0: they start at 1"
        )
    if not 0 < abs(place) <= len(values):
        message = f"[INVALID_ARRAY_INDEX_IN_ELEMENT_AT] index {place} of an array with {len(values)} elements"
        raise ArrayIndexOutOfBoundsException(message=message)
    return values[place - 1 if place > 0 else place]


def _element(values: list[Any], place: int) -> Any:
    if not 0 <= place < len(values):
        message = f"[INVALID_ARRAY_INDEX] index {place} of an array with {len(values)} elements"
        raise ArrayIndexOutOfBoundsException(message=message)
    return values[place]


_METHODS: dict[str, Callable[[_Binder, Recorded], Bound]] = {
    "abs": _Binder._of_number, "apply": _Binder._item, "array": _Binder._array, "array_contains": _Binder._contains,
    "array_sort": _Binder._sorted, "as": _Binder._alias, "cast": _Binder._cast, "coalesce": _Binder._coalesce,
    "col": _Binder._name, "concat": _Binder._concat, "concat_ws": _Binder._joined, "current_date": _Binder._now,
    "current_timestamp": _Binder._now, "element_at": _Binder._element, "field": _Binder._field_at,
    "from_avro": _Binder._from_avro, "input_file_name": _Binder._file,
    "from_json": _Binder._from_json, "greatest": _Binder._extreme, "isin": _Binder._is_in, "isnan": _Binder._is_nan,
    **dict.fromkeys(("isNotNull", "isNull", "isnotnull", "isnull"), _Binder._is_null),
    "least": _Binder._extreme, "lit": _Binder._lit, "map": _Binder._map, "negate": _Binder._of_number,
    "not": _Binder._logical_not, "now": _Binder._now, "otherwise": _Binder._case, "size": _Binder._size,
    "sort_array": _Binder._sorted, "struct": _Binder._struct, "substr": _Binder._substring, "substring": _Binder._substring,
    "to_json": _Binder._to_json, LAMBDA_VARIABLE: _Binder._variable, USER_FUNCTION: _Binder._user_function, "when": _Binder._case,
    "window_time": _Binder._time_of_window,
}  # fmt: skip

_METHODS.update(dict.fromkeys(FUNCTIONS, _Binder._of_row))

_ITEM = "an item, by no name that a column could have"


def _known(decisive: bool) -> Callable[[t.ArrayType, Bound], tuple[t.DataType, Callable[..., Any], bool]]:
    """Return what looks whether one of the results is decisive: null if none is, and one is null."""

    def call(_items: list[Any], results: list[bool | None]) -> bool | None:
        return decisive if decisive in results else None if None in results else not decisive

    return lambda _kind, bound: (t.BooleanType(), call, bound.nullable)


_OVER_ITEMS: dict[str, Callable[[t.ArrayType, Bound], tuple[t.DataType, Callable[..., Any], bool]]] = {
    "exists": _known(decisive=True),
    "filter": lambda kind, _bound: (kind, lambda items, results: [*compress(items, results)], False),
    "forall": _known(decisive=False),
    "transform": lambda _kind, bound: (t.ArrayType(bound.type, bound.nullable), lambda _items, results: results, False),
}  # fmt: skip
"""What a function over items gives: its type, its value from items and results, and whether it may be null."""
_METHODS.update(dict.fromkeys(_OVER_ITEMS, _Binder._over_items))

_BINARY: dict[str, Callable[[Recorded, Bound, Bound], Bound]] = {
    "and": _connective(decisive=False), "or": _connective(decisive=True), "plus": _arithmetic(operator.add),
    "minus": _arithmetic(operator.sub), "multiply": _arithmetic(operator.mul), "mod": _arithmetic(_remainder),
    "divide": _quotient, "equalTo": _comparison(operator.eq), "notEqual": _comparison(operator.ne),
    "lt": _comparison(operator.lt), "leq": _comparison(operator.le), "gt": _comparison(operator.gt),
    "geq": _comparison(operator.ge), "eqNullSafe": _null_safe,
}  # fmt: skip
