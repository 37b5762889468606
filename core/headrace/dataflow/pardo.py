"""The steps of a `ParDo` (Dataflow 2.1), each from one element to any number. They are values, so a pipeline can be pickled.

Rules of this file: a step changes only what it is for; so the outputs of a retraction are retractions.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from msgspec.structs import replace

from headrace import MIN_TIME
from headrace.dataflow.dataflow_errors import DataflowError
from headrace.dataflow.elements import END_OF_TIME, EVENT_TIME, Element
from headrace.dataflow.key_text import KEYS, key_of, key_text, shown

DoFn = Callable[[Element], Iterable[tuple[Any, Any]]]
"""A user's function from an element to (key, value) pairs."""

TaggedDoFn = Callable[[Element], Iterable[tuple[str, Any, Any]]]
"""A user's function from an element to (tag, key, value) triples."""

Step = Callable[[Element], Iterable[Element]]


@dataclass(frozen=True, slots=True)
class Do:
    """Maps an element to any number of (key, value) pairs."""

    function: DoFn

    def __call__(self, element: Element) -> Iterable[Element]:
        """Return one element per pair, with the same time and window."""
        elements = []
        argument = shown(element)
        for pair in _several(element, "par_do", self.function, self.function(argument), _PAIRS):
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise _bad_output(element, "par_do", self.function, pair, "an output", _PAIRS)
            key, value = pair
            elements.append(replace(element, key=_key(element, "par_do", self.function, key), value=value))
        return elements


@dataclass(frozen=True, slots=True)
class Tagging:
    """Maps an element to any number of (tag, key, value) triples; each tag is an output of its own.

    Attributes:
        function: the function.
        tags: all tags that it may return.
    """

    function: TaggedDoFn
    tags: tuple[str, ...]

    def __call__(self, element: Element) -> Iterable[tuple[str, Element]]:
        """Return each tag with its element, which has the same time and window."""
        remedy = (
            f"Return an iterable of (tag, key, value) triples, where the tag is one of {', '.join(self.tags)}"
        )
        tagged = []
        argument = shown(element)
        for triple in _several(element, "par_do_tagged", self.function, self.function(argument), remedy):
            if not isinstance(triple, tuple | list) or len(triple) != 3 or triple[0] not in self.tags:
                raise _bad_output(element, "par_do_tagged", self.function, triple, "an output", remedy)
            tag, key, value = triple
            key = _key(element, "par_do_tagged", self.function, key)
            tagged.append((tag, replace(element, key=key, value=value)))
        return tagged


@dataclass(frozen=True, slots=True)
class Labelled:
    """Labels each value with where it comes from, for a grouping of several collections."""

    label: str

    def __call__(self, element: Element) -> Iterable[Element]:
        """Replace the value by [label, value]."""
        return (replace(element, value=[self.label, element.value]),)


@dataclass(frozen=True, slots=True)
class Typed:
    """Passes elements on; declares classes of values."""

    classes: tuple[type, ...]

    def __call__(self, element: Element) -> Iterable[Element]:
        """Return the element."""
        return (element,)


@dataclass(frozen=True, slots=True)
class Shard:
    """Spreads the elements of each key over several keys, by event time.

    Attributes:
        shards: number of keys for each key.
    """

    shards: int

    def __call__(self, element: Element) -> Iterable[Element]:
        """Put the shard in front, so that shards are in distant parts of the key space."""
        shard = crc32(str(element.time).encode()) % self.shards
        return (replace(element, key=f"{shard * 256 // self.shards:02x}/{element.key}"),)


@dataclass(frozen=True, slots=True)
class Unshard:
    """Restores the keys that `Shard` changed."""

    def __call__(self, element: Element) -> Iterable[Element]:
        """Remove the shard."""
        return (replace(element, key=element.key.split("/", 1)[1]),)


@dataclass(frozen=True, slots=True)
class Map:
    """Maps each value to one value."""

    function: Callable[..., Any]
    with_key: bool = False

    def __call__(self, element: Element) -> Iterable[Element]:
        """Replace the value."""
        return (replace(element, value=_called(self, element)),)


@dataclass(frozen=True, slots=True)
class FlatMap:
    """Maps each value to any number of values."""

    function: Callable[..., Iterable[Any]]
    with_key: bool = False

    def __call__(self, element: Element) -> Iterable[Element]:
        """Return one element per value."""
        returned = _called(self, element)
        values = _several(
            element, "flat_map", self.function, returned, "Return an iterable of values, such as a list"
        )
        return [replace(element, value=value) for value in values]


@dataclass(frozen=True, slots=True)
class Filter:
    """Keeps the elements whose value satisfies a function."""

    function: Callable[..., bool]
    with_key: bool = False

    def __call__(self, element: Element) -> Iterable[Element]:
        """Keep or drop the element."""
        return (element,) if _called(self, element) else ()


@dataclass(frozen=True, slots=True)
class KeyBy:
    """Computes a new key from each value."""

    function: Callable[..., Any]
    with_key: bool = False

    def __call__(self, element: Element) -> Iterable[Element]:
        """Replace the key."""
        key = _key(element, "key_by", self.function, _called(self, element))
        return (replace(element, key=key),)


@dataclass(frozen=True, slots=True)
class MoveInTime:
    """Computes a new event time from each value (2.2)."""

    function: Callable[[Any], int]

    def __call__(self, element: Element) -> Iterable[Element]:
        """Replace the event time."""
        time = self.function(element.value)
        if type(time) is not int or not MIN_TIME < time < END_OF_TIME:
            raise _bad_output(
                element, "with_time", self.function, time, "an event time", f"Return {EVENT_TIME}"
            )
        return (replace(element, time=time),)


def _called(step: Map | FlatMap | Filter | KeyBy, element: Element) -> Any:
    if step.with_key:
        return step.function(key_of(element.key), element.value)
    return step.function(element.value)


_PAIRS = "Return an iterable of (key, value) pairs, such as a list"


def _several(
    element: Element, call: str, function: Callable[..., Any], returned: Any, remedy: str
) -> Iterable[Any]:
    if isinstance(returned, Iterable):
        return returned
    raise _bad_output(element, call, function, returned, "its outputs", remedy)


def _key(element: Element, call: str, function: Callable[..., Any], key: Any) -> str:
    try:
        return key_text(key)
    except (TypeError, UnicodeEncodeError):
        raise _bad_output(element, call, function, key, "a key", f"Return {KEYS}") from None


def _bad_output(
    element: Element, call: str, function: Callable[..., Any], returned: Any, meaning: str, remedy: str
) -> DataflowError:
    where = f"element with key {key_of(element.key)!r:.80}, value {element.value!r:.80}"
    name = getattr(function, "__qualname__", repr(function))
    return DataflowError(where, f"{call}({name}) returned {returned!r:.80} as {meaning}", remedy)
