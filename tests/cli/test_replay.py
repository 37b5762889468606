"""``headrace replay``: the same failure, byte for byte, or a report that something has changed."""

import json
import re
import signal
import sys
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headrace_cli.terminal.signals import Stopped
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.replays import REPLAY_FORMAT, ReplayFile
from headrace_properties.search.inevitability import failure_rates
from headrace_properties.search.plans import PLAN_BYTES, decode_plan, ground_of
from headrace_properties.search.plausible import implausible
from tests.cli.rig import MODULES, Run, plain, run_process, save_zombie


def change(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def change_source(path: Path, **changes: Any) -> None:
    change(path, source={**json.loads(path.read_text())["source"], **changes})


def test_the_recorded_run_is_run_again_byte_for_byte_with_the_events_that_prove_it(
    folder: Path, run: Run
) -> None:
    """A paused worker is replaced, wakes up, and writes: the store has no sequencers to refuse it."""
    result = run("replay", str(save_zombie(folder)))
    assert result.exit_code == 1
    assert result.stdout.startswith("VIOLATED again: ")
    assert "The run is the recorded one, byte for byte (History digest " in result.stdout
    assert "views:pipeline, input feed(0), protocol: without sequencers\n" in result.stdout
    assert (
        "\n  0.768750s pause process=worker-0 for=1.220000s\n  5.000000s all faults end\n  seed 0\n"
        in result.stdout
    )
    _, finding = result.stdout.split("\nS6, only the latest owner writes: VIOLATED\n")
    assert "  Witness:\n" in finding
    assert "store: Applied computation='counter'" in finding


def test_another_process_replays_the_same_bytes(folder: Path) -> None:
    done = run_process("replay", save_zombie(folder).name, "--json", cwd=folder)
    assert done.returncode == 1
    assert json.loads(done.stdout)["identical"] is True


def test_json_has_verdicts_and_whole_witnesses(folder: Path, run: Run) -> None:
    path = save_zombie(folder)
    result = run("replay", str(path), "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["result"] == "violated"
    assert document["digest"] == document["recorded_digest"] == json.loads(path.read_text())["digest"]
    assert document["fault_schedule"] == ["0.768750s pause process=worker-0 for=1.220000s"]
    assert document["invariants"]["S6"]["witness"][-1]["type"] == "Applied"
    assert document["error"] == ""


def test_code_that_has_changed_since_is_noticed(folder: Path, run: Run) -> None:
    path = save_zombie(folder)
    change(path, digest="0" * 64)
    result = run("replay", str(path))
    assert result.exit_code == 1
    assert (
        "The run is not the recorded one: the pipeline, its input or Headrace has changed since."
        in result.stdout
    )
    document = json.loads(run("replay", str(path), "--json").stdout)
    assert document["identical"] is False


def test_a_fixed_failure_exits_0(folder: Path, run: Run) -> None:
    path = save_zombie(folder)
    change_source(path, protocol="sound")
    result = run("replay", str(path))
    assert result.exit_code == 0
    assert result.stdout.startswith("HOLDS: this run no longer violates anything\n")
    assert " Recorded was a violation of " in " ".join(result.stdout.split())


def test_failing_user_code_fails_again_until_it_is_fixed(folder: Path) -> None:
    found = run_process("verify", "failing:pipeline", "--examples", "3", "--save", "failing.json", cwd=folder)
    assert found.returncode == 1
    again = run_process("replay", "failing.json", cwd=folder)
    assert again.returncode == 1
    assert "VIOLATED again: raises\nIt shows as recorded: your code by itself" in again.stdout
    (folder / "failing.py").write_text(MODULES["views"])
    mended = run_process("replay", "failing.json", cwd=folder)
    assert (mended.returncode, "UNKNOWN: nothing is violated" in mended.stdout) == (3, True)


def test_a_replay_uses_the_searchs_time_limit_per_call(folder: Path, run: Run) -> None:
    (folder / "slow.py").write_text(SLOW)
    found = json.loads(
        run("verify", "slow:pipeline", "--feeds", "1", "--code-timeout", "0.2", "--json").stdout
    )
    command = found["code"]["findings"][0]["replay_command"]
    assert command.endswith(" --code-timeout 0.2")
    again = run(*command.split()[1:])
    assert (again.exit_code, "has not ended after 0.2 s of CPU time" in plain(again.stdout)) == (1, True)


SLOW = """
import views

class Slow(views.CountViews):
    def process_record(self, context, record):
        while True:
            pass

pipeline = views.build(Slow())

def feed(seed):
    return views.feed(seed)
"""


def test_the_feed_that_was_named_is_replayed(folder: Path, run: Run) -> None:
    path = save_zombie(folder, "short_feed")
    document = json.loads(run("replay", str(path), "--json").stdout)
    assert (document["feed"], document["identical"]) == ("short_feed", True)


def test_a_replay_file_is_readable_without_the_command(folder: Path) -> None:
    """It says of which type its source, its trial and each fault are."""
    content = json.loads(save_zombie(folder).read_text())
    assert set(ReplayFile.__struct_fields__) - {"answers", "versions"} == set(
        content
    )  # a pipeline asks no Spark
    trial = content["trial"]
    assert (content["format"], content["source"]["type"], trial["type"]) == (
        REPLAY_FORMAT,
        "pipeline",
        "pipeline",
    )
    assert trial["plan"]["faults"]["faults"][0]["type"] == "Pause"


CORRUPT = {
    "": "it ends within a value",
    "{": "it ends within a value",
    "[]": "object is expected, not array",
    "{}": "the field 'format' is missing",
    '{"format": 9}': "it has format 9, and this version of Headrace reads formats up to 6. Update Headrace",
    '{"format": 5}': "the field 'source' is missing",
    '{"format": 4}': "the field 'pipeline' is missing",
    '{"format": 4, "pipeline": 3}': "str is expected, not int, in pipeline",
}


@pytest.mark.parametrize(("content", "reason"), CORRUPT.items())
def test_a_file_of_another_kind_exits_2_and_says_why(
    folder: Path, run: Run, content: str, reason: str
) -> None:
    (folder / "x.json").write_text(content)
    result = run("replay", "x.json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"Error: cannot read replay file x.json: {reason}\n"


def test_binary_data_exits_2(folder: Path, run: Run) -> None:
    (folder / "x.json").write_bytes(bytes(range(256)))
    result = run("replay", "x.json")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: cannot read replay file x.json: ")


def test_a_missing_file_and_a_directory_exit_2(folder: Path, run: Run) -> None:
    for path, reason in (("x.json", "No such file or directory"), (".", "Is a directory")):
        result = run("replay", path)
        assert result.exit_code == 2
        assert result.stderr == f"Error: cannot read replay file {path}: {reason}\n"


def test_a_removed_protocol_exits_2(folder: Path, run: Run) -> None:
    path = save_zombie(folder)
    change_source(path, protocol="without luck")
    result = run("replay", path.name)
    assert result.exit_code == 2
    assert "there is no protocol 'without luck'" in result.stderr


def test_a_pipeline_that_cannot_be_imported_exits_2(folder: Path, run: Run) -> None:
    path = save_zombie(folder)
    change_source(path, name="moved:pipeline")
    result = run("replay", path.name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no module 'moved', neither in the current directory nor installed" in result.stderr


# Stopping, explaining, drawing


def test_until_the_violation_shows_the_events_and_the_state_there(folder: Path, run: Run) -> None:
    """worker-0 was paused until it was replaced; its write has just landed."""
    result = run("replay", str(save_zombie(folder)), "--until", "violation")
    assert result.exit_code == 1
    _, stop = result.stdout.split("\nUp to event ")
    number, rest = stop.split(",", 1)
    events, world = rest.split("\nWho owns what\n")
    last = " ".join(events.split()).split(f" {number} ")[-1]
    assert "store: Applied computation='counter'" in last
    assert "worker-0 believes that it owns them" in world
    assert "\nWrites in flight\n" in world
    assert "\nLow watermarks as published\n  views 0.800000s\n  counter 0.600000s\n" in world


def test_until_takes_a_number_or_a_kind_and_json_has_all_events_up_to_it(folder: Path, run: Run) -> None:
    path = str(save_zombie(folder))
    by_number = json.loads(run("replay", path, "--until", "9", "--json").stdout)["until"]
    assert by_number["event"] == 9
    assert len(by_number["events"]) == 10
    by_kind = json.loads(run("replay", path, "--until", "IntervalMinted", "--json").stdout)["until"]
    assert [event["type"] for event in by_kind["events"]].index("IntervalMinted") == by_kind["event"]
    assert by_kind["world"]["owners"][0]["scanned"] is False


def test_a_missing_event_exits_2_and_lists_the_existing_ones(folder: Path, run: Run) -> None:
    result = run("replay", str(save_zombie(folder)), "--until", "IntervalMinte")
    assert result.exit_code == 2
    assert (
        "the run has no event 'IntervalMinte'. Did you mean 'IntervalMinted' or "
        "'IntervalDropped'? Give a number, 'violation', or one of" in plain(result.stderr)
    )
    assert "Applied" in result.stderr


def test_explain_states_who_believed_what_and_ends_with_the_rule(folder: Path, run: Run) -> None:
    result = run("replay", str(save_zombie(folder)), "--explain")
    story = plain(result.stdout.split("\nHow S6 was violated\n")[1])
    assert "worker-0 is paused: it hears nothing, and keeps its memory." in story
    assert "worker-0 still believes that it owns" in story
    assert "Left out: " in story
    assert story.rstrip().endswith("(MillWheel 6.2).")


def test_explain_as_json_names_the_events_of_each_sentence(folder: Path, run: Run) -> None:
    document = json.loads(run("replay", str(save_zombie(folder)), "--explain", "--json").stdout)
    told = document["explanation"]
    assert told["invariant"] == "S6"
    assert all(isinstance(sentence["event"], int) for sentence in told["sentences"])
    assert len(told["sentences"]) <= 20


def test_a_run_that_breaks_nothing_is_not_explained(folder: Path, run: Run) -> None:
    path = save_zombie(folder)
    change_source(path, protocol="sound")
    result = run("replay", str(path), "--explain")
    assert "Nothing is violated, so there is nothing to explain" in result.stdout


def test_pictures_are_saved_where_requested(folder: Path, run: Run) -> None:
    result = run(
        "replay", str(save_zombie(folder)), "--html", "a.html", "--svg", "a.svg", "--perfetto", "a.json"
    )
    assert result.stdout.endswith("\nSaved\n  a.html\n  a.svg\n  a.json\n")
    assert "S6 violated" in (folder / "a.svg").read_text()
    assert (folder / "a.html").read_text().startswith("<!DOCTYPE html>")
    assert json.loads((folder / "a.json").read_text())["traceEvents"]


def test_a_picture_that_cannot_be_saved_is_refused_before_the_run(folder: Path, run: Run) -> None:
    result = run("replay", str(save_zombie(folder)), "--html", "nowhere/a.html")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "cannot write nowhere/a.html" in plain(result.stderr)
    assert "Name another file with --html" in plain(result.stderr)


def test_code_by_itself_has_no_explanation_and_refuses_what_it_has_no_history_for(folder: Path) -> None:
    run_process("verify", "failing:pipeline", "--examples", "3", "--save", "failing.json", cwd=folder)
    again = run_process("replay", "failing.json", "--explain", cwd=folder)
    assert again.returncode == 1
    assert "This is your code by itself: no explanation or diagram is available" in again.stdout
    run_process("replay", "failing.json", "--html", "failing.html", cwd=folder)
    assert "no explanation" not in (page := (folder / "failing.html").read_text())
    assert "failing" in page
    for name in ("svg", "perfetto", "history", "until"):
        refused = run_process("replay", "failing.json", f"--{name}", "a.jsonl", cwd=folder)
        told = f"option {name}='a.jsonl' must be left out for your code by itself: it has no History"
        assert (refused.returncode, told in refused.stderr) == (2, True), refused.stderr
        assert not (folder / "a.jsonl").exists()


# Files of others


def edited(path: Path, change_at: str, value: Any) -> None:
    """Change one value: ``change_at`` is its path in the document, with dots."""
    content = place = json.loads(path.read_text())
    *parents, last = change_at.split(".")
    for name in parents:
        place = place[int(name) if isinstance(place, list) else name]
    place[int(last) if isinstance(place, list) else last] = value
    path.write_text(json.dumps(content))


ABSURD = {
    "plan.faults.heal_at_us": 10**15,
    "plan.faults.faults.0.at_us": -1,
    "plan.faults.faults.0.for_us": 10**30,
    "plan.options.workers": 10**9,
    "plan.options.engine.bloom_capacity": 10**12,
    "plan.options.engine.sweep_period_us": 1,
    "plan.options.store_write.high_us": 10**15,
    "plan.options.grace_us": 10**12,
    "plan.seed": 10**40,
    "kept": [0, 10**9],
}


@pytest.mark.parametrize("field", ABSURD)
def test_an_absurd_number_in_an_edited_file_is_refused_with_its_name(
    folder: Path, run: Run, field: str
) -> None:
    path = save_zombie(folder)
    edited(path, f"trial.{field}", ABSURD[field])
    result = run("replay", path.name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert field.rsplit(".", 1)[-1] in result.stderr
    assert result.stderr.count("\n") == 1


def test_what_a_search_draws_is_plausible() -> None:
    draw = Random(0)
    for workload in WORKLOADS.values():
        feed = workload.feed(0)
        ground = ground_of(workload.pipeline, feed, workload.options)
        for _ in range(20):
            plan = decode_plan(draw.randbytes(PLAN_BYTES), ground, workload.options)
            assert implausible(plan, feed) == "", workload.name


def test_a_module_outside_the_project_is_imported_only_if_it_is_named_or_trusted(
    folder: Path, run: Run
) -> None:
    """A file names a module of the standard library, whose import would open a browser."""
    path = save_zombie(folder)
    for field, value in (("name", "antigravity:pipeline"), ("versions", ["antigravity.x:pipeline"])):
        before = path.read_text()
        edited(path, f"source.{field}", value)
        result = run("replay", path.name)
        assert (result.exit_code, result.stdout, "antigravity" in sys.modules) == (2, "", False)
        assert "which is not in this project" in plain(result.stderr)
        assert "add --trust" in plain(result.stderr)
        path.write_text(before)
    edited(path, "source.name", "this:pipeline")
    trusted = run("replay", path.name, "--trust")
    assert "module 'this' has no 'pipeline'" in trusted.stderr
    named = run("replay", path.name, "views:pipeline")
    assert (named.exit_code, "byte for byte" in named.stdout) == (1, True)


def test_the_project_is_trusted_from_its_subdirectories_and_its_environment_is_not(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save_zombie(folder)
    (folder / "pyproject.toml").write_text("")
    installed = folder / ".venv" / "lib" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "stranger.py").write_text("raise SystemExit('imported')")
    (folder / "inner").mkdir()
    monkeypatch.chdir(folder / "inner")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.syspath_prepend(str(installed))
    assert run("replay", str(path)).exit_code == 1
    edited(path, "source.name", "stranger:pipeline")
    refused = run("replay", str(path))
    assert (refused.exit_code, "which is not in this project" in plain(refused.stderr)) == (2, True)


# When it became inevitable


def test_when_shows_the_decisive_moment(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause decides: worker-0 is replaced, wakes up, and writes."""
    monkeypatch.setattr("headrace_cli.reruns.moments.failure_rates", partial(failure_rates, continuations=3))
    path = str(save_zombie(folder))
    said = run("replay", path, "--when", "--jobs", "2", "--svg", str(folder / "when.svg")).stdout
    assert "\nWhen it became inevitable\n  3 continuations from each of " in said
    assert "The rate jumps from 0% to " in said
    assert "FaultStruck kind='pause'" in said.partition("When it became inevitable")[2]
    rates = json.loads(run("replay", path, "--when", "--json").stdout)["failure_rates"]
    assert {point["runs"] for point in rates["points"]} == {3}
    assert rates["jump"] is not None
    svg = (folder / "when.svg").read_text()
    assert svg.count("data-rate=") > 5
    assert "the share of continuations that fail rises from 0 %" in " ".join(
        re.findall(r"<text[^>]*>([^<]*)", svg)
    )


def test_a_signal_while_rates_are_measured_hides_no_verdict(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise Stopped(signal.SIGTERM)

    monkeypatch.setattr("headrace_cli.reruns.pipeline_reruns.measure", stopped)
    result = run("replay", str(save_zombie(folder)), "--when")
    assert (result.exit_code, "VIOLATED again" in result.stdout) == (143, True)
    assert "Terminated." in result.stderr


def test_when_is_refused_for_a_run_without_violations(folder: Path, run: Run) -> None:
    path = save_zombie(folder)
    change_source(path, protocol="sound")
    assert "inevitable" not in run("replay", str(path), "--when").stdout
