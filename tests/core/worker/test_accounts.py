"""An interval's own oldest work, and what it reports (MillWheel 4.5, 7.2)."""

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headrace import (
    MAX_TIME,
    MIN_TIME,
    Context,
    EngineOptions,
    KeyInterval,
    Pipeline,
    Productions,
    Record,
    Timer,
)
from headrace.api.records import Clock
from headrace.history import Reported
from headrace.wire import messages as m
from headrace.wire.effects import Effect, Send, Wake
from headrace.wire.keys import ALL_KEYS
from headrace.wire.messages import MintChange
from headrace.wire.rows import Production, StoredTimer, Version
from headrace.worker.accounts import Accounts
from headrace.worker.slot import KeySlot
from headrace.worker.step import Holder
from tests.core.driver import (
    QUIET,
    WORKER,
    Rig,
    Scripted,
    Shop,
    click,
    counter,
    outside_acks,
    sent,
    watermark,
)


def accounts(*, strong: bool = True) -> Accounts:
    return Accounts(strong=strong)


def production(timestamp: int, origin: int = 0) -> Production:
    return Production("counter@1.1#0", "counts", "", "dog", b"", timestamp, origin)


def holder() -> Holder:
    return Holder(1, KeySlot("dog"), None, durable=True)


def timer(
    timestamp: int, origin: int = 0, clock: Clock = Clock.WATERMARK, hold: int | None = None
) -> StoredTimer:
    return StoredTimer(
        "t", timestamp, clock, timestamp, overdue=False, hold=hold, set_by=Version(1, 1), origin=origin
    )


def test_with_nothing_known_the_report_is_unknown() -> None:
    assert accounts().report(MIN_TIME, MIN_TIME) == (MIN_TIME, MIN_TIME)


def test_the_report_is_the_smaller_one_of_the_oldest_work_and_the_input() -> None:
    made = accounts()
    made.add_production(holder(), production(50, origin=5))
    assert made.report(40, 4) == (40, 4)
    assert made.report(60, 6) == (50, 5)


def test_without_work_the_report_follows_the_input_to_the_end() -> None:
    made = accounts()
    assert made.report(40, 4) == (40, 4)
    assert made.report(MAX_TIME, MAX_TIME) == (MAX_TIME, MAX_TIME)


def test_what_waits_here_holds_the_horizon_but_not_what_is_older_than_its_last_report() -> None:
    made = accounts()
    assert made.report(40, 40, received=[7, 30]) == (40, 7)
    assert made.report(60, 60, received=[30, 5]) == (60, 30)
    assert made.report(60, 60, received=[]) == (60, 60)


def test_a_pending_production_holds_both_until_it_is_acked() -> None:
    made, kept, sent = accounts(), holder(), production(50, origin=5)
    made.add_production(kept, sent)
    assert made.report(100, 100) == (50, 5)
    made.remove_production(kept, sent)
    assert made.report(100, 100) == (100, 100)
    assert len(made) == 0


def test_a_late_born_production_holds_nothing() -> None:
    made, kept = accounts(), holder()
    made.report(100, 100)
    made.add_production(kept, production(50, origin=200))
    assert made.report(300, 300) == (300, 200)
    made.remove_production(kept, production(50, origin=200))
    assert made.report(300, 300) == (300, 300)


def test_what_is_exactly_as_old_as_the_last_report_is_not_late() -> None:
    made = accounts()
    made.report(100, 100)
    made.add_production(holder(), production(100, origin=100))
    assert made.report(300, 300) == (100, 100)


def test_a_watermark_timer_holds_the_watermark_at_its_timestamp_even_if_it_is_overdue() -> None:
    made = accounts()
    live = made.add_timer(
        StoredTimer("t", 20, Clock.WATERMARK, 30, overdue=True, hold=None, set_by=Version(1, 1), origin=5)
    )
    assert made.report(100, 100) == (20, 100)
    made.remove_timer(live)
    assert made.report(100, 100) == (100, 100)


