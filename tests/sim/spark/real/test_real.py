"""What is asked of the real Spark, and how its answers are remembered. Those marked ``spark`` start it."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import socket
from typing import Any

import pyspark.sql.connect.proto as pb
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql import types as t

from headrace.spark.host_errors import JavaNotFoundError
from headrace_properties.replays import read_replay, to_replay
from headrace_properties.spark_jobs.named_targets import spark_target
from headrace_properties.spark_jobs.trials import SinkTrial
from headrace_properties.target import SparkSource
from headrace_properties.user_code.tracing import Trace, tracing
from headrace_sim.spark.client.sessions import ClientSession, connected
from headrace_sim.spark.pyspark_versions import VERSION
from headrace_sim.spark.real import answers, server
from headrace_sim.spark.real.answers import SWITCH
from headrace_sim.spark.real.questions import question_of, refusal
from headrace_sim.spark.real.server_protocol import Question, SparkAnswer
from headrace_sim.spark.refusals import HEARD, CannotFollowError
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind

SCHEMA = t.StructType([t.StructField("k", t.StringType())])
ROWS = [("Robert",), (None,)]
SOUNDEX = [("R163",), (None,)]
Expression = pb.Expression


def column(name: str, plan_id: int = 1) -> Any:
    return Expression(
        unresolved_attribute=Expression.UnresolvedAttribute(unparsed_identifier=name, plan_id=plan_id)
    )


def call(name: str, *arguments: Any) -> Any:
    return Expression(
        unresolved_function=Expression.UnresolvedFunction(function_name=name, arguments=arguments)
    )


def text(expression: str) -> Any:
    return Expression(expression_string=Expression.ExpressionString(expression=expression))


def selected(expression: Any, plan_id: int = 1) -> Any:
    """Select an expression from a table; the table's plan id is given."""
    relation = pb.Relation(common=pb.RelationCommon(plan_id=plan_id + 1))
    relation.project.input.common.plan_id = plan_id
    relation.project.input.read.named_table.unparsed_identifier = "t"
    relation.project.expressions.append(expression)
    return relation


def digest(relation: Any, rows: Any = ROWS) -> str:
    return question_of(relation, [(SCHEMA, rows)], "F.soundex", "job.py:1").digest


def asked(name: str) -> Any:
    return answers.ask(
        selected(call(name, column("k"))), [(SCHEMA, ROWS)], f"F.{name}", str(Path("job.py:7").absolute())
    )


def test_equal_steps_have_one_digest_wherever_they_stand() -> None:
    one, two = (selected(call("soundex", column("k", plan_id)), plan_id) for plan_id in (1, 77))
    if VERSION >= (4, 0):
        two.common.origin.python_origin.fragment = "soundex"
    assert digest(one) == digest(two)
    assert digest(one) != digest(selected(call("crc32", column("k"))))
    assert digest(one) != digest(one, ROWS[::-1])
    assert one == selected(call("soundex", column("k", 1)))  # which the questions have not changed


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        (call("soundex", column("k")), ""),
        (call("upper", call("rand")), "rand(): it draws random values"),
        (call("NOW"), "now(): it reads the clock"),
        (call("unix_timestamp"), "unix_timestamp(): it reads the clock"),
        (call("unix_timestamp", column("k")), ""),
        (call("monotonically_increasing_id"), "monotonically_increasing_id(): it depends on how rows"),
        (call("reflect"), "reflect(): it calls code"),
        (text("soundex(k) || ' now()'"), ""),
        (text("concat(k, uuid())"), "uuid: it draws random values"),
        (text("k = current_date"), "current_date: it reads the clock"),
        (text("(SELECT 1)"), "it has a subquery"),
    ],
    ids=str.split(
        "function chance clock now-without-argument time-of-column partition code quoted text-chance text-clock subquery"
    ),
)
def test_only_what_follows_from_the_rows_is_asked(expression: Any, why: str) -> None:
    assert refusal(selected(expression)).startswith(why)
    assert bool(refusal(selected(expression))) == bool(why)


def test_a_column_comes_before_a_function_without_parentheses() -> None:
    relation = selected(text("soundex(user)"))
    assert refusal(relation) == "user: it depends on the session"
    assert refusal(relation, ["k", "User"]) == ""


