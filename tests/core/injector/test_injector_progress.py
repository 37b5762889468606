"""An injector's progress, skew limit and wake-ups (MillWheel 5.2, 7.2, 8.4)."""

from headrace import MAX_TIME, MILLISECOND, MIN_TIME, EngineOptions
from headrace.history import Injected, InjectorReported
from headrace.injector.injector import Phase
from headrace.wire.effects import (
    Effect,
    Event,
    Halt,
    Send,
    SourceRecord,
    SourceWatermark,
    Wake,
)
from headrace.wire.messages import (
    STORE,
    Ack,
    Deliver,
    Heartbeat,
    InjectorReport,
    Journaled,
    JournalPosition,
    Progress,
    Refused,
    Unavailable,
)
from tests.core.injector.injector_rig import (
    ADDRESS,
    HEARTBEAT_US,
    JOURNAL,
    JOURNAL_US,
    MINUTE_US,
    Rig,
    ack,
    broadcast,
    journal_request,
    letter,
    pipeline_of,
    running,
    table_of,
)

# Progress: journaled, then reported (5.2, 7.2)


def reports(epoch: int, low_watermark: int, horizon: int) -> list[Effect]:
    report = InjectorReport("mail", 0, epoch, low_watermark, horizon, frontier=low_watermark)
    return [Send("authority-0.0", report), Send("authority-0.1", report)]


def test_progress_is_reported_to_all_replicas_once_it_is_journaled() -> None:
    rig = running()
    rig.at(15, letter(0, timestamp=50, arrived_us=10))
    rig.at(25, SourceWatermark(1, 80, arrived_us=20))
    request = JournalPosition(JOURNAL, ADDRESS, 1, 0, Progress(50, 10))
    assert rig.at(JOURNAL_US, Wake()) == [Send(STORE, request)]
    assert rig.of(InjectorReported) == []
    assert rig.at(JOURNAL_US + 3, Journaled(JOURNAL)) == reports(1, 50, 10)
    assert rig.of(InjectorReported) == [InjectorReported(0, ADDRESS, "mail", 50, 10)]


def test_when_all_is_acked_the_position_is_the_next_offset_and_the_watermark_the_sources() -> None:
    rig = running()
    rig.at(15, letter(0, timestamp=50, arrived_us=10))
    rig.at(25, SourceWatermark(1, 80, arrived_us=20))
    ack(rig, 30, offset=0)
    assert journal_request(rig, JOURNAL_US) == JournalPosition(JOURNAL, ADDRESS, 1, 2, Progress(80, 20))


def test_while_the_source_is_idle_the_horizon_stands_at_its_last_stamp() -> None:
    """No clock moves it: a record that the source has already, and that is read later, must not be before it."""
    rig = running()
    rig.at(25, SourceWatermark(0, 80, arrived_us=20))
    journal_request(rig, JOURNAL_US)
    rig.at(JOURNAL_US, Journaled(JOURNAL))
    sent = [effect for _, sends in rig.wakes_until(MINUTE_US) for effect in sends]
    assert not [effect for effect in sent if _kind(effect) is JournalPosition]
    assert all(effect in reports(1, 80, 20) for effect in sent if _kind(effect) is InjectorReport)
    rig.at(MINUTE_US, SourceWatermark(1, 80, arrived_us=50))
    assert journal_request(rig, MINUTE_US + JOURNAL_US).progress == Progress(80, 50)


def test_at_the_end_of_the_source_watermark_and_horizon_are_the_end_of_time_when_all_is_acked() -> None:
    rig = running()
    rig.at(0, letter(0, timestamp=50, arrived_us=10))
    rig.at(0, SourceWatermark(1, MAX_TIME, arrived_us=20))
    assert journal_request(rig, JOURNAL_US).progress == Progress(50, 10)
    rig.at(JOURNAL_US, Journaled(JOURNAL))
    ack(rig, JOURNAL_US, offset=0)
    request = journal_request(rig, 2 * JOURNAL_US)
    assert (request.position, request.progress) == (2, Progress(MAX_TIME, MAX_TIME))


def test_a_record_is_finished_only_when_all_its_consumers_have_acked_it() -> None:
    rig = running()
    rig.at(10, letter(0, timestamp=50))
    rig.at(30, Ack("counter", ("mail/0:0",)))
    assert journal_request(rig, JOURNAL_US).position == 0


