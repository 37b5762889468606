"""Paths and URIs: what a job can use, and that everything else is refused by its scheme."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headrace import OptionsError
from headrace.spark import FileSink, TableSink, committed_files, error_of
from headrace.spark.runtime.job_files import local_directory
from tests.spark.sources.source_rig import Query, keys, letter, letters, write_lines

REMOTE = ["s3a://bucket/job", "hdfs://name:8020/job", "dbfs:/job"]
BROKEN = ["file:job", "file://elsewhere/job", Path("gs://bucket/job")]


@pytest.mark.parametrize("place", BROKEN)
@pytest.mark.parametrize("use", [FileSink, committed_files])
def test_a_directory_elsewhere_is_refused_by_its_scheme_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[str | Path], object], place: str | Path
) -> None:
    monkeypatch.chdir(tmp_path)
    scheme = str(place).partition(":")[0]
    reason = "this URI is not of that form" if scheme == "file" else f"the scheme '{scheme}' is not supported"
    with pytest.raises(OptionsError, match=f"a directory on a file system .* or as file:///PATH; {reason}"):
        use(place)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", REMOTE)
@pytest.mark.parametrize("use", [FileSink, committed_files])
def test_a_uri_needs_a_session_that_reaches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[str], object], place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)
    with pytest.raises(
        OptionsError, match=f"{place}': .* as long as no Spark session .* is active; for a URI start one"
    ):
        use(place)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["s3a://bucket/in", "dbfs:/in", "file:in", "file://elsewhere/in"])
def test_an_input_that_cannot_be_opened_is_refused_by_its_scheme(place: str) -> None:
    with pytest.raises(
        OptionsError, match=f"a URI that pyarrow.fs can open; .* '{place.partition(':')[0]}': "
    ):
        Query(letters(place))


@pytest.mark.parametrize("url", ["s3a:/bucket/out.db", "file:/tmp/out.db"])
def test_a_database_file_is_named_by_its_path(url: str) -> None:
    with pytest.raises(
        OptionsError, match=r"expected postgresql://\.\.\., sqlite:///PATH or the path of a file"
    ):
        TableSink(url, "counts")


def test_file_uris_name_the_same_directory_everywhere(tmp_path: Path) -> None:
    place = tmp_path / "my job"
    write_lines(place / "a", letter("ann", 1))
    for uri in (place.as_uri(), place.as_uri().replace("file:///", "file:/")):
        assert local_directory("directory", uri) == place
        assert FileSink(uri).path == place
        assert keys(Query(letters(uri)).batch()) == ["ann"]
    assert local_directory("directory", "a:b") == Path("a:b").absolute()


def test_an_error_is_found_in_a_checkpoint_that_a_uri_names(tmp_path: Path) -> None:
    missing = RuntimeError(f"File {tmp_path.as_uri()}/state/0/1.delta does not exist")
    query: Any = SimpleNamespace(name="query", id="1", exception=lambda: missing)
    found = error_of(query, tmp_path.as_uri())
    assert found is not None
    assert found.args[:2] == (f"{tmp_path}/state/0/1.delta", "it is missing")
