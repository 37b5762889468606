"""A batch so large that a sink splits it: into transactions, requests or files, between which it can die."""

from collections import Counter
from collections.abc import Sequence

from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.sink_effects import Effect

BURST_ROWS = 1_200
"""Choice: the number of rows of a burst, more than the thousand by which most code splits."""


def may_split(rows: Sequence[int], by_batch: Sequence[Sequence[Effect]]) -> bool:
    """Return whether a sink has an effect for a whole batch, of which a large one may have several.

    One that has each effect for each row splits nothing, and would only take long. The arguments are those of `between_parts`.
    """
    return 1 in _usual(rows, by_batch).values()


def _usual(rows: Sequence[int], by_batch: Sequence[Sequence[Effect]]) -> Counter[str]:
    """Return how often each place has an effect in a batch of several rows."""
    usual = Counter[str]()
    for number, effects in zip(rows, by_batch, strict=True):
        if number > 1:
            usual |= Counter(effect.place for effect in effects)
    return usual


def between_parts(
    rows: Sequence[int], by_batch: Sequence[Sequence[Effect]], burst: Sequence[Effect]
) -> list[SinkFault]:
    """Return the deaths before the second and before the last part into which only a large batch is split.

    Args:
        rows: The number of rows of each usual batch.
        by_batch: The effects of each of them, undisturbed.
        burst: The effects of the large one.

    """
    usual = _usual(rows, by_batch)
    seen, begins = Counter[str](), list[int]()
    for number, effect in enumerate(burst):
        seen[effect.place] += 1
        if usual[effect.place] == 1 and seen[effect.place] > 1:
            begins.append(number)
    last = max((number for number in begins if burst[number].place == burst[begins[0]].place), default=0)
    numbers = dict.fromkeys([*begins[:1], last]) if begins else ()
    return [SinkFault(SinkFaultKind.KILL, 0, number, of_burst=True) for number in numbers]
