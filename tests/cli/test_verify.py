"""``headrace verify``: a verdict for a pipeline, and a clear message for anything else."""

import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headrace_cli.reports.search_end import SearchEnd
from headrace_cli.reports.search_report import SearchReport
from headrace_cli.targets.loading import load_target
from headrace_cli.terminal.exit import ExitCode
from headrace_properties.pipeline_target import PipelineTarget, Search
from headrace_properties.pipeline_trials import PipelineTrials
from headrace_properties.search import strategy
from headrace_properties.search.judging import Failure
from headrace_properties.search.plans import Plan
from headrace_properties.search.verification import Verification
from headrace_properties.session import Memory, Session
from headrace_properties.verdict import Holds, Verdict, Violated
from headrace_sim import ClusterOptions, FaultSchedule
from tests.cli.rig import Run, environment, plain, run_process


def searched(run: Run, *arguments: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run("verify", *arguments, "--json").stdout)
    return document


def test_a_pipeline_that_holds_exits_0_and_the_report_says_what_was_tried(folder: Path, run: Run) -> None:
    result = run("verify", "views:pipeline", "--examples", "10", "--seed", "3")
    assert result.exit_code == 0
    assert result.stdout.startswith("HOLDS: every invariant, in 10 runs with faults\n")
    assert "views:pipeline, seed 3, protocol: sound\n" in result.stdout
    assert "10 runs in which a fault struck, " in result.stdout
    assert (
        " runs a second\nAssumed of the source: each record arrives once, in any order. Undeclared"
        in result.stdout
    )
    assert "\nProtocol\n  24 invariants hold; " in result.stdout
    assert "S1 " not in result.stdout
    assert list(folder.glob("*.json")) == []


def test_all_tables_are_printed_on_request(folder: Path, run: Run) -> None:
    result = run("verify", "views:pipeline", "--examples", "10", "--verbose")
    assert "\n  S1           no record is lost " in result.stdout
    assert "\nFaults that struck\n" in result.stdout
    assert "\nInteresting cases\n" in result.stdout
    assert "  a timer fired\n" in result.stdout


def _reported(target: PipelineTarget, found: Verification) -> SearchReport:
    trials = PipelineTrials(target, Search(), verification=found)
    return SearchReport(trials, SearchEnd(Session(trials, Memory(None)), elapsed_s=1.0, runs_per_second=1.0))


def test_a_finding_about_weak_code_is_in_the_headline_and_changes_no_exit_code() -> None:
    verdicts: dict[str, Verdict] = {"S1": Holds(3), "S5-weak": Violated("two values", ())}
    target = load_target("headrace_scenarios.videos:pipeline")
    found = Verification(verdicts=verdicts, runs=3)
    report = _reported(target, found)
    told = "in 3 runs with faults; but S5-weak is a finding about your code"
    assert report.headline == f"HOLDS: every invariant and promise, {told}"
    assert report.end.code is ExitCode.HOLDS


def test_violations_only_before_shrinking_are_not_announced_as_below() -> None:
    smallest = {"S6": Violated("a dead owner wrote", ())}
    verdicts: dict[str, Verdict] = {"S1": Violated("lost", ()), **smallest, "S2": Holds(3)}
    failure = Failure(Plan(FaultSchedule(()), ClusterOptions(), seed=0), 0, smallest, "")
    found = Verification(verdicts=verdicts, failure=failure)
    target = load_target("headrace_scenarios.videos:pipeline")
    report = _reported(target, found)
    console = Console(file=io.StringIO(), width=200)
    report.print(console, verbose=True)
    assert isinstance(console.file, io.StringIO)
    header, *lines = console.file.getvalue().splitlines()
    assert header == "VIOLATED: S6, S1"
    assert [line.split()[0] for line in lines if line.endswith("VIOLATED  see below")] == ["S6"]
    assert [
        line.split()[0] for line in lines if line.endswith("VIOLATED  in the run before it was shrunk")
    ] == ["S1"]
    assert "The run that this was shrunk from also violates S1." in lines


