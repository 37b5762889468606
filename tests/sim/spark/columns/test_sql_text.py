"""SQL text means in memory what it means to Spark, which is recorded; what cannot be read exactly is refused."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from headrace_sim.spark.client.sessions import ClientSession, connected
from headrace_sim.spark.columns.recorded import shown
from headrace_sim.spark.columns.sql_text import parse_expression
from headrace_sim.spark.refusals import CannotFollowError
from tests.sim.spark.frame_programs import ROWS, SCHEMA, outcome, set_as_recorded
from tests.sim.spark.sql_texts import OUTCOMES, programs

_BROKEN = frozenset({"i >", "cast(n as foo)", "f(", "(i", "1 2"})


@pytest.fixture(scope="module")
def df() -> Iterator[Any]:
    session = ClientSession()
    with connected(session):
        set_as_recorded(session)
        yield session.createDataFrame(ROWS, SCHEMA)


def test_texts_give_what_they_give_on_spark_with_its_names(df: Any) -> None:
    recorded = json.loads(OUTCOMES.read_text())
    given = {text: outcome(df, program) for text, program in programs().items() if text not in _BROKEN}
    assert given == {text: recorded[text] for text in given}


@pytest.mark.parametrize("text", sorted(_BROKEN))
def test_text_that_spark_cannot_parse_is_refused(text: str) -> None:
    with pytest.raises(CannotFollowError, match="cannot follow the SQL text"):
        parse_expression(text, "job.py:1")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = b < c", "at 'a = b < c'"),
        ("a < b in (1)", "at 'a < b IN (1)'"),
        ("x between 1 and 2 = true", "at 'x BETWEEN 1 AND 2 = TRUE'"),
        ("a in (select 1)", "at 'a IN (SELECT 1)'"),
        ("exists (select 1)", "at 'EXISTS(SELECT 1)'"),
        ("a like 'x' escape '/'", "ESCAPE '/'"),
        ("a like any ('x', 'y')", "at \"a LIKE ANY ('x', 'y')\""),
        ("f(a,,b)", "an argument is missing"),
        (
            "collect_list(a) filter (where b) over (order by c range between interval 1 day preceding and current row)",
            "INTERVAL '1' DAY",
        ),
        ("first(a) filter (where b)", "FILTER"),
        ("sum(a) over w", "OVER w"),
        ("interval '1.5' second", "INTERVAL '1.5' SECOND"),
        ("interval 1 month", "INTERVAL '1' MONTH"),
        ("trim(both 'x' from a)", "TRIM(BOTH"),
        ("a & b | c", "at 'a & b | c'"),
        ("select 1", "at 'SELECT 1'"),
        ("a; b", "several statements"),
        ("", "it is empty"),
    ],
)
def test_text_that_is_not_read_exactly_is_refused_with_its_part(text: str, told: str) -> None:
    with pytest.raises(CannotFollowError) as caught:
        parse_expression(text, "job.py:1")
    assert told in str(caught.value)


def test_comparisons_and_joined_texts_bind_as_in_spark() -> None:
    assert shown(parse_expression("a = b = c", "")) == "((a = b) = c)"
    assert shown(parse_expression("a = b is null", "")) == "((a = b) IS NULL)"
    assert shown(parse_expression("not a = b", "")) == "(NOT (a = b))"
    assert shown(parse_expression("a || b + c", "")) == "(concat(a, b) + c)"
