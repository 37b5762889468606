"""Dead letters of computations: each says which record or timer it reports, and is reported itself (see `step_letter`).

Rule of this file: a letter is not judged if the History lacks anything that it is made of.
"""

from collections.abc import Callable
from contextlib import suppress

from headrace import HeadraceError
from headrace.api.dead_letters import step_letter
from headrace.api.specs import DeadLetter, Skip
from headrace.history import DeadLettered, Executed, KeysSampled, UserCodeFailed
from headrace.wire.rows import Production
from headrace_properties.checkers.checker import Handlers
from headrace_properties.checkers.topology_union import TopologyUnion

_Run = tuple[str, str, str]
"""Process, computation and cause."""


class StepLetters:
    """The dead letters that steps emit instead of user code's productions.

    Args:
        topology: of the run.

    Attributes:
        handlers: the events that it wants.
    """

    def __init__(self, topology: TopologyUnion) -> None:
        self._versions = topology.versions
        self._letter_streams = {
            name: spec.on_failure.stream
            for name, spec in topology.computations.items()
            if isinstance(spec.on_failure, DeadLetter | Skip)
        }
        self._sampled = False
        self._errors: dict[_Run, str] = {}
        self._reports: dict[_Run, DeadLettered] = {}
        self.handlers: Handlers = {
            KeysSampled: self._on_sampled,
            UserCodeFailed: self._on_failed,
            DeadLettered: self._on_dead_lettered,
        }

    def _on_sampled(self, _event: KeysSampled) -> None:
        self._sampled = True

    def _on_failed(self, event: UserCodeFailed) -> None:
        self._errors[event.process, event.computation, event.cause] = event.error

    def _on_dead_lettered(self, event: DeadLettered) -> None:
        if event.computation in self._letter_streams:
            self._reports[event.process, event.computation, event.cause] = event

    def problem(self, event: Executed, reported: Callable[[Executed], tuple[str, bytes] | None]) -> str:
        """Describe what is wrong with an execution's dead letter; ``""``: nothing, or it has none.

        Args:
            event: the execution.
            reported: returns stream and value of the record that it was run for, if known.
        """
        if event.computation not in self._letter_streams:
            return ""
        run = (event.process, event.computation, event.cause)
        error, report = self._errors.pop(run, None), self._reports.pop(run, None)
        if error is None or self._sampled:
            return ""
        stream = self._letter_streams[event.computation] if report is None else report.stream
        letters = [production for production in event.productions if production.stream == stream]
        if report is not None and len(letters) < len(event.productions):
            return f"a dead letter was reported, and {event.productions[0].stream!r} got a record"
        for letter in letters:
            right = self._is_right(letter, event, reported(event), error)
            if right and report is None:
                return "it left a dead letter that was not reported"
            if right is False and report is not None:
                return f"its dead letter, {letter.value!r:.300}, is not that of key {event.key!r} and of the error {error!r:.80}"
        return ""

    def _is_right(
        self, letter: Production, event: Executed, reported: tuple[str, bytes] | None, error: str
    ) -> bool | None:
        """Return whether this is the dead letter of an execution; ``None``: unknown."""
        if event.timer is None and reported is None:
            return None
        source, value = reported if event.timer is None and reported is not None else (None, None)
        encoded = set[bytes]()
        for key in (
            event.key,
            event.key.partition("/")[2],
        ):  # on Spark, the group of keys is in front: `user_key`
            value_due = step_letter(
                event.computation, key, event.cause, source, value, letter.timestamp, error
            )
            for pipeline in self._versions:
                with suppress(HeadraceError, LookupError):  # a version that does not have the stream
                    encoded.add(pipeline.codec(letter.stream).encode(value_due))
        return letter.value in encoded if encoded else None
