"""Rows of the Dataflow layer in chunks of a few windows, and what must hold of every row, whatever it has been through.

Random groupings have few windows in a key, and would never write a chunk of the usual size.
"""

from collections.abc import Container, Iterator
from itertools import pairwise

from headrace import Clock, Pipeline
from headrace.dataflow.enriching import Enrichment
from headrace.dataflow.row_codec import RowCodec
from headrace.dataflow.transforms import GroupByKeyAndWindow, tag_of
from headrace.dataflow.window_chunks import CHUNKED, ChunkedRow
from headrace.history import Applied, History

FEW = 2
"""Windows in a chunk."""


def in_small_chunks(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with few windows in each chunk. Codecs are made again as a host makes them that pickles them."""
    for name, spec in pipeline.computations.items():
        if isinstance(spec.state_codec, RowCodec):
            make, given = spec.state_codec.__reduce__()
            pipeline = pipeline.with_computation(name, state_codec=make(*given, most=FEW))
    return pipeline


def badly_kept(history: History, pipeline: Pipeline) -> str:
    """Say which row is not what it must be at the end: its times those of its windows, each window once, its table right."""
    if problem := _remembered(history, pipeline):
        return problem
    groupings = {
        name: spec
        for name, spec in pipeline.computations.items()
        if isinstance(spec.computation, GroupByKeyAndWindow)
    }
    for name, key, data, timers in _moments(history, groupings):
        computation, codec = groupings[name].computation, groupings[name].state_codec
        assert isinstance(computation, GroupByKeyAndWindow)
        grouping, state = computation.grouping, codec.decode(data)
        try:
            if state.unread is not None:
                state.unread.check_invariants(grouping.due_of)
                state = codec.decode(data)
                state.read(state.unread.all())
            grouping.check_invariants(state)
        except AssertionError as error:
            return f"the row of {key!r} at {name!r} contradicts itself: {error}"
        told = {tag_of(alarm): alarm.time + (alarm.clock is Clock.WALL) for alarm in grouping.alarms(state)}
        lags = {tag: time + computation.lag if tag == "at" else time for tag, time in told.items()}
        if timers != lags:
            return f"{key!r} at {name!r} waits for {timers}, and its row for {lags}"
        if data[0] == CHUNKED and (problem := _misplaced(ChunkedRow.of(data))):
            return f"the row of {key!r} at {name!r} has {problem}"
    return ""


def _remembered(history: History, pipeline: Pipeline) -> str:
    """Say which side input has versions that no element will meet, once its source has ended."""
    forgetful = {
        name: spec for name, spec in pipeline.computations.items()
        if isinstance(spec.computation, Enrichment) and spec.computation.forgets
    }  # fmt: skip
    for (name, key), data in _rows(history, forgetful).items():
        versions = forgetful[name].state_codec.decode(data)["versions"]
        if any(len(kept) > 1 for kept in versions.values()):
            return f"the side input of {key!r} at {name!r} still has {versions}"
    enriching = {
        name: spec for name, spec in pipeline.computations.items() if isinstance(spec.computation, Enrichment)
    }
    for (name, key), data in _rows(history, enriching).items():
        versions = enriching[name].state_codec.decode(data)["versions"]
        if any(count == 0 for kept in versions.values() for *_, count in kept):
            return f"the side input of {key!r} at {name!r} keeps what was taken back: {versions}"
    return ""


def _rows(history: History, names: Container[str]) -> dict[tuple[str, str], bytes]:
    """The last state of each key of some computations."""
    return {
        (event.computation, event.delta.key): bytes(event.delta.state)
        for event in history
        if isinstance(event, Applied) and event.computation in names and event.delta.state
    }


_EVERY = 5
"""Choice: every so many rows are looked at, and the last one of each key."""


def _moments(history: History, names: Container[str]) -> Iterator[tuple[str, str, bytes, dict[str, int]]]:
    """Yield rows of some computations: name, key, state, and when which timer is due."""
    timers: dict[tuple[str, str], dict[str, int]] = {}
    written = [event for event in history if isinstance(event, Applied) and event.computation in names]
    last = {(event.computation, event.delta.key): number for number, event in enumerate(written)}
    for number, event in enumerate(written):
        delta, here = event.delta, (event.computation, event.delta.key)
        waits = timers.setdefault(here, {})
        for tag in (*(timer.tag for timer in delta.fired), *delta.cancelled):
            waits.pop(tag, None)
        waits.update({timer.tag: timer.timestamp for timer in delta.set_timers})
        if delta.state and (number % _EVERY == 0 or number == last[here]):
            yield *here, bytes(delta.state), {tag: at for tag, at in waits.items() if tag != "leave"}


def _misplaced(row: ChunkedRow) -> str:
    ends, starts, _, _, counts = row.columns[:5]
    if [*counts] != [len(chunk.lines) for chunk in row.chunks]:
        return "chunks with other windows than its table says"
    out_of_order = any(before > after for before, after in pairwise(zip(ends, starts, strict=True)))
    return "chunks out of order" if out_of_order else ""
