"""Protocol steps: the moments of a run that a fault can be tied to by name instead of by time.

A step is a message (or another event) that a process sends or receives, counted from the start of the run: "worker-1 sends its
3rd Write". A step still means the same when latencies, options or the code change; a time does not.
"""

import enum
from typing import Any, get_args

import msgspec

from headrace import format_time
from headrace.wire.effects import Replayed, SourceRecord, SourceWatermark, Start, Wake
from headrace.wire.messages import STORE, Message

MESSAGES: tuple[str, ...] = tuple(sorted(kind.__name__ for kind in get_args(Message)))
"""The messages: the network may lose, duplicate or delay them."""

EVENTS: tuple[str, ...] = tuple(
    kind.__name__ for kind in (Start, Wake, SourceRecord, SourceWatermark, Replayed)
)
"""The events that a process receives from its own machine or its source."""


class Does(enum.Enum):
    """What a process does at a step."""

    SENDS = "sends"
    """It sends the message."""
    RECEIVES = "receives"
    """It handles the message."""

    __hash__ = object.__hash__  # looked up with each step; an enumeration's own hash is slower


class Moment(enum.Enum):
    """Whether a fault begins before a process takes the step, or after.

    A process that crashes before it sends a message never sends it; before it receives one, never handles it. One that crashes
    after it receives a message has handled it, and its replies have left.
    """

    BEFORE = "before"
    """Before the step."""
    AFTER = "after"
    """After the step."""


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of one process.

    Attributes:
        process: address.
        does: whether it sends or receives.
        message: name of the message's class, such as ``Write``, or of another event that it receives, such as ``Wake``.
        nth: which of them, counted from 1 since the start of the run (not of the process).
        computation: count only those of this computation; ``""``: all.
        after_us: count from this time on, true time in microseconds: what a process does in the recovery from an earlier fault.
    """

    process: str
    does: Does
    message: str
    nth: int = 1
    computation: str = ""
    after_us: int = 0

    @property
    def verb(self) -> str:
        """The kind of step, without process and count: ``sends Write``."""
        return f"{self.does.value} {self.message}"

    def __str__(self) -> str:
        """Write the step for people.

        >>> str(Step("worker-1", Does.SENDS, "Write", 3, "cities"))
        'worker-1 sends its 3rd Write of cities'
        """
        return f"{self.process} {self.does.value} its {self.what}"

    @property
    def what(self) -> str:
        """The message: ``3rd Write of cities``."""
        of = f" of {self.computation}" if self.computation else ""
        return f"{ordinal(self.nth)} {self.message}{of}{f' after {format_time(self.after_us)}' if self.after_us else ''}"


def ordinal(number: int) -> str:
    """Write an ordinal number.

    >>> [ordinal(number) for number in (1, 2, 3, 4, 11, 22)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd']
    """
    tail = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{tail}"


def computation_of(event: Any) -> str:
    """Return the computation of a message: its consumer's, or that of the rows it names; ``""``: none, or several."""
    production = getattr(event, "production", None)
    if production is not None:
        consumer: str = production.consumer
        return consumer
    computation: str = getattr(event, "computation", "") or getattr(event, "consumer", "")
    return computation


def role_of(address: str) -> str:
    """Return the kind of the process at an address.

    >>> [role_of(address) for address in ("worker-1", "master-0", "authority-0.1", "letters/0", "store", "")]
    ['worker', 'master', 'authority', 'injector', 'store', 'anybody']
    """
    if "/" in address:
        return "injector"
    if address == STORE:
        return STORE
    return address.partition("-")[0] or "anybody"
