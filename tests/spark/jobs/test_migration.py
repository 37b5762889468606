"""Another number of key intervals, other levels, other injectors for a job at rest: nothing is lost or doubled."""

import json
import os
import signal
from collections import Counter as Bag
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from headrace import SECOND, Computation, Context, HeadraceError, OptionsError, Pipeline, Record, Timer
from headrace.api.progress import ComputationProgress
from headrace.spark import (
    Deployment,
    Input,
    JobState,
    QueryFailedError,
    deploy,
)  # fmt: skip
from headrace.spark.hosting.chunks import Chunks, decode_header
from headrace.spark.hosting.layout import JobPlan, Splits, interval_of
from headrace.spark.hosting.placement import partition_of, placed_groups
from headrace.spark.jobs import migration as _migration
from headrace.spark.jobs import query as _query
from headrace.spark.jobs.deploy import _check_splits
from headrace.spark.jobs.deployment_settings import read_shape
from headrace.spark.jobs.driven_clock import DrivenClock
from headrace.spark.jobs.migration import is_at_rest
from headrace.spark.runtime.hadoop import files_in, job_directory
from headrace.spark.sources.job_clock import JobClock
from headrace_properties.reference import run_reference
from headrace_scenarios import zeitgeist
from headrace_scenarios.chaos.object_store import ObjectStore
from headrace_sim import FeedBuilder
from tests.sim.rig import WindowCounter, city, letters, mail
from tests.spark.hosting.test_interval_task import Batcher, _counting, _entry, held_pipeline
from tests.spark.hosting.test_waiting_room import ahead
from tests.spark.jobs import test_percentiles as outliers
from tests.spark.microbatches import Query, half, query, rest

DIVISIONS = st.integers(1, 5).flatmap(
    lambda number: st.tuples(
        st.just(number),
        st.dictionaries(
            st.sampled_from(["sorter", "counter"]),
            st.tuples(st.integers(0, number - 1))
            | st.tuples(st.integers(0, number - 1), st.integers(0, number)),
        ),
    )
)
"""Numbers of intervals, and splits."""


