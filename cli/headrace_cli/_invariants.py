"""Invariants that are named on the command line."""

from collections.abc import Sequence

from headrace import HeadraceError, Pipeline
from headrace_properties.checkers import all_checkers

ALL = "all"


class UnknownInvariantError(HeadraceError):
    """An invariant that there is not. Fields: name, known."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name, self.known = name, known

    def __str__(self) -> str:
        """Say which there are."""
        return f"--allow-unknown {self.name}: there is no such invariant. There are: {', '.join(self.known)}"


def invariants_named(names: str, versions: Sequence[Pipeline]) -> tuple[str, ...]:
    """Read a list of names, separated by commas; ``all``: every one that applies to a pipeline's versions.

    Raises:
        UnknownInvariantError: there is none of a name.
    """
    known = tuple(checker.name for checker in all_checkers(versions) if not checker.finding)
    wanted = tuple(name for name in map(str.strip, names.split(",")) if name)
    for name in wanted:
        if name not in (*known, ALL):
            raise UnknownInvariantError(name, known)
    return known if ALL in wanted else wanted
