"""Reads the relations of a query's plan from its sources upwards, for what they tell of the input."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any

import pyspark.sql.connect.proto as pb
from pyspark.sql import types as t

from headrace.api.errors import HeadraceError
from headrace_properties.spark_jobs.feeds.hints import ColumnScope, Hints, Term, column, hints_of
from headrace_properties.spark_jobs.feeds.samples import SampleError, objects_in, own_files
from headrace_properties.spark_jobs.feeds.slots import InputSlot, Use
from headrace_properties.spark_jobs.feeds.terms import Terms
from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.columns.recorded import Recorded, shown
from headrace_sim.spark.plan.plan_expressions import Reading, object_of
from headrace_sim.spark.plan.plan_splitter import inputs_of, number_of
from headrace_sim.spark.plan.relations import local_rows
from headrace_sim.spark.spark_job import StreamSource

_MOST_STATIC = 3
"""Choice: how many rows of a static table are matched."""


@dataclass(slots=True)
class SinkPlans:
    """What the function of a sink did with its batches."""

    batches: list[str] = field(default_factory=list)  # the handles that stand for them in plans
    relations: list[pb.Relation] = field(default_factory=list)  # of the frames that it made


def read_hints(plan: bytes, sources: Iterable[StreamSource], sink: SinkPlans | None = None) -> Hints:
    """Return what the plan of a query says about its sources.

    ``plan``: a serialized ``Relation`` of Spark Connect. ``sources``: what its streams are read from, in the order in which
    they stand in it. ``sink``: what its sink does with its output.
    """
    hints = hints_of(sources)
    relations = _Relations(hints)
    if plan:
        output = relations.scopes(pb.Relation.FromString(plan))
        hints.through += [scope.passed for scope in output]
    else:
        output = [scope for row in hints.rows.values() for scope in relations._row(row)]
    if sink is not None:
        relations.batches = dict.fromkeys(sink.batches, output)
        list(map(relations.scopes, sink.relations))
    for slot in hints.slots.values():
        slot.literals = list(dict.fromkeys(slot.literals))
    return hints


class _Relations:
    """Reads relations from their sources upwards."""

    def __init__(self, hints: Hints) -> None:
        self.hints = hints
        self.columns = Terms(hints)
        self.unread = list(hints.rows)
        self.seen: dict[int, list[ColumnScope]] = {}
        # the columns of each batch that a sink is given, by its handle
        self.batches: dict[str, list[ColumnScope]] = {}

    def scopes(self, relation: pb.Relation) -> list[ColumnScope]:
        """Return the columns of a relation: once for each stream that its rows may come from."""
        number = number_of(relation)
        if number is not None and number in self.seen:
            return self.seen[number]
        kind = relation.WhichOneof("rel_type") or ""
        if kind in _RELATIONS:
            scopes = _RELATIONS[kind](self, getattr(relation, kind))
        else:  # whatever it does, its inputs are read
            list(map(self.scopes, inputs_of(relation)))
            scopes = [ColumnScope(None)]
        if number is not None:
            self.seen[number] = scopes
        return scopes

    def _read(self, read: Any) -> list[ColumnScope]:
        if not read.is_streaming:
            return self._table(*_file_table(read))
        if not self.unread:
            return [ColumnScope(None)]
        return self._row(self.hints.rows[self.unread.pop(0)])

    def _local(self, message: Any) -> list[ColumnScope]:
        schema, rows = local_rows(message)
        return self._table(schema.names, rows)

    def _made(self, message: Any) -> list[ColumnScope]:
        if message.relation_id in self.batches:
            return self.batches[message.relation_id]
        relation = object_of(message.relation_id.encode())
        rows = relation if isinstance(relation, Rows) else relation()
        return self._table(rows.schema.names, rows.all())

    def _table(self, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[ColumnScope]:
        """Return the columns of a table that is no stream. Their values are those that a stream is matched with."""
        table = self.hints.slot(t.StructType([t.StructField(name, t.StringType()) for name in names]))
        for row in islice(rows, _MOST_STATIC):
            for part, value in zip(table.parts.values(), row, strict=False):
                part.literals += [] if value is None else [value]
        return self._row(table) if names else [ColumnScope(None)]

    @staticmethod
    def _row(row: InputSlot) -> list[ColumnScope]:
        return [ColumnScope(tuple(("", part.label, column(part)) for part in row.parts.values()))]

    def _node(self, expression: pb.Expression) -> Recorded | None:
        try:
            return Reading("")(expression)
        except HeadraceError:
            return None

    def _terms(self, expressions: Iterable[pb.Expression], scope: ColumnScope) -> list[Term]:
        return [self.columns.term(self._node(expression), scope) for expression in expressions]

    def _project(self, message: Any) -> list[ColumnScope]:
        nodes = list(map(self._node, message.expressions))
        return [
            replace(scope, columns=tuple(column for node in nodes for column in self._named(node, scope)))
            for scope in self.scopes(message.input)
        ]

    def _named(self, node: Recorded | None, scope: ColumnScope) -> Iterator[tuple[str, str, Term]]:
        if node is None:
            return
        if node.name == "col" and str(node.args[0]).endswith("*"):
            prefix = str(node.args[0])[:-2].lower()
            term, inner = scope.find(prefix) if prefix else (None, [])
            slot = self.hints.of(self.columns.fields(term, inner))
            if slot is not None:
                yield from (("", part.label, column(part)) for part in slot.parts.values())
            else:
                yield from (column for column in scope.columns or () if not prefix or column[0] == prefix)
            return
        named: Any = node
        while isinstance(named, Recorded) and named.name in _CASTS:  # which leave a column its name
            named = named.args[0]
        named = named if isinstance(named, Recorded) and named.name in {"as", "col"} else node
        own = shown(named).rpartition(".")[2].strip("`]").rpartition("[")[2]
        names = named.args[1] if named.name == "as" else own
        term = self.columns.term(node, scope)
        if isinstance(names, str):
            yield "", "col" if node.name in _EXPLODE else names, term
        else:
            slot = self.hints.of(term)
            parts = slot.parts if slot else {}
            yield from (("", name, column(parts[name]) if name in parts else None) for name in names)

    def _with_columns(self, message: Any) -> list[ColumnScope]:
        added = [(alias.name[0], self._node(alias.expr)) for alias in message.aliases]
        scopes = []
        for scope in self.scopes(message.input):
            terms = {name: self.columns.term(node, scope) for name, node in added}
            lowered = {name.lower() for name in terms}
            kept = tuple(column for column in scope.columns or () if column[1].lower() not in lowered)
            scopes.append(
                replace(scope, columns=(*kept, *(("", name, term) for name, term in terms.items())))
            )
        return scopes

    def _renamed(self, message: Any) -> list[ColumnScope]:
        names = {rename.col_name.lower(): rename.new_col_name for rename in getattr(message, "renames", ())}
        names = names or {old.lower(): new for old, new in message.rename_columns_map.items()}
        scopes = self.scopes(message.input)
        return [scope.named([names.get(old.lower(), old) for old in scope.names]) for scope in scopes]

    def _to_df(self, message: Any) -> list[ColumnScope]:
        return [scope.named(message.column_names) for scope in self.scopes(message.input)]

    def _alias(self, message: Any) -> list[ColumnScope]:
        return [scope.named(scope.names, message.alias.lower()) for scope in self.scopes(message.input)]

    def _filter(self, message: Any) -> list[ColumnScope]:
        node = self._node(message.condition)
        return [self._passed(scope, self.columns.term(node, scope)) for scope in self.scopes(message.input)]

    def _passed(self, scope: ColumnScope, condition: Term) -> ColumnScope:
        if not isinstance(condition, Recorded):
            return scope
        passed = (*scope.passed, (condition, True))
        self.hints.want(passed)
        self.hints.want((*scope.passed, (condition, False)))
        return replace(scope, passed=passed)

    def _drop_na(self, message: Any) -> list[ColumnScope]:
        scopes = []
        for scope in self.scopes(message.input):
            names = message.cols or scope.names
            for name in names:
                slot = self.hints.of(self.columns.term(Recorded("col", (f"`{name}`",), ""), scope))
                if slot is not None:
                    slot.uses.add(Use.NULL)
                    scope = self._passed(scope, Recorded("isNotNull", (column(slot),), ""))  # noqa: PLW2901
            scopes.append(scope)
        return scopes

    def _fill_na(self, message: Any) -> list[ColumnScope]:
        for scope in (scopes := self.scopes(message.input)):
            for name in message.cols:
                self.columns.term(Recorded("isNull", (Recorded("col", (f"`{name}`",), ""),), ""), scope)
        return scopes

    def _with_watermark(self, message: Any) -> list[ColumnScope]:
        for scope in (scopes := self.scopes(message.input)):
            slot = self.hints.of(self.columns.term(Recorded("col", (message.event_time,), ""), scope))
            self.hints.timed(slot, [message.delay_threshold], self.hints.delays_us)
        return scopes

    def _deduplicate(self, message: Any) -> list[ColumnScope]:
        for scope in (scopes := self.scopes(message.input)):
            terms = [scope.find(f"`{name}`")[0] for name in message.column_names]
            self.hints.keyed(terms)
            self.hints.distinct(terms)
        return scopes

    def _aggregate(self, message: Any) -> list[ColumnScope]:
        scopes = []
        keys = list(map(self._node, message.grouping_expressions))
        values = list(map(self._node, message.aggregate_expressions))
        for scope in self.scopes(message.input):
            columns = [column for node in keys for column in self._named(node, scope)]
            self.hints.keyed(term for _, _, term in columns)
            group = replace(scope, group_size=self.hints.group_size(scope))
            columns += [column for node in values for column in self._named(node, group)]
            scopes.append(replace(scope, columns=tuple(columns)))
        return scopes

    def _group_map(self, message: Any) -> list[ColumnScope]:
        for scope in self.scopes(message.input):
            self.hints.keyed(self._terms(message.grouping_expressions, scope))
        return [ColumnScope(None)]

    def _set_op(self, message: Any) -> list[ColumnScope]:
        left, right = self.scopes(message.left_input), self.scopes(message.right_input)
        if message.by_name or not left[0].columns:
            return [*left, *right]
        return [*left, *(scope.named(left[0].names) for scope in right)]

    def _join(self, message: Any) -> list[ColumnScope]:
        lefts, rights = self.scopes(message.left), self.scopes(message.right)
        node = self._node(message.join_condition) if message.HasField("join_condition") else None
        scopes = []
        for left, right in product(lefts, rights):
            columns = (*(left.columns or ()), *(right.columns or ()))
            both = ColumnScope(columns, (*left.passed, *right.passed))
            names = [f"`{name}`" for name in message.using_columns]
            pairs = [(left.find(name)[0], right.find(name)[0]) for name in names]
            self.columns.term(node, both)
            scopes.append(self._matched(both, [*pairs, *self._equal(node, both)]))
        return scopes

    def _equal(self, node: Any, scope: ColumnScope) -> Iterator[tuple[Term, Term]]:
        """Yield what a condition of a join makes equal."""
        if isinstance(node, Recorded) and node.name == "and":
            for part in node.args:
                yield from self._equal(part, scope)
        elif isinstance(node, Recorded) and node.name in {"equalTo", "eqNullSafe"}:
            yield self.columns.term(node.args[0], scope), self.columns.term(node.args[1], scope)

    def _matched(self, scope: ColumnScope, pairs: Iterable[tuple[Term, Term]]) -> ColumnScope:
        """Note that both columns of each pair have the same values, but for one that has no match."""
        for pair in pairs:
            self.hints.keyed(pair)
            slots = [slot for term in pair if (slot := self.hints.of(term)) is not None]
            for slot, other in ((slots[0], slots[1]), (slots[1], slots[0])) if len(slots) == 2 else ():
                slot.literals.extend(other.literals)
                slot.uses.add(Use.COMPARED)
                if other.literals:
                    matched = Recorded("isin", (column(slot), list(other.literals)), "")
                    self.hints.want((*scope.passed, (matched, False)))
                    scope = replace(scope, passed=(*scope.passed, (matched, True)))
        return scope


def _file_table(read: Any) -> tuple[Sequence[str], list[Sequence[Any]]]:
    """Return the columns and the first rows of files that are read as a table; none if they are not there."""
    source = read.data_source
    schema = t.StructType([])
    if source.schema:
        as_json = source.schema.lstrip().startswith("{")
        schema = t._parse_datatype_json_string(source.schema) if as_json else parse_schema(source.schema)
    options, paths = tuple(source.options.items()), ",".join(source.paths)
    file = own_files(StreamSource("", source.format.lower(), schema, options, paths))
    try:
        items = list(islice(objects_in(file), _MOST_STATIC)) if file else []
    except SampleError:
        items = []
    names = schema.names or list(items[0] if items else ())
    keys = names if file is None or file.header or source.format != "csv" else range(len(names))
    return names, [[item.get(key) for key in keys] for item in items]


_CASTS = frozenset({"cast", "try_cast"})
_EXPLODE = frozenset({"explode", "explode_outer"})
_RELATIONS: dict[str, Callable[[_Relations, Any], list[ColumnScope]]] = {
    "aggregate": _Relations._aggregate,
    "apply_in_pandas_with_state": _Relations._group_map,
    "cached_remote_relation": _Relations._made,
    "deduplicate": _Relations._deduplicate,
    "drop_na": _Relations._drop_na,
    "fill_na": _Relations._fill_na,
    "filter": _Relations._filter,
    "group_map": _Relations._group_map,
    "join": _Relations._join,
    "local_relation": _Relations._local,
    "project": _Relations._project,
    "read": _Relations._read,
    "set_op": _Relations._set_op,
    "subquery_alias": _Relations._alias,
    "to_df": _Relations._to_df,
    "with_columns": _Relations._with_columns,
    "with_columns_renamed": _Relations._renamed,
    "with_watermark": _Relations._with_watermark,
    **dict.fromkeys(
        ("drop", "hint", "limit", "repartition", "repartition_by_expression", "sort"),
        lambda reader, message: reader.scopes(message.input),
    ),
}
