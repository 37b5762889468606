"""Each argument of the fixture ``headrace_verify`` is heeded by each kind of target, or refused; so are pytest's settings."""

import importlib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from headrace import OptionsError
from headrace_properties.promises import sometimes
from headrace_properties.target import TargetError
from headrace_properties.target_kinds import OPTIONS, TargetKind
from headrace_properties.verifier import InvariantViolatedError, NotExercisedError, Verifier
from headrace_properties.verify_arguments import ARGUMENTS
from headrace_scenarios.chaos import turnstiles
from headrace_scenarios.zeitgeist import feed, pipeline
from headrace_sim import SOUND, ClusterOptions, FeedSource
from headrace_sim.spark.declares import Declares, Meant

SCHEMA = "word STRING, n INT"
ROWS = [[("a", 1), ("b", 2)]]
SAMPLES: dict[str, Any] = {
    "promises": [],
    "allow_unknown": ["kept"],
    "seed": 1,
    "examples": 3,
    "options": ClusterOptions(),
    "protocol": SOUND,
    "search": "random",
    "depth": 2,
    "scope": None,  # its default
    "schema": SCHEMA,
    "sample": "rows.jsonl",
    "prepare": print,
    "duplicates": True,
    "keys": {"t": ("word",)},
    "allow": ["batching"],
    "running": True,
    "late": True,
    "bounded_by": "words",
    "repeated": True,
    "settings": ("checkpoint",),
    "new_checkpoint": True,
    "source": FeedSource(once=False),
    "args": ["x"],
    "env": {"A": "1"},
    "stand_ins": ["a"],
    "query": "a",
    "on": "spark",
    "postgres": "postgresql://localhost",
    "batches": 2,
    "allow_writes": True,
    "allow_network": True,
}


def write(df: Any, batch_id: int) -> None:
    Path(f"{batch_id}.txt").write_text(str(df.count()))


def query(words: Any) -> Any:
    return words.mapInPandas(lambda frames: frames, SCHEMA).writeStream.foreachBatch(write).start()


TARGETS: dict[TargetKind, tuple[Any, Any]] = {
    TargetKind.PIPELINE: (pipeline, feed),
    TargetKind.HOSTED: (pipeline, feed),
    TargetKind.QUERY: (query, ROWS),
    TargetKind.SINK: (write, ROWS),
}


@sometimes
def many_rows(moment: Any) -> bool:
    return len(moment.rows) > 1000


def test_order_of_a_source_is_refused_for_a_pipeline_whose_records_may_overtake_each_other(
    tmp_path: Path,
) -> None:
    with pytest.raises(TargetError, match="Declare it of what counts on it"):
        _verifier(tmp_path)(pipeline, feed, source=FeedSource(ordered=True))


def _verifier(folder: Path, *allowed: str) -> Verifier:
    return Verifier(5, 0, folder, lambda *_: None, allowed)


def test_each_argument_has_a_row() -> None:
    names = {name for arguments in ARGUMENTS.values() for name in arguments.__annotations__}
    assert names == SAMPLES.keys()
    assert Meant.__annotations__.keys() == {field.name for field in fields(Declares)}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for name in SAMPLES for kind in TARGETS if kind not in OPTIONS[name].kinds],
)
def test_argument_without_effect_is_refused(tmp_path: Path, kind: TargetKind, name: str) -> None:
    given = {name: SAMPLES[name] or object()}
    of_job = kind in {TargetKind.QUERY, TargetKind.SINK}
    given |= {"schema": SCHEMA} if of_job else {"on": "spark"} if kind is TargetKind.HOSTED else {}
    verifier: Any = _verifier(tmp_path)
    told = "a Spark" if of_job else f"{kind.value}:"
    with pytest.raises(OptionsError, match=f"option {name}=.*left out for {told}"):
        verifier(*TARGETS[kind], **given)


@pytest.mark.parametrize(
    ("search", "given"),
    [("random", {"depth": 2}), ("pct", {"scope": object()}), ("exhaustive", {"options": ClusterOptions()})],
)
def test_argument_that_the_search_does_not_heed_is_refused(tmp_path: Path, search: Any, given: Any) -> None:
    with pytest.raises(OptionsError, match="given with search="):
        _verifier(tmp_path)(pipeline, feed, search=search, **given)


def test_argument_that_nobody_knows_is_an_error(tmp_path: Path) -> None:
    verifier: Any = _verifier(tmp_path)
    with pytest.raises(TypeError, match="takes no argument 'exampels' for a pipeline"):
        verifier(pipeline, feed, exampels=3)


