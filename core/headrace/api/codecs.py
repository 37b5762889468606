"""Codecs (MillWheel 4.4): convert values and state to the bytes that are sent and stored.

Every stream and every computation's state has a codec. User code only ever sees fresh copies.
"""

import contextlib
import dataclasses
import math
import pickle
import re
from collections.abc import Callable, Iterable
from copy import copy
from functools import partial
from typing import Any, Protocol, cast

import msgspec
from msgspec import inspect

from headrace.api.errors import CodecError, text_of
from headrace.api.ropes import Encoded, Rope


class Codec(Protocol):
    """Converts values to bytes and back. Either method may raise any exception; the engine reports where it happened."""

    def encode(self, value: Any) -> bytes:
        """Encode a value; equal values must give equal bytes."""
        ...

    def decode(self, data: bytes) -> Any:
        """Decode bytes into a fresh object."""
        ...


class RopeCodec(Protocol):
    """A codec of states that may write a `Rope`, and reads what it wrote as well as the bytes of it."""

    reads_ropes: bool

    def encode(self, value: Any) -> Encoded:
        """Encode a state; equal states must give equal bytes."""
        ...

    def decode(self, data: Encoded) -> Any:
        """Decode a state into a fresh object, changes of which do not change ``data``."""
        ...


StateCodec = Codec | RopeCodec


