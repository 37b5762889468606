"""What is found in a target, and what it claims: one class for pipelines, Spark jobs, sinks and code by itself.

Rules of this file:

* A failure that changes what comes out, a broken promise, something lost or doubled, and code that raises, hangs or escapes are
  **violated**: exit code 1.
* What only the author can mean is **undeclared**: batch boundaries, order of arrival, state that lasts. It is a question, told
  with the line of code that answers it: exit code 3, or 1 with ``--strict``. Never hidden, never before what is violated.
* What is worth knowing and needs no answer is a **note**.
* What explains another finding stands above it, and the same cause seen by two checks is one finding.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from headrace.history import Event
from headrace_properties.user_frames import Place
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated


class FindingClass(enum.Enum):
    """What a finding claims."""

    VIOLATED = "violated"
    UNDECLARED = "undeclared"
    NOTE = "note"


class Family(enum.Enum):
    """What can be found, by who says that it is wrong."""

    INVARIANT = "invariant"
    """Of the protocol: a checker of ours."""
    PROMISE = "promise"
    """A checker of the user's."""
    CODE = "code"
    """A habit of user code, seen in the code by itself."""
    OUTCOME = "outcome"
    """What the schedules of a Spark query make differ."""
    SINK = "sink"
    """What the faults of a sink's trials leave."""
    QUERY = "query"
    """What Spark's documentation says of a query's settings."""
    ERROR = "error"
    """The run stopped."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of finding, identified by its family and name.

    Attributes:
        family: who says that it is wrong.
        name: short, and unique in its family: ``S6``, ``keeps-state``, ``faults``, a promise's name.
        finding_class: what a finding of this kind claims.
        rank: its place by explanatory power, within its family: lower ones explain higher ones.
    """

    family: Family
    name: str
    finding_class: FindingClass = field(default=FindingClass.VIOLATED, compare=False)
    rank: int = field(default=0, compare=False)

    @property
    def title(self) -> str:
        """What is broken."""
        match self.family:
            case Family.PROMISE:
                return f"the promise {self.name}"
            case Family.OUTCOME:
                return f"the same outcome always ({self.name})"
            case Family.SINK:
                return f"each row exactly once ({self.name})"
            case Family.QUERY:
                return f"the query's settings ({self.name})"
            case _:
                return self.name

    def __str__(self) -> str:
        """Return its name."""
        return self.name


@dataclass(frozen=True, slots=True)
class Finding:
    """Something found in a target.

    Attributes:
        kind: what is wrong, and what that claims.
        message: what is wrong, in a sentence or two, without its place.
        place: the line of user code to look at; ``None``: unknown.
        remedy: what to do; of an undeclared one, with the line of code that answers it.
        story: how it shows, in lines: the input that is left, the fault, the outcomes.
        trial: what shows it, which its target can run again; ``None``: nothing can.
        trials: the number of trials in which it showed.
        witness: the events that show it, in order, if its target records a History.
        subject: the part of the target that it is about, such as a computation; ``""``: the whole.
    """

    kind: Kind
    message: str
    place: Place | None = None
    remedy: str = ""
    story: tuple[str, ...] = ()
    trial: Any = None
    trials: int = 1
    witness: tuple[Event, ...] = ()
    subject: str = ""

    @property
    def finding_class(self) -> FindingClass:
        """What it claims."""
        return self.kind.finding_class

    @property
    def verdict(self) -> Verdict:
        """It as a verdict: a question is unknown, and a note contradicts nothing."""
        match self.finding_class:
            case FindingClass.VIOLATED:
                return Violated(str(self), self.witness)
            case FindingClass.UNDECLARED:
                return Unknown(str(self))
            case FindingClass.NOTE:
                return Holds(self.trials)

    @property
    def sentences(self) -> tuple[str, ...]:
        """It for people: what is wrong and where, how it shows, and what to do."""
        where = f"{self.place}: " if self.place else ""
        remedy = (f"{self.remedy.rstrip('.')}.",) if self.remedy else ()
        return f"{where}{self.message.rstrip('.')}.", *self.story, *remedy

    def told(self, target: str) -> str:
        """Tell it in paragraphs. ``target``: its name."""
        story = "\n".join(f"  {sentence}" for sentence in self.sentences)
        return f"{target} {_VERBS[self.finding_class]} {self.kind.title}\n\n{story}"

    def __str__(self) -> str:
        """Name the place, the problem and the remedy."""
        where = f"{self.place}: " if self.place else ""
        remedy = f" {_sentence(self.remedy)}" if self.remedy else ""
        return f"{where}{_sentence(self.message)}{remedy}"


def _sentence(text: str) -> str:
    return text if text.endswith(("?", ".")) else f"{text}."


_VERBS = {
    FindingClass.VIOLATED: "breaks",
    FindingClass.UNDECLARED: "leaves open",
    FindingClass.NOTE: "shows",
}
_CLASSES = list(FindingClass)


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in the order of a report: violated ones first, causes before what they explain, each once."""

    def precedence(finding: Finding) -> tuple[int, int]:
        return _CLASSES.index(finding.finding_class), finding.kind.rank

    once: dict[tuple[Kind, str, Place | str], Finding] = {}
    for finding in sorted(findings, key=precedence):  # the gravest of a kind stays
        once.setdefault((finding.kind, finding.subject, finding.place or finding.message), finding)
    return tuple(once.values())
