"""The README and docs/harness.md are true: their commands run, their code works, and what they say is printed is printed."""

import re
from pathlib import Path

import pytest

from tests.readme_blocks import (
    HARNESS,
    README,
    ROOT,
    Command,
    as_printed,
    commands,
    files,
    kinds,
    not_printed,
    run,
)

TEXT = README.read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
COMMANDS = commands(TEXT)

NOT_RUN = {
    "make demo": "makes a virtual environment and takes minutes; CI's fresh clone and the commands below cover what it runs",
    "make test": "would run this test again, within itself",
}
"""The only commands of the README that this file does not run, with the reason."""

MANY_EXAMPLES = re.compile(r"--examples \d+")
DEFAULT_EXAMPLES = re.compile(r"^headrace verify \S+$")
FEWER = "--examples 30"
ENUMERATION = "--search enumerate"
PAIRS = "--search pairs --examples 20"


def cut_down(shell: str) -> str:
    """The same search, shorter."""
    shorter = MANY_EXAMPLES.sub(FEWER, shell).replace(ENUMERATION, PAIRS)
    return DEFAULT_EXAMPLES.sub(rf"\g<0> {FEWER}", shorter)


def reader_of(text: str, folder: Path) -> Path:
    """A reader's directory, with a page's files in it."""
    for name, source in files(text).items():
        (folder / name).write_text(source)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The README's reader."""
    return reader_of(TEXT, tmp_path_factory.mktemp("reader"))


def test_the_first_screen_has_the_two_commands() -> None:
    assert [command.shell for command in COMMANDS[:2]] == ["make demo", "make test"]
    assert TEXT.index("$ make test") < 1_500


def test_every_block_is_one_that_is_tried_here() -> None:
    assert kinds(TEXT) == {"console", "python"}
    assert TEXT.count("```") == 2 * len(re.findall(r"^```(?:console|python)$", TEXT, re.MULTILINE))
    assert NOT_RUN.keys() <= {command.shell for command in COMMANDS}


def test_the_first_pipeline_is_short_and_so_is_its_property_test() -> None:
    def lines(name: str) -> int:
        return sum(bool(line.strip()) and not line.startswith("#") for line in files(TEXT)[name].splitlines())

    assert lines("views.py") <= 30
    assert lines("test_views.py") <= 5


def needs_spark(command: Command) -> bool:
    """Those that do stand by themselves: they use what is written on the page, and nothing that another one leaves."""
    return "spark" in command.shell


def check(command: Command, folder: Path) -> None:
    """It ends and prints as the page says. Searches are cut down: then the same things are counted, in another order."""
    shell = cut_down(command.shell)
    done = run(shell, folder)
    assert done.returncode == command.exit_code, f"{command.line}\n{done.stdout}{done.stderr}"
    printed = done.stdout.splitlines()
    if shell == command.shell:
        as_printed(command.output, printed)
    else:
        assert not_printed(command.output, printed) == [], command.line


@pytest.mark.slow
@pytest.mark.parametrize("page", [README, HARNESS], ids=lambda page: page.stem)
def test_each_command_runs_and_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    """In order, as a reader types them: one saves the file that the next one replays. Numbers may always differ."""
    text = page.read_text()
    reader_of(text, tmp_path)
    for command in commands(text):
        if command.shell not in NOT_RUN and not needs_spark(command):
            check(command, tmp_path)


@pytest.mark.slow
@pytest.mark.spark
def test_each_command_on_spark_runs_and_prints_what_the_readme_says(tmp_path: Path) -> None:
    reader_of(TEXT, tmp_path)
    on_spark = [command for command in COMMANDS if needs_spark(command)]
    assert len(on_spark) == 3
    for command in on_spark:
        check(command, tmp_path)


@pytest.mark.parametrize(
    "command", [one for one in COMMANDS if "scenario run" in one.line], ids=lambda one: one.shell
)
def test_each_timeline_is_pasted_to_the_letter(folder: Path, command: Command) -> None:
    printed = run(command.shell, folder).stdout.splitlines()
    assert list(command.output) == as_printed(command.output, printed)


def test_nothing_is_left_out_that_was_to_be_pasted() -> None:
    assert "PENDING" not in TEXT


@pytest.mark.parametrize("text", [TEXT, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_links_files_and_make_targets_are_there(text: str) -> None:
    named = re.findall(r"\]\((?!https://)([^)#]+)", text) + re.findall(r"`([\w.]+/[\w./]*)`", text)
    assert named
    assert [path for path in named if not (ROOT / path).exists() and not path.startswith(".venv/")] == []
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^(\w+):", makefile, re.MULTILINE)
    assert set(re.findall(r"(?:^\$ |`)make (\w+)", text, re.MULTILINE)) <= set(targets)


def test_each_package_is_in_the_table() -> None:
    rows = dict(re.findall(r"^\| `(\w+)/` \| `(\w+)` \|", TEXT, re.MULTILINE))
    assert {folder: (ROOT / folder / package).is_dir() for folder, package in rows.items()} == dict.fromkeys(
        rows, True
    )
    assert set(rows) == {"core", "sim", "properties", "scenarios", "benchmarks", "cli"}


@pytest.mark.parametrize(
    ("claimed", "printed"),
    [
        (("a 1",), ["a 22"]),
        (("a", "...", "c"), ["a", "b", "c"]),
        (("a", "..."), ["a", "b"]),
        (("...", "b"), ["a", "b"]),
        (("a in ...",), ["a in 3 s"]),
    ],
)
def test_a_pasted_output_fits_but_for_numbers_and_ellipses(
    claimed: tuple[str, ...], printed: list[str]
) -> None:
    assert len(as_printed(claimed, printed)) == len(claimed)


@pytest.mark.parametrize(
    ("claimed", "printed"),
    [
        (("a", "c"), ["a", "b", "c"]),
        (("a",), ["a", "b"]),
        (("c", "..."), ["a", "b"]),
        (("b", "a"), ["a", "b"]),
        ((), ["a"]),
    ],
)
def test_a_pasted_output_that_does_not_fit_is_refused(claimed: tuple[str, ...], printed: list[str]) -> None:
    with pytest.raises(LookupError):
        as_printed(claimed, printed)
