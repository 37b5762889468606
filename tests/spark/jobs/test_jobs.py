"""Jobs on Spark: an injector that has ended, and wall timers, dead letters and a History in one job."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace import SECOND, Computation, Context, DeadLetter, Pipeline, Record, Timer
from headrace.spark import (
    Deployment,
    Generated,
    Input,
    NewRecord,
    TableSink,
    deploy,
    history_of,
    injected,
)
from headrace_properties.checkers import judge
from headrace_properties.verdict import Holds, Violated

pytestmark = pytest.mark.spark


class Landing:
    """A directory that Spark follows, and into which lines fall."""

    def __init__(self, session: SparkSession, directory: Path, schema: str) -> None:
        self._session, self._directory, self._schema, self._files = session, directory, schema, 0
        directory.mkdir()

    def stream(self) -> DataFrame:
        return self._session.readStream.schema(self._schema).json(str(self._directory))

    def put(self, *records: object) -> None:
        draft = self._directory / f".{self._files}"
        draft.write_text("\n".join(map(json.dumps, records)))
        draft.rename(self._directory / f"{self._files}.json")
        self._files += 1


# An injector that has ended


class Seconds(Computation):
    """Counts the records of each second, of both injectors."""

    def process_record(self, context: Context, record: Record) -> None:
        second = str(record.timestamp // SECOND)
        context.state[second] = context.state.get(second, 0) + 1
        context.set_timer(second, (int(second) + 1) * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("counts", [int(timer.tag), context.state.pop(timer.tag)])


def two_sources() -> Pipeline:
    pipeline = Pipeline("two sources")
    pipeline.injector("letters")
    pipeline.injector("calls")
    pipeline.add(Seconds(), name="seconds", inputs=["letters", "calls"], outputs=["counts"])
    return pipeline


def letters(_process: int, offset: int) -> list[NewRecord]:
    return [NewRecord("anna", None, number * SECOND) for number in range(1 + offset, 4)]


@pytest.mark.nightly
def test_an_injector_that_has_ended_holds_nothing_back_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The letters end at second 3. The job is stopped, and started again; calls go on, and their seconds are counted."""
    pipeline, counts = two_sources(), set[str]()
    calls = Landing(spark, tmp_path / "calls", "key string, ts long")

    def take(frame: DataFrame, _batch: int) -> None:
        counts.update(row["value"] for row in frame.collect())

    def start() -> Deployment:
        inputs = {
            "letters": injected(spark, pipeline, "letters", Generated(letters, count=3)),
            "calls": Input(calls.stream(), key="key", timestamp="ts"),
        }
        place = tmp_path / "job"
        return deploy(pipeline, inputs, directory=place, sinks={"counts": take}, intervals=2)

    with start() as job:
        calls.put({"key": "anna", "ts": 3 * SECOND + 1})
        job.await_idle()
    assert counts == {"[1,1]", "[2,1]"}
    with start() as job:
        calls.put({"key": "anna", "ts": 5 * SECOND})
        job.await_idle()
        calls.put({"key": "anna", "ts": 8 * SECOND})
        job.await_idle()
    assert counts == {"[1,1]", "[2,1]", "[3,2]", "[5,1]"}


# Wall timers, dead letters and a History


class Batches(Computation):
    """Keeps letters for a second of wall time, and the watermark back at the oldest of them. Some it cannot read."""

    def initial_state(self) -> list[list[object]]:
        return []

    def process_record(self, context: Context, record: Record) -> None:
        if record.value["text"] == "torn":
            raise ValueError("it is torn")
        context.state = [*context.state, [record.timestamp, record.value]]
        oldest = min(timestamp for timestamp, _ in context.state)
        context.set_wall_timer("flush", context.wall_time + SECOND, hold=oldest)

    def process_timer(self, context: Context, timer: Timer) -> None:
        for timestamp, value in context.state:
            context.produce("sorted", value, timestamp=timestamp)
        context.clear_state()


class Lates(Computation):
    """Says of each letter whether it came late."""

    def process_record(self, context: Context, record: Record) -> None:
        context.produce("delivered", {"text": record.value["text"], "late": record.late})


def city(record: Record) -> str:
    found: str = record.value["city"]
    return found


