"""The jars that a program asks for: Spark's own Ivy finds them on this machine, or they are left out.

The Java of the laboratory resolves no host (`jvm`), so that nothing is downloaded: what Ivy's cache and Maven's repository of
this machine have is there.
"""

import os
import shlex
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from headrace.api.errors import HeadraceError

_ASKED = "spark.jars"
_PACKAGES = "spark.jars.packages"
_EXTENSIONS = "spark.sql.extensions"
_OPTIONS = {"--packages": _PACKAGES, "--jars": _ASKED}
_UNRESOLVED = "unresolved dependency: "


class MissingJarsError(HeadraceError):
    """A program asks for jars that are not on this machine. Fields: setting, jars."""

    def __init__(self, setting: str, jars: str) -> None:
        super().__init__(setting, jars)
        self.setting, self.jars = setting, jars

    def __str__(self) -> str:
        """Name them, and how to bring them here."""
        return (
            f"{self.setting} names {self.jars}, which this machine does not have. Name files of this machine"
        )


def settings_for_jars(session: Mapping[str, str]) -> dict[str, str]:
    """Return the settings by which Spark has a program's jars from its beginning.

    ``session``: the settings of its session. Those of ``PYSPARK_SUBMIT_ARGS`` come first. Raise `MissingJarsError` if a file of
    ``spark.jars`` is not there.
    """
    settings = {**session, **dict(_submitted(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))}
    settings = {
        name: value
        for name, value in settings.items()
        if value and (name in (_ASKED, _EXTENSIONS) or name.startswith(f"{_ASKED}."))
    }
    files = [name.strip() for name in settings.get(_ASKED, "").split(",") if name.strip()]
    missing = [
        name for name in files if not Path(name.removeprefix("file://").removeprefix("local:")).is_file()
    ]
    if missing:
        raise MissingJarsError(_ASKED, ", ".join(missing))
    return settings if settings.keys() - {_EXTENSIONS} else {}


def _submitted(arguments: str) -> Iterator[tuple[str, str]]:
    """Yield the settings that arguments of ``spark-submit`` make."""
    for option, value in pairwise(shlex.split(arguments)):
        if option in _OPTIONS:
            yield _OPTIONS[option], value
        elif option == "--conf":
            name, _, setting = value.partition("=")
            yield name, setting


def without_missing(settings: Mapping[str, str], log: BinaryIO) -> dict[str, str] | None:
    """Return settings without the packages that Ivy could not find. Those of a source are not needed: it is replaced.

    A program that needs another one fails where it is used, with an error that names it.

    ``settings``: with which Spark did not start. ``log``: what it said. None is returned if that is of something else.
    """
    log.seek(0)
    said = (line.decode(errors="replace") for line in log)
    named = (line.partition(_UNRESOLVED)[2].partition(":")[0] for line in said if _UNRESOLVED in line)
    missing = {package.strip().replace("#", ":").replace(";", ":") for package in named}
    asked = [package.strip() for package in settings.get(_PACKAGES, "").split(",")]
    packages = [package for package in asked if package not in missing]
    return {**settings, _PACKAGES: ",".join(packages)} if len(packages) < len(asked) else None
