"""The wall-clock kernels: each measures what it claims, however fast."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from headrace.wire import messages as m
from headrace_benchmarks.figures import BenchOptions, Figure
from headrace_benchmarks.kernels import (
    KERNELS,
    KernelSize,
    authority_kernel,
    counting,
    engine_alone,
    measure,
    small,
)
from headrace_benchmarks.kernels.rounds import Rounds
from headrace_benchmarks.shuffle import ShuffleOptions, run_shuffle

TINY = KernelSize(
    rounds=1, records=100, size_records=50, size_rounds=1, alone=100, counted=100, few=50, many=100, updates=100, ids=100,
    codec=100, keys=100,
)  # fmt: skip


SLOW = ("deliveries", "sizes", "codec")


@pytest.mark.parametrize("name", [name for name in KERNELS if name not in SLOW])
def test_each_kernel_gives_figures_beside_a_goal(name: str) -> None:
    told: list[str] = []
    figures = list(KERNELS[name].measure(TINY, 0, told.append))
    assert all(figure.value > 0 and figure.met is not None for figure in figures)
    assert figures
    assert told


def test_a_ratio_is_of_one_round_and_the_median_is_over_the_rounds() -> None:
    """The machine is three times as fast in the second round, and the anchor has a bad third one."""
    ours, anchor = iter([1.0, 3.0, 1.0]), iter([2.0, 6.0, 0.1])
    found = Rounds({"ours": ours.__next__, "anchor": anchor.__next__}, 3, lambda _: None)
    assert found.ratio("ours", "anchor") == 0.5
    assert found.rate("anchor") == 2.0


def test_the_engine_and_the_hand_written_loop_apply_every_record_in_both_stages() -> None:
    assert engine_alone.engine_rate(2_500) > 0
    assert engine_alone.minimal_rate(2_500) > 0, "it asserts that by itself"


def test_the_engine_emits_as_many_windows_as_the_hand_written_loop() -> None:
    records = counting.packed(25_000)
    told = counting.plain_counts(records)
    assert sum(int(count) for _, _, count in told) == len(records)
    assert counting.engine_rate(25_000) > 0, "it compares the number of windows by itself"


def test_in_the_worst_case_each_report_raises_the_minimum() -> None:
    authority = authority_kernel._Authority(40, 1)
    (known,) = [entry for entry in authority._shard_of["stage 0"]._known.values() if entry.name == "stage 0"]
    minima = []
    for report in worst_reports(authority):
        minima.append(known.map.low_watermark)
        authority.take(report)
    assert minima == sorted(set(minima))


def worst_reports(authority: authority_kernel._Authority) -> Iterator[m.Report]:
    for low_us, (name, keys) in enumerate(authority.intervals, 40):
        yield m.Report("worker", (m.IntervalReport(name, keys, 1, low_us, low_us),))


def test_an_idle_key_takes_some_memory_and_the_store_of_the_bench_is_not_counted() -> None:
    assert 100 < small.idle_key_bytes(2_000) < 1_000


def test_a_run_without_a_history_does_the_same_work() -> None:
    options = ShuffleOptions(records=100, workers=10, injectors=2, fault_rate=0.0)
    without = ShuffleOptions(records=100, workers=10, injectors=2, fault_rate=0.0, history=False)
    assert run_shuffle(options).heap_events == run_shuffle(without).heap_events


@pytest.mark.nightly
def test_the_quick_benchmark_measures_one_kernel_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernels not tested separately above."""
    monkeypatch.setattr("headrace_benchmarks.kernels.QUICK", TINY)
    monkeypatch.setattr("headrace_benchmarks.kernels.KERNELS", {name: KERNELS[name] for name in SLOW})
    figures = list(measure(BenchOptions(quick=True), lambda *_: None))
    assert len(figures) >= len(SLOW)


def test_a_kernel_without_its_requirements_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_benchmarks.kernels.QUICK", TINY)
    monkeypatch.setattr("headrace_benchmarks.kernels.KERNELS", {
        "memory": KERNELS["memory"], "codec": replace(KERNELS["codec"], needs="no_such_module"),
    })  # fmt: skip
    memory, left_out = measure(BenchOptions(quick=True), lambda *_: None)
    assert memory.unit == "bytes"
    assert left_out == Figure("kernels left out", 1, detail="codec: no_such_module is not installed")
