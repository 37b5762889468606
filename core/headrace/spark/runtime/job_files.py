"""Files of a job and of its process: how a path or URI names them, how they are written, and the process's scratch directory.

Rules of this file: any URI but ``file:`` is refused, and the error names its scheme. Otherwise ``s3a://bucket/job`` would become
a local directory of that name.
"""

import atexit
import os
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.api.errors import OptionsError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/|(file):")


def scheme_of(place: str) -> str | None:
    """Return the scheme of a URI, or ``None`` for a path.

    >>> scheme_of("s3a://bucket/job"), scheme_of("dbfs:/job"), scheme_of("/data/a:b")
    ('s3a', 'dbfs', None)
    """
    match = _SCHEME.match(place)
    return None if match is None else (match[1] or match[2]).lower()


def local_directory(option: str, place: str | Path) -> Path:
    """Return the absolute path of a directory that is given as a path or as a ``file:`` URI (see `Path.as_uri`).

    >>> local_directory("directory", "file:///data/my%20job").as_posix()
    '/data/my job'

    Args:
        option: name of the option, for the error message.
        place: path or URI.

    Raises:
        OptionsError: the URI has another scheme, another host, or no absolute path.
    """
    text = str(place)
    scheme = scheme_of(text)
    if scheme is None:
        return Path(place).absolute()
    parts = urlsplit(text)
    if scheme == "file" and parts.netloc in ("", "localhost") and parts.path.startswith("/"):
        return Path(unquote(parts.path))
    expected = "a directory on a file system that all machines mount, by its path or as file:///PATH"
    reason = "this URI is not of that form" if scheme == "file" else f"the scheme {scheme!r} is not supported"
    raise OptionsError(option, text, f"{expected}; {reason}")


def write_file(path: Path, data: bytes) -> None:
    """Write a file, and flush it to disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file atomically, or create it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    write_file(draft, data)
    draft.replace(path)


@cache
def scratch() -> Path:
    """Return this process's scratch directory for Spark, always the same; it is deleted when the process ends."""
    path = Path(tempfile.mkdtemp(prefix="headrace-spark-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path
