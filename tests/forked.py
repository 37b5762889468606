"""Commands in separate processes, without starting Python: forked from a process that has already imported them."""

import gc
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from tests import other_hashes

_COMMANDS = ("check", "recheck", "replay", "scenario", "verify")
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    [
        "headrace_cli.main",
        *(f"headrace_cli.actions.{name}_action" for name in _COMMANDS),
        "pytest",
        "typer._adapters",
        "headrace_properties.spark_trials",
        "headrace_properties.sinks",
        "tests.huge_forks",
    ]
)
"""What cannot be imported, for lack of PySpark, it leaves out."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a command.

    Attributes:
        returncode: its exit code; below 0: the signal that killed it.
        stdout: what it printed.
        stderr: the same.
        cpu_s: CPU time, with that of all its processes, but what it took to start; 0 if it was killed.
    """

    returncode: int
    stdout: str
    stderr: str
    cpu_s: float


def headrace(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout_s: float | None = None
) -> Ended:
    """Run ``headrace``.

    Args:
        arguments: of the command.
        cwd: its current directory.
        env: its environment.
        timeout_s: how long it may take; default: for ever.

    Raises:
        TimeoutError: it took longer. It was killed.
    """
    return _forked(_headrace, arguments, cwd, env, timeout_s)


def pytest(arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Ended:
    """Run ``python -m pytest``.

    Args:
        arguments: of the command.
        cwd: its current directory.
        env: its environment.
    """
    return _forked(_pytest, arguments, cwd, env)


def _headrace(arguments: list[str]) -> None:
    sys.argv = ["headrace", *arguments]
    import_module("headrace_cli.main").main()


def _pytest(arguments: list[str]) -> None:
    sys.path.insert(0, str(Path.cwd()))
    sys.argv = ["pytest", *arguments]
    sys.exit(import_module("pytest").console_main())


def _forked(
    command: Callable[[list[str]], None],
    arguments: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float | None = None,
) -> Ended:
    with tempfile.TemporaryDirectory() as folder:
        out, err, cpu = (Path(folder, name) for name in ("stdout", "stderr", "cpu_s"))
        hashes = other_hashes.address()
        process = SERVER.Process(
            target=_run, args=(command, list(arguments), cwd, dict(env), hashes, out, err, cpu)
        )
        process.start()
        process.join(timeout_s)
        if process.is_alive():
            process.kill()
            process.join()
            raise TimeoutError(f"{' '.join(arguments)}\n{out.read_text()}{err.read_text()}")
        code = process.exitcode
        assert code is not None
        process.close()
        cpu_s = float(cpu.read_text()) if cpu.exists() else 0.0
        return Ended(code, out.read_text(), err.read_text(), cpu_s)


def _run(
    command: Callable[[list[str]], None],
    arguments: list[str],
    cwd: Path,
    env: dict[str, str],
    hashes: str,
    out: Path,
    err: Path,
    cpu: Path,
) -> None:
    for number, path in ((1, out), (2, err)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), number)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.chdir(cwd)
    sys.path[:0] = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    other_hashes.fork_from(hashes)
    gc.freeze()
    try:
        command(arguments)
    finally:
        cpu.write_text(str(sum(os.times()[:4])))
