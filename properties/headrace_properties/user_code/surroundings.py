"""Restore and compare what user code can reach and change outside its row (MillWheel 4.1, 6.2).

Rules of this file:

* The walk starts at a computation's attributes, its class and base classes; from their methods it follows the globals that they
  name, their closures, default arguments and caches; and so on, through the user's own modules.
* A memento is a shallow copy of each mutable object. Restoring it puts the contents back into the same objects, so references to
  them stay valid.
* Objects without contents to copy (files, locks, generators) are left alone.
"""

import functools
import inspect
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import msgspec

from headrace_properties.user_frames import is_users_file, is_users_module

MOST_THINGS = 50_000
"""Maximum number of objects visited for one computation."""

_OPAQUE = frozenset({
    "_io", "_thread", "abc", "asyncio", "concurrent", "datetime", "decimal", "enum", "fractions", "io", "ipaddress", "logging",
    "pathlib", "re", "socket", "sqlite3", "subprocess", "threading", "types", "typing", "uuid", "weakref", "zoneinfo",
})  # fmt: skip
"""Modules whose objects are left alone."""

MOST_ENTRIES = 10_000
"""Maximum size of a container whose entries' contents are compared; of a larger one only the entries themselves are."""

_LEAVES = (str, bytes, int, float, complex, bool, type(None), range, CodeType, BuiltinFunctionType)


@dataclass(slots=True)
class _Thing:
    """A mutable object: its name, and how its contents are read and restored."""

    name: str
    thing: Any
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], None]
    contents: Any = None


class Surroundings:
    """A snapshot of what a computation's code can reach.

    Args:
        computation: the user's object.
    """

    def __init__(self, computation: object) -> None:
        walk = _Walk()
        walk.visit(computation, "self")
        self._things = walk.things
        for thing in self._things:
            thing.contents = thing.read(thing.thing)

    def changes(self) -> tuple[str, ...]:
        """Return the names of what has changed, in the order in which the code reaches it."""
        names = (thing.name for thing in self._things if _differ(thing.contents, thing.read(thing.thing)))
        return tuple(dict.fromkeys(names))

    @property
    def changed(self) -> bool:
        """Whether anything has changed."""
        return any(_differ(thing.contents, thing.read(thing.thing)) for thing in self._things)

    def differences(self) -> tuple[str, ...]:
        """Return the names of what no longer equals its snapshot; replacing an object by an equal one is no difference."""
        names = (thing.name for thing in self._things if not _equal(thing.contents, thing.read(thing.thing)))
        return tuple(dict.fromkeys(names))

    def restore(self) -> None:
        """Restore everything."""
        self.put([thing.contents for thing in self._things])

    def contents(self) -> list[Any]:
        """Return what everything holds now, for `put`."""
        return [thing.read(thing.thing) for thing in self._things]

    def put(self, contents: list[Any]) -> None:
        """Put back what `contents` returned."""
        for thing, held in zip(self._things, contents, strict=True):
            if _differ(held, thing.read(thing.thing)):
                thing.write(thing.thing, held)


def _differ(before: Any, after: Any) -> bool:
    """Return whether contents have changed; parts are compared by identity, since their contents have a memento of their own."""
    if type(before) is dict:
        return before.keys() != after.keys() or any(
            _parts_differ(value, after[key]) for key, value in before.items()
        )
    if type(before) is list:
        return len(before) != len(after) or any(map(_parts_differ, before, after))
    return bool(before != after)


def _parts_differ(before: Any, after: Any) -> bool:
    if before is after:
        return False
    return not isinstance(before, _LEAVES) or type(before) is not type(after) or before != after


def _equal(before: Any, after: Any) -> bool:
    """Return whether contents are equal, as far as their objects can be compared."""
    if type(before) is not type(after):
        return False
    if type(before) is list:
        return len(before) == len(after) and all(map(_equal, before, after))
    if type(before) is dict:
        return before.keys() == after.keys() and all(_equal(old, after[key]) for key, old in before.items())
    if before is after or not _compares(before):
        return True
    try:
        return bool(before == after)
    except Exception:  # noqa: BLE001  user objects may compare in any way
        return True


def _compares(thing: object) -> bool:
    return any("__eq__" in vars(cls) for cls in type(thing).__mro__[:-1])


