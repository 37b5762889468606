"""Where a job's files are: on a file system that the machines mount, and how a path or URI names a place there.

Rules of this file: a URI is refused by the name of its scheme, except ``file:``. Otherwise ``s3a://bucket/job`` would become a
local directory of that name.
"""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.api.errors import OptionsError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/|(file):")


def scheme_of(place: str) -> str | None:
    """The scheme of a URI; ``None``: it is a path.

    >>> scheme_of("s3a://bucket/job"), scheme_of("dbfs:/job"), scheme_of("/data/a:b")
    ('s3a', 'dbfs', None)
    """
    found = _SCHEME.match(place)
    return None if found is None else (found[1] or found[2]).lower()


def local_directory(option: str, place: str | Path) -> Path:
    """The absolute path of a directory, given by its path or by a ``file:`` URI, as `Path.as_uri` writes it.

    >>> local_directory("directory", "file:///data/my%20job").as_posix()
    '/data/my job'

    Args:
        option: what the user calls it, for the message.
        place: path or URI.

    Raises:
        OptionsError: a URI of another scheme, of another host, or without an absolute path.
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
