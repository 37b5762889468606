"""The pytest plugin in a user's project: a separate pytest in a separate directory."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from headrace_properties.kept_failures import FOLDER, KeptFailures
from headrace_properties.pytest_plugin import PROFILES
from headrace_properties.replays import to_replay
from headrace_properties.target import PipelineSource
from headrace_properties.user_code.code_trial import CodeTrial
from headrace_properties.user_code.habits import Habit
from tests import forked
from tests.cli.rig import STATELESS, VIEWS, environment, plain

HOLDS = """
from views import feed, pipeline

def test_views_hold(headrace_verify):
    assert headrace_verify(pipeline, feed).runs >= 5
"""

BREAKS = """
from headrace_properties.proof.mutants import MUTANTS
from views import feed, pipeline

def test_views_hold(headrace_verify):
    headrace_verify(pipeline, feed, examples=200, seed=3, protocol=MUTANTS["without sequencers"])
"""

SHARES = """
from headrace import Computation, Pipeline
import views

class Counter(Computation):
    def __init__(self):
        self.seen = 0

    def process_record(self, context, record):
        self.seen += 1
        context.produce("counts", self.seen)

pipeline = views.build(Counter())

def test_counter(headrace_verify):
    headrace_verify(pipeline, views.feed)
"""

PROMISES = """
from headrace_properties.promises import always
from views import *

@always(stream="counts")
def small_counts(moment):
    assert moment.changed.value < 2, "two views in a second"

@always(stream="counts")
def counts_are_numbers(moment):
    return isinstance(moment.changed.value, int)

"""

GIVEN = """
import promising

def test_given(headrace_verify):
    headrace_verify(promising.pipeline, promising.feed, promises=[promising.counts_are_numbers])

def test_broken(headrace_verify):
    headrace_verify(promising.pipeline, promising.feed, promises=[promising.small_counts])
"""

FEW = ("--headrace-examples", "5")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with a pipeline."""
    (tmp_path / "views.py").write_text(VIEWS.replace("seconds=4", "seconds=2"))
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    return tmp_path


OUTER = {"CI", "BUILD_NUMBER", "PYTEST_XDIST_WORKER"}
"""What pytest goes by that is about the tests outside: under CI it cuts its summary nowhere, and a worker shares no runs."""


def pytest_in(project: Path, *arguments: str, shared: bool = False) -> tuple[int, str]:
    """Run pytest there. ``shared``: as where nobody else uses the cores, with processes that share the runs."""
    variables = {name: value for name, value in environment().items() if name not in OUTER}
    if not shared:
        variables["PYTEST_XDIST_WORKER"] = "gw0"
    ran = forked.pytest(["-p", "no:cacheprovider", *arguments], cwd=project, env=variables)
    return ran.returncode, plain(ran.stdout + ran.stderr)


def test_a_pipeline_that_holds_passes_in_one_line(project: Path) -> None:
    (project / "test_views.py").write_text(HOLDS)
    code, text = pytest_in(project, *FEW)
    assert (code, "1 passed" in text) == (0, True), text


@pytest.mark.parametrize("options", [(), ("-s",), ("-v",)])
def test_a_long_test_shows_its_progress_in_a_log(project: Path, options: tuple[str, ...]) -> None:
    (project / "conftest.py").write_text(
        "from headrace_properties import pytest_plugin\npytest_plugin.PERIOD_S = 0.001\n"
    )
    (project / "test_views.py").write_text(HOLDS + "    print('from the test')\n    assert False\n")
    _, text = pytest_in(project, *FEW, *options)
    lines = re.findall(r"test_views.py::test_views_hold: (\d+) of 5 runs", text)
    assert lines[-1] == "5", text
    assert "from the test" in text.partition("Captured stdout call")[0 if "-s" in options else 2]


