"""An outside user's package: Headrace from its wheel, a pipeline with a planted bug, and both ways to find it."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.cli.rig import plain

ROOT = Path(__file__).parent.parent

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "orders"
version = "1.0"
dependencies = ["headrace"]

[tool.pytest.ini_options]
headrace_pipelines = ["orders.totals:pipeline"]
"""

TOTALS = '''
"""What each customer has ordered, hour by hour."""

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_sim import Feed, FeedBuilder

HOUR = 3600 * SECOND


class Totals(Computation):
    def __init__(self) -> None:
        self.totals: dict[str, int] = {}  # the planted bug: it belongs in context.state

    def process_record(self, context: Context, record: Record) -> None:
        hour = str(record.timestamp // HOUR)
        self.totals[hour] = self.totals.get(hour, 0) + record.value["amount"]
        context.set_timer(hour, record.timestamp // HOUR * HOUR + HOUR)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("totals", {"customer": context.key, "total": self.totals.pop(timer.tag, 0)})


pipeline = Pipeline("orders")
pipeline.injector("orders")
pipeline.add(
    Totals(), name="totals", inputs={"orders": lambda record: record.value["customer"]}, outputs=["totals"]
)


def feed(seed: int) -> Feed:
    builder = FeedBuilder(pipeline)
    for number in range(20):
        order = {"customer": ("ann", "bob", "cy")[(number + seed) % 3], "amount": 10 + number}
        builder.record(at_us=SECOND + number * SECOND // 5, value=order, timestamp=number * HOUR // 8)
    return builder.build()
'''


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Headrace's wheel and the user's package are installed; what they need comes from this environment."""
    folder = tmp_path_factory.mktemp("outside")
    package = folder / "package"
    (package / "orders").mkdir(parents=True)
    (package / "pyproject.toml").write_text(PROJECT)
    (package / "orders" / "__init__.py").write_text("")
    (package / "orders" / "totals.py").write_text(TOTALS)
    quick = ("--quiet", "--no-deps", "--no-build-isolation")
    _pip(folder, "wheel", *quick, "--wheel-dir", str(folder / "wheels"), str(ROOT), str(package))
    wheels = sorted(str(path) for path in (folder / "wheels").iterdir())
    _pip(folder, "install", "--quiet", "--no-deps", "--no-index", "--target", str(folder / "site"), *wheels)
    return folder / "site"


def _pip(folder: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", *arguments], cwd=folder, check=True)


def _run(site: Path, folder: Path, *arguments: str) -> tuple[int, str]:
    environment = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    ran = subprocess.run(
        [sys.executable, "-P", *arguments], cwd=folder, capture_output=True, text=True, check=False,
        env={**environment, "PYTHONPATH": str(site)},
    )  # fmt: skip
    return ran.returncode, plain(ran.stdout + ran.stderr)


def test_everything_comes_from_the_wheel(site: Path, tmp_path: Path) -> None:
    code = "import headrace, headrace_cli, headrace_properties, orders; print(*{m.__file__ for m in (headrace, orders)})"
    status, text = _run(site, tmp_path, "-c", code)
    assert status == 0, text
    assert all(path.startswith(str(site)) for path in text.split())


def test_the_command_finds_the_bug(site: Path, tmp_path: Path) -> None:
    status, text = _run(
        site, tmp_path, "-m", "headrace_cli", "verify", "orders.totals:pipeline", "--examples", "10"
    )
    assert status == 1
    assert "VIOLATED: the code of 'totals' keeps state outside its row" in text
    assert "Shown by " in text


def test_pytest_finds_the_bug_without_any_user_tests(site: Path, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    status, text = _run(site, tmp_path, "-m", "pytest", "-p", "no:cacheprovider", "--headrace-examples", "10")
    assert status == 1
    assert "1 failed" in text
    assert "keeps-state" in text


def test_the_fixed_package_holds(site: Path, tmp_path: Path) -> None:
    mended = TOTALS.replace("self.totals: dict[str, int] = {}", "pass").replace(
        "self.totals", "context.state"
    )
    (tmp_path / "mended.py").write_text(textwrap.dedent(mended))
    status, text = _run(site, tmp_path, "-m", "headrace_cli", "verify", "mended:pipeline", "--examples", "40")
    assert status == 0, text
    assert "HOLDS: every invariant" in text
