"""Sinks under every failure: right ones hold, wrong ones are found at their line, and a trial reaches nothing outside it."""

import contextlib
import http.client
import inspect
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyarrow.fs import LocalFileSystem
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from headrace_properties.sinks import SinkFailsError, SinkReport, UnfollowableSinkError, Wrong, check_sink
from headrace_sim.spark import refusals
from headrace_sim.spark.sink_faults import SinkFaultKind
from headrace_sim.spark.sinks.write_fence import has_fence
from tests.nights import others_at_night
from tests.sim.spark import sink_functions as sinks
from tests.sim.spark.apart import call
from tests.sim.spark.sink_functions import BATCHES, RIGHT, SCHEMA, WRONG, make_tables

ONE_BATCH = [[("ann", 10)]]


RIGHT_BY_DAY = (
    sinks.balances_and_batch_id_in_one_transaction,
    sinks.directory_by_batch_id_renamed,
    sinks.put_by_batch_id,
    sinks.partition_of_a_table_overwritten,
    sinks.delta_transaction,
)
WRONG_BY_DAY = (
    sinks.two_tables_in_two_transactions,
    sinks.never_committed,
    sinks.appended_without_batch_id,
    sinks.balance_added_to,
    sinks.error_swallowed,
    sinks.file_appended,
    sinks.directory_made_once,
    sinks.posted,
    sinks.counted_in_a_global,
    sinks.appended_with_spark,
)
"""One of each store, and of each thing that can be wrong."""

OUTSIDE = Path("/var/tmp/headrace-outside")  # noqa: S108  it is never made


def _check(function: Callable[..., Any], **options: Any) -> SinkReport:
    return call(check_sink, function, options.pop("batches", ONE_BATCH), SCHEMA, **options)


def _blamed_lines(function: Callable[..., Any]) -> set[str]:
    lines, start = inspect.getsourcelines(function)
    return {
        f"{inspect.getsourcefile(function)}:{start + place}"
        for place, line in enumerate(lines)
        if "# WRONG" in line
    }


@pytest.mark.parametrize(
    "function", others_at_night(RIGHT_BY_DAY, RIGHT), ids=lambda function: function.__name__
)
def test_idempotent_sink_holds(function: Callable[..., Any]) -> None:
    report = _check(function, batches=BATCHES[:1], prepare=make_tables)
    assert (report.findings, report.unknown) == ((), ())
    assert report.trials >= sum(report.effects) * 2 + 3


class _UnreadableError(Exception):
    def __str__(self) -> str:
        raise ValueError("it has no text")


def test_error_whose_text_cannot_be_read_is_the_sinks_own() -> None:
    def fails(_df: Any, _batch_id: int) -> None:
        raise _UnreadableError

    with pytest.raises(SinkFailsError, match=r"_UnreadableError: \(its text raises ValueError\)"):
        check_sink(fails, [[(1,)]], "n INT")


def test_traceback_that_cannot_be_formatted_leaves_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traceback, "format_exception", Mock(side_effect=RecursionError))
    told = "KeyError, whose traceback cannot be formatted: RecursionError"
    assert refusals.traceback_told(KeyError(1)) == told


def test_batches_that_follow_each_other_are_tried_each() -> None:
    report = _check(RIGHT[0], batches=BATCHES, prepare=make_tables)
    assert report.holds
    assert report.effects == (4, 3)


@pytest.mark.parametrize(
    "function", others_at_night(WRONG_BY_DAY, WRONG), ids=lambda function: function.__name__
)
def test_effect_that_is_not_idempotent_is_named_with_its_line(function: Callable[..., Any]) -> None:
    batches = BATCHES if WRONG[function] == "memory" else BATCHES[:1]
    report = _check(function, batches=batches, prepare=make_tables)
    first = report.findings[0]
    assert (first.wrong.value, {finding.place for finding in report.findings}) == (
        WRONG[function],
        _blamed_lines(function),
    )


def test_driver_that_hung_before_the_call_finds_a_later_batch() -> None:
    def only_the_last_id_is_kept(df: Any, batch_id: int) -> None:
        with sqlite3.connect("bank.db") as db:
            db.execute("BEGIN IMMEDIATE")
            if not db.execute("SELECT 1 FROM batches WHERE id = ?", (batch_id,)).fetchone():
                db.execute("UPDATE batches SET id = ?", (batch_id,))
                db.executemany("INSERT INTO payments VALUES (0, ?, ?)", [tuple(row) for row in df.collect()])

    def prepare() -> None:
        make_tables()
        with sqlite3.connect("bank.db") as db:
            db.execute("INSERT INTO batches VALUES (-1)")

    found = _check(
        only_the_last_id_is_kept, batches=BATCHES, prepare=prepare, ignore=["bank.db: batches"]
    ).findings
    assert {(finding.wrong, finding.fault.effect) for finding in found} == {(Wrong.TWICE, -1)}
    assert "In batch 0 the driver hung before it called the function" in found[0].story