def test_a_wall_timer_holds_the_watermark_where_the_user_said_if_anywhere() -> None:
    made = accounts()
    made.add_timer(timer(5, clock=Clock.WALL))
    assert made.report(50, 0) == (50, 0)
    live = made.add_timer(timer(5, clock=Clock.WALL, hold=70))
    assert made.report(100, 0) == (70, 0)
    made.remove_timer(live)
    assert made.report(100, 0) == (100, 0)


def test_timers_hold_the_horizon_in_weak_computations_only() -> None:
    strong, weak = accounts(), accounts(strong=False)
    strong.add_timer(timer(500, origin=5))
    live = weak.add_timer(timer(500, origin=5))
    assert strong.report(100, 100) == (100, 100)
    assert weak.report(100, 100) == (100, 5)
    weak.remove_timer(live)
    assert weak.report(100, 100) == (100, 100)


def test_a_keys_hold_replaces_the_one_before() -> None:
    made, slot = accounts(), KeySlot("dog")
    made.set_hold(slot, 30)
    assert made.report(100, 0) == (30, 0)
    made.set_hold(slot, 60)
    assert made.report(100, 0) == (60, 0)
    made.set_hold(slot, MAX_TIME)
    assert made.report(100, 0) == (100, 0)
    assert len(made) == 0


def test_a_late_hold_holds_nothing_and_can_be_let_go() -> None:
    made, slot = accounts(), KeySlot("dog")
    made.report(100, 0)
    made.set_hold(slot, 30)
    assert (slot.hold, slot.holds_watermark) == (30, False)
    assert made.report(200, 0) == (200, 0)
    made.set_hold(slot, MAX_TIME)
    assert made.report(300, 0) == (300, 0)


def test_nothing_that_a_predecessor_reported_is_lowered() -> None:
    made = accounts()
    made.start_from(100, 50)
    made.add_production(holder(), production(70, origin=60))
    assert made.report(MIN_TIME, MIN_TIME) == (100, 50)
    assert made.report(300, 300) == (300, 60)


def test_pending_work_is_reported_in_buckets() -> None:
    made = accounts()
    made.add_production(holder(), production(11))
    made.add_timer(timer(19))
    made.set_hold(KeySlot("dog"), 20)
    assert made.pending_buckets(10) == ((10, 2), (20, 1))


@given(st.lists(st.tuples(st.sampled_from("pthdi"), st.integers(0, 20), st.integers(0, 20)), max_size=40))
def test_whatever_comes_and_goes_reports_only_rise_and_never_pass_what_held_them(
    moves: list[tuple[str, int, int]],
) -> None:
    made, slot, interval = accounts(strong=False), KeySlot("dog"), Rig(counter()).interval
    productions: list[tuple[Holder, Production]] = []
    low = horizon = MIN_TIME
    input_low = input_horizon = MIN_TIME
    for move, time, origin in moves:
        match move:
            case "p":
                productions.append(
                    (Holder(interval.sequencer, slot, None, durable=True), production(time, origin))
                )
                made.add_production(*productions[-1])
            case "t":
                made.add_timer(timer(time, origin))
            case "h":
                made.set_hold(slot, time)
            case "d" if productions:
                made.remove_production(*productions.pop(time % len(productions)))
            case _:
                input_low, input_horizon = max(input_low, time), max(input_horizon, origin)
        before = (low, horizon)
        low, horizon = made.report(input_low, input_horizon)
        assert low >= before[0]
        assert horizon >= before[1]
        assert low <= input_low
        assert horizon <= input_horizon
        assert all(low <= production.timestamp for held, production in productions if held.holds_watermark)
        assert all(horizon <= production.origin for held, production in productions if held.holds_horizon)


# As the worker reports it (7.2)


REPORTING = replace(QUIET, report_period_us=100, sweep_period_us=100, delete_delay_us=10**9)