def test_json_has_the_same_facts_and_nothing_else_is_on_stdout(folder: Path, run: Run) -> None:
    document = searched(run, "views:pipeline", "--examples", "10")
    assert document["result"] == "holds"
    assert (document["pipeline"], document["feed"], document["protocol"]) == (
        "views:pipeline",
        "feed",
        "sound",
    )
    assert document["runs"] >= 10
    assert document["runs_per_second"] > 0
    assert document["invariants"]["S1"]["verdict"] == "holds"
    assert document["invariants"]["S1"]["reached"] > 0
    assert sum(document["faults_struck"].values()) >= 10
    assert document["interesting_cases"]["a timer fired"] > 0
    assert document["interesting_cases"]["a zombie's write was applied"] == 0
    assert document["failure"] is None


def test_the_same_seed_makes_the_same_search(folder: Path, run: Run) -> None:
    first, again, other = (
        searched(run, "views:pipeline", "--examples", "5", "--seed", seed) for seed in ("1", "1", "2")
    )
    for document in (first, again, other):
        del document["elapsed_s"], document["runs_per_second"]
    assert first == again
    assert first != other


def test_every_single_fault_is_tried_and_the_report_says_where_they_struck(folder: Path, run: Run) -> None:
    result = run(
        "verify",
        "views:pipeline",
        "--search",
        "enumerate",
        "--jobs",
        "2",
        "--without",
        "sequencers",
        "--verbose",
    )
    assert result.exit_code == 1
    _, schedule = result.stdout.split("\nThe smallest fault schedule found that does this\n")
    faults, _ = schedule.split(" all faults end\n")
    assert len(faults.splitlines()) == 2, "one fault, and when all heals"
    assert "\nCoverage: number of protocol steps at which each fault struck, by role\n" in result.stdout
    (saved,) = folder.rglob("headrace-failure-????????.json")
    assert "byte for byte" in run("replay", str(saved)).stdout


def test_pairs_of_faults_are_drawn(folder: Path, run: Run) -> None:
    document = searched(run, "views:pipeline", "--search", "pairs", "--examples", "20")
    assert document["runs"] + document["idle_runs"] == 20
    assert {"role", "step", "fault", "times"} == set(document["coverage"][0])


def test_a_search_by_priorities_states_its_bound(folder: Path, run: Run) -> None:
    arguments = ("views:pipeline", "--search", "pct", "--depth", "3", "--examples", "2")
    ordering = searched(run, *arguments)["ordering"]
    assert ordering["least_chance"] == 1 / (ordering["chains"] * ordering["messages"] ** 2)
    said = " ".join(run("verify", *arguments).stdout.split())
    assert (
        "A failure of depth 3 that the faults of a run make possible shows in it with a probability of"
        in said
    )
    assert f"at least 1 in {round(1 / ordering['least_chance']):,}" in said


SMALL_SCOPE = ("views:pipeline", "--search", "exhaustive", "--records", "1", "--delays", "1")


def test_a_scope_is_exhausted_and_the_report_says_so(folder: Path, run: Run) -> None:
    result = run("verify", *SMALL_SCOPE, "--faults", "0", "--allow-unknown", "all")
    assert result.exit_code == 0
    assert re.match(r"HOLDS: every invariant, in every schedule of the scope: \d+ schedules", result.stdout)
    scope = "Scope: 1 record, 1 computation, 2 workers; at most 0 faults and 1 delay in a run\nExhausted: "
    assert scope in result.stdout
    assert "chance that the next run" not in result.stdout


def test_a_scope_that_was_not_exhausted_is_unknown(folder: Path, run: Run) -> None:
    result = run("verify", *SMALL_SCOPE, "--examples", "3", "--allow-unknown", "all")
    assert result.exit_code == 3
    assert result.stdout.startswith(
        "UNKNOWN: nothing is violated in 3 schedules, but the scope is not exhausted\n"
    )
    assert "Not exhausted (--examples): 3 schedules run" in result.stdout
    said = " ".join(result.stdout.split())
    assert re.search(r"; all with fewer than 1 departure were run, and 2 of about [\d,]+ with 1 ", said)


def test_the_smallest_counterexample_of_a_scope_is_replayed(folder: Path, run: Run) -> None:
    document = searched(run, *SMALL_SCOPE, "--fault-kinds", "reassign", "--without", "sequencers")
    exploration = document["exploration"]
    assert (document["result"], exploration["exhausted"], exploration["stopped_for"]) == (
        "violated",
        False,
        "failure",
    )
    assert len(document["failure"]["fault_schedule"]) == exploration["all_with_fewer_departures_than"]
    (saved,) = folder.rglob("headrace-failure-????????.json")
    assert "byte for byte" in run("replay", str(saved)).stdout


