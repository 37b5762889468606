"""Clients of stores that speak protocols of their own, redis-py, kafka-python and confluent-kafka: a ledger answers them.

Rules of this file:

* A command of Redis is a request; the rows of `COMMANDS` say what each does and replies. Nothing expires.
* What a producer of Kafka is given is sent in the background: at the latest by `flush`, `close`, or `get` of its future, and
  else while the next batch begins. It is lost if the process dies before that.
"""

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from headrace_sim.spark.refusals import CannotFollowError, users_place
from headrace_sim.spark.sinks.database_servers import replace_in, when_imported
from headrace_sim.spark.sinks.effects import Effect, Probe

Row = tuple[tuple[str, str], ...]
Keys = dict[str, Any]
"""What Redis keeps: texts, hashes, sets (as hashes without values) and lists."""


@dataclass(frozen=True, slots=True)
class RedisCommands:
    """Commands that were carried out at once, each with its arguments as texts."""

    commands: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class KafkaRecord:
    """A record that was sent: its topic, its key and its value."""

    topic: str
    key: bytes | None
    value: bytes | None


def stored(effects: Iterable[Effect]) -> dict[str, list[Any]]:
    """Return what the stores keep after these effects, by destination."""
    kept = list(effects)
    found: dict[str, list[Any]] = {f"redis: {key}": list(_items(value)) for key, value in _keys(kept).items()}
    for record in (effect.payload for effect in kept):
        if isinstance(record, KafkaRecord):
            pairs = (("key", record.key), ("value", record.value))
            row = tuple((name, _text(part)) for name, part in pairs if part is not None)
            found.setdefault(f"kafka: {record.topic}", []).append(row)
    return found


def is_sent_in_background(effects: Iterable[Effect], destination: str) -> bool:
    """Return whether a destination is written by a client that sends what it has later."""
    return any(isinstance(effect.payload, KafkaRecord) and effect.target == destination for effect in effects)


def _keys(effects: Iterable[Effect]) -> Keys:
    """Return what Redis keeps after these effects."""
    keys: Keys = {}
    for effect in effects:
        for name, *arguments in effect.payload.commands if isinstance(effect.payload, RedisCommands) else ():
            COMMANDS[name](keys, *arguments)
    return keys


def _items(kept: Any) -> Iterable[Row]:
    """Return a key's content as rows."""
    if isinstance(kept, dict):
        pairs = ((("field", field), ("value", value)) for field, value in kept.items())
        return (tuple(pair for pair in row if pair[1] is not None) for row in pairs)
    return ((("value", value),) for value in (kept if isinstance(kept, list) else [kept]))


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _set(keys: Keys, key: str, value: str, *options: str) -> bool | None:
    if ("NX" in options and key in keys) or ("XX" in options and key not in keys):
        return None
    keys[key] = value
    return True


def _setnx(keys: Keys, key: str, value: str) -> bool:
    return bool(_set(keys, key, value, "NX"))


def _setex(keys: Keys, key: str, _seconds: str, value: str) -> bool:
    keys[key] = value
    return True


def _hset(keys: Keys, key: str, *pairs: str) -> int:
    kept = keys.setdefault(key, {})
    before = len(kept)
    kept.update(zip(pairs[::2], pairs[1::2], strict=True))
    return len(kept) - before


def _sadd(keys: Keys, key: str, *members: str) -> int:
    return _hset(keys, key, *(part for member in members for part in (member, None)))  # type: ignore[arg-type]


def _zadd(keys: Keys, key: str, *scored: str) -> int:
    plain = [part for part in scored if part not in {"NX", "XX", "GT", "LT", "CH"}]
    members, scores = plain[1::2], plain[::2]
    return _hset(keys, key, *(part for pair in zip(members, scores, strict=True) for part in pair))


def _added(kept: dict[str, str], field: str, amount: str) -> float:
    total = float(kept.get(field) or 0) + float(amount)
    kept[field] = f"{total:g}" if total % 1 else str(int(total))
    return total if total % 1 else int(total)


def _hincrby(keys: Keys, key: str, field: str, amount: str) -> float:
    return _added(keys.setdefault(key, {}), field, amount)


def _rpush(keys: Keys, key: str, *values: str) -> int:
    keys.setdefault(key, []).extend(values)
    return len(keys[key])


def _lpush(keys: Keys, key: str, *values: str) -> int:
    keys[key] = [*reversed(values), *keys.get(key, [])]
    return len(keys[key])


