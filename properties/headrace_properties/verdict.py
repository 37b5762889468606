"""A checker's verdict on a run, with three possible values.

A property whose interesting case never came up is `Unknown`, never green. Encoded, its field ``verdict`` says which it is.
"""

import enum

from headrace.history import Event
from headrace.wire.value import Value


class AwaitedKind(enum.StrEnum):
    """The kinds of things that a run can wait for."""

    RECORD = "record"
    TIMER = "timer"
    HOLD = "hold"
    CHECKPOINT = "checkpoint"
    ID = "id"
    INTERVAL = "interval"
    WATERMARK = "watermark"
    INJECTION = "injection"


class Awaited(Value, frozen=True):
    """What should have happened after a run's faults had stopped, but did not.

    Attributes:
        kind: what is still there.
        computation: that has to deal with it: a record's consumer, the owner of a row, or whose watermark it is. Of a record that
            was not injected, the injector's process.
        since_us: when it became due, true time.
        key: of the row; the first one of an interval.
        name: a record's id, a timer's tag, an interval, or an offset of the source.
        consumer: of a checkpointed production.
        time_us: the event time that a watermark should have reached.
    """

    kind: AwaitedKind
    computation: str
    since_us: int
    key: str = ""
    name: str = ""
    consumer: str = ""
    time_us: int = 0


class Holds(Value, frozen=True, tag_field="verdict", tag="holds"):
    """The property held every time it was exercised.

    Attributes:
        reached: how often it came up; at least once.
    """

    reached: int


class Violated(Value, frozen=True, tag_field="verdict", tag="violated", omit_defaults=True):
    """The property was broken.

    Attributes:
        message: for people: what, where, when, and the section of the paper.
        witness: the events that show it, in order.
        awaited: what is still to be done, if liveness was violated.
    """

    message: str
    witness: tuple[Event, ...]
    awaited: Awaited | None = None


class Unknown(Value, frozen=True, tag_field="verdict", tag="unknown", omit_defaults=True):
    """The run did not exercise the property, or could not decide it.

    Attributes:
        why: what did not happen, or is missing.
        cut_short: its case came up, and the run ended before it could be judged: that other runs held says nothing of this one.
        applies: its case can come up in a program of this kind.
    """

    why: str
    cut_short: bool = False
    applies: bool = True


Verdict = Holds | Violated | Unknown