class _Walk:
    def __init__(self) -> None:
        self.things: list[_Thing] = []
        self._known: set[int] = set()
        self._kept: list[object] = []  # so that no id is reused

    def visit(self, root: object, name: str) -> None:
        waiting: deque[tuple[object, str]] = deque([(root, name)])
        while waiting and len(self._kept) < MOST_THINGS:
            thing, called = waiting.popleft()
            if isinstance(thing, _LEAVES) or id(thing) in self._known:
                continue
            self._known.add(id(thing))
            self._kept.append(thing)
            waiting.extend(self._parts(thing, called))

    def _parts(self, thing: Any, name: str) -> Iterator[tuple[object, str]]:
        if isinstance(thing, FunctionType):
            yield from self._of_function(thing, name)
        elif isinstance(thing, MethodType):
            yield from ((thing.__func__, name), (thing.__self__, f"{name}.__self__"))
        elif isinstance(thing, type):
            yield from self._of_class(thing)
        elif thing is os.environ:
            self._note("os.environ", thing, _environment, _write_environment)
        elif isinstance(thing, ModuleType):
            pass  # visit only the globals that functions name, not entire modules
        elif isinstance(thing, staticmethod | classmethod):
            yield thing.__func__, name
        elif isinstance(thing, property):
            yield from ((each, name) for each in (thing.fget, thing.fset) if each is not None)
        elif isinstance(thing, functools.partial):
            yield from ((thing.func, name), (list(thing.args), name), (thing.keywords, name))
        elif _is_cache(thing):
            self._note(f"the cache of {getattr(thing, '__name__', name)}", thing, _cached, _forget)
            yield from [(thing.__wrapped__, name)] if hasattr(thing, "__wrapped__") else []
        else:
            yield from self._of_data(thing, name)

    def _of_data(self, thing: Any, name: str) -> Iterator[tuple[object, str]]:
        kind = type(thing)
        if isinstance(thing, dict):
            self._note(name, thing, dict, _refill)
            if len(thing) <= MOST_ENTRIES:
                yield from ((value, f"{name}[{key!r:.30}]") for key, value in list(thing.items()))
        elif isinstance(thing, list | deque | bytearray):
            self._note(name, thing, list, _write_list)
            if len(thing) <= MOST_ENTRIES:
                yield from ((value, name) for value in list(thing))
        elif isinstance(thing, set):
            self._note(name, thing, set, _refill)
        elif isinstance(thing, tuple | frozenset):
            yield from ((value, name) for value in thing)
        if kind.__module__.partition(".")[0] not in _OPAQUE | {"builtins", "collections"}:
            yield from self._of_instance(thing, name)

    def _of_instance(self, thing: Any, name: str) -> Iterator[tuple[object, str]]:
        slots = _slots_of(type(thing))
        if slots:
            self._note(name, thing, lambda instance: _read_slots(instance, slots), _write_slots)
        attributes = getattr(thing, "__dict__", None)
        if isinstance(attributes, dict):
            for key in attributes:
                self._note_attribute(f"{name}.{key}", thing.__dict__, key)
            self._note(f"attributes of {name}", attributes, dict.fromkeys, _keep_keys)
        parts = {**(attributes or {}), **_read_slots(thing, slots)}
        yield from ((value, f"{name}.{key}") for key, value in parts.items())
        if is_users_module(type(thing).__module__):
            yield type(thing), type(thing).__name__

    def _of_class(self, cls: type) -> Iterator[tuple[object, str]]:
        for base in cls.__mro__:
            if not is_users_module(base.__module__):
                continue
            self._note(f"attributes of {base.__name__}", base, _class_names, _keep_class_names)
            for key, value in list(vars(base).items()):
                if key.startswith("__") and key.endswith("__") and not isinstance(value, FunctionType):
                    continue
                named = f"{base.__name__}.{key}"
                if not isinstance(value, FunctionType | staticmethod | classmethod | property):
                    self._note(
                        named, base, functools.partial(_class_value, key), functools.partial(_set_class, key)
                    )
                yield value, named

    def _of_function(self, function: FunctionType, name: str) -> Iterator[tuple[object, str]]:
        title = function.__qualname__
        for free, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            named = f"{free}, which {title.removesuffix('.<locals>')} closes over"
            self._note(named, cell, _cell_value, _set_cell)
            yield from [(cell.cell_contents, named)] if _cell_value(cell) is not _EMPTY else []
        arguments = function.__code__.co_varnames[: function.__code__.co_argcount]
        defaults = function.__defaults__ or ()
        for argument, value in zip(reversed(arguments), reversed(defaults), strict=False):
            yield value, f"the default of {argument} in {title}"
        for argument, value in (function.__kwdefaults__ or {}).items():
            yield value, f"the default of {argument} in {title}"
        yield function.__dict__, f"attributes of {title}"
        if is_users_file(function.__code__.co_filename):
            yield from self._of_globals(function.__globals__, function.__code__)
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            yield wrapped, name

    def _of_globals(self, known: dict[str, Any], code: CodeType) -> Iterator[tuple[object, str]]:
        for name in _names_in(code):
            if name in known:
                value = known[name]
                if not isinstance(value, ModuleType | FunctionType | type):
                    self._note_attribute(name, known, name)
                if isinstance(value, ModuleType) and is_users_module(value.__name__):
                    for attribute in _names_in(code):
                        if attribute in vars(value):
                            self._note_attribute(f"{name}.{attribute}", vars(value), attribute)
                            yield vars(value)[attribute], f"{name}.{attribute}"
                elif value is os and not _OF_ENVIRONMENT.isdisjoint(_names_in(code)):
                    yield os.environ, name
                else:
                    yield value, name
            elif is_users_file(code.co_filename):
                self._note_attribute(name, known, name)  # a global that the code may create

    def _note_attribute(self, name: str, owner: dict[str, Any], key: str) -> None:
        read, write = functools.partial(_entry, key), functools.partial(_set_entry, key)
        self._note(name, owner, read, write)

    def _note(
        self, name: str, thing: Any, read: Callable[[Any], Any], write: Callable[[Any, Any], None]
    ) -> None:
        self.things.append(_Thing(name, thing, read, write))


