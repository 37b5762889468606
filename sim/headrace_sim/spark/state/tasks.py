"""One task: a stateful stage on one partition of one micro-batch, as PySpark's worker runs it.

PySpark's own ``TransformWithStateInPandasUdfUtils`` drives the processor: ``init``; each key's rows; expired timers; ``close``.
This file does the rest of the worker's job: it groups rows by key, and converts output to the declared schema.
"""

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from inspect import getattr_static
from types import FunctionType
from typing import Any
from unittest.mock import patch

from pyspark import cloudpickle
from pyspark.sql import types as t

from headrace_sim.spark.columns.values import InputRows, OutputRows, kept_key, key_order, key_part, shown_key
from headrace_sim.spark.pyspark_versions import VARIANTS, FuncMode, UdfUtils, expect_stateful, worker_schema
from headrace_sim.spark.refusals import DRIVER_CRASH, place_of_error
from headrace_sim.spark.spark_job import SparkJobError, TimeMode, TransformWithState
from headrace_sim.spark.state.state_server import BatchTimes, StateClient, StateServer, Variable, parts_of
from headrace_sim.spark.state.stores import Key, Store

_MODES = FuncMode
_ENTROPY = os.urandom
Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A task's result: its rows, and the store to be committed. ``keys``: of the rows, if the user's own operator made them."""

    rows: list[tuple[Any, ...]]
    store: Store
    keys: Sequence[Key | None] = ()


class Operator:
    """A stateful stage, ready to run tasks: the processor is pickled and checked on the driver, schemas are parsed.

    ``input_schema``: that of the rows it is given. Raise `SparkJobError` if Spark would refuse the stage when the query
    starts, or `PySparkTooOldError` if the installed PySpark cannot run it.
    """

    def __init__(self, stage: TransformWithState, input_schema: t.StructType) -> None:
        expect_stateful()
        expect_processor(stage.processor, stage.place)
        self.stage = stage
        self.input = InputRows(input_schema)
        self.output = OutputRows(stage.output)
        self._keys, self.key_schema = key_columns(stage.place, stage.keys, input_schema)
        self._key_rows = InputRows(self.key_schema)
        self._seen_keys: dict[Key, Key] = {}
        self._initial: InputRows | None = None
        if stage.initial is not None:
            self._initial = InputRows(stage.initial.schema)
            self._initial_keys, schema = key_columns(stage.place, stage.initial.keys, self._initial.schema)
            if [field.dataType for field in schema] != [field.dataType for field in self.key_schema]:
                problem = "the initial state is grouped by columns of other types"
                raise SparkJobError(problem, stage.place, "Group both alike")
        self._processor = copied(stage.processor, stage.place, "processor")
        self.variables = self._declared()
        self._expect_storable()
        try:
            self._client_key_schema = worker_schema("grouping_key_schema", self.key_schema)
        except KeyError as error:
            problem = (
                f"PySpark cannot read the schema of the key, which has an ARRAY or a MAP (KeyError: {error})"
            )
            raise SparkJobError(problem, stage.place, "Group by its text or its parts") from error

    def _declared(self) -> dict[str, Variable]:
        """Run ``init`` and ``close`` as the driver does, to learn the variables."""
        server = self._server(Store(), BatchTimes(-1, -1), lambda _: None)
        client = StateClient(server, self.key_schema)
        try:
            self._driven().transformWithStateUDF(client, _MODES.PRE_INIT, None, iter(()))
        except Exception as error:
            problem = (
                f"init() or close() fails on the driver: {type(error).__name__}: {error} ({DRIVER_CRASH})"
            )
            remedy = "Spark runs both before the first batch, without a key"
            raise SparkJobError(problem, place_of_error(error, self.stage.place), remedy) from error
        return server.variables

    def _expect_storable(self) -> None:
        """Expect types that the state store can encode, in Avro."""
        schemas = [part for one in self.variables.values() for part in (one.schema, one.value_schema)]
        for kind in parts_of(self.key_schema, *schemas):
            by_others = isinstance(kind, t.MapType) and not isinstance(kind.keyType, t.StringType)
            if by_others or isinstance(kind, _NOT_STORED):
                problem = f"the state store cannot keep {kind.simpleString().upper()} (StreamingQueryException: Unexpected type)"
                remedy = "Keep an interval as a BIGINT, a map as a map state or an ARRAY of pairs, and a VARIANT as a STRING"
                raise SparkJobError(problem, self.stage.place, remedy)

    def _server(self, store: Store, times: BatchTimes, step: Callable[[str], None]) -> StateServer:
        return StateServer(store, times, self.stage.time_mode, self.key_schema, step)

    def _driven(self) -> Any:
        return UdfUtils(self._processor(), self.stage.time_mode.value)

    def key_of(self, row: tuple[Any, ...]) -> Key:
        """Return the key of an input row."""
        return tuple(key_part(row[place]) for place in self._keys)

    def initial_rows(self) -> list[tuple[Key, tuple[Any, ...]]]:
        """Return the rows of the initial state, each with its key."""
        rows = () if self.stage.initial is None else self.stage.initial.rows
        return [(tuple(key_part(row[place]) for place in self._initial_keys), row) for row in rows]

    def run(
        self,
        rows: Rows,
        initial: Rows | None,
        store: Store,
        times: BatchTimes,
        step: Callable[[str], None],
        frame_rows: int | None = None,
    ) -> TaskResult:
        """Run a task.

        ``rows``: those of the partition, in the order in which the shuffle brought them. ``initial``: the initial state of the
        partition in the first batch of a job that has one, else None. ``store``: the state that the batch before has left. It
        is not changed. ``times``: of the batch. ``step``: called with what happens next: a fault may strike there by raising.
        ``frame_rows``: how many rows a pandas frame has at most. None: all of a key. Raise `StateCallError` if the processor
        asks for what Spark refuses.
        """
        changed = store.copy()
        server = self._server(changed, times, step)
        out = list(self._tell(rows, initial, server, step, frame_rows))
        if self.stage.time_mode is TimeMode.PROCESSING_TIME:
            changed.clean_up(times.now_ms)
        return TaskResult([row for _, row in out], changed, [key for key, _ in out])

    def _tell(
        self,
        rows: Rows,
        initial: Rows | None,
        server: StateServer,
        step: Callable[[str], None],
        frame_rows: int | None,
    ) -> Iterator[tuple[Key | None, tuple[Any, ...]]]:
        utilities, client = self._driven(), StateClient(server, self._client_key_schema)
        call: Any = utilities.transformWithStateUDF
        if self._initial is not None:
            call = utilities.transformWithStateWithInitStateUDF
        groups: dict[Key, tuple[list[Any], list[Any]]] = {}
        for row in rows:
            groups.setdefault(self.key_of(row), ([], []))[0].append(row)
        for row in initial or ():
            key = tuple(key_part(row[place]) for place in self._initial_keys)
            groups.setdefault(key, ([], []))[1].append(row)
        for key in sorted(groups, key=key_order):
            own, firsts = groups[key]
            extra: tuple[Any, ...] = ()
            if self._initial is not None:
                extra = (None if initial is None else self._inputs(self._initial, firsts, step, frame_rows),)
            inputs = self._inputs(self.input, own, step, frame_rows)
            yielded = call(client, _MODES.PROCESS_DATA, self._seen_key(key), inputs, *extra)
            yield from self._taken(yielded, step, server)
        yield from self._taken(call(client, _MODES.PROCESS_TIMER, None, iter(())), step, server)
        yield from self._taken(call(client, _MODES.COMPLETE, None, iter(())), step, server)

    def _seen_key(self, key: Key) -> Key:
        if not self.stage.pandas:
            return tuple(self._key_rows.rows([shown_key(key)])[0])
        kept = kept_key(key)
        if kept not in self._seen_keys:
            (frame,) = self._key_rows.slices([shown_key(key)])
            self._seen_keys[kept] = tuple(next(frame.itertuples(index=False, name=None)))
        return self._seen_keys[kept]

    def _inputs(
        self, kind: InputRows, rows: Rows, step: Callable[[str], None], frame_rows: int | None
    ) -> Iterator[Any]:
        """Yield the rows of a key as the processor sees them: one by one, or in frames."""
        yield from stepped(
            kind.frames(rows, frame_rows) if self.stage.pandas else kind.rows(rows), step, "row"
        )

    def _taken(
        self, yielded: Iterable[Any], step: Callable[[str], None], server: StateServer
    ) -> Iterator[tuple[Key | None, tuple[Any, ...]]]:
        """Consume a call's results, and convert them; yield each row with the key for which it was made."""
        convert = self.output.from_frames if self.stage.pandas else self.output.from_rows
        for item in stepped(yielded, step, "output"):
            for row in convert(iter([item])):
                yield server.key, row


