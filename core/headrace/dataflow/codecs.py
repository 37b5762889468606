"""The codec of panes and key states: compact JSON, decoded to the original class."""

from typing import Any

import msgspec

from headrace import JsonCodec


class StructCodec:
    """Encodes values of one ``msgspec.Struct`` that only this layer creates, so encoding needs no check.

    Args:
        type_: the class.
    """

    __slots__ = ("_type", "decode", "encode")

    def __init__(self, type_: Any) -> None:
        self._type = type_
        self.encode = JsonCodec().encode
        self.decode = msgspec.json.Decoder(type_).decode

    def __reduce__(self) -> tuple[type, tuple[Any]]:
        """Pickle as a constructor call."""
        return StructCodec, (self._type,)

    def __repr__(self) -> str:
        """Format as a constructor call."""
        return f"StructCodec({self._type.__name__})"
