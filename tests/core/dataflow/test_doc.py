"""docs/dataflow.md: its program is one."""

import re
from typing import Any

from tests.readme_blocks import ROOT


def test_the_program_of_the_page_is_a_pipeline() -> None:
    text = (ROOT / "docs" / "dataflow.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    made: dict[str, Any] = {}
    exec(program, made)  # noqa: S102  it is ours
    pipeline = made["pipeline"]
    pipeline.validate()
    assert list(pipeline.injectors) == ["scores"]
