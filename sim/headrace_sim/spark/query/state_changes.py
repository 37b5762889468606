"""A query that goes on from the checkpoint of an earlier version: what Spark refuses, and what it reads without a word.

Spark compares operators by order and kind, and what their state has by types alone. That a count by user is read as a count
by country, or a sum as a count, it does not see. `tests/sim/spark/query/test_state_changes.py` asks the real Spark the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from pyspark.sql import types as t

from headrace_sim.spark.columns.recorded import Recorded
from headrace_sim.spark.query.operators import is_session
from headrace_sim.spark.query.stages import QueryStage, planned, stateful_in
from headrace_sim.spark.query.streaming_query import Checkpoint
from headrace_sim.spark.spark_job import (
    Aggregate,
    ApplyWithState,
    Columns,
    Deduplicate,
    Limit,
    SparkJob,
    Stateful,
    StreamJoin,
    TransformWithState,
)
from headrace_sim.spark.state.state_server import Variable
from headrace_sim.spark.state.tasks import Operator


class StateFate(Enum):
    """What becomes of a query whose state is another one than its checkpoint's."""

    REFUSED = "refused"
    REREAD = "read as something else"
    EMPTY = "begun empty"
    KEPT = "kept as it was"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class StateChange:
    """Something that an upgrade changes in what a checkpoint has."""

    fate: StateFate
    what: str  # for a sentence
    place: str  # ``file:line`` in the later version


@dataclass(frozen=True, slots=True)
class _Cells:
    """What a table of state has for each key: its type, and what it means, if that is known."""

    type: Any
    meaning: Any = None


@dataclass(frozen=True, slots=True)
class _Layout:
    """The state of one operator as its checkpoint has it."""

    kind: str  # of the operator
    place: str
    keys: _Cells = _Cells(())
    tables: Mapping[str, _Cells] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)  # those that a checkpoint binds


def changes_between(old: SparkJob, new: SparkJob) -> tuple[StateChange, ...]:
    """Return what the checkpoint of ``old`` is to ``new``. Raise `SparkJobError` if Spark would start one of them never."""
    before, after = (list(map(_layout, _stateful(job))) for job in (old, new))
    place = after[0].place if after else new.sink.place
    if (one := len(old.sources)) != (other := len(new.sources)):
        what = f"the checkpoint has the offsets of {one} source{'s' * (one != 1)}, and {other} are read"
        return (StateChange(StateFate.REFUSED, what, new.sink.place),)
    kinds = [[layout.kind for layout in layouts] for layouts in (before, after)]
    if kinds[0] != kinds[1]:
        kept, wanted = (" before ".join(names) or "no operator" for names in kinds)
        code = "NOT_MATCH_IN_STATE_METADATA" if before else "MISSING_STATE_DIRECTORY"
        what = f"the checkpoint has the state of {kept}, and the query has {wanted} (STREAMING_STATEFUL_OPERATOR_{code})"
        return (StateChange(StateFate.REFUSED, what, place),)
    changes = [change for one, other in zip(before, after, strict=True) for change in _changes(one, other)]
    joins = [layout for layout in after if layout.kind == _JOIN]
    if joins and _around_joins(old) != _around_joins(new):
        what = "what a join of streams keeps depends on its condition and on the columns that are read behind it: these differ"
        changes.append(StateChange(StateFate.UNKNOWN, what, joins[0].place))
    if before and old.partitions != new.partitions:
        what = f"state stays in {old.partitions} partitions: spark.sql.shuffle.partitions has no effect on a checkpoint"
        changes.append(StateChange(StateFate.KEPT, what, place))
    return tuple(changes)


def handed_over(checkpoint: Checkpoint, old: SparkJob, new: SparkJob) -> Checkpoint:
    """Return a checkpoint as a later version finds it: state variables that it does not declare are gone."""
    state = {}
    for before, after in zip(_stateful(old), _stateful(new), strict=True):
        stores = [store.copy() for store in checkpoint.state[before.place]]
        if isinstance(after.work, Operator):
            for store in stores:
                for name in {*store.values, *store.lists, *store.maps} - after.work.variables.keys():
                    store.forget(name)
        state[after.place] = stores
    return replace(checkpoint, state=state)


_JOIN = "a join of two streams"


def _around_joins(job: SparkJob) -> list[Any]:
    """Return what decides which columns of joined rows Spark keeps: it drops those that are never read."""
    joins = [step for step in job.stateful if isinstance(step, StreamJoin)]
    around = [(step.how, _meaning(step.on), step.output.simpleString()) for step in joins]
    read = [_meaning(step.nodes) for step in job.steps if isinstance(step, Columns)]
    return [*around, *read, job.output.simpleString()]


def _stateful(job: SparkJob) -> list[QueryStage]:
    return list(stateful_in(planned(job)))


