"""Programs are run as their owners run them, up to their end, and start nothing."""

import importlib
import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from headrace_sim.spark.client.query_lives import LIFE_S, MOST_STARTS
from headrace_sim.spark.client.script_needs import ProgramError, stand_ins
from headrace_sim.spark.client.script_time import script_time
from headrace_sim.spark.client.scripts import Script, ScriptRun, run_script, surroundings
from headrace_sim.spark.refusals import CannotFollowError
from headrace_sim.spark.stores.client_modules import is_made

_BEGIN = """\
import os, sys, time, threading
from pyspark.sql import SparkSession
spark = SparkSession.builder.appName("orders").getOrCreate()
rate = spark.readStream.format("rate").load()
def write(df, batch_id): pass
def start(name="orders"):
    return rate.writeStream.foreachBatch(write).queryName(name).start()
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def run(
        text: str, *arguments: str, begin: str = _BEGIN, file: str = "job.py", **options: Any
    ) -> ScriptRun:
        Path(file).write_text(begin + text)
        script = Script(file, arguments, **options)
        with surroundings(script) as module:
            return run_script(script, module)

    return run


def _names(run: ScriptRun) -> list[str]:
    return [job.sink.name for job in run.queries]


def test_module_level_and_main_block_run(run: Any) -> None:
    done = run("""
first = start("module level")
if __name__ == "__main__":
    start(sys.argv[1])
""", "main block")  # fmt: skip
    assert _names(done) == ["module level", "main block"]
    assert [job.sink.place.rpartition("/")[2] for job in done.queries] == ["job.py:7", "job.py:7"]
    assert not done.notes + done.unknown


def test_program_is_alone_with_its_arguments_environment_and_folder(run: Any, tmp_path: Path) -> None:
    before = (sys.argv, list(sys.path), sys.modules["__main__"], time.sleep)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "names_of_topics.py").write_text("TOPIC = 'orders'")
    (tmp_path / "shared_by_jobs").mkdir()
    (tmp_path / "shared_by_jobs" / "names.py").write_text("NAME = 'beside its folder'")
    (tmp_path / "config.json").write_text(json.dumps({"name": "from a file"}))
    done = run("""
import json, names_of_topics, shared_by_jobs.names
from pathlib import Path
assert sys.argv == ["jobs/deployment_settings.py", "--fast"] and Path(__file__).is_absolute()
assert sys.modules["__main__"].write is write
start(names_of_topics.TOPIC), start(os.environ["NAME"]), start(json.loads(Path("config.json").read_text())["name"])
start(shared_by_jobs.names.NAME)
""", "--fast", file="jobs/deployment_settings.py", environment={"NAME": "given"})  # fmt: skip
    assert _names(done) == ["orders", "given", "from a file", "beside its folder"]
    assert (sys.argv, sys.path, sys.modules["__main__"], time.sleep) == before


WAITS = {
    "awaits": "start().awaitTermination()",
    "awaits any": "start(); spark.streams.awaitAnyTermination()",
    "looks": "query = start()\nwhile query.isActive: time.sleep(10)",
    "looks at the status": "query = start()\nwhile query.isActive: print(query.status, query.lastProgress)",
    "awaits for a while": "query = start()\nwhile not query.awaitTermination(timeout=5): print(query.lastProgress)",
    "goes on alone": "query = start()\nwhile spark.streams.active: time.sleep(3600)",
    "waits for a day": "start()\nbegan = time.time()\nwhile time.time() < began + 86400: time.sleep(60)",
    "waits till tomorrow": "import datetime as d\nstart()\nend = d.datetime.now() + d.timedelta(days=1)\n"
    "while d.datetime.now() < end: time.sleep(600)",
    "exits": "start()\nsys.exit()",
    "exits well": "start()\nsys.exit(0)",
    "stops": "start().stop()\nspark.stop()",
    "uses a notebook": "start()\ndisplay(rate)\nsc.setLogLevel('WARN')\ndbutils.notebook.exit('ok')",
    "reads progress": "query = start()\ntime.sleep(30)\n"
    "assert query.lastProgress['batchId'] == 2 and query.recentProgress[0]['numInputRows'] >= 0",
    "asynchronously": "import asyncio\nasync def main():\n    start()\n    await asyncio.sleep(3600)\nasyncio.run(main())",
    "an event that is set": "query, done = start(), threading.Event()\n"
    "threading.Thread(target=lambda: (query.awaitTermination(), done.set())).start()\ndone.wait()",
}  # fmt: skip


@pytest.mark.parametrize("name", WAITS)
def test_program_that_waits_runs_to_its_end(run: Any, name: str) -> None:
    done = run(WAITS[name])
    assert _names(done) == ["orders"]
    assert not done.notes + done.unknown


FOREVER = {
    "sleeps": "query = start()\nwhile True:\n    time.sleep(10)",
    "takes the end": "query = start()\ntry:\n    while True:\n        time.sleep(1)\n"
    "except KeyboardInterrupt:\n    query.stop()\nstart('last')",
    "watches over it": "while True:\n    query = start()\n    query.awaitTermination()",
    "waits for an event": "start()\nstop = threading.Event()\nwhile not stop.is_set():\n    stop.wait(5)",
}


@pytest.mark.parametrize("name", FOREVER)
def test_wait_without_an_end_is_ended_and_told(run: Any, name: str) -> None:
    done = run(FOREVER[name])
    assert _names(done)[0] == "orders"
    (note,) = done.notes
    assert re.fullmatch(r"it waits at job.py:\d+ until somebody ends it: that was done", note)
    assert not done.unknown


def test_queries_of_threads_are_taken(run: Any) -> None:
    before = threading.active_count()
    done = run("""
