"""The state server that a processor's handle talks to, in memory, in place of Spark's on Java.

PySpark's own classes (``StatefulProcessorHandle``, ``ValueState``, ...) run unchanged on `StateClient`, which hands their
messages to a `StateServer` where PySpark would write them to a socket.
"""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partialmethod
from typing import Any

from pyspark.sql import types as t
from pyspark.sql.streaming.state import GroupState

from headrace.api.errors import HeadraceError
from headrace_sim.spark.columns.ddl import SchemaTextError, parse_schema
from headrace_sim.spark.columns.values import (
    ValueRefusedError,
    byte_order,
    kept_key,
    note_altered,
    shown_key,
    stored,
)
from headrace_sim.spark.pyspark_versions import (
    PROCESSOR_STATE,
    StatefulProcessorApiClient,
    StatefulProcessorHandleState,
    phase_numbers,
)
from headrace_sim.spark.pyspark_versions import state_messages as messages
from headrace_sim.spark.refusals import shown_place, users_place
from headrace_sim.spark.spark_job import TimeMode
from headrace_sim.spark.state.stores import Held, Key, Store, lives, put_or_drop

STATE_API: tuple[Any, ...] = (GroupState, *PROCESSOR_STATE)
"""The classes of PySpark's by which a task reaches its state."""
_PHASES = StatefulProcessorHandleState
_SET = frozenset({_PHASES.PRE_INIT, _PHASES.CREATED})
"""The phases in which variables are made: those of ``init``."""
_OK, _REFUSED, _NOTHING = 0, 1, 2
"""Status codes of the protocol."""
_DONE: tuple[Any, ...] = (_OK, "", b"")


class StateCallError(HeadraceError):
    """A call that ends the task on Spark, whose worker sees only that the state server has gone. Fields: call, place, problem."""

    def __init__(self, call: str, place: str, problem: str) -> None:
        super().__init__(call, place, problem)
        self.call, self.place, self.problem = call, place, problem

    def __str__(self) -> str:
        """Name the call, its place, and Spark's objection."""
        return (
            f"{shown_place(self.place)}: {self.call}: {self.problem} "
            "(on Spark the query fails here with a PySparkRuntimeError, or with an EOFError or ConnectionResetError, "
            "which name no cause)"
        )


@dataclass(frozen=True, slots=True)
class Variable:
    """A state variable as ``init`` declares it."""

    kind: str
    schema: t.StructType
    value_schema: t.StructType | None
    ttl_ms: int | None


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """A task's notion of time, in milliseconds: the batch's clock, and the watermark (-1 where Spark gives -1)."""

    now_ms: int
    watermark_ms: int


