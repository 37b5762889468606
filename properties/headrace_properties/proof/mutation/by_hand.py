"""Groupings of the Dataflow layer on a clock that is moved by hand, pane by pane against the model (Dataflow 2.2, 2.3).

In a cluster messages take time: no element arrives at the very microsecond at which a batch ends or a trigger's delay is over,
and no source takes an element back. Here both happen. A case takes a millisecond, so a run tries many; the model takes longer,
and so is asked before anything is mutated.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from headrace.dataflow import MAX, Accumulation, AtWatermark, Streaming, TimestampCombiner, Timing, Trigger
from headrace_properties.proof.dataflow.drawn_groupings import GroupingCase
from headrace_properties.proof.dataflow.evidence import everywhere
from headrace_properties.proof.dataflow.model import EmittedPane, Query, run_model
from headrace_properties.proof.dataflow.transcripts import run_layer_counting
from headrace_properties.proof.mutation.flows import MODEL
from headrace_properties.search.judging import JudgedRun
from headrace_properties.verdict import Verdict, Violated

AT_ONCE = 40
"""Cases in a run."""
_MOST = (2, 4, 1, 6, 3)
"""Windows in a chunk of a row, in turn."""


@dataclass(frozen=True, slots=True)
class ToldCase:
    """A case, with the panes that the model tells of it, and how many elements it tells to be dropped."""

    case: GroupingCase
    panes: tuple[EmittedPane, ...]
    dropped: int


def tell(cases: Iterable[GroupingCase]) -> Iterator[ToldCase]:
    """Ask the model; of every other case that allows it with a combiner that cannot be reversed, so that values are kept."""
    for number, case in enumerate(cases):
        query = replace(case.query, combine=MAX) if number % 2 and _may_keep(case.query) else case.query
        found = run_model(query, case.steps)
        yield ToldCase(replace(case, query=query), tuple(found.panes), len(found.dropped))


def _may_keep(query: Query) -> bool:
    """Return whether the model can tell of a maximum, and the trigger does not mind that there may be none.

    It cannot tell of a value that is taken back from a window that was collected.
    """
    keeps = query.accumulation is not Accumulation.DISCARDING and query.allowed_lateness_us is None
    return keeps and "When(" not in repr(query.trigger)


_PERCENTILE = 60.0


def _may_report(query: Query) -> bool:
    """Return whether a percentile watermark makes the same panes as the low watermark: nothing but its trigger looks at it."""
    return (
        query.allowed_lateness_us is None
        and isinstance(query.engine, Streaming)
        and query.timestamps is TimestampCombiner.END_OF_WINDOW
    )


def _by_percentile(trigger: Trigger) -> Trigger:
    """Return a trigger that looks at a percentile watermark in the place of the low one."""
    return AtWatermark(percentile=_PERCENTILE) if isinstance(trigger, AtWatermark) else trigger


def _untimed(panes: Iterable[EmittedPane], case: GroupingCase) -> list[EmittedPane]:
    """Leave out what is told at the end of time, and timing and event time, which are the low watermark's."""
    last = len(case.steps) - 1
    return _by_key(replace(pane, timing=Timing.EARLY, time=0) for pane in panes if pane.step < last)


def _by_key(panes: Iterable[EmittedPane]) -> list[EmittedPane]:
    """Sort by key; what is emitted of one key at an instant is in order, and of several in any."""
    return sorted(panes, key=lambda pane: pane.key)


def try_by_hand(cases: Sequence[ToldCase]) -> JudgedRun:
    """Run some cases; judge by panes, their order and times, and by the number of elements dropped."""
    digest, verdicts = sha256(), dict[str, Verdict]()
    for number, one in enumerate(cases):
        most = _MOST[number % len(_MOST)]
        panes, dropped = run_layer_counting(one.case.query, one.case.steps, most)
        digest.update(repr(panes).encode())
        if _by_key(panes) != _by_key(one.panes) or dropped != one.dropped:
            verdicts[MODEL] = Violated("panes differ from what the model tells of the same input", ())
        elif _may_report(one.case.query):
            query = replace(one.case.query, trigger=everywhere(one.case.query.trigger, _by_percentile))
            reported, _ = run_layer_counting(query, one.case.steps, most, _PERCENTILE)
            digest.update(repr(reported).encode())
            if _untimed(reported, one.case) != _untimed(one.panes, one.case):
                verdicts[MODEL] = Violated("panes of a percentile differ from those of the low watermark", ())
    return JudgedRun(verdicts, {}, Counter(), Counter(), 0, digest.hexdigest())
