"""Other releases of PySpark than the newest: what is refused, and what is the same. The rest runs by `make conformance`."""

import subprocess
import sys
from functools import reduce

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace_sim.spark import pyspark_versions
from headrace_sim.spark.client import sessions
from headrace_sim.spark.client.sessions import ClientSession, connected
from headrace_sim.spark.refusals import CannotFollowError, gap_in


def test_host_says_which_pyspark_it_needs_and_what_works_without() -> None:
    code = "import pyspark; pyspark.__version__ = '3.5.9'; import headrace.spark; from headrace.spark import session"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "headrace.spark.host_errors.PySparkVersionError: headrace.spark runs pipelines on PySpark 4.3 or newer, and 3.5.9 is "
        "installed. Install it: pip install 'pyspark>=4.3'. "
        "(headrace verify and replay take Spark jobs with PySpark 3.5 and newer)"
    )


def test_stateful_processor_is_refused_where_pyspark_cannot_run_it_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pyspark_versions, "UdfUtils", None)
    with pytest.raises(
        pyspark_versions.PySparkTooOldError,
        match=r"transformWithState is followed with PySpark 4\.1 or newer",
    ):
        pyspark_versions.expect_stateful()


def test_errors_of_spark_have_its_message_and_condition() -> None:
    error = pyspark_versions.spark_error(
        AnalysisException, "No such column", "UNRESOLVED_COLUMN", {"objectName": "x"}
    )
    assert pyspark_versions.condition_of(error) == (
        "UNRESOLVED_COLUMN" if pyspark_versions.VERSION >= (4, 0) else ""
    )
    assert str(error) == "[UNRESOLVED_COLUMN] No such column"


def test_classes_that_users_name_are_those_of_what_they_get() -> None:
    with connected(ClientSession()) as session:
        df = session.createDataFrame([(1, "a"), (2, "b")], "i INT, k STRING")
        assert isinstance(session, SparkSession)
        assert isinstance(df, DataFrame)
        assert isinstance(F.col("i"), Column)
        assert reduce(DataFrame.union, [df, df, df]).count() == 6
        assert DataFrame.filter(df, Column.contains(df.k, "b")).collect() == [(2, "b")]


def test_text_of_sql_names_frames_and_values() -> None:
    with connected(ClientSession()) as session:
        df = session.createDataFrame([(1, "it's"), (2, "b")], "i INT, k STRING")
        found = session.sql("SELECT i FROM {df} WHERE k = {k} AND i < {most}", df=df, k="it's", most=2)
        assert found.collect() == [(1,)]


def test_call_that_the_release_lacks_is_the_users_error() -> None:
    with connected(ClientSession()) as session, pytest.raises((AttributeError, TypeError)) as caught:
        session.createDataFrame([(1,)], "i INT").of_another_release()
    assert gap_in(caught.value) is None


def test_call_of_classic_spark_that_its_client_lacks_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DataFrame, "of_the_jvm", None, raising=False)
    with connected(ClientSession()) as session:
        frame = session.createDataFrame([(1,)], "i INT")
        error = AttributeError(name="of_the_jvm", obj=frame)
    assert "cannot follow a call in this line" in str(gap_in(error))


def test_processor_on_pandas_is_refused_with_what_to_do_on_4_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "VERSION", (4, 0))
    with (
        connected(ClientSession()) as session,
        pytest.raises(
            CannotFollowError,
            match=r"test_pyspark_versions.py:\d+: .*InPandas\(\) with .* Install 4.1 or newer",
        ),
    ):
        session.createDataFrame([(1,)], "i INT").groupBy("i").transformWithStateInPandas(None, "i INT")


def test_frame_with_rows_is_not_empty() -> None:
    with connected(ClientSession()) as session:
        df = session.createDataFrame([(1,), (2,)], "i INT")
        assert (df.isEmpty(), df.filter("i > 2").isEmpty(), df.select().collect()) == (False, True, [(), ()])


def test_packages_that_pyspark_does_not_bring_are_named_with_what_installs_them() -> None:
    code = (
        "import importlib.util as util; found = util.find_spec; "
        "util.find_spec = lambda name, *more: None if name.startswith('grpc') else found(name, *more); "
        "import headrace_sim.spark.client"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith(
        "not installed: grpcio, grpcio-status. Install them: pip install 'headrace[spark]'"
    )


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        ({"Python": "3.11.9", "Java": "17.0.2", "jars": ""}, ()),
        ({"Python": "3.10.9"}, ("Recorded with Python 3.10.9; this is 3.11.2",)),
        ({"Java": "21.0.1"}, ("Recorded with Java 21.0.1; this is 17.0.15",)),
        ({"jars": "iceberg-1.6.1.jar"}, ("Recorded with jars iceberg-1.6.1.jar; this is none",)),
    ],
)
def test_what_is_of_another_release_is_said(recorded: dict[str, str], said: tuple[str, ...]) -> None:
    today = {"PySpark": "4.3.0", "Python": "3.11.2", "Java": "17.0.15", "jars": ""}
    assert tuple(pyspark_versions.differing(recorded, today).values()) == said
