"""Dispatch by table: what a machine does with an input depends on where it stands, and on nothing else.

Rules of this file: what is not in a machine's table is a bug, and so is a state that its table does not announce.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

StateT = TypeVar("StateT", bound=enum.Enum)


@dataclass(frozen=True, slots=True)
class Transition(Generic[StateT]):
    """What an input does in a state, and the states that it may lead to.

    Attributes:
        handler: a method of the machine; takes the machine, its clock in microseconds, and the input.
        leads_to: the states that the machine may be in afterwards.
    """

    handler: Callable[[Any, int, Any], None]
    leads_to: tuple[StateT, ...]


def undeclared(address: str, state: enum.Enum, event: object) -> AssertionError:
    """Build the error for an input that a machine's table has nothing for; ``address``: the machine's."""
    return AssertionError(f"{address} is {state.value} and got {event}")


def ignore(_machine: object, _now: int, _given: object) -> None:
    """Do nothing; see the table for why."""
