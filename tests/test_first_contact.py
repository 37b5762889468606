"""Three first contacts: a fresh environment, what README says, and an explained failure. ``-s`` prints their CPU seconds."""

import os
import re
import resource
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.readme_blocks import README, ROOT, files

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.spark]

NEXT = re.compile(r"^ *(headrace replay \S+ --explain)$", re.MULTILINE)


def shell(command: str, folder: Path, binaries: Path) -> tuple[int, str, float]:
    """Run a command as the reader of README would. Return its exit code, what it prints, and its CPU seconds."""
    search_path = os.pathsep.join([str(binaries), os.environ["PATH"]])
    environment = {"PATH": search_path, "HOME": str(folder), "LANG": "C.UTF-8"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.returncode, done.stdout, used_s


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of a new environment, in which only what README names is installed."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=True)
    install = ["-m", "pip", "install", "--quiet", "--constraint", "constraints.txt", f"{ROOT}[spark]"]
    subprocess.run([place / "bin" / "python", *install], cwd=ROOT, check=True)
    return place / "bin"


@pytest.fixture
def reader(tmp_path: Path) -> Path:
    """A reader's directory, with README's files in it."""
    for name, source in files(README.read_text()).items():
        (tmp_path / name).write_text(source)
    return tmp_path


def test_bug_of_a_spark_job_is_found_and_explained(reader: Path, binaries: Path) -> None:
    code, printed, search_s = shell("headrace verify totals.py", reader, binaries)
    assert (code, "VIOLATED: each row exactly once" in printed) == (1, True), printed
    replay = NEXT.search(printed)
    assert replay is not None, "the report names the next command"
    code, printed, replay_s = shell(replay[1], reader, binaries)
    assert (code, "Under the fault" in printed) == (1, True), printed
    print(f"a Spark job's bug: {search_s:.1f} s, and {replay_s:.1f} s to explain it", file=sys.stderr)  # noqa: T201


def test_bug_of_a_pipeline_is_found_and_explained(reader: Path, binaries: Path) -> None:
    verify = "headrace verify views:pipeline --without sequencers --seed 2 --save zombie.json"
    code, printed, search_s = shell(verify, reader, binaries)
    assert (code, printed.splitlines()[0].startswith("VIOLATED: S6")) == (1, True), printed
    code, printed, replay_s = shell("headrace replay zombie.json --explain", reader, binaries)
    assert (code, "How S6 was violated" in printed) == (1, True), printed
    print(f"a pipeline's: {search_s:.1f} s, and {replay_s:.1f} s to explain it", file=sys.stderr)  # noqa: T201


def test_figure_12_is_told(reader: Path, binaries: Path) -> None:
    code, printed, used_s = shell(
        "headrace paper scenario run zombie-timer --without sequencers", reader, binaries
    )
    assert (code, "The zombie's write was applied" in printed) == (1, True), printed
    print(f"Figure 12: {used_s:.1f} s", file=sys.stderr)  # noqa: T201
