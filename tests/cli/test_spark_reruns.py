"""A finding about a Spark job is kept, replayed, explained and tried first the next time, as any other failure is."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.rig import Run

pytestmark = pytest.mark.spark  # it needs PySpark, though not Java

WRITES = """with open("prices.txt", "a") as file:
        file.write("".join(f"{row}\\n" for row in df.collect()))"""
JOB = """
from datetime import datetime
from pathlib import Path

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor


class LastPrice(StatefulProcessor):
    def init(self, handle):
        self.last = handle.getValueState("last", "price INT")

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            self.last.update((row.price,))
            yield Row(symbol=key[0], price=row.price)

    def close(self):
        pass


def write(df, batch_id):
    {WRITES}


def job(ticks):
    prices = ticks.groupBy("symbol").transformWithState(LastPrice(), "symbol STRING, price INT", "append", "none")
    return prices.writeStream.foreachBatch(write).start()


feed = [[("a", 1), ("b", 2), ("a", 3)]]
""".replace("{WRITES}", WRITES)
VERIFY = (
    "verify",
    "prices:job",
    "--schema",
    "symbol STRING, price INT",
    "--allow",
    "growth",
    "--examples",
    "30",
)
KEPT = ".headrace/failures/prices.job"
SAFE = 'Path("new").write_text(str(df.collect()))\n    Path("new").replace(f"{batch_id}.txt")'


_found: dict[str, bytes] = {}


@pytest.fixture
def prices(folder: Path, run: Run) -> Path:
    """A directory in which the job has been verified. That is done once, as it takes seconds."""
    (folder / "prices.py").write_text(JOB)
    if not _found:
        done = run(*VERIFY)
        assert done.exit_code == 1, done.output
        assert "headrace replay .headrace/failures/prices.job/headrace-failure-" in done.output
        _found.update({path.name: path.read_bytes() for path in (folder / KEPT).glob("*.json")})
    (folder / KEPT).mkdir(parents=True, exist_ok=True)
    for name, content in _found.items():
        (folder / KEPT / name).write_bytes(content)
    return folder


def _kept(folder: Path) -> dict[str, Path]:
    """The kept files, by the name of the finding."""
    found = {}
    for path in (folder / KEPT).glob("*.json"):
        (names,) = json.loads(path.read_bytes())["found"].values()
        found[next(iter(names))] = path
    return found


def _edit(folder: Path, old: str, new: str) -> None:
    """Change the module as an editor would, and reimport it."""
    text = (folder / "prices.py").read_text()
    assert old in text
    (folder / "prices.py").write_text(text.replace(old, new))
    sys.modules.pop("prices", None)


def test_findings_are_replayed_with_the_rows_that_they_need(prices: Path, run: Run) -> None:
    kept = _kept(prices)
    assert sorted(kept) == ["order", "twice"]
    document = json.loads(kept["order"].read_bytes())
    assert document["trial"]["kept"] == [0, 2]
    for name, said, code in (("order", "UNDECLARED again", 3), ("twice", "VIOLATED again", 1)):
        again = run("replay", str(kept[name]))
        assert (again.exit_code, said in again.output) == (code, True), again.output


def test_explanation_shows_both_outcomes_and_where_they_diverge(prices: Path, run: Run) -> None:
    kept = _kept(prices)
    told = run("replay", str(kept["order"]), "--explain").output
    for line in (
        "a: last.update((1,))  (prices.py:15)",
        "= last of ('a',) is (3,)",
        "= last of ('a',) is (1,)",
        "undisturbed: a: last.update((1,))",
        "then:        a: last.update((3,))",
    ):
        assert line in told, told
    assert "driver 2, batch 0: write on prices.txt" in run("replay", str(kept["twice"]), "--explain").output
    document = json.loads(run("replay", str(kept["order"]), "--explain", "--json").stdout)
    assert document["explanation"]["runs"][0]["title"] == "Undisturbed"


def test_fixed_findings_are_retired_and_others_reported_again(prices: Path, run: Run) -> None:
    twice = _kept(prices)["twice"]
    _edit(prices, WRITES, SAFE)
    assert run("replay", str(twice)).exit_code == 3  # nothing is violated, but the code has changed
    again = run(*VERIFY)
    assert again.exit_code == 3
    assert "no longer violates each row exactly once (twice); its code changed; moved to" in again.output
    assert "undeclared again: the same outcome always (order)" in again.output
    assert not twice.exists()


def test_kept_finding_is_found_without_any_schedule(prices: Path, run: Run) -> None:
    found = run(*VERIFY[:-1], "1")
    assert "UNDECLARED: the same outcome always (order)" in found.output


@pytest.mark.parametrize(
    ("part", "change", "told"),
    [
        ("trial", {"kept": [0, 99]}, "it needs row 99, and the input has 3 rows"),
        ("trial", {"type": "code"}, "its trial is not one of its source"),
        ("trial", {"feed_seed": "x"}, "int is expected"),
        ("source", {"type": "cobol"}, "Invalid value 'cobol'"),
    ],
)
def test_implausible_file_is_refused(
    prices: Path, run: Run, part: str, change: dict[str, object], told: str
) -> None:
    path = _kept(prices)["order"]
    content = json.loads(path.read_bytes())
    content[part] |= change
    (prices / "edited.json").write_text(json.dumps(content))
    done = run("replay", "edited.json")
    assert (done.exit_code, told in done.output) == (2, True), done.output


def _page(path: Path) -> Any:
    """The data of a page."""
    return json.loads(path.read_text().split('id="data">', 1)[1].split("</script>", 1)[0])


def test_page_shows_both_runs_with_what_is_there_behind_each_step(prices: Path, run: Run) -> None:
    kept = _kept(prices)
    assert run("replay", str(kept["order"]), "--html", "order.html").exit_code == 3
    page = _page(prices / "order.html")
    told = page["verdicts"][1]
    assert (page["told"], told["name"]) == ("both runs", "both runs")
    labels = {page["events"][number]["label"] for number in told["witness"]}
    assert labels == {"a: last.update((1,))  (prices.py:15)", "a: last.update((3,))  (prices.py:15)"}
    (state,) = (table for table in page["outcomes"][0]["tables"] if table["name"] == "state: last")
    assert [row["mark"] for row in state["rows"]] == ["wrong", "missing"]
    assert run("replay", str(kept["twice"]), "--html", "twice.html").exit_code == 1
    page = _page(prices / "twice.html")
    assert [lane["address"] for lane in page["lanes"]] == [
        "undisturbed",
        "driver 1",
        "driver 2",
        "prices.txt",
    ]
    assert [lane["kind"] for lane in page["outages"]] == ["dead"]
    last = page["tables"][str(len(page["events"]) - 1)]
    assert [row["mark"] for row in last[0]["rows"]] == ["", "wrong"]
    again = run("replay", str(kept["order"]), "--html", "order.html")
    assert (again.exit_code, "--force" in again.output) == (2, True), again.output


def test_page_of_a_fixed_finding_says_so(prices: Path, run: Run) -> None:
    path = _kept(prices)["twice"]
    _edit(prices, WRITES, SAFE)
    assert run("replay", str(path), "--html", "twice.html").exit_code == 3
    page = _page(prices / "twice.html")
    assert (page["story"]["moral"], page["events"]) == (["Nothing is violated."], [])


def test_a_job_has_no_diagram(prices: Path, run: Run) -> None:
    done = run("replay", str(_kept(prices)["order"]), "--svg", "x.svg")
    assert (done.exit_code, "it has no History" in done.output) == (2, True)