def test_a_scope_of_unknown_faults_is_refused(folder: Path, run: Run) -> None:
    result = run("verify", *SMALL_SCOPE, "--fault-kinds", "flood")
    assert result.exit_code == 2
    assert "flood" in result.stderr


VERSIONS = ("grown:audited", "--version", "grown:plain")


def test_versions_are_changed_while_the_pipeline_runs(folder: Path, run: Run) -> None:
    document = searched(run, *VERSIONS, "--examples", "25")
    assert document["result"] != "violated"
    assert (document["pipeline"], document["versions"]) == ("grown:audited", ["grown:plain"])
    assert document["interesting_cases"]["a computation was removed"] > 0
    result = run("verify", *VERSIONS, "--examples", "1")
    assert "grown:audited, then grown:plain, seed 0, protocol: sound\n" in result.stdout


def test_a_failure_with_several_versions_is_replayed_with_them(folder: Path, run: Run) -> None:
    result = run(
        "verify", *VERSIONS, "--without", "sequencers", "--save", "versions.json", "--html", "a.html"
    )
    assert result.exit_code == 1
    assert json.loads((folder / "versions.json").read_text())["source"]["versions"] == ["grown:plain"]
    assert "byte for byte" in run("replay", "versions.json", "--html", "again.html").stdout
    assert (folder / "a.html").read_bytes() == (folder / "again.html").read_bytes()


def test_versions_that_do_not_fit_together_exit_2(folder: Path, run: Run) -> None:
    result = run("verify", "grown:audited", "--version", "grown:weak")
    assert result.exit_code == 2
    assert "computation 'auditor' has productions=strong in version 0" in plain(result.stderr)


def test_another_feed_function_can_be_named(folder: Path, run: Run) -> None:
    long = searched(run, "views:pipeline", "--examples", "3")
    short = searched(run, "views:pipeline", "--examples", "3", "--feed", "short_feed")
    assert short["feed"] == "short_feed"
    assert short["invariants"]["S1"]["reached"] < long["invariants"]["S1"]["reached"]


def test_without_sequencers_it_exits_1_with_a_shrunk_schedule_and_a_file_that_replays(
    folder: Path, run: Run
) -> None:
    # In some searches what shows first is that user code fails, as its timer comes to a row without its count; not in most.
    searches = (
        run("verify", "views:pipeline", "--without", "sequencers", "--seed", str(seed)) for seed in range(6)
    )
    result = next(search for search in searches if "the run stopped with an error" not in search.stdout)
    assert result.exit_code == 1
    assert result.stdout.startswith("VIOLATED: ")
    assert ": VIOLATED\n" in result.stdout
    _, schedule = result.stdout.split("\nThe smallest fault schedule found that does this\n")
    faults, _ = schedule.split(" all faults end\n")
    *faults_in_order, _ = faults.splitlines()
    assert 1 <= len(faults_in_order) <= 3, "this is not shrunk"
    header, *lines = result.stdout.splitlines()
    assert len(lines) < 25, "the verdict, the cause, the line and the next command"
    names = header.removeprefix("VIOLATED: ").split(", ")
    assert sum(f"{name}, " in line and line.endswith(": VIOLATED") for line in lines for name in names) == 1
    also = " ".join(
        line for line in lines if line.startswith(("  With it: ", "  The run that this was shrunk"))
    )
    assert all(re.search(rf"\b{name}\b", also) for name in names[1:])
    _, shown = result.stdout.split("\nThe smallest input found that does this\n")
    assert re.match(r"  \d\.\d{6}s record stream=views key='.' timestamp=\d\.\d{6}s value=\d+\n", shown)
    *_, again = result.stdout.splitlines()
    command, action, saved = again.split()
    assert (command, action) == ("headrace", "replay")
    assert result.stdout.endswith(f"\nRun it again\n{again}\n")
    replayed = run("replay", saved)
    assert replayed.exit_code == 1
    assert "byte for byte" in replayed.stdout


