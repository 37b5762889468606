"""Calls that fork often, in a small process: a fork of one with all tests in it costs several times as much."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, ParamSpec, TypeVar

from pyspark import cloudpickle

from tests.forked import SERVER

_P = ParamSpec("_P")
_R = TypeVar("_R")


def call(function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Call a function, which may be a closure, as its arguments may. What it returns or raises is a copy."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = SERVER.Process(target=_answer, args=(cloudpickle.dumps((function, args, kwargs)), sender))
    process.start()
    sender.close()
    with receiver:
        result, error = receiver.recv()
    process.join()
    process.close()
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def _answer(what: bytes, sender: Connection) -> None:
    function, args, kwargs = cloudpickle.loads(what)
    result: Any = None
    error: Exception | None = None
    try:
        result = function(*args, **kwargs)
    except Exception as raised:  # noqa: BLE001  the caller raises it
        error = raised
    sender.send((result, error))
