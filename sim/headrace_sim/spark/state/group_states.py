"""One task of ``applyInPandasWithState``, as PySpark's worker and Spark's ``FlatMapGroupsWithState`` run it.

The function gets PySpark's own ``GroupState``. First come the keys that have rows; then those whose timeout has passed,
each with one empty frame. A timeout lasts until the function is called again for its key.
"""

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.errors import PySparkRuntimeError, PySparkTypeError
from pyspark.sql import types as t
from pyspark.sql.streaming.state import GroupState

from headrace_sim.spark.columns.values import (
    InputRows,
    OutputRows,
    kept_key,
    key_order,
    key_part,
    note_altered,
    shown_key,
    stored,
)
from headrace_sim.spark.pyspark_versions import error_of, worker_schema
from headrace_sim.spark.spark_job import ApplyWithState, SparkJobError, TimeMode
from headrace_sim.spark.state.state_server import BatchTimes, Variable
from headrace_sim.spark.state.stores import Key, Store
from headrace_sim.spark.state.tasks import Rows, TaskResult, copied, key_columns, stepped

STATE = "state"
"""Name of a key's state in outcomes."""
_NEVER = GroupState.NO_TIMESTAMP


class GroupOperator:
    """A stage of ``applyInPandasWithState``, ready to run tasks.

    ``input_schema``: that of the rows it is given. ``watermarked``: whether there is a watermark. Raise `SparkJobError` if
    Spark would refuse the stage when the query starts.
    """

    def __init__(self, stage: ApplyWithState, input_schema: t.StructType, *, watermarked: bool) -> None:
        self.stage = stage
        self.input = InputRows(input_schema)
        self.output = OutputRows(stage.output)
        self._keys, self.key_schema = key_columns(stage.place, stage.keys, input_schema)
        self._key_rows = InputRows(self.key_schema)
        self._seen_keys: dict[Key, Key] = {}
        try:
            self._state = worker_schema("state_value_schema", stage.state)
        except KeyError as error:
            problem = f"PySpark cannot read the schema of the state, which has an ARRAY or a MAP (KeyError: {error})"
            remedy = "Keep it as text in a STRING, or use transformWithState"
            raise SparkJobError(problem, stage.place, remedy) from error
        self._function = copied(stage.function, stage.place, "function")
        self._watermarked = watermarked
        self.variables = {STATE: Variable("value", stage.state, None, None)}

    def key_of(self, row: tuple[Any, ...]) -> Key:
        """Return the key of an input row."""
        return tuple(key_part(row[place]) for place in self._keys)

    def run(
        self,
        rows: Rows,
        _initial: Rows | None,
        store: Store,
        times: BatchTimes,
        step: Callable[[str], None],
        frame_rows: int | None = None,
    ) -> TaskResult:
        """Run a task, as `Operator.run` does."""
        changed = store.copy()
        changed.values.setdefault(STATE, {})
        function = self._function()
        groups: dict[Key, list[tuple[Any, ...]]] = {}
        for row in rows:
            groups.setdefault(self.key_of(row), []).append(row)
        out: list[tuple[Key, tuple[Any, ...]]] = []
        for key in sorted(groups, key=key_order):
            frames = self.input.slices(groups[key], frame_rows)
            results = self._call(function, key, frames, changed, times, step, timed_out=False)
            out += [(kept_key(key), row) for row in results]
        mode = self.stage.time_mode
        limit = times.now_ms if mode is TimeMode.PROCESSING_TIME else times.watermark_ms
        for _, key in changed.due(limit - 1) if mode is not TimeMode.NONE else ():
            empty = iter([self.input.empty_frame()])
            results = self._call(function, key, empty, changed, times, step, timed_out=True)
            out += [(kept_key(key), row) for row in results]
        return TaskResult([row for _, row in out], changed, [key for key, _ in out])

    def _call(
        self,
        function: Callable[..., Any],
        key: Key,
        frames: Iterator[Any],
        store: Store,
        times: BatchTimes,
        step: Callable[[str], None],
        *,
        timed_out: bool,
    ) -> list[tuple[Any, ...]]:
        held = store.values[STATE].get(kept_key(key))
        state = GroupState(
            None if held is None else t._create_row(self._state.names, held[0]), times.now_ms,
            times.watermark_ms if self._watermarked else _NEVER, self.stage.timeout, timed_out, self._watermarked,
            held is not None, False, False, _NEVER, b"", self._state,
        )  # fmt: skip
        inputs = stepped(frames, step, "row")
        yielded = self._checked(function(self._seen_key(key), inputs, state))
        out = self.output.from_frames(stepped(yielded, step, "output"))
        step("state")
        self._keep(kept_key(key), state, store)
        return out

    def _seen_key(self, key: Key) -> Key:
        """Return a key as the function gets it: what pandas has in its columns."""
        kept = kept_key(key)
        if kept not in self._seen_keys:
            (frame,) = self._key_rows.slices([shown_key(key)])
            self._seen_keys[kept] = tuple(frame[name].iloc[0] for name in self.key_schema.names)
        return self._seen_keys[kept]

    def _keep(self, key: Key, state: GroupState, store: Store) -> None:
        timeout = state._timeout_timestamp
        if not (state._updated or state._removed or timeout != _NEVER):
            return  # Spark writes nothing: an earlier timeout stays
        for timer in [timer for timer in store.timers if timer[1] == key]:
            del store.timers[timer]
        if state.exists:
            row = self._state.toInternal(state._value)
            kept = stored(self.stage.state, row)
            note_altered(STATE, self.stage.state, row, kept, self.stage.place)
            store.values[STATE][key] = kept, None
        else:
            store.values[STATE].pop(key, None)
        if timeout != _NEVER:
            store.register(int(timeout), key)

    def _checked(self, result: Any) -> Iterator[Any]:
        """Raise the worker's errors, in its words."""
        import pandas as pd  # noqa: PLC0415

        if isinstance(result, pd.DataFrame) or not hasattr(result, "__iter__"):
            actual = type(result).__name__
            expected = "iterable of pandas.DataFrame"
            raise error_of(PySparkTypeError, "UDF_RETURN_TYPE", expected=expected, actual=actual)
        for frame in result:
            if not isinstance(frame, pd.DataFrame):
                actual = f"iterator of {type(frame).__name__}"
                expected = "iterator of pandas.DataFrame"
                raise error_of(PySparkTypeError, "UDF_RETURN_TYPE", expected=expected, actual=actual)
            if len(frame.columns) != len(self.stage.output) and not (frame.empty and not len(frame.columns)):
                counts = {"expected": str(len(self.stage.output)), "actual": str(len(frame.columns))}
                raise error_of(PySparkRuntimeError, "RESULT_COLUMN_SCHEMA_MISMATCH", **counts)
            if not frame.empty:
                yield frame
