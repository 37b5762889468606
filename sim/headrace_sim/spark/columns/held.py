"""A value that a context variable has in a block."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def held(variable: ContextVar[Any], value: T) -> Iterator[T]:
    """Let a context variable have a value in this block."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)
