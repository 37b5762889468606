"""The documentation as a site: its generated pages have all that the code has, and it is built without a warning."""

import ast
import html
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from docs.scripts import reference
from headrace import EngineOptions
from headrace_properties.checkers.invariant_catalogue import rules
from headrace_properties.pytest_plugin import pytest_addoption
from headrace_properties.verify_arguments import JobArguments, PipelineArguments, ProgramArguments
from headrace_sim import ClusterOptions
from headrace_sim.faults import KINDS
from headrace_sim.spark.declares import Meant
from tests.readme_blocks import DOCS, ROOT, files, pages

GENERATED = reference.pages()
NEEDS_MKDOCS = pytest.mark.skipif(
    find_spec("mkdocs") is None or find_spec("mkdocstrings") is None,
    reason="the extra docs is not installed; `make docs` installs it",
)


def headings(page: str) -> set[str]:
    return set(re.findall(r"^## (.+)$", GENERATED[page], re.MULTILINE))


def rows(page: str) -> set[str]:
    """What stands first in each row of the page's tables."""
    return set(re.findall(r"^\| `([^`]+)` \|", GENERATED[page], re.MULTILINE))


def test_every_event_fault_and_invariant_has_its_section() -> None:
    events = {kind.__name__ for kind in reference.events()}
    about = {"The file", "Lines of records", "Lines of steps", "Activation", "What led to what"}
    assert events | about == headings("history.md")
    assert set(KINDS.values()) < headings("faults.md")
    assert set(rules()) == headings("invariants.md")


def test_every_invariant_says_what_it_forbids() -> None:
    assert [rule.name for rule in rules().values() if len(rule.meaning) < 20] == []


def test_every_option_has_its_row_and_a_meaning() -> None:
    assert rows("options.md") == {*EngineOptions.__slots__, *ClusterOptions.__struct_fields__}
    assert re.findall(r"^\| `(\w+)` \|.*\| +\|$", GENERATED["options.md"], re.MULTILINE) == []


def test_every_command_and_exit_code_is_there() -> None:
    assert {*reference.commands(), "Exit codes"} == headings("commands.md")
    assert {"headrace verify", "headrace paper scenario run", "headrace replay"} < headings("commands.md")
    codes = re.findall(r"^\| (\d+) \| (.+) \|$", GENERATED["commands.md"], re.MULTILINE)
    assert [int(code) for code, _ in codes] == [0, 1, 2, 3, 70, 129, 130, 143]
    assert any(row.startswith("--allow-unknown") for row in rows("commands.md"))


@pytest.mark.parametrize(("page", "package"), [(page, about[0]) for page, about in reference.APIS.items()])
def test_every_public_name_has_its_entry(page: str, package: str) -> None:
    entries = re.findall(r"^::: (\S+)$", GENERATED[page], re.MULTILINE)
    _, _, folder = reference.APIS[page]
    assert sorted(entries) == sorted(f"{package}.{name}" for name in reference.public_names(package, folder))


def test_every_promise_is_said_to_be_asked_of_some_kind_of_target() -> None:
    named = {name for row in reference.PROMISED for name in re.findall(r"`(\w+)`", row[0])}
    harness = {"check_promises", "judge_promises", "promise_checkers"}
    public = reference.public_names("headrace_properties.promises", "properties")
    assert named == {name for name in public if name.islower()} - harness
    assert {f"`{name}`" for name in named} <= {*re.findall(r"`\w+`", GENERATED["api/promises.md"])}


def test_every_option_and_setting_of_the_plugin_is_there() -> None:
    added = re.findall(r"\"(--headrace-[\w-]+)\"", inspect.getsource(pytest_addoption))
    settings = {"headrace_pipelines", "headrace_allow_unknown", "headrace_code_timeout"}
    assert rows("api/pytest.md") == {*added, *settings}


