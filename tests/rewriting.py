"""Rewriting the asserts of all tests takes longer than the rest of their collection: each process does a share, for all.

pytest's own hook then finds the rewritten files of its own share and, as all take about as long, those of the others.
"""

import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite


def pytest_configure(config: pytest.Config) -> None:
    """Leave the asserts of the package alone whose plugin is installed in place: they need no rewriting."""
    hook = config.pluginmanager.rewrite_hook
    hook._must_rewrite.discard("headrace_properties")  # type: ignore[attr-defined]


def pytest_sessionstart(session: pytest.Session) -> None:
    """Rewrite this process's share of the test files, largest first, where bytecode is kept."""
    worker: dict[str, str | int] | None = getattr(session.config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode:
        return
    places = [Path(arg.partition("::")[0]) for arg in session.config.args]
    files = {file for place in places for file in ([place] if place.is_file() else place.rglob("test_*.py"))}
    largest = sorted(files, key=lambda file: (-file.stat().st_size, file))
    number, count = int(str(worker["workerid"]).removeprefix("gw")), int(worker["workercount"])
    for file in largest[number::count]:
        _rewrite(file.absolute(), session.config)


def _rewrite(file: Path, config: pytest.Config) -> None:
    folder = rewrite.get_cache_dir(file)
    target = folder / f"{file.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(file, target) is None and rewrite.try_makedirs(folder):
        source_hash, code = rewrite._rewrite_test(file, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, target)