class Reporter:
    """A worker of a computation that does as it is told by its records, and what it reports."""

    def __init__(self, pipeline: Pipeline | None = None, options: EngineOptions = REPORTING) -> None:
        self.rig = Rig(counter(Scripted(obey, speak)) if pipeline is None else pipeline, options=options)
        self.last: list[m.IntervalReport] = []

    def reports(self) -> list[m.IntervalReport]:
        """What it reports at the end of the next period, whether the store answers or not."""
        found = reports_in(self.rig.feed(Wake(), self.rig.now + 100))
        assert len(found) in (0, 2), "each replica of the shard is told"
        reports = list(found[0].intervals) if found else []
        self.last = reports or self.last
        return reports

    def progress(self) -> tuple[int, int]:
        """(low watermark, horizon) of its last report at the end of the next period."""
        self.reports()
        (report,) = self.last
        return report.low_watermark, report.horizon


def reports_in(effects: Iterable[Effect]) -> list[m.Report]:
    """The reports among a worker's effects."""
    sent = [effect.message for effect in effects if isinstance(effect, Send)]
    return [message for message in sent if isinstance(message, m.Report)]


def obey(context: Context, record: Record) -> None:
    """Call the method that the record names, with its arguments."""
    for name, *arguments in record.value or ():
        getattr(context, name)(*arguments)


def speak(context: Context, timer: Timer) -> None:
    context.produce("counts", timer.tag)


def test_a_report_goes_to_every_replica_of_the_shard_with_the_sequencer() -> None:
    rig = Reporter().rig
    rig.feed(watermark(50, 5))
    report = m.Report(WORKER, (m.IntervalReport("counter", ALL_KEYS, 1, 50, 5),))
    assert rig.feed(Wake(), 100) == [
        Send("authority-0.0", report),
        Send("authority-0.1", report),
    ]
    assert rig.shop.of(Reported) == [Reported(0, WORKER, "counter", ALL_KEYS, 1, 50, 5)]


def test_before_it_has_heard_of_its_input_it_reports_unknown() -> None:
    assert Reporter().progress() == (MIN_TIME, MIN_TIME)


def test_unchanged_reports_are_repeated_with_the_first_heartbeat_after_eight_periods() -> None:
    """Any report may be lost: the first one, or one that says something new."""
    rig = Reporter(options=replace(REPORTING, heartbeat_period_us=250)).rig
    reported = [at for at, effects in rig.wakes_until(2_000) if reports_in(effects)]
    assert reported == [100, 1_000, 2_000]
    rig.feed(watermark(50, 5), at=2_010)
    later = [(at, reports_in(effects)) for at, effects in rig.wakes_until(3_000)]
    both = [m.Report(WORKER, (m.IntervalReport("counter", ALL_KEYS, 1, 50, 5),))] * 2
    assert [(at, reports) for at, reports in later if reports] == [(2_100, both), (3_000, both)]


def test_each_shard_gets_periodic_reports_even_without_intervals_of_its_own() -> None:
    options = replace(REPORTING, heartbeat_period_us=250, authority_shards=3, authority_replicas=1)
    (*_, (at, effects)) = Reporter(options=options).rig.wakes_until(1_000)
    told = [
        effect.to for effect in effects if isinstance(effect, Send) and isinstance(effect.message, m.Report)
    ]
    assert (at, sorted(told)) == (1_000, ["authority-0.0", "authority-1.0", "authority-2.0"])


def test_during_its_scan_an_interval_is_not_reported() -> None:
    shop = Shop(counter(), options=REPORTING)
    shop.assign_all()
    rig = Rig(shop)
    rig.feed(shop.table)
    assert rig.feed(Wake(), 100) == []


def test_the_input_is_the_minimum_over_all_senders_and_unknown_while_one_is() -> None:
    pipeline = Pipeline("two feeds")
    pipeline.injector("feed", outputs=["clicks"])
    pipeline.injector("other", outputs=["clicks"])
    pipeline.add(Scripted(), name="counter", inputs=["clicks"])
    reporter = Reporter(pipeline)
    reporter.rig.feed(watermark(50, 5))
    assert reporter.progress() == (MIN_TIME, MIN_TIME)
    reporter.rig.feed(watermark(70, 3, of="other"))
    assert reporter.progress() == (50, 3)
    reporter.rig.feed(watermark(MAX_TIME, of="nobody it knows"))
    assert reporter.progress() == (50, 3)