def test_dead_process_runs_no_cleanup() -> None:
    def clean_up(df: Any, batch_id: int) -> None:
        file = open("rows.txt", "a")  # noqa: SIM115  as people write it
        try:
            file.write(
                "x" * 9000
            )  # more than a buffer: half of it is written at once, the rest when it is closed
            Path("step").touch()
        finally:
            file.close()

    finding = _check(clean_up).findings[0]
    assert finding.destination == "rows.txt"
    assert finding.fault.kind is SinkFaultKind.KILL


def test_natural_variation_between_runs_is_not_a_finding() -> None:
    def stamp(df: Any, batch_id: int) -> None:
        with sqlite3.connect("out.db") as db:
            db.execute(
                "CREATE TABLE IF NOT EXISTS t (batch INT PRIMARY KEY, rows INT, written_at REAL, token TEXT)"
            )
            db.execute(
                "REPLACE INTO t VALUES (?, ?, ?, ?)", (batch_id, df.count(), time.time(), str(uuid.uuid4()))
            )

    assert _check(stamp).holds


def test_time_of_writing_in_a_column_is_not_a_finding() -> None:
    def stamp(df: Any, batch_id: int) -> None:
        stamped = df.withColumn("written_at", F.current_timestamp()).withColumn("day", F.current_date())
        stamped.write.mode("overwrite").parquet(f"out/{batch_id}")

    assert _check(stamp).holds


def test_rows_sent_to_a_topic_are_appended_by_default_and_never_overwritten() -> None:
    def send(df: Any, batch_id: int, mode: str | None = None) -> None:
        df.write.format("kafka").option("topic", "payments").mode(mode).save()

    found = _check(send, batches=BATCHES).findings
    assert {(finding.wrong, finding.destination) for finding in found} == {(Wrong.TWICE, "payments")}
    with pytest.raises(SinkFailsError, match="Save mode Overwrite not allowed for Kafka"):
        _check(lambda df, batch_id: send(df, batch_id, "overwrite"))


def test_files_with_random_names_are_counted() -> None:
    def add_file(df: Any, batch_id: int) -> None:
        Path("out").mkdir(exist_ok=True)
        Path(f"out/{uuid.uuid4()}.json").write_text(json.dumps([row.asDict() for row in df.collect()]))

    found = [finding for finding in _check(add_file).findings if finding.wrong is Wrong.TWICE]
    assert [finding.destination for finding in found] == ["out/*.json"]


def test_content_that_cannot_be_compared_is_unknown() -> None:
    def scribble(df: Any, batch_id: int) -> None:
        Path("note.txt").write_text(f"written at {time.time()}")

    report = _check(scribble)
    assert not report.holds
    (why,) = report.unknown
    assert why.startswith("note.txt differs from one undisturbed run to the next")
    assert not _check(scribble, ignore=["note.txt"]).unknown


def test_chance_is_not_taken_for_a_fault_where_two_runs_happened_to_agree() -> None:
    def write(df: Any, batch_id: int) -> None:
        if random.random() < 0.8:  # in both of the first two runs, and not in each trial
            Path(f"sampled-{batch_id}").write_text("seen")
        Path(f"rows-{batch_id}").write_text(str(df.count()))

    report = _check(write, batches=BATCHES)
    assert not report.findings
    assert report.unknown


def test_order_of_rows_counts_only_where_it_decides_the_result() -> None:
    def write_all(df: Any, batch_id: int) -> None:
        Path("new").write_text(str(df.collect()))
        Path("new").replace(f"{batch_id}.txt")

    def write_last(df: Any, batch_id: int) -> None:
        Path("new").write_text(str(df.collect()[-1]))
        Path("new").replace(f"{batch_id}.txt")

    two_rows = [[("ann", 1), ("bob", 2)]]
    assert _check(write_all, batches=two_rows).holds
    assert [finding.fault.kind for finding in _check(write_last, batches=two_rows).findings] == [
        SinkFaultKind.REORDER
    ]


def test_sink_without_effects_is_unknown() -> None:
    report = _check(lambda df, batch_id: df.collect())
    assert (report.holds, report.unknown) == (False, ("no effect of the sink was seen: nothing was tried",))