_OF_ENVIRONMENT = frozenset({"environ", "getenv", "putenv", "unsetenv"})

_EMPTY = [object()]
"""Marks an unbound name."""


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes, including those in nested functions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _entry(key: str, owner: dict[str, Any]) -> list[Any]:
    return [owner[key]] if key in owner else _EMPTY


def _set_entry(key: str, owner: dict[str, Any], value: list[Any]) -> None:
    if value is _EMPTY:
        owner.pop(key, None)
    else:
        owner[key] = value[0]


def _class_value(key: str, owner: type) -> list[Any]:
    return [vars(owner)[key]] if key in vars(owner) else _EMPTY


def _set_class(key: str, owner: type, value: list[Any]) -> None:
    if value is _EMPTY:
        delattr(owner, key)
    else:
        setattr(owner, key, value[0])


def _class_names(owner: type) -> dict[str, None]:
    return dict.fromkeys(name for name in vars(owner) if name != "__slotnames__")  # pickle adds it


def _keep_class_names(owner: type, names: dict[str, None]) -> None:
    for name in _class_names(owner).keys() - names.keys():
        delattr(owner, name)


def _cell_value(cell: CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:
        return _EMPTY


def _set_cell(cell: CellType, value: list[Any]) -> None:
    if value is _EMPTY:
        del cell.cell_contents
    else:
        cell.cell_contents = value[0]


def _is_cache(thing: object) -> bool:
    """Return whether it is a function with ``functools.cache``. A DataFrame or a mock has every name, and is not asked."""
    return all(
        inspect.getattr_static(thing, name, None) is not None for name in ("cache_clear", "cache_info")
    )


def _cached(function: Any) -> int:
    return int(function.cache_info().misses)


def _forget(function: Any, _: int) -> None:
    function.cache_clear()


def _refill(thing: Any, contents: Any) -> None:
    thing.clear()
    thing.update(contents)


def _environment(thing: Any) -> dict[str, str]:
    """Return the environment without the time zone, which changes with the frozen clock."""
    return {name: value for name, value in thing.items() if name != "TZ"}


def _write_environment(thing: Any, contents: dict[str, str]) -> None:
    for name in _environment(thing).keys() - contents.keys():
        del thing[name]
    thing.update(contents)


def _keep_keys(thing: dict[str, Any], contents: dict[str, Any]) -> None:
    for key in thing.keys() - contents.keys():
        del thing[key]


def _write_list(thing: Any, contents: list[Any]) -> None:
    thing.clear()
    thing.extend(contents)


def _slots_of(cls: type) -> tuple[str, ...]:
    if issubclass(cls, msgspec.Struct):
        return () if cls.__struct_config__.frozen else cls.__struct_fields__
    names = itertools.chain.from_iterable(
        [slots] if isinstance(slots := vars(base).get("__slots__", ()), str) else slots
        for base in cls.__mro__
    )
    return tuple(
        name for name in names if name not in ("__dict__", "__weakref__") and not name.startswith("__")
    )


def _read_slots(thing: Any, slots: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in slots if hasattr(thing, name)}


def _write_slots(thing: Any, contents: dict[str, Any]) -> None:
    for name, value in contents.items():
        setattr(thing, name, value)
