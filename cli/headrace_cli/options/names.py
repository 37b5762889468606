"""Invariants, promises and parts of the protocol that are named on the command line."""

from collections.abc import Sequence

from headrace import Pipeline
from headrace.api.errors import did_you_mean
from headrace_cli.options.option_groups import names_of
from headrace_cli.terminal.usage_errors import WrongOptionError
from headrace_properties.checkers import all_checkers
from headrace_properties.checkers.invariant_catalogue import is_about_code
from headrace_properties.promises import Promise
from headrace_properties.proof.mutants import MUTANTS
from headrace_properties.user_code.habits import Habit

ALL = "all"

_PREFIX = "without "
PARTS = tuple(name.removeprefix(_PREFIX) for name in MUTANTS if name.startswith(_PREFIX))
"""What ``--without`` can leave out: mutants by what they lack."""


def invariants_named(
    names: str, versions: Sequence[Pipeline], promises: Sequence[Promise] = ()
) -> tuple[str, ...]:
    """Read a comma-separated list of names; ``all`` means every one that applies to a pipeline's versions; a job has none.

    Choice: ``all`` means invariants, and the question whether state may grow; a promise that nothing exercises has to be named.

    Raises:
        WrongOptionError: there is none of a name.
    """
    checkers = (checker.name for checker in all_checkers(versions) if not is_about_code(checker.name))
    known = (*checkers, str(Habit.GROWTH.kind)) if versions else ()
    own = tuple(promise.name for promise in promises)
    wanted = tuple(names_of(names))
    for name in wanted:
        if name not in (*known, *own, ALL):
            known_names = f"{did_you_mean(name, (*known, *own))}Valid names: {', '.join((*known, *own))}"
            raise WrongOptionError(
                f"--allow-unknown {name}", "there is no such invariant or promise", known_names
            )
    return (*known, *(name for name in wanted if name in own)) if ALL in wanted else wanted
