"""What the authority combines beside minima: percentiles over all that is upstream, and by shard (MillWheel 7.2)."""

import pytest

from headrace.api.computation import Computation
from headrace.api.errors import OptionsError
from headrace.api.options import EngineOptions
from headrace.api.pipeline import Pipeline
from headrace.history import History
from headrace.watermarks.authority import WatermarkAuthority
from headrace.wire.messages import (
    Journaled,
)
from tests.core.watermarks.authority_bench import (
    FIRST,
    LEFT,
    RIGHT,
    Bench,
    injected,
    pipeline,
    progress,
    report,
)


def test_a_shard_has_the_names_assigned_to_it() -> None:
    options = EngineOptions(authority_shards=2, lease_us=4_000, broadcast_period_us=100)
    shards = {name: options.shard_of(name) for name in ("lines", "splitter", "counter")}
    assert sorted(set(shards.values())) == [0, 1]
    bench = Bench(options=options)
    bench.handle(injected(50))
    bench.handle(report("splitter", 7, 30))
    bench.handle(report("counter", 8, 20))
    mine = [
        (name, progress(at))
        for name, at in [("counter", 20), ("lines", 50), ("splitter", 30)]
        if not shards[name]
    ]
    assert list(bench.journal().values) == mine


def test_percentiles_and_several_shards_do_not_go_together() -> None:
    options = EngineOptions(authority_shards=2)
    with pytest.raises(OptionsError, match="authority_shards=2: expected 1"):
        WatermarkAuthority("authority-0.0", 0, [pipeline(percentile=90)], options, History())


def test_a_percentile_follows_the_pending_work_of_all_that_is_upstream() -> None:
    # The counter wants 90 % of the splitter: of its pending work and of what the injector has not got ACKed.
    bench = Bench(pipeline(percentile=90))
    bench.handle(injected(10, frontier=100, pending=((10, 1), (60, 9))))
    assert bench.journal().values == (("lines", progress(10)),)
    bench.handle(Journaled(FIRST + 2))
    bench.handle(report("splitter", 7, 10, pending=((20, 10),)))
    assert bench.journal().values == (("splitter", progress(10, (90, 20))),)
    bench.handle(Journaled(FIRST + 3))
    bench.handle(injected(10, frontier=100, pending=((10, 1),)))
    bench.handle(report("splitter", 7, 10, pending=((90, 20),)))
    assert bench.journal().values == (("splitter", progress(10, (90, 90))),)


def test_a_percentile_does_not_run_ahead_of_the_slowest_process_of_the_source() -> None:
    bench = Bench(pipeline(percentile=90, processes=2))
    bench.handle(injected(10, process=0, frontier=100))
    bench.handle(injected(10, process=1, frontier=40))
    bench.accept()
    bench.handle(report("splitter", 7, 10))
    assert bench.journal().values == (("splitter", progress(10, (90, 40))),)


def test_reports_of_a_former_epoch_of_the_source_are_ignored() -> None:
    bench = Bench(pipeline(percentile=90))
    bench.handle(injected(10, epoch=2, frontier=40))
    bench.handle(injected(10, epoch=1, frontier=100))
    bench.accept()
    bench.handle(report("splitter", 7, 10))
    assert bench.journal().values == (("splitter", progress(10, (90, 40))),)


def test_a_percentile_never_goes_back() -> None:
    journaled = (("lines", progress(10)), ("splitter", progress(10, (90.0, 70))))
    bench = Bench(pipeline(percentile=90), journaled=journaled)
    bench.handle(injected(20, frontier=100, pending=((20, 9),)))
    bench.handle(report("splitter", 7, 20, pending=((20, 9),)))
    assert dict(bench.journal().values)["splitter"] == progress(20, (90, 70))


def test_a_percentile_waits_until_every_interval_upstream_has_been_heard_of() -> None:
    # After a restart, half of the splitter is silent: nobody knows what is pending there.
    bench = Bench(pipeline(percentile=90), journaled=(("lines", progress(10)), ("splitter", progress(10))))
    bench.handle(Journaled(FIRST + 2))  # it knows no more than the minimum, 10
    bench.handle(injected(10, frontier=100))
    bench.handle(report("splitter", 7, 20, LEFT))
    assert bench.wake() == []
    bench.handle(report("splitter", 8, 20, RIGHT, pending=((30, 1),)))
    assert bench.journal().values == (("splitter", progress(20, (90, 30))),)


def test_a_computation_of_another_topology_does_not_hold_percentiles() -> None:
    later = Pipeline("words, cleaned")
    later.injector("lines", outputs=["raw"])
    later.add(Computation(), name="cleaner", inputs=["raw"], outputs=["lines"])
    later.add(Computation(), name="splitter", inputs=["lines"], outputs=["words"])
    later.add(Computation(), name="counter", inputs=["words"], watermark_percentile=90)
    bench = Bench(pipeline(percentile=90), later)
    bench.handle(injected(10, frontier=100))
    bench.accept()
    bench.handle(report("splitter", 7, 10))
    assert bench.journal().values == (("splitter", progress(10, (90, 100))),)
