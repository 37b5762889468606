"""One name, one meaning: no two files and no two public classes share a name, and a file's test has the file's."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("core", "sim", "properties", "scenarios", "benchmarks", "cli")
# Both names are public, or written into files: a new one would break users' code or their recorded runs.
KEPT = {
    "Moment": ["sim/headrace_sim/steps.py", "properties/headrace_properties/promises/moment.py"],
    "SourceWatermark": ["core/headrace/histories/header.py", "core/headrace/wire/effects.py"],
}
MIRRORED = 0.4
"""At least this share of the files has a test file of its name: raise it with each test that takes its file's name."""


def modules(root: Path) -> list[Path]:
    """The modules of the rooms under a folder."""
    return [path for room in ROOMS for path in sorted((root / room).rglob("*.py"))]


def named(path: Path) -> Iterator[str]:
    """Yield the names that a module takes: its file's and those of its public classes."""
    if path.name != "__init__.py":
        yield path.name
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def shared(root: Path) -> dict[str, list[str]]:
    """Return the names that several modules take, and these modules."""
    holders: defaultdict[str, list[str]] = defaultdict(list)
    for path in modules(root):
        for name in named(path):
            holders[name].append(str(path.relative_to(root)))
    return {name: paths for name, paths in holders.items() if len(paths) > 1}


def test_each_file_and_each_public_class_has_a_name_of_its_own() -> None:
    assert len(modules(ROOT)) > 500
    assert shared(ROOT) == KEPT


def test_this_share_of_the_files_has_a_test_file_of_its_name() -> None:
    tests = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    files = [path.name for path in modules(ROOT) if path.name != "__init__.py"]
    assert sum(f"test_{name}" in tests for name in files) >= MIRRORED * len(files)


@pytest.mark.parametrize(
    ("other", "text", "twice"),
    [
        ("cli/judging.py", "", "judging.py"),
        ("benchmarks/judging.py", "", "judging.py"),
        ("properties/room/other.py", "class Step: ...", "Step"),
        ("properties/room/other.py", "class _Step: ...\ndef step(): ...", ""),
        ("properties/room/__init__.py", "", ""),
    ],
)
def test_a_name_that_is_taken_twice_is_told(tmp_path: Path, other: str, text: str, twice: str) -> None:
    for name, source in {
        "properties/judging.py": "class Step: ...",
        "properties/__init__.py": "",
        other: text,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    assert shared(tmp_path) == ({twice: ["properties/judging.py", other]} if twice else {})
