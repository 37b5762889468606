"""The layer is written on what every user has: no name of the engine's own modules, and no host's."""

import re
from pathlib import Path

import millrace.dataflow

HERE = Path(millrace.dataflow.__file__).parent
IMPORTS = re.compile(r"^\s*(?:from|import) (millrace[\w.]*)", re.MULTILINE)


def test_the_layer_imports_the_public_api_and_itself() -> None:
    found = {name for path in sorted(HERE.glob("*.py")) for name in IMPORTS.findall(path.read_text())}
    assert "millrace" in found
    assert [
        name for name in sorted(found) if name != "millrace" and not name.startswith("millrace.dataflow")
    ] == []
