"""A key's row has the same windows whether it is read whole or in parts, in either form."""

import pickle
from decimal import Decimal
from random import Random

import pytest

from headrace import MAX_TIME, SECOND
from headrace.dataflow import (
    DEFAULT_TRIGGER,
    LIST,
    SUM,
    Accumulation,
    AtCount,
    AtPeriod,
    CombineFn,
    Element,
    FixedWindows,
    Grouping,
    KeyState,
    Repeat,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    WindowFn,
    WindowState,
)
from headrace.dataflow.row_codec import RowCodec
from headrace.dataflow.value_codecs import ValueCodec
from headrace.dataflow.window_chunks import ChunkedRow

MOST = 8
VALUES = ValueCodec()
PERIOD = Repeat(AtPeriod(9))
LENGTHS = CombineFn(lambda: 0, lambda total, value: total + len(value), int.__add__, lambda total: {total})
"""A combiner whose accumulators are plain JSON, but not its results."""
_HOLD = 8
"""The place of holds in the table of a row's chunks."""


def codec_of(grouping: Grouping, most: int = MOST) -> RowCodec:
    return RowCodec(VALUES, grouping.due_of, most=most)


def windows_of(state: KeyState) -> list[WindowState]:
    """All windows, in their order. Some form of the row leaves out the greatest event time, of which nothing depends."""
    if state.unread is not None:
        state.read(state.unread.all())
    for window_state in state.windows:
        window_state.latest = 0
    return sorted(state.windows, key=lambda each: each.window.order)


@pytest.mark.parametrize(
    "strategy",
    [
        FixedWindows(SECOND),
        SlidingWindows(3 * SECOND, SECOND),
        Sessions(SECOND, touching_merge=False),
        Sessions(SECOND),
    ],
)
def test_a_row_written_in_chunks_has_what_one_written_whole_has(strategy: WindowFn) -> None:
    """Elements open, change and merge windows, and the watermark closes some, in the order of chance."""
    for seed in range(8):
        random = Random(seed)
        trigger, lateness_us = random.choice(
            [(DEFAULT_TRIGGER, 0), (DEFAULT_TRIGGER, 20 * SECOND), (PERIOD, 0)]
        )
        grouping = Grouping(strategy, trigger, combine=SUM, allowed_lateness_us=lateness_us)
        codec = codec_of(grouping)
        whole, parts, watermark = KeyState(), codec.decode(codec.encode(KeyState())), 0
        for now in range(120):
            if random.random() < 0.1:
                watermark += random.randrange(20) * SECOND
                found = [grouping.advance(state, now, watermark) for state in (whole, parts)]
            else:
                element = Element("k", random.randrange(9), watermark + random.randrange(-10, 120) * SECOND)
                found = [grouping.element(state, element, now, watermark) for state in (whole, parts)]
            assert found[0] == found[1]
            grouping.check_invariants(parts)
            if random.random() < 0.6:  # otherwise the next element changes what was read once
                row = codec.encode(parts)
                assert codec.encode(parts) == row
                assert len(row) == len(bytes(row))
                parts = codec.decode(row)
                assert (parts.due, parts.dropped) == (whole.due, whole.dropped)
        assert windows_of(codec.decode(codec.encode(parts))) == windows_of(whole)


def opened(many: int, combine: CombineFn = SUM) -> tuple[Grouping, KeyState]:
    grouping, state = Grouping(windows=FixedWindows(SECOND), combine=combine), KeyState()
    for number in range(many):
        grouping.element(state, Element("k", 1, number * SECOND), 0, 0)
    return grouping, state


def test_few_windows_are_the_json_that_they_always_were() -> None:
    grouping, state = opened(MOST)
    assert codec_of(grouping).encode(state) == VALUES.of(KeyState).encode(state)


def test_a_row_with_many_windows_that_was_written_whole_is_read_and_written_in_chunks() -> None:
    grouping, state = opened(5 * MOST)
    codec = codec_of(grouping)
    row = codec.encode(codec.decode(VALUES.of(KeyState).encode(state)))
    assert bytes(row)[:1] == b"\x02"
    assert len(codec.decode(row).windows) == 0
    assert windows_of(codec.decode(row)) == windows_of(state)


@pytest.mark.parametrize("value", [None, {1, 2}, (1, "a"), Decimal("0.10"), [[1, 2], [3]], {"$set": [1]}])
def test_many_windows_have_the_values_that_were_added(value: object) -> None:
    """Those of the first kind that is not plain JSON are in windows beside ones with plain values, read one by one."""
    grouping, state = opened(5 * MOST, combine=LIST)
    codec = codec_of(grouping)
    for seconds in (3, 4, 23):
        state = codec.decode(codec.encode(state))
        grouping.element(state, Element("k", value, seconds * SECOND), 0, 0)
    contents = [each.contents.accumulator for each in windows_of(codec.decode(codec.encode(state)))]
    assert contents == [[[1, value] if seconds in {3, 4, 23} else [1]] for seconds in range(5 * MOST)]