def watch(name):
    query = start(name)
    while query.isActive:
        time.sleep(10)
    query.awaitTermination()
threads = [threading.Thread(target=watch, args=(f"q{number}",)) for number in range(3)]
for thread in threads:
    thread.start()
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor() as pool:
    list(pool.map(watch, ["p0", "p1"]))
""")
    assert sorted(_names(done)) == ["p0", "p1", "q0", "q1", "q2"]
    assert not done.notes
    assert threading.active_count() <= before + 1


def test_query_behind_the_end_of_another_is_told(run: Any) -> None:
    waits = "start('first').awaitTermination()\nstart('second').awaitTermination()"
    (note,) = run(waits).notes
    assert "is started once that of job.py:7 has ended" in note
    ends = waits.replace(
        "start('first')", "rate.writeStream.trigger(availableNow=True).foreachBatch(write).start()"
    )
    assert not run(ends).notes


def test_second_active_query_of_a_name_is_refused_as_by_spark(run: Any) -> None:
    done = run("start()\nstart()")
    assert done.refused.place == "job.py:7"
    assert "Cannot start query with name orders as a query with that name is already active" in str(
        done.refused
    )
    assert _names(run("start().stop()\nstart()")) == ["orders"]


def test_what_spark_refuses_ends_the_program(run: Any) -> None:
    done = run("rate.select('nothing').writeStream.format('console').start()")
    assert (done.queries, done.refused.place) == ((), "job.py:8")
    caught = run("from pyspark.errors import AnalysisException\ntry:\n    rate.select('nothing')\n"
        "except AnalysisException:\n    start()")  # fmt: skip
    assert (_names(caught), caught.refused) == (["orders"], None)


def test_table_that_is_there_before_the_job_has_rows_for_its_schema(run: Any) -> None:
    done = run("""
own = spark.read.schema("code STRING, rate DOUBLE").json("s3://lake/rates")
url = "jdbc:postgresql://h/d"
told = spark.read.jdbc(url, "(SELECT id, 'a/b' AS region FROM places) AS regions")
rate.writeStream.format("delta").option("path", "/lake/seen").start()
assert [len(frame.collect()) for frame in (own, told, spark.read.format("delta").load("/lake/seen"))] == [3, 3, 3]
assert told.columns == ["id", "region"]
""", schemas={"regions": "id INT, region STRING"})  # fmt: skip
    assert not done.unknown


def test_view_of_a_query_to_memory_is_there_and_empty(run: Any) -> None:
    done = run("""
query = rate.writeStream.format("memory").queryName("Seen").start()
assert spark.table("seen").count() == 0 and spark.table("seen").columns == rate.columns
""")
    assert _names(done) == ["Seen"]


def test_methods_closures_and_lambdas_are_sinks(run: Any) -> None:
    done = run("""
class Job:
    def __init__(self, table):
        self.table = table
    def write(self, df, batch_id):
        return self.table
