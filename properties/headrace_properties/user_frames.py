"""Recognise the user's own code, and find the line of it that is running."""

import functools
import importlib.util
import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

NOT_USERS = frozenset({"headrace", "headrace_sim", "headrace_properties", "headrace_cli"})
_INSTALLED = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")}
)
_own: set[str] = set()


def _folders(package: str) -> list[str]:
    spec = importlib.util.find_spec(package)
    return [f"{folder}{os.sep}" for folder in (spec and spec.submodule_search_locations) or ()]


_OURS = tuple(folder for package in sorted(NOT_USERS) for folder in _folders(package))
"""Not by a folder's name: a user's project may have ours."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line of user code.

    Attributes:
        file: its path.
        line: number of the line, from 1.
        function: the function's name; "": unknown.
    """

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        """Format it for messages."""
        if not self.function:
            return f"{self.file.removeprefix(f'{Path.cwd()}{os.sep}')}:{self.line}"
        return f"line {self.line} of {Path(self.file).name}, in {self.function}"


def own_code_of(things: list[object]) -> None:
    """Treat the modules of these objects' classes as the user's own, even if installed."""
    for thing in things:
        module = type(thing).__module__
        top = module.partition(".")[0]
        file = getattr(sys.modules.get(module), "__file__", None)
        if file and top not in NOT_USERS and top not in sys.stdlib_module_names:
            depth = module.count(".")
            _own.add(f"{Path(file).parents[depth - 1]}/" if depth else file)
    is_users_file.cache_clear()


def is_users_module(module: str | None) -> bool:
    """Return whether a module is the user's own: not Python's, installed or ours."""
    return bool(module) and is_users_file(getattr(sys.modules.get(module or ""), "__file__", None) or "")


@functools.cache
def is_users_file(file: str) -> bool:
    """Return whether a file's code is the user's own."""
    if any(file.startswith(own) for own in _own):
        return True
    if not file or file.startswith(("<", *_INSTALLED)):
        return False
    return not is_our_file(file) and "site-packages" not in file


def is_our_file(file: str) -> bool:
    """Return whether a file's code is Headrace's."""
    return file.startswith(_OURS)


def place_in(frame: FrameType | None, base: FrameType | None = None) -> Place | None:
    """Return the innermost line of the user's own code on a stack, above ``base``; ``None``: none."""
    while frame is not None and frame is not base:
        if is_users_file(frame.f_code.co_filename):
            return place_of(frame.f_code, frame.f_lineno)
        frame = frame.f_back
    return None


def place_of(code: CodeType, line: int) -> Place:
    """Return A line of a function."""
    return Place(code.co_filename, line, code.co_qualname)
