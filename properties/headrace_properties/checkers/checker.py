"""The common interface of all checkers, and how they reach a verdict.

Rules of this package:

* A checker reads the History and the deployed topologies, and nothing else: the same checkers judge every host.
* It is incremental: it receives the events that it asks for, in order, once.
* It receives an event *before* the `WorkLedger` does: a step is judged by the state before it.
* Only the first violation is kept; later ones may be its consequences.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.history import Event, KeysSampled
from headrace_properties.verdict import Awaited, Holds, Unknown, Verdict, Violated

Handlers = Mapping[type, Callable[[Any], None]]
"""Type of event to the bound method that takes it."""


class Checker(Protocol):
    """One property.

    Attributes:
        name: short, such as ``S1``.
        title: what holds, in a line.
        section: of the MillWheel paper; ``""``: it is a promise, of the user's.
        handlers: handlers by type of event.
    """

    @property
    def name(self) -> str:
        """See above."""

    @property
    def title(self) -> str:
        """See above."""

    @property
    def section(self) -> str:
        """See above."""

    @property
    def handlers(self) -> Handlers:
        """See above."""

    @property
    def verdict(self) -> Callable[[], Verdict]:
        """Returns the verdict on the events so far: `OpenVerdict.verdict`, or one made of it."""
        ...


class EventNumber:
    """The number in the History of the event at hand.

    Attributes:
        value: from 0.
    """

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


@dataclass(frozen=True, slots=True)
class Registered:
    """Checkers that share what they look at.

    Attributes:
        checkers: they.
        handlers: of each of them and of what they share, in the order in which they receive an event.
        number: of the event that they receive, if they need it.
        watching: entered while they receive events and give their verdicts.
    """

    checkers: Sequence[Checker]
    handlers: Sequence[Handlers]
    number: EventNumber | None = None
    watching: Callable[[], AbstractContextManager[None]] = nullcontext


class OpenVerdict:
    """A verdict in the making.

    Attributes:
        unreached: what did not happen, if the property was never exercised.
        reached: how often the property was exercised.
        cut_short: why the run ended before this could be judged; ``""``: it did not.
        violation: the first, if there was one.
    """

    __slots__ = ("cut_short", "reached", "unreached", "violation")

    def __init__(self, unreached: str = "the run has not ended") -> None:
        self.unreached = unreached
        self.reached = 0
        self.cut_short = ""
        self.violation: Violated | None = None

    def violated(self, message: str, *witness: Event, awaited: Awaited | None = None) -> None:
        """Record a violation; only the first counts. ``awaited``: what is still to be done."""
        if self.violation is None:
            self.violation = Violated(message, witness, awaited)

    def verdict(self) -> Verdict:
        """Return the verdict so far."""
        if self.violation is not None:
            return self.violation
        if self.cut_short:
            return Unknown(self.cut_short, cut_short=True)
        return Holds(self.reached) if self.reached else Unknown(self.unreached)


class Sampling:
    """Tracks whether a History covers only a sample of the keys, and so what it can prove.

    Properties of single rows, records or timers are judged as usual, and hold for those in the sample. Properties of all pending
    work together can be refuted by a sample, and never confirmed.

    Args:
        found: on a property of all pending work.

    Attributes:
        handlers: handlers by type of event.
    """

    def __init__(self, open_verdict: OpenVerdict) -> None:
        self._verdict = open_verdict
        self._fraction = 1.0
        self.handlers: Handlers = {KeysSampled: self._on_sampled}

    def _on_sampled(self, event: KeysSampled) -> None:
        self._fraction = event.fraction

    def verdict(self) -> Verdict:
        """Return the verdict so far."""
        verdict = self._verdict.verdict()
        if self._fraction == 1 or not isinstance(verdict, Holds):
            return verdict
        return Unknown(
            f"the History has {self._fraction:.3g} of the keys, and work that is pending may be of the others"
        )
