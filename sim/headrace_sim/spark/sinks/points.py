"""Where faults strike: every kind of fault at every effect of every batch. Nothing is sampled."""

from collections import Counter
from collections.abc import Iterator

from headrace_sim.spark.sinks.databases import BEGIN
from headrace_sim.spark.sinks.effects import Acted, Effect, Fault, FaultKind


def fault_points(by_batch: list[list[Effect]], actions: list[Acted], *, overtaken: bool) -> Iterator[Fault]:
    """Yield every fault at every effect of every batch, batch by batch; then what strikes between effects, or in one."""
    for batch, effects in enumerate(by_batch):
        last = len(effects)
        for place, effect in enumerate(effects):
            if effect.action != BEGIN:  # which changes nothing, so that it is the same to die later
                yield Fault(FaultKind.KILL, batch, place)
            if effect.replied:
                yield Fault(FaultKind.LOSE_REPLY, batch, place)
                yield Fault(FaultKind.REFUSE, batch, place)
        yield Fault(FaultKind.KILL, batch, last)
        for place in _in_loops(effects):
            yield Fault(FaultKind.REORDER, batch, place)
        yield Fault(FaultKind.REORDER, batch, last)
        yield Fault(FaultKind.RESTART, batch, last)
        if overtaken:
            for place in range(-1, last):
                yield Fault(FaultKind.PAUSE, batch, place)
    for batch, effects in enumerate(by_batch):
        yield from (
            Fault(FaultKind.TEAR, batch, place) for place, effect in enumerate(effects) if effect.parts
        )
    for action in dict.fromkeys(actions):
        yield Fault(FaultKind.FAIL, action.batch, action.effect)


def _in_loops(effects: list[Effect]) -> Iterator[int]:
    """Yield the second effect of each line that has several, unless dying before it undoes the first."""
    lines = Counter[str]()
    for place, effect in enumerate(effects):
        lines[effect.place] += 1
        if lines[effect.place] == 2 and not effects[place - 1].pending:
            yield place
