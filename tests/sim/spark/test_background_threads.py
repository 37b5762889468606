"""Sinks that write in threads: what they wait for is written, and what they leave behind is lost with the process."""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pytest

from headrace_properties.sinks import check_sink
from tests.sim.spark.apart import call

POOL = ThreadPoolExecutor(max_workers=2)
BUFFER: queue.Queue[Any] = queue.Queue()


def _put(batch_id: int, row: Any) -> None:
    Path(f"{batch_id}-{row.account}.json").write_text(str(row.amount))


def joined(df: Any, batch_id: int) -> None:
    threads = [threading.Thread(target=_put, args=(batch_id, row)) for row in df.collect()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def pool_that_ends(df: Any, batch_id: int) -> None:
    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(lambda row: _put(batch_id, row), df.collect()))


def results(df: Any, batch_id: int) -> None:
    for future in as_completed([POOL.submit(_put, batch_id, row) for row in df.collect()]):
        future.result()


def worker_that_is_waited_for(df: Any, batch_id: int) -> None:
    work: queue.Queue[Any] = queue.Queue()

    def run() -> None:
        while (row := work.get()) is not None:
            _put(batch_id, row)
            work.task_done()

    threading.Thread(target=run, daemon=True).start()
    for row in df.collect():
        work.put(row)
    work.join()
    work.put(None)


def left_behind(df: Any, batch_id: int) -> None:
    for row in df.collect():
        threading.Thread(target=_put, args=(batch_id, row)).start()


def submitted(df: Any, batch_id: int) -> None:
    for row in df.collect():
        POOL.submit(_put, batch_id, row)


def buffered(df: Any, batch_id: int) -> None:
    if batch_id == 0 or not any(thread.name == "flusher" for thread in threading.enumerate()):
        threading.Thread(target=_flush, daemon=True, name="flusher").start()
    for row in df.collect():
        BUFFER.put((batch_id, row))


def _flush() -> None:
    while True:
        time.sleep(5)
        while not BUFFER.empty():
            _put(*BUFFER.get())


def joined_by_the_next(df: Any, batch_id: int) -> None:
    for thread in threading.enumerate():
        if thread.name == "writer":
            thread.join()
    threading.Thread(target=_put_all, args=(batch_id, df.collect()), name="writer").start()


def _put_all(batch_id: int, rows: Any) -> None:
    for row in rows:
        _put(batch_id, row)


def error_is_not_asked_for(df: Any, batch_id: int) -> None:
    with ThreadPoolExecutor() as pool:
        for row in df.collect():
            pool.submit(_send, batch_id, row)


def _send(batch_id: int, row: Any) -> None:
    from urllib.request import Request, urlopen  # noqa: PLC0415  as people write it

    urlopen(
        Request(f"http://h.test/{batch_id}/{row.account}", str(row.amount).encode(), method="PUT")
    ).close()


@pytest.mark.parametrize(
    ("sink", "wrong"),
    [
        (joined, set()),
        (pool_that_ends, set()),
        (results, set()),
        (worker_that_is_waited_for, set()),
        (left_behind, {"not flushed"}),
        (submitted, {"not flushed"}),
        (buffered, {"not flushed"}),
        (joined_by_the_next, {"not flushed"}),
        (error_is_not_asked_for, {"missing"}),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_what_a_sink_does_not_wait_for_is_lost_with_its_process(
    sink: Callable[[Any, int], None], wrong: set[str]
) -> None:
    report = call(
        check_sink,
        sink,
        [[("ann", 7), ("bob", 1)], [("eve", 2)]],
        "account STRING, amount INT",
        overtaken=False,
    )
    assert ({finding.wrong.value for finding in report.findings}, report.unknown) == (wrong, ())
