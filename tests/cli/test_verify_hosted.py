"""``headrace verify MODULE:PIPELINE --on spark``: Headrace's own host on the real Spark, which dies at each of its effects."""

import json
from pathlib import Path

import pytest

from tests.cli.rig import VIEWS, Run

pytestmark = pytest.mark.spark

APPENDED = """
import sqlite3

from views import feed, pipeline


def sink(df, batch_id):
    rows = [(row.stream, row.key, bytes(row.value)) for row in df.collect()]
    with sqlite3.connect("counts.db") as db:
        db.execute("CREATE TABLE IF NOT EXISTS counts (stream TEXT, key TEXT, value BLOB)")
        db.executemany("INSERT INTO counts VALUES (?, ?, ?)", rows)
"""
PROMISED = """
from headrace_properties.promises import at_end
from headrace_sim import FeedSource
from views import feed, pipeline

source = FeedSource(once=False)


@at_end
def nothing_is_counted(moment):
    assert not moment.outputs("counts")


promises = [nothing_is_counted]
"""


@pytest.fixture
def views(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_NO_COLOR", "1")
    Path("views.py").write_text(VIEWS)
    return folder


@pytest.mark.nightly
def test_rows_are_doubled_by_a_sink_that_lets_any_driver_add_them(views: Path, run: Run) -> None:
    Path("appended.py").write_text(APPENDED)
    result = run("verify", "appended:pipeline", "--on", "spark", "--json")
    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    assert {finding["kind"] for finding in document["findings"]} == {"twice"}
    assert document["findings"][0]["place"]["file"].endswith("appended.py")
    again = run("replay", document["findings"][0]["replay_file"], "--explain")
    assert again.exit_code == 1, again.output
    assert "VIOLATED again" in again.output
    assert not list(views.glob("*.db"))


@pytest.mark.nightly
def test_the_host_and_its_own_sink_hold_at_every_crash_point(views: Path, run: Run) -> None:
    result = run("verify", "views:pipeline", "--on", "spark", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["trials"] > 20
    assert any("states were compared with the reference" in note for note in document["notes"])
    assert not list(views.glob("*.sqlite"))


@pytest.mark.nightly
def test_a_promise_is_judged_on_the_history_of_the_real_run_and_what_the_source_promises_is_heeded(
    views: Path, run: Run
) -> None:
    Path("promised.py").write_text(PROMISED)
    result = run("verify", "promised:pipeline", "--on", "spark", "--json")
    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    assert [finding["kind"] for finding in document["findings"]] == ["nothing_is_counted", "counts-again"]
    assert document["assumed"] == "records may arrive again, in any order"
