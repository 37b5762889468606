"""Protocol steps: the moments of a run that a fault can be tied to, by name and not by time.

A step is a message (or another event) that a process sends or receives, counted from the beginning of the run: "worker-1 sends
its 3rd Write". A fault at a step survives what a fault at a time does not: other latencies, other knobs, changed code.
"""

import enum
from typing import Any, get_args

import msgspec

from headrace.wire.effects import Replayed, SourceRecord, SourceWatermark, Start, Wake
from headrace.wire.messages import STORE, Message

MESSAGES: tuple[str, ...] = tuple(sorted(kind.__name__ for kind in get_args(Message)))
"""What can be sent; the network may lose, double or delay it."""

EVENTS: tuple[str, ...] = tuple(
    kind.__name__ for kind in (Start, Wake, SourceRecord, SourceWatermark, Replayed)
)
"""What a process receives besides messages, from its own machine or from its source."""


class Does(enum.Enum):
    """What a process does at a step."""

    SENDS = "sends"
    RECEIVES = "receives"


class Moment(enum.Enum):
    """Whether a fault begins before the step is taken, or once it is.

    Before it sends: the message does not leave a process that crashes. Before it receives: it has not handled it. After it
    receives: it has, and what it said to that has left.
    """

    BEFORE = "before"
    AFTER = "after"


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of one process.

    Attributes:
        process: address.
        does: whether it sends or receives.
        message: name of the message's class, such as ``Write``, or of another event that it receives, such as ``Wake``.
        nth: which of those, from 1, since the run began (and not since the process did).
        computation: only those of this computation are counted; ``""``: all.
    """

    process: str
    does: Does
    message: str
    nth: int = 1
    computation: str = ""

    @property
    def verb(self) -> str:
        """What happens, without who does it and how often it has been done before: ``sends Write``."""
        return f"{self.does.value} {self.message}"

    def __str__(self) -> str:
        """Write it for people.

        >>> str(Step("worker-1", Does.SENDS, "Write", 3, "cities"))
        'worker-1 sends its 3rd Write of cities'
        """
        return f"{self.process} {self.does.value} its {self.what}"

    @property
    def what(self) -> str:
        """Which message: ``3rd Write of cities``."""
        return f"{ordinal(self.nth)} {self.message}{f' of {self.computation}' if self.computation else ''}"


def ordinal(number: int) -> str:
    """Write a place in an order.

    >>> [ordinal(number) for number in (1, 2, 3, 4, 11, 22)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd']
    """
    tail = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{tail}"


def computation_of(event: Any) -> str:
    """The computation that a message is about: a record's or an ACK's consumer, or whose rows it names; ``""``: none, or many."""
    production = getattr(event, "production", None)
    if production is not None:
        consumer: str = production.consumer
        return consumer
    found: str = getattr(event, "computation", "") or getattr(event, "consumer", "")
    return found


def role_of(address: str) -> str:
    """What kind of process has an address.

    >>> [role_of(one) for one in ("worker-1", "master-0", "authority-0.1", "letters/0", "store", "")]
    ['worker', 'master', 'authority', 'injector', 'store', 'anybody']
    """
    if "/" in address:
        return "injector"
    if address == STORE:
        return STORE
    return address.partition("-")[0] or "anybody"