def test_findings_end_the_log_with_the_commands_that_replay_them(project: Path) -> None:
    (project / "test_views.py").write_text(BREAKS)
    _, text = pytest_in(project, "-q")
    summary = text.partition("Headrace's findings")[2]
    assert "test_views.py::test_views_hold: " in summary
    assert re.search(r" headrace replay \S+\.json --explain ", summary), text


def test_a_small_scope_is_exhausted(project: Path) -> None:
    scope = "search='exhaustive', scope=Scope(records=1, faults=0, delays=1), allow_unknown=['all'])"
    test = HOLDS.replace(".runs >= 5", ".exploration.exhausted").replace("feed)", f"feed, {scope}")
    (project / "test_views.py").write_text("from headrace_properties.search.scope import Scope\n" + test)
    code, text = pytest_in(project)
    assert (code, "1 passed" in text) == (0, True), text


def test_orders_by_priorities_are_searched(project: Path) -> None:
    test = HOLDS.replace(".runs >= 5", ".ordering.depth == 3").replace(
        "feed)", "feed, search='pct', depth=3)"
    )
    (project / "test_views.py").write_text(test)
    code, text = pytest_in(project, *FEW)
    assert (code, "1 passed" in text) == (0, True), text


def test_a_failure_that_was_kept_fails_again_first(project: Path) -> None:
    """One run with a fault would not find it."""
    (project / "test_views.py").write_text(BREAKS)
    (project / "test_quickly.py").write_text(BREAKS.replace("examples=200", "examples=1"))
    assert pytest_in(project, "test_quickly.py")[0] == 0
    assert pytest_in(project, "test_views.py")[0] == 1
    (kept,) = (project / ".headrace/failures/views.pipeline").iterdir()
    code, text = pytest_in(project, "test_quickly.py")
    assert (code, f"headrace replay {kept.relative_to(project)} --explain" in text) == (1, True), text


def test_a_failure_shows_the_schedule_the_verdict_and_a_replay_command_that_works(project: Path) -> None:
    (project / "test_views.py").write_text(BREAKS)
    code, text = pytest_in(project)
    assert code == 1
    assert "views breaks S" in text
    assert "S6, only the latest owner writes" in text
    assert "The smallest fault schedule found that does this" in text
    assert "all faults end" in text
    (saved,) = project.rglob("headrace-failure-*.json")
    assert f"headrace replay {saved.relative_to(project)}" in text

    replayed = forked.headrace(["replay", str(saved)], cwd=project, env=environment())
    assert replayed.returncode == 1, replayed.stderr
    assert "byte for byte" in replayed.stdout


def test_a_pipeline_named_in_the_settings_needs_no_test_at_all(project: Path) -> None:
    (project / "pytest.ini").write_text("[pytest]\npythonpath = .\nheadrace_pipelines = views:pipeline\n")
    code, text = pytest_in(project, *FEW, "--junit-xml", "report.xml", "-v")
    assert (code, "1 passed" in text) == (0, True), text
    assert "views:pipeline PASSED" in text
    case = ET.parse(project / "report.xml").find(".//testcase")  # noqa: S314  we wrote it
    assert case is not None
    assert case.get("name") == "views:pipeline"
    properties = {element.get("name"): element.get("value") for element in case.iter("property")}
    assert int(properties["headrace runs"] or 0) >= 5


@pytest.mark.parametrize(
    ("arguments", "run"),
    [
        ((), True), ((".",), True), (("tests",), True),
        (("tests/test_other.py",), False), (("tests/test_other.py::test_other",), False),
    ],
    ids=str,
)  # fmt: skip
def test_configured_pipelines_run_unless_only_files_were_asked_for(
    project: Path,
    arguments: tuple[str, ...],
    run: bool,  # noqa: FBT001  a column of the table
) -> None:
    (project / "pytest.ini").write_text("[pytest]\nheadrace_pipelines = views:pipeline\n")
    (project / "tests").mkdir()
    (project / "tests" / "test_other.py").write_text("def test_other(): pass\n")
    code, text = pytest_in(project, "--collect-only", "-q", *arguments)
    assert (code, "::views:pipeline" in text) == (0, run), text