def main():
    def nested(df, batch_id):
        return write(df, batch_id)
    for function in (Job("t").write, nested, lambda df, batch_id: write(df, batch_id)):
        rate.writeStream.foreachBatch(function).start()
main()
""")
    assert [job.sink.function.__name__ for job in done.queries] == ["write", "nested", "<lambda>"]


CONTEXTS = """
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
conf = SparkConf().setMaster("local[2]").setAppName("mine").set("spark.sql.shuffle.partitions", "4")
context = SparkContext(conf=conf)
assert (context.appName, context.master) == ("mine", "local[2]"), context.appName
assert context.getConf().get("spark.app.name") == "mine"
assert SparkContext.getOrCreate().applicationId and context.broadcast([1]).value == [1]
spark = SparkSession.builder.config(conf=conf).config(map={"my.own": "1"}).enableHiveSupport().getOrCreate()
assert spark.conf.get("my.own") == "1" and spark.conf.get("spark.sql.shuffle.partitions") == "4"
assert SparkSession.getActiveSession() is not None
rate = (SparkSession(context) if new else spark).readStream.format("rate").load()
with SparkContext.getOrCreate() as same:
    rate.writeStream.format("console").start()
"""


PLATFORM = """\
# Databricks notebook source
root = os.path.dirname(dbutils.notebook.entry_point.getDbutils().notebook().getContext().notebookPath().get())
assert root == os.path.dirname(sys.argv[0]) and os.path.join(dbutils.anything.else_(), "x")
sc._jsc.hadoopConfiguration().set("fs.s3a.endpoint", "minio:9000")
assert sc._jvm.org.apache.spark.eventhubs.EventHubsUtils.encrypt("Endpoint=sb://h") == "Endpoint=sb://h"
assert "StateStoreProvider" in spark.conf.get("spark.sql.streaming.stateStore.providerClass")
from pyspark.sql import functions as F
files = spark.readStream.format("cloudFiles").option("cloudFiles.format", "text").load("/landing")
named = files.withColumn("file", F.input_file_name()).withColumn("at", F.col("_metadata.file_modification_time"))
assert named.columns == ["value", "file", "at"] and dict(named.dtypes)["at"] == "timestamp"
bodies = spark.readStream.format("eventhubs").load().selectExpr("CAST(body AS STRING) AS body")
assert bodies.selectExpr("body:sensor.id", "CAST(body:celsius AS INT) AS celsius").columns == ["id", "celsius"]
named.writeStream.trigger(continuous="1 second").option("checkpointLocation", "/c").table("bronze.lines")
"""


def test_what_platforms_have_is_there(run: Any) -> None:
    (job,) = run(PLATFORM).queries
    assert (job.sink.target, job.sink.trigger[0]) == ("bronze.lines", "continuous")


@pytest.mark.parametrize("new", [False, True])
def test_contexts_and_sessions_come_in_all_forms(run: Any, new: bool) -> None:
    assert len(run(CONTEXTS, begin=f"new = {new}").queries) == 1


def test_work_on_rdds_is_refused_with_its_line(run: Any) -> None:
    with pytest.raises(CannotFollowError, match=r"job.py:\d+: cannot follow SparkContext.parallelize"):
        run("spark.sparkContext.parallelize([1])\nstart()")
    with pytest.raises(CannotFollowError, match="parallelize"):
        run("try:\n    spark.sparkContext.parallelize([1])\n    start()\nexcept Exception:\n    pass")


LISTENER = """
from pyspark.sql.streaming import StreamingQueryListener
told = []
class Metrics(StreamingQueryListener):
    def onQueryStarted(self, event):
        told.append(("started", event.name))
    def onQueryProgress(self, event):
        progress = event.progress
        told.append((progress.batchId, progress.numInputRows, len(progress.sources), progress.sink.numOutputRows))
        {more}
    def onQueryTerminated(self, event):
        told.append(("ended", event.exception))
