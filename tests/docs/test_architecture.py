"""The picture of the architecture shows every room; its rows are those of the import contracts, which `make lint` checks."""

import pytest

from docs.scripts.architecture import PICTURE, Package, draw, packages
from tests.readme_blocks import ROOT


def test_the_picture_is_what_the_script_draws() -> None:
    assert PICTURE.read_text() == draw(), "python docs/scripts/architecture.py"


@pytest.mark.parametrize("package", packages(), ids=lambda value: value.name)
def test_every_room_is_in_the_picture_and_no_other(package: Package) -> None:
    home = ROOT / package.folder / package.name
    folders = {path.parent.name for path in home.glob("*/__init__.py")}
    drawn = {room for row in package.rows for room, _ in row}
    if drawn:
        assert folders <= drawn
        assert drawn - folders <= {path.stem for path in home.glob("*.py")}
