"""Rows rest in chunks, and come out as they went in."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headrace import MAX_TIME, MIN_TIME, Clock
from headrace.spark.hosting.chunks import Chunks
from headrace.store.mediator import StoredRow
from headrace.wire.rows import StoredTimer, Version
from tests.spark.microbatches import Store

TIMES = st.integers(MIN_TIME, MAX_TIME)
TIMERS = st.builds(
    StoredTimer, st.text(max_size=3), TIMES, st.sampled_from(Clock), TIMES, st.booleans(), st.none() | TIMES,
    st.builds(Version, st.integers(0, 2**40), st.integers(0, 2**40)), TIMES, TIMES,
)  # fmt: skip


@st.composite
def stored_rows(draw: st.DrawFn) -> StoredRow:
    row = StoredRow()
    row.state = draw(st.binary(max_size=5))
    row.hold = draw(st.just(MAX_TIME) | TIMES)
    row.timers = {timer.tag: timer for timer in draw(st.lists(TIMERS, max_size=3))}
    row.seen = draw(st.dictionaries(st.text(max_size=5), TIMES, max_size=3))
    return row


def _contents(row: StoredRow) -> tuple[object, ...]:
    return row.state, row.hold, row.timers, row.seen


@given(rows=st.dictionaries(st.text(max_size=5), stored_rows(), max_size=8), intervals=st.integers(1, 4))
def test_rows_come_out_as_they_went_in(rows: dict[str, StoredRow], intervals: int) -> None:
    store = Store()
    chunks = Chunks(store, intervals)
    chunks.write(rows)
    chunks.write_header()
    again = Chunks(store, intervals)
    for key, row in rows.items():
        found = again.row(key)
        empty = not (row.state or row.timers or row.seen) and row.hold == MAX_TIME
        assert (found is None) if empty else (found is not None and _contents(found) == _contents(row))


@given(rows=st.dictionaries(st.text(max_size=5), stored_rows(), max_size=8), low=TIMES, now=TIMES)
def test_due_are_the_keys_with_a_due_timer(rows: dict[str, StoredRow], low: int, now: int) -> None:
    chunks = Chunks(Store(), 1)
    chunks.write(rows)
    due = sorted(
        key for key, row in rows.items()
        if any(timer.due <= (low if timer.clock is Clock.WATERMARK else now) for timer in row.timers.values())
    )  # fmt: skip
    assert chunks.due(low, now) == due


def test_every_field_of_a_timer_is_kept() -> None:
    assert len(msgspec.structs.fields(StoredTimer)) == 9  # another one must be packed, too