def test_an_unanswered_journal_request_is_asked_again_and_nothing_else_is_asked_meanwhile() -> None:
    rig = running(options=EngineOptions(heartbeat_period_us=MINUTE_US))
    rig.at(0, SourceWatermark(0, 80))
    request = journal_request(rig, JOURNAL_US)
    rig.at(JOURNAL_US, SourceWatermark(1, 90))
    rig.at(JOURNAL_US + 1, Unavailable(JOURNAL))
    sent = [(at_us, sends) for at_us, sends in rig.wakes_until(7 * JOURNAL_US) if sends]
    assert sent == [(JOURNAL_US + rig.options.store_timeout_us, [Send(STORE, request)])]


def test_only_journaled_progress_is_reported_even_when_more_is_known() -> None:
    rig = running()
    rig.at(0, SourceWatermark(0, 80, arrived_us=20))
    journal_request(rig, JOURNAL_US)
    rig.at(JOURNAL_US, SourceWatermark(1, 90, arrived_us=30))
    assert rig.at(JOURNAL_US + 3, Journaled(JOURNAL)) == reports(1, 80, 20)


def test_unchanged_progress_is_not_journaled_again_and_reported_with_the_first_heartbeat_after_eight_periods() -> (
    None
):
    """One un-ACKed record holds everything: the same report is repeated, since it may have been lost."""
    rig = running(options=EngineOptions(retry_us=MINUTE_US, retry_max_us=MINUTE_US))
    rig.at(0, letter(0, timestamp=50))
    journal_request(rig, JOURNAL_US)
    assert rig.at(JOURNAL_US, Journaled(JOURNAL)) == reports(1, MIN_TIME, 0)
    sent = besides_heartbeats(rig.wakes_until(20 * JOURNAL_US))
    assert sent == [(10 * JOURNAL_US, reports(1, MIN_TIME, 0)), (20 * JOURNAL_US, reports(1, MIN_TIME, 0))]


def test_reports_are_not_more_frequent_than_their_period() -> None:
    options = EngineOptions(injector_journal_us=30 * MILLISECOND, report_period_us=100 * MILLISECOND)
    rig = running(options=options)
    for turn in range(1, 4):
        rig.at(turn * 30 * MILLISECOND - 1, SourceWatermark(turn - 1, turn, arrived_us=10 * turn))
        journal_request(rig, turn * 30 * MILLISECOND)
        rig.at(turn * 30 * MILLISECOND, Journaled(JOURNAL + turn - 1))
    assert len(rig.of(InjectorReported)) == 1
    assert rig.at(130 * MILLISECOND, Wake())[-2:] == reports(1, 3, 30)


def test_reports_come_at_their_own_times_whatever_the_journal_does() -> None:
    options = EngineOptions(injector_journal_us=MINUTE_US)
    rig = running(options=options, epoch=2, position=7, journaled=Progress(60, 500))
    sent = besides_heartbeats(rig.wakes_until(20 * options.report_period_us))
    assert sent == [
        (10 * options.report_period_us, reports(2, 60, 500)),
        (20 * options.report_period_us, reports(2, 60, 500)),
    ]


def test_a_refused_journal_entry_silences_it_permanently() -> None:
    """A successor has claimed the role. Records are pending, a table and time come: nothing is sent any more."""
    rig = running()
    rig.at(0, letter(0, timestamp=50))
    journal_request(rig, JOURNAL_US)
    assert rig.at(JOURNAL_US + 3, Refused(JOURNAL, 2)) == []
    assert rig.injector.phase is Phase.FENCED
    later: list[Event] = [Wake(), letter(1, 60), SourceWatermark(2, 70), table_of(5, counter=2)]
    for event in later:
        assert rig.at(MINUTE_US, event) == []


def test_a_record_behind_the_promised_watermark_is_late_and_holds_nothing_back() -> None:
    rig = running()
    rig.at(0, SourceWatermark(0, 80))
    journal_request(rig, JOURNAL_US)
    rig.at(JOURNAL_US, Journaled(JOURNAL))
    rig.at(JOURNAL_US + 5, letter(1, timestamp=79, arrived_us=30))
    (injected,) = rig.of(Injected)
    assert isinstance(injected, Injected)
    assert injected.source_watermark == 80
    rig.at(JOURNAL_US + 6, SourceWatermark(2, 90, arrived_us=40))
    request = journal_request(rig, 2 * JOURNAL_US)
    assert (request.position, request.progress) == (1, Progress(90, 30))


