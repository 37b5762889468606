"""Where faults strike: every kind of fault at every effect of every batch. Nothing is sampled."""

from collections import Counter
from collections.abc import Iterable, Iterator

from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.sink_effects import Acted, Effect, Entry, StateCall
from headrace_sim.spark.sinks.sqlite_effects import BEGIN


def fault_points(
    by_batch: list[list[Effect]], entries: list[Entry], *, overtaken: bool, tasks: bool
) -> Iterator[SinkFault]:
    """Yield every fault at every effect of every batch, batch by batch; then what strikes between effects, or in one.

    Args:
        by_batch: The effects of the undisturbed run.
        entries: All that it has noted.
        overtaken: Whether a driver that was replaced may go on.
        tasks: Whether a task can die alone.

    """
    for batch, effects in enumerate(by_batch):
        last = len(effects)
        for place, effect in enumerate(effects):
            if effect.action != BEGIN:  # which changes nothing, so that it is the same to die later
                yield SinkFault(SinkFaultKind.KILL, batch, place)
            if effect.replied:
                yield SinkFault(SinkFaultKind.LOSE_REPLY, batch, place)
                yield SinkFault(SinkFaultKind.REFUSE, batch, place)
        yield SinkFault(SinkFaultKind.KILL, batch, last)
        for place in _in_loops(effects):
            yield SinkFault(SinkFaultKind.REORDER, batch, place)
        yield SinkFault(SinkFaultKind.REORDER, batch, last)
        yield SinkFault(SinkFaultKind.RESTART, batch, last)
        if overtaken:
            for place in range(-1, last):
                yield SinkFault(SinkFaultKind.PAUSE, batch, place)
    for batch, effects in enumerate(by_batch):
        yield from (
            SinkFault(SinkFaultKind.TEAR, batch, place)
            for place, effect in enumerate(effects)
            if effect.parts
        )
        yield from (
            SinkFault(SinkFaultKind.TASK, batch, done)
            for done, effect in enumerate(effects, 1)
            if tasks and effect.partition is not None
        )
        calls = [entry for entry in entries if isinstance(entry, StateCall) and entry.batch == batch]
        last_of_each = {call: place for place, call in enumerate(calls)}  # by then the task has most to lose
        yield from (SinkFault(SinkFaultKind.STATE, batch, place) for place in last_of_each.values())
    for action in dict.fromkeys(entry for entry in entries if isinstance(entry, Acted)):
        yield SinkFault(SinkFaultKind.FAIL, action.batch, action.effect)


def thinned(faults: Iterable[SinkFault], by_batch: list[list[Effect]]) -> Iterator[SinkFault]:
    """Yield the faults of a source that repeats its rows in their order, one of each kind in a transaction.

    To die later in a transaction undoes the same statements, and to hang later holds the same lock.
    """
    for fault in faults:
        within = fault.kind in {SinkFaultKind.KILL, SinkFaultKind.PAUSE} and fault.effect > 0
        before = by_batch[fault.batch][fault.effect - 1] if within else None
        is_later = before is not None and before.pending and before.action != BEGIN
        if fault.kind is not SinkFaultKind.REORDER and not is_later:
            yield fault


def of_own_source(
    faults: Iterable[SinkFault], by_batch: list[list[Effect]], begins: int, *, has_function: bool
) -> Iterator[SinkFault]:
    """Yield the faults of a query whose source is its own, which gives the rows of a batch in their order.

    Args:
        faults: All.
        by_batch: The effects of the undisturbed run.
        begins: The first batch that it ran.
        has_function: Whether a function of the user's is called for each batch. Else a driver that does not die in a task dies
            behind the last batch: nothing stops Spark before.

    """
    for fault in faults:
        effects = by_batch[fault.batch]
        in_task = 0 <= fault.effect < len(effects) and effects[fault.effect].partition is not None
        is_last = fault == SinkFault(SinkFaultKind.KILL, len(by_batch) - 1, len(effects))
        strikes = (
            has_function or in_task or is_last or fault.kind in {SinkFaultKind.TASK, SinkFaultKind.STATE}
        )
        if fault.batch >= begins and fault.kind is not SinkFaultKind.REORDER and strikes:
            yield fault


def _in_loops(effects: list[Effect]) -> Iterator[int]:
    """Yield the second effect of a line that has several, and the first of a later task, unless dying undoes the one before."""
    lines = Counter[str]()
    for place, effect in enumerate(effects):
        lines[effect.place] += 1
        later = place > 0 and effect.partition not in {None, effects[place - 1].partition}
        if (lines[effect.place] == 2 or later) and not effects[place - 1].pending:
            yield place