class StateServer:
    """Answers the calls of one task, on a store of its own.

    ``store``: changed in place. ``times``: of the batch. ``time_mode``: what timers go by. ``key_schema``: that of the grouping
    columns. ``step``: called with the name of each call before it is answered: a fault may strike there.
    """

    def __init__(
        self,
        store: Store,
        times: BatchTimes,
        time_mode: TimeMode,
        key_schema: t.StructType,
        step: Callable[[str], None],
    ) -> None:
        self.store = store
        self.variables: dict[str, Variable] = {}
        self._times = times
        self._mode = time_mode
        self._key_schema = key_schema
        self._step = step
        self._phase = _PHASES.CREATED
        self.key: Key | None = None
        self._closed: StateCallError | None = None

    def answer(self, request: bytes) -> tuple[Any, ...]:
        """Return the response to a ``StateRequest``, its fields in order.

        Raise `StateCallError` if Spark's server would close the connection. Each further call raises it again, also where the
        user's code has caught it.
        """
        if self._closed is not None:
            raise self._closed
        message: Any = messages.StateRequest.FromString(request)
        parent: Any = None
        path: list[str] = []
        while message.DESCRIPTOR.oneofs and (name := message.WhichOneof(message.DESCRIPTOR.oneofs[0].name)):
            parent, message = message, getattr(message, name)
            path.append(name)
        call = "_".join(path[-2:])
        try:
            response: tuple[Any, ...] = getattr(self, f"_{call}")(message, parent)
        except ValueRefusedError as refused:
            self._closed = StateCallError(path[-1], users_place(), refused.problem)
            raise self._closed from None
        except StateCallError as refused:
            self._closed = refused
            raise
        if response[0] == _REFUSED and response[1]:
            self._closed = StateCallError(path[-1], users_place(), response[1])
        return response

    # The handle.

    def _statefulProcessorCall_setHandleState(self, message: Any, _: Any) -> tuple[Any, ...]:
        self._phase = _BY_NUMBER[message.state]
        return _DONE

    def _declare(self, kind: str, message: Any, _: Any) -> tuple[Any, ...]:
        if self._phase not in _SET:
            return self._wrong_phase(f"get_{kind}_state")
        if message.stateName in self.variables:
            problem = f"State variable with name {message.stateName} has already been defined in the StatefulProcessor."
            return _REFUSED, f"[STATEFUL_PROCESSOR_DUPLICATE_STATE_VARIABLE_DEFINED] {problem}", b""
        ttl = message.ttl.durationMs if message.HasField("ttl") else None
        if ttl is not None and (refused := self._refused_ttl(message.stateName, ttl)):
            return refused
        schema = _from_json(message.schema)
        value = _from_json(message.mapStateValueSchema) if kind == "map" else None
        for sized in (
            part for part in parts_of(schema, value) if isinstance(part, (t.CharType, t.VarcharType))
        ):
            problem = f'Cannot create encoder for "{sized.simpleString().upper()}"'
            return _REFUSED, f"[UNSUPPORTED_DATA_TYPE_FOR_ENCODER] {problem}. Declare a STRING.", b""
        self.variables[message.stateName] = Variable(kind, schema, value, ttl)
        self.store.clocked |= ttl is not None
        self._tables()[kind].setdefault(message.stateName, {})
        return _DONE

    _statefulProcessorCall_getValueState = partialmethod(_declare, "value")
    _statefulProcessorCall_getListState = partialmethod(_declare, "list")
    _statefulProcessorCall_getMapState = partialmethod(_declare, "map")

    def _tables(self) -> dict[str, Any]:
        return {"value": self.store.values, "list": self.store.lists, "map": self.store.maps}

    def _refused_ttl(self, name: str, ttl: int) -> tuple[Any, ...] | None:
        if self._mode is not TimeMode.PROCESSING_TIME:
            problem = f"Cannot use TTL for state={name} in timeMode={_SHOWN[self._mode]}, use TimeMode.ProcessingTime() instead."
            return _REFUSED, f"[STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL] {problem}", b""
        if ttl <= 0:
            problem = (
                f"TTL duration must be greater than zero for State store operation=update on state={name}."
            )
            return _REFUSED, f"[STATEFUL_PROCESSOR_TTL_DURATION_MUST_BE_POSITIVE] {problem}", b""
        return None

    def _statefulProcessorCall_deleteIfExists(self, message: Any, _: Any) -> tuple[Any, ...]:
        if self._phase not in _SET:
            return self._wrong_phase("delete_if_exists")
        self.variables.pop(message.stateName, None)
        self.store.forget(message.stateName)
        return _DONE

    def _wrong_phase(self, operation: str) -> tuple[Any, ...]:
        problem = f"Failed to perform stateful processor operation={operation} with invalid handle state={self._phase.name}."
        named = f"[STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_HANDLE_STATE] {problem}"
        return _REFUSED, named, b""

    def _implicitGroupingKeyRequest_setImplicitKey(self, message: Any, _: Any) -> tuple[Any, ...]:
        row = pickle.loads(message.key)  # noqa: S301  pickled by PySpark, in this process
        self.key = kept_key(stored(self._key_schema, row))
        return _DONE

    def _implicitGroupingKeyRequest_removeImplicitKey(self, _message: Any, _: Any) -> tuple[Any, ...]:
        self.key = None
        return _DONE

    # Timers.

    def _timerStateCall_register(self, message: Any, _: Any) -> tuple[Any, ...]:
        return self._timer("register_timer", lambda key: self.store.register(message.expiryTimestampMs, key))

    def _timerStateCall_delete(self, message: Any, _: Any) -> tuple[Any, ...]:
        return self._timer(
            "delete_timer", lambda key: self.store.timers.pop((message.expiryTimestampMs, key), None)
        )

    def _timer(self, operation: str, change: Callable[[Key], None]) -> tuple[Any, ...]:
        self._step(operation)
        self._expect_timers(operation)
        if self._phase not in {_PHASES.INITIALIZED, _PHASES.DATA_PROCESSED}:
            raise StateCallError(operation, users_place(), self._wrong_phase(operation)[1])
        change(self._own_key("timer"))
        return _DONE

    def _expect_timers(self, operation: str) -> None:
        if self._mode is TimeMode.NONE:
            problem = (
                "[STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_TIME_MODE] "
                f"Failed to perform stateful processor operation={operation} with invalid timeMode=NoTime"
            )
            raise StateCallError(operation, users_place(), problem)

    def _timerStateCall_list(self, _message: Any, _: Any) -> tuple[Any, ...]:
        self._step("list_timers")
        self._expect_timers("list_timers")
        expiries = self.store.timers_of(self._own_key("timer"))
        return _listed([messages.TimerInfo(timestampMs=expiry) for expiry in expiries])

    def _timerRequest_expiryTimerRequest(self, message: Any, _: Any) -> tuple[Any, ...]:
        timers = [
            messages.TimerInfo(key=_row(self._key_schema, key), timestampMs=expiry)
            for expiry, key in self.store.due(message.expiryTimestampMs)
        ]
        return _listed(timers)

    def _timerValueRequest_getProcessingTimer(self, _message: Any, _: Any) -> tuple[Any, ...]:
        return _OK, "", self._times.now_ms

    def _timerValueRequest_getWatermark(self, _message: Any, _: Any) -> tuple[Any, ...]:
        return _OK, "", self._times.watermark_ms

    # Values.

    def _own_key(self, name: str) -> Key:
        if self.key is None:
            problem = f"[STATE_STORE_IMPLICIT_KEY_NOT_FOUND] Implicit key not found in state store for stateName={name}"
            raise StateCallError(name, users_place(), problem)
        return self.key

    def _at(self, parent: Any, operation: str) -> tuple[str, Variable, Key]:
        self._step(f"{parent.stateName}.{operation}")
        name = parent.stateName
        if name not in self.variables:
            raise StateCallError(name, users_place(), f"state variable {name} has not been initialized")
        return name, self.variables[name], self._own_key(name)

    def _held(
        self, name: str, variable: Variable, pickled: bytes, schema: t.StructType | None = None
    ) -> Held:
        expiry = None if variable.ttl_ms is None else self._times.now_ms + variable.ttl_ms
        row, kind = pickle.loads(pickled), schema or variable.schema  # noqa: S301  as above
        kept = stored(kind, row)
        if kept != row:
            note_altered(name, kind, row, kept, users_place())
        return kept, expiry

    def _value(self, parent: Any, operation: str) -> tuple[Variable, Held | None]:
        name, variable, key = self._at(parent, operation)
        held = self.store.values[name].get(key)
        return variable, held if held is not None and lives(held, self._times.now_ms) else None

    def _valueStateCall_exists(self, _message: Any, parent: Any) -> tuple[Any, ...]:
        return _whether(self._value(parent, "exists")[1] is not None)

    def _valueStateCall_get(self, _message: Any, parent: Any) -> tuple[Any, ...]:
        variable, held = self._value(parent, "get")
        return _OK, "", b"" if held is None else _row(variable.schema, held[0])

    def _valueStateCall_valueStateUpdate(self, message: Any, parent: Any) -> tuple[Any, ...]:
        name, variable, key = self._at(parent, "update")
        self.store.values[name][key] = self._held(name, variable, message.value)
        return _DONE

    def _clear(self, kind: str, _message: Any, parent: Any) -> tuple[Any, ...]:
        name, _, key = self._at(parent, "clear")
        self._tables()[kind][name].pop(key, None)
        return _DONE

    _valueStateCall_clear = partialmethod(_clear, "value")
    _listStateCall_clear = partialmethod(_clear, "list")
    _mapStateCall_clear = partialmethod(_clear, "map")

    # Lists.

    def _list(self, parent: Any, operation: str) -> tuple[Variable, list[Held]]:
        name, variable, key = self._at(parent, operation)
        return variable, [
            held for held in self.store.lists[name].get(key, ()) if lives(held, self._times.now_ms)
        ]

    def _listStateCall_exists(self, _message: Any, parent: Any) -> tuple[Any, ...]:
        return _whether(bool(self._list(parent, "exists")[1]))

    def _listStateCall_listStateGet(self, _message: Any, parent: Any) -> tuple[Any, ...]:
        variable, held = self._list(parent, "get")
        return _listed([_row(variable.schema, row) for row, _ in held])

    def _extend(self, operation: str, message: Any, parent: Any) -> tuple[Any, ...]:
        name, variable, key = self._at(parent, operation)
        pickled = [message.value] if operation == "appendValue" else message.value
        if not pickled:
            raise ValueRefusedError(
                f"[ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE] Cannot write empty list values to State store for StateName {name}"
            )
        before = () if operation == "put" else self.store.lists[name].get(key, ())
        self.store.lists[name][key] = (*before, *(self._held(name, variable, value) for value in pickled))
        return _DONE

    _listStateCall_listStatePut = partialmethod(_extend, "put")
    _listStateCall_appendList = partialmethod(_extend, "appendList")
    _listStateCall_appendValue = partialmethod(_extend, "appendValue")

    # Maps.

    def _map(self, parent: Any, operation: str) -> tuple[Variable, dict[Key, Held]]:
        name, variable, key = self._at(parent, operation)
        held = self.store.maps[name].get(key, {})
        living = {user: cell for user, cell in held.items() if lives(cell, self._times.now_ms)}
        return variable, dict(sorted(living.items(), key=lambda item: byte_order(item[0])))

    def _user_key(self, parent: Any, pickled: bytes) -> Key:
        return kept_key(stored(self.variables[parent.stateName].schema, pickle.loads(pickled)))  # noqa: S301  as above

    def _mapStateCall_exists(self, _message: Any, parent: Any) -> tuple[Any, ...]:
        return _whether(bool(self._map(parent, "exists")[1]))

    def _mapStateCall_getValue(self, message: Any, parent: Any) -> tuple[Any, ...]:
        variable, held = self._map(parent, "getValue")
        cell = held.get(self._user_key(parent, message.userKey))
        return _OK, "", b"" if cell is None else _row(variable.value_schema, cell[0])

    def _mapStateCall_containsKey(self, message: Any, parent: Any) -> tuple[Any, ...]:
        held = self._map(parent, "containsKey")[1]
        return _whether(self._user_key(parent, message.userKey) in held)

    def _mapStateCall_updateValue(self, message: Any, parent: Any) -> tuple[Any, ...]:
        name, variable, key = self._at(parent, "updateValue")
        user = self._user_key(parent, message.userKey)
        entry = {user: self._held(name, variable, message.value, variable.value_schema)}
        self.store.maps[name][key] = self.store.maps[name].get(key, {}) | entry
        return _DONE

    def _mapStateCall_removeKey(self, message: Any, parent: Any) -> tuple[Any, ...]:
        name, _, key = self._at(parent, "removeKey")
        gone = self._user_key(parent, message.userKey)
        held = self.store.maps[name].get(key, {})
        put_or_drop(self.store.maps[name], key, {user: cell for user, cell in held.items() if user != gone})
        return _DONE

    def _mapStateCall_iterator(self, _message: Any, parent: Any) -> tuple[Any, ...]:
        variable, held = self._map(parent, "iterator")
        pairs = [
            messages.KeyAndValuePair(key=_row(variable.schema, user), value=_row(variable.value_schema, row))
            for user, (row, _) in held.items()
        ]
        return _listed(pairs)

    def _mapStateCall_keys(self, _message: Any, parent: Any) -> tuple[Any, ...]:
        variable, held = self._map(parent, "keys")
        return _listed([_row(variable.schema, user) for user in held])

    def _mapStateCall_values(self, _message: Any, parent: Any) -> tuple[Any, ...]:
        variable, held = self._map(parent, "values")
        return _listed([_row(variable.value_schema, row) for row, _ in held.values()])