def test_panes_to_retract_keep_their_values_among_many_windows() -> None:
    grouping = Grouping(
        FixedWindows(SECOND),
        Repeat(AtCount(2)),
        Accumulation.ACCUMULATING_AND_RETRACTING,
        LENGTHS,
        timestamps=TimestampCombiner.EARLIEST,
    )
    codec, state = grouping.row_codec(VALUES, most=MOST), grouping.initial_state()
    for number in range(4 * 5 * MOST):
        panes = grouping.element(state, Element("k", "a", number % (5 * MOST) * SECOND), 0, 0)
        state = codec.decode(codec.encode(state))
        if number >= 3 * 5 * MOST:
            assert [(pane.value, pane.retraction) for pane in panes] == [({2}, True), ({4}, False)]


def test_a_number_that_json_has_not_is_refused_in_a_row_of_many_windows() -> None:
    grouping, state = opened(5 * MOST)
    codec = codec_of(grouping)
    state = codec.decode(codec.encode(state))
    grouping.element(state, Element("k", float("nan"), SECOND), 0, 0)
    with pytest.raises(ValueError, match="JSON has no NaN or infinity"):
        codec.encode(state)


def test_an_element_reads_and_writes_its_window_alone() -> None:
    grouping, state = opened(100 * MOST)
    codec = codec_of(grouping)
    row = codec.encode(state)
    state = codec.decode(row)
    grouping.element(state, Element("k", 5, 300 * SECOND), 0, 0)
    assert [each.window.start for each in state.windows] == [300 * SECOND]
    assert (
        len(set(zip(bytes(row), bytes(codec.encode(state)), strict=False))) < 256
    )  # aligned: only one line has changed
    assert repr(state).endswith("and 799 windows that have not been read)")


def test_the_watermark_reads_only_the_windows_that_it_has_reached() -> None:
    grouping, state = opened(100 * MOST)
    state = codec_of(grouping).decode(codec_of(grouping).encode(state))
    assert len(grouping.advance(state, 0, 3 * SECOND)) == 3
    assert len(state.windows) == MOST - 3
    assert state.unread is not None
    assert len(state.unread) == 99 * MOST


def test_few_windows_are_left_of_many_and_the_row_is_json_again() -> None:
    grouping, state = opened(10 * MOST)
    codec = codec_of(grouping)
    state = codec.decode(codec.encode(state))
    grouping.advance(state, 0, 78 * SECOND)
    assert bytes(codec.encode(state))[:1] == b"["
    state = codec.decode(codec.encode(state))
    grouping.advance(state, 0, MAX_TIME)
    assert codec.encode(state) == codec.encode(KeyState())


def test_it_can_be_pickled() -> None:
    grouping, state = opened(3 * MOST)
    codec = pickle.loads(pickle.dumps(RowCodec(ValueCodec(), grouping.due_of)))  # noqa: S301  as Spark ships it
    assert codec.encode(state) == RowCodec(ValueCodec(), grouping.due_of).encode(state)


def test_rows_share_the_chunks_in_which_they_do_not_differ() -> None:
    grouping, state = opened(100 * MOST)
    codec = codec_of(grouping)
    first = codec.encode(state)
    state = codec.decode(first)
    grouping.element(state, Element("k", 5, 300 * SECOND), 0, 0)
    second = codec.encode(state)
    assert isinstance(first, ChunkedRow)
    assert isinstance(second, ChunkedRow)
    assert sum(old is not new for old, new in zip(first.chunks, second.chunks, strict=True)) == 1
    assert second.columns is first.columns


def test_a_row_is_not_changed_by_what_is_done_to_a_state_read_from_it() -> None:
    """It is kept by the store, a cache and a History, while steps that may be undone work on what they read from it."""
    grouping, state = opened(10 * MOST)
    codec = codec_of(grouping)
    row = codec.encode(state)
    before = bytes(row)
    for change in ("element", "new window", "watermark", "percentile"):
        state = codec.decode(row)
        if change == "element":
            grouping.element(state, Element("k", 5, 3 * SECOND), 0, 0)
        elif change == "new window":
            grouping.element(state, Element("k", 5, 3_000 * SECOND), 0, 0)
        elif change == "watermark":
            grouping.advance(state, 0, 13 * SECOND)
        else:
            grouping.percentile(state, 50, 13 * SECOND, 0, 0)
        codec.encode(state)
        assert bytes(row) == before, change


def test_a_row_stands_for_its_bytes() -> None:
    grouping, state = opened(5 * MOST)
    row = codec_of(grouping).encode(state)
    assert isinstance(row, ChunkedRow)
    data = bytes(row)
    again, shorter = ChunkedRow.of(data), ChunkedRow(b"", row.columns, row.chunks)
    assert (row == data, data == row, row == again, hash(row), len(row)) == (
        True,
        True,
        True,
        hash(data),
        len(data),
    )
    assert (row == data[:-1], row == shorter, shorter == bytes(shorter), row == 7) == (
        False,
        False,
        True,
        False,
    )
    assert type(pickle.loads(pickle.dumps(row))) is bytes  # noqa: S301  as it leaves the process
    assert bytes(again) == data
    assert again.chunks == row.chunks


