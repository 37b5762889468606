"""State calls that raise in a task, and are caught by the user's code.

What Python refuses (a dict for a tuple, a text for a time) raises before it reaches Spark. If the code catches it, Spark never
hears of it, and what was given is lost. Code may go by one error: that of ``get`` of a ``GroupState`` without state.
"""

import ast
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from headrace.api.errors import HeadraceError
from headrace_properties.user_frames import is_users_file
from headrace_sim.spark.state import state_server
from headrace_sim.spark.state.state_server import STATE_API

_SIMULATION = Path(state_server.__file__).parents[1]
"""What runs tasks: the code that calls it is no part of a task."""
_MOST = 80
_LOGS = frozenset({
    "critical", "debug", "error", "exception", "format_exc", "info", "log", "print", "print_exc", "print_exception", "warn",
    "warning", "write",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class RaisedCall:
    """A state call that raised."""

    call: str  # ``hot.appendValue({'v': 1.0})``
    error: str  # its class and message
    place: str
    is_silent: bool  # whether the code that catches it does nothing but log it


Result = TypeVar("Result")


def heard_run(run: Callable[[], Result], *, silenced: bool = False) -> tuple[Result, list[RaisedCall]]:
    """Return what a function returns that runs a job, and the state calls that raised in it.

    ``silenced``: whether such a call does nothing instead of raising.
    """
    heard = _Heard(silenced=silenced)
    with _hearing(heard):
        result = run()
    return result, heard.raised


@contextmanager
def _hearing(heard: "_Heard") -> Iterator[None]:
    originals = [
        (owner, name, method)
        for owner in STATE_API
        for name, method in vars(owner).items()
        if not name.startswith("_") and callable(method)
    ]
    for owner, name, method in originals:
        setattr(owner, name, heard.listened(name, method))
    for owner in STATE_API:
        owner.__getattr__ = heard.missing
    try:
        yield
    finally:
        for owner, name, method in originals:
            setattr(owner, name, method)
        for owner in STATE_API:
            del owner.__getattr__


class _Heard:
    """The state calls that raised in a run. ``silenced``: such a call does nothing instead of raising."""

    def __init__(self, *, silenced: bool) -> None:
        self.raised: list[RaisedCall] = []
        self._silenced = silenced

    def listened(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method of the state's, whose errors are noted."""

        @wraps(method)
        def call(state: Any, *arguments: Any, **options: Any) -> Any:
            try:
                return method(state, *arguments, **options)
            except (HeadraceError, StopIteration):
                raise
            except Exception as error:
                named = [f"{key}={value!r}" for key, value in options.items()]
                shown = ", ".join([*map(repr, arguments), *named])
                self._note(f"{_named(state, name)}({_short(shown)})", error, sys._getframe(1), probe=False)
                if self._silenced:
                    return None
                raise

        return call

    @property
    def missing(self) -> Callable[[Any, str], Any]:
        """What the state does when asked for a name that it does not have."""

        def missing(state: Any, name: str) -> Any:
            error = AttributeError(f"{type(state).__name__!r} object has no attribute {name!r}")
            if not name.startswith("_"):
                self._note(_named(state, name), error, sys._getframe(1), probe=True)
                if self._silenced and self.raised:
                    return lambda *_args, **_options: None
            raise error

        return missing

    def _note(self, call: str, error: Exception, frame: FrameType | None, *, probe: bool) -> None:
        """Note an error. One of an unknown name may be asked for by ``hasattr``: it counts only where a ``try`` is around it."""
        place, body = "", None
        while frame is not None and _SIMULATION not in Path(frame.f_code.co_filename).parents:
            file, line = frame.f_code.co_filename, frame.f_lineno
            if is_users_file(file):
                place = place or f"{file}:{line}"
                body = _catching(file, line, error)
                if body is not None:
                    break
            frame = frame.f_back
        if place and (body is not None or not probe):
            message, silent = (
                f"{type(error).__name__}: {_short(str(error))}",
                all(map(_does_nothing, body or ())),
            )
            self.raised.append(RaisedCall(call, message, place, silent))


def _named(variable: Any, call: str) -> str:
    owner = vars(variable).get("_stateName") or {"GroupState": "state"}.get(type(variable).__name__, "handle")
    return f"{owner}.{call}"


def _short(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[:_MOST]}..."


@cache
def _tree(file: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _catching(file: str, line: int, error: Exception) -> list[ast.stmt] | None:
    """Return what the innermost ``try`` or ``suppress`` around a line does with an error. None: there is none."""
    around = [
        node
        for node in ast.walk(_tree(file))
        if isinstance(node, (ast.Try, ast.With))
        and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0)
    ]
    for node in sorted(around, key=lambda node: -node.lineno):
        if isinstance(node, ast.With):
            if any("suppress" in ast.unparse(item.context_expr) for item in node.items):
                return []
            continue
        taking = (handler.body for handler in node.handlers if _takes(handler.type, error))
        if (body := next(taking, None)) is not None:
            return body
    return None


def _takes(kind: ast.expr | None, error: Exception) -> bool:
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    names = {cls.__name__ for cls in type(error).__mro__}
    return any(one is None or ast.unparse(one).rpartition(".")[2] in names for one in kinds)


def _does_nothing(statement: ast.stmt) -> bool:
    """Return whether a statement only goes on, or logs."""
    match statement:
        case ast.Pass() | ast.Continue() | ast.Break() | ast.Return(value=None | ast.Constant()):
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))):
            return name in _LOGS
        case _:
            return False