def test_an_unexercised_invariant_makes_it_unknown_and_exits_3(folder: Path, run: Run) -> None:
    result = run("verify", "stateless:pipeline", "--examples", "3")
    assert result.exit_code == 3
    assert result.stdout.startswith("UNKNOWN: nothing is violated, but no run exercised S8, S9, L1\n")
    assert searched(run, "stateless:pipeline", "--examples", "3")["result"] == "unknown"


@pytest.mark.parametrize("allowed", ["L1, S9,S8", "all"])
def test_an_invariant_that_may_be_unknown_does_not_fail_it_and_the_headline_names_it(
    folder: Path, run: Run, allowed: str
) -> None:
    arguments = ("stateless:pipeline", "--examples", "3", "--allow-unknown", allowed)
    result = run("verify", *arguments)
    assert result.exit_code == 0
    assert result.stdout.startswith(
        "HOLDS: every invariant, in 3 runs with faults; not exercised: S8, S9, L1\n"
    )
    document = searched(run, *arguments)
    assert (document["result"], document["not_judged"]) == ("holds", ["S8", "S9", "L1"])


def test_state_that_may_grow_is_unknown_and_what_was_not_compared_is_in_the_headline(run: Run) -> None:
    examples = ("--examples", "2", "--feeds", "1", "--allow-unknown")
    result = run("verify", "tests.planted.uuid_key:mended", *examples, "S8,S9,L1")
    assert result.exit_code == 3
    first = " ".join(result.stdout.split())
    assert first.startswith(
        "UNDECLARED: the code of 'desk' leaves state that nothing will ever clean up. Nothing is"
    )
    assert "UNDECLARED: growth The code of 'desk' leaves state that nothing will ever clean up: key" in first
    assert "promise bounded_state(COMPUTATION, keeps=...)" in first
    strict = run("verify", "tests.planted.uuid_key:mended", "--strict", "--json", *examples, "S8,S9,L1")
    assert (strict.exit_code, json.loads(strict.stdout)["result"]) == (1, "undeclared")
    assert run("verify", "tests.planted.uuid_key:mended", *examples, "S8,S9,L1,growth").exit_code == 0
    result = run("verify", "tests.planted.midnight:mended", *examples, "all")
    assert result.stdout.startswith("HOLDS: every invariant, in 2 runs with faults; not ")
    assert "not compared: arrival" in " ".join(result.stdout.split("seed 0")[0].split())


def test_only_the_named_invariants_may_be_unknown(folder: Path, run: Run) -> None:
    result = run("verify", "stateless:pipeline", "--examples", "3", "--allow-unknown", "S8,S9")
    assert result.exit_code == 3
    wrong = run("verify", "stateless:pipeline", "--allow-unknown", "S8,S99")
    assert wrong.exit_code == 2
    assert (
        "--allow-unknown S99: there is no such invariant or promise. Did you mean 'S9'? Valid names: S1, S2,"
        in plain(wrong.stderr)
    )


def test_allowing_all_unknowns_excuses_no_violation(folder: Path, run: Run) -> None:
    result = run(
        "verify", "views:pipeline", "--without", "sequencers", "--seed", "2", "--allow-unknown", "all"
    )
    assert result.exit_code == 1


def test_user_code_that_fails_exits_1_and_shows_where(folder: Path, run: Run) -> None:
    result = run("verify", "failing:pipeline", "--examples", "3", "--save", "failing.json")
    assert result.exit_code == 1
    said = " ".join(result.stdout.split())
    assert said.startswith("VIOLATED: the code of 'counter' raises an exception")
    assert (
        "of failing.py, in Failing.process_timer: The code of 'counter' raises an exception: ValueError: this window is cursed."
        " It was called for timer" in said
    )
    assert "Run it again: headrace replay failing.json" in said
    assert "No runs with faults: the code stops without any fault." in said
    assert (folder / "failing.json").is_file()


def test_what_user_code_prints_is_kept_out_of_the_json_document(folder: Path, run: Run) -> None:
    result = run("verify", "failing:pipeline", "--examples", "3", "--json")
    assert result.exit_code == 1
    (finding,) = json.loads(result.stdout)["code"]["findings"]
    assert (finding["kind"], finding["class"], finding["subject"]) == ("raises", "violated", "counter")
    assert finding["message"].endswith(": ValueError: this window is cursed")
    assert finding["replay_command"] == f"headrace replay {finding['saved_as']}"