def test_what_is_given_to_the_journal_counts_as_published_before_the_answer_comes() -> None:
    """The journal may have it already, and a successor would publish it: a record behind it is late from now on."""
    rig = running()
    rig.at(0, SourceWatermark(0, 80))
    journal_request(rig, JOURNAL_US)
    rig.at(JOURNAL_US + 1, letter(1, timestamp=79))
    (injected,) = rig.of(Injected)
    assert isinstance(injected, Injected)
    assert injected.source_watermark == 80


def test_after_a_crash_records_are_read_again_under_the_same_ids_and_hold_the_journaled_horizon() -> None:
    """The predecessor has sent offset 7, with an origin of 500, and died. Its id must not be collected while the
    successor's copy is under way."""
    rig = running(now=10_000, epoch=2, position=7, journaled=Progress(60, 500), replayed=False)
    assert rig.deliveries(10_000, letter(7, timestamp=70, arrived_us=500)) == [
        ("worker-1", "counter", "mail/0:7"),
        ("worker-91", "sorter", "mail/0:7"),
    ]
    (injected,) = rig.of(Injected)
    assert isinstance(injected, Injected)
    assert (injected.productions[0].origin, injected.source_watermark) == (500, 60)
    rig.at(10_000, letter(8, timestamp=75, arrived_us=620))
    assert rig.at(10_000 + JOURNAL_US, Wake()) == []
    ack(rig, 10_000 + JOURNAL_US, offset=7)
    request = journal_request(rig, 10_000 + 2 * JOURNAL_US)
    assert (request.position, request.progress) == (8, Progress(60, 620))


def test_percentiles_make_it_report_what_is_pending_and_how_far_the_source_is() -> None:
    options = EngineOptions(percentile_bucket_us=10)
    rig = running(pipeline_of(percentile=90), options=options)
    for offset, timestamp in enumerate((41, 42, 55)):
        rig.at(0, letter(offset, timestamp, arrived_us=10 + offset))
    rig.at(0, SourceWatermark(3, 80, arrived_us=20))
    journal_request(rig, JOURNAL_US)
    report = InjectorReport("mail", 0, 1, 41, 10, frontier=80, pending=((40, 2), (50, 1)))
    both = [Send("authority-0.0", report), Send("authority-0.1", report)]
    assert rig.at(JOURNAL_US, Journaled(JOURNAL)) == both
    assert rig.at(2 * JOURNAL_US, Wake())[-2:] == both


# Skew (8.4)


LIMIT_US = 100


def skewed() -> Rig:
    return running(pipeline_of(skew_limit_us=LIMIT_US))


def ids(deliveries: list[tuple[str, str, str]]) -> list[str]:
    return [record_id for _, consumer, record_id in deliveries if consumer == "counter"]


def test_a_record_too_far_ahead_waits_until_the_slowest_computation_has_caught_up() -> None:
    rig = skewed()
    rig.at(0, broadcast(1_000))
    rig.at(0, SourceWatermark(0, 1_000))
    assert rig.deliveries(1, letter(1, timestamp=1_101)) == []
    assert rig.of(Injected) == []
    assert rig.deliveries(2, broadcast(1_050, "counter")) == []
    assert ids(rig.deliveries(3, broadcast(1_001, "sorter"))) == ["mail/0:1"]


def test_a_record_at_the_limit_enters() -> None:
    rig = skewed()
    rig.at(0, broadcast(1_000))
    assert ids(rig.deliveries(1, letter(0, timestamp=1_100))) == ["mail/0:0"]


def test_waiting_records_enter_in_order_of_timestamps_and_hold_position_watermark_and_horizon() -> None:
    rig = skewed()
    rig.at(0, broadcast(1_000))
    rig.at(0, SourceWatermark(0, 1_000))
    for offset, timestamp in ((1, 1_400), (2, 1_200), (3, 1_300), (4, 1_050)):
        rig.at(offset, letter(offset, timestamp, arrived_us=10 * offset))
    ack(rig, 5, offset=4)
    rig.at(6, SourceWatermark(5, 2_000, arrived_us=60))
    request = journal_request(rig, JOURNAL_US)
    assert (request.position, request.progress) == (1, Progress(1_200, 10))
    assert ids(rig.deliveries(JOURNAL_US, broadcast(1_200))) == ["mail/0:2", "mail/0:3"]
    assert ids(rig.deliveries(JOURNAL_US, broadcast(1_299))) == []
    assert ids(rig.deliveries(JOURNAL_US, broadcast(1_300))) == ["mail/0:1"]