def _changes(before: _Layout, after: _Layout) -> Iterator[StateChange]:
    """Yield what changes in the state of one operator."""
    for name, value in after.settings.items():
        if (kept := before.settings[name]) != value:
            what = f"{name} of {after.kind} was {kept}, and is {value} (STATE_STORE_INVALID_CONFIG_AFTER_RESTART)"
            yield StateChange(StateFate.REFUSED, what, after.place)
    yield from _cells_changed("the key", "KEY", before.keys, after.keys, after)
    for name in after.tables.keys() & before.tables.keys():
        what = f"the state variable {name!r}" if name else "the state of a key"
        yield from _cells_changed(what, "VALUE", before.tables[name], after.tables[name], after)
    new, gone = (
        sorted(one.tables.keys() - other.tables.keys()) for one, other in ((after, before), (before, after))
    )
    if new:
        dropped = f", and {_listed(gone)} {'is' if len(gone) == 1 else 'are'} dropped" * bool(gone)
        what = f"the state variable{'s' * (len(new) != 1)} {_listed(new)} begin{'s' * (len(new) == 1)} empty{dropped}"
        yield StateChange(StateFate.EMPTY, what, after.place)


def _cells_changed(
    what: str, which: str, before: _Cells, after: _Cells, layout: _Layout
) -> Iterator[StateChange]:
    if before.type != after.type:
        change = f"{what} of {layout.kind} has other types (STATE_STORE_{which}_SCHEMA_NOT_COMPATIBLE)"
        yield StateChange(StateFate.REFUSED, change, layout.place)
    elif before.meaning != after.meaning:
        was, now = (", ".join(cells.meaning) for cells in (before, after))
        change = f"{what} of {layout.kind} was {was}, and is read as {now}, of the same type"
        yield StateChange(StateFate.REREAD, change, layout.place)


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names))


def _layout(stage: QueryStage) -> _Layout:
    """Return what the checkpoint has of a stage."""
    work: Any = stage.work
    step: Stateful = work.stage
    match step:
        case Aggregate():
            width = len(step.groups)
            kind = "a session window" if any(map(is_session, step.groups)) else "an aggregate"
            keys, values = (
                tuple(field.dataType for field in part)
                for part in (step.output.fields[:width], step.output.fields[width:])
            )
            buffers = tuple(map(_buffer, step.values, values))
            return _Layout(
                kind, step.place, _Cells(tuple(map(_shape, keys)), _meanings(step.groups)),
                {"": _Cells(buffers, _meanings(step.values))},
            )  # fmt: skip
        case Deduplicate():
            kind = "dropDuplicatesWithinWatermark" if step.within_watermark else "dropDuplicates"
            names = tuple(name for name in step.output.names if name in step.keys)
            return _Layout(kind, step.place, _named(names, step.output))
        case StreamJoin():
            return _Layout(_JOIN, step.place)
        case Limit():
            return _Layout("limit", step.place)
        case TransformWithState():
            tables = {name: _Cells(_declared(variable)) for name, variable in work.variables.items()}
            settings = {"timeMode": step.time_mode.value, "outputMode": step.output_mode.value}
            return _Layout(
                "transformWithState", step.place, _named(step.keys, work.key_schema), tables, settings
            )
        case ApplyWithState():
            tables = {"": _Cells((_shape(step.state), step.timeout == "NoTimeout"))}
            return _Layout("applyInPandasWithState", step.place, _named(step.keys, work.key_schema), tables)


def _named(names: tuple[str, ...], schema: t.StructType) -> _Cells:
    return _Cells(tuple(_shape(schema[name].dataType) for name in names), names)


def _declared(variable: Variable) -> Any:
    """Return what Spark compares of a state variable."""
    return variable.kind, variable.ttl_ms is None, _shape(variable.schema), _shape(variable.value_schema)


def _shape(kind: t.DataType | None) -> Any:
    """Return what Spark compares of a type: not its names, nor what may be null."""
    match kind:
        case t.StructType():
            return tuple(_shape(field.dataType) for field in kind)
        case t.ArrayType():
            return "array", _shape(kind.elementType)
        case t.MapType():
            return "map", _shape(kind.keyType), _shape(kind.valueType)
        case None:
            return None
        case _:
            return kind.simpleString()


def _bare(node: Any) -> Any:
    while isinstance(node, Recorded) and node.name == "as":
        node = node.args[0]
    return node


def _meanings(nodes: tuple[Recorded, ...]) -> tuple[str, ...]:
    return tuple(map(_meaning, nodes))


def _meaning(node: Any) -> str:
    """Return the text of a column without its name: two of one text mean the same."""
    node = _bare(node)
    if isinstance(node, list | tuple):
        return ", ".join(map(_meaning, node))
    if not isinstance(node, Recorded):
        return str(node)
    return _meaning(node.args[:1]) if node.name in {"col", "lit"} else f"{node.name}({_meaning(node.args)})"


def _buffer(node: Recorded, output: t.DataType) -> Any:
    """Return the types in which Spark keeps an aggregate; of one that is not known, what it is: only itself is alike."""
    shape, name = _shape(output), _bare(node).name
    match name:
        case "count":
            return ("bigint",)
        case "sum":
            return (shape, "boolean") if isinstance(output, t.DecimalType) else (shape,)
        case "max" | "min":
            return (shape,)
        case "first" | "last":
            return shape, "boolean"
        case "avg" if not isinstance(output, t.DecimalType):
            return "double", "bigint"
    return _meaning(node), shape