NOT_A_PIPELINE = {
    "views": "views: expected MODULE:PIPELINE. Give the names of a module and a pipeline: views:pipeline",
    "views.py:pipeline": "expected MODULE:PIPELINE. Give the names of a module and a pipeline: views:pipeline",
    "jobs/views.py": "cannot read jobs/views.py: No such file or directory. Name a file with a program, or -m and a module",
    ":x:": "expected MODULE:PIPELINE. Give the names of a module and a pipeline, such as headrace_scenarios.zeitgeist:",
    "nowhere:pipeline": "there is no module 'nowhere', neither in the current directory nor installed",
    "views.inner:pipeline": "there is no module 'views.inner', neither in the current directory nor installed",
    "broken:pipeline": "importing 'broken' failed at broken.py, line 2: ZeroDivisionError: division by zero",
    "needy:pipeline": "importing 'needy' failed at needy.py, line 1: ModuleNotFoundError: No module named 'nowhere'",
    "garbled:pipeline": "importing 'garbled' failed: SyntaxError: invalid syntax (garbled.py, line 1)",
    "exits:pipeline": "importing 'exits' failed at exits.py, line 1: SystemExit: 3",
    "twice:pipeline": "importing 'twice' failed at twice.py, line 4: pipeline 'x': the name 'a' is used twice",
    "views:Pipelin": "module 'views' has no 'Pipelin'. Did you mean 'pipeline'? Its pipelines are: pipeline",
    "views:feed": "'feed' is a function, not a Pipeline. Its pipelines are: pipeline",
    "empty:pipeline": "module 'empty' has no 'pipeline'. It has no pipeline: assign one at its top level",
    "sourceless:pipeline": "pipeline 'x': it has no injector. Add one with injector(name)",
    "unfed:pipeline": "module 'unfed' has no function 'feed' that makes the input. Write one, def feed(seed: int) -> Feed",
}

WRONG_MODULES = {
    "broken": "x = 1\nx / 0\n",
    "needy": "import nowhere\n",
    "garbled": "x = 1 +\n",
    "exits": "raise SystemExit(3)\n",
    "twice": "from headrace import Pipeline\npipeline = Pipeline('x')\npipeline.injector('a')\npipeline.injector('a')\n",
    "empty": "",
    "sourceless": "from headrace import Pipeline\npipeline = Pipeline('x')\n",
    "unfed": "from views import pipeline\n",
}


@pytest.mark.parametrize(("target", "message"), NOT_A_PIPELINE.items())
def test_a_target_that_is_not_a_pipeline_exits_2_with_one_line_that_says_what_to_do(
    folder: Path, run: Run, target: str, message: str
) -> None:
    for name, source in WRONG_MODULES.items():
        (folder / f"{name}.py").write_text(source)
    result = run("verify", target)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


NO_FEED = {
    "none": "module 'feeds' has no function 'none' that makes the input. Write one, def none(seed: int) -> Feed",
    "pipeline": "'pipeline' is a Pipeline, not a function that makes the input",
    "boom": "boom(0) failed at feeds.py, line 4: KeyError: 'x'. It must return the input, a Feed",
    "takes_nothing": "takes_nothing(0) failed: TypeError: takes_nothing() takes 0 positional arguments but 1 was given",
    "wrong": "wrong(0) returned [] (list), not a Feed. Return FeedBuilder(pipeline).build()",
    "foreign": "has an entry for 'elsewhere/0', which is not a process of the pipeline's injectors. Build it with FeedBuilder(pi",
    "malformed": "timestamp 'noon' is not an int",
    "another": "another(0) returned another input when it was called again. Draw everything from the seed",
}

FEEDS = """
from views import *
from headrace_sim import Feed, FeedEntry
def boom(seed): return {}["x"]
def takes_nothing(): return feed(0)
def wrong(seed): return []
def foreign(seed): return Feed((FeedEntry(0, "elsewhere/0", feed(0).entries[0].event),))
def another(seed, numbers=iter(range(99))): return feed(next(numbers))
def malformed(seed): FeedBuilder(pipeline).record(at_us=0, value=1, timestamp="noon")
"""


