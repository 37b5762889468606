"""redis-py's calls where it is missing: each is a command."""

from collections.abc import Callable, Mapping
from typing import Any

from headrace_sim.spark.stores.client_objects import (
    ClientKind,
    ClientObject,
    client_errors,
    nothing,
    recorder,
)
from headrace_sim.spark.stores.redis_commands import COMMANDS

Command = tuple[Any, ...]


def _flat(pairs: Mapping[Any, Any]) -> list[Any]:
    return [part for pair in pairs.items() for part in pair]


def _set(
    name: Any, value: Any, ex: Any = None, px: Any = None, nx: bool = False, xx: bool = False
) -> Command:
    del ex, px
    return ("SET", name, value, *["NX"] * bool(nx), *["XX"] * bool(xx))


def _hset(name: Any, key: Any = None, value: Any = None, mapping: Any = None) -> Command:
    return ("HSET", name, *((key, value) if key is not None else ()), *_flat(mapping or {}))


_CALLS: Mapping[str, Callable[..., Command]] = {
    "set": _set,
    "hset": _hset,
    "hmset": lambda name, mapping: ("HSET", name, *_flat(mapping)),
    "mset": lambda mapping: ("MSET", *_flat(mapping)),
    "zadd": lambda name, mapping: ("ZADD", name, *(part for member, score in mapping.items() for part in (score, member))),
    "zincrby": lambda name, amount, value: ("ZINCRBY", name, amount, value),
    "xadd": lambda name, fields, id="*", maxlen=None, approximate=True: ("XADD", name, id, *_flat(fields)),
    "incr": lambda name, amount=1: ("INCRBY", name, amount),
    "decr": lambda name, amount=1: ("DECRBY", name, amount),
    "hincrby": lambda name, key, amount=1: ("HINCRBY", name, key, amount),
    "hincrbyfloat": lambda name, key, amount=1.0: ("HINCRBYFLOAT", name, key, amount),
    "delete": lambda *names: ("DEL", *names),
}  # fmt: skip


def _command(name: str) -> Callable[..., Command] | None:
    """Return what makes a command of a method; most have the command's name and arguments."""
    plain = name.upper()
    return _CALLS.get(name) or ((lambda *args: (plain, *args)) if plain in COMMANDS else None)


def _now(name: str) -> Callable[..., Any] | None:
    command = _command(name)
    if command is None:
        return None
    return lambda at, *args, **options: _carried_out(at, [command(*args, **options)])[0]


def _held(name: str) -> Callable[..., Any] | None:
    if (command := _command(name)) is None:
        return None

    def hold(at: ClientObject, *args: Any, **options: Any) -> ClientObject:
        at._held.append(command(*args, **options))
        return at

    return hold


def _execute(at: ClientObject) -> list[Any]:
    commands = [one for one in at._held if isinstance(one, tuple)]
    at._held[:] = []
    return _carried_out(at, commands) if commands else []


def _carried_out(at: ClientObject, commands: list[Command]) -> list[Any]:
    with client_errors(at._client):
        return [
            encoded(reply, texts=bool(at._options.get("decode_responses")))
            for reply in recorder().commands(commands)
        ]


def encoded(reply: Any, *, texts: bool) -> Any:
    """Return a reply as a client wants it: texts, or bytes."""
    if texts:
        return reply
    if isinstance(reply, str):
        return reply.encode()
    if isinstance(reply, dict):
        return {encoded(name, texts=texts): encoded(value, texts=texts) for name, value in reply.items()}
    is_several = isinstance(reply, list | set)
    return type(reply)(encoded(part, texts=texts) for part in reply) if is_several else reply


_PIPELINE = ClientKind("redis-py's pipeline", {"execute": _execute, "reset": nothing()}, rest=_held)
REDIS = ClientKind("redis-py's client", {"close": nothing()}, {"pipeline": _PIPELINE}, rest=_now)
