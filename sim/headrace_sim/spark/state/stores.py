"""The state of a stateful stage in one partition: values by variable and key, and timers. A task changes a copy."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace_sim.spark.columns.values import byte_order

Key = tuple[Any, ...]
Held = tuple[tuple[Any, ...], int | None]
"""A row, and when it expires (ms of processing time), if ever."""


@dataclass(slots=True)
class Store:
    """State of one partition at one version."""

    values: dict[str, dict[Key, Held]] = field(default_factory=dict)  # of each value state, what each key has
    # of each list state, the elements that each key has
    lists: dict[str, dict[Key, tuple[Held, ...]]] = field(default_factory=dict)
    # of each map state, what each key has for each of the user's keys
    maps: dict[str, dict[Key, dict[Key, Held]]] = field(default_factory=dict)
    timers: dict[tuple[int, Key], None] = field(default_factory=dict)  # expiry (ms) and key, in no order
    clocked: bool = False  # whether a timer was ever registered, or a variable has a TTL

    def register(self, expiry_ms: int, key: Key) -> None:
        """Register a timer."""
        self.timers.setdefault((expiry_ms, key))
        self.clocked = True

    def copy(self) -> "Store":
        """Return an independent copy. Its contents are never changed in place."""
        return Store(
            {name: dict(held) for name, held in self.values.items()}, {name: dict(held) for name, held in self.lists.items()},
            {name: dict(held) for name, held in self.maps.items()}, dict(self.timers), self.clocked,
        )  # fmt: skip

    def forget(self, name: str) -> None:
        """Drop a variable with all its contents."""
        for kind in (self.values, self.lists, self.maps):
            kind.pop(name, None)

    def clean_up(self, now_ms: int) -> None:
        """Drop expired rows."""
        for values in self.values.values():
            _keep(values, lambda held: held if lives(held, now_ms) else None)
        for lists in self.lists.values():
            _keep(lists, lambda held: tuple(cell for cell in held if lives(cell, now_ms)))
        for maps in self.maps.values():
            _keep(maps, lambda held: {key: cell for key, cell in held.items() if lives(cell, now_ms)})

    def due(self, until_ms: int) -> list[tuple[int, Key]]:
        """Return the timers that expire up to ``until_ms``, by expiry, then as the state store orders keys."""
        return in_order(timer for timer in self.timers if timer[0] <= until_ms)

    def timers_of(self, key: Key) -> list[int]:
        """Return a key's timers as the state store orders them, which is not by time."""
        own = (expiry for expiry, owner in self.timers if owner == key)
        return sorted(own, key=lambda expiry: byte_order((expiry,)))

    def contents(self) -> Iterator[tuple[str, Key, Any]]:
        """Yield each variable and key with its row, its list of rows, or its rows by the user's key. Expiry is left out."""
        for name, values in self.values.items():
            yield from ((name, key, held[0]) for key, held in values.items())
        for name, lists in self.lists.items():
            yield from ((name, key, [row for row, _ in held]) for key, held in lists.items())
        for name, maps in self.maps.items():
            yield from (
                (name, key, {user: row for user, (row, _) in held.items()}) for key, held in maps.items()
            )


def in_order(timers: Iterable[tuple[int, Key]]) -> list[tuple[int, Key]]:
    """Return timers by expiry, then as the state store orders keys."""
    return sorted(timers, key=lambda timer: (timer[0], byte_order(timer[1])))


def lives(held: Held, now_ms: int) -> bool:
    """Return whether a row has not expired."""
    return held[1] is None or now_ms < held[1]


def _keep(table: dict[Key, Any], kept: Callable[[Any], Any]) -> None:
    for key in list(table):
        put_or_drop(table, key, kept(table[key]))


def put_or_drop(table: dict[Key, Any], key: Key, cells: Any) -> None:
    """Put what a key has into a table, or drop the key if that is nothing."""
    if cells:
        table[key] = cells
    else:
        table.pop(key, None)