def test_query_in_sql_text_is_asked_with_the_rows_of_the_views_that_it_names() -> None:
    def query(of: str, plan_id: int) -> Any:
        relation = pb.Relation(common=pb.RelationCommon(plan_id=plan_id))
        relation.with_relations.root.sql.query = of
        view = relation.with_relations.references.add().subquery_alias
        view.alias, view.input.common.plan_id = "v", plan_id + 1
        view.input.read.named_table.unparsed_identifier = "t"
        return relation

    one = query("SELECT k FROM v WHERE k IN (SELECT max(k) FROM v)", 5)
    assert refusal(one, SCHEMA.names) == ""
    assert digest(one) == digest(query(one.with_relations.root.sql.query, 9))
    assert digest(one) != digest(query("SELECT k FROM v", 5))
    asked = pb.Relation.FromString(question_of(one, [(SCHEMA, ROWS)], "spark.sql", "job.py:1").plan)
    assert asked.with_relations.references[0].subquery_alias.input.HasField("local_relation")
    assert refusal(query("SELECT rand() FROM v", 5)).startswith("rand: it draws random values")


def test_functions_of_the_user_and_tables_are_not_asked() -> None:
    function = Expression(
        common_inline_user_defined_function=pb.CommonInlineUserDefinedFunction(function_name="mine")
    )
    assert refusal(selected(call("soundex", function))).startswith("a function in Python is called")
    table = pb.Relation()
    table.read.named_table.unparsed_identifier = "t"
    assert refusal(table) == "read is more than a computation on rows"


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_known", {})


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, forgetful: None) -> Iterator[list[Question]]:
    """A server in this process that knows `soundex`, has no other function, and finds no Java for `crc32`."""
    heard: list[Question] = []
    answer = SparkAnswer(schema=SCHEMA.json(), data=question_rows(SOUNDEX))

    def reply(_client: Any, question: Question) -> SparkAnswer:
        heard.append(question)
        if b"crc32" in question.plan:
            raise JavaNotFoundError(17, ("PATH: no java on it",))
        if b"soundex" not in question.plan:
            return SparkAnswer(
                error="AnalysisException", message="Cannot resolve", condition="UNRESOLVED_ROUTINE"
            )
        return answer

    monkeypatch.setattr(server, "_started", lambda: "Spark")
    monkeypatch.setattr(server, "_answer", reply)
    door = socket()
    door.bind(("127.0.0.1", 0))
    door.listen()
    ends, alive = os.pipe()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    serving = threading.Thread(target=server.main, args=(door, ends, "token", nowhere))
    serving.start()
    monkeypatch.setattr(answers, "opened", lambda: answers.ServerAddress(door.getsockname(), "token"))
    yield heard
    os.close(alive)
    serving.join()
    os.close(ends)
    os.close(nowhere)
    door.close()


def question_rows(rows: Any) -> bytes:
    asked = question_of(selected(column("k")), [(SCHEMA, rows)], "", "")
    return bytes(pb.Relation.FromString(asked.plan).project.input.local_relation.data)


def test_answer_is_asked_once_by_a_process_and_its_forks(served: list[Question]) -> None:
    for _ in range(3):
        assert in_fork(lambda: asked("soundex")[1] == SOUNDEX)
    assert asked("soundex") == asked("soundex") == (SCHEMA, SOUNDEX)
    assert len(served) == 1


def test_question_to_spark_is_no_effect_of_the_users_code(served: list[Question]) -> None:
    with tracing(Trace()) as trace:
        assert asked("soundex")[1] == SOUNDEX
    assert trace.effects == []


def test_error_of_spark_is_the_users_to_catch(served: list[Question]) -> None:
    for _ in range(2):
        with pytest.raises(AnalysisException, match=r"^\[UNRESOLVED_ROUTINE\] Cannot resolve$"):
            asked("nosuch")
    assert len(served) == 1


def test_process_that_dies_while_it_asks_harms_nobody(served: list[Question]) -> None:
    def die() -> bool:
        connection = socket()
        connection.connect(answers.opened().address)
        connection.sendall(b"\0\0\1\0half a ques")
        os._exit(9)

    in_fork(die)
    assert asked("soundex") == (SCHEMA, SOUNDEX)