@pytest.mark.parametrize(("feed", "message"), NO_FEED.items())
def test_an_invalid_input_exits_2_with_one_line_that_says_what_to_do(
    folder: Path, run: Run, feed: str, message: str
) -> None:
    (folder / "feeds.py").write_text(FEEDS)
    result = run("verify", "feeds:pipeline", "--feed", feed)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.startswith("Error: feeds:pipeline: ")
    assert result.stderr.count("\n") == 1


def test_no_examples_or_an_unknown_without_exit_2(folder: Path, run: Run) -> None:
    none = run("verify", "views:pipeline", "--examples", "0")
    assert none.exit_code == 2
    assert "examples" in plain(none.stderr)
    luck = run("verify", "views:pipeline", "--without", "luck")
    assert luck.exit_code == 2
    assert luck.stderr == "Error: --without: there is no part 'luck' to leave out. It takes sequencers\n"


@pytest.mark.parametrize(
    ("path", "reason"), [("nowhere/x.json", "there is no directory nowhere"), (".", "it is a directory")]
)
def test_an_unwritable_file_is_reported_before_the_search(
    folder: Path, run: Run, path: str, reason: str
) -> None:
    result = run("verify", "nowhere:pipeline", "--save", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"Error: cannot write {path}: {reason}. Name another file with --save\n"


def interrupted_when(condition: Callable[[Verification, int], bool]) -> Callable[..., Verification]:
    """A search interrupted by Ctrl-C once the condition holds for the result so far and the count of runs."""
    real = strategy.search

    def search(*arguments: Any, on_run: Callable[[Verification], None], **options: Any) -> Verification:
        runs = 0

        def told(verification: Verification) -> None:
            nonlocal runs
            runs += 1
            on_run(verification)
            if condition(verification, runs):
                raise KeyboardInterrupt

        return real(*arguments, on_run=told, **options)

    return search


def test_ctrl_c_exits_130_with_a_summary_so_far(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "headrace_properties.pipeline_target.search_with", interrupted_when(lambda found, _: found.runs == 4)
    )
    result = run("verify", "views:pipeline")
    assert result.exit_code == 130
    assert result.stdout.startswith("INTERRUPTED after 4 runs\n")
    assert "\nProtocol\n" in result.stdout
    result = run("verify", "views:pipeline", "--json")
    assert result.exit_code == 130
    document = json.loads(result.stdout)
    assert (document["result"], document["runs"]) == ("interrupted", 4)


def test_ctrl_c_while_a_failure_is_shrunk_says_how_to_find_it_again(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrinking = interrupted_when(lambda found, runs: runs > found.runs + found.idle)
    monkeypatch.setattr("headrace_properties.pipeline_target.search_with", shrinking)
    result = run("verify", "views:pipeline", "--without", "sequencers")
    assert result.exit_code == 130
    assert "while a failure was being shrunk; VIOLATED so far: S" in result.stdout
    assert "The same command with the same --seed finds the failure again." in plain(result.stdout)
    assert "\nAn input found that does this\n" in result.stdout


def test_progress_is_shown_on_a_terminal_only_and_never_on_stdout(folder: Path) -> None:
    plain = run_process("verify", "views:pipeline", "--examples", "5", cwd=folder)
    assert (plain.returncode, plain.stderr) == (0, "")
    terminal, stderr = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "headrace_cli", "verify", "views:pipeline", "--examples", "5"],
        cwd=folder, env={**environment(), "TERM": "xterm"}, stdout=subprocess.PIPE, stderr=stderr,
    ) as process:  # fmt: skip
        os.close(stderr)
        shown = _read_all(terminal)
        assert process.stdout is not None
        printed = process.stdout.read().decode()
    assert process.returncode == 0
    assert "searching" in shown
    assert "5/5" in shown
    assert "searching" not in printed
    assert printed.startswith("HOLDS")


def _read_all(terminal: int) -> str:
    chunks = []
    try:
        while chunk := os.read(terminal, 65_536):
            chunks.append(chunk)
    except OSError:  # Linux's way to say that the other side has closed
        pass
    os.close(terminal)
    return b"".join(chunks).decode()