def test_an_unacked_production_holds_the_report_until_its_ack() -> None:
    reporter = Reporter()
    reporter.rig.settle(click("r1", timestamp=30, origin=3, value=[("produce", "counts", 1)]))
    reporter.rig.feed(watermark(50, 5))
    assert reporter.progress() == (30, 3)
    reporter.rig.feed(outside_acks("counter@1.1#0"))
    assert reporter.progress() == (50, 5)


def test_a_weak_production_and_a_straggler_hold_the_report_too() -> None:
    pipeline = counter(Scripted(obey), productions=Productions.WEAK)
    reporter = Reporter(pipeline, replace(REPORTING, straggler_delay_us=150))
    reporter.rig.feed(click("r1", timestamp=30, origin=3, value=[("produce", "counts", 1)]))
    reporter.rig.feed(watermark(50, 5))
    assert reporter.progress() == (30, 3)
    reporter.reports()
    assert reporter.rig.write().deltas[0].productions
    reporter.rig.answer()
    assert reporter.progress() == (30, 3)
    reporter.rig.feed(outside_acks("r1>counter#0"))
    assert reporter.progress() == (50, 5)


def test_a_record_in_commit_is_counted_at_its_sender_and_not_here() -> None:
    reporter = Reporter()
    reporter.rig.feed(click("r1", timestamp=30, origin=3, value=[("produce", "counts", 1)]))
    reporter.rig.feed(watermark(30, 3))
    assert reporter.progress() == (30, 3)
    reporter.rig.answer()
    reporter.rig.feed(watermark(50, 5))
    assert reporter.progress() == (30, 3)


def test_a_timer_holds_the_watermark_until_its_productions_do() -> None:
    """The timer fires, and its write is under way: all the time the report stays at the timer."""
    reporter = Reporter()
    reporter.rig.settle(click("r1", timestamp=10, value=[("set_timer", "t", 40)]))
    reporter.rig.feed(watermark(90, 9))
    assert reporter.progress()[0] == 40
    reporter.rig.answer()
    assert reporter.progress()[0] == 40
    reporter.rig.feed(outside_acks("counter@1.2#0"))
    assert reporter.progress() == (90, 9)


def test_a_moved_timer_holds_the_watermark_where_it_is_now_and_a_cancelled_one_nowhere() -> None:
    reporter = Reporter()
    reporter.rig.settle(click("r1", value=[("set_timer", "t", 400)]))
    reporter.rig.settle(click("r2", value=[("set_timer", "t", 500)]))
    reporter.rig.feed(watermark(450, 0))
    assert reporter.progress()[0] == 450
    reporter.rig.settle(click("r3", timestamp=450, value=[("set_timer", "t", 460)]))
    reporter.rig.settle(click("r4", timestamp=450, value=[("cancel_timer", "t")]))
    reporter.rig.feed(watermark(900, 0))
    assert reporter.progress()[0] == 900


def test_a_firing_timers_origin_holds_the_horizon_from_its_run_to_the_ack_of_what_it_made() -> None:
    """A strong computation's timer fires at the horizon of that moment; the horizon advances while its write is under way.
    What it made must not be behind a horizon that was reported meanwhile, or its consumer would drop it as a remnant."""
    reporter = Reporter()
    reporter.rig.settle(click("r1", value=[("set_timer", "t", 40)]))
    reporter.rig.feed(watermark(50, 5))
    (made,) = reporter.rig.write().deltas[0].productions
    reporter.rig.feed(watermark(90, 9))
    assert (made.origin, reporter.progress()[1]) == (5, 5)
    assert reporter.rig.answer() == [sent(made)]
    assert reporter.progress()[1] == 5
    reporter.rig.feed(outside_acks(made.record_id))
    assert reporter.progress()[1] == 9