spark.streams.addListener(Metrics())
start()
"""


@pytest.mark.parametrize(
    ("more", "note"), [("pass", None), ("1 / 0", "job.py:17: onQueryProgress raises ZeroDivisionError")]
)
def test_listeners_are_told_and_what_they_raise_ends_nothing(run: Any, more: str, note: str | None) -> None:
    done = run(LISTENER.format(more=more))
    batches = [(0, 1, 1, 1), (1, 1, 1, 1)]
    assert done.variables["told"] == [("started", "orders"), *batches, ("ended", None)]
    first, *rest = done.notes
    assert "Spark calls the listener Metrics beside the batches" in first
    assert [other.startswith(str(note)) for other in rest] == [True] * (note is not None)
    assert _names(done) == ["orders"]


def test_listener_is_told_what_a_stream_observes(run: Any) -> None:
    observed = 'from pyspark.sql import functions as F\nrate = rate.observe("seen", F.count("*").alias("rows"), F.max("value"))'
    more = 'told.append(progress.observedMetrics["seen"].rows)'
    done = run(observed + LISTENER.format(more=more))
    assert done.variables["told"].count(1) == 2
    assert len(done.notes) == 1


def test_listener_that_was_removed_is_told_nothing(run: Any) -> None:
    done = run(LISTENER.format(more="pass").replace("addListener(Metrics())", "removeListener(Metrics())"))
    assert (done.variables["told"], done.notes) == ([], ())


LACKS = {
    "a variable": ('os.environ["BROKERS"]', "job.py:8: .*BROKERS.*Give it: --env BROKERS=...$"),
    "a variable that is None": (
        'os.getenv("BROKERS").split(",")',
        "raises AttributeError.*--env BROKERS=...$",
    ),
    "a variable that is empty": (
        'if not os.environ.get("SALT", ""): raise OSError("no salt")',
        "raises OSError: no salt.*--env SALT=...$",
    ),
    "a widget": (
        'dbutils.widgets.get("brokers")',
        "job.py:8: the widget 'brokers' has no value. Give it: --env brokers=",
    ),
    "a module": (
        "import no_such_thing.at_all",
        "job.py:8: there is no module 'no_such_thing'.*--stand-in no_such_thing$",
    ),
    "an argument": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--topic', required=True)\np.parse_args()",
        "the following arguments are required: --topic.*Give its arguments behind --",
    ),
    "a query": (
        "print(1)",
        "job.py: it starts no query. Name the function that does: headrace verify job:start",
    ),
    "a query behind a function with hints": (
        "from pyspark.sql.functions import udf\ndef lower(text: str) -> str: return text.lower()\nudf(lower)",
        "job.py: it starts no query",
    ),
    "a platform": ("import dlt", "job.py:8: a pipeline of Delta Live Tables runs on its platform alone"),
    "a model": (
        "from pyspark.ml import PipelineModel\nPipelineModel.load('models/fraud')",
        r"job.py:9: cannot follow a model of pyspark.ml \(models/fraud/metadata\)",
    ),
    "a schema of a source without a path": (
        "spark.readStream.format('pulsar').load()",
        "job.py:8: .* or give it: --schema 'word STRING'",
    ),
    "a table that a query of JDBC reads": (
        "spark.read.jdbc('jdbc:postgresql://db', '(SELECT max(n) FROM orders) AS o').first()",
        "job.py:8: cannot follow reading orders.* --schema 'orders=word STRING'",
    ),
    "sense": ("1 / 0", "job.py:8: it raises ZeroDivisionError: division by zero"),
    "success": (
        "sys.exit(3)",
        "job.py:8: it ends itself, with exit code 3. If it lacks arguments, .* -- ...$",
    ),
    "what it catches": ("try: 1 / 0\nexcept Exception: sys.exit(3)", "job.py:8: it raises ZeroDivisionError"),
    "a schema": (
        """from pyspark.sql.functions import *
