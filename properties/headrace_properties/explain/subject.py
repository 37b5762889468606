"""Which events of a run a story is about: what a reader needs to understand a witness.

Three layers. The causal past of the witness with the owners and faults of its keys; the writes that made the states which its
steps read, and what led to those in turn; and, of a small input, every record and every step.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from headrace import history as h
from headrace.api.ropes import Encoded
from headrace_properties.checkers.invariant_catalogue import is_invariant
from headrace_properties.explain.causality import Link, LinkKind, causal_past
from headrace_properties.explain.tenures import outages_of, tenures_of

FEW_RECORDS = 24
"""Of an input of at most this many records, every step belongs to the story."""

_MOST_STATES = 8
"""How many writes that made the states of a story are followed back."""

_OF_AN_INPUT = (h.Injected, h.Executed, h.Applied, h.WriteRefused, h.Output, h.UserCodeFailed, h.DeadLettered)


def subject_of(
    history: Sequence[h.Event], witness: Iterable[int], links: Sequence[Link], until: int | None = None
) -> set[int]:
    """Return the numbers of the events that a reader needs to understand a witness.

    They are its causal past, the earlier owners of the same keys, the faults at those processes, the ACKs that relied on it, what
    led to the states of the rows, and all steps of a small input. ``until``: the last event of these; default: of the witness.
    """
    shown = set(witness)
    past = _past(history, shown, links)
    past |= _states_before(history, past, links)
    last = max(shown, default=0) if until is None else until
    return past | (_steps(history, last, links) if is_small(history) else set())


def end_of(history: Sequence[h.Event], name: str, witness: Iterable[int]) -> int:
    """Return the last event of the story of a violation.

    That is the last one of its witness; or the run's, for a promise whose witness is only the first step that went wrong: a small
    input and its faults then go on after it.
    """
    last = max(witness, default=len(history) - 1)
    if is_invariant(name) or not is_small(history):
        return last
    begun = [outage.begin for outage in outages_of(history)]
    begun += [number for number, event in enumerate(history) if isinstance(event, h.Injected)]
    return len(history) - 1 if max(begun) > last else last


def is_small(history: Iterable[h.Event]) -> bool:
    """Return whether every step of a run belongs to its stories."""
    return 0 < len(records_of(history)) <= FEW_RECORDS


def records_of(history: Iterable[h.Event]) -> set[str]:
    """Return the ids of the records that were injected."""
    return {
        production.record_id
        for event in history if isinstance(event, h.Injected)
        for production in event.productions
    }  # fmt: skip


def key_of(event: h.Event) -> tuple[str, str] | None:
    """Return (computation, key) of an event's subject."""
    match event:
        case h.Applied():
            return event.computation, event.delta.key
        case h.Executed() | h.Delivered() | h.DuplicateDropped():
            return event.computation, event.key
        case h.WriteRefused(keys=(key, *_)):
            return event.computation, key
        case h.CheckpointsDeleted(checkpoints=((key, _, _), *_)):
            return event.computation, key
        case _:
            return None


@dataclass(frozen=True, slots=True)
class RowWrite:
    """A write, and what it did to the state of its row.

    Attributes:
        previous: number of the event of the write before it, which the row's state came from; ``None``: there was none.
        before: the state before, encoded; ``b""``: the initial one.
        after: the state after.
        earlier: how many writes the row had before.
    """

    previous: int | None
    before: Encoded
    after: Encoded
    earlier: int


def row_writes(history: Iterable[h.Event]) -> dict[int, RowWrite]:
    """Return what each write of a History did to the state of its row, by the number of its event."""
    writes: dict[int, RowWrite] = {}
    last: dict[tuple[str, str], int] = {}
    for number, event in enumerate(history):
        if isinstance(event, h.Applied):
            row = event.computation, event.delta.key
            previous = last.get(row)
            before = b"" if previous is None else writes[previous].after
            after = before if event.delta.state is None else event.delta.state
            earlier = 0 if previous is None else writes[previous].earlier + 1
            writes[number] = RowWrite(previous, before, after, earlier)
            last[row] = number
    return writes


