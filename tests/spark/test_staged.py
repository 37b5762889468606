"""Both layouts as jobs on Spark: the same outputs, through a restart; and computations that come and go while the others run."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer, UserCodeError
from headrace.spark import Deployment, FileSink, Input, Layout, SparkHostError, TypedSink, deploy
from headrace.spark.jobs.log import Log


class Pairs(Computation):
    """Waits for a letter's answer, which may come late; until then the letter holds the watermark back."""

    def process_record(self, context: Context, record: Record) -> None:
        if record.value["city"] == "nowhere":
            raise ValueError("there is no such place")
        if "at" in context.state:
            context.produce("pairs", record.value)
            context.clear_state()
        else:
            context.state = {"at": record.timestamp}
            context.hold_watermark(record.timestamp)


class Counts(Computation):
    """Counts the pairs of each second."""

    def process_record(self, context: Context, record: Record) -> None:
        if record.late:
            context.produce("late", record.value)
            return
        second = str(record.timestamp // SECOND)
        context.state[second] = context.state.get(second, 0) + 1
        context.set_timer(second, (int(second) + 1) * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("counts", {"second": int(timer.tag), "pairs": context.state.pop(timer.tag)})


class Total(Computation):
    """Adds counts up."""

    def initial_state(self) -> int:
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        context.state = context.state + record.value["pairs"]
        context.produce("totals", {"total": context.state, "late": record.late})


class Cities(Computation):
    """Counts the pairs of each city; added while the others run."""

    def initial_state(self) -> int:
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        context.state = context.state + 1
        context.produce("cities", context.state)


def city(record: Record) -> str:
    found: str = record.value["city"]
    return found


def pair(record: Record) -> str:
    found: str = record.value["pair"]
    return found


def everybody(_record: Record) -> str:
    return "all"


def answered() -> Pipeline:
    pipeline = Pipeline("answered")
    pipeline.injector("mail")
    pipeline.add(Pairs(), name="pairing", inputs={"mail": pair}, outputs=["pairs"])
    pipeline.add(Counts(), name="counter", inputs={"pairs": city}, outputs=["counts", "late"])
    pipeline.add(Total(), name="total", inputs={"counts": everybody}, outputs=["totals"])
    return pipeline


Rows = list[tuple[object, ...]]


class Job:
    """A pipeline's job in one layout, its source and its sinks."""

    def __init__(self, session: SparkSession, directory: Path, layout: Layout) -> None:
        self.session, self.directory, self.layout = session, directory, layout
        self.batches: dict[tuple[str, str, int], Rows] = {}
        self._files = 0
        (directory / "in").mkdir(parents=True)

    def start(self, pipeline: Pipeline | None = None) -> Deployment:
        letters = self.session.readStream.schema(
            "id long, key string, pair string, city string, ts timestamp"
        ).json(str(self.directory / "in"))
        self.files = FileSink(self.directory / "totals", batches=2)
        sinks: dict[str, object] = {
            "late": self.sink("late"),
            "totals": TypedSink(self.files, "total long, late boolean"),
        }
        if self.layout is Layout.STAGED:
            sinks["pairs"] = self.sink("pairs")
        return deploy(
            pipeline or answered(),
            {"mail": Input(letters, key="key", timestamp="ts", record_id="id")},
            directory=self.directory / "job",
            layout=self.layout,
            intervals=2,
            sinks=sinks,  # type: ignore[arg-type]  # of two kinds
        )

    def sink(self, name: str) -> Any:
        def take(frame: DataFrame, batch: int) -> None:
            query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
            self.batches[name, str(query), batch] = [
                (row["key"], row["timestamp"], row["value"]) for row in frame.collect()
            ]

        return take

    def give(self, letters: Sequence[tuple[int, str, float]], city: str = "riva") -> None:
        """Letters as (id, pair, second)."""
        lines = [
            json.dumps({"id": number, "key": "anna", "pair": pair, "city": city, "ts": f"2026-01-01T00:00:{second:06.3f}Z"})
            for number, pair, second in letters
        ]  # fmt: skip
        draft = self.directory / "in" / f".{self._files}"
        draft.write_text("\n".join(lines))
        draft.rename(self.directory / "in" / f"{self._files}.json")
        self._files += 1

    def taken(self, name: str) -> Counter[tuple[object, ...]]:
        return Counter(
            row for (stream, _, _), rows in sorted(self.batches.items()) for row in rows if stream == name
        )

    def totals(self) -> list[tuple[int, bool]]:
        self.files.publish(self.session)
        rows = self.session.read.parquet(str(self.directory / "totals")).collect()
        return sorted((row["total"], row["late"]) for row in rows)


BY_DAY = [pytest.param("staged", marks=pytest.mark.nightly), "pipelined"]


def tell_the_story(job: Job) -> Deployment:
    """Letters and answers; the answer to "b" is late, but its letter has held the watermark. A restart. "d" is late for good."""
    running = job.start()
    job.give([(1, "a", 1.0), (2, "b", 1.1), (3, "a", 1.2)])
    running.await_idle()
    job.give([(4, "c", 9.0), (5, "c", 9.5), (3, "a", 1.2)])
    running.await_idle()
    job.give([(6, "b", 1.5)])
    running.await_idle()
    running.stop()
    running = job.start()
    job.give([(7, "d", 2.0), (8, "d", 2.0), (9, "e", 20.0), (10, "e", 20.0)])
    running.await_idle()
    job.give([(11, "f", 30.0), (12, "f", 30.0)])
    running.await_idle()
    return running


@pytest.fixture(scope="module")
def pipelined(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Job, Deployment]]:
    job = Job(spark, tmp_path_factory.mktemp("pipelined"), Layout.PIPELINED)
    running = tell_the_story(job)
    yield job, running
    running.stop()


@pytest.fixture(scope="module")
def staged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Job, Deployment]]:
    job = Job(spark, tmp_path_factory.mktemp("staged"), Layout.STAGED)
    running = tell_the_story(job)
    yield job, running
    running.stop()


