"""Injectors on Spark: records that a function makes, the same ones whenever it is asked again (MillWheel 5.2)."""

from collections.abc import Iterable

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace import (
    MAX_TIME,
    MIN_TIME,
    SECOND,
    MalformedRecordError,
    OptionsError,
)
from headrace.spark.io_errors import (
    SourceUnreadableError,
)
from headrace.spark.sources import generated as _source_generated
from headrace.spark.sources.injected_rows import NewRecord
from headrace.spark.sources.sources import Generated
from tests.spark.sources.source_rig import (
    Query,
    bounded,
    data,
    heartbeat,
    numbers,
    pipeline_of,
)

pytestmark = pytest.mark.spark

S = SECOND


def test_a_generator_ends_after_its_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_source_generated, "TASK_RECORDS", 3)
    query = Query(Generated(numbers, count=5, disorder_us=2 * S, max_records=4), pipeline_of(processes=2))
    batches = query.batches()
    assert [[row["record_id"] for row in data(rows)] for rows in batches] == [
        ["mail/0:0", "mail/0:1", "mail/1:0", "mail/1:1"],
        ["mail/0:2", "mail/0:3", "mail/1:2", "mail/1:3"],
        ["mail/0:4", "mail/1:4"],
    ]
    # -2 s is before Spark's time begins
    assert [heartbeat(rows) for rows in batches] == [(MIN_TIME, 2), (2 * S, 4), (MAX_TIME, MAX_TIME)]
    query.restart()
    assert [query.again(number) for number in range(3)] == batches
    together = bounded(Generated(numbers, count=5, max_records=4), pipeline_of(processes=2))
    assert sorted(map(str, data(together))) == sorted(str(row) for rows in batches for row in data(rows))


def test_a_generator_with_a_rate_follows_the_clock_over_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    now_us = 1_000 * S
    monkeypatch.setattr(_source_generated, "_now_us", lambda: now_us)
    query = Query(Generated(numbers, per_second=2))
    assert [row["arrived"] for row in data(query.batch())] == [1_000 * S]
    assert query.batch() == []
    now_us += 2 * S
    rows = query.batch()
    assert [row["arrived"] / S for row in data(rows)] == [1000.5, 1001, 1001.5, 1002]
    assert heartbeat(rows)[1] == 1_002.5 * S
    query.restart()
    now_us += 2 * S
    assert len(data(query.batch())) == 4
    query.available_now()
    now_us += 100 * S
    assert query.batch() == []


def test_a_generator_may_have_its_own_watermark_which_never_goes_back() -> None:
    told = [50 * S, 20 * S, 70 * S]
    query = Query(Generated(numbers, watermark=lambda _process, offset: told[offset - 1], max_records=1))
    assert [heartbeat(query.batch(limit))[0] for limit in (None, None, ReadAllAvailable())] == [
        50 * S,
        50 * S,
        70 * S,
    ]


def test_a_generator_that_fails_is_named_with_its_place() -> None:
    def broken(process: int, offset: int) -> Iterable[NewRecord]:
        yield NewRecord("a", 1, 1)
        raise ZeroDivisionError("oops")

    with pytest.raises(
        SourceUnreadableError, match="process 0, records from offset 0: ZeroDivisionError: oops"
    ):
        Query(Generated(broken, count=5, max_records=2)).batch()
    with pytest.raises(
        SourceUnreadableError,
        match=r"records from offset 3: the function returned no more records\. Set count",
    ):
        Query(Generated(lambda _process, offset: [NewRecord("a", 1, 1)] * (3 - offset), count=5)).batch()
    with pytest.raises(SourceUnreadableError, match="7 is not a NewRecord"):
        Query(Generated(lambda _process, _offset: [7, 7], count=9, max_records=1)).batch()  # type: ignore[list-item]


def test_what_a_stream_cannot_carry_is_malformed() -> None:
    for record, reason in (
        (NewRecord("a", {1, object()}, 1), r"stream 'mail': JsonCodec\(\) cannot write this value"),
        (NewRecord("a", 1, 1, "other"), r"the stream is not among the injector's outputs \('mail'\)"),
        (NewRecord(None, 1, 1), "key None is not a str"),  # type: ignore[arg-type]
        (7, "7 is not a NewRecord"),
    ):
        source = Generated(lambda _process, _offset, record=record: [record], count=1)  # type: ignore[misc]
        with pytest.raises(MalformedRecordError, match=reason):
            Query(source).batch()


def test_options_of_a_generator_are_checked() -> None:
    for source, option in (
        (Generated(numbers), "max_records=None: expected a limit"),
        (Generated(numbers, count=-1), "count=-1"),
        (Generated(numbers, per_second=0), "per_second=0"),
        (Generated(numbers, max_records=0), "max_records=0: expected at least one for each process"),
    ):
        with pytest.raises(OptionsError, match=option):
            Query(source)
    with pytest.raises(OptionsError, match="count=None: expected a number, for a bounded read"):
        bounded(Generated(numbers, per_second=1))