@pytest.mark.spark
def test_pipeline_on_spark_has_to_be_importable_with_its_feed(tmp_path: Path) -> None:
    verify: Any = _verifier(tmp_path)
    with pytest.raises(OptionsError, match="here or spark, for a pipeline"):
        verify(pipeline, feed, on="both")
    with pytest.raises(TargetError, match="no module has both it and its feed"):
        verify(pipeline.copy(), feed, on="spark")


@pytest.mark.spark
def test_pipeline_on_spark_is_tried_as_a_hosted_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace_properties.spark_jobs.targets import SparkReport, SparkTarget  # noqa: PLC0415  it needs PySpark

    tried: list[SparkTarget] = []

    def verify(target: SparkTarget, **how: Any) -> SparkReport:
        tried.append(target)
        assert (target.kind, how["allow_unknown"]) == (TargetKind.HOSTED, {"kept"})
        return SparkReport(target.name, None, None)

    monkeypatch.setattr(SparkTarget, "verify", verify)
    given: Any = {"on": "spark", "seed": 7, "promises": [many_rows], "postgres": "postgresql://h"}
    _verifier(tmp_path, "kept")(turnstiles.pipeline, turnstiles.feed, **given)
    (target,) = tried
    assert (target.name, target.feed_seed) == (f"{turnstiles.__name__}:pipeline", 7)
    assert (target.promises, target.laboratory and target.laboratory.postgres) == (
        (many_rows,),
        "postgresql://h",
    )


@pytest.mark.spark
def test_setting_allows_what_no_run_of_a_spark_job_tests(tmp_path: Path) -> None:
    given: dict[str, Any] = {"schema": SCHEMA, "promises": [many_rows]}
    with pytest.raises(NotExercisedError) as failure:
        _verifier(tmp_path)(query, ROWS, **given)
    told = "headrace_allow_unknown = many_rows. And the promise many_rows never came true"
    assert str(failure.value).endswith(told)
    assert _verifier(tmp_path, "many_rows")(query, ROWS, **given).unknown == ()


def without_checkpoint(spark: Any) -> Any:
    return spark.readStream.schema(SCHEMA).json("in").writeStream.foreachBatch(write).start()


@pytest.mark.spark
def test_question_about_settings_is_answered_by_name(tmp_path: Path) -> None:
    with pytest.raises(NotExercisedError, match="has no checkpointLocation"):
        _verifier(tmp_path)(without_checkpoint, ROWS)
    _verifier(tmp_path)(without_checkpoint, ROWS, settings=("checkpoint",))


PROGRAM = """
import os, sys
from datetime import datetime
from pyspark.sql import SparkSession

feed = [[(datetime(2024, 1, 1), 1)]]

def write(df, batch_id):
    open(sys.argv[1], "a").write(os.environ["LINE"] * df.count())

rows = SparkSession.builder.getOrCreate().readStream.format("rate").load()
rows.writeStream.foreachBatch(write).queryName("rows").start().awaitTermination()
"""


@pytest.mark.spark
def test_file_of_a_program_is_a_target(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(PROGRAM)
    verifier = _verifier(tmp_path / "kept")
    with pytest.raises(InvariantViolatedError, match="breaks each row exactly once") as failure:
        verifier(job, args=["rows.txt"], env={"LINE": "row\n"})
    assert "headrace replay" in str(failure.value)
    job.write_text(PROGRAM.replace("sys.argv[1]", "f'{batch_id}.txt'").replace('"a"', '"w"'))
    done = verifier(str(job), env={"LINE": "row\n"}, query="rows")
    assert [part.source.query for part in done.parts] == ["rows"]


GATES = """
import sqlite3
from headrace import SECOND, Computation, Pipeline
from headrace_sim.feed import FeedBuilder

class Gate(Computation):
    def process_record(self, context, record):
        context.produce("passed", record.value)

pipeline = Pipeline("gates")
pipeline.injector("passages")
pipeline.add(Gate(), name="gate", inputs=["passages"], outputs=["passed"])

def feed(seed):
    builder = FeedBuilder(pipeline)
    for number in range(2):
        builder.record(at_us=SECOND, value=number, timestamp=SECOND, key=f"k{number}")
    return builder.build()

def sink(df, batch_id):
    with sqlite3.connect("passed.db") as db:
        db.execute("CREATE TABLE IF NOT EXISTS passed (key TEXT)")
        db.executemany("INSERT INTO passed VALUES (?)", [(row.key,) for row in df.collect()])
"""


@pytest.mark.spark
@pytest.mark.nightly
def test_pipeline_on_spark_is_struck_at_each_crash_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gates.py").write_text(GATES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    gates: Any = importlib.import_module("gates")
    with pytest.raises(InvariantViolatedError, match=r"passed has .*key='k0'.* once too often"):
        _verifier(tmp_path / "kept")(gates.pipeline, gates.feed, on="spark")
