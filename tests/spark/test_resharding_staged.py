"""Another division of the keys of stages, without Spark: each divides its own, and its log stays as it is."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace import MAX_TIME, SECOND, Pipeline
from headrace.spark.hosting.layout import Splits
from headrace.spark.jobs.log import NOTHING, Log, Piece, entry_of
from headrace.wire.effects import SourceWatermark
from headrace_properties.reference import run_reference
from headrace_sim import FeedBuilder
from headrace_sim.feed import FeedEntry
from tests.sim.rig import WindowCounter, letters, mail
from tests.spark import test_percentiles as outliers
from tests.spark.stages import Stages
from tests.spark.test_interval_task import held_pipeline
from tests.spark.test_resharding import DIVISIONS


@pytest.fixture
def _nothing_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


@pytest.mark.usefixtures("_nothing_is_synced")
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.integers(1, 4),
    divisions=st.dictionaries(st.integers(2, 8), DIVISIONS, min_size=1, max_size=3),
    every=st.fixed_dictionaries(dict.fromkeys(("sorter", "counter"), st.integers(1, 4))),
    crashing=st.sampled_from(["sorter", "counter", ""]),
    max_records=st.integers(1, 30),
)
def test_the_outputs_are_the_references_whatever_the_intervals_of_stages(
    before: int,
    divisions: dict[int, tuple[int, Splits]],
    every: dict[str, int],
    crashing: str,
    max_records: int,
) -> None:
    """Each stage runs every so many rounds; one crashes each time, and runs again. Nobody waits for what is in the logs."""
    pipeline = mail(processes=2)
    feed = letters(pipeline)
    entries = list(feed.entries)
    with TemporaryDirectory() as directory:
        running = Stages(pipeline, Path(directory), intervals=before, max_records=max_records)
        for number in range(1, 10):
            if number in divisions:
                running.reshard(*divisions[number])
            running.inject(entries[:7])
            entries = entries[7:]
            for name in [name for name in every if number % every[name] == 0]:
                for crashed in (True, False) if name == crashing else (False,):
                    running.run(name, crashed=crashed)
        running.inject(entries)
        running.settle()
        assert running.outputs == run_reference(pipeline, feed).outputs
        assert running.last("counter").low == MAX_TIME
        for stage in running._stages.values():
            groups = {group for group, store in stage.stores.items() if store.head is not None}
            assert groups == {
                group for name in stage.plan.pipeline.computations for group in stage.plan.groups[name]
            }


@pytest.mark.usefixtures("_nothing_is_synced")
def test_what_is_held_back_by_stages_is_still_held(tmp_path: Path) -> None:
    """Two divisions, each at once after the one before, while letters wait for two seconds of wall time."""
    pipeline = held_pipeline()
    feed = letters(pipeline)
    running, entries = Stages(pipeline, tmp_path, intervals=2), list(feed.entries)
    for number, at in enumerate(range(0, len(entries), 4)):
        if number == 12:
            running.reshard(3)
            running.reshard(2, {"batcher": (0, 1)})
        running.inject(entries[at : at + 4])
        running.settle(tick=True)
    for _ in range(10):
        running.now_us += SECOND
        running.settle(tick=True)
    assert running.outputs == run_reference(pipeline, feed).outputs


@pytest.mark.usefixtures("_nothing_is_synced")
@pytest.mark.parametrize("relayed", [False, True])
def test_a_percentile_of_stages_is_followed_on(tmp_path: Path, *, relayed: bool) -> None:
    of = outliers.pipeline(60, relayed=relayed)
    running, entries = Stages(of, tmp_path), outliers.feed(of).entries
    for second in (1, 3, 5, 8):
        running.inject([entry for entry in entries if entry.at_us // SECOND == second])
        running.settle()
        if second == 1:
            running.reshard(2)
            running.settle()
            followed = running.last("holder").followed
            assert followed is not None
            assert followed.pending["holder"][1] == ((SECOND, 3), (3 * SECOND, 5))
    assert running.outputs == outliers.EAGER


@pytest.mark.usefixtures("_nothing_is_synced")
def test_intervals_that_have_nothing_more_to_do_hold_no_stage_back(tmp_path: Path) -> None:
    """The sources have ended, and one key holds its stage back. All other intervals report once, when they take their rows."""
    of = outliers.pipeline(100)
    builder = FeedBuilder(of)
    builder.record(at_us=1, value="hold", timestamp=SECOND, key="a")
    builder.record(at_us=2, value="release", timestamp=3 * SECOND, key="a")
    hold, release, *end = builder.build().entries
    running = Stages(of, tmp_path, intervals=3)
    for entries in ([hold], end):
        running.inject(entries)
        running.settle()
    assert running.last("holder").low == SECOND
    running.reshard(2)
    running.inject([release])
    running.settle()
    assert running.last("holder").low == running.last("closing").low == MAX_TIME


@pytest.mark.usefixtures("_nothing_is_synced")
def test_new_intervals_know_what_a_log_said_that_has_dropped_it_since(tmp_path: Path) -> None:
    pipeline = Pipeline("two senders")
    pipeline.injector("fast")
    pipeline.injector("slow")
    pipeline.add(WindowCounter(), name="counter", inputs=["fast", "slow"])
    running = Stages(pipeline, tmp_path)
    for slow_us in (20, *[30] * 20, 93):
        if slow_us == 93:
            Log(tmp_path, "fast").drop(10)
            running.reshard(2)
        running.inject(
            [
                FeedEntry(0, f"{name}/0", SourceWatermark(0, at))
                for name, at in (("fast", 95), ("slow", slow_us))
            ]
        )
        running.settle()
    assert running.last("counter").low == 93


@pytest.mark.usefixtures("_nothing_is_synced")
def test_another_division_waits_until_the_intervals_before_have_their_rows(tmp_path: Path) -> None:
    """Nothing comes between the two."""
    running = Stages(mail(), tmp_path, intervals=3)
    running.inject(letters(mail()).entries[:30])
    running.settle()
    number = running.last("sorter").number
    running.reshard(2)
    running.reshard(4)
    assert running.last("sorter").number == number + 1
    assert sorted(running._stages["sorter"].stores) == ["sorter/0", "sorter/1", "sorter/2"]
    assert [group for group, store in running._stages["sorter"].stores.items() if store.head is None] == [
        "sorter/2"
    ]


def test_new_intervals_begin_with_the_low_watermark_of_their_stage() -> None:
    """Though one of the old ones had the same name, and was further."""
    old, units = ["a/0", "a/1"], ["a/0", "a/1", "a/2"]
    before = entry_of(NOTHING, 0, "q", 0, [Piece(lows={"a/0": 9, "a/1": 5})], old)
    assert before.division is msgspec.UNSET
    first = entry_of(before, 1, "q", 0, [Piece(lows={"a/1": 7, "a/2": 8})], units, division=1)
    assert (first.lows, first.low) == ({"a/0": 5, "a/1": 7, "a/2": 8}, 5)
    second = entry_of(first, 2, "q", 0, [Piece(lows={"a/0": 6})], units, division=1)
    assert (second.lows["a/1"], second.low) == (7, 6)