MEMORY = """
import views
from headrace import Computation


class Counter(Computation):
    def __init__(self):
        self.seen = 0

    def process_record(self, context, record):
        self.seen += 1
        context.produce("counts", self.seen)


pipeline = views.build(Counter())
feed = views.feed
"""


def test_a_bug_in_the_code_is_found_though_every_invariant_holds(folder: Path, run: Run) -> None:
    (folder / "memory.py").write_text(MEMORY)
    result = run("verify", "memory:pipeline", "--examples", "3")
    assert result.exit_code == 1
    assert result.stdout.startswith(
        "VIOLATED: the code of 'counter' shares state between keys, outside its row\n"
    )
    assert "\nshares-state\n" in result.stdout

    document = searched(run, "memory:pipeline", "--examples", "3")
    assert document["result"] == "violated"
    (finding,) = document["code"]["findings"]
    assert (finding["kind"], len(finding["trial"]["kept"])) == ("shares-state", 2)

    again = run("replay", finding["saved_as"])
    assert again.exit_code == 1
    assert again.stdout.startswith("VIOLATED again: shares-state\nIt shows as recorded: your code by itself")


def test_changes_that_must_not_affect_the_outcome_are_listed(folder: Path, run: Run) -> None:
    document = searched(run, "views:pipeline", "--examples", "3")
    assert document["code"]["findings"] == []
    assert document["code"]["relations"]["reference"]["verdict"] == "holds"
    text = run("verify", "views:pipeline", "--examples", "3").stdout
    assert "\nYour code\n  no finding, over 12 inputs\n" in text
    assert "\n  output unaffected by: arrival, faults" in text


def test_a_broken_protocol_does_not_accuse_the_code(folder: Path, run: Run) -> None:
    assert (
        searched(run, "views:pipeline", "--examples", "3", "--without", "sequencers", "--seed", "9")["code"]
        is None
    )


def test_a_failure_outside_the_model_says_so_and_is_not_kept(folder: Path, run: Run) -> None:
    result = run("verify", "views:pipeline", "--outside", "torn_row", "--examples", "20")
    assert result.exit_code == 1
    said = " ".join(result.stdout.split())
    assert re.search(r"Outside the model: torn_row struck [1-9].* S4 should notice", said)
    assert "outside the model, where a row's changes are applied all or none" in said
    assert list(folder.glob(".headrace/failures/**/*.json")) == []
    assert run("verify", "views:pipeline", "--examples", "5").exit_code == 0
    refused = run("verify", "views:pipeline", "--outside", "bit_rot")
    assert (refused.exit_code, "one of lost_write" in " ".join(refused.stderr.split())) == (2, True)


def test_a_search_by_lineage_ends_and_reports_its_number_of_runs(folder: Path, run: Run) -> None:
    result = run(
        "verify",
        "views:pipeline",
        "--search",
        "lineage",
        "--records",
        "1",
        "--fault-kinds",
        "drop",
        "--allow-unknown",
        "all",
    )
    said = " ".join(result.stdout.split())
    assert result.exit_code == 0
    assert re.search(r"HOLDS: .*, and no set of at most 1 fault breaks this outcome: \d+ schedules", said)
    assert re.search(
        r"Of the run without faults: \d+ single faults of these kinds at all its steps, and [\d,]+ pairs",
        said,
    )


def test_a_scope_is_exhausted_in_two_sessions(folder: Path, run: Run) -> None:
    command = (
        "verify",
        *SMALL_SCOPE,
        "--faults",
        "0",
        "--allow-unknown",
        "all",
        "--resume",
        "search.journal",
    )
    assert run(*command, "--examples", "5").exit_code == 3
    assert run(*command).exit_code == 0
    refused = run(*command, "--records", "2")
    assert refused.exit_code == 2
    assert "cannot resume from search.journal" in " ".join(refused.stderr.split())
    assert run("verify", "views:pipeline", "--resume", "search.journal").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--master", "local[2]", "--jobs", "2"), "jobs=2 must be left out with --master"),
        (("--on", "both"), "on='both' must be given for a Spark job"),
    ],
)
def test_options_that_exclude_each_other_or_the_target_are_refused(
    arguments: tuple[str, ...], says: str, folder: Path, run: Run
) -> None:
    result = run("verify", "views:pipeline", *arguments)
    assert result.exit_code == 2
    assert says in plain(result.stderr)
