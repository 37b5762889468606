"""How panes travel and keys' states rest: compact JSON, read back as what they were."""

from typing import Any

import msgspec

from headrace import JsonCodec


class StructCodec:
    """Values of one ``msgspec.Struct`` that we write ourselves, so that they need no check when they are written.

    Args:
        type_: the class.
    """

    __slots__ = ("_type", "decode", "encode")

    def __init__(self, type_: Any) -> None:
        self._type = type_
        self.encode = JsonCodec().encode
        self.decode = msgspec.json.Decoder(type_).decode

    def __reduce__(self) -> tuple[type, tuple[Any]]:
        """Pickle as what it was built from."""
        return StructCodec, (self._type,)

    def __repr__(self) -> str:
        """Write it as in code."""
        return f"StructCodec({self._type.__name__})"