def test_a_pipe_keeps_nothing_so_that_writing_to_it_is_no_effect() -> None:
    def notify(_df: Any, _batch_id: int) -> None:
        _reader, writer = os.pipe()
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(b"done")

    assert _check(notify).effects == (0,)


def test_sink_that_reads_an_iterator_twice_and_writes_nothing_is_unknown() -> None:
    def count_and_write(df: Any, batch_id: int) -> None:
        rows = df.toLocalIterator()
        number = sum(1 for _ in rows)
        with sqlite3.connect("out.db") as db:
            db.execute("CREATE TABLE IF NOT EXISTS paid (batch INT, number INT, account TEXT)")
            db.executemany("INSERT INTO paid VALUES (?, ?, ?)", [(batch_id, number, row[0]) for row in rows])

    report = _check(count_and_write)
    assert not report.holds
    (why,) = report.unknown
    assert why.startswith("the sink left no row anywhere, even undisturbed")
    assert "Does it read an iterator twice" in why


def test_request_that_is_retried_after_a_lost_reply_is_found() -> None:
    def post(df: Any, batch_id: int) -> None:
        try:
            urllib.request.urlopen("http://bank.test/x", b"[1]").read()
        except (urllib.error.URLError, ConnectionError):
            urllib.request.urlopen("http://bank.test/x", b"[1]").read()  # WRONG

    retried = [finding for finding in _check(post).findings if finding.fault.kind is SinkFaultKind.LOSE_REPLY]
    assert {finding.place for finding in retried} == _blamed_lines(post)


def test_request_that_is_tried_until_it_succeeds_holds() -> None:
    def put(df: Any, batch_id: int) -> None:
        while True:
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                urllib.request.urlopen(
                    urllib.request.Request(f"http://bank.test/{batch_id}", b"[1]", method="PUT")
                )
                return

    assert _check(put).holds


def test_answer_of_the_server_is_what_was_put_there() -> None:
    def put_once(df: Any, batch_id: int) -> None:
        address = f"http://bank.test/{batch_id}"
        try:
            assert urllib.request.urlopen(address).read() == b"[7]"
        except urllib.error.HTTPError as error:
            assert error.code == 404  # noqa: PT017  it must not be another
            urllib.request.urlopen(urllib.request.Request(address, b"[7]", method="PUT")).read()

    assert _check(put_once).holds


@pytest.mark.parametrize(
    ("reach", "told"),
    [
        (lambda: OUTSIDE.write_text("x"), "writes to /var/tmp/headrace-outside"),
        (lambda: os.rename(__file__, "mine"), "changes "),
        (lambda: os.utime(__file__), f"changes {__file__}"),
        (lambda: sqlite3.connect(f"{OUTSIDE}.db"), "changes /var/tmp/headrace-outside.db"),
        (lambda: socket.create_connection(("127.0.0.1", 9)), "connects to ('127.0.0.1', 9)"),
        (lambda: subprocess.run([sys.executable, "-V"], check=True), "starts "),
    ],
)
def test_nothing_outside_the_trial_is_accessed(reach: Callable[[], Any], told: str) -> None:
    def sink(df: Any, batch_id: int) -> None:
        with contextlib.suppress(Exception):  # a sink that catches everything must not hide it
            reach()

    with pytest.raises(UnfollowableSinkError) as caught:
        _check(sink)
    assert told in str(caught.value)
    assert "test_sink_check.py:" in str(caught.value)
    assert not OUTSIDE.exists()


@pytest.mark.parametrize("opened", [False, True])
def test_nothing_is_changed_by_way_of_an_open_directory(tmp_path: Path, opened: bool) -> None:
    # `shutil.rmtree` removes what is in a directory by descriptors, and Python tells no guard in which one `os.open` opens.
    theirs = tmp_path / "owners"
    theirs.mkdir()
    (theirs / "kept").write_text("kept")

    def sink(df: Any, batch_id: int) -> None:
        with contextlib.suppress(Exception):
            if opened:
                os.open("kept", os.O_WRONLY | os.O_TRUNC, dir_fd=os.open(theirs, os.O_RDONLY))
            else:
                shutil.rmtree(theirs, ignore_errors=True)

    with pytest.raises(UnfollowableSinkError, match=r"kept, outside the directory of its trial"):
        _check(sink)
    assert (theirs / "kept").read_text() == "kept"