def test_an_older_broadcast_changes_nothing() -> None:
    rig = skewed()
    rig.at(0, broadcast(1_000))
    rig.at(0, broadcast(500))
    assert ids(rig.deliveries(1, letter(0, timestamp=1_100))) == ["mail/0:0"]


def test_before_the_first_broadcast_nothing_enters_but_progress_is_reported() -> None:
    """Other processes may be hours behind, and this one cannot know: each waits for what the authority makes of all of them.
    What waits is promised like what was sent, or no process would ever make the first broadcast come."""
    rig = skewed()
    rig.at(0, SourceWatermark(0, 1_000))
    assert rig.deliveries(0, letter(1, timestamp=1_000)) == []
    assert rig.deliveries(0, SourceWatermark(2, 5_000)) == []
    request = journal_request(rig, JOURNAL_US)
    assert (request.position, request.progress.low_watermark) == (1, 1_000)
    assert InjectorReport("mail", 0, 1, 1_000, 0, frontier=1_000) in [
        effect.message for effect in rig.at(JOURNAL_US, Journaled(JOURNAL)) if isinstance(effect, Send)
    ]
    assert ids(rig.deliveries(2 * JOURNAL_US, broadcast(1_000))) == ["mail/0:1"]


def test_an_unknown_computation_counts_as_the_slowest() -> None:
    rig = skewed()
    assert rig.deliveries(0, letter(0, timestamp=1_000)) == []
    assert rig.deliveries(1, broadcast(1_000, "counter")) == []
    assert ids(rig.deliveries(2, broadcast(1_000, "sorter"))) == ["mail/0:0"]


def test_neither_an_ack_nor_the_sources_watermark_lets_a_waiting_record_in() -> None:
    """They say how far this process is, and not how far the slowest computation is."""
    rig = skewed()
    rig.at(0, SourceWatermark(0, 1_000))
    rig.at(0, broadcast(1_000))
    assert ids(rig.deliveries(0, letter(1, timestamp=1_100))) == ["mail/0:1"]
    assert rig.deliveries(0, letter(2, timestamp=1_200)) == []
    assert rig.deliveries(1, SourceWatermark(3, 1_200)) == []
    rig.at(1, Ack("counter", ("mail/0:1",)))
    assert rig.deliveries(1, Ack("sorter", ("mail/0:1",))) == []
    assert ids(rig.deliveries(2, broadcast(1_100))) == ["mail/0:2"]


def test_a_late_record_never_waits() -> None:
    """The source said that it was further, and it was not; the computations are far behind."""
    rig = skewed()
    rig.at(0, broadcast(1_000))
    rig.at(0, SourceWatermark(0, 6_000))
    journal_request(rig, JOURNAL_US)
    assert ids(rig.deliveries(JOURNAL_US, letter(1, timestamp=5_000))) == ["mail/0:1"]


def test_a_computation_that_leaves_holds_no_record_back() -> None:
    rig = running(pipeline_of(skew_limit_us=LIMIT_US), pipeline_of(counted=False, skew_limit_us=LIMIT_US))
    rig.at(0, broadcast(1_000, "counter"))
    rig.at(0, broadcast(2_000, "sorter"))
    assert rig.deliveries(0, letter(0, timestamp=2_050)) == []
    assert rig.deliveries(1, table_of(version=2, topology=1)) == [("worker-91", "sorter", "mail/0:0")]


def test_a_malformed_record_that_has_waited_stops_the_run_and_those_behind_it_stay() -> None:
    rig = skewed()
    rig.at(0, broadcast(1_000))
    rig.at(0, SourceRecord(0, "letters", "p", b"{}", 1_101))
    rig.at(0, letter(1, timestamp=1_102))
    effects = rig.at(1, broadcast(1_050))
    assert [type(effect) for effect in effects] == [Halt]


# Time


