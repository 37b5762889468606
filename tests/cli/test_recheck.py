"""``headrace recheck``: the gate before a deployment."""

import json
from pathlib import Path

import pytest

from tests.cli.rig import Run, plain

CHANGED = """
import views
from headrace import Computation


class CountTwice(views.CountViews):
    def process_record(self, context, record):
        super().process_record(context, record)
        if record.value == 0 and record.timestamp > 3_000_000 and record.key == "b":
            super().process_record(context, record)


pipeline = views.build(CountTwice())
"""


@pytest.fixture
def recorded(folder: Path, run: Run) -> Path:
    assert run("run", "views:pipeline", "--history", "yesterday.jsonl").exit_code == 0
    return folder / "yesterday.jsonl"


def test_the_same_code_holds(run: Run, recorded: Path) -> None:
    result = run("recheck", "yesterday.jsonl", "views:pipeline", "--plans", "2")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (
        0,
        "HOLDS: views:pipeline reproduces what was recorded",
    )
    assert "3 runs compared" in result.stdout


def test_changed_code_is_exit_1_with_the_decoded_differences(folder: Path, run: Run, recorded: Path) -> None:
    (folder / "changed.py").write_text(CHANGED)
    result = run("recheck", "yesterday.jsonl", "changed:pipeline", "--plans", "0")
    assert result.exit_code == 1
    assert "In a recorded step: the step of 'counter' for key 'b', on the state {" in result.stdout
    assert "  from:\n    stream=views key='b' timestamp=3.150000s value=0\n" in result.stdout
    document = json.loads(run("recheck", "yesterday.jsonl", "changed:pipeline", "--json").stdout)
    assert (document["result"], len(document["differences"])) == ("violated", 2)


def test_a_recording_that_was_cut_is_refused(run: Run, recorded: Path) -> None:
    data = recorded.read_bytes()
    recorded.write_bytes(data[: len(data) // 2])
    result = run("recheck", "yesterday.jsonl", "views:pipeline")
    assert result.exit_code == 2
    assert "truncated" in plain(result.stderr)
