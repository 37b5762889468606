"""Stages and their logs, without Spark: the same outputs as the reference, however far one stage lags behind another."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import MAX_TIME, MIN_TIME, SECOND, DeadLetter, Pipeline, PipelineError
from headrace.spark.errors import SparkHostError
from headrace.spark.hosting import interval_task as _interval_task
from headrace.spark.hosting.history_export import history_of
from headrace.spark.hosting.interval_task import _IntervalTask
from headrace.spark.io_errors import CheckpointDamagedError
from headrace.spark.jobs.attach import Sources
from headrace.spark.jobs.job import Shape, check_shape, check_switches, read_shape, write_shape
from headrace.spark.jobs.log import Log
from headrace.spark.jobs.staged import _check_nobody_left, _is_same
from headrace.spark.jobs.stages import computation_plan, cut_computation, cut_injector
from headrace.wire.effects import SourceWatermark
from headrace_properties.checkers import judge
from headrace_properties.reference import run_reference
from headrace_properties.verdict import Holds, Violated
from headrace_sim import Feed, FeedBuilder
from headrace_sim.feed import FeedEntry
from tests.sim.rig import WindowCounter, city, letters, mail
from tests.spark.stages import Stages
from tests.spark.test_interval_task import Batcher, held_pipeline


@pytest.fixture(autouse=True, scope="module")
def _nothing_is_synced() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


STEPS = st.lists(st.tuples(st.sampled_from(["feed", "sorter", "counter"]), st.booleans()), max_size=30)
"""(what runs next, whether it crashes and so has to run again)."""


def run_steps(stages: Stages, feed: Feed, steps: list[tuple[str, bool]], size: int) -> None:
    entries = list(feed.entries)
    for name, crashed in steps:
        if name == "feed":
            stages.inject(entries[:size])
            entries = entries[size:]
        else:
            stages.run(name, crashed=crashed)
    stages.inject(entries)
    stages.settle()


@given(steps=STEPS, size=st.integers(1, 20), intervals=st.integers(1, 4), max_records=st.integers(1, 30))
def test_the_outputs_are_the_references_in_whatever_order_stages_run_and_crash(
    steps: list[tuple[str, bool]], size: int, intervals: int, max_records: int
) -> None:
    pipeline = mail(processes=2)
    feed = letters(pipeline, 40)
    with TemporaryDirectory() as directory:
        stages = Stages(pipeline, Path(directory), intervals=intervals, max_records=max_records)
        run_steps(stages, feed, steps, size)
        assert stages.outputs == run_reference(pipeline, feed).outputs
        assert stages.last("counter").low == MAX_TIME


def test_what_is_on_time_in_one_stage_is_on_time_in_the_next_however_far_it_lags(tmp_path: Path) -> None:
    """The sorter runs after each letter, the counter sometimes: it takes many entries at once, and never sees a late record."""
    pipeline = mail()
    stages, feed = Stages(pipeline, tmp_path), letters(pipeline)
    for number, entry in enumerate(feed.entries):
        stages.inject([entry])
        stages.run("sorter")
        if number % 17 == 16:
            stages.run("counter")
    stages.settle()
    assert not [output for output in stages.outputs if output.stream == "late"]
    assert stages.outputs == run_reference(pipeline, feed).outputs


@pytest.mark.parametrize("size", [1, 4, 10])
def test_what_a_wall_timer_holds_back_is_not_late_in_the_next_stage(tmp_path: Path, size: int) -> None:
    pipeline = held_pipeline()
    feed = letters(pipeline)
    assert run_with_a_clock(pipeline, feed, tmp_path, size).outputs == run_reference(pipeline, feed).outputs


def test_untold_holds_would_make_it_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tell_input_only(task: _IntervalTask) -> None:
        header = task._chunks.header
        header.reported = header.low
        task._post.to("/0").holds.append((task._group, header.low))

    monkeypatch.setattr(_interval_task._IntervalTask, "_tell_holds", tell_input_only)
    pipeline = held_pipeline()
    outputs = run_with_a_clock(pipeline, letters(pipeline), tmp_path, 1).outputs
    assert any(output.stream == "late" for output in outputs)


def run_with_a_clock(pipeline: Pipeline, feed: Feed, directory: Path, size: int) -> Stages:
    stages, entries = Stages(pipeline, directory), list(feed.entries)
    while entries:
        stages.inject(entries[:size])
        entries = entries[size:]
        stages.settle(tick=True)
    for _ in range(10):
        stages.now_us += SECOND
        stages.settle(tick=True)
    return stages


@pytest.mark.parametrize("size", [1, 7])
def test_the_history_of_each_stage_is_one_that_the_checkers_accept(tmp_path: Path, size: int) -> None:
    pipeline = mail()
    stages, entries = Stages(pipeline, tmp_path, history=True), list(letters(pipeline).entries)
    while entries:
        stages.inject(entries[:size])
        stages.settle()
        entries = entries[size:]
    for name in pipeline.computations:
        seen, events = stages.told(name)
        verdicts = judge(history_of(seen, events), [seen])
        assert {key: one for key, one in verdicts.items() if isinstance(one, Violated)} == {}
        assert isinstance(verdicts["S1"], Holds)


def test_late_records_stay_late_through_the_stages(tmp_path: Path) -> None:
    pipeline = mail()
    builder = FeedBuilder(pipeline)
    builder.record(at_us=1, value={"city": "riva"}, timestamp=5 * SECOND, key="anna")
    builder.watermark(at_us=2, low_watermark=5 * SECOND)
    builder.record(at_us=3, value={"city": "riva"}, timestamp=1 * SECOND, key="anna")
    stages, entries = Stages(pipeline, tmp_path), builder.build().entries
    for entry in entries:
        stages.inject([entry])
        stages.settle()
    assert sum(count for one, count in stages.outputs.items() if one.stream == "late") == 1


def test_a_record_that_its_source_repeats_counts_once_in_all_stages(tmp_path: Path) -> None:
    pipeline = mail()
    feed = letters(pipeline)
    stages = Stages(pipeline, tmp_path)
    records, end = feed.entries[:-1], feed.entries[-1:]
    for entry in records:
        stages.inject([entry, entry])
        stages.settle()
    stages.inject(end)
    stages.settle()
    assert stages.outputs == run_reference(pipeline, feed).outputs


def test_a_stage_knows_nothing_until_all_its_intervals_have_reported(tmp_path: Path) -> None:
    pipeline = mail()
    stages = Stages(pipeline, tmp_path)
    stages.inject(letters(pipeline).entries[:3])
    stages.settle()
    assert stages.last("sorter").low == MIN_TIME


def test_a_stage_is_no_further_than_the_slowest_of_its_senders(tmp_path: Path) -> None:
    pipeline = Pipeline("two senders")
    pipeline.injector("fast")
    pipeline.injector("slow")
    pipeline.add(WindowCounter(), name="counter", inputs=["fast", "slow"])
    stages = Stages(pipeline, tmp_path)
    for fast_us, slow_us in ((90, 20), (95, 30), (95, 93)):
        stages.inject(
            [
                FeedEntry(0, "fast/0", SourceWatermark(0, fast_us)),
                FeedEntry(0, "slow/0", SourceWatermark(0, slow_us)),
            ]
        )
        stages.run("counter")
        assert stages.last("counter").low == slow_us


def test_a_log_says_what_of_its_senders_went_into_it(tmp_path: Path) -> None:
    pipeline = mail()
    stages = Stages(pipeline, tmp_path)
    for entry in letters(pipeline).entries:
        stages.inject([entry])
    stages.settle()
    assert stages.last("sorter").taken == {"mail": stages.last("mail").number}
    assert stages.last("counter").taken == {"sorter": stages.last("sorter").number}


def _switchboard() -> Pipeline:
    pipeline = Pipeline("switchboard")
    pipeline.injector("mail", on_malformed=DeadLetter("unreadable"))
    pipeline.injector("calls")
    pipeline.add(Batcher(), name="batcher", inputs={"mail": city}, outputs=["sorted"])
    pipeline.add(
        WindowCounter(), name="counter", inputs={"sorted": city, "calls": city}, outputs=["counts", "late"]
    )
    return pipeline


def test_a_computation_sees_its_senders_as_injectors_of_what_it_takes() -> None:
    cut = cut_computation(_switchboard(), "counter")
    assert {name: spec.outputs for name, spec in cut.injectors.items()} == {
        "batcher": ("sorted",),
        "calls": ("calls",),
    }
    assert list(cut.computations) == ["counter"]
    assert cut.output_streams == ("counts", "late")


def test_only_an_injector_with_dead_letters_asks_its_consumers_for_keys() -> None:
    pipeline = _switchboard()
    assert list(cut_injector(pipeline, "mail").computations) == ["batcher"]
    assert not cut_injector(pipeline, "calls").computations


def test_only_what_comes_from_a_source_is_deduplicated() -> None:
    pipeline, nothing = _switchboard(), frozenset[str]()
    for sources, expected in (
        (Sources(frozenset({"calls"}), nothing, {}), {"batcher": False, "counter": True}),
        (Sources(frozenset({"mail"}), nothing, {}), {"batcher": True, "counter": False}),
    ):
        plans = {
            name: computation_plan(pipeline, name, sources, intervals=2, clock=True, history=None)
            for name in expected
        }
        assert {
            name: plan.pipeline.computations[name].exactly_once for name, plan in plans.items()
        } == expected


def test_a_stage_runs_on_when_others_come_and_go() -> None:
    before = _switchboard()
    after = before.copy()
    after.add(WindowCounter(), name="second", inputs={"sorted": city}, outputs=["more", "late"])
    assert [name for name in ("batcher", "counter", "mail", "calls") if _is_same(name, before, after)] == [
        "batcher",
        "counter",
        "mail",
        "calls",
    ]
    assert all(_is_same(name, after, before) for name in ("batcher", "counter"))


def test_a_stage_starts_again_when_its_code_its_senders_or_its_letters_takers_change() -> None:
    before = _switchboard()
    new_sender = before.copy()
    new_sender.add(Batcher(), name="other", inputs={"mail": city}, outputs=["sorted"])
    assert not _is_same("counter", before, new_sender)
    assert not _is_same("mail", before, new_sender)
    new_code = before.with_computation("counter", computation=WindowCounter())
    assert not _is_same("counter", before, new_code)
    assert _is_same("batcher", before, new_code)


def test_a_directory_keeps_its_layout_and_its_computations_and_only_one_driver_divides_its_keys() -> None:
    before = Shape("staged", "mail", 4, ["mail"], [["sorter"], ["counter"]])
    check_shape(Path("/job"), None, before)
    check_shape(Path("/job"), before, before)
    with pytest.raises(SparkHostError, match="belongs to the staged pipeline 'mail', not to the pipelined"):
        check_shape(Path("/job"), before, Shape("pipelined", "mail", 4, ["mail"], [["sorter"]]))
    with pytest.raises(SparkHostError, match="another driver has just divided into 4 key intervals"):
        check_shape(Path("/job"), before, Shape("staged", "mail", 8, ["mail"], [["sorter"]]))
    with pytest.raises(SparkHostError, match=r"had \['counter'\].*Deployment.remove"):
        _check_nobody_left(before, Shape("staged", "mail", 4, ["mail"], [["sorter"]]))


def test_a_log_that_was_never_written_is_empty(tmp_path: Path) -> None:
    log = Log(tmp_path, "a")
    log.prepare()
    assert (log.first(), log.last()) == (0, -1)


def _deployed(directory: Path, pipeline: Pipeline) -> None:
    computations = [[name] for name in pipeline.computations]
    write_shape(
        directory, Shape("staged", pipeline.name, 4, list(pipeline.injectors), computations), pipeline
    )


def test_no_version_changes_what_the_rows_of_another_mean_even_if_it_was_removed_between(
    tmp_path: Path,
) -> None:
    first = _switchboard()
    _deployed(tmp_path, first)
    _deployed(tmp_path, first.without("counter"))
    check_switches(tmp_path, first)
    changed = first.with_computation("counter", exactly_once=False)
    message = (
        r"'counter' has exactly_once=True in a version that was deployed and exactly_once=False in this one"
    )
    with pytest.raises(PipelineError, match=message):
        check_switches(tmp_path, changed)


def test_a_directory_that_was_moved_or_copied_is_refused_and_another_way_to_it_is_not(tmp_path: Path) -> None:
    home = tmp_path / "home"
    _deployed(home, _switchboard())
    shape = read_shape(home)
    assert shape is not None
    check_shape(home, shape, shape)
    (tmp_path / "link").symlink_to(home)
    check_shape(tmp_path / "link", shape, shape)
    copied = Path(shutil.copytree(home, tmp_path / "copy"))
    moved = home.rename(tmp_path / "moved")
    for place in (copied, moved):
        with pytest.raises(
            CheckpointDamagedError, match=rf"{place}: it was moved or copied here from {home}"
        ):
            check_shape(place, shape, shape)
