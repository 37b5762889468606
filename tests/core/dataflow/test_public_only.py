"""The layer is written on what every user has: no name of the engine's own modules, and no host's."""

import re
from pathlib import Path

import headrace.dataflow

HERE = Path(headrace.dataflow.__file__).parent
IMPORTS = re.compile(r"^\s*(?:from|import) (headrace[\w.]*)", re.MULTILINE)


def test_the_layer_imports_the_public_api_and_itself() -> None:
    found = {name for path in sorted(HERE.glob("*.py")) for name in IMPORTS.findall(path.read_text())}
    assert "headrace" in found
    assert [
        name for name in sorted(found) if name != "headrace" and not name.startswith("headrace.dataflow")
    ] == []
