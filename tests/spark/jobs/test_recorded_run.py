"""A recorded run that is told to stop ends after the micro-batch under way; a sampled one is judged; one may have a clock."""

from collections import Counter

from pyspark.sql import SparkSession

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace.spark import RecordedRun, Sample, run_recorded, user_key
from headrace.spark.runtime.job_files import scratch
from headrace_properties.checkers import judge
from headrace_properties.promises import Moment, always, judge_promises
from headrace_properties.reference import Emitted, run_reference
from headrace_properties.verdict import Holds, Unknown, Violated
from headrace_scenarios.examples import bank
from headrace_sim import Feed, FeedBuilder
from tests.sim.rig import letters, mail


def test_a_run_that_is_stopped_has_the_outputs_of_what_it_has_read(spark: SparkSession) -> None:
    """The third micro-batch has been added when the second is done, and the run is to stop."""
    pipeline = mail()
    feed = letters(pipeline)
    events = [(entry.address, entry.event) for entry in feed.entries]
    seen: list[int] = []

    def on_batch(run: RecordedRun) -> None:
        seen.append(run.progress[0].records)

    run = run_recorded(
        spark,
        pipeline,
        events,
        batch_events=20,
        intervals=2,
        on_batch=on_batch,
        should_stop=lambda: len(seen) == 2,
    )
    assert run.events == 60
    read = Feed(feed.entries[:60])
    assert Feed(feed.entries[:20]).records <= seen[0] <= seen[1] <= seen[2] == read.records
    assert run.progress[0].outputs == read.records
    assert Counter(Emitted(*output) for output in run.outputs) == run_reference(pipeline, read).outputs


def test_a_sampled_run_is_judged_and_leaves_only_what_spark_may_still_look_after(spark: SparkSession) -> None:
    pipeline, before = mail(), set(scratch().glob("recorded-*"))
    events = [(entry.address, entry.event) for entry in letters(pipeline).entries]
    run = run_recorded(spark, pipeline, events, batch_events=50, intervals=2, history=Sample(1 / 2))
    assert run.history is not None
    found = judge(run.history, [pipeline])
    assert not [verdict for verdict in found.values() if isinstance(verdict, Violated)]
    assert isinstance(found["S2"], Holds)
    assert isinstance(found["S10"], Unknown)
    (place,) = set(scratch().glob("recorded-*")) - before
    assert [path.name for path in place.iterdir()] == ["checkpoint"]
    assert (place / "checkpoint/state").is_dir()


@always(of="payers")
def ann_is_poor(moment: Moment) -> bool:
    return moment.changed.key != "ann" or bool(moment.changed.after["cents"] < 1)


def test_a_recorded_run_is_judged_by_the_promises_that_judge_the_simulated_one(spark: SparkSession) -> None:
    events = [(entry.address, entry.event) for entry in bank.feed(0).entries]
    run = run_recorded(spark, bank.pipeline, events, batch_events=50, intervals=2, history=True)
    assert run.history is not None
    found = judge_promises(run.history, [*bank.promises, ann_is_poor], [bank.pipeline], user_key)
    broken = found.pop("ann_is_poor")
    assert all(isinstance(verdict, Holds) for verdict in found.values()), found
    assert isinstance(broken, Violated)
    assert "the row 'ann' of 'payers' changed from" in broken.message


class Alarm(Computation):
    """Rings once for each record, some time later; until then the watermark waits."""

    def process_record(self, context: Context, record: Record) -> None:
        context.set_wall_timer(str(record.value), context.wall_time + 4 * SECOND, hold=record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("rung", timer.tag)


def test_a_run_with_a_clock_waits_for_wall_timers_that_hold_the_watermark(spark: SparkSession) -> None:
    pipeline = Pipeline("alarms")
    pipeline.injector("mail")
    pipeline.add(Alarm(), name="alarm", inputs=["mail"], outputs=["rung"])
    builder = FeedBuilder(pipeline)
    for number in range(4):
        builder.record(at_us=number + 1, value=number, timestamp=number + 1, key=f"{number % 2}")
    feed = builder.build()
    events = [(entry.address, entry.event) for entry in feed.entries]
    run = run_recorded(spark, pipeline, events, batch_events=3, intervals=2, clock_us=SECOND // 10)
    outputs = run_reference(pipeline, feed).outputs
    assert Counter((made.key, made.value) for made in outputs.elements()) == Counter(
        (key, value) for _, key, value, _ in run.outputs
    )
    assert run.seconds > 4
    assert outputs.total() == 4
