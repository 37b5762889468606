"""The owner of a key (MillWheel 6.2, 7.1): the assignment table, indexed for lookups.

Rules of this file: a `Routing` is a function of one `Table` value and never changes; the intervals of a computation cover
all keys, so the last interval that begins at or before a key contains it; a computation that is not in the table has no owner
yet.
"""

from bisect import bisect_right

from headrace.api.specs import OUTSIDE
from headrace.wire.messages import Assignment, Table

OUTSIDE_ADDRESS = "outside"
"""The address of the outside world, which receives the streams without consumers."""


class Routing:
    """The owners of keys according to one table, read-only and shared by all processes that have adopted it.

    Attributes:
        table: the table it was built from.
    """

    __slots__ = ("_assignments", "_by_owner", "_owners", "table")

    def __init__(self, table: Table) -> None:
        self.table = table
        self._owners: dict[str, tuple[list[str], list[str]]] = {OUTSIDE: ([""], [OUTSIDE_ADDRESS])}
        self._assignments: dict[str, list[Assignment]] = {}
        self._by_owner: dict[str, list[Assignment]] = {}
        for assignment in table.assignments:
            self._assignments.setdefault(assignment.computation, []).append(assignment)
            self._by_owner.setdefault(assignment.owner, []).append(assignment)
        for computation, assignments in self._assignments.items():
            _check_cover(assignments)
            lows = [assignment.interval.low for assignment in assignments]
            self._owners[computation] = (lows, [assignment.owner for assignment in assignments])

    def owner(self, computation: str, key: str) -> str | None:
        """Return the address to send a record of this consumer and key to; ``None``: nobody owns the key yet.

        Called for every send.
        """
        cover = self._owners.get(computation)
        if cover is None:
            return None
        lows, owners = cover
        return owners[0] if len(owners) == 1 else owners[bisect_right(lows, key) - 1]

    def sequencer(self, computation: str, key: str) -> int:
        """Return the sequencer under which the key is owned; 0: nobody owns it yet."""
        assignments = self._assignments.get(computation)
        if assignments is None:
            return 0
        return assignments[bisect_right(self._owners[computation][0], key) - 1].sequencer

    def assigned_to(self, address: str) -> tuple[Assignment, ...]:
        """Return all assignments to a process, in any incarnation, sorted as in the table."""
        return tuple(self._by_owner.get(address, ()))


NOWHERE = Routing(Table())
"""The routing before the first table: only the outside world is reachable."""


def routing_of(table: Table) -> Routing:
    """Return the routing of a table; callers with the same table object share one.

    Choice: cached by identity, since hashing or comparing a whole table would cost as much as the cache saves.
    """
    known = _RECENT.get(id(table))
    if known is None:  # An entry keeps its table alive, so its id cannot be reused for another table.
        while len(_RECENT) >= _REMEMBERED:
            del _RECENT[next(iter(_RECENT))]
        known = _RECENT[id(table)] = Routing(table)
    return known


_REMEMBERED = 16
_RECENT: dict[int, Routing] = {}


def _check_cover(assignments: list[Assignment]) -> None:
    """Assert that a computation's intervals are sorted and cover every key once (7.1)."""
    end: str | None = ""
    for assignment in assignments:
        assert assignment.interval.low == end, (
            f"keys from {end!r} on are missing or covered twice before {assignment}"
        )
        end = assignment.interval.high
    assert end is None, f"keys from {end!r} on are missing in {assignments[-1].computation!r}"
