"""The picture of the architecture shows every room, and its arrows, which all go down, are those of the imports."""

import re
from pathlib import Path

import pytest

from docs.scripts.architecture import PACKAGES, PICTURE, Package, draw
from tests.readme_blocks import ROOT

IMPORT = re.compile(r"^\s*(?:from|import) (headrace\w*)(?:\.(\w+))?", re.MULTILINE)


def sources(package: Package) -> list[Path]:
    return sorted((ROOT / package.folder / package.name).rglob("*.py"))


def rows(package: Package) -> dict[str, int]:
    """The row of each room, from the top down."""
    return {room: number for number, row in enumerate(package.rows) for room, _ in row}


def test_the_picture_is_what_the_script_draws() -> None:
    assert PICTURE.read_text() == draw(), "python docs/scripts/architecture.py"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda value: value.name)
def test_every_room_is_in_the_picture_and_no_other(package: Package) -> None:
    home = ROOT / package.folder / package.name
    folders = {path.parent.name for path in home.glob("*/__init__.py")}
    drawn = set(rows(package))
    if drawn:
        assert folders <= drawn
        assert drawn - folders <= {path.stem for path in home.glob("*.py")}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda value: value.name)
def test_packages_and_rooms_import_only_what_is_below_or_beside_them(package: Package) -> None:
    names = [package.name for package in PACKAGES]
    row = rows(package)
    for source in sources(package):
        room = source.relative_to(ROOT / package.folder / package.name).with_suffix("").parts[0]
        for imported, part in IMPORT.findall(source.read_text()):
            assert names.index(imported) >= names.index(package.name), f"{source}: {imported}"
            if imported == package.name and room in row and part in row:
                assert row[part] >= row[room], f"{source}: {room} imports {part}"