def _listed(items: list[Any]) -> tuple[Any, ...]:
    return (_OK, "", items, False) if items else (_REFUSED, "", [], False)


def _whether(there: bool) -> tuple[Any, ...]:
    return (_OK if there else _NOTHING), "", b""


_SHOWN = {TimeMode.NONE: "None", TimeMode.PROCESSING_TIME: "ProcessingTime", TimeMode.EVENT_TIME: "EventTime"}
_BY_NUMBER = phase_numbers()


def parts_of(*kinds: t.DataType | None) -> Iterator[t.DataType]:
    """Yield types with the types of their parts."""
    for kind in kinds:
        if kind is not None:
            yield kind
        match kind:
            case t.StructType(fields=fields):
                yield from parts_of(*(field.dataType for field in fields))
            case t.ArrayType(elementType=element):
                yield from parts_of(element)
            case t.MapType(keyType=key, valueType=value):
                yield from parts_of(key, value)
            case _:
                pass


_parsed = lru_cache(parse_schema)
_from_json = lru_cache(t._parse_datatype_json_string)
"""Each task declares its variables anew."""


def _row(schema: t.StructType | None, values: tuple[Any, ...]) -> bytes:
    assert schema is not None
    return pickle.dumps(t._create_row(schema.names, shown_key(values)))


