"""What is asked of the real Spark: one relation of a Connect plan, and the rows that it is given.

Rules of this file:

* What only this machine's clock, chance or Python can answer is not asked: `refusal` says why.
* Equal questions have one digest, in every process: plan ids are numbered by input, and places in the user's code left out.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyspark.sql.connect.proto as pb
from pyspark.sql import types as t

from headrace_sim.spark.columns.in_force import asked_with
from headrace_sim.spark.pyspark_versions import arrow_table, arrow_type
from headrace_sim.spark.real.server_protocol import Question

Table = tuple[t.StructType, Sequence[tuple[Any, ...]]]
"""A schema, and rows of it in their order."""


def question_of(relation: pb.Relation, inputs: Sequence[Table], call: str, place: str) -> Question:
    """Return the question what a relation gives, under the settings in force.

    ``relation``: it, of the user's plan. It is not changed. ``inputs``: what its own inputs give, in the order of the
    protocol's fields.
    """
    asked = pb.Relation()
    asked.CopyFrom(relation)
    slots = list(inputs_asked(asked))
    numbers: dict[int, int] = {}
    for number, slot in enumerate(slots, 1):
        for plan_id in _plan_ids(slot):
            numbers.setdefault(plan_id, number)
    for number, (slot, (schema, _)) in enumerate(zip(slots, inputs, strict=True), 1):
        slot.Clear()
        slot.common.plan_id = number
        slot.local_relation.schema = schema.json()
        numbers[number] = number
    _normalize(asked, numbers, frozenset(map(id, slots)))
    texts = [asked.SerializeToString(deterministic=True).hex(), *(repr(list(rows)) for _, rows in inputs)]
    settings = asked_with()
    texts += [f"{name}={value}" for name, value in settings.items()]
    for slot, (schema, rows) in zip(slots, inputs, strict=True):
        slot.local_relation.data = _arrow(schema, rows)
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]
    return Question(digest, asked.SerializeToString(), call, place, settings)


def _arrow(schema: t.StructType, rows: Sequence[tuple[Any, ...]]) -> bytes:
    fields = list(arrow_type(schema))
    table = arrow_table(list(rows), schema) if rows else pa.schema(fields).empty_table()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _messages(message: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each message that is set within another, not those within it: its field's description, and it."""
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        if descriptor.message_type.GetOptions().map_entry:
            values = [one for one in value.values() if hasattr(one, "ListFields")]
        else:
            values = [value] if hasattr(value, "ListFields") else list(value)
        for one in values:
            yield descriptor, one


def inputs_asked(relation: pb.Relation) -> Iterator[Any]:
    """Yield the relations that another is made of."""
    message = getattr(relation, relation.WhichOneof("rel_type") or "common")
    if relation.WhichOneof("rel_type") == "with_relations":  # a text, and the views that it names
        yield from (view.subquery_alias.input for view in message.references)
        return
    for _, inner in _messages(message):
        if isinstance(inner, pb.Relation):
            yield inner


def _plan_ids(relation: pb.Relation) -> Iterator[int]:
    yield relation.common.plan_id
    for inner in inputs_asked(relation):
        yield from _plan_ids(inner)


def _normalize(message: Any, numbers: dict[int, int], kept: frozenset[int]) -> None:
    """Number the plan ids by input, and leave out the places in the user's code, and what belongs to no input."""
    for descriptor, value in list(message.ListFields()):
        if descriptor.name == "plan_id":
            if value in numbers:
                message.plan_id = numbers[value]
            else:
                message.ClearField("plan_id")
        elif descriptor.name in {"origin", "source_info"}:
            message.ClearField(descriptor.name)
    for _, inner in _messages(message):
        if id(inner) not in kept:
            _normalize(inner, numbers, kept)


# What is not asked

_IN_PYTHON = "a function in Python is called in the same step. Call it in a step of its own before"

