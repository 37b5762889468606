"""Another number of key intervals for a job at rest: nothing is lost or doubled, whenever it dies."""

import json
import os
import signal
from collections import Counter as Bag
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from headrace import SECOND, Computation, Context, OptionsError, Pipeline, Record, Timer
from headrace.api.progress import ComputationProgress
from headrace.spark import (
    CheckpointDamagedError,
    Deployment,
    Input,
    JobState,
    Layout,
    QueryFailedError,
    SparkHostError,
    deploy,
)  # fmt: skip
from headrace.spark.hosting.chunks import Chunks, decode_header
from headrace.spark.hosting.fused import HEADERS, decode_headers
from headrace.spark.hosting.layout import JobPlan, Splits, computation_of, interval_of
from headrace.spark.hosting.placement import partition_of, placed_groups
from headrace.spark.hosting.resharding import Watch, is_done, retire, to_wake
from headrace.spark.jobs import pipelined as _pipelined
from headrace.spark.jobs import resharding as _resharding
from headrace.spark.jobs import staged as _staged
from headrace.spark.jobs.deploy import _check_splits
from headrace.spark.jobs.driven_clock import DrivenClock
from headrace.spark.jobs.job import read_shape
from headrace.spark.jobs.resharding import is_at_rest
from headrace.spark.runtime.hadoop import job_directory
from headrace.spark.sources.wall_clock import Looks
from headrace_properties.reference import run_reference
from headrace_scenarios import zeitgeist
from headrace_scenarios.chaos.object_store import ObjectStore
from tests.sim.rig import letters, mail
from tests.spark import test_percentiles as outliers
from tests.spark.microbatches import Query, half, query, rest
from tests.spark.test_interval_task import _counting, _entry, held_pipeline
from tests.spark.test_skew import ahead

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
@given(before=st.integers(1, 5), after=DIVISIONS, again=DIVISIONS, fused=st.booleans(), sent=st.booleans())
def test_the_outputs_are_the_references_whatever_the_intervals(
    tmp_path_factory: pytest.TempPathFactory,
    *,
    before: int,
    after: tuple[int, Splits],
    again: tuple[int, Splits],
    fused: bool,
    sent: bool,
) -> None:
    """Half of the input with one number of intervals, a quarter with another one and splits, and the rest with a third."""
    pipeline = mail(processes=2)
    feed, place = letters(pipeline), tmp_path_factory.mktemp("images")
    running = query(pipeline, intervals=before, fused=fused)
    left = half(running, feed)
    running.reshard(after[0], place, after[1], sent=sent)
    rest(running, left[: len(left) // 2])
    running.reshard(again[0], place, again[1], sent=sent)
    rest(running, left[len(left) // 2 :])
    assert running.outputs == run_reference(pipeline, feed).outputs
    assert running.headers().keys() == {
        group for name in pipeline.computations for group in running.plan.groups[name]
    }


def test_windows_anomalies_and_ids_survive(tmp_path: Path) -> None:
    pipeline, feed = zeitgeist.pipeline, zeitgeist.feed(7, replace(zeitgeist.EVENING, late_share=0.0))
    running = query(pipeline, intervals=2)
    left = half(running, feed, 50)
    running.reshard(5, tmp_path)
    rest(running, left, 50)
    assert running.outputs == run_reference(pipeline, feed).outputs


@pytest.mark.parametrize(("fused", "sent"), [(False, False), (False, True), (True, False)])
def test_what_is_held_back_is_still_held(tmp_path: Path, *, fused: bool, sent: bool) -> None:
    """Letters wait for two seconds of wall time in one computation, and must not be late in the next."""
    pipeline = held_pipeline()
    feed = letters(pipeline)
    running, entries = query(pipeline, intervals=2, fused=fused), list(feed.entries)
    for number, at in enumerate(range(0, len(entries), 4)):
        if number == 5:
            running.batch()
            running.reshard(3, tmp_path, sent=sent)
        running.batch(entries[at : at + 4], tick=True)
    for _ in range(10):
        running.now_us += SECOND
        running.batch(tick=True)
    running.batch()
    assert running.outputs == run_reference(pipeline, feed).outputs


@pytest.mark.parametrize("fused", [False, True])
def test_records_that_wait_for_the_slowest_move_with_their_keys(tmp_path: Path, *, fused: bool) -> None:
    pipeline, feed = ahead()
    running, clock = query(pipeline, intervals=2, fused=fused), DrivenClock(SECOND, pipeline)
    looks, entries, quiet = Looks(clock.clock), list(feed.entries), 0
    waiting = list[int]()
    while quiet < 2:
        if len(entries) == len(feed.entries) - 40:
            running.batch()
            running.reshard(3, tmp_path)
        slowest, before = looks.told().slowest, len(running.tallies)
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
def test_a_percentile_is_followed_on(tmp_path: Path, *, fused: bool) -> None:
    of = outliers.pipeline(60)
    running, entries = query(of, intervals=3, fused=fused), list(outliers.feed(of).entries)
    running.batch([entry for entry in entries if entry.at_us < 2 * SECOND])
    running.batch()
    running.reshard(2, tmp_path)
    for second in (3, 5, 8):
        running.batch([entry for entry in entries if entry.at_us // SECOND == second])
        running.batch()
    assert running.outputs == outliers.EAGER


def _counted(tmp_path: Path, keys: int = 300) -> Query:
    pipeline = _counting()
    pipeline.computations["count"].computation.count_dropped = lambda state: state  # type: ignore[attr-defined]
    running = query(pipeline, intervals=2)
    running.batch([_entry(running.plan.pipeline, number, key=f"key {number}") for number in range(1, keys)])
    running.batch()
    running.reshard(4, tmp_path)
    return running


def test_rows_sizes_and_counts_are_divided(tmp_path: Path) -> None:
    running = _counted(tmp_path)
    running.batch([_entry(running.plan.pipeline, 1_000, key="key 1")])
    headers = [Chunks(store, 4).header for store in running.stores.values() if store.head]
    names = ("rows", "records", "outputs", "dropped")
    assert [sum(getattr(header, name) for header in headers) for name in names] == [299, 300, 300, 300]
    assert min(header.rows for header in headers) > 50
    sizes = [
        sum(len(chunk) for chunk in store.chunks.values()) for store in running.stores.values() if store.head
    ]
    assert [header.state_bytes for header in headers] == sizes
    running.reshard(2, tmp_path, {"count": (0, 0)})
    running.batch([_entry(running.plan.pipeline, 1_001, key="key 1")])
    headers = [Chunks(store, 2).header for store in running.stores.values() if store.head]
    assert [sum(getattr(header, name) for header in headers) for name in names] == [299, 301, 301, 301]


def test_a_record_that_came_before_is_recognized(tmp_path: Path) -> None:
    running = _counted(tmp_path)
    before = running.outputs.total()
    running.batch([_entry(running.plan.pipeline, 7, key="key 7")])
    assert running.outputs.total() == before


def test_a_micro_batch_that_is_run_again_installs_the_same(tmp_path: Path) -> None:
    """The first micro-batch after the change is lost with its driver. It is run again on the state before it."""
    running = _counted(tmp_path)
    stores = {
        group: (store.head, dict(store.chunks), store.timer_ms) for group, store in running.stores.items()
    }
    outputs, number, entry = (
        running.outputs.copy(),
        running.number,
        _entry(running.plan.pipeline, 1_000, key="key 1"),
    )
    running.batch([entry])
    once = running.outputs.copy()
    for group, store in running.stores.items():
        store.head, store.chunks, store.timer_ms = stores[group]
    running.outputs, running.number = outputs, number
    running.batch([entry])
    assert running.outputs == once


def test_all_intervals_are_woken_until_all_have_committed(tmp_path: Path) -> None:
    running = _counted(tmp_path)
    plan, first = running.plan, running.number
    assert plan.reshard is not None
    groups = plan.groups["count"]
    assert set(to_wake(plan, first, taken=False)) == {*groups, *plan.retired["count"]}
    watch = Watch(plan, tmp_path / "1")
    watch.take(groups[:2], first)
    watch.take(groups[2:], first + 1)
    assert (watch.taken, is_done(tmp_path / "1")) == (False, False)
    assert to_wake(plan, first + 2, taken=watch.taken)
    watch.take([], first + 2)
    assert (watch.taken, is_done(tmp_path / "1")) == (True, True)
    assert to_wake(plan, first + 2, taken=watch.taken) == ()


def test_old_intervals_of_another_driver_are_refused(tmp_path: Path) -> None:
    """A driver that was presumed dead has gone on with the old intervals."""
    running = query(_counting(), intervals=2)
    running.batch([_entry(running.plan.pipeline, 1)])
    running.batch()
    zombie, number = running.plan, running.number
    running.reshard(1, tmp_path)
    running.plan, resharded = zombie, running.plan
    running.batch([_entry(running.plan.pipeline, 2)])
    assert running.number > number
    running.plan = resharded
    with pytest.raises(
        SparkHostError, match=r"has state of micro-batch 2, .* divided anew after micro-batch 1: another"
    ):
        running.batch([_entry(running.plan.pipeline, 3)])


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda path: path.unlink(), "it is missing"),
        (lambda path: os.truncate(path, path.stat().st_size - 1), "does not match its checksum"),
    ],
    ids=["missing", "truncated"],
)
def test_a_damaged_image_is_an_error(tmp_path: Path, spoil: Callable[[Path], None], problem: str) -> None:
    running = _counted(tmp_path)
    spoil(next((tmp_path / "1").iterdir()))
    with pytest.raises(CheckpointDamagedError, match=problem):
        running.batch([_entry(running.plan.pipeline, 1_000, key="key 1")])


def test_timers_of_spark_follow(tmp_path: Path) -> None:
    """An old interval's timer in Spark is deleted with it, and each new interval sets its own."""
    pipeline = mail()
    running = query(pipeline, intervals=3)
    left = half(running, letters(pipeline))
    running.reshard(1, tmp_path)
    running.batch(left[:1])  # type: ignore[arg-type]
    timers = {
        group: store.timer_ms for group, store in running.stores.items() if computation_of(group) == "counter"
    }
    assert timers["counter/0"] is not None
    assert (timers["counter/1"], timers["counter/2"]) == (None, None)
    assert running.plan.reshard is not None
    retire(running.plan.reshard, "counter/1", running.stores["counter/1"])  # Spark may call it again
    assert running.stores["counter/1"].head is None


def test_one_operator_for_all_levels_keeps_only_the_new_intervals(tmp_path: Path) -> None:
    pipeline = mail()
    running = query(pipeline, intervals=3, fused=True)
    left = half(running, letters(pipeline))
    running.reshard(1, tmp_path)
    running.batch(left[:1])  # type: ignore[arg-type]
    groups = {"sorter/0", "counter/0"}
    headers = decode_headers(running.fused.values[HEADERS, 0])
    assert headers.by_group.keys() == groups
    assert headers.timers_ms.keys() == {"counter/0"}
    assert {group for group, _ in running.fused.values} == {*groups, HEADERS}
    assert running.fused.timer_ms == headers.timers_ms["counter/0"]


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

    def __init__(
        self, spark: SparkSession, directory: str | Path, landing: Path, layout: Layout = Layout.PIPELINED
    ) -> None:
        self.directory, self._spark, self._landing, self._layout = directory, spark, landing, layout
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
            pipeline, inputs, directory=self.directory, sinks=sinks, intervals=intervals, splits=splits, layout=self._layout
        )  # fmt: skip

    def _take(self, frame: DataFrame, _batch: int) -> None:
        if self.is_broken:
            raise OSError("the sink is broken")
        rows = frame.select("key", "value").collect()
        self.tolls.update((row["key"], json.loads(row["value"])) for row in rows)


@pytest.fixture(
    params=[
        "mounted",
        *[pytest.param(place, marks=pytest.mark.nightly) for place in ("object store", "staged")],
    ]
)
def tower(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Tower:
    """One with its directory on a file system that is mounted, one in a store, and a staged one."""
    if request.param != "object store":
        layout = Layout.STAGED if request.param == "staged" else Layout.PIPELINED
        return Tower(spark, tmp_path / "job", tmp_path / "mail", layout)
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
def test_what_is_killed_as_it_takes_an_image_leaves_no_trace(tower: Tower, tmp_path: Path) -> None:
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
def test_drivers_die_and_an_image_is_damaged_in_a_store(
    spark: SparkSession, object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One dies when it has written the images, the next one before its first micro-batch. Each finds what the one before left."""
    tower = Tower(spark, f"{object_store.uri}/job", tmp_path / "mail")
    tower.put(1)
    with tower.deploy(2) as job:
        job.await_idle()
    for module, function in ((_resharding, "write_shape"), (_pipelined, "Running")):
        with monkeypatch.context() as patched:
            patched.setattr(module, function, _killed)
            with pytest.raises(Killed):
                tower.deploy(2, (1,))
    left, counted = object_store.names_in("/job/intervals"), f"/job/intervals/{_folder(tower, spark)}"
    assert (len(left), counted.rpartition("/")[2] in left) == (2, True)
    tower.put(2)
    image = f"{counted}/{object_store.names_in(counted)[0]}"
    data, _ = object_store.objects[image]
    object_store.put(image, data[:-1])
    with pytest.raises(CheckpointDamagedError, match=f"{image}.* does not match its checksum"):
        tower.deploy(2, (1,)).await_idle()
    object_store.put(image, data)
    _check_all_are_woken_once(tower, monkeypatch)
    tolls = {(f"k{number}", value): 1 for number in range(9) for value in (1, 2, "ten")}
    assert tower.tolls == tolls | {("k0", 3): 1, ("k0", 4): 1}
    tower.deploy(2, (1,)).stop()
    assert object_store.names_in("/job/intervals") == []


@pytest.mark.spark
@pytest.mark.nightly
def test_drivers_die_and_an_image_is_damaged_in_a_staged_job(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like the one above. The first one has begun a micro-batch: the next one finishes it with the old intervals."""
    tower = Tower(spark, tmp_path / "job", tmp_path / "mail", Layout.STAGED)
    tower.put(1)
    tower.is_broken = True
    with tower.deploy(2) as job, pytest.raises(QueryFailedError, match="the sink is broken"):
        job.await_idle()
    checkpoint = tmp_path / "job/checkpoints/tolling"
    assert not is_at_rest(checkpoint)
    tower.is_broken = False
    for module, function in ((_resharding, "write_shape"), (_staged, "Running")):
        with monkeypatch.context() as patched:
            if module is _staged:
                assert is_at_rest(checkpoint)
                assert tower.tolls == {(f"k{number}", 1): 1 for number in range(9)}
            patched.setattr(module, function, _killed)
            with pytest.raises(Killed):
                tower.deploy(2, (1,))
    folders = sorted(tmp_path.glob("job/intervals/*"))
    counted = tmp_path / "job/intervals" / _folder(tower, spark)
    assert (len(folders), counted in folders) == (2, True)
    tower.put(2)
    image = next(counted.iterdir())
    data = image.read_bytes()
    image.write_bytes(data[:-1])
    damaged = pytest.raises(CheckpointDamagedError, match=f"{image}.* does not match its checksum")
    with damaged, tower.deploy(2, (1,)) as job:
        job.await_idle()
    image.write_bytes(data)
    tower.put(13)
    with tower.deploy(2, (1,)) as job:
        job.await_idle()
    assert tower.tolls == {(f"k{number}", value): 1 for number in range(9) for value in (1, 2, 3, "ten")}
    tower.deploy(2, (1,)).stop()
    assert list(tmp_path.glob("job/intervals/*")) == []


def _folder(tower: Tower, spark: SparkSession) -> str:
    shape = read_shape(job_directory(tower.directory, spark))
    assert shape is not None
    assert shape.reshard is not None
    return shape.reshard.path.rpartition("/")[2]


def _check_all_are_woken_once(tower: Tower, monkeypatch: pytest.MonkeyPatch) -> None:
    """Process what there is, then two files with one key: they come when all have committed. The last one brings the timers."""
    called: list[int] = []

    def take(watch: Watch, groups: list[str], batch: int, *, noted: Callable[..., None] = Watch.take) -> None:
        called.append(len(groups))
        noted(watch, groups, batch)

    with monkeypatch.context() as patched, tower.deploy(2, (1,)) as job:
        patched.setattr(Watch, "take", take)
        for second in (3, 13):
            job.await_idle()
            tower.put(second, 1)
        job.await_idle()
    assert [number for number in called if number] == [3, 1, 1, 3]