@settings(max_examples=25)
@given(
    before=st.integers(1, 5),
    after=DIVISIONS,
    again=DIVISIONS,
    fused=st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_the_outputs_are_the_references_whatever_the_intervals_and_operators(
    *, before: int, after: tuple[int, Splits], again: tuple[int, Splits], fused: list[bool]
) -> None:
    """Half of the input with one number of intervals, a quarter with another one and splits, and the rest with a third."""
    pipeline = mail(processes=2)
    feed = letters(pipeline)
    running = query(pipeline, intervals=before, fused=fused[0])
    left = half(running, feed)
    running.migrate(*after, fused=fused[1])
    rest(running, left[: len(left) // 2])
    running.migrate(*again, fused=fused[2])
    rest(running, left[len(left) // 2 :])
    assert running.outputs == run_reference(pipeline, feed).outputs
    assert running.headers().keys() == {
        group for name in pipeline.computations for group in running.plan.groups[name]
    }


def test_windows_anomalies_and_ids_survive() -> None:
    pipeline, feed = zeitgeist.pipeline, zeitgeist.feed(7, replace(zeitgeist.EVENING, late_share=0.0))
    running = query(pipeline, intervals=2)
    left = half(running, feed, 50)
    running.migrate(5)
    rest(running, left, 50)
    assert running.outputs == run_reference(pipeline, feed).outputs


@pytest.mark.parametrize("fused", [False, True])
def test_what_is_held_back_is_still_held(*, fused: bool) -> None:
    """Letters wait for two seconds of wall time in one computation, and must not be late in the next."""
    pipeline = held_pipeline()
    feed = letters(pipeline)
    running, entries = query(pipeline, intervals=2, fused=fused), list(feed.entries)
    for number, at in enumerate(range(0, len(entries), 4)):
        if number == 5:
            running.batch()
            running.migrate(3)
        running.batch(entries[at : at + 4], tick=True)
    for _ in range(10):
        running.now_us += SECOND
        running.batch(tick=True)
    running.batch()
    assert running.outputs == run_reference(pipeline, feed).outputs


class Fast(Computation):
    """Passes letters on."""

    def process_record(self, context: Context, record: Record) -> None:
        context.produce("passed", record.value)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("woken", [True, False])
def test_who_holds_the_watermark_back_says_so_anew_when_all_are_woken(*, fused: bool, woken: bool) -> None:
    """A letter waits for wall time, and nothing else comes for its interval. Others pass the watermark by another way."""
    pipeline = Pipeline("ways")
    pipeline.injector("mail", outputs=["slow", "fast"])
    pipeline.add(Batcher(), name="batcher", inputs={"slow": city}, outputs=["sorted"])
    pipeline.add(Fast(), name="relay", inputs={"fast": city}, outputs=["passed"])
    both = dict.fromkeys(["sorted", "passed"], lambda _: "all")
    pipeline.add(WindowCounter(), name="counter", inputs=both, outputs=["counts", "late"])
    builder = FeedBuilder(pipeline)
    for second, stream in ((1, "slow"), (6, "fast"), (7, "fast")):
        builder.record(
            at_us=second * SECOND,
            value={"city": "riva"},
            timestamp=second * SECOND,
            key="anna",
            stream=stream,
        )
        builder.watermark(at_us=second * SECOND, low_watermark=second * SECOND)
    running, entries = query(pipeline, intervals=2, fused=fused), builder.build().entries
    running.batch(entries[:2])
    running.batch()
    running.migrate(3)
    if not woken:
        running.plan = replace(running.plan, wake_until=-1)
    for at in (2, 4):
        running.batch(entries[at : at + 2])
    running.now_us += 3 * SECOND
    running.batch(tick=True)
    assert any(one.stream == "late" for one in running.outputs) is not woken


@pytest.mark.parametrize("fused", [False, True])
def test_records_that_wait_for_the_slowest_move_with_their_keys(*, fused: bool) -> None:
    pipeline, feed = ahead()
    running, clock = query(pipeline, intervals=2, fused=fused), DrivenClock(SECOND, pipeline)
    looks, entries, quiet = JobClock(clock.clock), list(feed.entries), 0
    waiting = list[int]()
    while quiet < 2:
        if len(entries) == len(feed.entries) - 40:
            running.batch()
            running.migrate(3)
        slowest, before = looks.note().slowest, len(running.tallies)
        is_told = slowest > running.slowest
        quiet = 0 if entries or is_told else quiet + 1
        running.slowest = max(slowest, running.slowest)
        running.batch(entries[:10], tick=is_told)
        entries = entries[10:]
        clock.take(running.tallies[before:])
        headers = [decode_header(data) for data in running.headers().values()]
        waiting.append(sum(one.records for header in headers for one in header.waiting.values()))
    assert waiting[3] > 0
    assert running.outputs == run_reference(pipeline, feed).outputs


@pytest.mark.parametrize("fused", [False, True])
def test_a_percentile_is_followed_on(*, fused: bool) -> None:
    of = outliers.pipeline(60)
    running, entries = query(of, intervals=3, fused=fused), list(outliers.feed(of).entries)
    running.batch([entry for entry in entries if entry.at_us < 2 * SECOND])
    running.batch()
    running.migrate(2)
    for second in (3, 5, 8):
        running.batch([entry for entry in entries if entry.at_us // SECOND == second])
        running.batch()
    assert running.outputs == outliers.EAGER


def _counted(keys: int = 300) -> Query:
    pipeline = _counting()
    pipeline.computations["count"].computation.count_dropped = lambda state: state  # type: ignore[attr-defined]
    running = query(pipeline, intervals=2)
    running.batch([_entry(running.plan.pipeline, number, key=f"key {number}") for number in range(1, keys)])
    running.batch()
    running.migrate(4)
    return running


def test_rows_sizes_and_counts_are_divided() -> None:
    running = _counted()
    running.batch([_entry(running.plan.pipeline, 1_000, key="key 1")])
    headers = [Chunks(store, 4).header for store in running.stores.values() if store.head]
    names = ("rows", "records", "outputs", "dropped")
    assert [sum(getattr(header, name) for header in headers) for name in names] == [299, 300, 300, 300]
    assert min(header.rows for header in headers) > 50
    sizes = [
        sum(len(chunk) for chunk in store.chunks.values()) for store in running.stores.values() if store.head
    ]
    assert [header.state_bytes for header in headers] == sizes
    running.migrate(2, {"count": (0, 0)})
    running.batch([_entry(running.plan.pipeline, 1_001, key="key 1")])
    headers = [Chunks(store, 2).header for store in running.stores.values() if store.head]
    assert [sum(getattr(header, name) for header in headers) for name in names] == [299, 301, 301, 301]


def test_a_record_that_came_before_is_recognized() -> None:
    running = _counted()
    before = running.outputs.total()
    running.batch([_entry(running.plan.pipeline, 7, key="key 7")])
    assert running.outputs.total() == before


@pytest.mark.parametrize("fused", [False, True])
def test_timers_of_spark_follow(*, fused: bool) -> None:
    """Spark calls the interval that is due next, though it has got nothing but its image."""
    pipeline = mail()
    running = query(pipeline, intervals=3)
    left = half(running, letters(pipeline))
    before = {group: store.timer_ms for group, store in running.stores.items()}
    running.migrate(1, fused=fused)
    headers = {group: decode_header(data) for group, data in running.headers().items()}
    soonest = min(at for at in before.values() if at is not None)
    assert {group: header.timer_ms for group, header in headers.items()} == {
        "sorter/0": None,
        "counter/0": soonest,
    }
    assert (running.fused.timer_ms if fused else running.stores["counter/0"].timer_ms) == soonest
    assert left


@given(st.lists(st.text(), min_size=1), st.integers(1, 6), st.data())
def test_a_split_moves_keys_from_the_interval_that_it_splits_alone(
    keys: list[str], intervals: int, data: st.DataObject
) -> None:
    splits: list[int] = []
    for there in range(intervals, intervals + 4):
        split = data.draw(st.integers(0, there - 1))
        for key in keys:
            before, after = interval_of(key, intervals, splits), interval_of(key, intervals, [*splits, split])
            assert after == before or (before, after) == (split, there)
        splits.append(split)


def test_half_of_the_keys_move_to_another_partition() -> None:
    places = [interval_of(f"key {number}", 16, [3, 3, 16]) for number in range(16_000)]
    sizes = Bag(places)
    assert all(
        400 < sizes[place] / fraction < 1_600
        for place, fraction in ((3, 0.25), (16, 0.25), (17, 0.25), (18, 0.25), (4, 1))
    )
    for partitions in range(2, 20):
        groups = placed_groups("counter", 16, partitions, [3, 3, 16])
        assert groups[:16] == placed_groups("counter", 16, partitions)
        homes = [partition_of(group, partitions) for group in groups]
        assert homes[16] != homes[3] != homes[17]
        assert homes[18] != homes[16]


@pytest.mark.parametrize(
    ("offsets", "commits", "expected"),
    [
        ({}, {}, True),
        ({3: 5_000}, {3: 5_000}, True),
        ({3: 5_000}, {3: 6_000}, False),  # a micro-batch without data will follow
        ({3: 5_000, 4: 6_000}, {3: 6_000}, False),  # one will be run again
        ({3: 5_000, 4: 6_000}, {3: 6_000, 4: 6_000}, True),
    ],
)
def test_when_a_job_is_at_rest(
    tmp_path: Path, offsets: dict[int, int], commits: dict[int, int], expected: bool  # noqa: FBT001  a parameter of the test
) -> None:  # fmt: skip
    for folder, field, entries in (
        ("offsets", "batchWatermarkMs", offsets),
        ("commits", "nextBatchWatermarkMs", commits),
    ):
        (tmp_path / folder).mkdir()
        for number, low in entries.items():
            (tmp_path / folder / str(number)).write_text(f'v1\n{{"{field}": {low}}}\n')
    assert is_at_rest(tmp_path) == expected


def test_no_two_intervals_have_the_same_sequencer() -> None:
    plan = JobPlan(mail(), intervals=2, splits={"sorter": (0, 1, 2), "counter": (1,)})
    groups = [group for name in plan.pipeline.computations for group in plan.groups[name]]
    assert len({plan.sequencer(group, 7) for group in groups}) == len(groups) == 8


def test_what_can_be_split() -> None:
    pipeline = mail()
    _check_splits({"counter": (1, 2, 0)}, 2, pipeline)
    with pytest.raises(
        OptionsError, match=r"splits='mail': expected a computation of pipeline 'mail': 'sorter', 'counter'"
    ):
        _check_splits({"mail": (0,)}, 2, pipeline)
    with pytest.raises(OptionsError, match=r"splits\['counter'\]=3: expected one of the 3 intervals, from 0"):
        _check_splits({"counter": (1, 3)}, 2, pipeline)
    with pytest.raises(
        OptionsError, match=r"splits\['counter'\]=1: expected a list of intervals, such as \[1\]"
    ):
        _check_splits({"counter": 1}, 2, pipeline)  # type: ignore[dict-item]  # a mistake of users


class Tolling(Computation):
    """Counts letters, and tolls at 10 s. Kills its process, and then its executor, if a file of that name is in a directory."""

    def __init__(self, control: Path) -> None:
        self._control = control

    def initial_state(self) -> int:
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        for name, is_victim in (("worker", None), ("executor", "CoarseGrainedExecutorBackend")):
            with suppress(FileNotFoundError):
                (self._control / name).unlink()
                os.kill(_own_process(is_victim), signal.SIGKILL)
        context.state = context.state + 1
        context.produce("tolls", context.state)
        if context.state == 1:
            context.set_timer("ten", 10 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("tolls", timer.tag)


def _own_process(command: str | None) -> int:
    """Return this process, or the one with a command that it works for."""
    pid = os.getpid()
    while command is not None and command not in Path(f"/proc/{pid}/cmdline").read_text():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


class Tower:
    """A job on Spark with nine keys."""

    def __init__(self, spark: SparkSession, directory: str | Path, landing: Path) -> None:
        self.directory, self._spark, self._landing = directory, spark, landing
        self.is_broken = False
        self.tolls = Bag[tuple[str, object]]()
        landing.mkdir()

    def put(self, second: int, keys: int = 9) -> None:
        lines = [json.dumps({"key": f"k{number}", "ts": second * SECOND}) for number in range(keys)]
        draft = self._landing / f".{second}"
        draft.write_text("\n".join(lines) + "\n")
        draft.rename(self._landing / f"{second}.json")

    def deploy(self, intervals: int, split: tuple[int, ...] = ()) -> Deployment:
        pipeline = Pipeline("letters")
        pipeline.injector("mail")
        pipeline.add(Tolling(self._landing.parent), name="tolling", inputs=["mail"], outputs=["tolls"])
        stream = self._spark.readStream.schema("key string, ts long").json(str(self._landing))
        inputs = {"mail": Input(stream, key="key", timestamp="ts")}
        sinks, splits = {"tolls": self._take}, {"tolling": split}
        return deploy(
            pipeline, inputs, directory=self.directory, sinks=sinks, intervals=intervals, splits=splits
        )  # fmt: skip

    def _take(self, frame: DataFrame, _batch: int) -> None:
        if self.is_broken:
            raise OSError("the sink is broken")
        rows = frame.select("key", "value").collect()
        self.tolls.update((row["key"], json.loads(row["value"])) for row in rows)


@pytest.fixture(params=["mounted", pytest.param("object store", marks=pytest.mark.nightly)])
def tower(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Tower:
    """One with its directory on a file system that is mounted, and one in a store."""
    if request.param != "object store":
        return Tower(spark, tmp_path / "job", tmp_path / "mail")
    store: ObjectStore = request.getfixturevalue("object_store")
    return Tower(spark, f"{store.uri}/job", tmp_path / "mail")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("numbers", "split"),
    [
        pytest.param((2, 2, 1), (1,), id="an operator for each level"),
        pytest.param((1, 3, 2), (), id="one operator", marks=pytest.mark.nightly),
    ],
)
def test_a_job_on_spark_goes_on_with_more_intervals_and_with_fewer(
    spark: SparkSession, tower: Tower, numbers: tuple[int, ...], split: tuple[int, ...]
) -> None:
    """Counts, ids and timers go on, and so does the progress."""
    progress: tuple[ComputationProgress, ...] = ()
    for second, intervals in zip((1, 2, 13), numbers, strict=True):
        tower.put(second)
        with tower.deploy(intervals, split if second == 2 else ()) as job:
            job.await_idle()
            progress = job.progress()
        if split and second == 2:
            stored = JobState(spark, tower.directory)
            of_key = {row.key: row for row in stored.rows("tolling")}
            assert stored.row("tolling", "k1") == of_key["k1"]
            assert {row.interval for row in of_key.values()} == {0, 1, 2}
    state = JobState(spark, tower.directory).computation("tolling")
    assert [interval.number for interval in state.intervals] == list(range(numbers[-1]))
    assert [(one.records, one.keys) for one in progress] == [(27, 9)]
    assert tower.tolls == {(f"k{number}", value): 1 for number in range(9) for value in (1, 2, 3, "ten")}


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.skipif(
    "cluster" not in os.environ.get("SPARK_TESTS_MASTER", ""), reason="executors of their own"
)
def test_what_is_killed_behind_a_migration_leaves_no_trace(tower: Tower, tmp_path: Path) -> None:
    tower.put(1)
    with tower.deploy(2) as job:
        job.await_idle()
    victims = [tmp_path / name for name in ("worker", "executor")]
    for path in victims:
        path.touch()
    tower.put(2)
    with tower.deploy(2, (0, 1)) as job:
        job.await_idle()
    assert not any(path.exists() for path in victims)
    assert tower.tolls == {(f"k{number}", value): 1 for number in range(9) for value in (1, 2)}


class Killed(BaseException):
    """The driver has died."""


def _killed(*_: object) -> None:
    raise Killed


@pytest.mark.nightly
@pytest.mark.spark
def test_drivers_die_on_spark(tower: Tower, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one has begun a micro-batch; the next three die before the seal, behind it, and before their own first one."""
    tower.put(1)
    tower.is_broken = True
    with tower.deploy(2) as job, pytest.raises(QueryFailedError, match="the sink is broken"):
        job.await_idle()
    tower.is_broken = False
    checkpoints = job_directory(tower.directory, spark) / "checkpoints"
    assert not is_at_rest(checkpoints / "pipeline")
    for module, function, intervals in (
        (_migration, "seal", 2),
        (_migration, "write_shape", 3),
        (_query, "RunningQuery", 3),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(module, function, _killed)
            with pytest.raises(Killed):
                tower.deploy(3)
        shape = read_shape(job_directory(tower.directory, spark))
        assert shape is not None
        assert shape.intervals == intervals
        assert tower.tolls == {(f"k{number}", 1): 1 for number in range(9)}
    for second in (2, 13):
        tower.put(second)
        with tower.deploy(3 if second == 2 else 1) as job:
            job.await_idle()
    assert tower.tolls == {(f"k{number}", value): 1 for number in range(9) for value in (1, 2, 3, "ten")}
    left = [[place.name for place in files_in(checkpoint)] for checkpoint in files_in(checkpoints)]
    assert sorted(map(len, left))[:2] == [1, 1], "of a checkpoint that has ended only the seal is left"


@pytest.mark.spark
def test_a_driver_that_goes_on_with_the_old_checkpoint_is_stopped(tower: Tower, spark: SparkSession) -> None:
    tower.put(1)
    with tower.deploy(2) as zombie:
        zombie.await_idle()
        tower._spark = spark.newSession()  # as of another process
        with tower.deploy(3) as job:
            tower.put(2)
            job.await_idle()
            with pytest.raises(HeadraceError, match=r"another driver|concurrent|Multiple streaming"):
                zombie.await_idle()
    assert tower.tolls == {(f"k{number}", value): 1 for number in range(9) for value in (1, 2)}
