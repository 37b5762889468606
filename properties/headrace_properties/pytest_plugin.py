"""The pytest plugin: run a pipeline through the whole harness in one line.

In a test, by the fixture `headrace_verify`; or without any test, by naming pipelines in pytest's settings::

    [tool.pytest.ini_options]
    headrace_pipelines = ["views:pipeline"]

Every pytest run in the environment loads the plugin, so `headrace_properties.verifier` is imported only when needed.
"""

import importlib
import math
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from headrace_properties.verifier import Verifier

PROFILES = {"dev": 50, "ci": 200, "nightly": 5_000}
"""Number of runs of each pipeline in which a fault struck, by profile."""

_PIPELINES = "headrace_pipelines"
_ALLOW_UNKNOWN = "headrace_allow_unknown"
_CODE_TIMEOUT = "headrace_code_timeout"
_GROUP = "headrace"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and the setting."""
    group = parser.getgroup(_GROUP, "Headrace: pipelines under faults")
    group.addoption(
        "--headrace-profile",
        choices=sorted(PROFILES),
        default="dev",
        help=f"runs of each pipeline: {', '.join(f'{name} {runs:,}' for name, runs in PROFILES.items())}; default: dev",
    )
    group.addoption(
        "--headrace-examples", type=_positive, metavar="N", help="runs of each pipeline, whatever the profile"
    )
    group.addoption("--headrace-seed", type=int, default=0, metavar="N", help="of every search; default: 0")
    group.addoption(
        "--headrace-failures",
        type=Path,
        metavar="DIR",
        help="where failures are kept as replay files, to be tried first the next time; default: .headrace/failures"
        " in the root directory",
    )
    group.addoption(
        "--headrace-allow-unknown",
        default="",
        metavar="NAME,...",
        help="invariants and promises that no run needs to exercise, or 'all' for all invariants; added to the setting",
    )
    group.addoption(
        "--headrace-code-timeout",
        type=_seconds,
        metavar="SECONDS",
        help=f"a call of your code that takes longer is taken to never end; default: the setting {_CODE_TIMEOUT}, or 10",
    )
    parser.addini(_CODE_TIMEOUT, "seconds after which a call of your code is taken to never end")
    parser.addini(_PIPELINES, "pipelines and Spark jobs to verify, MODULE:NAME each", type="args", default=[])
    parser.addini(
        _ALLOW_UNKNOWN,
        "invariants and promises that no run needs to exercise, or 'all' for all invariants",
        type="args",
        default=[],
    )


def _positive(text: str) -> int:
    """Read a number of runs, as argparse's ``type``."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _seconds(text: str) -> float:
    """Read a number of seconds, as argparse's ``type``."""
    seconds = float(text)
    if not _LEAST_S <= seconds < math.inf:
        raise ValueError
    return seconds


_LEAST_S = 0.1
_seconds.__name__ = f"number of seconds from {_LEAST_S} on"
_positive.__name__ = "positive number"  # as argparse's error calls it


@pytest.fixture
def headrace_verify(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> "Verifier":
    """Verify a pipeline, ``headrace_verify(pipeline, feed)``, also hosted by the real Spark: ``on="spark"``; or a Spark job."""
    return _verifier(request.config, record_property, request.node.nodeid)


@pytest.hookimpl(tryfirst=True)  # before -k and -m choose
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[Any]) -> None:
    """Add a test for each pipeline that the settings name, unless only files or single tests were requested."""
    directories = [config.invocation_params.dir / argument for argument in config.args]
    if any(directory.is_dir() for directory in directories):
        items += [PipelineItem.from_parent(session, name=name) for name in config.getini(_PIPELINES)]


