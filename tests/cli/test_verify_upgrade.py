"""``headrace verify job.py --version before/job.py``: a Spark job goes on from the checkpoint of the version before."""

from pathlib import Path

import pytest

from tests.cli.rig import Run

pytestmark = pytest.mark.spark  # it needs PySpark, though not Java

JOB = """
from pyspark.sql import Row, SparkSession
from settings import SIGN

spark = SparkSession.builder.getOrCreate()
{more}

class Total:
    def init(self, handle):
        self.total = handle.getValueState("{name}", "total {type}")

    def handleInputRows(self, key, rows, timers):
        total = (self.total.get()[0] if self.total.exists() else 0) + sum({amount} for row in rows)
        self.total.update((total,))
        yield Row(user=key[0], total=SIGN * total)

    def close(self):
        pass


rows = spark.readStream.schema("user STRING, country STRING, amount LONG").json("in")
totals = rows.groupBy("{key}").transformWithState(Total(), "user STRING, total LONG", "update", "none")
totals.writeStream.outputMode("update").format("console").option("checkpointLocation", "c").start().awaitTermination()
"""
BEFORE = {"name": "total", "type": "LONG", "amount": "row.amount", "key": "user", "more": ""}


@pytest.fixture
def before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for folder, sign in (("before", 1), ("now", 1)):
        Path(folder).mkdir()
        Path(folder, "settings.py").write_text(f"SIGN = {sign}\n")
    file = Path("before/job.py")
    file.write_text(JOB.format_map(BEFORE))
    return file


def _verified(run: Run, before: Path, *more: str, **changed: str) -> tuple[int, str]:
    Path("now/job.py").write_text(JOB.format_map(BEFORE | changed))
    result = run(
        "verify",
        "now/job.py",
        "--version",
        str(before),
        "--examples",
        "6",
        "--allow",
        ",".join(["growth", *more]),
    )
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        ({"type": "INT"}, 1, "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"),
        ({"name": "sum"}, 1, "the result of either version started afresh"),
        ({"amount": "1"}, 3, "the result of a fresh start"),
        ({"key": "country"}, 3, "was user, and is read as country"),
    ],
)
def test_state_of_the_version_before_is_judged(
    changed: dict[str, str], code: int, said: str, before: Path, run: Run
) -> None:
    found, output = _verified(run, before, **changed)
    assert (found, said in output) == (code, True), output


def test_what_is_meant_is_not_asked(before: Path, run: Run) -> None:
    assert _verified(run, before, "upgrade", key="country")[0] == 0


def test_version_that_goes_on_where_the_one_before_was_holds(before: Path, run: Run) -> None:
    Path("now/settings.py").write_text("SIGN = -1\n")  # of which each version has its own
    assert _verified(run, before, more="LABEL = 'two'")[0] == 0


def test_upgrade_is_replayed(before: Path, run: Run) -> None:
    _verified(run, before, name="sum")
    (file,) = Path(".headrace/failures").rglob("*.json")
    again = run("replay", str(file), "--explain")
    assert (again.exit_code, "VIOLATED again" in again.output) == (1, True), again.output
    Path("now/job.py").write_text(JOB.format_map(BEFORE))
    again = run("replay", str(file))
    assert "VIOLATED" not in again.output


def test_one_version_before_is_named(before: Path, run: Run) -> None:
    result = run("verify", str(before), "--version", "a.py", "--version", "b.py")
    assert (result.exit_code, "version" in result.output) == (2, True)
