"""What a History of some of the keys can tell, and what it can not.

Rule of this file: what is said of each row, record or timer on its own is judged as ever, and holds for those in the sample.
What is said of all pending work together can be refuted by a sample, and never confirmed.
"""

from headrace.history import KeysSampled
from headrace_properties.checkers.finding import Handlers
from headrace_properties.verdict import Holds, Unknown, Verdict


class Sampling:
    """Tells whether a History is one of some of the keys.

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