@pytest.mark.parametrize("more", [(), ("-n", "1")], ids=["one process", "xdist"])
def test_a_pipeline_in_the_root_directory_is_found_wherever_pytest_is_started(
    project: Path, more: tuple[str, ...]
) -> None:
    """Neither pythonpath nor the current directory has it."""
    (project / "pytest.ini").write_text("[pytest]\nheadrace_pipelines = views:pipeline\n")
    (project / "tests").mkdir()
    code, text = pytest_in(project / "tests", *FEW, *more)
    assert (code, "1 passed" in text) == (0, True), text


def test_what_no_run_exercised_fails_unless_it_is_allowed_by_name(project: Path) -> None:
    (project / "stateless.py").write_text(STATELESS)
    (project / "test_it.py").write_text(
        "import stateless\n"
        "def test_it(headrace_verify): headrace_verify(stateless.pipeline, stateless.feed)\n"
        "def test_named(headrace_verify):\n"
        "    headrace_verify(stateless.pipeline, stateless.feed, allow_unknown=['S8', 'S9', 'L1'])\n"
    )
    settings = "[pytest]\npythonpath = .\nheadrace_pipelines = stateless:pipeline\n"
    for allowed, options, passed, failed in (
        ("S9", (), 1, 2), ("S9", ("--headrace-allow-unknown", "S8, L1"), 3, 0),
    ):  # fmt: skip
        (project / "pytest.ini").write_text(f"{settings}headrace_allow_unknown = {allowed}\n")
        code, text = pytest_in(project, *FEW, *options)
        assert (code, f"{passed} passed" in text, f"{failed} failed" in text) == (
            failed > 0,
            True,
            failed > 0,
        ), text
        if failed:
            assert (
                "nothing is violated in 5 runs, but none of them exercised S8, L1. Use an input that does"
                in text
            )


@pytest.mark.parametrize("number", ["0", "-3", "many", "1.5"])
def test_nonsense_for_a_number_of_runs_is_refused(project: Path, number: str) -> None:
    code, text = pytest_in(project, f"--headrace-examples={number}")
    assert code == 4
    assert f"argument --headrace-examples: invalid positive number value: '{number}'" in text


def test_a_failure_keeps_its_verdict_though_no_file_can_be_written(project: Path) -> None:
    (project / "test_views.py").write_text(BREAKS)
    (project / "taken").write_text("a file, not a directory")
    code, text = pytest_in(project, "--headrace-failures", "taken")
    assert (code, "views breaks S" in text, "(no replay file: cannot write taken" in text) == (
        1,
        True,
        True,
    ), text
    assert "record stream=views key=" in text


def test_a_bug_in_the_code_fails_though_every_invariant_holds(project: Path) -> None:
    (project / "test_counter.py").write_text(SHARES)
    code, text = pytest_in(project, *FEW)
    assert code == 1
    assert "views breaks shares-state" in text
    assert "Shown by 2 records" in text


SLOW = """
import time
import views

class Slow(views.CountViews):
    def process_record(self, context, record):
        while time.process_time() < {}:
            pass

pipeline = views.build(Slow())

def feed(seed):
    return views.feed(seed)
"""


@pytest.mark.parametrize("how", ["option", "setting"])
def test_the_time_of_a_call_is_an_option_and_a_setting(project: Path, how: str) -> None:
    (project / "slow.py").write_text(SLOW.format(3_000))
    setting = "headrace_code_timeout = 0.2\n" * (how == "setting")
    options = ["--headrace-code-timeout=0.2"] * (how == "option")
    (project / "pytest.ini").write_text(
        f"[pytest]\npythonpath = .\nheadrace_pipelines = slow:pipeline\n{setting}"
    )
    code, text = pytest_in(project, *FEW, *options)
    assert code == 1
    assert "breaks never-ends" in text
    assert "it has not ended after 0.2 s of CPU time; --headrace-code-timeout allows more" in " ".join(
        text.split()
    )
    assert re.search(r"headrace replay \S+ --code-timeout 0.2", text)


