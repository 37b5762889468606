"""Promises beside a pipeline, as the user of the command meets them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.rig import Run, plain

KEPT = """
from views import *
from headrace_properties.promises import always, at_end, sometimes

@always(stream="counts")
def no_empty_window(moment):
    "No window is counted as empty."
    assert moment.changed.value > 0

@sometimes
def a_full_window(moment):
    "Some window has more than two views."
    return any(count > 2 for state in moment.states("counter").values() for count in state.values())

@always(of="counter")
def small_windows(moment):
    "No window has more than two views."
    assert all(count <= 2 for count in moment.changed.after.values()), "three views in a second"

@sometimes
def a_miracle(moment):
    return False

promises = [no_empty_window, a_full_window]
"""

BROKEN = KEPT + "promises = [no_empty_window, small_windows, a_full_window]\n"
NARROW = (
    KEPT
    + """
@at_end
def first_and_third_window(moment):
    return moment.outputs("counts")[0].value + moment.outputs("counts")[2].value > 100

promises = [first_and_third_window]
"""
)
UNREACHED = KEPT + "promises = [a_miracle]\n"
RAISING = (
    KEPT
    + """
@at_end
def tidies_up(moment):
    raise ValueError("too late")

promises = [tidies_up]
"""
)


@pytest.fixture
def project(folder: Path) -> Path:
    for name, text in {
        "kept": KEPT,
        "broken": BROKEN,
        "narrow": NARROW,
        "unreached": UNREACHED,
        "raising": RAISING,
    }.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def document(run: Run, *arguments: str) -> Any:
    return json.loads(run(*arguments, "--json").stdout)


def test_kept_promises_are_listed_apart_from_invariants(project: Path, run: Run) -> None:
    result = run("verify", "kept:pipeline", "--examples", "5", "--allow-unknown", "all")
    assert result.exit_code == 0
    assert result.stdout.startswith("HOLDS: every invariant and promise, in 5 runs with faults")
    assert "No window is counted as empty." in result.stdout
    told = document(run, "verify", "kept:pipeline", "--examples", "5")
    assert told["promises"]["a_full_window"]["verdict"] == "holds"
    assert told["promises"]["a_full_window"]["title"] == "Some window has more than two views."
    assert "a_full_window" not in told["invariants"]


def test_a_broken_promise_is_shrunk_saved_and_replayed_with_its_story(project: Path, run: Run) -> None:
    """The input is shrunk to three records of one window; in the end the module promises it no more."""
    result = run("verify", "broken:pipeline", "--save", "broken.json")
    assert result.exit_code == 1
    assert result.stdout.startswith("VIOLATED: small_windows")
    assert "three views in a second" in plain(result.stdout)
    assert len(json.loads((project / "broken.json").read_text())["trial"]["kept"]) == 3
    again = run("replay", "broken.json", "--explain")
    assert again.exit_code == 1
    text = plain(again.stdout)
    assert "byte for byte" in text
    assert "How small_windows was violated The promise that was broken is small_windows: at " in text
    assert "three views in a second" in text
    assert run("replay", "broken.json", "--promise", "no_empty_window").exit_code == 0
    recorded = json.loads((project / "broken.json").read_text())
    recorded["source"]["name"] = "kept:pipeline"
    (project / "broken.json").write_text(json.dumps(recorded))
    result = run("replay", "broken.json")
    assert result.exit_code == 2
    assert "a violation of 'small_windows', which the module no longer promises" in plain(result.stderr)


def test_shrinking_skips_inputs_on_which_a_promise_raises(project: Path, run: Run) -> None:
    result = run("verify", "narrow:pipeline", "--save", "narrow.json")
    assert result.exit_code == 1
    assert len(json.loads((project / "narrow.json").read_text())["trial"]["kept"]) == 3


def test_one_promise_can_be_picked(project: Path, run: Run) -> None:
    told = document(
        run,
        "verify",
        "broken:pipeline",
        "--examples",
        "3",
        "--promise",
        "a_full_window",
        "--allow-unknown",
        "all",
    )
    assert list(told["promises"]) == ["a_full_window"]
    assert told["result"] == "holds"
    wrong = run("verify", "broken:pipeline", "--promise", "a_full_widow")
    assert wrong.exit_code == 2
    assert "It has: no_empty_window, small_windows, a_full_window" in plain(wrong.stderr)


def test_what_no_run_reaches_is_unknown_unless_allowed_by_name(project: Path, run: Run) -> None:
    short = ("verify", "unreached:pipeline", "--examples", "3")
    assert run(*short, "--allow-unknown", "all").exit_code == 3
    assert run(*short, "--allow-unknown", "all,a_miracle").exit_code == 0


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_invalid_promise_is_wrong_use(project: Path, run: Run, jobs: str) -> None:
    result = run("verify", "raising:pipeline", "--examples", "3", "--jobs", jobs)
    assert result.exit_code == 2
    text = plain(result.stderr)
    assert "promise 'tidies_up' (raising.py, line" in text
    assert "raises ValueError: too late at raising.py, line" in text


@pytest.mark.parametrize(
    ("promises", "problem"),
    [
        ("{}", "'promises' is a dict, not a list of promises"),
        ("[feed]", "promise 'feed' is a function, not a promise"),
        ("[small_windows, small_windows]", "has the name of another promise"),
    ],
)
def test_an_invalid_list_of_promises_is_refused(project: Path, run: Run, promises: str, problem: str) -> None:
    (project / "wrong.py").write_text(f"{KEPT}promises = {promises}\n")
    result = run("verify", "wrong:pipeline")
    assert result.exit_code == 2
    assert problem in plain(result.stderr)


def test_a_single_run_is_judged_by_the_promises_too(project: Path, run: Run) -> None:
    assert run("run", "kept:pipeline").exit_code == 0
    result = run("run", "broken:pipeline")
    assert result.exit_code == 1
    assert "three views in a second" in plain(result.stdout)


SEATS = """
from headrace import SECOND, Computation, Pipeline
from headrace_properties.promises import answered_once, expected
from headrace_sim import FeedBuilder