def stepped(items: Iterable[Any], step: Callable[[str], None], what: str) -> Iterator[Any]:
    """Yield items, each behind a step of the task."""
    for item in items:
        step(what)
        yield item


_NOT_STORED = (t.DayTimeIntervalType, t.YearMonthIntervalType, *VARIANTS)
_CALLED = ("init", "handleInputRows", "close")
"""The methods of a processor that PySpark's worker calls, by name, for each task. It asks for no class."""


def expect_processor(processor: Any, place: str) -> None:
    """Expect what PySpark can call, whatever its class.

    Raise `SparkJobError` if it is a class instead of an instance, or lacks a method.
    """
    lacking = [name for name in _CALLED if not callable(getattr(processor, name, None))]
    if isinstance(processor, type) and isinstance(getattr_static(processor, "init", None), FunctionType):
        problem = f"the stateful processor is {processor.__name__!r}, a class ({DRIVER_CRASH})"
        raise SparkJobError(problem, place, "Give an instance")
    if lacking:
        name, kind = lacking[0], type(processor).__name__
        missing = f"AttributeError: {kind!r} object has no attribute {name!r}"
        problem = (
            f"the stateful processor has no method {name}(), which Spark calls ({missing}; {DRIVER_CRASH})"
        )
        remedy = "Add it, or let its class extend pyspark.sql.streaming.StatefulProcessor"
        raise SparkJobError(problem, place, remedy)


