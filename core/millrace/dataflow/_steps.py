"""What a `ParDo` is made of (Dataflow 2.1): steps, each from an element to elements. Values, so that a pipeline can be pickled.

Rules of this file: all but what a step is there to change stays as it was; so what is made of a retraction is one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from millrace import MIN_TIME
from millrace.dataflow._errors import DataflowError
from millrace.dataflow._panes import Element
from millrace.dataflow._windows import END_OF_TIME, EVENT_TIME

DoFn = Callable[[Element], Iterable[tuple[str, Any]]]
"""What a user's function makes of an element: (key, value) pairs."""

Step = Callable[[Element], Iterable[Element]]


@dataclass(frozen=True, slots=True)
class Do:
    """Any number of (key, value) pairs."""

    function: DoFn

    def __call__(self, element: Element) -> Iterable[Element]:
        """Take them as elements at the same place."""
        return [replace(element, key=key, value=value) for key, value in self.function(element)]


@dataclass(frozen=True, slots=True)
class Map:
    """One value for each."""

    function: Callable[[Any], Any]

    def __call__(self, element: Element) -> Iterable[Element]:
        """Change the value."""
        return (replace(element, value=self.function(element.value)),)


@dataclass(frozen=True, slots=True)
class FlatMap:
    """Any number of values."""

    function: Callable[[Any], Iterable[Any]]

    def __call__(self, element: Element) -> Iterable[Element]:
        """Make an element of each."""
        return [replace(element, value=value) for value in self.function(element.value)]


@dataclass(frozen=True, slots=True)
class Filter:
    """Some, and others not."""

    function: Callable[[Any], bool]

    def __call__(self, element: Element) -> Iterable[Element]:
        """Keep it, or not."""
        return (element,) if self.function(element.value) else ()


@dataclass(frozen=True, slots=True)
class KeyBy:
    """Another key."""

    function: Callable[[Any], str]

    def __call__(self, element: Element) -> Iterable[Element]:
        """Change the key."""
        return (replace(element, key=self.function(element.value)),)


@dataclass(frozen=True, slots=True)
class MoveInTime:
    """Another event time (2.2)."""

    function: Callable[[Any], int]

    def __call__(self, element: Element) -> Iterable[Element]:
        """Change the event time."""
        time = self.function(element.value)
        if type(time) is not int or not MIN_TIME < time < END_OF_TIME:
            problem = f"with_time({_name(self.function)}) gave {time!r:.80}, which no element can have as its event time"
            raise DataflowError(_place(element), problem, f"Return {EVENT_TIME}")
        return (replace(element, time=time),)


def _place(element: Element) -> str:
    return f"element with key {element.key!r:.80}, value {element.value!r:.80}"


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))