@pytest.mark.nightly
def test_both_layouts_have_the_same_outputs_through_a_restart(
    pipelined: tuple[Job, Deployment], staged: tuple[Job, Deployment]
) -> None:
    one, other = pipelined[0], staged[0]
    assert one.totals() == other.totals() == [(2, False), (3, False), (4, False)]
    assert one.taken("late") == other.taken("late")
    assert sum(other.taken("late").values()) == 1  # "d"


@pytest.mark.nightly
@pytest.mark.parametrize("name", BY_DAY)
def test_both_layouts_tell_their_progress(name: str, request: pytest.FixtureRequest) -> None:
    """By the job, counted through the restart; and, of each micro-batch, in Spark's own progress reports."""
    _job, running = request.getfixturevalue(name)
    pairing, counter, total = running.progress()
    assert (pairing.name, pairing.records, pairing.outputs) == ("pairing", 13, 6)
    if name == "staged":  # pipelined, an interval that had nothing to do has not heard of the watermark
        assert pairing.late_records >= 1
    assert (counter.records, counter.late_records, counter.outputs) == (6, 1, 4)
    assert (total.records, total.outputs, total.timers, total.keys) == (3, 3, 0, 1)
    assert counter.timers == 1
    assert counter.low_watermark == int(datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC).timestamp()) * SECOND
    assert {one.lag_us for one in (pairing, counter, total)} == {0}
    assert all(one.state_bytes for one in (pairing, counter, total))
    assert running.progress() == (pairing, counter, total)
    reports = [report for query in running._host.queries() for report in query.query.recentProgress]
    metrics = [report["observedMetrics"].get("counter") for report in reports]
    shown = [
        dict(metric if isinstance(metric, dict) else metric.asDict())
        for metric in metrics
        if metric is not None
    ]
    assert 0 < sum(entry["records"] for entry in shown) <= counter.records
    assert sum(entry["outputs"] for entry in shown) > 0
    assert {entry["dropped"] for entry in shown} == {0}
    assert {entry["intervals"] for entry in shown} <= {0, 1, 2}


