"""The README and the pages of docs are true: commands run, code works, and the documented output and pictures are real."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.readme_blocks import (
    DOCS,
    IMAGES,
    NOT_RUN,
    README,
    ROOT,
    Command,
    as_printed,
    commands,
    commands_of,
    files,
    kinds,
    not_printed,
    pages,
    run,
)

TEXT = README.read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
PAGES = pages()
HOME = "https://github.com/headrace/headrace"
FILES_AT_HOME = re.compile(
    r"https://(?:github\.com/headrace/headrace/blob|raw\.githubusercontent\.com/headrace/headrace)/main/([^)#]+)"
)

MANY_EXAMPLES = re.compile(r"^(headrace verify .*)--examples \d+")
DEFAULT_EXAMPLES = re.compile(r"^headrace verify \S+(?<!\.py)$")
FEWER = "--examples 30"
FEWER_THAN_SAID = r"\g<1>--examples 25"
FEWER_INPUTS = "--feeds 4"
IN_PYTEST = re.compile(r"^pytest .*--headrace-profile ci(?= )")
SEARCH = re.compile(r"^headrace (?:verify|mutants) (?!.*--jobs)")
ENUMERATION = "--search enumerate"
PAIRS = "--search pairs --examples 20"


def cut_down(command: Command) -> str:
    """The same search, shorter; where it finds nothing, on fewer inputs, too."""
    shorter = MANY_EXAMPLES.sub(FEWER_THAN_SAID, command.shell).replace(ENUMERATION, PAIRS)
    shorter = IN_PYTEST.sub(r"\g<0> --headrace-examples 10", shorter)
    shorter = DEFAULT_EXAMPLES.sub(rf"\g<0> {FEWER}", shorter)
    on_all = command.exit_code or shorter == command.shell or IN_PYTEST.match(shorter)
    return shorter if on_all else f"{shorter} {FEWER_INPUTS}"


def in_one_process(shell: str) -> str:
    """The same search, which prints the same, without the time to start others."""
    return f"{shell} --jobs 1" if SEARCH.match(shell) else shell


def reader_of(text: str, folder: Path) -> Path:
    """A reader's directory, with a page's files in it."""
    for name, source in files(text).items():
        (folder / name).write_text(source)
    return folder


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_the_first_screen_has_the_two_commands() -> None:
    assert [command.shell for command in commands(TEXT)[:2]] == ["make demo", "make test"]
    assert TEXT.index("$ make test") < 1_500


def test_what_is_found_in_a_job_that_looks_right_stands_on_the_first_screen() -> None:
    assert "VIOLATED" in "".join(TEXT.splitlines()[:40])


def test_the_readme_has_at_most_200_lines() -> None:
    assert len(TEXT.splitlines()) <= 200


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_is_tested_here(page: Path) -> None:
    text = page.read_text()
    assert kinds(text) <= {"console", "python"}
    assert text.count("```") == 2 * len(re.findall(r"^```(?:console|python)$", text, re.MULTILINE))


def test_every_reason_to_leave_a_command_out_is_needed() -> None:
    assert NOT_RUN.keys() <= {command.shell for command in commands(TEXT)}


def test_every_page_without_commands_declares_its_blocks() -> None:
    """Else a command could hide in one."""
    for page in sorted(set(DOCS.rglob("*.md")) - set(PAGES)):
        opened = re.findall(r"^```(\w*)$", page.read_text(), re.MULTILINE)
        assert all(opened[::2]), page


def test_the_first_pipeline_is_short_and_so_is_its_property_test() -> None:
    def lines(name: str) -> int:
        return sum(bool(line.strip()) and not line.startswith("#") for line in files(TEXT)[name].splitlines())

    assert lines("views.py") <= 30
    assert lines("test_views.py") <= 5


PREPARES = re.compile(r"(?:mkdir|echo|cp) ")
SAVED = re.compile(r"--save (\w+)|(\w+)\.py\b")
NAMED = re.compile(r"\b(\w+)(?:\.py\b|\.json\b|:\w)|^(?:from|import) (\w+)", re.MULTILINE)
OF_SPARK = re.compile(r"^(?:from|import) (?:pyspark|headrace\.spark|headrace_sim\.spark)\b", re.MULTILINE)


def on_spark(page: Path) -> list[tuple[Command, set[bool]]]:
    """The commands of a page, each with whether it is run among those that need PySpark, among the others, or both.

    It needs PySpark if it says so, or names a file that imports it or that names such a file, or what such a command saved.
    """

    def named(text: str, expression: re.Pattern[str]) -> set[str]:
        return {name for names in expression.findall(text) for name in names if name}

    sources = {Path(name).stem: source for name, source in files(page.read_text()).items()}
    needing = {name for name, source in sources.items() if OF_SPARK.search(source)}
    for _ in sources:
        needing |= {name for name, source in sources.items() if needing & named(source, NAMED)}
    marked = []
    for command in commands_of(page):
        needs = "spark" in command.shell or bool(needing & named(command.shell, NAMED))
        needing |= named(command.shell, SAVED) if needs else set()
        marked.append((command, {True, False} if PREPARES.match(command.shell) else {needs}))
    return marked


BY_NIGHT = ("symptoms.md",)
"""It runs twenty jobs under every failure."""

BY_DAY = ("README.md", "spark-sinks.md", "spark-stateful.md")
"""Each of the other pages takes more than half a minute on Spark."""
ON_SPARK = [page for page in PAGES if any(needs == {True} for _, needs in on_spark(page))]


def check(command: Command, folder: Path) -> None:
    """It ends and prints as the page says. Searches are cut down: then the same things are counted, in another order."""
    shell = cut_down(command)
    done = run(in_one_process(shell), folder)
    assert done.returncode == command.exit_code, f"{command.line}\n{done.stdout}{done.stderr}"
    printed = done.stdout.splitlines()
    if shell == command.shell:
        lines = as_printed(command.output, printed)
        assert "scenario run" not in shell or list(command.output) == lines, (
            "a scenario's numbers never differ"
        )
    else:
        assert not_printed(command.output, printed) == [], command.line
    for picture in command.pictures:
        assert (folder / picture).read_bytes() == (IMAGES / picture).read_bytes(), picture


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.nightly if page.name in BY_NIGHT else (), id=name_of(page))
        for page in PAGES
    ],
)
def test_each_command_runs_and_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    """In order, as a reader types them: one saves the file that the next one replays. Numbers may always differ."""
    text = page.read_text()
    reader_of(text, tmp_path)
    for command, needs in on_spark(page):
        if False in needs:
            check(command, tmp_path)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page.name in BY_DAY else pytest.mark.nightly, id=name_of(page))
        for page in ON_SPARK
    ],
)
@pytest.mark.cpu(30, "all commands of a page in order, as each may need what those before it saved")
def test_each_command_on_spark_runs_and_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    reader_of(page.read_text(), tmp_path)
    for command, needs in on_spark(page):
        if True in needs:
            check(command, tmp_path)


def test_commands_on_spark_are_among_them() -> None:
    assert {"README.md", "spark-sinks.md", "spark-job.md", "zeitgeist.md"} <= {page.name for page in ON_SPARK}


def test_each_picture_of_a_run_is_drawn_by_a_command_and_shown_on_its_page() -> None:
    drawn = {picture: page for page in PAGES for command in commands_of(page) for picture in command.pictures}
    for picture, page in drawn.items():
        assert f"img/{picture})" in page.read_text(), f"{name_of(page)} does not show {picture}"
    by_hand = {"architecture.svg"}
    assert {path.name for path in IMAGES.iterdir()} == drawn.keys() | by_hand


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_everything_to_be_pasted_is_pasted(page: Path) -> None:
    assert "PENDING" not in page.read_text()


def test_the_readmes_links_work_from_elsewhere_and_their_targets_exist() -> None:
    targets = re.findall(r"\]\(([^)]+)\)", TEXT)
    assert [target for target in targets if not target.startswith("https://")] == []
    at_home = FILES_AT_HOME.findall(TEXT)
    assert at_home
    assert [path for path in at_home if not (ROOT / path).exists()] == []
    own = {target for target in targets if "headrace" in target and not FILES_AT_HOME.match(target)}
    assert own <= {f"{HOME}/issues"}


def test_the_project_page_has_the_addresses_that_it_needs_and_their_targets_exist() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert set(urls) == {"Homepage", "Documentation", "Repository", "Issues", "Changelog"}
    assert all(url.startswith(HOME) for url in urls.values())
    named = [path for url in urls.values() for path in FILES_AT_HOME.findall(url)]
    assert len(named) == 2
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_only_the_changelog_has_the_projects_former_name() -> None:
    """Whoever had it must find what to do, and the replay files of then are read; nobody else needs it."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
    if listed.returncode:
        pytest.skip("not a checkout")
    former = ("mill" + "race").encode()
    named = [name for name in listed.stdout.splitlines() if former in name.lower().encode()]
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.is_file() and former in path.read_bytes().lower():
            named.append(name)
    replays = [f"tests/properties/replays/format-{number}-pipeline.json" for number in (1, 2, 3)]
    assert named == ["CHANGELOG.md", "properties/headrace_properties/replays.py", *replays]


def test_contributing_names_existing_files() -> None:
    named = re.findall(r"\]\((?!https://)([^)#]+)", CONTRIBUTING)
    named += re.findall(r"`([\w.]+/[\w./]*)`", CONTRIBUTING)
    assert named
    assert [path for path in named if not (ROOT / path).exists() and not path.startswith(".venv/")] == []


@pytest.mark.parametrize("text", [TEXT, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_each_make_target_that_is_named_exists(text: str) -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = set(re.findall(r"(?:^\$ |`)make (\w+)", text, re.MULTILINE))
    assert named
    assert named <= set(targets)


def test_each_package_is_in_the_table() -> None:
    page = (DOCS / "explanation" / "architecture.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)/` \| `(\w+)` \|", page, re.MULTILINE))
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
def test_a_pasted_output_matches_except_for_numbers_and_ellipses(
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
def test_a_pasted_output_that_does_not_match_is_refused(claimed: tuple[str, ...], printed: list[str]) -> None:
    with pytest.raises(LookupError):
        as_printed(claimed, printed)