def test_nonsense_for_the_time_of_a_call_is_refused(project: Path) -> None:
    assert pytest_in(project, "--headrace-code-timeout=soon")[0] == 4
    (project / "pytest.ini").write_text(
        "[pytest]\nheadrace_pipelines = views:pipeline\npythonpath = .\nheadrace_code_timeout = 0\n"
    )
    code, text = pytest_in(project, *FEW)
    assert code == 1
    assert "headrace_code_timeout: '0' is not a number of seconds from 0.1 on" in text


def test_a_finding_that_was_kept_is_asked_for_again(project: Path) -> None:
    """The inputs of today's seeds do not show it."""
    (project / "rare.py").write_text(RARE)
    (project / "pytest.ini").write_text("[pytest]\npythonpath = .\nheadrace_pipelines = rare:pipeline\n")
    source = PipelineSource("rare:pipeline")
    KeptFailures(project / FOLDER, source).keep(
        to_replay(source, CodeTrial(100, (0,)), {Habit.RAISES.kind: ""})
    )
    code, text = pytest_in(project, *FEW)
    assert (code, "breaks raises" in text) == (1, True), text


RARE = """
import views

class Rare(views.CountViews):
    def process_record(self, context, record):
        if record.value >= 100:
            raise ValueError("rare")
        super().process_record(context, record)

pipeline = views.build(Rare())

def feed(seed):
    return views.feed(seed)
"""


@pytest.mark.parametrize("name", ["nowhere:pipeline", "views:nothing", "views"])
def test_a_pipeline_that_is_not_there_is_named(project: Path, name: str) -> None:
    (project / "pytest.ini").write_text(f"[pytest]\npythonpath = .\nheadrace_pipelines = {name}\n")
    code, text = pytest_in(project)
    assert code == 1
    assert f"headrace_pipelines: '{name}': " in text
    assert "Name MODULE:PIPELINE" in text


def test_the_help_names_the_profiles(project: Path) -> None:
    code, text = pytest_in(project, "--help")
    assert code == 0
    assert "--headrace-profile={ci,dev,nightly}" in text
    assert list(PROFILES) == ["dev", "ci", "nightly"]


def test_a_promise_beside_a_pipeline_of_the_settings_is_judged_and_replayed(project: Path) -> None:
    (project / "promising.py").write_text(PROMISES + "promises = [counts_are_numbers, small_counts]\n")
    (project / "pytest.ini").write_text("[pytest]\npythonpath = .\nheadrace_pipelines = promising:pipeline\n")
    code, text = pytest_in(project, *FEW)
    assert code == 1
    assert "breaks small_counts" in text
    assert "two views in a second" in text
    assert "headrace replay" in text


def test_promises_given_to_the_fixture_count_and_are_not_replayed_from_nowhere(project: Path) -> None:
    (project / "promising.py").write_text(PROMISES)
    (project / "test_given.py").write_text(GIVEN)
    code, text = pytest_in(project, *FEW)
    assert code == 1
    assert "1 failed, 1 passed" in text
    assert "add small_counts to a list promises beside the pipeline" in text


DRAWN = """
from hypothesis import strategies as st
from promising import *

feed = st.lists(st.integers(0, 9), min_size=8)
promises = [small_counts]

def test_beside(headrace_verify):
    headrace_verify(pipeline, feed)

def test_unnamed(headrace_verify):
    headrace_verify(pipeline, st.lists(st.integers(0, 9), min_size=8), promises=[counts_are_numbers])
"""