_KINDS = frozenset({
    "aggregate", "approx_quantile", "as_of_join", "corr", "cov", "crosstab", "deduplicate", "describe", "drop",
    "drop_na", "fill_na", "filter", "join", "limit", "offset", "parse", "project", "replace", "sample", "set_op", "sort",
    "summary", "tail", "to_df", "to_schema", "transpose", "unpivot", "with_columns", "with_columns_renamed",
})  # fmt: skip
"""The relations that follow from their rows alone."""
_CHANCE = "rand|randn|random|randstr|shuffle|uniform|uuid"
_CLOCK = "curdate|current_date|current_time|current_timestamp|current_timezone|localtimestamp|now"
_SESSION = "current_catalog|current_database|current_schema|current_user|session_user|user|version"
_PARTITION = "input_file_block_length|input_file_block_start|input_file_name|monotonically_increasing_id|spark_partition_id"
_CODE = "java_method|reflect|try_reflect"
_WHY = {
    "it draws random values, which Headrace varies itself": _CHANCE,
    "it reads the clock, which Headrace simulates itself": _CLOCK,
    "it depends on the session": _SESSION,
    "it depends on how rows are divided into partitions and files": _PARTITION,
    "it calls code": _CODE,
}
_REASON = {name: why for why, names in _WHY.items() for name in names.split("|")}
_CALLED = re.compile(rf"\b({'|'.join(_WHY.values())})\s*\(", re.IGNORECASE)
BARE = {name for name in _REASON if name.startswith("current_")} | {"localtimestamp", "session_user", "user"}
"""What may be called without parentheses."""
_BARE = re.compile(rf"\b({'|'.join(sorted(BARE))})\b", re.IGNORECASE)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'")
_SUBQUERY = re.compile(r"\bselect\b", re.IGNORECASE)


def refusal(relation: pb.Relation, names: Iterable[str] = (), functions: Iterable[str] = ()) -> str:
    """Return why a relation cannot be asked of the real Spark; ``""``: it can.

    ``names``: of the columns of its inputs, which come before functions that are called without parentheses. ``functions``:
    the names of the user's own functions, which Spark does not have.
    """
    kind = relation.WhichOneof("rel_type") or "nothing"
    columns = frozenset(name.lower() for name in names)
    if any(name.lower() in _words_of(relation) for name in functions):
        return _IN_PYTHON
    if kind == "with_relations" and relation.with_relations.root.HasField("sql"):
        query = relation.with_relations.root.sql
        return _refused_text(query.query, columns) or _refused_in(query, columns)
    if kind not in _KINDS:
        return f"{kind} is more than a computation on rows"
    return _refused_in(getattr(relation, kind), columns)


def _words_of(message: Any) -> frozenset[str]:
    """Return the names of the functions that are called, and the words of texts, but for those in inputs."""
    words = set[str]()
    for name in ("function_name", "expression", "query"):
        if isinstance(value := getattr(message, name, None), str):
            words.update(re.findall(r"\w+", _QUOTED.sub("''", value.lower())))
    for _, inner in _messages(message):
        if not isinstance(inner, pb.Relation) or inner.WhichOneof("rel_type") == "sql":
            words |= _words_of(inner)
    return frozenset(words)


def _refused_in(message: Any, columns: frozenset[str]) -> str:
    if isinstance(message, pb.Expression.UnresolvedFunction):
        name = message.function_name.lower()
        if name in _REASON:
            return f"{name}(): {_REASON[name]}"
        if name == "unix_timestamp" and not message.arguments:
            return f"{name}(): {_REASON['now']}"
    if isinstance(message, pb.Expression.ExpressionString):
        why = _refused_text(message.expression, columns)
        return why or ("it has a subquery" if _SUBQUERY.search(_QUOTED.sub("''", message.expression)) else "")
    if "Function" in type(message).__name__ and "UserDefined" in type(message).__name__:
        return _IN_PYTHON
    if type(message).__name__ == "SubqueryExpression":
        return "it has a subquery"
    for _, inner in _messages(message):
        if not isinstance(inner, pb.Relation) and (why := _refused_in(inner, columns)):
            return why
    return ""


def _refused_text(text: str, columns: frozenset[str]) -> str:
    code = _QUOTED.sub("''", text)
    bare = (word for word in _BARE.finditer(code) if word[1].lower() not in columns)
    match = _CALLED.search(code) or next(bare, None)
    name = "" if match is None else match[1].lower()
    return f"{name}: {_REASON.get(name, 'it depends on the session')}" if name else ""
