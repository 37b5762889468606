"""Jobs as people write them are taken as they are, and judged right: a few by day, all by night."""

import re

import pytest

from tests.corpus import verdict_of
from tests.properties.spark_jobs.corpus_table import CORPUS, FOLDER

pytestmark = pytest.mark.spark  # it needs PySpark, though not Java

BY_DAY = ("autoloader_bronze_notebook", "tweets_one_checkpoint", "wordcount_socket")
"""Three of the fastest: a notebook, several queries, arguments."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in BY_DAY else [pytest.mark.nightly]) for name in CORPUS]
)
def test_job_is_taken_as_it_is_and_judged_right(name: str) -> None:
    job, verdict = CORPUS[name], verdict_of(CORPUS[name])
    assert (verdict.taken, verdict.code, verdict.findings) == (True, job.code, frozenset(job.findings)), (
        verdict.output
    )


ON_BOTH = ("clicks_windows_no_watermark",)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in BY_DAY else [pytest.mark.nightly]) for name in ON_BOTH]
)
def test_real_spark_says_the_same_of_it(name: str) -> None:
    job, verdict = CORPUS[name], verdict_of(CORPUS[name], "--on", "both")
    assert (verdict.code, verdict.findings) == (job.code, frozenset(job.findings)), verdict.output
    assert not re.findall(r"^Note: (?:only .*|.* on the real Spark)$", verdict.output, re.MULTILINE)


def test_each_job_of_the_folder_is_in_the_table() -> None:
    files = {path.stem for path in FOLDER.glob("*.py")}
    packages = {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    assert files | packages == set(CORPUS)
    assert len(CORPUS) == 60
