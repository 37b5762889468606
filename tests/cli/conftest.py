"""A private folder with pipelines, and the command in this process."""

import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headrace import Pipeline
from headrace_cli.main import app
from headrace_properties.promises import Promise
from headrace_properties.reference import HookCall
from headrace_properties.search.guard import unguarded
from headrace_properties.search.limits import CodeLimits
from headrace_properties.user_code.other_hash import OtherHashes, importable_name
from headrace_properties.user_code.review import CodeReview, review
from headrace_sim import ClusterOptions, Feed, FeedSource
from tests.cli.rig import COLOUR_SWITCHES, Run, write_modules


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current directory with the modules above; modules imported from it are forgotten afterwards."""
    write_modules(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and Path(file).is_relative_to(tmp_path):
            del sys.modules[name]


class _NoOtherHashes(OtherHashes):
    """Replace the process with another hash seed by none: starting it takes longer than a whole short search."""

    def __init__(self, name: tuple[str, str], limits: CodeLimits) -> None:
        del name, limits

    def __exit__(self, *_: object) -> None:
        pass

    def call(self, steps: Sequence[HookCall]) -> None:
        del steps


_REVIEWS: dict[object, CodeReview] = {}


def _reviewed_once(
    versions: Sequence[Pipeline],
    feeds: Mapping[int, Feed],
    *,
    seed: int,
    limits: CodeLimits,
    promises: tuple[Promise, ...],
    source: FeedSource,
    options: ClusterOptions | None = None,
) -> CodeReview:
    """The review of the same code on the same inputs, once for all tests, if it has found nothing: it is the longest part
    of a short search."""
    sources = tuple((path.name, path.read_text()) for path in sorted(Path.cwd().rglob("*.py")))
    names = tuple(map(importable_name, versions))
    bounded = tuple(promise.bounds for promise in promises)
    asked = sources, names, tuple(feeds.items()), options, seed, limits, bounded, source
    if asked in _REVIEWS:
        return _REVIEWS[asked]
    with unguarded():  # this function of the tests is no user code, whose time is limited
        left = signal.setitimer(signal.ITIMER_REAL, 0)
    found = review(
        versions, feeds, options=options, seed=seed, limits=limits, promises=promises, source=source
    )
    with unguarded():
        signal.setitimer(signal.ITIMER_REAL, *left)
    if all(names) and not found.findings:
        _REVIEWS[asked] = found
    return found


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command, in this process, without the check under another hash seed, which `run_process` makes.

    The same code is reviewed on the same inputs once.
    """
    monkeypatch.setattr("headrace_properties.user_code.review.OtherHashes", _NoOtherHashes)
    monkeypatch.setattr("headrace_properties.pipeline_trials.review", _reviewed_once)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(
            app, arguments, catch_exceptions=False, prog_name="headrace", env=dict.fromkeys(COLOUR_SWITCHES)
        )

    return invoke