@pytest.mark.skipif(not has_fence(), reason="this kernel has no Landlock")
def test_library_that_python_sees_nothing_of_changes_no_file_outside_the_trial(tmp_path: Path) -> None:
    def sink(df: Any, batch_id: int) -> None:
        LocalFileSystem().create_dir(str(tmp_path / "theirs"))

    with pytest.raises(SinkFailsError, match=r"(?s)theirs.*Permission denied"):
        _check(sink)
    assert not list(tmp_path.iterdir())


def test_call_that_is_not_simulated_ends_the_check() -> None:
    with pytest.raises(
        UnfollowableSinkError, match=r"test_sink_check.py:\d+: cannot follow spark.sql\('MERGE INTO t'\)"
    ):
        _check(lambda df, batch_id: df.sparkSession.sql("MERGE INTO t"))


def test_sink_that_fails_undisturbed_is_reported_with_its_line() -> None:
    with pytest.raises(
        SinkFailsError,
        match=r"test_sink_check.py:\d+: the sink fails on batch 0, undisturbed: ZeroDivisionError",
    ):
        _check(lambda df, batch_id: 1 / 0)
    with pytest.raises(
        SinkFailsError, match=r"(is not supported|: missing)\. Fix it first, or .* --sample FILE$"
    ):
        _check(lambda df, batch_id: df.collect()[0].missing)
    with pytest.raises(SinkFailsError, match="the sink fails on the preparation"):
        _check(lambda df, batch_id: None, prepare=lambda: 1 / 0)


def test_row_that_does_not_fit_the_schema_is_refused() -> None:
    with pytest.raises(PySparkException, match=r"FIELD_DATA_TYPE_UNACCEPTABLE|CANNOT_ACCEPT_OBJECT_IN_TYPE"):
        check_sink(lambda df, batch_id: None, [[("x",)]], "n INT")


def test_report_is_the_same_each_time_and_progress_is_reported() -> None:
    def check_twice() -> tuple[list[SinkReport], list[tuple[int, int]]]:
        function = next(iter(WRONG))
        told: list[tuple[int, int]] = []
        reports = [
            check_sink(
                function, ONE_BATCH, SCHEMA, prepare=make_tables, progress=lambda *done: told.append(done)
            )
            for _ in range(2)
        ]
        return reports, told

    reports, told = call(check_twice)
    assert reports[0] == reports[1]
    trials = [(done, wanted) for done, wanted in told if wanted]
    assert trials[reports[0].trials - 1] == (reports[0].trials,) * 2


def test_search_that_stops_while_the_sink_runs_undisturbed_says_so_and_accuses_nobody() -> None:
    # A signal that asks to stop also ends the process that runs, as Ctrl-C at a terminal does: its rows are missing.
    def killed(df: Any, batch_id: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    report = check_sink(killed, ONE_BATCH, SCHEMA, progress=lambda _done, wanted: wanted == 0)
    assert (report.findings, report.trials, report.stopped) == ((), 0, True)
    assert report.unknown == ("the search was stopped before its first trial",)


def test_without_zombies_a_fence_need_not_be_in_the_transaction() -> None:
    function = next(function for function in WRONG if function.__name__ == "checked_before_the_transaction")
    assert _check(function, prepare=make_tables, overtaken=False).holds


def test_this_process_is_left_as_it_was() -> None:
    before = (open, os.rename, sqlite3.connect, Path.cwd(), time.sleep)
    assert check_sink(RIGHT[1], ONE_BATCH, SCHEMA, prepare=make_tables).holds
    assert (open, os.rename, sqlite3.connect, Path.cwd(), time.sleep) == before


def test_an_interrupted_trial_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    really = os.waitpid

    def interrupted(pid: int, options: int) -> tuple[int, int]:
        begun.append(pid)
        if len(begun) == 1:
            raise KeyboardInterrupt
        return really(pid, options)

    monkeypatch.setattr(os, "waitpid", interrupted)
    with pytest.raises(KeyboardInterrupt):
        check_sink(lambda df, batch_id: time.sleep(60), ONE_BATCH, SCHEMA)
    monkeypatch.undo()
    with pytest.raises(ProcessLookupError):
        os.kill(begun[0], 0)


def test_connection_is_not_mistaken_for_a_reusable_one() -> None:
    """As urllib3 does, which asks the socket of a kept connection whether it is still there."""

    def post_twice(df: Any, batch_id: int) -> None:
        connection = http.client.HTTPConnection("bank.test")
        for row in df.collect():
            connection.request("PUT", f"/{batch_id}/{row.account}", b"x")
            assert connection.getresponse().read() == b"{}"
            assert connection.sock is None

    assert _check(post_twice, batches=[[("ann", 1), ("bob", 2)]]).holds
