"""Report a defect of Headrace: an exception that escapes a command and is not meant to end it.

Rules of this file:

* A defect has an exit code of its own, so that nobody takes it for a verdict.
* It needs little that could have failed: the standard library, and a directory for temporary files.
"""

import platform
import shlex
import sys
import tempfile
import traceback
from importlib.metadata import PackageNotFoundError, version

from headrace_cli.terminal.consoles import error_console

_ISSUES = "https://github.com/headrace/headrace/issues"


def report_defect(error: BaseException) -> None:
    """Write a report of a defect to a file, and say on stderr whose defect it is, and where the file is."""
    what = traceback.format_exception_only(error)[-1].strip()
    said = f"Error: {what}\nThis is a defect of Headrace, not of your job, and no verdict."
    text = _report(error)
    try:
        with tempfile.NamedTemporaryFile(
            "w",
            prefix="headrace-defect-",
            suffix=".txt",
            delete=False,
            encoding="utf-8",
            errors="backslashreplace",
        ) as file:
            file.write(text)
    except OSError:
        said += f" Please report it with what follows: {_ISSUES}\n\n{text.rstrip()}"
    else:
        said += f" Please report it with {file.name}, which has no data but those of the command line and the error: {_ISSUES}"
    error_console().print(said, soft_wrap=True)


def _report(error: BaseException) -> str:
    try:
        release = version("headrace")
    except PackageNotFoundError:
        release = "not installed"
    return (
        f"headrace {release}\nPython {sys.version}\n{platform.platform()}\n$ {shlex.join(sys.argv)}\n\n"
        + "".join(traceback.format_exception(error))
    )
