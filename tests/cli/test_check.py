"""``headrace check``: a recorded run is judged again, whoever recorded it."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.histories import load_history
from headrace_scenarios.message_log import Bug, write_story
from tests.cli.rig import Run, plain, save_zombie

MODULE = """
from headrace_properties.promises import always

@always(of="counter")
def few(moment):
    assert moment.changed.after < 3, "three clicks"

promises = [few]
"""


@pytest.fixture
def zombie(folder: Path, run: Run) -> Path:
    """The History of a run that violates S6, with its causes."""
    path = folder / "zombie.jsonl"
    assert run("replay", str(save_zombie(folder)), "--history", str(path)).exit_code == 1
    return path


def test_a_history_saved_by_replay_gets_the_same_verdicts(folder: Path, run: Run, zombie: Path) -> None:
    replayed = json.loads(run("replay", str(save_zombie(folder)), "--json").stdout)
    result = run("check", str(zombie), "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert (document["result"], document["pipeline"], document["ended"]) == ("violated", "views", True)
    verdicts = {name: invariant["verdict"] for name, invariant in document["invariants"].items()}
    assert verdicts == {name: invariant["verdict"] for name, invariant in replayed["invariants"].items()}
    (line,) = document["invariants"]["S6"]["lines"][-1:]
    assert '"Applied"' in zombie.read_text().splitlines()[line - 1]
    assert load_history(zombie)[1].activations


def test_the_report_names_the_lines_of_the_witness(run: Run, zombie: Path) -> None:
    result = run("check", str(zombie))
    assert result.stdout.startswith("VIOLATED: S6, S7, S2, S9, S8, S4, L1\n")
    assert "zombie.jsonl: views on the simulated cluster, " in result.stdout
    assert "  S6: see line " in result.stdout


def test_a_run_that_holds_is_saved_by_run_and_holds_when_it_is_checked(folder: Path, run: Run) -> None:
    assert run("run", "views:pipeline", "--history", "held.jsonl").exit_code == 0
    result = run("check", "held.jsonl", "--pipeline", "views:pipeline")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "HOLDS")
    assert run("run", "views:pipeline", "--history", "held.jsonl").exit_code == 2  # it exists


def test_a_pipeline_that_did_not_run_is_refused(folder: Path, run: Run, zombie: Path) -> None:
    (folder / "other.py").write_text(
        "from headrace import Computation, Pipeline\npipeline = Pipeline('other')\npipeline.injector('taps')\n"
        "pipeline.add(Computation(), name='counter', inputs=['taps'])\n"
    )
    result = run("check", str(zombie), "--pipeline", "other:pipeline")
    assert result.exit_code == 2
    assert "which pipeline 'other' does not have. Name the pipeline that ran" in plain(result.stderr)


def test_verify_saves_the_history_of_its_failure(folder: Path, run: Run) -> None:
    arguments = (
        "views:pipeline",
        "--feed",
        "short_feed",
        "--without",
        "sequencers",
        "--history",
        "failure.jsonl",
    )
    assert run("verify", *arguments).exit_code == 1
    assert run("check", "failure.jsonl").exit_code == 1


def test_the_reference_has_no_history_to_save(folder: Path, run: Run) -> None:
    result = run("run", "views:pipeline", "--on", "reference", "--history", "none.jsonl")
    assert result.exit_code == 2
    assert "the reference records no History" in plain(result.stderr)


def test_a_history_of_records_is_judged_and_lists_what_is_unknown(folder: Path, run: Run) -> None:
    write_story(folder / "right.jsonl")
    write_story(folder / "wrong.jsonl", Bug.COMMITS_APART)
    right, wrong = run("check", "right.jsonl"), run("check", "wrong.jsonl")
    assert (right.exit_code, wrong.exit_code) == (0, 1)
    assert "18 further invariants cannot be told from a History of records." in right.stdout
    assert wrong.stdout.startswith("VIOLATED: S2, S5, H4\n")
    assert "H4, all see the same state as of a record: VIOLATED\n  line " in wrong.stdout


def test_a_file_without_anything_to_judge_is_unknown(folder: Path, run: Run) -> None:
    write_story(folder / "all.jsonl")
    (folder / "empty.jsonl").write_text((folder / "all.jsonl").read_text().splitlines()[0] + "\n")
    result = run("check", "empty.jsonl")
    assert result.exit_code == 3
    assert "the run has not ended in it" in result.stdout


def test_what_a_file_leaves_open_is_unknown_and_says_what_answers_it(folder: Path, run: Run) -> None:
    write_story(folder / "all.jsonl")
    lines = [json.loads(line) for line in (folder / "all.jsonl").read_text().splitlines()]
    silent = [line for line in lines if line.get("type") != "out" or line["stage"] != "counter"]
    (folder / "silent.jsonl").write_text("".join(json.dumps(line) + "\n" for line in silent))
    result = run("check", "silent.jsonl")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (3, "UNKNOWN: H8")
    assert (
        "H8, what has outputs sends something: unknown\n  stage 'counter' processed 12 records"
        in result.stdout
    )
    assert '("may_be_silent" of the stage: true or false)' in plain(result.stdout)
    assert json.loads(run("check", "silent.jsonl", "--json").stdout)["result"] == "unknown"


def test_a_question_that_is_answered_is_none_and_what_is_violated_stays_so(folder: Path, run: Run) -> None:
    write_story(folder / "all.jsonl")
    lines = [json.loads(line) for line in (folder / "all.jsonl").read_text().splitlines()]
    silent = [line for line in lines if line.get("type") != "out" or line["stage"] != "counter"]
    (folder / "silent.jsonl").write_text("".join(json.dumps(line) + "\n" for line in silent))
    result = run("check", "silent.jsonl", "--allow", "H8")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "HOLDS")
    assert "what it asks about is meant: --allow" in result.stdout
    doubled = [*silent[:-1], next(line for line in silent if line.get("type") == "in"), silent[-1]]
    (folder / "doubled.jsonl").write_text("".join(json.dumps(line) + "\n" for line in doubled))
    broken = json.loads(run("check", "doubled.jsonl", "--json", "--allow", "H8").stdout)
    names = [name for name, one in broken["invariants"].items() if one["verdict"] == "violated"]
    assert names
    result = run("check", "doubled.jsonl", "--allow", ",".join(["H8", *names]))
    assert result.exit_code == 1
    refused = run("check", "silent.jsonl", "--allow", "H99")
    assert refused.exit_code == 2
    assert "--allow: no check of this file is called 'H99'" in plain(refused.stderr)


def test_promises_judge_a_file(folder: Path, run: Run) -> None:
    (folder / "clicks.py").write_text(MODULE)
    write_story(folder / "right.jsonl")
    result = run("check", "right.jsonl", "--promises", "clicks:promises", "--json")
    assert result.exit_code == 1
    assert "three clicks" in json.loads(result.stdout)["invariants"]["few"]["message"]
    assert run("check", "right.jsonl", "--promises", "clicks:few").exit_code == 1
    missing = run("check", "right.jsonl", "--promises", "clicks:MODULE")
    assert (missing.exit_code, "is not a promise" in plain(missing.stderr)) == (2, True)


def test_a_malformed_line_is_exit_2_with_its_number(folder: Path, run: Run) -> None:
    write_story(folder / "cut.jsonl")
    data = (folder / "cut.jsonl").read_bytes()
    (folder / "cut.jsonl").write_bytes(data[:-5])
    result = run("check", "cut.jsonl")
    assert result.exit_code == 2
    lines = data.count(b"\n")
    assert f"cannot read history cut.jsonl: line {lines}: " in plain(result.stderr)
    assert "truncated here" in plain(result.stderr)


def follow(path: Path) -> subprocess.Popen[str]:
    """Follow a file; return once the command does."""
    command = [sys.executable, "-m", "headrace_cli", "check", str(path), "--follow", "--json"]
    checking = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert checking.stderr is not None
    assert checking.stderr.readline().startswith("Following ")
    return checking


def test_a_growing_file_is_judged_when_its_run_ends(folder: Path) -> None:
    """When the command starts, the last line is cut in the middle."""
    write_story(folder / "all.jsonl")
    data, path = (folder / "all.jsonl").read_bytes(), folder / "growing.jsonl"
    path.write_bytes(data[:2_000])
    checking = follow(path)
    with path.open("ab") as file:
        file.write(data[2_000:])
    printed, errors = checking.communicate(timeout=300)
    assert checking.returncode == 0, errors
    assert json.loads(printed)["ended"] is True


def test_following_ends_at_the_first_violation(folder: Path) -> None:
    """The run continues, but a violation is reported at once."""
    write_story(folder / "wrong.jsonl", Bug.ZOMBIE)
    path = folder / "growing.jsonl"
    path.write_bytes((folder / "wrong.jsonl").read_bytes().rpartition(b'{"type": "end"')[0])
    checking = follow(path)
    printed, errors = checking.communicate(timeout=300)
    assert checking.returncode == 1, errors
    assert json.loads(printed)["ended"] is False


def test_ctrl_c_ends_the_following_with_what_was_found(folder: Path) -> None:
    write_story(folder / "all.jsonl")
    path = folder / "growing.jsonl"
    path.write_bytes((folder / "all.jsonl").read_bytes().rpartition(b'{"type": "end"')[0])
    checking = follow(path)
    checking.send_signal(signal.SIGINT)
    printed, errors = checking.communicate(timeout=300)
    assert checking.returncode == 130, errors
    assert json.loads(printed)["result"] == "interrupted"


def test_an_event_log_of_spark_is_judged_as_it_is(folder: Path, run: Run) -> None:
    log = Path(__file__).parents[1] / "properties" / "histories" / "spark_events.jsonl"
    sound = [line for line in log.read_text().splitlines() if '"name":"sound"' in line]
    (folder / "sound.jsonl").write_text("\n".join(sound))
    result = run("check", "sound.jsonl")
    assert (result.exit_code, result.stdout.splitlines()[:2]) == (
        0,
        ["HOLDS", "sound.jsonl: Spark, streaming queries: 1, micro-batches: 16"],
    )
    result = run("check", str(log))
    assert result.exit_code == 1
    assert "H15, a query that dies goes on: VIOLATED\n  line 96: query 'poison' died" in result.stdout
    document = json.loads(run("check", str(log), "--json").stdout)
    assert document["invariants"]["H13"]["verdict"] == "unknown"
    assert document["queries"][0]["name"] == "sound"
    asked = [name for name, one in document["invariants"].items() if one["verdict"] == "unknown"]
    allowed = json.loads(run("check", str(log), "--json", "--allow", ",".join(asked)).stdout)
    assert allowed["result"] == "violated"
    assert allowed["invariants"]["H13"]["why"] == "what it asks about is meant: --allow"
    refused = run("check", str(log), "--follow")
    assert refused.exit_code == 2
    assert "--follow: a log of Spark has micro-batches" in plain(refused.stderr)
