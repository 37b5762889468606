"""What all checkers have in common: how they are asked, and how they come to a verdict.

Rules of this package:

* A checker reads the History and the deployed topologies, and nothing else: the same checkers judge every host.
* It is incremental: it gets the events that it asks for, in order, once.
* It gets an event *before* the `WorkLedger` takes it in: a step is judged by what was so until then.
* The first violation is kept; what comes after it may be its consequence.
"""

from collections.abc import Callable, Mapping
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
        section: of the MillWheel paper.
        finding: a violation says something of the user's code, and is not the protocol's fault.
        handlers: the events that it wants.
    """

    name: str
    title: str
    section: str
    finding: bool
    handlers: Handlers

    def verdict(self) -> Verdict:
        """What is known after the events so far."""
        ...


class Finding:
    """A verdict in the making.

    Attributes:
        reached: how often the property's case came up.
        cut_short: why the run ended before this could be judged; ``""``: it did not.
        violation: the first, if there was one.
    """

    __slots__ = ("cut_short", "reached", "violation")

    def __init__(self) -> None:
        self.reached = 0
        self.cut_short = ""
        self.violation: Violated | None = None

    def violated(self, message: str, *witness: Event, awaited: Awaited | None = None) -> None:
        """Note a violation; only the first counts. ``awaited``: what is still to be done."""
        if self.violation is None:
            self.violation = Violated(message, witness, awaited)

    def verdict(self, why_unknown: str) -> Verdict:
        """The verdict so far. ``why_unknown``: what did not happen, if the case never came up."""
        if self.violation is not None:
            return self.violation
        if self.cut_short:
            return Unknown(self.cut_short, cut_short=True)
        return Holds(self.reached) if self.reached else Unknown(why_unknown)


class Sampling:
    """Tells whether a History is one of some of the keys, and so what it can tell.

    What is said of each row, record or timer on its own is judged as ever, and holds for those in the sample. What is said of all
    pending work together can be refuted by a sample, and never confirmed.

    Attributes:
        handlers: the events that it wants.
    """

    def __init__(self) -> None:
        self._fraction = 1.0
        self.handlers: Handlers = {KeysSampled: self._on_sampled}

    def _on_sampled(self, event: KeysSampled) -> None:
        self._fraction = event.fraction

    def of_all(self, verdict: Verdict) -> Verdict:
        """What a property of all pending work comes to."""
        if self._fraction == 1 or not isinstance(verdict, Holds):
            return verdict
        return Unknown(
            f"the History has {self._fraction:.3g} of the keys, and work that is pending may be of the others"
        )