class PipelineItem(pytest.Item):
    """The test of one pipeline that the settings name."""

    def runtest(self) -> None:
        """Find it, and verify it."""
        pipeline, feed = _load(self.name, self.config.rootpath)
        _verifier(self.config, self._record, self.nodeid)(pipeline, feed)

    def _record(self, name: str, value: object) -> None:
        self.user_properties.append((name, value))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show the story without a traceback through the harness."""
        from headrace import HeadraceError  # noqa: PLC0415
        from headrace_properties.verifier import InvariantViolatedError, NotExercisedError  # noqa: PLC0415

        if isinstance(
            excinfo.value, InvariantViolatedError | NotExercisedError | HeadraceError | pytest.UsageError
        ):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Name it in reports."""
        return self.config.rootpath, None, f"headrace verify {self.name}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List what was found, each with the command that replays it, where a reader of a log looks first."""
    lines = [
        f"  {value}" if name == "headrace replay" else f"{report.nodeid}: {value}"
        for report in terminalreporter.getreports("failed")
        for name, value in report.user_properties
        if name in {"headrace finding", "headrace replay"}
    ]
    if lines:
        terminalreporter.section("Headrace's findings")
        for line in lines:
            terminalreporter.line(line)


class _Heartbeat:
    """The progress of a long test, as lines: under ``-v`` on a terminal, and always in a log.

    Args:
        config: of pytest.
        name: of the test.
    """

    def __init__(self, config: pytest.Config, name: str) -> None:
        self._reporter: Any = config.pluginmanager.getplugin("terminalreporter")
        self._capture: Any = config.pluginmanager.getplugin("capturemanager")
        self._name = name
        is_seen = self._reporter is not None and (not self._reporter.isatty or self._reporter.verbosity > 0)
        self._period_s = PERIOD_S if is_seen else math.inf
        self._last = time.monotonic()

    def __call__(self, done: int, wanted: int) -> None:
        """Write how much is done, once in a period."""
        now = time.monotonic()
        if now - self._last < self._period_s:
            return
        self._last = now
        streams = sys.stdout, sys.stderr  # which hold back what the user's code prints
        with self._capture.global_and_fixture_disabled() if self._capture is not None else nullcontext():
            self._reporter.ensure_newline()
            self._reporter.write_line(f"{self._name}: {done:,} of {wanted:,} runs")
            self._reporter.flush()
        sys.stdout, sys.stderr = streams


PERIOD_S = 30.0
"""Choice: the time between two lines of progress, in seconds."""


def _verifier(config: pytest.Config, record: Callable[[str, object], None], test: str) -> "Verifier":
    from headrace_properties.kept_failures import FOLDER  # noqa: PLC0415
    from headrace_properties.verifier import Verifier  # noqa: PLC0415

    examples = config.getoption("--headrace-examples")
    allowed = (name.strip() for name in config.getoption("--headrace-allow-unknown").split(","))
    return Verifier(
        PROFILES[config.getoption("--headrace-profile")] if examples is None else examples,
        config.getoption("--headrace-seed"),
        config.getoption("--headrace-failures") or config.rootpath / FOLDER,
        record,
        (*config.getini(_ALLOW_UNKNOWN), *allowed),
        _code_timeout(config),
        _Heartbeat(config, test),
    )


def _code_timeout(config: pytest.Config) -> float | None:
    option: float | None = config.getoption("--headrace-code-timeout")
    setting = config.getini(_CODE_TIMEOUT)
    if option is not None or not setting:
        return option
    try:
        return _seconds(setting)
    except ValueError:
        raise pytest.UsageError(f"{_CODE_TIMEOUT}: {setting!r} is not a {_seconds.__name__}") from None


def _load(name: str, root: Path) -> tuple[Any, Any]:
    """Import a pipeline or a Spark job, and its feed; from pytest's root directory, too, whichever way pytest was started."""
    if str(root) not in sys.path:
        sys.path.append(str(root))
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
        target = getattr(module, attribute)
        # The rows of a Spark job are drawn if its module has none.
        return target, module.feed if hasattr(target, "injectors") else getattr(module, "feed", None)
    except (ImportError, ValueError, AttributeError) as error:
        raise pytest.UsageError(
            f"{_PIPELINES}: {name!r}: {error}. Name MODULE:PIPELINE, with a function feed(seed) or a strategy feed in the module"
        ) from error
