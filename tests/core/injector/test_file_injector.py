"""The file injector of Figure 10 (MillWheel 5.2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import MAX_TIME
from headrace.injector.file_injector import FileInjectorSource
from headrace.wire.effects import SourceEvent, SourceRecord, SourceWatermark


def test_the_watermark_is_the_creation_time_of_the_oldest_unfinished_file() -> None:
    """Files come and are finished in any order; the watermark follows the oldest that is still being read."""
    source = FileInjectorSource()
    assert source.receive("b", created_us=20) == [SourceWatermark(0, 20, arrived_us=20)]
    assert source.receive("c", created_us=30) == []
    assert source.receive("d", created_us=40) == []
    assert source.finish("c") == []
    assert source.finish("b") == [SourceWatermark(1, 40, arrived_us=40)]


def test_without_an_unfinished_file_the_watermark_stays() -> None:
    source = FileInjectorSource()
    source.receive("a", created_us=10)
    assert source.finish("a") == []
    assert source.receive("b", created_us=25) == [SourceWatermark(1, 25, arrived_us=25)]


def test_a_file_that_turns_up_too_late_does_not_take_the_watermark_back() -> None:
    source = FileInjectorSource()
    source.receive("b", created_us=20)
    assert source.receive("a", created_us=10) == []
    assert source.record("a", "lines", "k", b"1", 12) == [
        SourceRecord(1, "lines", "k", b"1", 12, arrived_us=20)
    ]
    assert source.finish("a") == []
    assert source.receive("c", created_us=30) == []
    assert source.finish("b") == [SourceWatermark(2, 30, arrived_us=30)]


def test_records_and_watermarks_share_one_count_of_offsets() -> None:
    source = FileInjectorSource()
    events = [
        *source.receive("a", created_us=10),
        *source.record("a", "lines", "k", b"1", 11),
        *source.record("a", "lines", "k", b"2", 12),
        *source.finish("a"),
        *source.end(),
    ]
    assert events == [
        SourceWatermark(0, 10, arrived_us=10),
        SourceRecord(1, "lines", "k", b"1", 11, arrived_us=10),
        SourceRecord(2, "lines", "k", b"2", 12, arrived_us=10),
        SourceWatermark(3, MAX_TIME, arrived_us=10),
    ]


def test_stamps_are_the_creation_time_of_the_newest_file_and_never_go_back() -> None:
    """They become origins: who replays the same file events gives the same ones, whatever its clock says."""
    source = FileInjectorSource()
    stamps = []
    for file, created_us in (("b", 20), ("c", 35), ("a", 10), ("d", 40)):
        events = [*source.receive(file, created_us), *source.record(file, "lines", "k", b"1", 50)]
        stamps += [event.arrived_us for event in events]
    assert stamps == [20, 20, 35, 35, 40]


def test_events_out_of_a_files_life_are_bugs_of_the_host() -> None:
    source = FileInjectorSource()
    source.receive("a", created_us=10)
    with pytest.raises(AssertionError, match="a is there already"):
        source.receive("a", created_us=10)
    with pytest.raises(AssertionError, match="which is not being read"):
        source.record("b", "lines", "k", b"", 1)
    with pytest.raises(AssertionError, match="b ends, but is not being read"):
        source.finish("b")
    with pytest.raises(AssertionError, match=r"not read to their ends: \['a'\]"):
        source.end()


def watermarks_of(events: list[SourceEvent]) -> list[int]:
    return [event.low_watermark for event in events if isinstance(event, SourceWatermark)]


@given(created=st.lists(st.integers(0, 9), max_size=8), data=st.data())
def test_in_any_order_of_file_events_it_only_rises_and_never_passes_an_existing_file(
    created: list[int], data: st.DataObject
) -> None:
    source, unfinished = FileInjectorSource(), dict[str, int]()
    said: list[int] = []
    arriving = list(enumerate(created))
    while arriving or unfinished:
        if arriving and (not unfinished or data.draw(st.booleans())):
            number, created_us = arriving.pop(0)
            unfinished[f"{number}"] = created_us
            found = watermarks_of(source.receive(f"{number}", created_us))
        else:
            name = data.draw(st.sampled_from(sorted(unfinished)))
            del unfinished[name]
            found = watermarks_of(source.finish(name))
        oldest = min(unfinished.values(), default=None)
        before = said[-1] if said else None
        rises = oldest is not None and (before is None or oldest > before)
        assert found == ([oldest] if rises else [])
        said += found


def test_a_restarted_host_continues_from_its_published_watermark_and_the_unfinished_files() -> None:
    whole, parts = FileInjectorSource(), FileInjectorSource()
    steps: list[tuple[str, str, int]] = [
        ("receive", "b", 20),
        ("receive", "c", 30),
        ("finish", "b", 0),
        ("receive", "a", 10),
        ("finish", "c", 0),
        ("receive", "d", 40),
        ("finish", "a", 0),
    ]
    for verb, file, created_us in steps:
        parts = FileInjectorSource(parts.low_watermark, parts.unfinished)
        told = [
            source.receive(file, created_us) if verb == "receive" else source.finish(file)
            for source in (whole, parts)
        ]
        assert watermarks_of(told[0]) == watermarks_of(told[1])
        assert (whole.low_watermark, whole.unfinished) == (parts.low_watermark, parts.unfinished)
