"""Redis: what its commands do to the keys. Nothing expires."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from headrace_sim.spark.refusals import CannotFollowError, users_place

Keys = dict[str, Any]
"""What Redis keeps: texts, hashes, sets (as hashes without values) and lists."""


@dataclass(frozen=True, slots=True)
class RedisCommands:
    """Commands that were carried out at once, each with its arguments as texts."""

    commands: tuple[tuple[str, ...], ...]


def kept_keys(payloads: Iterable[Any]) -> Keys:
    """Return what is there after these commands."""
    keys: Keys = {}
    for name, *arguments in (
        command for one in payloads if isinstance(one, RedisCommands) for command in one.commands
    ):
        COMMANDS[name](keys, *arguments)
    return keys


def carried_out(commands: Iterable[tuple[str, ...]], keys: Keys) -> tuple[list[Any], RedisCommands]:
    """Return the replies to commands, and those that change something."""
    known = [*commands]
    for name, *_ in known:
        if name not in COMMANDS:
            raise CannotFollowError(
                f"the command {name} of Redis", users_place(), "Test what writes to Redis apart"
            )
    replies = [COMMANDS[name](keys, *arguments) for name, *arguments in known]
    return replies, RedisCommands(tuple(command for command in known if command[0] not in READS))


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


def _between(kept: list[str], start: str, stop: str) -> list[str]:
    first, last = (max(0, place + len(kept) if place < 0 else place) for place in map(int, (start, stop)))
    return kept[first : last + 1]


def _ltrim(keys: Keys, key: str, start: str, stop: str) -> bool:
    if key in keys:
        keys[key] = _between(keys[key], start, stop)
    return True


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
    "RPUSH": _rpush, "LPUSH": _lpush, "LTRIM": _ltrim, "XADD": _xadd, "PUBLISH": _rpush,
    "DEL": _delete, "UNLINK": _delete, "HDEL": _drop, "SREM": _drop, "ZREM": _drop,
    "EXPIRE": lambda keys, key, *_: key in keys, "PEXPIRE": lambda keys, key, *_: key in keys,
    "GET": lambda keys, key: keys.get(key), "MGET": lambda keys, *names: [keys.get(name) for name in names],
    "EXISTS": lambda keys, *names: sum(name in keys for name in names),
    "HGET": lambda keys, key, field: keys.get(key, {}).get(field), "HGETALL": lambda keys, key: keys.get(key, {}),
    "HEXISTS": lambda keys, key, field: field in keys.get(key, {}), "HLEN": lambda keys, key: len(keys.get(key, ())),
    "SMEMBERS": lambda keys, key: set(keys.get(key, ())), "SCARD": lambda keys, key: len(keys.get(key, ())),
    "SISMEMBER": lambda keys, key, member: member in keys.get(key, {}), "LLEN": lambda keys, key: len(keys.get(key, ())),
    "LRANGE": lambda keys, key, start, stop: _between(keys.get(key, []), start, stop), "PING": lambda _: True,
}  # fmt: skip
"""What each command does to the keys, and its reply."""
READS = frozenset(
    {"GET", "MGET", "EXISTS", "HGET", "HGETALL", "HEXISTS", "HLEN", "SMEMBERS", "SCARD", "SISMEMBER", "LLEN", "LRANGE", "PING"}
)  # fmt: skip


def rows_of_key(kept: Any) -> Iterable[tuple[tuple[str, str], ...]]:
    """Return a key's content as rows."""
    if isinstance(kept, dict):
        pairs = ((("field", field), ("value", value)) for field, value in kept.items())
        return (tuple(pair for pair in row if pair[1] is not None) for row in pairs)
    return ((("value", value),) for value in (kept if isinstance(kept, list) else [kept]))


def as_texts(calls: Iterable[tuple[Any, ...]]) -> tuple[tuple[str, ...], ...]:
    """Return commands with their arguments as texts."""
    return tuple((str(name).upper(), *map(text_of, rest)) for name, *rest in calls)


def text_of(value: Any) -> str:
    """Return a value as a text."""
    return value.decode(errors="replace") if isinstance(value, bytes | bytearray) else str(value)
