"""The documentation as a site: its generated pages have all that the code has, and it is built without a warning."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from docs.scripts import reference
from headrace import EngineOptions
from headrace_properties.checkers.catalogue import rules
from headrace_sim import ClusterOptions
from headrace_sim.faults import KINDS
from tests.readme_blocks import DOCS, ROOT

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
    assert [one.name for one in rules().values() if len(one.meaning) < 20] == []


def test_every_option_has_its_row_and_a_meaning() -> None:
    assert rows("options.md") == {*EngineOptions.__slots__, *ClusterOptions.__struct_fields__}
    assert re.findall(r"^\| `(\w+)` \|.*\| +\|$", GENERATED["options.md"], re.MULTILINE) == []


def test_every_command_and_exit_code_is_there() -> None:
    assert {*reference.commands(), "Exit codes"} == headings("commands.md")
    assert {"headrace verify", "headrace scenario run", "headrace replay"} < headings("commands.md")
    codes = re.findall(r"^\| (\d+) \| (.+) \|$", GENERATED["commands.md"], re.MULTILINE)
    assert [int(code) for code, _ in codes] == [0, 1, 2, 3, 129, 130, 143]
    assert any(row.startswith("--allow-unknown") for row in rows("commands.md"))


@pytest.mark.parametrize(("page", "package"), [(page, about[0]) for page, about in reference.APIS.items()])
def test_every_public_name_has_its_entry(page: str, package: str) -> None:
    entries = re.findall(r"^::: (\S+)$", GENERATED[page], re.MULTILINE)
    _, _, folder = reference.APIS[page]
    assert sorted(entries) == sorted(f"{package}.{name}" for name in reference.public_names(package, folder))


def test_every_page_is_in_the_navigation() -> None:
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    pages |= {f"reference/{path}" for path in GENERATED}
    navigated = re.findall(r"^ *- (?:\w+: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(navigated) == sorted(pages)


def test_every_link_of_a_page_leads_to_a_file() -> None:
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


@NEEDS_MKDOCS
@pytest.mark.slow
def test_the_site_is_built_in_strict_mode_and_needs_no_network(tmp_path: Path) -> None:
    done = build(ROOT / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 0, done.stderr
    verify = (tmp_path / "site" / "reference" / "commands.html").read_text()
    assert "--allow-unknown" in verify
    for page in (tmp_path / "site").rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?:[^\"]+)", page.read_text())
        assert loaded == [], page


@NEEDS_MKDOCS
@pytest.mark.slow
def test_an_anchor_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "index.md").write_text("# One\n\n[two](#two)\n")
    text = (ROOT / "mkdocs.yml").read_text()
    kept = text[text.index("validation:") : text.index("nav:\n  -")]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: one\ndocs_dir: {pages}\n{kept}")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1
    assert "#two" in done.stderr