class JsonCodec:
    """Encodes JSON-like values: dict, list, str, int, float, bool, None. The default codec.

    Tuples are decoded as lists, dict keys as ``str``, and dicts sorted by key. A dict with two keys of one text, such as 7 and
    ``"7"``, is refused.

    >>> JsonCodec().decode(JsonCodec().encode({"query": "cat videos", "count": 3}))
    {'count': 3, 'query': 'cat videos'}
    """

    __slots__ = ()

    def encode(self, value: Any) -> bytes:
        """Encode a JSON-like value."""
        return _encode_json(value)

    def decode(self, data: bytes) -> Any:
        """Decode a fresh value."""
        return _decode_json(data)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class TypedCodec:
    """Encodes values of one class (dataclass, ``msgspec.Struct``, NamedTuple, TypedDict, ``list[int]`` ...) as validated JSON.

    Args:
        type_: the class; the error for a value that does not fit names the wrong field.
    """

    __slots__ = ("_decoder", "_sorter", "_type")

    def __init__(self, type_: Any) -> None:
        self._type = type_
        self._decoder = msgspec.json.Decoder(type_)
        self._sorter = _sorter_of(type_)

    def encode(self, value: Any) -> bytes:
        """Encode a value; refuse one that could not be decoded as the class."""
        return self.encode_and_decode(value)[0]

    def encode_and_decode(self, value: Any) -> tuple[bytes, Any]:
        """Encode a value as `encode` does; return also what it is decoded to."""
        data = _encode_json(value, self._sorter)
        return data, self._decoder.decode(data)

    def decode(self, data: bytes) -> Any:
        """Decode an instance of the class."""
        return self._decoder.decode(data)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made of the class; keep what a subclass adds."""
        own, slots = cast(tuple[dict[str, Any] | None, dict[str, Any]], object.__getstate__(self))
        return {**(own or {}), **{name: slot for name, slot in slots.items() if name not in _MADE}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        TypedCodec.__init__(self, state["_type"])
        for name, value in state.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self._type, '__name__', self._type)})"


_MADE = ("_decoder", "_sorter")


def writes_json(codec: StateCodec) -> bool:
    """Return whether what a codec writes is JSON; a subclass of ours with an ``encode`` of its own may write anything."""
    encode = getattr(codec.encode, "__func__", None)
    return encode in (JsonCodec.encode, TypedCodec.encode)


_decode_json = msgspec.json.Decoder().decode
_JSON = msgspec.json.Encoder(order="deterministic")
_JSON_AS_IT_IS = msgspec.json.Encoder()
_MSGPACK = msgspec.msgpack.Encoder()
_find_no_number = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]").search
"""Finds MessagePack floats whose exponent is all ones: NaN and infinity. Text never matches; some integers do."""


def _encode_json(value: Any, sorter: Callable[[Any], Any] | None = None) -> bytes:
    """Encode as JSON. Equal values give equal bytes, whatever order their dicts and sets were filled in.

    ``sorter``: sorts the dicts in a value that has keys other than ``str``, if that can be told from its type.
    """
    try:
        data = _JSON.encode(value)
    except TypeError:  # dict keys other than str
        data = _encode_other_keys(value, sorter)
    if b"null" in data and _may_lack_json(value) and _has_no_json(msgspec.to_builtins(value, str_keys=True)):
        raise ValueError("JSON has no NaN or infinity")
    return data


def _encode_other_keys(value: Any, sorter: Callable[[Any], Any] | None) -> bytes:
    if sorter is not None:
        with contextlib.suppress(Exception):  # it is not of the type that the sorter is for
            return _JSON_AS_IT_IS.encode(sorter(value))
    _check_keys(value)
    try:
        plain = msgspec.to_builtins(value, str_keys=True, order="deterministic")
    except TypeError:  # a set whose elements have no order, such as an enum's
        plain = msgspec.to_builtins(_with_lists_for_sets(value), str_keys=True)
    return _JSON.encode(plain)


def _check_keys(value: Any) -> None:
    """Refuse a dict of which JSON would keep one of two entries: whoever sets ``state[7]`` reads it back as ``state["7"]``."""
    if isinstance(value, dict):
        first: dict[str, Any] = {}
        for key in value:
            text = key if isinstance(key, str) else _text_of_key(key)
            before = first.setdefault(text, key)
            if before is not key:
                problem = f"JSON would write both keys {before!r} and {key!r} as {text!r}"
                raise ValueError(f"{problem}. Use str keys")
    names: Iterable[str] = getattr(value, "__struct_fields__", ())
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    for part in (*parts, *(getattr(value, name) for name in names)):
        _check_keys(part)


def _text_of_key(key: Any) -> str:
    (text,) = msgspec.to_builtins({key: None}, str_keys=True)
    return str(text)


def _with_lists_for_sets(value: Any) -> Any:
    """Return a value whose sets are lists, in the order of their elements' JSON."""
    if isinstance(value, set | frozenset):
        return sorted(map(_with_lists_for_sets, value), key=_JSON_AS_IT_IS.encode)
    if isinstance(value, dict):
        return {key: _with_lists_for_sets(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [*map(_with_lists_for_sets, value)]
    names: Iterable[str] = getattr(value, "__struct_fields__", ())
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    return _with_sorted([(name, _with_lists_for_sets) for name in names], value)


def _sorter_of(type_: Any) -> Callable[[Any], Any] | None:
    """Return what sorts the dicts in values of a type; ``None``: more than dicts with int or str keys may have no order."""
    classes: set[type] = set()
    try:
        sort = _sorter(inspect.type_info(type_), classes)
    except (TypeError, NameError, RecursionError, _UnclearOrderError):
        return None

    def sorter(value: Any) -> Any:
        if any(class_.__subclasses__() for class_ in classes):
            raise _UnclearOrderError
        return value if sort is None else sort(value)

    return sorter


class _UnclearOrderError(Exception):
    """A value may have parts without an order that are not dicts with int or str keys."""


def _sorter(type_: inspect.Type, classes: set[type]) -> Callable[[Any], Any] | None:
    """Return what sorts the dicts in values of a type; ``None``: there are none. Collect classes of instances in it."""
    match type_:
        case (
            inspect.IntType()
            | inspect.FloatType()
            | inspect.StrType()
            | inspect.BoolType()
            | inspect.NoneType()
        ):
            return None
        case inspect.DictType(key_type=inspect.IntType() | inspect.StrType(), value_type=values):
            if _sorter(values, classes) is None:
                return _sorted
        case inspect.DataclassType(cls=class_, fields=fields):
            classes.add(class_)
            parts = [(field.name, part) for field in fields if (part := _sorter(field.type, classes))]
            return partial(_with_sorted, parts) if parts else None
        case _:
            pass
    raise _UnclearOrderError


def _sorted(value: dict[Any, Any]) -> dict[Any, Any]:
    keys = sorted(value)
    return value if keys == [*value] else {key: value[key] for key in keys}


def _with_sorted(parts: list[tuple[str, Callable[[Any], Any]]], value: Any) -> Any:
    changed, is_struct = value, isinstance(value, msgspec.Struct)
    set_frozen = msgspec.structs.force_setattr if is_struct else object.__setattr__
    for name, in_order in parts:
        before = getattr(value, name)
        after = in_order(before)
        if after is not before:
            changed = copy(value) if changed is value else changed
            set_frozen(changed, name, after)
    return changed


def _may_lack_json(value: Any) -> bool:
    """Return whether a null in the JSON may have been a float: MessagePack keeps such floats, and is quicker to search."""
    try:
        return _find_no_number(_MSGPACK.encode(value)) is not None
    except Exception:  # noqa: BLE001  valid as JSON but not as MessagePack, such as an integer of more than 64 bits
        return True


def _has_no_json(value: Any) -> bool:
    """Return whether the value contains a float that JSON would write as null."""
    if isinstance(value, dict):
        return any(map(_has_no_json, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_no_json, value))
    return isinstance(value, float) and not math.isfinite(value)


@dataclasses.dataclass(eq=False)
class BytesCodec:
    """Passes bytes through unchanged."""

    def encode(self, value: Any) -> bytes:
        """Return the value, which must be bytes."""
        if not isinstance(value, bytes):
            raise TypeError(f"expected bytes, got {type(value).__name__}")
        return value

    def decode(self, data: bytes) -> bytes:
        """Return the bytes."""
        return data


@dataclasses.dataclass(eq=False)
class PickleCodec:
    """Pickles any value. Use it only for streams whose every producer is trusted."""

    def encode(self, value: Any) -> bytes:
        """Pickle the value."""
        return pickle.dumps(value, protocol=5)

    def decode(self, data: bytes) -> Any:
        """Unpickle the value."""
        return pickle.loads(data)  # noqa: S301  the user chose pickle for this stream


class MigratingCodec:
    """Reads states that earlier versions of the code have written, and marks what it writes with its own version.

    >>> codec = MigratingCodec(TypedCodec(dict[str, int]), [lambda count: {"total": count}])
    >>> codec.decode(b"7"), codec.decode(codec.encode({"total": 8}))
    ({'total': 7}, {'total': 8})

    Args:
        codec: of the newest version; it writes JSON.
        migrations: each takes the JSON-like state of one version and returns that of the next, oldest first. What has no mark was
            written by version 0, before there was any.

    Attributes:
        codec: as given.
    """

    __slots__ = ("_mark", "_migrations", "codec")

    def __init__(self, codec: StateCodec, migrations: Iterable[Callable[[Any], Any]]) -> None:
        self.codec = codec
        self._migrations = tuple(migrations)
        self._mark = b"\x00%d\x00" % len(self._migrations)

    def encode(self, value: Any) -> bytes:
        """Encode a value of the newest version."""
        return self._mark + bytes(self.codec.encode(value))

    def decode(self, data: bytes) -> Any:
        """Decode a value of any version."""
        if data.startswith(self._mark):
            return self.codec.decode(data[len(self._mark) :])
        version = 0
        if data[:1] == b"\x00":
            number, _, data = data[1:].partition(b"\x00")
            version = int(number)
        if version > len(self._migrations):
            raise ValueError(
                f"version {version} wrote it, but this code ends at version {len(self._migrations)}: deploy the newer code again"
            )
        state = msgspec.json.decode(data)
        for step, migrate in enumerate(self._migrations[version:], version):
            try:
                state = migrate(state)
            except Exception as error:
                name = getattr(migrate, "__qualname__", repr(migrate))
                raise ValueError(
                    f"{name}, from version {step} to the next, raised {text_of(error)}"
                ) from error
        return self.codec.decode(_encode_json(state))

    def __repr__(self) -> str:
        return f"{self.codec!r} at version {len(self._migrations)}"


class ProtobufCodec:
    """Encodes protocol buffer messages of one class (Figure 7's natural wire format).

    Args:
        message: the generated class, with ``SerializeToString`` and ``FromString``.
    """

    def __init__(self, message: Any) -> None:
        self._message = message

    def encode(self, value: Any) -> bytes:
        """Serialize a message deterministically."""
        data: bytes = value.SerializeToString(deterministic=True)
        return data

    def decode(self, data: bytes) -> Any:
        """Parse a message."""
        return self._message.FromString(data)

    def __repr__(self) -> str:
        return f"ProtobufCodec({self._message.__name__})"


def encode_at(where: str, codec: Codec, value: Any, *names: str) -> bytes:
    """Encode a value; turn any failure into a `CodecError` that says where it happened.

    ``names`` fill the ``{!r}`` placeholders in ``where``, but only on failure: formatting would slow down every record.
    """
    try:
        data = codec.encode(value)
    except Exception as error:
        raise unwritable(error, where, codec, value, *names) from error
    if type(data) is not bytes:
        raise not_bytes(data, where, codec, *names)
    return data


def decode_at(where: str, codec: Codec, data: bytes, *names: str) -> Any:
    """Decode bytes; turn any failure into a `CodecError` that says where it happened. ``names``: as for `encode_at`."""
    try:
        return codec.decode(data)
    except Exception as error:
        raise unreadable(error, where, codec, data, *names) from error


def encode_state_at(where: str, codec: StateCodec, state: Any, *names: str) -> Encoded:
    """Encode a state, possibly as a rope. Failures and ``names``: as for `encode_at`."""
    try:
        data = codec.encode(state)
    except Exception as error:
        raise unwritable(error, where, codec, state, *names) from error
    if type(data) is not bytes and not isinstance(data, Rope):
        raise not_bytes(data, where, codec, *names)
    return data


def decode_state_at(where: str, codec: StateCodec, data: Encoded, *names: str) -> Any:
    """Decode a state, whichever codec wrote it. Failures and ``names``: as for `encode_at`."""
    try:
        return decode_state(codec, data)
    except Exception as error:
        raise unreadable(error, where, codec, data, *names) from error


def decode_state(codec: StateCodec, data: Encoded) -> Any:
    """Decode a state, whichever codec wrote it; raise what the codec raises."""
    if type(data) is not bytes and getattr(codec, "reads_ropes", False):
        return cast(RopeCodec, codec).decode(data)
    return codec.decode(bytes(data))


def unwritable(error: Exception, where: str, codec: StateCodec, value: Any, *names: str) -> CodecError:
    """Return the error that `encode_at` raises, for hot paths that call the codec directly."""
    reason = f"{text_of(error)} (value {shown(value)})"
    return CodecError(_place(where, names), repr(codec), "write", reason)


def shown(value: Any) -> str:
    """Return the beginning of a value's repr, or its type where that fails: a repr may be the user's, and a value deep."""
    try:
        return f"{value!r:.80}"
    except Exception:  # noqa: BLE001  see above
        return f"of type {type(value).__name__}"


def not_bytes(data: object, where: str, codec: StateCodec, *names: str) -> CodecError:
    """Return the error that `encode_at` raises for a codec that did not return bytes, for hot paths."""
    reason = f"encode returned {type(data).__name__}, not bytes"
    return CodecError(_place(where, names), repr(codec), "write", reason)


def unreadable(error: Exception, where: str, codec: StateCodec, data: Encoded, *names: str) -> CodecError:
    """Return the error that `decode_at` raises, for hot paths that call the codec directly."""
    reason = f"{text_of(error)} (bytes {bytes(data)[:40]!r})"
    return CodecError(_place(where, names), repr(codec), "read", reason)


def _place(where: str, names: tuple[str, ...]) -> str:
    return where.format(*names) if names else where