rows = spark.readStream.format('delta').load('/lake/orders')
rows.withColumn('big', col('amount') > 9).filter(col('big') & col('id').isNotNull())
""",
        "job.py:9: .*without Spark. Give it: --schema 'orders=amount STRING, id STRING'$",
    ),
    "a table": (
        "try: spark.read.parquet('s3://lake/regions')\nexcept Exception: sys.exit()",
        "job.py:8: cannot follow reading s3://lake/regions.* --schema 'regions=word STRING'",
    ),
    "syntax": ("if", "job.py:8: it cannot be compiled: invalid syntax"),
}


@pytest.mark.parametrize("name", LACKS)
def test_what_a_program_lacks_is_named_with_its_line_and_the_option_that_gives_it(
    run: Any, name: str
) -> None:
    text, message = LACKS[name]
    with pytest.raises((ProgramError, CannotFollowError), match=f"(?s){message}"):
        run(text)


def test_variable_with_a_default_is_not_missed(run: Any) -> None:
    with pytest.raises(ProgramError, match="Fix it so that Python runs it"):
        run("os.getenv('BROKERS', 'b:1'), os.environ.get('TOPIC', 't')\n1 / 0")


def test_failure_behind_a_query_leaves_the_rest_unseen(run: Any) -> None:
    done = run("start()\n1 / 0")
    assert _names(done) == ["orders"]
    assert "job.py:9: it raises ZeroDivisionError" in done.unknown[0]


def test_look_at_what_only_a_batch_makes_is_noted_behind_the_last_query(run: Any) -> None:
    done = run("start().awaitTermination()\nspark.table('made').show()\nprint('done')")
    assert not done.unknown
    assert "behind its queries: job.py:9: cannot follow reading made" in done.notes[-1]
    assert run("start()\nspark.table('made').show()\nrate.writeStream.format('console').start()").unknown


def test_missing_module_that_only_talks_is_replaced(run: Any) -> None:
    done = run("""
from prometheus_client import Counter, start_http_server
from delta import configure_spark_with_delta_pip
import loguru, pyspark.dbutils
class Metric(Counter):
    pass
start_http_server(8000)
seen = Counter("seen", "rows").labels(topic="x")
with seen.time():
    loguru.logger.info("started")
spark = configure_spark_with_delta_pip(SparkSession.builder).getOrCreate()
@loguru.logger.catch
def main():
    start()
main()
""")
    assert _names(done) == ["orders"]
    assert "prometheus_client" not in sys.modules


def test_named_module_is_replaced_and_forgotten(run: Any) -> None:
    done = run(
        "import json, acme.alerts as alerts\nalerts.tell('x')\nstart(str(json))", stand_ins=("acme", "json")
    )
    assert "stand-in" in _names(done)[0] or "json" in _names(done)[0]
    assert (sys.modules["json"], "acme" in sys.modules) == (json, False)


def test_module_is_run_by_its_name(run: Any, tmp_path: Path) -> None:
    (tmp_path / "package_of_jobs").mkdir()
    (tmp_path / "package_of_jobs" / "__init__.py").write_text("")
    (tmp_path / "package_of_jobs" / "names.py").write_text("NAME = 'relative'")
    (tmp_path / "package_of_jobs" / "__main__.py").write_text(f"{_BEGIN}from .names import NAME\nstart(NAME)")
    for name in ("package_of_jobs", "package_of_jobs.__main__"):
        script = Script(name)
        with surroundings(script) as module:
            assert _names(run_script(script, module)) == ["relative"]
    with (
        pytest.raises(ProgramError, match="no module 'no_such_package' to run"),
        surroundings(Script("no_such_package")),
    ):
        pass


def test_notebook_of_jupyter_is_a_program(run: Any) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Orders"]},
        {"cell_type": "code", "source": ["%pip install delta\n", *_BEGIN.splitlines(keepends=True)]},
        {"cell_type": "code", "source": ["start('notebook')"]},
    ]
    assert _names(run(json.dumps({"cells": cells}), begin="", file="job.ipynb")) == ["notebook"]


def test_what_a_program_imported_from_time_works_once_it_has_ended(run: Any) -> None:
    done = run(f"from time import sleep, monotonic\nstart()\nfor _ in range(900): sleep({LIFE_S})")
    for _ in range(200):
        done.variables["sleep"](0)
    assert done.variables["monotonic"]() > 0
    assert MOST_STARTS > 1


def test_client_that_is_missing_has_a_stand_in_within_the_surroundings_of_another_program() -> None:
    with stand_ins(), stand_ins():  # as a driver of the laboratory has them
        client = importlib.import_module("pymysql")
    assert is_made(client)


def test_a_thread_that_was_there_before_the_script_moves_no_clock_of_it() -> None:
    begun, slept = threading.Event(), threading.Event()

    def wait() -> None:  # as the thread does that forgets objects of Java
        begun.wait()
        time.sleep(0.001)
        slept.set()

    thread = threading.Thread(target=wait)
    thread.start()
    with script_time() as passing:
        begun.set()
        thread.join()
        assert slept.is_set()
        assert passing.passed_s == 0
        time.sleep(1)
        assert passing.passed_s == 1