def test_it_requests_each_wake_up_once_and_only_if_earlier_than_the_pending_ones() -> None:
    rig = running(options=EngineOptions(retry_us=30 * MILLISECOND))
    pending = rig.wakes.copy()
    assert pending[0] == HEARTBEAT_US
    rig.at(0, letter(0, timestamp=5))
    assert rig.wakes == [30 * MILLISECOND, *pending]
    rig.at(0, letter(1, timestamp=5))
    ack(rig, 1, offset=0)
    ack(rig, 1, offset=1)
    assert rig.wakes == [30 * MILLISECOND, *pending]
    assert rig.at(30 * MILLISECOND, Wake()) == []
    assert rig.wakes == [JOURNAL_US, *pending]
    rig.at(40 * MILLISECOND, SourceWatermark(2, 9))
    assert rig.wakes == [JOURNAL_US, *pending]


def test_an_early_wake_up_is_requested_again() -> None:
    """It waited in a paused machine, whose clock was put back meanwhile."""
    rig = running()
    rig.wakes.clear()
    assert rig.at(HEARTBEAT_US - 1, Wake()) == []
    assert rig.wakes == [HEARTBEAT_US]


def test_an_idle_injector_wakes_for_its_heartbeats_only() -> None:
    rig = running()
    rig.at(25, SourceWatermark(0, 80, arrived_us=20))
    journal_request(rig, JOURNAL_US)
    rig.at(JOURNAL_US, Journaled(JOURNAL))
    woken = [at_us for at_us, _ in rig.wakes_until(10 * HEARTBEAT_US)]
    assert woken == [turn * HEARTBEAT_US for turn in range(1, 11)]


def test_simultaneous_wake_ups_after_a_pause_are_not_doubled() -> None:
    rig = running(options=EngineOptions(retry_us=30 * MILLISECOND, retry_max_us=MINUTE_US))
    rig.at(0, letter(0, timestamp=5))  # wants to be woken at 30 ms as well as for its heartbeat
    ack(rig, 0, offset=0)
    for _ in range(2):
        rig.at(600_000, Wake())
        assert rig.wakes == [600_000 + HEARTBEAT_US]


def test_when_its_clock_is_put_back_it_continues_at_its_usual_pace() -> None:
    """It lived an hour ahead. Its clock is corrected: it would otherwise be silent for that hour."""
    hour_us = 3_600_000 * MILLISECOND
    rig = running(now=hour_us)
    rig.at(hour_us, letter(0, timestamp=5))
    journal_request(rig, hour_us + JOURNAL_US)
    rig.at(hour_us + JOURNAL_US, Journaled(JOURNAL))
    rig.at(0, SourceWatermark(1, 9))
    schedule = rig.wakes_until(1_000 * MILLISECOND)
    kinds = (Deliver, Heartbeat, JournalPosition, InjectorReport)
    sent = {kind: [at_us for at_us, sends in schedule if kind in map(_kind, sends)] for kind in kinds}
    assert sent == {
        Deliver: [200_000, 600_000],
        Heartbeat: [250_000, 500_000, 750_000, 1_000_000],
        JournalPosition: [100_000, 600_000],
        InjectorReport: [1_000_000],
    }


def test_every_due_time_has_been_requested() -> None:
    """Nothing but its own wake-ups drives it here: heartbeats, journal and retries all come at their times."""
    rig = running()
    rig.at(0, letter(0, timestamp=5))
    schedule = rig.wakes_until(1_000 * MILLISECOND)
    kinds = (Deliver, Heartbeat, JournalPosition)
    sent = {kind: [at_us for at_us, sends in schedule if kind in map(_kind, sends)] for kind in kinds}
    assert sent == {
        Deliver: [200_000, 600_000],
        Heartbeat: [250_000, 500_000, 750_000, 1_000_000],
        JournalPosition: [100_000, 600_000],
    }


def besides_heartbeats(schedule: list[tuple[int, list[Effect]]]) -> list[tuple[int, list[Effect]]]:
    """What is sent when, apart from heartbeats."""
    others = [
        (at_us, [effect for effect in sends if _kind(effect) is not Heartbeat]) for at_us, sends in schedule
    ]
    return [(at_us, sends) for at_us, sends in others if sends]


def _kind(effect: Effect) -> type:
    return type(effect.message) if isinstance(effect, Send) else type(effect)
