"""``headrace verify jobs/stream.py``: a program is run as it is, and its queries are judged one by one and together."""

import json
from pathlib import Path

import pytest

from tests.cli.rig import Run

pytestmark = pytest.mark.spark  # it needs PySpark, though not Java

BEGIN = """
import os, sys
from pathlib import Path
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("orders").getOrCreate()
orders = spark.readStream.schema("id INT, item STRING").json(sys.argv[1])


def append(df, batch_id):
    with open("orders.txt", "a") as file:
        file.write("".join(f"{row.id}\\n" for row in df.collect()))


class Files:
    def __init__(self, folder):
        self.folder = Path(folder)

    def write(self, df, batch_id):
        self.folder.mkdir(exist_ok=True)
        Path("new").write_text(str(sorted(df.collect())))
        Path("new").replace(self.folder / f"{batch_id}.txt")


def start(frame, function, name, checkpoint):
    return frame.writeStream.foreachBatch(function).queryName(name).option("checkpointLocation", checkpoint).start()
"""
END = """
if __name__ == "__main__":
    spark.streams.awaitAnyTermination()
"""
FEED = 'feed = [[(1, "cup"), (2, "pot")]]\n'
TWICE = 'start(orders, append, "appends", os.environ["PLACE"])\n'
ONCE = 'start(orders, Files("out").write, "files", "/c/files")\n'
LOOKS = 'orders.writeStream.format("console").start()\n'


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_NO_COLOR", "1")
    Path("jobs").mkdir()
    return Path("jobs/stream.py")


def test_each_query_is_judged_and_replayed_as_its_program_is_run(job: Path, run: Run) -> None:
    job.write_text(BEGIN + FEED + TWICE + ONCE + LOOKS + END)
    asked = ("verify", str(job), "--env", "PLACE=/c/orders")
    result = run(*asked, "--", "/in")
    assert result.exit_code == 1, result.output
    assert "jobs/stream.py, appends: a sink with" in result.output
    assert "jobs/stream.py, files: a sink with" in result.output
    assert "writes to console alone, which is for looking" in result.output
    assert "VIOLATED: appends: each row exactly once (twice)" in result.output
    assert result.stdout.count("VIOLATED") == 1
    (kept,) = Path(".headrace/failures/jobs.stream.py").glob("*.json")
    assert json.loads(kept.read_text())["source"]["query"] == "appends"
    assert "/c/orders" not in kept.read_text()  # it may be a secret
    again = run("replay", str(kept), "--env", "PLACE=/c/orders")
    assert (again.exit_code, "VIOLATED again" in again.output) == (1, True)
    lacking = run("replay", str(kept))
    assert (lacking.exit_code, "--env PLACE=..." in lacking.stderr) == (2, True)
    job.write_text(BEGIN + FEED + ONCE + END)
    fixed = run("verify", str(job), "--json", "--", "/in")
    document = json.loads(fixed.stdout)
    assert (fixed.exit_code, document["result"], document["unknown"]) == (0, "holds", [])
    assert [query["query"] for query in document["queries"]] == ["files"]


def test_only_one_query_may_be_asked_for(job: Path, run: Run) -> None:
    job.write_text(BEGIN + TWICE + ONCE)
    assert run("verify", str(job), "--query", "files", "--env", "PLACE=/c", "--", "/in").exit_code == 0
    wrong = run("verify", str(job), "--query", "fils", "--env", "PLACE=/c", "--", "/in")
    assert (wrong.exit_code, "Its queries are: appends; files" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("jobs/no.py",), "cannot read jobs/no.py"),
        (("-m", "no_such_module"), "there is no module 'no_such_module' to run"),
        (("-m", "jobs/stream.py"), "-m takes a module"),
        (("jobs/stream.py", "--env", "PLACE"), "'PLACE' has no value"),
        (("jobs/stream.py", "--version", "jobs/no.py"), "cannot read jobs/no.py"),
        (("jobs/stream.py", "--feeds", "2"), "left out for a Spark"),
    ],
)
def test_what_is_wrong_with_a_command_is_said(
    job: Path, run: Run, arguments: tuple[str, ...], words: str
) -> None:
    job.write_text(BEGIN.replace("sys.argv[1]", "'/in'") + ONCE)
    result = run("verify", *arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
