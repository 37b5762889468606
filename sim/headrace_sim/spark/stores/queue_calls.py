"""Producers of Kafka, which send in the background: at the latest by `flush`, `close`, or `get` of a future."""

from typing import Any

from headrace_sim.spark.stores.client_objects import ClientKind, ClientObject, nothing, recorder
from headrace_sim.spark.stores.store_changes import StoreChange, add


def _record(topic: str, key: Any, value: Any) -> StoreChange:
    return add(f"kafka: {topic}", {"key": key, "value": value})


def _send(at: ClientObject, topic: str, value: Any = None, key: Any = None, *_: Any) -> Any:
    pairs = ((key, at._options.get("key_serializer")), (value, at._options.get("value_serializer")))
    sent = [part if part is None or write is None else write(part) for part, write in pairs]
    return at._later("send", _record(topic, *sent))


def _flush(_at: ClientObject) -> None:
    recorder().send_waiting()


KAFKA_PYTHON = ClientKind("kafka-python's producer", {"send": _send, "flush": _flush, "close": _flush})


def _produce(at: ClientObject, topic: str, value: Any = None, key: Any = None, *_: Any, **__: Any) -> None:
    at._later("send", _record(topic, key, value))


def _flush_confluent(_at: ClientObject, *_: Any) -> int:
    recorder().send_waiting()
    return 0


CONFLUENT = ClientKind(
    "confluent-kafka's producer",
    {"produce": _produce, "flush": _flush_confluent, "poll": nothing(0), "list_topics": nothing()},
)
