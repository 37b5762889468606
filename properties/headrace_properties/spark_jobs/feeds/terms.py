"""Each column of a plan, traced to the `InputSlot` of the source that it is read from, through casts, parsers and field access.

What cannot be traced (a result of the user's own function, of an aggregation) is unknown, and nothing is asked of it.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import types as t

from headrace_properties.spark_jobs.feeds.hints import (
    ColumnScope,
    Conditions,
    Hints,
    Term,
    column,
    flat,
    names_in,
)
from headrace_properties.spark_jobs.feeds.slots import (
    AS_BYTES,
    InputSlot,
    SlotForm,
    Use,
    as_epoch,
    as_json,
    as_text,
    as_time,
    joined,
)
from headrace_sim.spark.columns.avro_values import avro_type
from headrace_sim.spark.columns.ddl import parse_schema, parse_type
from headrace_sim.spark.columns.recorded import LAMBDA, LAMBDA_VARIABLE, USER_FUNCTION, Recorded, case_parts
from headrace_sim.spark.refusals import NotSimulatedError


@dataclass(frozen=True, slots=True)
class Terms:
    """Traces columns, and notes what is asked of the slots."""

    hints: Hints

    def term(self, node: Any, scope: ColumnScope) -> Term:
        """Return a column in terms of slots, and note what it compares; None: unknown."""
        if not isinstance(node, Recorded):
            return node
        if scope.group_size is not None and node.name in _OF_GROUPS:
            return self._of_group(node, scope, column(scope.group_size))
        if node.name in _TERMS:
            return _TERMS[node.name](self, node, scope)
        if node.name in _UNKNOWN:
            self.all(node.args, scope)
            return None
        arguments = self.all(node.args, scope)
        if arguments is None:
            return None
        term = Recorded(node.name, arguments, node.place)
        if node.name in _COMPARISONS:
            self._compared(term, scope)
        return term

    def all(self, arguments: Any, scope: ColumnScope) -> Any:
        """Return arguments in terms of slots, or None if one is unknown. None in them is the plain null."""
        terms = []
        for argument in arguments:
            many = isinstance(argument, list | tuple)
            term = self.all(argument, scope) if many else self.term(argument, scope)
            if term is None and argument is not None:
                terms.append(_LOST)
            else:
                terms.append(term)
        return None if _LOST in terms else type(arguments)(terms)

    def _of_group(self, node: Recorded, scope: ColumnScope, size: Recorded) -> Term:
        """Return what an aggregate is of a group whose rows have the same values, but for those that count once."""
        terms = self.all(node.args, scope)
        if node.name.endswith("count_distinct"):
            self.hints.distinct(flat(terms or ()))
        if "count" in node.name:
            return size
        if terms is None or node.name != "sum":
            return terms and terms[0]
        return Recorded("multiply", (terms[0], size), node.place)

    def _compared(self, term: Recorded, scope: ColumnScope) -> None:
        slots = [self.hints.slots[name] for name in dict.fromkeys(names_in(term))]
        literals = [value for value in _literals_in(term) if value is not None]
        for slot in slots:
            slot.literals.extend(literals)
            slot.uses.add(Use.NULL if term.name in _OF_NULLS else Use.COMPARED)
        if slots:
            for wanted in (True, False):
                self.hints.want((*scope.passed, (term, wanted)), needed=False)

    def _name(self, node: Recorded, scope: ColumnScope) -> Term:
        return self.fields(*scope.find(str(node.args[0])))

    def fields(self, term: Term, names: Iterable[str]) -> Term:
        """Return a field within a term, however deep; None: unknown."""
        for name in names:
            slot = self.hints.of(term)
            part = slot.parts.get(name.lower()) if slot is not None else None
            term = None if part is None else column(part)
        return term

    def _item(self, node: Recorded, scope: ColumnScope) -> Term:
        inner, key = self.hints.of(self.term(node.args[0], scope)), _plain(node.args[1])
        if inner is None:
            return None
        if isinstance(inner.kind, t.ArrayType) and isinstance(key, int):
            written = inner.outer.written if inner.outer is not None else None
            if written is not None and written.form.startswith("split"):
                for place in range(key + 1):
                    inner.parts.setdefault(place, self.hints.slot(inner.kind.elementType, str(place), inner))
                return column(inner.parts[key])
            return column(inner.parts[0]) if key == 0 else None
        if isinstance(inner.kind, t.MapType):
            inner.parts.setdefault(key, self.hints.slot(inner.kind.valueType, str(key), inner))
            return column(inner.parts[key])
        return self.fields(column(inner), [str(key)])

    def _inner(self, node: Recorded, scope: ColumnScope) -> Term:
        return self.term(node.args[0], scope)

    def _exploded(self, node: Recorded, scope: ColumnScope) -> Term:
        slot = self.hints.of(self.term(node.args[0], scope))
        return column(slot.parts[0]) if slot is not None and isinstance(slot.kind, t.ArrayType) else None

    def _cast(self, node: Recorded, scope: ColumnScope) -> Term:
        kind = parse_type(node.args[1]) if isinstance(node.args[1], str) else node.args[1]
        inner = node.args[0]
        per_second = 1
        if isinstance(inner, Recorded) and inner.name == "divide" and isinstance(kind, t.TimestampType):
            divisor = _plain(inner.args[1])
            per_second, inner = (int(divisor), inner.args[0]) if divisor in {1000, 1_000_000} else (1, inner)
        term = self.term(inner, scope)
        slot = self.hints.of(term)
        if slot is not None:
            return self._as_type(slot, kind, per_second, node)
        return None if term is None else Recorded(node.name, (term, kind), node.place)

    def _as_type(self, slot: InputSlot, kind: t.DataType, per_second: int, node: Recorded) -> Term:
        written: SlotForm | None = None
        if slot.kind == kind:
            return column(slot)
        if isinstance(slot.kind, t.BinaryType) and isinstance(kind, t.StringType):
            written = AS_BYTES
        elif isinstance(slot.kind, t.StringType):
            written = as_text(kind)
        elif isinstance(slot.kind, _NUMBERS) and isinstance(kind, t.TimestampType):
            written = as_epoch(per_second)
        content = self.hints.content(slot, written, kind)
        if content is not None:
            return column(content)
        return Recorded(node.name, (column(slot), kind), node.place)

    def _text_of(self, term: Term) -> InputSlot | None:
        """Return the slot of a text: Spark casts the bytes that a parser is given. Cleaning it leaves it as it is written."""
        while isinstance(term, Recorded) and term.name in _CLEANS:
            term = term.args[0]
        slot = self.hints.of(term)
        if slot is not None and isinstance(slot.kind, t.BinaryType):
            return self.hints.content(slot, AS_BYTES, t.StringType())
        return slot

    def _from_json(self, node: Recorded, scope: ColumnScope) -> Term:
        slot, schema = self._text_of(self.term(node.args[0], scope)), _plain(node.args[1])
        if slot is None or not isinstance(schema, str):
            return None
        parse = t._parse_datatype_json_string if schema.lstrip().startswith("{") else parse_type
        options = {str(key).lower(): value for key, value in _options(node.args[2:]).items()}
        formats = options.get("timestampformat", ""), options.get("dateformat", "")
        kind = parse(schema)
        return self._content(slot, SlotForm("json", str), kind, lambda content: as_json(content, *formats))

    def _from_csv(self, node: Recorded, scope: ColumnScope) -> Term:
        slot, schema = self._text_of(self.term(node.args[0], scope)), _plain(node.args[1])
        if slot is None or not isinstance(schema, str):
            return None
        options = {str(key).lower(): value for key, value in _options(node.args[2:]).items()}
        separator = options.get("sep", options.get("delimiter", ","))
        return self._content(slot, SlotForm("csv", str), parse_schema(schema), lambda _: joined(separator))

    def _from_avro(self, node: Recorded, scope: ColumnScope) -> Term:
        slot, schema = self.hints.of(self.term(node.args[0], scope)), _plain(node.args[1])
        if slot is None or not isinstance(schema, str):
            return None
        try:
            avro = avro_type(schema)
        except NotSimulatedError:
            return None
        return self._content(slot, SlotForm("avro", str), avro.kind, lambda _: SlotForm("avro", avro.write))

    def _behind(self, node: Recorded, scope: ColumnScope) -> Term:
        """Return what stands behind the first bytes, such as the magic byte and the schema's id of Confluent's registry."""
        slot, start = self.hints.of(self.term(node.args[0], scope)), _plain(node.args[1])
        if slot is None or not isinstance(slot.kind, t.BinaryType) or not isinstance(start, int) or start < 2:
            arguments = self.all(node.args, scope)
            return None if arguments is None else Recorded(node.name, arguments, node.place)
        first = bytes(start - 2) + b"\1"
        content = self.hints.content(slot, SlotForm(f"behind {start}", lambda data: first + data), slot.kind)
        return None if content is None else column(content)

    def _content(
        self, slot: InputSlot, form: SlotForm, kind: t.DataType, written: Callable[[InputSlot], SlotForm]
    ) -> Term:
        content = self.hints.content(slot, form, kind)
        if content is None:
            return None
        slot.written = replace(form, write=written(content).write)
        return column(content)

    def _split(self, node: Recorded, scope: ColumnScope) -> Term:
        slot, pattern = self._text_of(self.term(node.args[0], scope)), _plain(node.args[1])
        if slot is None or not isinstance(pattern, str):
            return None
        separator = {r"\s+": " ", r"\s": " "}.get(pattern, pattern.replace("\\", "").strip("[]") or " ")
        if not re.search(pattern, separator):
            return None
        content = self.hints.content(slot, joined(separator), t.ArrayType(t.StringType()))
        return None if content is None else column(content)

    def _json_path(self, node: Recorded, scope: ColumnScope) -> Term:
        slot, path = self._text_of(self.term(node.args[0], scope)), _plain(node.args[1])
        if slot is None or not isinstance(path, str) or not re.fullmatch(r"\$(\.\w+)+", path):
            return None
        self._content(slot, SlotForm("json", str), t.StructType([]), as_json)
        document = slot.content
        for name in path.split(".")[1:]:
            if document is None or document.content is not None:
                return None
            if isinstance(document.kind, t.StringType):
                document.kind = t.StructType([])
            part = document.parts.get(name.lower()) or self.hints.slot(t.StringType(), name, document)
            document = document.parts.setdefault(name.lower(), part)
        return None if document is None else column(document)

    def _parsed_time(self, node: Recorded, scope: ColumnScope) -> Term:
        term = self.term(node.args[0], scope)
        slot = self._text_of(term)
        kind = t.DateType() if node.name == "to_date" else t.TimestampType()
        if slot is None:
            return None
        if slot.is_time:
            is_date = node.name == "to_date"
            return Recorded("cast", (column(slot), kind), node.place) if is_date else column(slot)
        pattern = _plain(node.args[1]) if len(node.args) > 1 else None
        written = as_time(pattern) if isinstance(pattern, str) else as_text(kind)
        content = self.hints.content(slot, written, kind) if isinstance(slot.kind, t.StringType) else None
        if content is None and slot.content is not None and slot.content.is_time:
            return column(slot.content)  # a text of two patterns: the job tries one after the other
        return None if content is None else column(content)

    def _epoch(self, node: Recorded, scope: ColumnScope) -> Term:
        inner = node.args[0]
        per_second = {"timestamp_millis": 1000, "timestamp_micros": 1_000_000}.get(node.name, 1)
        while isinstance(inner, Recorded) and inner.name in {"cast", "divide", "floor"}:
            divisor = _plain(inner.args[1]) if inner.name == "divide" else None
            per_second *= int(divisor) if divisor in {1000, 1_000_000} else 1
            inner = inner.args[0]
        slot = self.hints.of(self.term(inner, scope))
        if slot is not None and isinstance(slot.kind, t.StringType):
            slot = self.hints.content(slot, as_text(t.LongType()), t.LongType())
        if slot is None:
            return None
        content = self.hints.content(slot, as_epoch(per_second), t.TimestampType())
        return None if content is None else column(content)

    def _window(self, node: Recorded, scope: ColumnScope) -> Term:
        texts, slot = map(_plain, node.args[1:]), self.hints.of(self.term(node.args[0], scope))
        if slot is not None and isinstance(slot.kind, t.StringType):
            slot = self.hints.content(slot, as_text(t.TimestampType()), t.TimestampType())
        self.hints.timed(slot, texts, self.hints.windows_us)
        return None

    def _case(self, node: Recorded, scope: ColumnScope) -> Term:
        pairs, default = case_parts(node)
        terms = [(self.term(condition, scope), self.term(value, scope)) for condition, value in pairs]
        failed: Conditions = ()
        for condition, _ in terms:
            if isinstance(condition, Recorded):
                self.hints.want((*scope.passed, *failed, (condition, True)))
                failed = (*failed, (condition, False))
        self.hints.want((*scope.passed, *failed))
        otherwise = self.term(default[0], scope) if default else None
        if any(term is None for pair in terms for term in pair) or (default and otherwise is None):
            return None
        case = Recorded("when", terms[0], node.place)
        for pair in terms[1:]:
            case = Recorded("when", (case, *pair), node.place)
        return Recorded("otherwise", (case, otherwise), node.place) if default else case

    def _replaced_null(self, node: Recorded, scope: ColumnScope) -> Term:
        arguments = self.all(node.args, scope)
        for term in flat(arguments or ()):
            if self.hints.of(term) is not None:
                self._compared(Recorded("isNull", (term,), node.place), scope)
        return None if arguments is None else Recorded(node.name, arguments, node.place)


def _plain(argument: Any) -> Any:
    return argument.args[0] if isinstance(argument, Recorded) and argument.name == "lit" else argument


def _options(arguments: Iterable[Any]) -> dict[Any, Any]:
    """Return the options of a parser, which are given as a map of literals."""
    for argument in arguments:
        if isinstance(argument, dict):
            return argument
        if isinstance(argument, Recorded) and argument.name in {"map", "create_map"}:
            pairs = list(map(_plain, flat(argument.args)))
            return dict(zip(pairs[::2], pairs[1::2], strict=False))
    return {}


def _literals_in(term: Recorded) -> Iterator[Any]:
    for argument in flat(term.args):
        if isinstance(argument, Recorded):
            yield from _literals_in(argument)
        elif term.name != "col" and not isinstance(argument, t.DataType):
            yield argument


_LOST = object()
_NUMBERS = (t.IntegerType, t.LongType, t.DoubleType)
_CLEANS = frozenset({"lower", "ltrim", "regexp_replace", "rtrim", "trim", "upper"})
_OF_NULLS = frozenset({"isNull", "isNotNull", "isnull", "isnotnull", "eqNullSafe"})
_COMPARISONS = _OF_NULLS | {
    "array_contains", "between", "contains", "endsWith", "equalTo", "geq", "gt", "isin", "isnan", "leq", "like", "lt", "notEqual",
    "ilike", "rlike", "startsWith",
}  # fmt: skip
_OF_GROUPS = frozenset(
    {
        "any_value",
        "approx_count_distinct",
        "avg",
        "count",
        "count_distinct",
        "first",
        "last",
        "max",
        "mean",
        "min",
        "sum",
    }
)
_UNKNOWN = frozenset({
    USER_FUNCTION, LAMBDA, LAMBDA_VARIABLE, "current_date", "current_timestamp", "now", "monotonically_increasing_id", "rand",
    "input_file_name", "randn", "shuffle", "spark_partition_id", "uuid",
})  # fmt: skip
"""What says nothing of a value, or something else each time."""
_TERMS: dict[str, Callable[[Terms, Recorded, ColumnScope], Term]] = {
    "apply": Terms._item,
    "as": Terms._inner,
    "cast": Terms._cast,
    "coalesce": Terms._replaced_null,
    "col": Terms._name,
    "from_avro": Terms._from_avro,
    "from_csv": Terms._from_csv,
    "from_json": Terms._from_json,
    "get_json_object": Terms._json_path,
    "lit": lambda _reader, node, _scope: node,
    "otherwise": Terms._case,
    "split": Terms._split,
    **dict.fromkeys(("substr", "substring"), Terms._behind),
    "when": Terms._case,
    "window": Terms._window,
    "session_window": Terms._window,
    "try_cast": Terms._cast,
    **dict.fromkeys(("ifnull", "nvl"), Terms._replaced_null),
    **dict.fromkeys(("explode", "explode_outer", "posexplode"), Terms._exploded),
    **dict.fromkeys(("to_date", "to_timestamp", "try_to_timestamp", "unix_timestamp"), Terms._parsed_time),
    **dict.fromkeys(("from_unixtime", "timestamp_micros", "timestamp_millis", "timestamp_seconds"), Terms._epoch),
}  # fmt: skip