def test_a_pending_timer_holds_the_horizon_in_a_weak_computation_only() -> None:
    for productions, expected in ((Productions.STRONG, 9), (Productions.WEAK, 1)):
        reporter = Reporter(counter(Scripted(obey, speak), productions=productions))
        reporter.rig.settle(click("r1", origin=1, value=[("set_timer", "t", 400)]))
        reporter.rig.feed(watermark(90, 9))
        assert reporter.progress() == (90, expected)


def test_a_state_with_a_timestamp_holds_the_watermark_until_it_is_let_go_or_cleared() -> None:
    for release in (("hold_watermark", None), ("clear_state",)):
        reporter = Reporter()
        reporter.rig.settle(click("r1", value=[("hold_watermark", 30)]))
        reporter.rig.feed(watermark(90, 0))
        assert reporter.progress()[0] == 30
        reporter.rig.settle(click("r2", value=[("hold_watermark", 60)]))
        assert reporter.progress()[0] == 60
        reporter.rig.settle(click("r3", value=[release]))
        assert reporter.progress()[0] == 90


def test_a_wall_timers_hold_is_let_go_when_it_fires() -> None:
    reporter = Reporter()
    reporter.rig.settle(click("r1", value=[("set_wall_timer", "w", 250, 30)]))
    reporter.rig.feed(watermark(90, 0))
    assert reporter.progress()[0] == 30
    reporter.rig.wake(250)
    assert reporter.progress()[0] == 30, "now by what it made"
    reporter.rig.feed(outside_acks("counter@1.2#0"))
    assert reporter.progress()[0] == 90


def test_late_work_lowers_no_report() -> None:
    reporter = Reporter()
    reporter.rig.feed(watermark(90, 0))
    assert reporter.progress()[0] == 90
    reporter.rig.settle(click("r1", timestamp=30, value=[("produce", "counts", 1), ("hold_watermark", 20)]))
    reporter.rig.settle(click("r2", timestamp=30, value=[("set_wall_timer", "w", 10**9, 40)]))
    assert reporter.progress()[0] == 90
    reporter.rig.feed(watermark(95, 0))
    assert reporter.progress()[0] == 95, "and holds none back"


def test_a_lower_broadcast_is_ignored() -> None:
    reporter = Reporter()
    reporter.rig.feed(watermark(90, 9))
    reporter.rig.feed(watermark(50, 10))
    assert reporter.progress() == (90, 10)


def test_pending_times_are_reported_where_some_consumer_wants_a_percentile() -> None:
    for percentile, expected in ((100.0, ()), (90.0, ((30_000, 2), (50_000, 1)))):
        pipeline = counter(Scripted(obey), watermark_percentile=percentile)
        reporter = Reporter(pipeline)
        for number, timestamp in enumerate((30_500, 39_999, 50_000)):
            reporter.rig.settle(click(f"r{number}", timestamp=timestamp, value=[("produce", "counts", 1)]))
        (report,) = reporter.reports()
        assert report.pending == expected


def test_a_percentile_does_not_change_what_is_reported() -> None:
    reporter = Reporter(counter(Scripted(obey), watermark_percentile=90.0))
    reporter.rig.feed(watermark(50, 5, percentiles={90.0: 80}))
    assert reporter.progress() == (50, 5)


def test_the_senders_progress_in_a_scan_advances_the_other_intervals_too() -> None:
    """A worker owns one half, and gets the other one, too. The scan tells it of an end that was journaled but not yet broadcast.
    When the broadcast comes there is nothing new in it: the first half must not have been forgotten."""
    shop = Shop(counter(split_at=["m"]), options=REPORTING)
    left, right = KeyInterval("", "m"), KeyInterval("m")
    shop.mint(MintChange("counter", left, WORKER, 1), MintChange("counter", right, "worker-1", 1))
    rig = Rig(shop)
    rig.settle(shop.table)
    shop.journal(MAX_TIME)
    shop.mint(MintChange("counter", right, WORKER, 1))
    rig.settle(shop.table)
    rig.settle(watermark(MAX_TIME))
    assert [interval.soft.low_watermark for interval in rig.worker.intervals] == [MAX_TIME, MAX_TIME]
