"""Which parameters of a function that starts a query are sessions. It needs no PySpark, so that every target can be asked."""

import dis
import inspect
from collections.abc import Callable
from typing import Any

_NAMES = frozenset({"session", "spark"})
_OF_A_SESSION = frozenset({"createDataFrame", "readStream", "sparkContext"})
"""What a session has and a DataFrame has not."""


def is_session(parameter: inspect.Parameter, function: Callable[..., Any]) -> bool:
    """Return whether a parameter is a session: by its name, its annotation, or what the function reads from it."""
    annotation = getattr(parameter.annotation, "__name__", str(parameter.annotation))
    if parameter.name in _NAMES or "SparkSession" in annotation:
        return True
    annotated = parameter.annotation is not parameter.empty
    return not annotated and parameter.name in _read_as_sessions(function)


def takes_sessions_alone(function: Callable[..., Any]) -> bool:
    """Return whether every parameter without a default is a session."""
    parameters = [
        each for each in inspect.signature(function).parameters.values() if each.default is each.empty
    ]
    needed = [each for each in parameters if each.kind not in {each.VAR_KEYWORD, each.VAR_POSITIONAL}]
    return all(is_session(parameter, function) for parameter in needed)


def _read_as_sessions(function: Callable[..., Any]) -> set[str]:
    """Return the variables of which the function reads an attribute that only a session has."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return set()
    variables, loaded = set[str](), ""
    for instruction in dis.get_instructions(code):
        reads = instruction.opname.startswith(("LOAD_ATTR", "LOAD_METHOD"))
        if reads and instruction.argval in _OF_A_SESSION:
            variables.add(loaded)
        names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        loaded = str(names[-1]) if instruction.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) else ""
    return variables
