"""The code of a Spark job and of its sink is limited and confined wherever it is called from."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from headrace_properties.search.guard import EffectRefusedError, guarded
from headrace_properties.search.limits import CodeLimits, call_time_limited
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.job_findings import JobFailsError
from headrace_properties.spark_jobs.named_targets import spark_target
from headrace_properties.spark_jobs.outcomes import check_job
from headrace_properties.spark_jobs.targets import SparkTarget
from headrace_properties.target import TargetError
from headrace_properties.verifier import InvariantViolatedError, Verifier
from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.sinks.sink_runs import SinkFailsError
from headrace_sim.spark.spark_job import ApplyWithState, OutputMode, SparkJob
from tests.sim.spark.apart import call

FEED = [[("a", 1), ("a", 2)]]
QUICK = CodeLimits(call_s=0.3)


def counting(handle: Any) -> SparkJob:
    """Return a job that sums numbers, whose handler calls this with those of a frame."""

    def total(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        numbers = [number for frame in frames for number in frame["n"]]
        handle(numbers)
        done = (state.get[0] if state.exists else 0) + sum(numbers)
        state.update((done,))
        yield pd.DataFrame({"k": [key[0]], "total": [done]})

    step = ApplyWithState(
        total,
        ("k",),
        parse_schema("k STRING, total LONG"),
        parse_schema("done LONG"),
        OutputMode.UPDATE,
        "NoTimeout",
    )
    return SparkJob(parse_schema("k STRING, n LONG"), (step,))


def in_order(numbers: list[int]) -> None:
    while numbers != sorted(numbers):
        pass


def exits_in_order(numbers: list[int]) -> None:
    if numbers != sorted(numbers):
        sys.exit(0)


def vanishes_in_order(numbers: list[int]) -> None:
    if numbers != sorted(numbers):
        os._exit(0)


@pytest.mark.parametrize(
    ("handle", "told"),
    [
        (in_order, "user code never ends: at line"),
        (exits_in_order, "its code raises SystemExit(0)"),
        (vanishes_in_order, "your code calls os._exit(0)"),
    ],
)
def test_code_that_stops_in_another_order_only_is_a_finding_with_its_line(handle: Any, told: str) -> None:
    report = check_job(counting(handle), FEED, schedules=20, limits=QUICK)
    (finding,) = (finding for finding in report.findings if finding.trial.cause is Cause.ERROR)
    assert told in finding.message
    assert finding.place is not None
    assert finding.place.file == __file__
    assert report.schedules <= 20


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (lambda _: sys.exit(0), r"SystemExit\(0\)"),
        (lambda _: os._exit(0), r"os\._exit\(0\)"),
        (lambda _: os.kill(os.getpid(), 9), r"os\.kill\(os\.getpid\(\), 9\)"),
    ],
    ids=["exit", "vanish", "kill"],
)
def test_code_that_ends_its_process_fails_the_job(end: Any, told: str) -> None:
    with pytest.raises(JobFailsError, match=told):
        check_job(counting(end), FEED, schedules=1)


def sends(_numbers: list[int]) -> None:
    socket.create_connection(("pay.example.com", 80))


def starts_a_program(_numbers: list[int]) -> None:
    subprocess.run(["/bin/true"], check=True)


def writes_a_file(_numbers: list[int]) -> None:
    Path("written").write_text("x")


@pytest.mark.parametrize("effect", [sends, starts_a_program, writes_a_file])
def test_an_effect_of_a_task_is_refused_and_is_the_finding(
    effect: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    report = check_job(counting(effect), FEED, schedules=5)
    assert [finding.trial.cause for finding in report.findings] == [Cause.EFFECT]
    assert not list(tmp_path.iterdir())


def test_an_effect_that_is_allowed_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    allowed = [Cause.EFFECT, Cause.BATCHING, Cause.GROWTH]
    assert check_job(counting(writes_a_file), FEED, schedules=5, allow=allowed).findings == ()
    assert (tmp_path / "written").exists()


def sink(rows: Any, batch_id: int) -> None:
    rows.write.format("delta").mode("append").save("t")


def builds_after_a_program(rows: Any) -> Any:
    subprocess.run(["/bin/true"], check=True)
    return rows.writeStream.foreachBatch(sink).start()


def builds_and_exits(rows: Any) -> Any:
    rows.writeStream.foreachBatch(sink).start()
    sys.exit(0)


def builds_without_end(rows: Any) -> Any:
    while rows:
        pass


ENDLESS = "0.3 s of CPU time|user code never ends"
"""What is told of a loop: a busy machine may give it less CPU time than it may take, and then its wall time counts."""


def test_the_function_that_starts_the_query_starts_no_program() -> None:
    with guarded(), pytest.raises(EffectRefusedError, match="builds_after_a_program"):
        spark_target("job", builds_after_a_program, schemas="n INT")


@pytest.mark.parametrize(
    ("build", "told"), [(builds_and_exits, r"SystemExit\(0\)"), (builds_without_end, ENDLESS)]
)
def test_the_function_that_starts_the_query_returns(build: Any, told: str) -> None:
    with guarded(), call_time_limited(QUICK), pytest.raises(TargetError, match=told):
        spark_target("job", build, schemas="n INT")


def feed_that_exits(seed: int) -> Any:
    sys.exit(seed)


def test_a_feed_that_exits_is_told() -> None:
    with pytest.raises(TargetError, match=r"the feed fails at .*SystemExit: 0"):
        spark_target("sink", sink, schemas="n INT", feed=feed_that_exits)


def tried(function: Any) -> SparkTarget:
    target = spark_target("sink", function, schemas="n INT", feed=[[(1,), (2,)]])
    return replace(target, limits=QUICK)


def loops(rows: Any, batch_id: int) -> None:
    while rows is not None:
        pass


def exits(rows: Any, batch_id: int) -> None:
    os._exit(0)


@pytest.mark.parametrize(("function", "told"), [(loops, ENDLESS), (exits, r"calls os\._exit\(0\)")])
def test_a_sink_that_does_not_return_fails(function: Any, told: str) -> None:
    call(_sink_fails, function, told)


def _sink_fails(function: Any, told: str) -> None:
    with guarded(), pytest.raises(SinkFailsError, match=told):
        tried(function).verify()


def sorts(rows: Any, batch_id: int) -> None:
    numbers = [row.n for row in rows.collect()]
    while numbers != sorted(numbers):
        pass
    rows.write.format("delta").mode("append").save("t")


def test_a_sink_that_does_not_return_in_another_order_is_a_finding() -> None:
    call(_sink_is_stuck)


def _sink_is_stuck() -> None:
    with guarded():
        report = tried(sorts).verify()
    assert any(re.search(ENDLESS, str(finding)) for finding in report.findings)


def never_ends(_numbers: list[int]) -> None:
    while True:
        pass


def test_the_fixture_limits_the_code_of_a_job_too_and_names_its_own_option(tmp_path: Path) -> None:
    verifier = Verifier(5, 0, tmp_path, lambda *_: None, code_timeout=0.3)
    with pytest.raises(JobFailsError, match=r"0\.3 s of CPU time; --headrace-code-timeout allows more"):
        verifier(counting(never_ends), FEED)


def test_the_fixture_refuses_effects_and_keeps_prints_short(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def prints_and_writes(numbers: list[int]) -> None:
        for number in range(1_000):
            sys.stdout.write(f"{number}\n")
        writes_a_file(numbers)

    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvariantViolatedError, match="writes the file 'written'"):
        Verifier(5, 0, tmp_path / "kept", lambda *_: None)(counting(prints_and_writes), FEED)
    assert not (tmp_path / "written").exists()
    printed = capsys.readouterr().out
    assert printed.startswith("Your code printed, among others:\n0\n1\n2\n")
    assert len(printed.splitlines()) < 20