def test_what_makes_no_input_for_the_pipeline_is_refused(project: Path) -> None:
    (project / "test_it.py").write_text(
        "import itertools, pytest, views\n"
        "from headrace import Computation, Pipeline\n"
        "from headrace_properties.target import TargetError\n"
        "another = lambda seed, numbers=itertools.count(): views.feed(next(numbers))\n"
        "taps = Pipeline('taps')\n"
        "taps.injector('taps')\n"
        "taps.add(Computation(), name='tap', inputs=['taps'])\n"
        "@pytest.mark.parametrize('pipeline', [views.pipeline, taps])\n"
        "@pytest.mark.parametrize('feed', [None, lambda seed: [seed], another, views.feed])\n"
        "def test_it(headrace_verify, pipeline, feed):\n"
        "    if (pipeline, feed) != (views.pipeline, views.feed):\n"
        "        with pytest.raises(TargetError, match='not a function|not a Feed|another input|not a process'):\n"
        "            headrace_verify(pipeline, feed)\n"
    )
    code, output = pytest_in(project, "test_it.py")
    assert code == 0, output


def test_a_strategy_is_an_input_in_a_test_and_beside_a_pipeline_of_the_settings(project: Path) -> None:
    (project / "promising.py").write_text(PROMISES)
    (project / "test_drawn.py").write_text(DRAWN)
    (project / "pytest.ini").write_text(
        "[pytest]\npythonpath = .\nheadrace_pipelines = test_drawn:pipeline\n"
    )
    code, text = pytest_in(project, *FEW)
    assert (code, "2 failed, 1 passed" in text, text.count("Run it again")) == (1, True, 2), text
    (kept,) = project.rglob("headrace-failure-*.json")
    assert f"headrace replay {kept.relative_to(project)} --explain" in text


CORES = """
import pytest
from headrace_properties.search import parallel, strategy

@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    used = []
    def noted(application, protocol, jobs, begin=parallel.runner):
        used.append(jobs)
        return begin(application, protocol, jobs)
    monkeypatch.setattr(parallel, "cores", lambda: 2)
    monkeypatch.setattr(strategy, "runner", noted)
    yield
    print("jobs:", *used)
"""


def test_cores_share_the_runs_unless_xdist_does_and_find_the_same(project: Path) -> None:
    (project / "conftest.py").write_text(CORES)
    (project / "test_views.py").write_text(BREAKS)
    found = []
    for folder, more, jobs in (("shared", (), 2), ("alone", ("-n", "1"), 1)):
        code, text = pytest_in(project, "-rA", "--headrace-failures", folder, *more, shared=True)
        assert (code, f"jobs: {jobs} " in text) == (1, True), text
        (kept,) = (project / folder).rglob("headrace-failure-*.json")
        found.append(kept.read_bytes())
    assert found[0] == found[1]


def test_last_failed_selects_a_pipeline_with_a_kept_failure(project: Path) -> None:
    """The kept failure fails again, and once fixed, it is retired."""
    (project / "promising.py").write_text(PROMISES + "promises = [counts_are_numbers, small_counts]\n")
    (project / "pytest.ini").write_text(
        "[pytest]\npythonpath = .\nheadrace_pipelines = views:pipeline promising:pipeline\n"
    )
    cached = ("-p", "cacheprovider", *FEW)
    assert "1 failed, 1 passed" in pytest_in(project, *cached)[1]
    (kept,) = project.rglob("headrace-failure-*.json")
    code, text = pytest_in(project, *cached, "--lf")
    assert (code, "1 failed" in text, " passed" in text) == (1, True, False), text
    assert f"headrace replay {kept.relative_to(project)} --explain" in text
    (project / "promising.py").write_text(
        PROMISES.replace("value < 2", "value < 99") + "promises = [counts_are_numbers, small_counts]\n"
    )
    code, text = pytest_in(project, *cached, "--lf")
    assert (code, "1 passed" in text, " failed" in text) == (0, True, False), text
    assert [path.parent.name for path in project.rglob(kept.name)] == ["retired"]