def test_a_row_whose_panes_have_all_fired_is_not_changed_by_the_next_element() -> None:
    grouping, state = Grouping(FixedWindows(SECOND), Repeat(AtCount(2)), combine=SUM), KeyState()
    for number in range(4 * MOST):
        grouping.element(state, Element("k", 1, number // 2 * SECOND), 0, 0)
    codec = codec_of(grouping)
    row = codec.encode(state)
    before, state = bytes(row), codec.decode(row)
    grouping.element(state, Element("k", 1, 3 * SECOND), 0, 0)
    after = codec.encode(state)
    assert bytes(row) == before
    assert isinstance(after, ChunkedRow)
    assert ChunkedRow.of(bytes(after)).columns == after.columns != ChunkedRow.of(before).columns


def of_sessions(many: int) -> tuple[Grouping, RowCodec, KeyState]:
    """A key with sessions of a second, ten seconds apart, as it is read from its row."""
    grouping, state = Grouping(windows=Sessions(SECOND), combine=SUM), KeyState()
    codec = codec_of(grouping)
    for number in range(many):
        grouping.element(state, Element("k", 1, number * 10 * SECOND), 0, 0)
    return grouping, codec, codec.decode(codec.encode(state))


def test_a_session_that_grows_is_read_alone_and_stays_in_its_chunk() -> None:
    grouping, codec, state = of_sessions(10 * MOST)
    before = codec.encode(state)
    for number in range(MOST + 1, 2 * MOST):  # the last of its chunk, too
        grouping.element(state, Element("k", 1, number * 10 * SECOND + SECOND // 2), 0, 0)
        assert [each.window.start for each in state.windows] == [number * 10 * SECOND]
        row = codec.encode(state)
        assert isinstance(row, ChunkedRow)
        assert isinstance(before, ChunkedRow)
        assert sum(old is not new for old, new in zip(before.chunks, row.chunks, strict=True)) == 1
        before, state = row, codec.decode(row)
    assert len(windows_of(state)) == 10 * MOST
    assert sum(each.window.end - each.window.start for each in state.windows) == (
        10 * MOST * SECOND + (MOST - 1) * SECOND // 2
    )


@pytest.mark.parametrize(
    ("time", "read", "new"),
    [
        (
            MOST * 10 * SECOND + SECOND // 2,
            MOST,
            0,
        ),  # the first that is due of its chunk: when is the next one?
        (MOST * 10 * SECOND - SECOND // 2, MOST, 0),  # it begins before all others of its chunk
        (MOST * 10 * SECOND + 5 * SECOND, 1, 1),
    ],
)
def test_a_session_that_changes_what_is_known_of_its_chunk_is_read_with_it(
    time: int, read: int, new: int
) -> None:
    grouping, codec, state = of_sessions(10 * MOST)
    grouping.element(state, Element("k", 1, time), 0, 0)
    assert len(state.windows) == read
    grouping.check_invariants(state)
    again = codec.decode(codec.encode(state))
    assert len(windows_of(again)) == 10 * MOST + new
    assert again.due == state.due


def test_a_few_windows_of_many_are_read_one_by_one() -> None:
    grouping, state = Grouping(windows=SlidingWindows(3 * SECOND, SECOND), combine=SUM), KeyState()
    codec = codec_of(grouping)
    for number in range(10 * MOST):
        grouping.element(state, Element("k", 1, number * SECOND), 0, 0)
    state = codec.decode(codec.encode(state))
    grouping.element(state, Element("k", 1, 40 * SECOND), 0, 0)
    assert sorted(each.window.start // SECOND for each in state.windows) == [38, 39, 40]
    assert all(each.contents.accumulator == [4] for each in state.windows)
    assert len(windows_of(codec.decode(codec.encode(state)))) == 10 * MOST + 2


def test_what_was_due_for_a_window_that_changes_twice_is_forgotten() -> None:
    """An earlier element lowers the hold of the first window of its chunk; the next one fires it, and lets go."""
    grouping = Grouping(
        FixedWindows(SECOND), Repeat(AtCount(3)), combine=SUM, timestamps=TimestampCombiner.EARLIEST
    )
    codec, whole = grouping.row_codec(VALUES, most=MOST), grouping.initial_state()
    for number in range(5 * MOST):
        grouping.element(whole, Element("k", 1, number * SECOND + SECOND // 2), 0, 0)
    parts = codec.decode(codec.encode(whole))
    for state in (whole, parts):
        assert not grouping.element(state, Element("k", 1, MOST * SECOND + SECOND // 10), 0, 0)
        assert len(grouping.element(state, Element("k", 1, MOST * SECOND + SECOND // 4), 0, 0)) == 1
    rows = [codec.encode(state) for state in (parts, whole)]
    holds = [row.columns[_HOLD].tolist() for row in rows if isinstance(row, ChunkedRow)]
    assert holds[0] == holds[1]
    assert windows_of(codec.decode(rows[0])) == windows_of(whole)
