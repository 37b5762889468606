"""What the stand-ins for Spark cannot follow, and where the user's code asks for it."""

import ast
import inspect
import os
import sys
import threading
import traceback
from collections import deque
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pyspark.sql
from pyspark.errors import AnalysisException, PySparkException

from headrace.api.errors import HeadraceError


def text_of(error: BaseException) -> str:
    """Return the text of an error of the user's, which may raise one itself."""
    try:
        return str(error)
    except Exception as raised:  # noqa: BLE001  whatever the user's __str__ raises
        return f"(its text raises {type(raised).__name__})"


def traceback_told(error: BaseException) -> str:
    """Return the traceback of an error; if to format it raises another one, its class."""
    try:
        return "".join(traceback.format_exception(error))
    except BaseException as raised:  # noqa: BLE001  it must be seen, whatever it is
        return f"{type(error).__name__}, whose traceback cannot be formatted: {type(raised).__name__}"


def _folder(file: str) -> str:
    return f"{Path(file).resolve().parent}{os.sep}"


_OWN, _PYSPARK, _STANDARD = (_folder(file) for file in (__file__, pyspark.__file__, os.__file__))
_INSTALLED = f"{os.sep}site-packages{os.sep}"
_OURS = tuple(
    f"{os.sep}{package.replace('/', os.sep)}{os.sep}"
    for package in ("core/headrace", "headrace_cli", "headrace_properties", "headrace_sim", "site-packages/headrace")
)  # fmt: skip
"""Where our own modules are, here and installed: around the user's code while it is checked, and below it where it calls them."""
DRIVER_CRASH = "Spark says only: TransformWithStateInPySpark driver worker exited unexpectedly (crashed)"
"""The error that the user sees for any failure while the driver runs ``init`` and ``close``."""
SPARKS_STATE = (
    "Spark itself keeps the state of this step, and none of your code runs in it. Verify what comes after it: a function that "
    "takes its output, with --schema of that"
)
"""What to do about an operator of Spark that keeps state of its own and is not simulated."""
_COLUMNS_TOLD = 8
HEARD: deque[HeadraceError] = deque(maxlen=10)
"""The latest refusals, for callers that must know of one even if the user's code caught it."""


class CannotFollowError(HeadraceError):
    """A call of Spark's API that is not simulated. Fields: call, place (``file:line`` of the user's code), remedy.

    ``is_final``: whether the real Spark does not compute it either.
    """

    is_final = False

    def __init__(self, call: str, place: str, remedy: str) -> None:
        super().__init__(call, place, remedy)
        self.call, self.place, self.remedy = call, place, remedy
        HEARD.append(self)

    def __str__(self) -> str:
        """Name the call, its place, and an alternative."""
        return f"{shown_place(self.place)}: cannot follow {self.call} without Spark. {self.remedy}"


class UnknownTableError(AnalysisException):
    """A table or path is read that nothing has made: code may expect that, and if it does not, it cannot be followed."""

    def __init__(self, name: str) -> None:
        self.name = name
        kind = "PATH_NOT_FOUND" if "/" in name else "TABLE_OR_VIEW_NOT_FOUND"
        super().__init__(message=f"[{kind}] {name} cannot be found")


class NotSimulatedError(Exception):
    """An argument means something in Spark that is not simulated. The message says which."""


def users_place() -> str:
    """Return ``file:line`` of the user's code that led here: not PySpark, a library's or Python's own, where there is another."""
    frames = _frames_of_user()
    own = (frame for frame in frames if not is_library(frame.f_code.co_filename))
    frame = next(own, frames[0] if frames else None)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "unknown:0"


def place_in_other_threads() -> str:
    """Return ``file:line`` of the user's code that waits in another thread, rather for a library than for Spark or a thread."""
    own, places = threading.get_ident(), []
    for number, top in sys._current_frames().items():
        frame: FrameType | None = top
        waits = False
        while frame is not None and (
            is_library(frame.f_code.co_filename) or frame.f_code.co_filename.startswith("<")
        ):
            waits = waits or frame.f_code.co_filename.endswith(_WAITING)
            frame = frame.f_back
        if frame is not None and number != own:
            places.append((waits, f"{frame.f_code.co_filename}:{frame.f_lineno}"))
    return min(places, default=(False, "unknown:0"))[1]


_WAITING = (f"py4j{os.sep}clientserver.py", f"py4j{os.sep}java_gateway.py", f"{os.sep}threading.py")


def _frames_of_user() -> list[FrameType]:
    """Return the frames between the called stand-in and the one that called the user's code."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and _is_below_user(frame.f_code.co_filename):
        frame = frame.f_back
    frames = []
    while frame is not None and not _is_ours(frame.f_code.co_filename):
        frames.append(frame)
        frame = frame.f_back
    return frames


def _is_below_user(file: str) -> bool:
    return (
        _is_ours(file) or file.startswith(_PYSPARK) or (file.startswith(_STANDARD) and _INSTALLED not in file)
    )


def _is_ours(file: str) -> bool:
    return file.startswith(_OWN) or any(package in file for package in _OURS)


def place_of_error(error: BaseException, otherwise: str = "") -> str:
    """Return ``file:line`` of the innermost frame of the user's code in a traceback.

    ``otherwise``: the place if none of its frames is the user's. "": that of the innermost frame.
    """
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    # A library's compiled frames name files that do not exist here.
    own = [place for place in frames if not is_library(place[0]) and Path(place[0]).exists()]
    if otherwise and not own:
        return otherwise
    file, line = (own or frames or [("unknown", 0)])[-1]
    return f"{file}:{line}"


def label_of(place: str) -> str:
    """Return what a user calls a table, a path, or a query in parentheses: its last part, or its alias."""
    last = place.strip("`/").rpartition("/")[2]
    return last.rpartition(" ")[2].strip(")") if place.startswith("(") else last


def columns_named(file: str) -> str:
    """Return columns that a file asks for by `col("name")` and does not make, as a schema to begin with."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8-sig"))
    except (OSError, SyntaxError, ValueError):
        return "word STRING"
    named = dict[str, list[str]]()
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        text = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
        if isinstance(text, str) and text.isidentifier():
            named.setdefault(getattr(call.func, "attr", getattr(call.func, "id", "")), []).append(text)
    produced = {name for call in ("alias", "withColumn", "name") for name in named.get(call, ())}
    asked = dict.fromkeys([*named.get("col", ()), *named.get("column", ())])
    wanted = [name for name in asked if name not in produced]
    return ", ".join(f"{name} STRING" for name in wanted[:_COLUMNS_TOLD]) or "word STRING"


