"""What the stand-ins for Spark cannot follow, and where the user's code asks for it."""

import os
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import pyspark

from headrace.api.errors import HeadraceError


def _folder(file: str) -> str:
    return f"{Path(file).resolve().parent}{os.sep}"


_OWN, _PYSPARK, _STANDARD = (_folder(file) for file in (__file__, pyspark.__file__, os.__file__))
_INSTALLED = f"{os.sep}site-packages{os.sep}"
_WATCHING = f"{os.sep}headrace_properties{os.sep}spark_jobs{os.sep}"
"""Modules between PySpark and the user's processor while a job is checked."""
DRIVER_CRASH = "Spark says only: TransformWithStateInPySpark driver worker exited unexpectedly (crashed)"
"""The error that the user sees for any failure while the driver runs ``init`` and ``close``."""
SPARKS_STATE = dict.fromkeys(
    (
        "agg", "avg", "count", "crossJoin", "distinct", "dropDuplicates", "dropDuplicatesWithinWatermark", "drop_duplicates",
        "join", "max", "mean", "min", "pivot", "sum",
    ),
    "Spark itself keeps the state of this step, and none of your code runs in it. Verify what comes after it: a function that "
    "takes its output, with --schema of that",
)  # fmt: skip
"""What to do about the operators of Spark that keep state of their own, by their names."""
HEARD: deque[HeadraceError] = deque(maxlen=10)
"""The latest refusals, for callers that must know of one even if the user's code caught it."""


class CannotFollowError(HeadraceError):
    """A call of Spark's API that is not simulated. Fields: call, place (``file:line`` of the user's code), remedy."""

    def __init__(self, call: str, place: str, remedy: str) -> None:
        super().__init__(call, place, remedy)
        self.call, self.place, self.remedy = call, place, remedy
        HEARD.append(self)

    def __str__(self) -> str:
        """Name the call, its place, and an alternative."""
        return f"{shown_place(self.place)}: cannot follow {self.call} without Spark. {self.remedy}"


class NotSimulatedError(Exception):
    """An argument means something in Spark that is not simulated. The message says which."""


def users_place() -> str:
    """Return ``file:line`` of the user's code that led here: not PySpark, a library's or Python's own, where there is another."""
    frames = _frames_of_user()
    own = (
        frame
        for frame in frames
        if not any(part in frame.f_code.co_filename for part in (_STANDARD, _INSTALLED))
    )
    frame = next(own, frames[0] if frames else None)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "unknown:0"


def _frames_of_user() -> list[FrameType]:
    """Return the frames between the called stand-in and the one that called the user's code."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and _is_below_user(frame):
        frame = frame.f_back
    frames = []
    while frame is not None and not _is_ours(frame.f_code.co_filename):
        frames.append(frame)
        frame = frame.f_back
    return frames


def _is_below_user(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return (
        _is_ours(name) or name.startswith(_PYSPARK) or (name.startswith(_STANDARD) and _INSTALLED not in name)
    )


def _is_ours(file: str) -> bool:
    return file.startswith(_OWN) or _WATCHING in file


def place_of_error(error: BaseException, otherwise: str = "") -> str:
    """Return ``file:line`` of the innermost frame of the user's code in a traceback.

    Args:
        error: It.
        otherwise: The place if none of its frames is the user's. "": that of the innermost frame.

    """
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    own = [
        place
        for place in frames
        if not (_is_ours(place[0]) or place[0].startswith((_PYSPARK, _STANDARD)) or _INSTALLED in place[0])
        and Path(place[0]).exists()  # a library's compiled frames name files that do not exist here
    ]
    if otherwise and not own:
        return otherwise
    file, line = (own or frames or [("unknown", 0)])[-1]
    return f"{file}:{line}"


def is_installed(module: str) -> bool:
    """Return whether a loaded module is Python's own or an installed package's."""
    file = getattr(sys.modules[module], "__file__", None) or ""
    return file.startswith(_STANDARD) or _INSTALLED in file


def shown_place(place: str) -> str:
    """Return the place with its path relative to the working directory, if it is below it."""
    return place.removeprefix(f"{Path.cwd()}{os.sep}")


def refuse_the_rest(
    stand_in: type, original: type, remedy: str, remedies: Mapping[str, str] | None = None
) -> None:
    """Make each public method and property of ``original`` that ``stand_in`` lacks raise `CannotFollowError`.

    ``remedies`` are those of some methods, by name; ``remedy`` is that of all others.
    """
    for name in dir(original):
        if (
            name.startswith("_")
            or name in vars(stand_in)
            or any(name in vars(base) for base in stand_in.__mro__[1:-1] if base is not original)
        ):
            continue
        call, what_to_do = f"{original.__name__}.{name}", (remedies or {}).get(name, remedy)
        refusal = (
            _refused_property(call, what_to_do)
            if isinstance(getattr(original, name), property)
            else _refused_method(call, what_to_do)
        )
        setattr(stand_in, name, refusal)


def _refused_method(call: str, remedy: str) -> Any:
    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise CannotFollowError(f"{call}()", users_place(), remedy)

    return refuse


def _refused_property(call: str, remedy: str) -> Any:
    def refuse(_self: Any) -> Any:
        raise CannotFollowError(call, users_place(), remedy)

    return property(refuse)
