"""A record that stops a job again and again: skipped by the command, and kept as a dead letter."""

import base64
import json
import shlex
import sqlite3
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from headrace import Computation, Context, Pipeline, Record
from headrace.spark import (
    Deployment,
    Input,
    JobStoppedError,
    SparkHostError,
    TableSink,
    deploy,
    skip_record,
)
from headrace.spark.jobs.deployment_settings import Shape, write_shape
from headrace_cli.main import app

pytestmark = pytest.mark.spark


class Sums(Computation):
    """Adds up what comes, if its text is a number."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state["sum"] = context.state.get("sum", 0) + record.value["n"] + 0 * int(record.value["text"])
        context.produce("sums", context.state["sum"])


def sums() -> Pipeline:
    pipeline = Pipeline("sums")
    pipeline.injector("numbers")
    pipeline.add(Sums(), name="adder", inputs=["numbers"], outputs=["sums"])
    return pipeline


class Job:
    def __init__(self, session: SparkSession, place: Path) -> None:
        self.session, self.place = session, place
        self.directory = place / "a job"
        (place / "in").mkdir()

    def start(self) -> Deployment:
        schema = "id long, key string, n long, text string, ts long"
        frame = self.session.readStream.schema(schema).json(str(self.place / "in"))
        sink = TableSink(str(self.place / "out.sqlite"), "sums", pipeline=sums())
        return deploy(
            sums(), {"numbers": Input(frame, key="key", timestamp="ts", record_id="id")}, directory=self.directory,
            intervals=1, sinks={"sums": sink},
        )  # fmt: skip

    def put(self, *numbers: tuple[int, str]) -> None:
        lines = [
            json.dumps({"id": number, "key": "anna", "n": number, "text": text, "ts": number})
            for number, text in numbers
        ]
        draft = self.place / "in" / f".{numbers[0][0]}"
        draft.write_text("\n".join(lines))
        draft.rename(self.place / "in" / f"{numbers[0][0]}.json")

    def stop_on_record(self) -> JobStoppedError:
        with self.start() as job, pytest.raises(JobStoppedError) as caught:
            job.await_idle()
        return caught.value

    def go_on(self) -> None:
        with self.start() as job:
            job.await_idle()

    def forget_last_commit(self) -> None:
        """As a driver does that dies between its sinks and Spark's log of commits."""
        commits = self.directory / "checkpoints/pipeline/commits"
        last = max(
            (path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name)
        )
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

    def letters(self) -> list[dict[str, object]]:
        return [json.loads(path.read_bytes()) for path in (self.directory / "dead-letters").glob("*")]

    def sums(self) -> list[int]:
        with sqlite3.connect(self.place / "out.sqlite") as connection:
            return sorted(int(row[0]) for row in connection.execute("SELECT value FROM sums"))


def test_a_record_that_stops_a_job_is_skipped_and_is_in_the_dead_letters_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Record 2 stops the job, also when it is started again; it is skipped. A crash does its batch again. Record 5 stops it."""
    job = Job(spark, tmp_path)
    job.put((1, "1"), (2, "two"), (4, "4"))
    job.stop_on_record()
    error = job.stop_on_record()
    assert (error.computation, error.key, error.record_id) == ("adder", "anna", "numbers:2")
    command = shlex.split(next(line for line in str(error).splitlines()).rpartition("run first: ")[2])
    assert command == ["headrace", "job", "skip", str(job.directory), "adder", "numbers:2"]
    assert "ValueError: invalid literal" in str(error)

    done = CliRunner().invoke(app, command[1:], catch_exceptions=False)
    assert (done.exit_code, "Recorded: from its next start" in done.stdout) == (0, True)
    job.go_on()
    assert job.sums() == [1, 5]
    (letter,) = job.letters()
    assert (letter["computation"], letter["key"], letter["cause"]) == ("adder", "anna", "numbers:2")
    assert json.loads(base64.b64decode(str(letter["value_base64"])))["text"] == "two"
    assert "ValueError: invalid literal" in str(letter["error"])

    job.forget_last_commit()
    job.put((5, "five"))
    assert job.stop_on_record().record_id == "numbers:5"
    assert (job.sums(), job.letters()) == ([1, 5], [letter])


def test_a_skip_is_refused_where_it_could_have_no_effect(tmp_path: Path) -> None:
    with pytest.raises(SparkHostError, match="no job was deployed in the directory"):
        skip_record(tmp_path, "adder", "numbers:2")
    shape = Shape("sums", 2, ["numbers"], [["adder"]])
    write_shape(tmp_path, shape, sums())
    with pytest.raises(SparkHostError, match=r"has no computation 'addr'\. Its computations are: 'adder'"):
        skip_record(tmp_path, "addr", "numbers:2")
    with pytest.raises(SparkHostError, match=r"'numbers' is an injector.*on_malformed=DeadLetter"):
        skip_record(tmp_path, "numbers", "numbers:2")
    assert not (tmp_path / "skips").exists()
    letter = skip_record(tmp_path, "adder", "numbers:" + "/" * 500)
    assert (tmp_path / "skips" / letter.name).exists()
