"""The jars that a program asks for: Spark's own Ivy finds them on this machine, or they are refused by name.

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
        remedy = f"Fetch them once, into Ivy's cache: spark-shell --packages {self.jars}"
        if self.setting == _ASKED:
            remedy = "Name files of this machine"
        return f"{self.setting} names {self.jars}, which this machine does not have; nothing is downloaded. {remedy}"


def settings_for_jars(told: Mapping[str, str]) -> dict[str, str]:
    """Return the settings by which Spark has a program's jars from its beginning.

    Args:
        told: The settings of its session. Those of ``PYSPARK_SUBMIT_ARGS`` come first.

    Raises:
        MissingJarsError: A file of ``spark.jars`` is not there.

    """
    settings = {**told, **dict(_submitted(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))}
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
            name, _, told = value.partition("=")
            yield name, told


def refuse_missing(settings: Mapping[str, str], log: BinaryIO) -> None:
    """Refuse the packages that Ivy has not found.

    Args:
        settings: With which Spark did not start.
        log: What it said.

    Raises:
        MissingJarsError: There are some.

    """
    log.seek(0)
    said = (line.decode(errors="replace") for line in log)
    named = (line.partition(_UNRESOLVED)[2].partition(":") for line in said if _UNRESOLVED in line)
    missing = dict.fromkeys(package.replace("#", ":").replace(";", ":") for package, _, _ in named)
    if missing and _PACKAGES in settings:
        raise MissingJarsError(_PACKAGES, ",".join(missing))
