"""A folder of one's own with pipelines in it, and the command in this process."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headrace_cli.main import app
from tests.cli.rig import COLOUR_SWITCHES, Run, write_modules


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current directory with the modules above; what is imported from it is forgotten again."""
    write_modules(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and Path(file).is_relative_to(tmp_path):
            del sys.modules[name]


@pytest.fixture
def run() -> Run:
    """The command, in this process."""

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(
            app, arguments, catch_exceptions=False, prog_name="headrace", env=dict.fromkeys(COLOUR_SWITCHES)
        )

    return invoke
