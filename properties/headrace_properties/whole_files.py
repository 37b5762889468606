"""Write files atomically: under a temporary name in the same directory, then rename."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def is_device(path: Path) -> bool:
    """Return whether a path is ``/dev/null``, a pipe or the like, which is written in place."""
    return path.exists() and not path.is_file()


def write_whole(path: Path, make: Callable[[Path], object]) -> None:
    """Write a file, or replace one.

    Args:
        path: the file.
        make: writes the content to the given path, which has the same suffix.

    Raises:
        OSError: it cannot be written; then nothing is left of it.
    """
    if is_device(path):
        make(path)
        return
    place = path.resolve()  # what a symbolic link points to is replaced, not the link
    part = place.with_name(f".{place.stem[:40]}.{os.getpid()}.part{place.suffix}")
    try:
        make(part)
        if place.exists():
            shutil.copymode(place, part)
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)