def test_nobody_without_the_token_is_answered(
    served: list[Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    way = answers.ServerAddress(answers.opened().address, "guessed")
    monkeypatch.setattr(answers, "opened", lambda: way)
    with pytest.raises(answers.RealSparkError, match="its process has ended"):
        asked("soundex")
    assert served == []


def test_without_java_it_is_said_what_is_missing(served: list[Question]) -> None:
    for _ in range(2):
        with pytest.raises(
            answers.RealSparkError, match="cannot be asked: Spark needs Java 17 or newer, and none was"
        ):
            asked("crc32")
    assert len(served) == 1


def test_replay_file_carries_the_answers(
    served: list[Question], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked("soundex")
    with answers.collected() as needed:
        assert in_fork(lambda: bool(asked("soundex")))
    assert len(needed) == 1
    source, trial = SparkSource("jobs.stream:write"), SinkTrial(SinkFault(SinkFaultKind.NONE, 0, -1))
    file = tmp_path / "found.json"
    file.write_bytes(to_replay(source, trial, {}, answers=needed))
    monkeypatch.setattr(answers, "_known", {})
    answers.remember(read_replay(file).answers or {})
    monkeypatch.setattr(answers, "opened", pytest.fail)
    assert asked("soundex") == (SCHEMA, SOUNDEX)
    assert b"answers" not in to_replay(source, trial, {})


@pytest.fixture
def frame(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A frame of user code, with the real Spark behind it."""
    monkeypatch.delenv(SWITCH)
    HEARD.clear()
    with connected(ClientSession()) as session:
        yield session.frame(SCHEMA, [ROWS[:1], ROWS[1:]])
    HEARD.clear()


def test_step_that_cannot_be_followed_is_computed_by_spark(served: list[Question], frame: Any) -> None:
    upper = frame.select(F.udf(lambda k: k, "string")("k").alias("k")).select(F.soundex("k").alias("k"))
    for _ in range(2):
        assert [tuple(row) for row in upper.filter("k IS NOT NULL").collect()] == SOUNDEX[:1]
    assert not HEARD
    places = {question.place.rpartition("/")[2] for question in served}
    assert len(served) == 2  # its schema, when it is made, and its rows
    assert len(places) == 1
    assert places.pop().startswith("test_real.py:")


def test_error_of_a_step_that_spark_computes_is_the_users(served: list[Question], frame: Any) -> None:
    with pytest.raises(AnalysisException, match="UNRESOLVED_ROUTINE"):
        frame.selectExpr("nosuch(k)")
    assert not HEARD


@pytest.mark.parametrize(
    ("select", "why"),
    [
        (
            lambda: F.soundex(F.concat("k", F.lit("crc32"))),
            "soundex.* Spark, which computes what Headrace does not, cannot be asked: Spark needs Java 17",
        ),
        (lambda: F.soundex(F.expr("uuid()")), "uuid: it draws random values"),
        (lambda: F.soundex(F.udf(lambda k: k)("k")), "Call it in a step of its own before"),
    ],
    ids=str.split("java chance python"),
)
def test_step_that_nobody_computes_is_refused_with_the_reason(
    served: list[Question], frame: Any, select: Any, why: str
) -> None:
    with pytest.raises(CannotFollowError, match=why):
        frame.select(select())
    assert len(HEARD) == 1


def test_spark_is_not_asked_where_that_is_switched_off(
    served: list[Question], frame: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "no")
    with pytest.raises(CannotFollowError, match="soundex"):
        frame.select(F.soundex("k"))
    assert served == []


def in_fork(check: Callable[[], bool]) -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if check() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def write(frame: Any, batch_id: int) -> None:
    codes = frame.withColumn("code", F.soundex("k"))
    codes.groupBy("code").agg(F.percentile(F.length("k"), 0.5)).write.mode("overwrite").parquet(
        f"codes/{batch_id}"
    )


@pytest.mark.spark
def test_real_spark_answers(forgetful: None, monkeypatch: pytest.MonkeyPatch) -> None:
    answers.opened()
    for _ in range(2):
        assert in_fork(lambda: asked("soundex")[1] == SOUNDEX)
    with pytest.raises(AnalysisException, match=r"^\[UNRESOLVED_ROUTINE\] Cannot resolve routine `nosuch`"):
        asked("nosuch")
    monkeypatch.delenv(SWITCH)
    target = spark_target("write", write, schemas="k STRING", feed=[[("Robert",)], [("Ada",), ("Rupert",)]])
    assert target.verify().findings == ()
    assert answers.is_used()