def _is_dull(event: h.Event, write: RowWrite, producing: Collection[tuple[int, int, str]]) -> bool:
    """Return whether a write only notes what it has seen. ``made``: the writes whose steps produced something."""
    assert isinstance(event, h.Applied)
    delta = event.delta
    timers = delta.set_timers or delta.cancelled or delta.fired
    produced = delta.productions or (event.sequencer, delta.number, delta.key) in producing
    return write.before == write.after and not timers and not produced and delta.hold is None


def _repeats(history: Sequence[h.Event], steps: set[int], links: Sequence[Link]) -> set[int]:
    """Return what was sent again and led to a step, with the ACKs of the same records."""
    again = {number for number in causal_past(links, steps) if isinstance(history[number], h.Resent)}
    ids = {event.record_id for number in again if isinstance(event := history[number], h.Resent)}
    acks = {
        number
        for number, event in enumerate(history)
        if isinstance(event, h.AckSent) and ids & set(event.record_ids)
    }
    return again | acks


def moves_of(history: Sequence[h.Event]) -> set[int]:
    """Return the mints that gave keys to another owner."""
    first: dict[str, int] = {}
    tenures = tenures_of(history)
    for tenure in tenures:
        if tenure.replaced is not None:
            first[tenure.computation] = min(first.get(tenure.computation, tenure.replaced), tenure.replaced)
    return {
        tenure.minted for tenure in tenures if tenure.minted >= first.get(tenure.computation, len(history))
    }


def _past(history: Sequence[h.Event], shown: set[int], links: Sequence[Link]) -> set[int]:
    """Return the causal past of a witness, and what relied on it or struck it."""
    last = max(shown, default=0)
    past = causal_past(links, shown)
    steps = {number for number in past if isinstance(history[number], h.Applied | h.WriteRefused)}
    past |= {
        link.effect for link in links if link.cause in steps and isinstance(history[link.effect], h.AckSent)
    }
    keys = {key_of(history[number]) for number in shown} - {None}
    causes = [link.cause for link in links if link.effect in shown and link.kind is LinkKind.WRITE]
    past |= {
        number
        for number in range(min([*shown, *causes], default=0), last)
        if isinstance(history[number], h.Applied) and key_of(history[number]) in keys
    }
    owners = set[str]()
    for tenure in tenures_of(history):
        if any(key and tenure.covers(*key) for key in keys):
            owners.add(tenure.owner)
            steps_of = (tenure.minted, tenure.scan_begun, tenure.scan_ended, tenure.forgotten)
            past |= {step for step in steps_of if step is not None and step <= last}
    processes = owners or {history[number].process for number in past}
    for outage in outages_of(history):
        if outage.process in processes - {"store", ""}:
            past |= {number for number in (outage.begin, outage.end) if number is not None and number <= last}
    return past


def _states_before(history: Sequence[h.Event], past: set[int], links: Sequence[Link]) -> set[int]:
    """Return the latest writes that made the states of the rows of a story, and what led to them."""
    writes = row_writes(history)
    producing = {
        (event.version.sequencer, event.version.number, event.key)
        for event in history if isinstance(event, h.Executed) and event.productions
    }  # fmt: skip

    def previous(number: int) -> int | None:
        """Return the last write of the row that did more than to note what it has seen."""
        before = writes[number].previous
        while before is not None and _is_dull(history[before], writes[before], producing):
            before = writes[before].previous
        return before

    origins: set[int] = set()
    waiting = {number for number in past if number in writes}
    for _ in range(_MOST_STATES):
        known = past | origins
        latest = max(
            (prior for prior in map(previous, waiting) if prior is not None and prior not in known),
            default=None,
        )
        if latest is None:
            break
        led = causal_past(links, [latest])
        origins |= led
        waiting |= {number for number in led if number in writes}
    return origins


def _steps(history: Sequence[h.Event], last: int, links: Sequence[Link]) -> set[int]:
    """Return every record that came in until an event, every step, and what disturbed them."""
    numbers = {number for number in range(last + 1) if isinstance(history[number], _OF_AN_INPUT)}
    numbers |= _repeats(history, numbers, links)
    numbers |= moves_of(history)
    numbers |= {number for outage in outages_of(history) for number in (outage.begin, outage.end) if number}
    return {number for number in numbers if number <= last}
