"""Groupings of the Dataflow layer on a clock that is moved by hand, pane by pane against the model (Dataflow 2.2, 2.3).

In a cluster messages take time: no element arrives at the very microsecond at which a batch ends or a trigger's delay is over,
and no source takes an element back. Here both happen. A case takes a millisecond, so a run tries many; the model takes longer,
and so is asked before anything is mutated.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from headrace.dataflow import MAX, Accumulation
from headrace_properties.dataflow.cases import GroupingCase
from headrace_properties.dataflow.model import EmittedPane, Query, run_model
from headrace_properties.dataflow.transcripts import run_layer_counting
from headrace_properties.mutation.flows import MODEL
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
    """Return whether the model can tell of a maximum, and the trigger does not mind that there may be none."""
    return query.accumulation is not Accumulation.DISCARDING and "When(" not in repr(query.trigger)


def try_by_hand(cases: Sequence[ToldCase]) -> JudgedRun:
    """Run some cases; judge by panes, their order and times, and by the number of elements dropped."""
    digest, verdicts = sha256(), dict[str, Verdict]()
    for number, one in enumerate(cases):
        panes, dropped = run_layer_counting(one.case.query, one.case.steps, _MOST[number % len(_MOST)])
        digest.update(repr(panes).encode())
        if tuple(panes) != one.panes or dropped != one.dropped:
            verdicts[MODEL] = Violated("panes differ from what the model tells of the same input", ())
    return JudgedRun(verdicts, {}, Counter(), Counter(), 0, digest.hexdigest())