def post_office() -> Pipeline:
    pipeline = Pipeline("post office")
    pipeline.injector("mail", on_malformed=DeadLetter("unreadable"))
    pipeline.add(
        Batches(), name="batches", inputs={"mail": city}, outputs=["sorted", "torn"], on_failure=DeadLetter("torn")
    )  # fmt: skip
    pipeline.add(Lates(), name="lates", inputs={"sorted": city}, outputs=["delivered"])
    return pipeline


class Office:
    """A job with a table for its outputs, lists for its dead letters, and a History."""

    STREAMS = ("unreadable", "torn")

    def __init__(self, session: SparkSession, place: Path) -> None:
        self.landing = Landing(
            session, place / "in", "id long, key string, city string, text string, ts long"
        )
        self.database = place / "out.sqlite"
        self.letters: dict[str, list[dict[str, object]]] = {stream: [] for stream in self.STREAMS}
        self.events: list[bytes] = []
        mail = Input(self.landing.stream(), key="key", timestamp="ts", record_id="id")
        table = TableSink(str(self.database), "delivered", pipeline=post_office())
        self.job = deploy(
            post_office(), {"mail": mail}, directory=place / "job", intervals=2, clock_us=SECOND // 5,
            sinks={"delivered": table, **{stream: self._sink(stream) for stream in self.STREAMS}}, history=self._take_history,
        )  # fmt: skip

    def _sink(self, stream: str) -> Callable[[DataFrame, int], None]:
        def take(frame: DataFrame, _batch: int) -> None:
            self.letters[stream] += [json.loads(row["value"]) for row in frame.collect()]

        return take

    def _take_history(self, frame: DataFrame, _batch: int) -> None:
        self.events.extend(bytes(row["value"]) for row in frame.collect())

    def delivered(self) -> list[dict[str, object]]:
        with sqlite3.connect(self.database) as connection:
            rows = connection.execute("SELECT value FROM delivered").fetchall()
        return sorted((json.loads(row[0]) for row in rows), key=lambda one: str(one["text"]))

    def await_delivered(self, count: int) -> list[dict[str, object]]:
        for _ in range(1000):
            self.job.await_termination(0.2)
            if self.database.exists() and len(found := self._delivered_if_any()) >= count:
                return found
        raise AssertionError("nothing comes")

    def _delivered_if_any(self) -> list[dict[str, object]]:
        try:
            return self.delivered()
        except sqlite3.OperationalError:  # there is no table before the first batch
            return []


@pytest.fixture(scope="module")
def office(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    office = Office(spark, tmp_path_factory.mktemp("office"))
    office.landing.put(
        _letter(1, "riva", "a", 1), _letter(2, None, "b", 2), _letter(3, "riva", "torn", 3), _letter(1, "riva", "a", 1)
    )  # fmt: skip
    office.await_delivered(1)
    office.landing.put(_letter(4, "riva", "c", 9))
    office.await_delivered(2)
    office.landing.put(_letter(5, "arco", "d", 4))
    office.await_delivered(3)
    yield office
    office.job.stop()


def _letter(number: int, to: str | None, text: str, second: int) -> dict[str, object]:
    return {"id": number, "key": "anna", "city": to, "text": text, "ts": second * SECOND}


@pytest.mark.nightly
def test_wall_timers_fire_and_what_they_held_back_is_on_time(office: Office) -> None:
    assert office.delivered() == [{"text": text, "late": text == "d"} for text in "acd"]


@pytest.mark.nightly
def test_dead_letters_of_injectors_and_of_computations_come_out_of_a_job(office: Office) -> None:
    (unreadable,), (torn,) = office.letters["unreadable"], office.letters["torn"]
    assert unreadable["injector"] == "mail"
    assert "batches" in str(unreadable["error"])
    assert (torn["computation"], torn["key"], torn["cause"]) == ("batches", "riva", "mail:3")
    assert "it is torn" in str(torn["error"])


@pytest.mark.nightly
def test_the_history_is_one_that_the_checkers_accept(office: Office) -> None:
    verdicts = judge(history_of(post_office(), office.events), [post_office()])
    assert {name: one for name, one in verdicts.items() if isinstance(one, Violated)} == {}
    assert isinstance(verdicts["S2"], Holds)
