"""What Spark 2's date parser alone may read is refused under the policies that ask it: by default on 3.5."""

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from headrace_sim.spark.client.connect_answers import Answers
from headrace_sim.spark.client.sessions import ClientSession, connected
from headrace_sim.spark.pyspark_versions import VERSION
from headrace_sim.spark.refusals import CannotFollowError

ONLY_OLD = ("2024-3-31", "2024-03-31 10:00", " 2024-03-31")


def day(text: str, *settings: tuple[str, str]) -> Any:
    session = ClientSession()
    with connected(session):
        for name, value in settings:
            session.conf.set(name, value)
        state = session.answers.state.copy()
    with connected(ClientSession(Answers(state=state))) as later:
        df = later.createDataFrame([(text,)], "s STRING")
        made = df.select(F.to_date("s", "yyyy-MM-dd").alias("day")).collect()[0].day
        return made and str(made)


ANSI_OFF = ("spark.sql.ansi.enabled", "false")
POLICY = "spark.sql.legacy.timeParserPolicy"


@pytest.mark.parametrize("text", ONLY_OLD)
@pytest.mark.parametrize("policy", ["EXCEPTION", "legacy"])
def test_text_that_the_old_parser_may_read_is_refused(text: str, policy: str) -> None:
    with pytest.raises(CannotFollowError, match=r"only the date parser of Spark 2 .* with CORRECTED"):
        day(text, (POLICY, policy), ANSI_OFF)


@pytest.mark.parametrize("text", ONLY_OLD)
def test_policy_is_that_of_the_release_unless_it_is_set(text: str) -> None:
    assert day(text, (POLICY, "CORRECTED"), ANSI_OFF) is None
    with pytest.raises(PySparkException if VERSION >= (4, 0) else CannotFollowError):
        day(text)


@pytest.mark.parametrize("policy", ["EXCEPTION", "LEGACY", "CORRECTED"])
def test_text_that_both_parsers_read_or_neither_is_followed(policy: str) -> None:
    assert day("2024-03-31", (POLICY, policy), ANSI_OFF) == "2024-03-31"
    for text in ("n/a", "", "31.3.2024", "2023-02-30"):
        assert day(text, (POLICY, policy), ANSI_OFF) is None
