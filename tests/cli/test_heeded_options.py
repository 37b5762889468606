"""Each option of ``headrace verify`` is heeded by each kind of target and in each search, or refused with a clear message."""

from pathlib import Path
from typing import Any

import pytest
import typer

from headrace import OptionsError
from headrace_cli.commands import replay
from headrace_cli.commands.verify import app
from headrace_cli.options.heeded import option_name, refuse_unheeded_options
from headrace_properties.target_kinds import OPTIONS, REPLAY_OPTIONS, SearchKind, TargetKind
from tests.cli.rig import VIEWS, Run, save_zombie
from tests.properties.test_verify_arguments import SAMPLES as ARGUMENTS

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


def numbered(frames):
    for frame in frames:
        numbers.append(len(frame))
        yield frame.assign(n=len(numbers))


numbers = []


def numbering(words):
    return words.mapInPandas(numbered, "word STRING, n INT").writeStream.foreachBatch(write).start()


def query(words):
    return words.mapInPandas(positive, "word STRING, n INT").writeStream.foreachBatch(write).start()
"""
)
ROWS = ("--schema", "word STRING, n INT", "--feed", "rows")
TARGETS = {
    TargetKind.PIPELINE: ("kinds:pipeline",),
    TargetKind.QUERY: ("kinds:query", *ROWS),
    TargetKind.SINK: ("kinds:write", *ROWS),
    TargetKind.HOSTED: ("kinds:pipeline", "--on", "spark"),
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
    "master": ("--master", "local[2]"),
    "version": ("--version", "kinds:pipeline"),
    "feed": (),  # in TARGETS
    "promise": (),  # names one of the module's
    "without": ("--without", "sequencers"),
    "protocol": ("--protocol", "ack before commit"),
    "allow_unknown": (),  # names one of the target's
    "save": ("--save", "failure.json"),
    "html": ("--html", "failure.html"),
    "history": ("--history", "history.jsonl"),
    "failures": ("--failures", "kept"),
    "schema": ROWS[:2],
    "sample": ("--sample", "rows.jsonl"),
    "allow": ("--allow", "effect"),
    "duplicates": ("--duplicates",),
    "keys": ("--keys", "t=word"),
    "arguments": ("x",),
    "module": ("--module",),
    "env": ("--env", "A=1"),
    "stand_in": ("--stand-in", "a"),
    "query": ("--query", "a"),
    "postgres": ("--postgres", "postgresql://localhost/test"),
    "allow_writes": ("--allow-writes",),
    "source": ("--source", "keep"),
    "batches": ("--batches", "2", "--source", "keep"),
    "allow_network": ("--allow-network",),
    "strict": ("--strict",),
    "force": ("--force",),
    "verbose": ("--verbose",),
    "json": ("--json",),
}
"""How each is given, also by default values: who gives them means something."""


@pytest.fixture
def kinds(folder: Path) -> Path:
    (folder / "kinds.py").write_text(KINDS)
    return folder


def names_of(command: typer.Typer) -> set[str]:
    """Return the names of its options and arguments, as a user writes them."""
    parameters = typer.main.get_command(command).params
    return {option_name(parameter.opts) for parameter in parameters}


def test_each_option_has_a_row_and_each_row_an_option() -> None:
    assert names_of(app) == SAMPLES.keys() | {"pipeline"}
    assert OPTIONS.keys() == names_of(app) | ARGUMENTS.keys()
    assert names_of(replay.app) == REPLAY_OPTIONS.keys()


def refuse(kind: TargetKind, *arguments: str) -> None:
    """Refuse what a command line of ``verify`` has and this kind of target does not heed."""
    context: Any = typer.main.get_command(app).make_context("verify", [*arguments])
    refuse_unheeded_options(context, kind)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for name in SAMPLES
        for kind in TARGETS
        if kind not in OPTIONS[name].kinds and name != "module"  # then the target is a program
    ],
)
def test_option_without_effect_is_refused(kind: TargetKind, name: str) -> None:
    option = (
        name if name in {"arguments", "master"} else SAMPLES[name][0].removeprefix("--").replace("-", "_")
    )
    with pytest.raises(OptionsError, match=f"option {option}=.*left out for {kind.value}"):
        refuse(kind, *TARGETS[kind], *SAMPLES[name])


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize(
    ("kind", "option"),
    [
        (TargetKind.PIPELINE, ("--duplicates",)),
        *(
            pytest.param(kind, ("--search", "enumerate"), marks=pytest.mark.spark)
            for kind in (TargetKind.QUERY, TargetKind.SINK, TargetKind.HOSTED)
        ),
    ],
)
def test_what_is_refused_is_told_for_the_kind_of_the_target(
    run: Run, kind: TargetKind, option: tuple[str, ...]
) -> None:
    done = run("verify", *TARGETS[kind], *option)
    assert (done.exit_code, f"left out for {kind.value}" in done.output) == (2, True), done.output


@pytest.mark.parametrize(
    ("search", "name"),
    [
        (search.value, name)
        for name in SAMPLES
        for search in SearchKind
        if search not in OPTIONS[name].searches
    ],
)
def test_option_that_the_search_does_not_heed_is_refused(search: str, name: str) -> None:
    with pytest.raises(OptionsError, match="given with search="):
        refuse(TargetKind.PIPELINE, "kinds:pipeline", "--search", search, *SAMPLES[name])


_SPARK = (TargetKind.QUERY, TargetKind.SINK)
REPLAYS = {
    "explain": ("--explain",),
    "html": ("--html", "a.html"),
    "svg": ("--svg", "a.svg"),
    "perfetto": ("--perfetto", "a.perfetto"),
    "force": ("--force",),
    "pipeline": (),  # names the target of the file
    "promise": (),  # names one of the module's
    "until": ("--until", "violation"),
    "history": ("--history", "a.jsonl"),
    "trust": ("--trust",),
    "when": ("--when",),
    "jobs": ("--jobs", "1"),
    "code_timeout": ("--code-timeout", "5"),
    "env": ("--env", "A=1"),
    "allow": ("--allow", "effect"),
    "json": ("--json",),
}
"""How each option of ``replay`` is given."""
SLOW = {"when"}
"""Heeded in a thousand runs: see the tests of the command."""


FAILING = {
    TargetKind.CODE: ("failing:pipeline", "--examples", "1", "--feeds", "1", "--jobs", "1"),
    TargetKind.QUERY: ("kinds:numbering", *ROWS, "--examples", "20"),
    TargetKind.SINK: TARGETS[TargetKind.SINK],
}


def failure_of(kind: TargetKind, run: Run) -> Path:
    """Save a failure of a target, where the commands are run."""
    if kind is TargetKind.PIPELINE:
        return save_zombie(Path.cwd())
    path, page = Path("failure.json"), Path("page.html")
    assert run("verify", *FAILING[kind], "--save", str(path), "--html", str(page)).exit_code == 1
    assert run("replay", str(path), "--html", "again.html").exit_code == 1
    assert page.read_bytes() == Path("again.html").read_bytes()
    return path


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.spark] if kind in {TargetKind.QUERY, TargetKind.SINK} else [])
        for kind in TargetKind
        if kind not in {TargetKind.PROGRAM, TargetKind.HOSTED}  # their files are of a query, or a sink
    ],
)
def test_replay_heeds_each_option_or_refuses_it_by_name(run: Run, kind: TargetKind) -> None:
    assert REPLAYS.keys() == REPLAY_OPTIONS.keys() - {"file"}
    path = failure_of(kind, run)
    plainly = run("replay", str(path))
    assert plainly.exit_code == 1, plainly.output
    for name, option in REPLAYS.items():
        heeded = kind in REPLAY_OPTIONS[name].kinds
        if not option or (heeded and name in SLOW):
            continue
        done = run("replay", str(path), *option)
        if not heeded:
            told = f"option {name}="
            assert (done.exit_code, told in done.output, kind.value in done.output) == (2, True, True), name
            continue
        assert done.exit_code == 1, (name, done.output)
        if name in {"explain", "until", "json"}:
            assert done.output != plainly.output, name
        assert all(Path(part).exists() for part in option if part.startswith("a.")), name


LABORATORY = ("postgres", "allow_writes", "allow_network", "source")
ELSEWHERE = {
    "batches",
    "schema",
    "sample",
    "keys",
    "on",
    "master",
    *LABORATORY,
    "search",
    "depth",
    "version",
    "protocol",
}
"""Already given, about another target, or with a test of their own."""


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize(
    "kind", [TargetKind.PIPELINE, *(pytest.param(kind, marks=pytest.mark.spark) for kind in _SPARK)]
)
def test_options_that_a_target_heeds_are_accepted_together(run: Run, kind: TargetKind) -> None:
    given = [
        name
        for name in SAMPLES
        if kind in OPTIONS[name].kinds
        and SearchKind.RANDOM in OPTIONS[name].searches
        and name not in ELSEWHERE
    ]
    done = run("verify", *TARGETS[kind], *(part for name in given for part in SAMPLES[name]))
    assert done.exit_code != 2, done.output


@pytest.mark.spark
@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("name", LABORATORY)
def test_what_only_the_real_spark_heeds_is_refused_in_the_simulation(run: Run, name: str) -> None:
    done = run("verify", *TARGETS[TargetKind.SINK], *SAMPLES[name])
    assert done.exit_code == 2, done.output
    assert "must be given with on=spark" in done.output
