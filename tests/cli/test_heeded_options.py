"""Each option of ``headrace verify`` is heeded by each kind of target and in each search, or refused with a clear message."""

from pathlib import Path

import pytest
import typer

from headrace_cli import replay
from headrace_cli.verify import app
from headrace_properties.target_kinds import OPTIONS, REPLAY_OPTIONS, SearchKind, TargetKind
from tests.cli.rig import VIEWS, Run
from tests.properties.test_fixture_arguments import SAMPLES as ARGUMENTS

KINDS = (
    VIEWS
    + """
from headrace_properties.promises import sometimes

promises = []
rows = [[("a", 1), ("b", 2)]]


def write(df, batch_id):
    open("all.txt", "a").write(f"{df.count()}\\n")


def positive(frames):
    for frame in frames:
        yield frame[frame.n > 0]


def query(words):
    return words.mapInPandas(positive, "word STRING, n INT").writeStream.foreachBatch(write).start()
"""
)
ROWS = ("--schema", "word STRING, n INT", "--feed", "rows")
TARGETS = {
    TargetKind.PIPELINE: ("kinds:pipeline",),
    TargetKind.QUERY: ("kinds:query", *ROWS),
    TargetKind.SINK: ("kinds:write", *ROWS),
}
SAMPLES = {
    "search": ("--search", "pct"),
    "examples": ("--examples", "3"),
    "until_quiet": ("--until-quiet", "0.5"),
    "minutes": ("--minutes", "1"),
    "seed": ("--seed", "1"),
    "feeds": ("--feeds", "3"),
    "depth": ("--depth", "2"),
    "resume": ("--resume", "runs.json"),
    "outside": ("--outside", "lost_write"),
    "code_timeout": ("--code-timeout", "5"),
    "records": ("--records", "3"),
    "faults": ("--faults", "1"),
    "delays": ("--delays", "1"),
    "workers": ("--workers", "2"),
    "fault_kinds": ("--fault-kinds", "crash"),
    "jobs": ("--jobs", "1"),
    "on": ("--on", "here"),
    "master": ("--on", "spark", "--master", "local[2]"),
    "version": ("--version", "kinds:pipeline"),
    "feed": (),  # in TARGETS
    "promise": (),  # names one of the module's
    "without": ("--without", "sequencers"),
    "allow_unknown": (),  # names one of the target's
    "save": ("--save", "failure.json"),
    "history": ("--history", "history.jsonl"),
    "failures": ("--failures", "kept"),
    "schema": ROWS[:2],
    "allow": ("--allow", "effect"),
    "duplicates": ("--duplicates",),
    "keys": ("--keys", "t=word"),
    "force": ("--force",),
    "verbose": ("--verbose",),
    "json": ("--json",),
}
"""How each is given, also by default values: who gives them means something."""


@pytest.fixture
def kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "kinds.py").write_text(KINDS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names_of(command: typer.Typer) -> set[str]:
    """Return the names of its options and arguments, as a user writes them."""
    parameters = typer.main.get_command(command).params
    return {max(parameter.opts, key=len).lstrip("-").replace("-", "_") for parameter in parameters}


def test_each_option_has_a_row_and_each_row_an_option() -> None:
    assert names_of(app) == SAMPLES.keys() | {"pipeline"}
    assert OPTIONS.keys() == names_of(app) | ARGUMENTS.keys()
    assert names_of(replay.app) == REPLAY_OPTIONS.keys()


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(
            kind,
            name,
            marks=[pytest.mark.spark] if kind is not TargetKind.PIPELINE or name == "schema" else [],
        )
        for name in SAMPLES
        for kind in TARGETS
        if kind not in OPTIONS[name].kinds
    ],
)
def test_option_without_effect_is_refused(run: Run, kind: TargetKind, name: str) -> None:
    done = run("verify", *TARGETS[kind], *SAMPLES[name])
    option = SAMPLES[name][0].removeprefix("--").replace("-", "_")
    assert (done.exit_code, f"option {option}=" in done.output) == (2, True), done.output
    assert f"left out for {kind.value}" in done.output


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize(
    ("search", "name"),
    [
        (search.value, name)
        for name in SAMPLES
        for search in SearchKind
        if search not in OPTIONS[name].searches
    ],
)
def test_option_that_the_search_does_not_heed_is_refused(run: Run, search: str, name: str) -> None:
    done = run("verify", "kinds:pipeline", "--search", search, *SAMPLES[name])
    assert (done.exit_code, "given with search=" in done.output) == (2, True), done.output


@pytest.mark.spark
def test_replay_refuses_what_a_spark_job_does_not_heed(kinds: Path, run: Run) -> None:
    assert run("verify", "kinds:write", *ROWS, "--save", "failure.json").exit_code == 1
    for option in (("--promise", "p"), ("--jobs", "2")):
        done = run("replay", "failure.json", *option)
        told = f"option {option[0].removeprefix('--')}="
        assert (done.exit_code, told in done.output) == (2, True), done.output
    for option in (
        ("--svg", "a.svg"),
        ("--perfetto", "a"),
        ("--shiviz", "a"),
        ("--until", "1s"),
    ):
        done = run("replay", "failure.json", *option)
        assert (done.exit_code, "has no History" in done.output) == (2, True), done.output


@pytest.mark.spark
@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("kind", [TargetKind.QUERY, TargetKind.SINK])
def test_options_that_a_spark_job_heeds_are_accepted_together(run: Run, kind: TargetKind) -> None:
    given = [name for name in SAMPLES if kind in OPTIONS[name].kinds and name not in {"schema", "keys"}]
    done = run("verify", *TARGETS[kind], *(part for name in given for part in SAMPLES[name]))
    assert done.exit_code != 2, done.output