def _xadd(keys: Keys, key: str, *parts: str) -> str:
    start = parts.index("*") + 1
    _rpush(keys, key, " ".join(parts[start:]))
    return f"{len(keys[key])}-0"


def _delete(keys: Keys, *names: str) -> int:
    return sum(keys.pop(name, None) is not None for name in names)


def _drop(keys: Keys, key: str, *fields: str) -> int:
    kept = keys.get(key, {})
    gone = [field for field in fields if field in kept]
    for field in gone:
        del kept[field]
    return len(gone)


COMMANDS: dict[str, Callable[..., Any]] = {
    "SET": _set, "SETNX": _setnx, "SETEX": _setex, "PSETEX": _setex,
    "MSET": lambda keys, *pairs: keys.update(zip(pairs[::2], pairs[1::2], strict=True)) is None,
    "HSET": _hset, "HMSET": _hset, "SADD": _sadd, "ZADD": _zadd,
    "INCRBY": lambda keys, key, amount="1": _added(keys, key, amount),
    "INCRBYFLOAT": _added,
    "DECRBY": lambda keys, key, amount="1": _added(keys, key, f"-{amount}"),
    "HINCRBY": _hincrby, "HINCRBYFLOAT": _hincrby,
    "ZINCRBY": lambda keys, key, amount, member: _hincrby(keys, key, member, amount),
    "RPUSH": _rpush, "LPUSH": _lpush, "XADD": _xadd, "PUBLISH": _rpush,
    "DEL": _delete, "UNLINK": _delete, "HDEL": _drop, "SREM": _drop, "ZREM": _drop,
    "EXPIRE": lambda keys, key, *_: key in keys, "PEXPIRE": lambda keys, key, *_: key in keys,
    "GET": lambda keys, key: keys.get(key), "MGET": lambda keys, *names: [keys.get(name) for name in names],
    "EXISTS": lambda keys, *names: sum(name in keys for name in names),
    "HGET": lambda keys, key, field: keys.get(key, {}).get(field), "HGETALL": lambda keys, key: keys.get(key, {}),
    "HEXISTS": lambda keys, key, field: field in keys.get(key, {}), "HLEN": lambda keys, key: len(keys.get(key, ())),
    "SMEMBERS": lambda keys, key: set(keys.get(key, ())), "SCARD": lambda keys, key: len(keys.get(key, ())),
    "SISMEMBER": lambda keys, key, member: member in keys.get(key, {}), "LLEN": lambda keys, key: len(keys.get(key, ())),
    "PING": lambda _: True,
}  # fmt: skip
"""What each command does to the keys, and its reply."""
READS = frozenset(
    {"GET", "MGET", "EXISTS", "HGET", "HGETALL", "HEXISTS", "HLEN", "SMEMBERS", "SCARD", "SISMEMBER", "LLEN", "PING"}
)  # fmt: skip


