"""What users and builders of the package rely on."""

import ast
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from conftest import NEEDS_SPARK

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES: list[str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
PINS = [
    line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")
]
CONTRACTS: dict[str, dict[str, Any]] = {
    contract["id"]: contract for contract in PROJECT["tool"]["importlinter"]["contracts"]
}


def canonical(requirement: str) -> str:
    """Give the project's name in a requirement, as PEP 503 writes it."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None, requirement
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def test_constraints_are_exact_pins_and_name_no_place() -> None:
    pin = re.compile(r"[\w.-]+==[\w.!]+( ; .+)?")
    assert [line for line in PINS if not pin.fullmatch(line)] == []


def test_every_requirement_is_pinned() -> None:
    project = PROJECT["project"]
    requirements = [*PROJECT["build-system"]["requires"], *project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        requirements += extra
    assert {canonical(r) for r in requirements} - {canonical(p) for p in PINS} == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_is_typed_and_sits_in_a_source_root(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()
    assert (ROOT / package / "__init__.py").is_file()
    source_root = str(Path(package).parent)
    assert source_root in PROJECT["tool"]["hatch"]["build"]["dev-mode-dirs"]


def test_linters_see_each_package() -> None:
    names = [Path(package).name for package in PACKAGES]
    assert PROJECT["tool"]["importlinter"]["root_packages"] == names
    assert CONTRACTS["directions"]["layers"] == names[::-1]
    assert PROJECT["tool"]["mypy"]["files"] == [*PACKAGES, "docs/scripts", "tests", "conftest.py"]


def test_purity_contract_bars_clocks_entropy_threads_and_frameworks() -> None:
    purity = CONTRACTS["purity"]
    assert purity["source_modules"] == ["headrace"]
    barred = {"simpy", "pyspark", "time", "random", "os", "threading", "asyncio", "logging"}
    assert barred <= set(purity["forbidden_modules"])
    assert all(line.startswith("headrace.spark") for line in purity["ignore_imports"])


def is_left_out(path: Path) -> bool:
    """Where there is no PySpark: pytest's own rule, by which a folder stands for all that is in it."""
    places = [path, *path.parents]
    return any(place.match(pattern) for place in places for pattern in NEEDS_SPARK)


def imported(path: Path) -> Iterator[str]:
    """What a file cannot be imported without: all that it imports outside of functions."""
    for node in ast.parse((ROOT / path).read_text()).body:
        match node:
            case ast.Import():
                yield from (name.name for name in node.names)
            case ast.ImportFrom():
                yield str(node.module)
                yield from (f"{node.module}.{name.name}" for name in node.names)
            case _:
                pass


def test_everything_that_needs_spark_is_skipped_without_it() -> None:
    places = [*(Path(package).parent for package in PACKAGES), Path("tests")]
    paths = {path.relative_to(ROOT) for place in places for path in (ROOT / place).rglob("*.py")}
    imports = {path: set(imported(path)) for path in paths}
    spark, needing = {"pyspark", "pyarrow"}, set[Path]()
    while more := {path for path in paths - needing if any(_is_in(name, spark) for name in imports[path])}:
        needing |= more
        spark |= {name for path in more for name in _names(path)}
    assert len(needing) > 20
    assert {path for path in needing if not is_left_out(path)} == set()


def _is_in(name: str, packages: set[str]) -> bool:
    """Whether importing a module imports one of these: a package's own file stands for all that is in it."""
    parts = name.split(".")
    return any(".".join(parts[:number]) in packages for number in range(1, len(parts) + 1))


def _names(path: Path) -> Iterator[str]:
    """Return how a file is imported: as itself, and in the tests by its whole path."""
    parts = path.with_suffix("").parts
    for names in (parts, parts[1:]):
        yield ".".join(names[:-1] if names[-1] == "__init__" else names)


def test_installing_gives_the_command() -> None:
    (command,) = entry_points(group="console_scripts", name="headrace")
    assert command.value == "headrace_cli.main:main"
