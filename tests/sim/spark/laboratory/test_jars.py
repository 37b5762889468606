"""The jars that a program asks for: those of this machine are there, and others are refused by name."""

from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from headrace_sim.spark.laboratory.jars import MissingJarsError, settings_for_jars, without_missing
from headrace_sim.spark.laboratory.jvm import running

pytestmark = pytest.mark.spark  # most need PySpark, though not Java

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.6.1"
PACKAGES = {"spark.jars.packages": ICEBERG}


@pytest.mark.parametrize(
    ("told", "submitted", "settings"),
    [
        ({**PACKAGES, "spark.sql.extensions": "a.B", "spark.app.name": "x"}, "", {**PACKAGES, "spark.sql.extensions": "a.B"}),
        ({"spark.sql.extensions": "a.B"}, "", {}),
        ({}, f"--master local[2] --packages {ICEBERG} pyspark-shell", PACKAGES),
        ({}, f"--conf spark.jars.packages={ICEBERG} pyspark-shell", PACKAGES),
    ],
)  # fmt: skip
def test_settings_of_jars_are_those_of_the_session_and_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, told: dict[str, str], submitted: str, settings: dict[str, str]
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", submitted)
    assert settings_for_jars(told) == settings


def test_jar_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(
        MissingJarsError, match=r"spark\.jars names /nowhere/a\.jar, which this machine does not have"
    ):
        settings_for_jars({"spark.jars": "/nowhere/a.jar"})


def test_package_that_ivy_does_not_find_is_left_out() -> None:
    log = b"RuntimeException: [unresolved dependency: org.example#nowhere_2.13;1.2.3: not found]\n"
    asked = {"spark.jars.packages": "org.example:nowhere_2.13:1.2.3, org.example:here:1"}
    assert without_missing(asked, BytesIO(log)) == {"spark.jars.packages": "org.example:here:1"}
    assert without_missing({"spark.jars.packages": "x"}, BytesIO(b"another error")) is None


@pytest.mark.nightly
def test_jar_of_this_machine_is_on_the_class_path(tmp_path: Path) -> None:
    jar = tmp_path / "mine.jar"
    with ZipFile(jar, "w") as written:
        written.writestr("of-mine.txt", "here")
    with running(settings_for_jars({"spark.jars": str(jar)})) as jvm:
        loader = jvm.gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        assert loader.getResource("of-mine.txt") is not None


@pytest.mark.nightly
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # PySpark leaves its process to the collector
def test_spark_starts_without_a_package_that_is_nowhere_and_downloads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # that of somebody who never asked for a package
    packages = {"spark.jars.packages": "org.example:nowhere_2.13:1.2.3"}
    with running(packages) as jvm:
        assert "nowhere" not in jvm.gateway.jvm.java.lang.System.getProperty("java.class.path")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nightly
def test_a_second_spark_of_a_process_does_not_need_what_the_first_has_made() -> None:
    for _ in range(2):
        with running({}) as jvm:
            assert jvm.gateway.jvm.java.lang.System.getProperty("java.version")
