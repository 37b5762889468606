"""Sinks of a job that changes while it runs, and streams that come out nowhere."""

import json
import warnings
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace import Computation, Context, Pipeline, Record
from headrace.spark import Input, NoSinkWarning, SparkHostError, deploy
from headrace.spark.sinks.job_sinks import Sink, Sinks

pytestmark = pytest.mark.spark


class Copy(Computation):
    """Hands on what comes, to one stream."""

    def __init__(self, output: str) -> None:
        self._output = output

    def process_record(self, context: Context, record: Record) -> None:
        context.produce(self._output, record.value["n"])


def copies(*names: str) -> Pipeline:
    pipeline = Pipeline("copies")
    pipeline.injector("numbers")
    for name in names:
        pipeline.add(Copy(f"{name}s"), name=name, inputs=["numbers"], outputs=[f"{name}s"])
    return pipeline


def ignore(_frame: DataFrame, _batch: int) -> None:
    """Takes a micro-batch."""


def test_a_computation_comes_with_a_sink_and_takes_it_along_when_it_goes(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The second copy is added without a sink, which is said; it gets one; it is removed; the first copy is always heard."""
    (tmp_path / "in").mkdir()
    taken: dict[str, Counter[str]] = {"firsts": Counter(), "seconds": Counter()}

    def sink(stream: str) -> Sink:
        def take(frame: DataFrame, _batch: int) -> None:
            taken[stream].update(row["value"] for row in frame.collect())

        return take

    def put(number: int) -> None:
        draft = tmp_path / "in" / f".{number}"
        draft.write_text(json.dumps({"key": "anna", "n": number, "ts": number}))
        draft.rename(tmp_path / "in" / f"{number}.json")
        job.await_idle()

    frame = spark.readStream.schema("key string, n long, ts long").json(str(tmp_path / "in"))
    given = {"numbers": Input(frame, key="key", timestamp="ts")}
    with deploy(
        copies("first"), given, directory=tmp_path / "job", intervals=1, sinks={"firsts": sink("firsts")}
    ) as job:  # fmt: skip
        put(1)
        with pytest.warns(NoSinkWarning, match="no sink is given for 'seconds'") as warned:
            job.add(
                Copy("seconds"),
                name="second",
                inputs=["numbers"],
                outputs=["seconds"],
            )
        assert [one.filename for one in warned] == [__file__]
        put(2)
        job.change(job.pipeline, sinks={"seconds": sink("seconds")})
        put(3)
        job.remove("second")
        put(4)
        job.add(
            Copy("seconds"), name="third", inputs=["numbers"], outputs=["seconds"], sinks={"seconds": None}
        )
        put(5)
    assert taken == {"firsts": Counter("12345"), "seconds": Counter("3")}


def test_a_stream_without_a_sink_is_named_once_unless_that_is_wanted() -> None:
    pipeline = copies("first", "second")
    with pytest.warns(NoSinkWarning) as warned:
        Sinks({"firsts": ignore}).warn_of_missing(pipeline)
    (warning,) = warned
    assert str(warning.message) == (
        "no sink is given for 'seconds', so these outputs are discarded. Give each a sink, sinks={'seconds': ...}, or None to "
        "discard it without this warning"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Sinks({"firsts": ignore, "seconds": None}).warn_of_missing(pipeline)
        Sinks({"firsts": ignore}).warn_of_missing(pipeline, known=("seconds",))


def test_sinks_go_with_their_streams_and_are_taken_away_by_name() -> None:
    before = Sinks({"firsts": ignore, "seconds": ignore}, history=ignore)
    assert before.changed(copies("first"), {}) == Sinks({"firsts": ignore}, ignore)
    assert before.changed(copies("first", "second"), {"seconds": None}).wanted(
        {"firsts": 1, "seconds": 1}
    ) == ["firsts"]
    consumed = copies("first", "second")
    consumed.add(Copy("thirds"), name="third", inputs=["seconds"], outputs=["thirds"])
    with pytest.raises(
        SparkHostError, match=r"sinks are given for \['seconds'\].*to remove a sink in a change, give sinks="
    ):
        before.changed(consumed, {}).check(consumed)
    taken_away = before.changed(consumed, {"seconds": None, "thirds": ignore})
    assert taken_away == Sinks({"firsts": ignore, "thirds": ignore}, ignore)
    with pytest.raises(SparkHostError, match=r"sinks are given for \['strange'\]"):
        before.changed(copies("first"), {"strange": None}).check(copies("first"))
