"""Windows and triggers as a transcript writes them: the constructors of `headrace.dataflow`, with times in seconds.

Rule of this file: an expression is parsed, never evaluated; anything but calls of known names with numbers or calls is
refused.

>>> parse_windows("FixedWindows(120)")
FixedWindows(size_us=120000000, offset_us=0, phase_spread=False)
>>> parse_trigger("Repeat(AtCount(2))")
Repeat(trigger=AtCount(count=2))
"""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace import HeadraceError
from headrace.dataflow import (
    AfterDelay,
    AllOf,
    AnyOf,
    AtCount,
    AtPeriod,
    AtWatermark,
    FixedWindows,
    GlobalWindows,
    OrFinally,
    Repeat,
    RepeatUntil,
    SequenceOf,
    Sessions,
    SlidingWindows,
    Trigger,
    When,
    WindowFn,
)


class ExpressionError(HeadraceError):
    """An expression of a transcript that cannot be read. Fields: expression, problem."""

    def __init__(self, expression: str, problem: str) -> None:
        super().__init__(expression, problem)
        self.expression, self.problem = expression, problem

    def __str__(self) -> str:
        """Say what is wrong with it."""
        return f"{self.expression!r}: {self.problem}"


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A predicate for `When`: the pane's value is at least a threshold."""

    value: float

    def __call__(self, contents: Any) -> bool:
        """Return whether it is."""
        return bool(contents >= self.value)


def microseconds(seconds: float) -> int:
    """Convert a transcript's seconds to the layer's time."""
    return round(seconds * 1_000_000)


_WINDOWS: Mapping[str, Callable[..., Any]] = {
    "GlobalWindows": GlobalWindows,
    "FixedWindows": lambda size, offset=0: FixedWindows(microseconds(size), microseconds(offset)),
    "SlidingWindows": lambda size, period: SlidingWindows(microseconds(size), microseconds(period)),
    "Sessions": lambda gap: Sessions(microseconds(gap)),
    "StrictSessions": lambda gap: Sessions(microseconds(gap), touching_merge=False),
}

_TRIGGERS: Mapping[str, Callable[..., Any]] = {
    "AtWatermark": AtWatermark,
    "AtPeriod": lambda period: AtPeriod(microseconds(period)),
    "AtCount": AtCount,
    "AfterDelay": lambda delay: AfterDelay(microseconds(delay)),
    "When": When,
    "at_least": AtLeast,
    "Repeat": Repeat,
    "RepeatUntil": RepeatUntil,
    "OrFinally": OrFinally,
    "SequenceOf": SequenceOf,
    "AnyOf": AnyOf,
    "AllOf": AllOf,
}


def parse_windows(expression: str) -> WindowFn:
    """Read a windowing strategy.

    Raises:
        ExpressionError: it is none.
    """
    found: WindowFn = _parse(expression, _WINDOWS)
    return found


def parse_trigger(expression: str) -> Trigger:
    """Read a trigger.

    Raises:
        ExpressionError: it is none.
    """
    found: Trigger = _parse(expression, _TRIGGERS)
    return found


def _parse(expression: str, names: Mapping[str, Callable[..., Any]]) -> Any:
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError as error:
        raise ExpressionError(expression, f"is no expression: {error.msg}") from error
    if not isinstance(tree.body, ast.Call):
        raise ExpressionError(expression, f"must be a call of one of {', '.join(names)}")
    return _built(expression, tree.body, names)


def _built(expression: str, node: ast.expr, names: Mapping[str, Callable[..., Any]]) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in names:
            values = [_built(expression, argument, names) for argument in arguments]
            try:
                return names[name](*values)
            except (TypeError, HeadraceError) as error:
                raise ExpressionError(expression, f"{name}: {error}") from error
        case ast.Call(func=ast.Name(id=name)) if name not in names:
            raise ExpressionError(expression, f"there is no {name}. There are: {', '.join(names)}")
        case _:
            raise ExpressionError(expression, f"{ast.unparse(node)} is neither a number nor a call")
