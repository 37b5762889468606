"""Columns without ANSI mode: what Spark 3.5.9 returned (``local[1]``, spark.sql.ansi.enabled=false)."""

import pytest
from pyspark.errors import PySparkException

from headrace_sim.spark.client.connect_answers import Answers
from headrace_sim.spark.client.sessions import ClientSession, connected
from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.columns.expressions import bind
from headrace_sim.spark.columns.in_force import ANSI, is_ansi, settings_in_force
from headrace_sim.spark.columns.sql_text import parse_expression
from headrace_sim.spark.pyspark_versions import VERSION
from headrace_sim.spark.refusals import CannotFollowError

SCHEMA = parse_schema("i INT, s STRING, d DOUBLE")
ROWS = [(2147483647, "12", 1.5), (-7, " 7.9 ", float("nan")), (0, "x", 3e20), (5, "1e3", -2.5)]
RECORDED = {
    "cast(s as int)": "12, 7, None, None",
    "cast(s as double)": "12.0, 7.9, None, 1000.0",
    "cast(s as decimal(4,1))": "Decimal('12.0'), Decimal('7.9'), None, None",
    "cast(s as boolean)": "None, None, None, None",
    "cast(s as date)": "None, None, None, None",
    "cast(s as timestamp)": "None, None, None, None",
    "i + 1": "-2147483648, -6, 1, 6",
    "i * 2": "-2, -14, 0, 10",
    "i / 0": "None, None, None, None",
    "i % 0": "None, None, None, None",
    "cast(d as int)": "1, 0, 2147483647, -2",
    "cast(d as bigint)": "1, 0, 9223372036854775807, -2",
    "cast(d as tinyint)": "1, 0, -1, -2",
    "cast(i as smallint)": "-1, -7, 0, 5",
    "cast(i as decimal(5,0))": "None, Decimal('-7'), Decimal('0'), Decimal('5')",
    "cast(d as decimal(6,2))": "Decimal('1.50'), None, None, Decimal('-2.50')",
    "abs(i)": "2147483647, 7, 0, 5",
    "array(1,2)[i]": "None, None, 1, None",
    "element_at(array(1,2), 5)": "None, None, None, None",
    "-i": "-2147483647, 7, 0, -5",
    "to_date(s)": "None, None, None, None",
    "cast(i as decimal(10,0)) / 0": "None, None, None, None",
    "ceil(d)": "2, 0, 9223372036854775807, -2",
    "s = 12": "True, False, None, None",
    "s > 7": "True, False, None, None",
    "s + 1": "13.0, 8.9, None, 1001.0",
    "s = 7.9": "False, True, None, False",
    "s < cast(12.5 as decimal(4,1))": "True, True, None, False",
    "s = d": "False, False, None, False",
    "i % s": "7.0, -7.0, None, 5.0",
    "s = true": "None, None, None, None",
    "s = date'2024-01-01'": "None, None, None, None",
    "s * cast(2 as decimal(3,1))": "24.0, 15.8, None, 2000.0",
    "i + cast(1.5 as float)": "2147483648.0, -5.5, 1.5, 6.5",
    "cast(i as bigint) = cast(2147483648 as float)": "True, False, False, False",
    "size(if(i = 0, null, array(1)))": "1, 1, -1, 1",
}


def values(text: str) -> str:
    bound = bind(parse_expression(text, "job.py:1"), SCHEMA)
    return ", ".join(repr(bound.value(row)) for row in ROWS)


@pytest.mark.parametrize(("text", "recorded"), RECORDED.items(), ids=RECORDED)
def test_what_does_not_fit_is_null_or_wraps_without_ansi_mode(text: str, recorded: str) -> None:
    with settings_in_force({ANSI: "false"}):
        assert values(text) == recorded


@pytest.mark.parametrize("text", ["cast(s as int)", "i + 1", "i / 0", "cast(d as bigint)", "array(1, 2)[i]"])
def test_what_does_not_fit_is_an_error_in_ansi_mode(text: str) -> None:
    with settings_in_force({ANSI: "true"}), pytest.raises(PySparkException):
        values(text)


def test_text_and_another_type_in_one_column_follow_other_rules_without_it() -> None:
    with settings_in_force({ANSI: "true"}), pytest.raises(PySparkException):
        values("coalesce(s, i)")
    with (
        settings_in_force({ANSI: "false"}),
        pytest.raises(CannotFollowError, match="a text and another type without"),
    ):
        values("coalesce(s, i)")


def test_sessions_setting_is_in_force_until_its_session_ends() -> None:
    session = ClientSession()
    with connected(session):
        session.conf.set("spark.sql.ansi.enabled", "false")
        assert (
            session.createDataFrame([("x",)], "s STRING").selectExpr("cast(s as int) n").collect()[0].n
            is None
        )
    assert is_ansi() == (VERSION >= (4, 0))
    with connected(ClientSession(Answers(state=session.answers.state.copy()))):
        assert not is_ansi()


def test_setting_that_is_unset_is_that_of_the_release_again() -> None:
    with connected(ClientSession()) as session:
        session.conf.set("spark.sql.ansi.enabled", str(VERSION < (4, 0)))
        assert is_ansi() == (VERSION < (4, 0))
        session.conf.unset("spark.sql.ansi.enabled")
        assert is_ansi() == (VERSION >= (4, 0))