def key_columns(place: str, names: tuple[str, ...], schema: t.StructType) -> tuple[list[int], t.StructType]:
    """Return the places of the columns that are grouped by, and their schema.

    Raise `SparkJobError` if there is none of that name.
    """
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        problem = f"no column {unknown[0]!r} among {', '.join(schema.names)} (UNRESOLVED_COLUMN)"
        raise SparkJobError(problem, place, "Group by a column of the input")
    places = [schema.names.index(name) for name in names]
    return places, t.StructType([schema.fields[place] for place in places])


def copied(value: Any, place: str, what: str) -> Callable[[], Any]:
    """Return what makes a fresh copy of the user's object for each task, as Spark's workers unpickle it.

    Raise `SparkJobError` if it cannot be pickled.
    """
    try:
        with patch.object(os, "urandom", _ENTROPY):  # a run's own would make two classes one, by one id
            pickled = cloudpickle.dumps(value)
    except Exception as error:
        problem = f"the {what} cannot be pickled (PicklingError): {error}"
        remedy = "Make connections, locks and files in the task, not before"
        raise SparkJobError(problem, place, remedy) from error

    def unpickled() -> Any:
        # else cloudpickle gives the user's own class the functions that this task gets, and so what the task keeps in globals
        with patch.dict(cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID, clear=True):
            return pickle.loads(pickled)  # noqa: S301  pickled here

    return unpickled
