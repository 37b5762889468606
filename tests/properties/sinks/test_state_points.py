"""Where a task with state dies, without Java: at the last call of each kind, in each batch."""

import os
import signal
from pathlib import Path

from headrace_properties.sinks.points import fault_points
from headrace_properties.sinks.story import TrialStory
from headrace_sim.spark.laboratory.workers import end_workers
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.sink_effects import Effect, Ledger, Settled, StateCall

KEY, GET, UPDATE = ("the rows or the timer of a key", ""), ("get", "job.py:7"), ("update", "job.py:9")
WRITTEN = [[Effect(0, batch, "write", "out", "job.py:12")] for batch in range(2)]


def calls_of(batch: int, *calls: tuple[str, str]) -> list[StateCall]:
    return [StateCall(batch, call, place) for call, place in calls]


def test_a_task_dies_at_the_last_call_of_each_kind_in_each_batch() -> None:
    noted = [*calls_of(0, KEY, UPDATE), *calls_of(1, KEY, GET, UPDATE, KEY, GET, UPDATE)]
    points = fault_points(WRITTEN, list(noted), overtaken=False, tasks=True)
    assert [point for point in points if point.kind is SinkFaultKind.STATE] == [
        SinkFault(SinkFaultKind.STATE, batch, call)
        for batch, call in ((0, 0), (0, 1), (1, 3), (1, 4), (1, 5))
    ]


def test_its_story_names_the_call_however_few_effects_the_batch_has() -> None:
    story = TrialStory(SinkFault(SinkFaultKind.STATE, 1, 2), [*calls_of(1, KEY, GET, UPDATE)], WRITTEN)
    assert story.struck() == "in batch 1 a task died before update (job.py:9), and Spark ran it again"


def test_the_workers_of_an_attempt_end_with_it_and_no_process_that_got_their_number(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    workers = [_waiting() for _ in range(2)]
    ledger.append(Settled(0, workers[0], os.getpgid(workers[0]) + 1))
    ledger.append(Settled(1, workers[1], os.getpgid(workers[1])))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as the daemon that is the parent of workers does
    try:
        end_workers(ledger, 0)
        end_workers(ledger, 1)
        assert [_is_there(worker) for worker in workers] == [True, False]
    finally:
        os.kill(workers[0], signal.SIGKILL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        ledger.close()


def _waiting() -> int:
    pid = os.fork()
    if pid == 0:
        while True:
            signal.pause()
    return pid


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