class StoreClients:
    """Answers the clients of a process, and sends what they have in the background.

    Args:
        probe: Told of each effect.

    """

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._waiting: list[tuple[KafkaRecord, str, Future[Any]]] = []
        self._answered: set[str] = set()
        when_imported(self._answer, is_store_client)

    def send_waiting(self) -> None:
        """Send what waits."""
        while self._waiting:
            self._send(*self._waiting[0])

    def _send(self, record: KafkaRecord, place: str, future: Future[Any]) -> None:
        with self._probe.effect("send", f"kafka: {record.topic}", payload=lambda: record, place=place):
            self._waiting.pop(0)
        future.set_result(record)

    def _answer(self, module: ModuleType) -> None:
        answer = _CLIENTS.get(module.__name__)
        if answer is not None and module.__name__ not in self._answered:
            self._answered.add(module.__name__)
            answer(self, module)

    def answer_redis(self, module: ModuleType) -> None:
        """Answer redis-py: all its commands go through `execute_command`."""

        def execute_command(client: Any, *args: Any, **_options: Any) -> Any:
            return carried_out(client, [args])[0]

        def execute(pipeline: Any, raise_on_error: bool = True) -> list[Any]:
            del raise_on_error
            commands, pipeline.command_stack = [args for args, _ in pipeline.command_stack], []
            return carried_out(pipeline, commands)

        def carried_out(client: Any, calls: list[tuple[Any, ...]]) -> list[Any]:
            try:
                return [_encoded(reply, client) for reply in self._carried_out(calls)]
            except ConnectionError as error:
                raise module.ConnectionError(str(error)) from error

        module.Redis.execute_command = execute_command
        pipelines = getattr(sys.modules.get("redis.client"), "Pipeline", None)
        if pipelines is not None:
            pipelines.execute = execute

    def _carried_out(self, calls: list[tuple[Any, ...]]) -> list[Any]:
        """Carry out the commands of a request, and return their replies."""
        commands = tuple((str(name).upper(), *map(_text, rest)) for name, *rest in calls)
        for name, *_ in commands:
            if name not in COMMANDS:
                raise CannotFollowError(
                    f"the command {name} of Redis", users_place(), "Test what writes to Redis apart"
                )
        keys = _keys(self._probe.ledger.effects())
        replies = [COMMANDS[name](keys, *arguments) for name, *arguments in commands]
        changes = tuple(command for command in commands if command[0] not in READS)
        if changes:
            target = "redis: " + ", ".join(dict.fromkeys(command[1] for command in changes))
            action = ", ".join(dict.fromkeys(name for name, *_ in changes))
            with self._probe.effect(action, target, replied=True, payload=lambda: RedisCommands(changes)):
                pass
        return replies

    def answer_kafka(self, module: ModuleType) -> None:
        """Answer kafka-python's producer."""
        clients = self

        def start(producer: Any, **options: Any) -> None:
            producer.serializers = [
                options.get(f"{part}_serializer") or (lambda sent: sent) for part in ("key", "value")
            ]

        def send(
            producer: Any, topic: str, value: Any = None, key: Any = None, *_: Any, **__: Any
        ) -> Future[Any]:
            key, value = (
                None if part is None else serializer(part)
                for serializer, part in zip(producer.serializers, (key, value), strict=True)
            )
            future = _Sent(clients)
            clients._waiting.append((KafkaRecord(topic, key, value), users_place(), future))
            return future

        def flush(_producer: Any, timeout: Any = None) -> None:
            del timeout
            clients.send_waiting()

        for name, function in (("__init__", start), ("send", send), ("flush", flush), ("close", flush)):
            setattr(module.KafkaProducer, name, function)

    def answer_confluent(self, module: ModuleType) -> None:
        """Answer confluent-kafka's producer, a class in C: another one takes its place."""
        clients = self

        class Producer:
            def __init__(self, config: Any = None, **_: Any) -> None:
                del config

            def produce(self, topic: str, value: Any = None, key: Any = None, *_: Any, **__: Any) -> None:
                key, value = (part.encode() if isinstance(part, str) else part for part in (key, value))
                clients._waiting.append((KafkaRecord(topic, key, value), users_place(), Future()))

            def flush(self, timeout: Any = None) -> int:
                del timeout
                clients.send_waiting()
                return 0

            def poll(self, timeout: Any = None) -> int:
                del timeout
                return 0

            def __len__(self) -> int:
                return len(clients._waiting)

        replace_in(module, "Producer", Producer)


class _Sent(Future[Any]):
    """What `send` returns: it is sent when somebody waits for it."""

    def __init__(self, clients: StoreClients) -> None:
        super().__init__()
        self._clients = clients

    def get(self, timeout: float | None = None) -> Any:
        self._clients.send_waiting()
        return self.result(timeout)

    def add_callback(self, *_: Any, **__: Any) -> Any:
        return self

    add_errback = add_callback


def _encoded(reply: Any, client: Any) -> Any:
    """Return a reply as the client wants it: bytes, or texts."""
    pool = getattr(client, "connection_pool", None)
    options = getattr(pool, "connection_kwargs", None) or vars(client)
    if options.get("decode_responses"):
        return reply
    if isinstance(reply, str):
        return reply.encode()
    if isinstance(reply, dict):
        return {_encoded(name, client): _encoded(value, client) for name, value in reply.items()}
    return type(reply)(_encoded(part, client) for part in reply) if isinstance(reply, list | set) else reply


_CLIENTS = {
    "redis": StoreClients.answer_redis,
    "kafka": StoreClients.answer_kafka,
    "confluent_kafka": StoreClients.answer_confluent,
}
"""The clients that are answered, by the module that has them."""


def is_store_client(module: ModuleType) -> bool:
    """Return whether a module has a client that is answered."""
    return module.__name__ in _CLIENTS
