"""The rich lean model is an anchor only if it does everything that a delivery requires: these tests check that."""

import os
import subprocess
import sys
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from headrace_benchmarks import lean_model
from headrace_benchmarks.lean_model import (
    HeapKernel,
    Kernel,
    LeanOptions,
    RichModel,
    SimpyKernel,
    Struck,
    run_bare,
    run_rich,
)
from headrace_benchmarks.lean_model._data import Commit, Process, Record

SMALL = LeanOptions(records=2_000, workers=20, keys_per_worker=20, mint_us=1_000)
STORMY = replace(SMALL, drop=0.1, duplicate=0.1, delay=0.1)
CALM = replace(SMALL, drop=0.0, duplicate=0.0, delay=0.0, mint_us=10**9)
KERNELS = [HeapKernel, SimpyKernel]


@pytest.mark.parametrize("kernel_type", KERNELS)
def test_events_run_in_the_order_of_time_and_then_of_scheduling(kernel_type: type[Kernel]) -> None:
    kernel = kernel_type()
    seen: list[tuple[int, str]] = []

    def note(name: str) -> None:
        seen.append((kernel.now, name))
        if name == "a":
            kernel.call_later(0, note, "e")

    for delay_us, name in ((7, "c"), (5, "a"), (5, "b"), (7, "d")):
        kernel.call_later(delay_us, note, name)
    kernel.run()

    assert seen == [(5, "a"), (5, "b"), (5, "e"), (7, "c"), (7, "d")]
    assert kernel.heap_events == 5


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("options", [CALM, SMALL, STORMY], ids=["calm", "small", "stormy"])
def test_same_seed_gives_the_same_trace_on_both_kernels(options: LeanOptions, seed: int) -> None:
    on_heap, on_simpy = (
        run_rich(replace(options, seed=seed), kernel()) for kernel in (HeapKernel, SimpyKernel)
    )

    assert replace(on_heap, cpu_seconds=0.0) == replace(on_simpy, cpu_seconds=0.0)


def test_another_seed_gives_another_trace() -> None:
    digests = {run_rich(replace(SMALL, seed=seed), HeapKernel()).digest for seed in range(3)}

    assert len(digests) == 3


def test_same_seed_gives_the_same_trace_in_every_process() -> None:
    source_root = Path(lean_model.__file__).parents[2]
    program = (
        "from headrace_benchmarks.lean_model import *;"
        "print(run_rich(LeanOptions(records=500, workers=20), HeapKernel()).digest)"
    )
    digests = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(source_root)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.strip()
        for hash_seed in ("0", "1", "4711")
    ]

    here = run_rich(LeanOptions(records=500, workers=20), HeapKernel()).digest
    assert digests == [here, here, here]


@pytest.mark.parametrize("seed", range(5))
def test_each_record_is_applied_exactly_once_while_every_fault_strikes(seed: int) -> None:
    result = run_rich(replace(STORMY, seed=seed), HeapKernel())

    assert result.deliveries == 2 * STORMY.records
    assert min(astuple(result.struck)) > 0, result.struck


def test_no_fault_strikes_unless_requested() -> None:
    result = run_rich(CALM, HeapKernel())

    assert result.deliveries == 2 * CALM.records
    assert result.struck == Struck(queued=result.struck.queued)


def test_the_watermark_of_the_last_stage_follows_the_injectors() -> None:
    result = run_rich(SMALL, HeapKernel())

    last_timestamp_us = SMALL.records * SMALL.tick_us // SMALL.injectors
    assert result.low_watermark_us > last_timestamp_us / 4


def test_a_delivery_takes_between_5_and_6_heap_events_by_default() -> None:
    result = run_rich(LeanOptions(records=10_000), HeapKernel())

    assert 5.5 <= result.heap_events_per_delivery <= 6.0
    assert result.heap_events_per_delivery == result.heap_events / result.deliveries
    assert result.deliveries_per_second == pytest.approx(result.deliveries / result.cpu_seconds)


@pytest.mark.parametrize("kernel_type", KERNELS)
def test_a_bare_delivery_takes_five_and_a_half_heap_events(kernel_type: type[Kernel]) -> None:
    result = run_bare(SMALL, kernel_type())

    last_ticks = SMALL.injectors  # those that find nothing left to inject
    assert result.deliveries == 2 * SMALL.records
    assert result.heap_events == 5.5 * result.deliveries + last_ticks
    assert result.digest == ""


class _Amnesia(set[int]):
    """Remembers no id."""

    def __contains__(self, _: object) -> bool:
        return False


class _ForgetsIds(RichModel):
    """A worker that never sees that a record is a duplicate."""

    def __init__(self, options: LeanOptions, kernel: Kernel) -> None:
        super().__init__(options, kernel)
        for worker in self.workers:
            worker.seen = _Amnesia()


class _GivesUp(RichModel):
    """A sender that drops a record which is not ACKed in time."""

    def _retry(self, record: Record) -> None:
        record.acked = True  # so that a late ACK does not count
        del record.sender.pending[record.id]
        self._open -= 1


class _IgnoresPending(RichModel):
    """An injector that reports the present as its watermark, whatever is still pending."""

    def _on_report_due(self, process: Process) -> None:
        owed = process.pending
        if process.stage == 0:
            process.pending = {}
        super()._on_report_due(process)
        process.pending = owed


class _NeverAnswers(RichModel):
    """A store that applies a commit and tells nobody."""

    def _on_committed(self, commit: Commit) -> None:
        pass


DUPLICATES_ONLY = replace(CALM, duplicate=0.1)
DROPS_ONLY = replace(CALM, drop=0.1)


@pytest.mark.parametrize(
    ("mutant", "options", "complaint"),
    [
        (_ForgetsIds, DUPLICATES_ONLY, "more than once"),
        (_GivesUp, DROPS_ONLY, "stage 1 lost"),
        (_IgnoresPending, STORMY, "went back|input watermark"),
        (_NeverAnswers, replace(SMALL, records=20), "never settled"),
    ],
)
def test_a_broken_model_is_detected(mutant: type[RichModel], options: LeanOptions, complaint: str) -> None:
    kernel = HeapKernel()
    model = mutant(options, kernel)

    with pytest.raises(AssertionError, match=complaint):
        _run_and_audit(model, kernel)


def _run_and_audit(model: RichModel, kernel: Kernel) -> None:
    kernel.run()
    model.audit()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"workers": 3}, "workers must be even"),
        ({"tick_us": 0}, "tick_us must be at least 1, not 0"),
        ({"delay_us": -1}, "delay_us must not be negative, not -1"),
        ({"drop": 0.5, "delay": 0.5}, "must leave room"),
    ],
)
def test_options_that_do_not_fit_are_refused_by_name(change: dict[str, int], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        replace(SMALL, **change)
