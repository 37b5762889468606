"""Codecs between transforms: JSON whose values come back as what they were.

Rules of this file: a value that plain JSON returns unchanged is plain JSON. All else is tagged, as in ``{"$set": [1, 2]}``. An
instance of a user's class is tagged with the class's name, and the class has to be declared. Any other value is refused.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec
from msgspec import inspect
from msgspec.structs import replace

from headrace import JsonCodec

encode_plain = JsonCodec().encode
"""Encodes values that are plain JSON."""

_JSON_TYPES = frozenset({str, int, float, bool, type(None)})
_BUILTINS = (
    Decimal, bytes, dt.datetime, dt.date, dt.time, dt.timedelta,
)  # fmt: skip
_COLLECTIONS: Mapping[str, type] = MappingProxyType({"$tuple": tuple, "$set": set, "$frozenset": frozenset})
_DECLARED = (
    inspect.DataclassType, inspect.EnumType, inspect.NamedTupleType, inspect.StructType, inspect.UUIDType,
)  # fmt: skip
_TAG = b'{"$'


class Carrier:
    """A base of this layer's structs that contain values of users.

    Attributes:
        _carried: the fields that contain them, themselves or in other carriers.
    """

    __slots__ = ()
    _carried: ClassVar[tuple[str, ...]] = ()

    def is_plain(self) -> bool:
        """Tell quickly whether all these values are plain JSON; ``False``: perhaps not."""
        return False


class ValueCodec:
    """Encodes values as JSON from which they come back equal and of the same types.

    >>> codec = ValueCodec()
    >>> codec.encode({"seen": {2, 1}}), codec.decode(b'{"seen":{"$set":[1,2]}}')
    (b'{"seen":{"$set":[1,2]}}', {'seen': {1, 2}})

    Kept are JSON's types, dicts with any keys, tuples, sets, frozensets, ``Decimal``, ``bytes``, dates and times, and instances
    of the given classes.

    Args:
        type_: what is decoded: any value, or one of this layer's structs.
        classes: dataclasses, ``msgspec.Struct`` and ``NamedTuple`` classes, enums and ``UUID``, as far as their instances occur.
    """

    __slots__ = ("_by_class", "_by_tag", "_classes", "_decode", "_type")

    def __init__(self, type_: Any = Any, classes: Iterable[type] = ()) -> None:
        self._type = type_
        self._classes = tuple(classes)
        self._by_tag = {f"${kept.__name__}": kept for kept in (*_BUILTINS, *self._classes)}
        self._by_class = {kept: tag for tag, kept in self._by_tag.items()}
        self._decode = msgspec.json.Decoder(type_).decode

    def __reduce__(self) -> tuple[type, tuple[Any, tuple[type, ...]]]:
        return ValueCodec, (self._type, self._classes)

    def __repr__(self) -> str:
        names = [
            getattr(self._type, "__name__", repr(self._type)),
            *(kept.__name__ for kept in self._classes),
        ]
        return f"ValueCodec({', '.join(names)})"

    def __eq__(self, other: object) -> bool:
        """Return whether the other codec encodes the same values in the same way."""
        return isinstance(other, ValueCodec) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        """Hash what `__eq__` compares."""
        return hash(self._classes)

    def of(self, type_: Any) -> "ValueCodec":
        """Return the codec of another type with the same classes."""
        return ValueCodec(type_, self._classes)

    def encode(self, value: Any) -> bytes:
        """Encode a value.

        Raises:
            TypeError: it, or a part of it, is an instance of a class that was not given.
        """
        return encode_plain(self._tagged(value))

    def decode(self, data: bytes) -> Any:
        """Decode a value."""
        value = self._decode(data)
        return self._untagged(value) if _TAG in data else value

    def _tagged(self, value: Any) -> Any:
        """Return the value if it is plain JSON, else a copy with tags."""
        kind = type(value)
        if kind in _JSON_TYPES:
            return value
        if kind is list:
            return value if is_plain(value) else [self._tagged(part) for part in value]
        if kind is dict:
            if any(type(key) is not str or key[:1] == "$" for key in value):
                pairs = [[self._tagged(key), self._tagged(part)] for key, part in value.items()]
                return {"$dict": sorted(pairs, key=encode_plain)}
            if _JSON_TYPES.issuperset(map(type, value.values())):
                return value
            return {key: self._tagged(part) for key, part in value.items()}
        if issubclass(kind, Carrier):
            return value if value.is_plain() else _changed(value, self._tagged)
        if kind is tuple:
            return {"$tuple": [self._tagged(part) for part in value]}
        if kind is set or kind is frozenset:
            return {f"${kind.__name__}": sorted(map(self._tagged, value), key=encode_plain)}
        tag = self._by_class.get(kind)
        if tag is None:
            name = kind.__name__
            remedy = f"declare with_types({name})" if is_convertible(kind) else "convert it to a plain value"
            raise TypeError(f"a value of class {name} would not keep its class between transforms; {remedy}")
        return {tag: msgspec.to_builtins(value, str_keys=True)}

    def _untagged(self, value: Any) -> Any:
        kind = type(value)
        if kind is list:
            return [self._untagged(part) for part in value]
        if isinstance(value, Carrier):
            return _changed(value, self._untagged)
        if kind is not dict:
            return value
        if len(value) == 1:
            ((tag, content),) = value.items()
            if tag == "$dict":
                return {self._untagged(key): self._untagged(part) for key, part in content}
            if tag in _COLLECTIONS:
                return _COLLECTIONS[tag](map(self._untagged, content))
            if tag[:1] == "$":
                return msgspec.convert(content, self._by_tag[tag])
        return {key: self._untagged(part) for key, part in value.items()}


def is_plain(value: Any) -> bool:
    """Tell quickly whether a value is plain JSON; ``False``: perhaps not."""
    kind = type(value)
    return kind in _JSON_TYPES or (kind is list and _JSON_TYPES.issuperset(map(type, value)))


def is_convertible(class_: object) -> bool:
    """Return whether a `ValueCodec` can be given a class.

    Raises:
        NameError: an annotation of its fields cannot be resolved.
    """
    return isinstance(class_, type) and isinstance(inspect.type_info(class_), _DECLARED)


def _changed(carrier: Any, change: Callable[[Any], Any]) -> Any:
    """Return a carrier with the values of users in it changed."""
    changes = {}
    for field in carrier._carried:
        before = getattr(carrier, field)
        after = change(before)
        if after is not before:
            changes[field] = after
    return replace(carrier, **changes) if changes else carrier
