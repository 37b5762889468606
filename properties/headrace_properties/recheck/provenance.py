"""Trace an output to the input records that led to it (MillWheel 4.1): through each step's cause and its row's earlier state."""

from collections.abc import Callable, Iterable, Sequence

from headrace.history import Applied, Event, Executed, Injected, Output
from headrace.wire.rows import Production
from headrace_properties.closure import closure
from headrace_properties.reference import Emitted


class OutputLineage:
    """The lineage of a run's outputs.

    Args:
        history: of the run.
        alike: gives one form to outputs that count as equal.

    Attributes:
        outputs: output to the ids of the records that went outside as such.
        has_late_input: a record of the input was behind its source's watermark.
    """

    def __init__(self, history: Iterable[Event], alike: Callable[[Emitted], Emitted]) -> None:
        self.outputs: dict[Emitted, list[str]] = {}
        self.has_late_input = False
        self._inputs: dict[str, Production] = {}
        self._parents: dict[object, tuple[object, ...]] = {}
        self._rows: dict[tuple[str, str], object] = {}
        self._runs: dict[tuple[int, int], list[Executed]] = {}
        for event in history:
            if isinstance(event, Injected):
                for production in event.productions[:1]:
                    self.has_late_input |= production.timestamp < event.source_watermark
                    self._inputs.setdefault(production.record_id, production)
            elif isinstance(event, Executed):
                version = (event.version.sequencer, event.version.number)
                self._runs.setdefault(version, []).append(event)
                row = self._rows.get((event.computation, event.key))
                for production in event.productions:
                    self._parents.setdefault(production.record_id, (event.cause, row))
            elif isinstance(event, Applied):
                self._apply(event)
            elif isinstance(event, Output):
                production = event.production
                emitted = Emitted(production.stream, production.key, production.value, production.timestamp)
                self.outputs.setdefault(alike(emitted), []).append(production.record_id)

    def _apply(self, event: Applied) -> None:
        delta, name = event.delta, (event.computation, event.delta.key)
        row, before = (event.sequencer, delta.number), self._rows.get(name)
        causes: list[object] = [record_id for record_id, _ in delta.seen]
        causes += [run.cause for run in self._runs.pop(row, ())]
        for production in delta.productions:
            self._parents[production.record_id] = (*causes, before)
        self._parents[row] = (*causes, before)
        if delta.state == b"" and not delta.set_timers:  # earlier events can no longer matter
            self._rows.pop(name, None)
        elif before is not None or delta.state is not None or delta.set_timers:
            self._rows[name] = row

    def behind(self, record_ids: Sequence[str]) -> list[Production]:
        """Return the records of the input that led to some records, in their order."""
        led = closure(list[object](record_ids), lambda record: self._parents.get(record, ()))
        return [record for record_id, record in self._inputs.items() if record_id in led]
