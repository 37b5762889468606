"""Codecs (MillWheel 4.4): how values and states become the bytes that travel and rest.

Each stream and each computation's state names one. User code only ever sees fresh copies.
"""

import math
import pickle
import re
from typing import Any, Protocol

import msgspec

from headrace.api.errors import CodecError


class Codec(Protocol):
    """Turns values into bytes and back. Both may raise anything: the engine says where it happened."""

    def encode(self, value: Any) -> bytes:
        """Write the value; equal values give equal bytes."""
        ...

    def decode(self, data: bytes) -> Any:
        """Read it back as a fresh object."""
        ...


class JsonCodec:
    """JSON-like values: dict, list, str, int, float, bool, None. The default.

    Tuples come back as lists, keys of a dict as ``str``, and its entries in the order of their keys.

    >>> JsonCodec().decode(JsonCodec().encode({"query": "cat videos", "count": 3}))
    {'count': 3, 'query': 'cat videos'}
    """

    __slots__ = ("decode", "encode")

    def __init__(self) -> None:
        self.decode = msgspec.json.Decoder().decode
        self.encode = _encode_json

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """Pickle as what it was built from."""
        return JsonCodec, ()

    def __repr__(self) -> str:
        """Write it as in code."""
        return "JsonCodec()"


class TypedCodec:
    """Values of one class (dataclass, ``msgspec.Struct``, NamedTuple, TypedDict, ``list[int]`` ...), as JSON, checked when read.

    Args:
        type_: the class; a value that does not fit is refused with the field that is wrong.
    """

    __slots__ = ("_decoder", "_type")

    def __init__(self, type_: Any) -> None:
        self._type = type_
        self._decoder = msgspec.json.Decoder(type_)

    def encode(self, value: Any) -> bytes:
        """Write the value; what would not be read back as the class is refused here already."""
        data = _encode_json(value)
        self._decoder.decode(data)
        return data

    def decode(self, data: bytes) -> Any:
        """Read it back as the class."""
        return self._decoder.decode(data)

    def __reduce__(self) -> tuple[type, tuple[Any]]:
        """Pickle as what it was built from."""
        return TypedCodec, (self._type,)

    def __repr__(self) -> str:
        """Write it as in code."""
        return f"TypedCodec({getattr(self._type, '__name__', self._type)})"


_JSON = msgspec.json.Encoder(order="deterministic")
_MSGPACK = msgspec.msgpack.Encoder()
_find_no_number = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]").search
"""A float whose exponent is all ones, as MessagePack writes it. No text contains it; some integers do."""


def _encode_json(value: Any) -> bytes:
    """Equal values give equal bytes, whatever the order in which their dicts and sets were filled."""
    try:
        data = _JSON.encode(value)
    except TypeError:  # keys of a dict that are not str take a longer way
        data = _JSON.encode(msgspec.to_builtins(value, str_keys=True, order="deterministic"))
    if b"null" in data and _may_lack_json(value) and _has_no_json(msgspec.to_builtins(value, str_keys=True)):
        raise ValueError("JSON has no NaN and no infinity")
    return data


def _may_lack_json(value: Any) -> bool:
    """Tell whether one of its nulls may have been a float: a second format, which keeps them, tells without a walk in Python."""
    try:
        return _find_no_number(_MSGPACK.encode(value)) is not None
    except Exception:  # noqa: BLE001  it is JSON, but no MessagePack: an integer of more than 64 bits, for one
        return True


def _has_no_json(value: Any) -> bool:
    """Tell whether there is a float in it that JSON would write as null."""
    if isinstance(value, dict):
        return any(map(_has_no_json, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_no_json, value))
    return isinstance(value, float) and not math.isfinite(value)


class BytesCodec:
    """Bytes as they are."""

    def encode(self, value: Any) -> bytes:
        """Take bytes only."""
        if not isinstance(value, bytes):
            raise TypeError(f"expected bytes, got {type(value).__name__}")
        return value

    def decode(self, data: bytes) -> bytes:
        """Give them back."""
        return data

    def __repr__(self) -> str:
        """Write it as in code."""
        return "BytesCodec()"


class PickleCodec:
    """Anything that pickles. Only for streams whose every producer is trusted."""

    def encode(self, value: Any) -> bytes:
        """Pickle it."""
        return pickle.dumps(value, protocol=5)

    def decode(self, data: bytes) -> Any:
        """Unpickle it."""
        return pickle.loads(data)  # noqa: S301  the user chose pickle for this stream

    def __repr__(self) -> str:
        """Write it as in code."""
        return "PickleCodec()"


class ProtobufCodec:
    """Protocol buffer messages of one class (Figure 7's natural wire format).

    Args:
        message: the generated class, with ``SerializeToString`` and ``FromString``.
    """

    def __init__(self, message: Any) -> None:
        self._message = message

    def encode(self, value: Any) -> bytes:
        """Serialise deterministically."""
        data: bytes = value.SerializeToString(deterministic=True)
        return data

    def decode(self, data: bytes) -> Any:
        """Parse a message."""
        return self._message.FromString(data)

    def __repr__(self) -> str:
        """Write it as in code."""
        return f"ProtobufCodec({self._message.__name__})"


def encode_at(where: str, codec: Codec, value: Any, *names: str) -> bytes:
    """Encode; whatever goes wrong becomes a `CodecError` that names the place.

    ``names`` stand in the place of the ``{!r}`` in ``where``: nobody writes a message for each record that goes well.
    """
    try:
        data = codec.encode(value)
    except Exception as error:
        raise unwritable(error, where, codec, value, *names) from error
    if type(data) is not bytes:
        raise not_bytes(data, where, codec, *names)
    return data


def decode_at(where: str, codec: Codec, data: bytes, *names: str) -> Any:
    """Decode; whatever goes wrong becomes a `CodecError` that names the place. ``names``: as for `encode_at`."""
    try:
        return codec.decode(data)
    except Exception as error:
        raise unreadable(error, where, codec, data, *names) from error


def unwritable(error: Exception, where: str, codec: Codec, value: Any, *names: str) -> CodecError:
    """What `encode_at` raises; for the hottest paths, which encode by themselves."""
    reason = f"{type(error).__name__}: {error} (value {value!r:.80})"
    return CodecError(_place(where, names), repr(codec), "write", reason)


def not_bytes(data: object, where: str, codec: Codec, *names: str) -> CodecError:
    """What `encode_at` raises when the codec gave something else; for the hottest paths."""
    reason = f"encode returned {type(data).__name__}, not bytes"
    return CodecError(_place(where, names), repr(codec), "write", reason)


def unreadable(error: Exception, where: str, codec: Codec, data: bytes, *names: str) -> CodecError:
    """What `decode_at` raises; for the hottest paths, which decode by themselves."""
    reason = f"{type(error).__name__}: {error} (bytes {data[:40]!r})"
    return CodecError(_place(where, names), repr(codec), "read", reason)


def _place(where: str, names: tuple[str, ...]) -> str:
    return where.format(*names) if names else where
