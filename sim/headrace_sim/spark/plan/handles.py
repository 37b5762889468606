"""Python objects behind the bytes of a plan: PySpark's client pickles functions into it, and here they stay what they are.

A plan holds a handle in place of each pickled object. `foreachBatch` runs in the driver, with the user's own function.
"""

from typing import Any

_PREFIX = b"headrace object "
_OBJECTS: list[Any] = []


def handle(value: Any) -> bytes:
    """Return the bytes that stand for an object in this process and its forks."""
    _OBJECTS.append(value)
    return _PREFIX + str(len(_OBJECTS) - 1).encode()


def object_of(handle_bytes: bytes) -> Any:
    """Return the object that some bytes stand for. Raise `KeyError` if they stand for none."""
    if not handle_bytes.startswith(_PREFIX):
        raise KeyError(handle_bytes)
    return _OBJECTS[int(handle_bytes.removeprefix(_PREFIX))]
