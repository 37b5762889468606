"""docs/dataflow.md: its programs are pipelines."""

import re
from typing import Any

import pytest

from tests.readme_blocks import ROOT

PROGRAMS = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "docs" / "dataflow.md").read_text(), re.DOTALL | re.MULTILINE
)
INJECTORS = [["scores"], ["views", "clicks", "prices"]]


@pytest.mark.parametrize("number", range(len(INJECTORS)))
def test_the_programs_of_the_page_are_pipelines(number: int) -> None:
    assert len(PROGRAMS) == len(INJECTORS)
    made: dict[str, Any] = {}
    exec(PROGRAMS[number], made)  # noqa: S102  it is ours
    pipeline = made["pipeline"]
    pipeline.validate()
    assert list(pipeline.injectors) == INJECTORS[number]
