"""Encoded states in pieces: those that differ in one piece share all the others, and are joined only where bytes have to be.

A large state that changes by a few bytes would otherwise be copied for each record, and once more for each event of a History.

Rules of this file: a `Rope` stands for its bytes, so it is equal to them and has their hash and length. What leaves the process
is the bytes themselves.
"""

from typing import TYPE_CHECKING


class Rope:
    """The base class of encoded states in pieces. Instances never change."""

    __slots__ = ()

    def __bytes__(self) -> bytes:
        """Join the pieces."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(bytes(self))

    def __eq__(self, other: object) -> bool:
        """Return whether the bytes are the same: those of another rope, or plain ones."""
        if not isinstance(other, bytes | Rope):
            return NotImplemented
        return len(self) == len(other) and bytes(self) == bytes(other)

    def __hash__(self) -> int:
        return hash(bytes(self))

    def __repr__(self) -> str:
        return repr(bytes(self))

    def __reduce__(self) -> tuple[type[bytes], tuple[bytes]]:
        """Pickle and copy as bytes."""
        return bytes, (bytes(self),)


if TYPE_CHECKING:
    Encoded = bytes | Rope
else:
    Encoded = bytes  # all that msgspec has to read
"""An encoded state."""


def plain_bytes(value: object) -> bytes:
    """Join a rope: the hook with which a msgspec encoder writes ropes.

    Raises:
        TypeError: it is something else, which msgspec cannot encode either.
    """
    if isinstance(value, Rope):
        return bytes(value)
    raise TypeError(f"encoding objects of type {type(value).__name__} is unsupported")