_OF_MODELS = "Let a function of Python's score the rows (udf), or leave the model out"


def gap_in(error: BaseException) -> CannotFollowError | None:
    """Return the refusal that an error stands for: one of our stand-ins raised it, and Spark would not have.

    The traceback decides, by the innermost frame that is the user's or a stand-in's. What Spark raises too is not meant: its own
    exceptions, and errors about what the user's code returns.
    """
    if isinstance(error, UnknownTableError):
        if any("/pyspark/ml/" in frame.filename for frame in traceback.extract_tb(error.__traceback__)):
            return CannotFollowError(
                f"a model of pyspark.ml ({error.name})", place_of_error(error), _OF_MODELS
            )
        what = f"reading {error.name}, which nothing here has made,"
        option = f"--schema '{label_of(error.name)}=word STRING'"
        remedy = f"If it is there before the job, say what it has: {option}, or let prepare() write it"
        return CannotFollowError(what, place_of_error(error), remedy)
    is_known = isinstance(error, PySparkException | OSError) or not isinstance(error, Exception)
    classic_has = _classic_has(error) if isinstance(error, AttributeError) else None
    is_known |= classic_has is False
    lacks = classic_has or (isinstance(error, AttributeError) and _lacks_what_spark_has(error))
    if is_known or type(error).__module__ != "builtins" or not (lacks or _is_raised_by_stand_in(error)):
        return None
    remedy = (
        f"Its stand-in raises {type(error).__name__}: {str(error).rstrip('.')}. That is a gap in Headrace, not a mistake of "
        "yours: do it in another way"
    )
    return CannotFollowError("a call in this line", place_of_error(error), remedy)


def _classic_has(error: AttributeError) -> bool | None:
    """Return whether classic Spark's class has what an object of PySpark's client lacks; None: the object is another."""
    kind = type(error.obj)
    classic = (
        getattr(pyspark.sql, kind.__name__, None) if kind.__module__.startswith("pyspark.sql.") else None
    )
    return None if classic is None else hasattr(classic, error.name or "")


def _lacks_what_spark_has(error: AttributeError) -> bool:
    """Return whether one of our objects lacks an attribute, and what it replaces has it."""
    kind = error.obj if isinstance(error.obj, type) else type(error.obj)
    home = getattr(error.obj, "__module__", None) or kind.__module__
    if not home.startswith(_PACKAGE):
        return False
    originals = [base for base in kind.__mro__ if base.__module__.startswith("pyspark.")]
    name = error.name or ""
    return not originals or name.startswith("_") or any(hasattr(original, name) for original in originals)


def _is_raised_by_stand_in(error: BaseException) -> bool:
    for file in reversed([frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]):
        if file.startswith(_OWN):
            name = file.removeprefix(_OWN).replace(os.sep, "/")
            if name.startswith("sinks/"):
                continue  # it passes calls on, to the user's function or to what it replaces
            return name not in _CONVERSIONS
        if file.startswith(_PYSPARK):
            return not file.removeprefix(_PYSPARK).replace(os.sep, "/").startswith(_SPARKS_OWN)
        if not is_library(file):
            return False
    return False


_PACKAGE = __name__.rpartition(".")[0]
_CONVERSIONS = frozenset({
    "columns/user_functions.py", "columns/values.py", "query/streaming_query.py", "state/tasks.py", "state/group_states.py",
    "state/state_server.py",
})  # fmt: skip
"""Where what the user's code returns is converted, and does not fit."""
_SPARKS_OWN = (
    "cloudpickle/",
    "errors/",
    "sql/conversion.py",
    "sql/pandas/",
    "sql/streaming/",
    "sql/types.py",
)
"""Where PySpark judges values itself, without Java."""


def definition_of(function: Any) -> str:
    """Return ``file:line`` of the definition of a function, of what a `partial` calls, or of an object's ``__call__``; or ""."""
    function = inspect.unwrap(function)
    while isinstance(function, partial):
        function = inspect.unwrap(function.func)
    called = function if hasattr(function, "__code__") else getattr(type(function), "__call__", None)  # noqa: B004
    code = getattr(called, "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def is_library(file: str) -> bool:
    """Return whether a file, or a place in it, is ours, PySpark's, Python's own or an installed package's."""
    return _is_ours(file) or file.startswith((_PYSPARK, _STANDARD)) or _INSTALLED in file


def is_installed(module: str) -> bool:
    """Return whether a loaded module is Python's own or an installed package's."""
    file = getattr(sys.modules[module], "__file__", None) or ""
    return file.startswith(_STANDARD) or _INSTALLED in file


def shown_place(place: str) -> str:
    """Return the place with its path relative to the working directory, if it is below it."""
    return place.removeprefix(f"{Path.cwd()}{os.sep}")
