"""Parse invariants and promises named on the command line."""

from collections.abc import Sequence

from headrace import HeadraceError, Pipeline
from headrace_properties.checkers import all_checkers
from headrace_properties.checkers.invariant_catalogue import is_about_code
from headrace_properties.promises import Promise
from headrace_properties.user_code.habits import Habit

ALL = "all"


class UnknownInvariantError(HeadraceError):
    """There is no such invariant or promise. Fields: name, known."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name, self.known = name, known

    def __str__(self) -> str:
        """List the valid names."""
        return f"--allow-unknown {self.name}: there is no such invariant or promise. Valid names: {', '.join(self.known)}"


def invariants_named(
    names: str, versions: Sequence[Pipeline], promises: Sequence[Promise] = ()
) -> tuple[str, ...]:
    """Read a comma-separated list of names; ``all`` means every one that applies to a pipeline's versions; a job has none.

    Choice: ``all`` means invariants, and the question whether state may grow; a promise that nothing exercises has to be named.

    Raises:
        UnknownInvariantError: there is none of a name.
    """
    checkers = (checker.name for checker in all_checkers(versions) if not is_about_code(checker.name))
    known = (*checkers, str(Habit.GROWTH.kind)) if versions else ()
    own = tuple(promise.name for promise in promises)
    wanted = tuple(name for name in map(str.strip, names.split(",")) if name)
    for name in wanted:
        if name not in (*known, *own, ALL):
            raise UnknownInvariantError(name, (*known, *own))
    return (*known, *(name for name in wanted if name in own)) if ALL in wanted else wanted