class StateClient(StatefulProcessorApiClient):
    """PySpark's client, on a `StateServer` in this process."""

    def __init__(self, server: StateServer, key_schema: t.StructType) -> None:
        # No socket, hence not the base's.
        self.key_schema = key_schema
        self.handle_state = _PHASES.CREATED
        self.list_timer_iterator_cursors: dict[str, Any] = {}
        self.expiry_timer_iterator_cursors: dict[str, Any] = {}
        self._batch_timestamp = -1
        self._watermark_timestamp = -1
        self._server = server
        self._response: tuple[Any, ...] = ()
        self.pickleSer = pickle

    def __reduce__(self) -> Any:
        """Refuse to be pickled, as a socket does."""
        problem = "a handle of a task cannot be pickled"
        raise TypeError(problem)

    def _parse_string_schema(self, schema: str) -> t.StructType:
        try:
            return _parsed(schema)
        except SchemaTextError as wrong:
            raise StateCallError("schema", users_place(), str(wrong)) from wrong

    def _send_proto_message(self, message: bytes) -> None:
        self._response = self._server.answer(message)

    def _received(self) -> Any:
        return self._response

    _receive_proto_message = _receive_proto_message_with_long_value = _received
    _receive_proto_message_with_string_value = _receive_proto_message_with_list_get = _received
    _receive_proto_message_with_map_keys_values = _receive_proto_message_with_map_pairs = _received
    _receive_proto_message_with_timers = _received
