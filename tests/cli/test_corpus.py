"""Jobs as people write them are taken as they are, and judged right: a few by day, all by night."""

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


def test_each_job_of_the_folder_is_in_the_table() -> None:
    files = {path.stem for path in FOLDER.glob("*.py")}
    packages = {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    assert files | packages == set(CORPUS)
    assert len(CORPUS) == 60