class Desk(Computation):
    def process_record(self, context, record):
        if record.value["seats"] < 3:
            context.produce("answers", {"id": record.value["id"]})


pipeline = Pipeline("desk")
pipeline.injector("shop", outputs=["requests"])
pipeline.add(Desk(), name="desk", inputs=["requests"], outputs=["answers"])


def feed(seed):
    builder = FeedBuilder(pipeline)
    for number in range(4):
        at_us = (number + 1) * SECOND
        builder.record(at_us=at_us, stream="requests", key="a", value={"id": number, "seats": number}, timestamp=at_us)
    return builder.build()
"""
ANSWERED = 'answered_once("requests", "answers", by="id")'
FEW = 'expected(sql="SELECT id FROM requests WHERE seats < 3", table="answers")'


def test_what_nobody_promised_of_a_pipeline_is_said_and_proposed_and_the_proposal_finds_it(
    project: Path, run: Run
) -> None:
    for name, promises in (
        ("unsaid", ""),
        ("said", f"promises = [{ANSWERED}]"),
        ("sql", f"promises = [{FEW}]"),
    ):
        (project / f"{name}.py").write_text(f"{SEATS}\n{promises}\n")
    few = ("--examples", "3", "--allow-unknown", "all")
    told = plain(run("verify", "unsaid:pipeline", *few).output)
    assert "No promise says whether the output is right: --verbose proposes promises" in told
    told = plain(run("verify", "unsaid:pipeline", *few, "--verbose").output)
    assert f"{ANSWERED}, # broken by this run: " in told
    unsaid, said = (document(run, "verify", f"{name}:pipeline", *few) for name in ("unsaid", "said"))
    assert (unsaid["nobody_said"], unsaid["result"]) == (True, "holds")
    assert ANSWERED in [proposal["code"] for proposal in unsaid["proposals"]]
    assert (said["nobody_said"], said["proposals"], said["result"]) == (False, [], "violated")
    assert (
        document(run, "verify", "sql:pipeline", *few)["promises"]["expected_in_answers"]["verdict"] == "holds"
    )
