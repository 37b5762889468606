"""What a checker says of a run: a verdict has three values.

A property whose interesting case never came up is `Unknown`, never green.
"""

from headrace.history import Event
from headrace.wire.value import Value


class Holds(Value, frozen=True):
    """The property held each time that its case came up.

    Attributes:
        reached: how often it came up; at least once.
    """

    reached: int


class Violated(Value, frozen=True):
    """The property was broken.

    Attributes:
        message: for people: what, where, when, and the section of the paper.
        witness: the events that show it, in order.
    """

    message: str
    witness: tuple[Event, ...]


class Unknown(Value, frozen=True):
    """The run does not tell.

    Attributes:
        why: what did not happen.
        cut_short: its case came up, and the run ended before it could be judged: that other runs held says nothing of this one.
    """

    why: str
    cut_short: bool = False


Verdict = Holds | Violated | Unknown