@pytest.mark.parametrize("name", BY_DAY)
def test_sparks_pages_of_jobs_show_progress_behind_sparks_own_description(
    name: str, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    _job, running = request.getfixturevalue(name)
    runs = {str(query.query.runId) for query in running._host.queries()}
    jobs: Any = spark.sparkContext._jsc.sc().statusStore().jobsList(None)  # what the page Jobs reads
    described = [jobs.apply(number).description() for number in range(jobs.size())]
    texts = [str(one.get()) for one in described if one.isDefined()]
    ours = [text for text in texts if any(run in text for run in runs)]
    assert any(
        re.search(r"<br/>counter: [1-6] records \(\d late\), \d out, low watermark ", text) for text in ours
    )


def test_one_query_cannot_get_another_level(pipelined: tuple[Job, Deployment]) -> None:
    job, running = pipelined
    with pytest.raises(
        SparkHostError, match=r"had the injectors \['mail'\] and 3 levels, and now has .* 4.*Layout.STAGED"
    ):
        running.add(Cities(), name="cities", inputs=["totals"], outputs=["cities"])
    job.give([(20, "g", 40.0)])
    running.await_idle()


def test_a_directory_belongs_to_one_layout(pipelined: tuple[Job, Deployment]) -> None:
    job, _running = pipelined
    other = Job(job.session, job.directory / "other", Layout.STAGED)
    other.directory = job.directory
    with pytest.raises(
        SparkHostError, match="belongs to the pipelined pipeline 'answered', not to the staged"
    ):
        other.start()


@pytest.mark.nightly
def test_computations_come_and_go_while_the_others_run(staged: tuple[Job, Deployment]) -> None:
    """Cities is added, and counts all pairs from the beginning on; it is removed; what it has written stays."""
    job, running = staged
    before = {query.name: query.query.runId for query in running._host.queries()}
    running.add(
        Cities(),
        name="cities",
        inputs={"pairs": city},
        outputs=["cities"],
        sinks={"cities": job.sink("cities")},
    )
    running.await_idle()
    cities = Log(job.directory / "job", "cities")
    assert written(cities) == [1, 2, 3, 4, 5, 6]
    job.give([(30, "h", 31.0), (31, "h", 31.0)])
    running.await_idle()
    running.remove("cities")
    assert written(cities) == [1, 2, 3, 4, 5, 6, 7]
    job.give([(32, "i", 50.0), (33, "i", 50.0)])
    running.await_idle()
    assert {query.name: query.query.runId for query in running._host.queries()} == before
    assert job.totals()[-1] == (6, False)
    assert list(running.pipeline.computations) == ["pairing", "counter", "total"]
    assert sum(job.taken("cities").values()) == 7


def written(log: Log) -> list[int]:
    found = []
    for entry in log.entries(log.first() - 1, log.last()):
        for part in entry.parts:
            for parcel in log.parcels(part.name):
                found += [json.loads(record[3]) for record in parcel.records]
    return sorted(found)


@pytest.mark.parametrize("name", BY_DAY)
def test_an_error_of_user_code_comes_back_as_it_was(name: str, request: pytest.FixtureRequest) -> None:
    job, running = request.getfixturevalue(name)
    job.give([(40, "z", 55.0)], city="nowhere")
    with pytest.raises(UserCodeError, match="there is no such place") as caught:
        running.await_idle()
    assert (caught.value.computation, caught.value.key, caught.value.record_id) == ("pairing", "z", "mail:40")
    assert running.errors[0].args == caught.value.args