def imported(source: str) -> Iterator[str]:
    """What a program of a page imports from us."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headrace"):
            yield from (f"{node.module}.{name.name}" for name in node.names)


def test_every_name_that_a_page_imports_has_its_entry() -> None:
    """The scenarios apart: they are examples."""
    used = {
        name for page in pages() for source in files(page.read_text()).values() for name in imported(source)
    }
    entries = {name for page in GENERATED.values() for name in re.findall(r"^::: (\S+)$", page, re.MULTILINE)}
    entries |= {f"headrace.history.{name}" for name in headings("history.md")}
    assert {"headrace.Context", "headrace.history.Output"} <= used
    assert [name for name in sorted(used - entries) if not name.startswith("headrace_scenarios")] == []


def test_every_page_is_in_the_navigation() -> None:
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    pages |= {f"reference/{path}" for path in GENERATED}
    navigated = re.findall(r"^ *- (?:\w+: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(navigated) == sorted(pages)


def test_every_link_of_a_page_resolves_to_a_file() -> None:
    """Without mkdocs, which checks anchors as well."""
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\((?!https://|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        str(config),
        "--site-dir",
        str(site),
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr
    return folder


def entry(site: Path, page: str, name: str) -> str:
    """The text that a page of the site has on one name."""
    text = (site / "reference" / page).with_suffix(".html").read_text()
    _, found, after = text.partition(f'<h2 id="{name}"')
    assert found, name
    return html.unescape(re.sub(r"<[^>]+>", " ", after.partition('<h2 id="')[0]))


@NEEDS_MKDOCS
@pytest.mark.slow
@pytest.mark.parametrize(("page", "package"), [(page, about[0]) for page, about in reference.APIS.items()])
def test_every_field_method_and_value_of_a_public_class_is_in_its_entry(
    site: Path, page: str, package: str
) -> None:
    if package == "headrace.spark":
        pytest.importorskip("pyspark")
    module, missing = importlib.import_module(package), []
    for name in reference.public_names(package, reference.APIS[page][2]):
        text = entry(site, page, f"{package}.{name}")
        kind = getattr(module, name)
        if "Built by `Pipeline." in (kind.__doc__ or ""):  # whose methods say what the fields mean
            text += entry(site, page, f"{package}.Pipeline")
        is_class = inspect.isclass(kind) and kind.__name__ == name  # and no other name of a class
        members = [var for var in vars(kind) if not var.startswith("_")] if is_class else []
        missing += [f"{name}.{member}" for member in members if not re.search(rf"\b{member}\b", text)]
    assert missing == []


@NEEDS_MKDOCS
@pytest.mark.slow
def test_every_argument_of_a_computation_and_of_the_fixture_is_explained(site: Path) -> None:
    added = entry(site, "api/headrace.md", "headrace.Pipeline")
    for name in ("exactly_once", "state_codec", "on_failure", "ordered", "nondeterministic", "productions"):
        assert len(re.findall(rf"\b{name}\b", added)) > 1, (
            name
        )  # in the signature, and in the list of arguments
    page = (site / "reference" / "api" / "pytest.html").read_text()
    arguments = {
        name for kind in (PipelineArguments, JobArguments, ProgramArguments) for name in kind.__annotations__
    }
    assert "allow_unknown" in arguments
    assert {name for name in arguments if not re.search(rf"\b{name}\b", page)} <= set(Meant.__annotations__)


@NEEDS_MKDOCS
@pytest.mark.slow
def test_the_site_is_built_in_strict_mode_and_needs_no_network(site: Path) -> None:
    verify = (site / "reference" / "commands.html").read_text()
    assert "--allow-unknown" in verify
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?:[^\"]+)", page.read_text())
        assert loaded == [], page


@NEEDS_MKDOCS
@pytest.mark.slow
def test_a_broken_anchor_fails_the_build(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "index.md").write_text("# One\n\n[two](#two)\n")
    text = (ROOT / "mkdocs.yml").read_text()
    kept = text[text.index("validation:") : text.index("nav:\n  -")]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: one\ndocs_dir: {pages}\n{kept}")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1
    assert "#two" in done.stderr
