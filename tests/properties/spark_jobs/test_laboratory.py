"""What is given of the laboratory, and what a replay file keeps of it."""

from typing import Any

import msgspec
import pytest

from headrace import OptionsError
from headrace_properties.spark_jobs.laboratory import batches_and_server, laboratory_on
from headrace_properties.target import SparkSource


@pytest.mark.parametrize(
    ("given", "server"),
    [
        ("postgresql://me:secret@db:5432/test", "postgresql://me@db:5432/test"),
        ("postgresql://me@db/test?sslmode=require", "postgresql://me@db/test?sslmode=require"),
        ("", ""),
    ],
)
def test_source_keeps_the_server_without_its_password(given: str, server: str) -> None:
    laboratory = laboratory_on("spark", given, batches=2)
    known = {"batches": 2, "postgres": server} if server else {"batches": 2}
    assert batches_and_server(laboratory) == known
    assert batches_and_server(None) == batches_and_server(laboratory_on("spark")) == {}


def test_replay_files_of_other_targets_do_not_name_them() -> None:
    written = msgspec.json.encode(SparkSource("jobs.py"))
    assert not any(name in written for name in (b"batches", b"postgres"))


@pytest.mark.parametrize(
    "given", [{"engine": "here"}, {"engine": "both"}, {"engine": "spark", "batches": -1}]
)
def test_own_batches_need_the_real_spark_alone(given: dict[str, Any]) -> None:
    with pytest.raises(OptionsError, match="option batches="):
        laboratory_on(**{"batches": 1, **given})
