"""The watermark authority (MillWheel 7.2): feed an event, assert all effects."""

from dataclasses import replace

import pytest

from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.history import History, ProcessStarted, Published
from headrace.store.election import Standing
from headrace.watermarks.authority import WatermarkAuthority
from headrace.wire.effects import Send, Start, Wake, WakeAt
from headrace.wire.keys import ALL_KEYS, KeyInterval
from headrace.wire.messages import (
    STORE,
    Claim,
    Claimed,
    InjectorReport,
    IntervalReport,
    IntervalReporter,
    Journaled,
    JournalWatermarks,
    Peek,
    Peeked,
    ProcessReporter,
    Progress,
    Refused,
    Renew,
    Renewed,
    Report,
    Table,
    Unavailable,
)
from tests.core.inputs import EXAMPLES
from tests.core.watermarks.authority_bench import (
    FIRST,
    LEFT,
    OPTIONS,
    RIGHT,
    Bench,
    injected,
    pipeline,
    progress,
    report,
    told,
)

STARTED = ProcessStarted(0, "authority-0.0", 1)

# Journal, then broadcast


def test_what_has_risen_is_journaled_with_the_reports_that_it_rests_on() -> None:
    bench = Bench()
    bench.handle(injected(50, epoch=3))
    bench.handle(report("splitter", 7, 30))
    assert bench.journal() == JournalWatermarks(
        FIRST + 2,
        "authority-0",
        1,
        (("lines", progress(50)), ("splitter", progress(30))),
        (ProcessReporter("lines", 0, 3), IntervalReporter("splitter", 7)),
    )


def test_nothing_is_broadcast_before_the_store_has_it() -> None:
    bench = Bench()
    bench.handle(report("splitter", 7, 30))
    entry = bench.journal()
    assert bench.wake() == []
    assert bench.handle(Journaled(entry.request)) == told(("splitter", progress(30)))
    assert bench.history.events == [STARTED, Published(0, "authority-0.0", (("splitter", progress(30)),))]


def test_a_broadcast_has_all_values_and_the_history_those_that_changed() -> None:
    bench = Bench()
    bench.handle(report("splitter", 7, 30))
    bench.accept()
    bench.handle(injected(50))
    assert bench.accept() == told(("lines", progress(50)), ("splitter", progress(30)))
    assert bench.history.events[2:] == [Published(0, "authority-0.0", (("lines", progress(50)),))]


def test_a_horizon_that_rises_alone_is_published_too() -> None:
    bench = Bench()
    bench.handle(InjectorReport("lines", 0, 1, 50, 5, 50))
    bench.accept()
    bench.handle(InjectorReport("lines", 0, 1, 50, 6, 50))
    assert bench.journal().values == (("lines", Progress(50, 6)),)


def test_it_looks_at_the_next_whole_period_after_a_report() -> None:
    # A wake is all that it has: were the next one that of its lease, everybody's watermark would wait for that.
    bench = Bench()
    for reported_at, low_watermark, looked_at in ((1_030, 30, 1_100), (1_100, 40, 1_200), (1_470, 50, 1_500)):
        bench.now = reported_at
        bench.handle(report("splitter", 7, low_watermark))
        (entry,) = bench.next_wake()
        assert isinstance(entry, Send)
        assert isinstance(entry.message, JournalWatermarks)
        assert bench.now == looked_at
        bench.handle(Journaled(entry.message.request))


def test_what_is_reported_while_an_entry_is_under_way_is_looked_at_once_that_is_answered() -> None:
    bench = Bench()
    bench.handle(report("splitter", 7, 30))
    entry = bench.journal()
    wakes = bench.wakes.copy()
    bench.now += 10
    bench.handle(report("splitter", 7, 60))
    assert bench.wakes == wakes
    bench.now += 150
    bench.handle(Journaled(entry.request))
    assert bench.wakes[0] == bench.now + 1
    assert bench.next_wake() == [
        Send(
            STORE,
            JournalWatermarks(
                FIRST + 3, "authority-0", 1, (("splitter", progress(60)),), (IntervalReporter("splitter", 7),)
            ),
        )
    ]


def test_a_report_that_raises_nothing_makes_it_look_once_at_most() -> None:
    bench = Bench()
    bench.handle(report("splitter", 7, 30))
    bench.accept()
    wakes = bench.wakes.copy()
    bench.handle(report("splitter", 7, 30))
    assert bench.wakes == wakes
    bench.handle(report("splitter", 9, 20))
    assert bench.next_wake() == []
    assert (bench.now, bench.wakes) == (1_200, wakes)


def test_an_idle_authority_wakes_for_its_lease_only() -> None:
    # What it has said eight periods ago it says again then.
    bench = Bench()
    bench.handle(report("splitter", 7, 30))
    bench.accept()
    again = told(("splitter", progress(30)))
    for number, due_us in enumerate((2_100, 3_100, 4_100), FIRST + 3):
        while bench.wakes[0] < due_us:  # they were asked for while something was under way
            assert bench.next_wake() == []
        assert bench.next_wake() == [Send(STORE, Renew(number, "authority-0", 1)), *again]
        assert bench.now == due_us
        bench.handle(Renewed(number))


def test_a_report_that_raises_nothing_is_not_journaled() -> None:
    bench = Bench()
    bench.handle(report("splitter", 7, 30, LEFT))
    assert bench.wake() == []
    bench.handle(report("splitter", 8, 20, RIGHT))
    entry = bench.journal()
    assert entry.values == (("splitter", progress(20)),)
    assert entry.reporters == (IntervalReporter("splitter", 7), IntervalReporter("splitter", 8))


def test_a_computation_is_as_far_as_its_slowest_interval() -> None:
    bench = Bench()
    bench.handle(report("splitter", 7, 30, LEFT))
    bench.handle(report("splitter", 8, 20, RIGHT))
    bench.accept()
    bench.handle(report("splitter", 7, 90, LEFT))
    assert bench.wake() == []


def test_a_new_owner_that_knows_less_lowers_nothing() -> None:
    bench = Bench()
    bench.handle(report("splitter", 7, 30))
    bench.accept()
    bench.handle(report("splitter", 9, 10))
    assert bench.wake() == []
    bench.handle(report("splitter", 9, 40))
    assert bench.accept() == told(("splitter", progress(40)))


def test_reports_of_names_that_it_does_not_have_are_ignored() -> None:
    bench = Bench()
    bench.handle(Report("worker-0", (IntervalReport("stranger", ALL_KEYS, 1, 30, 3),)))
    bench.handle(Report("worker-0", (IntervalReport("lines", ALL_KEYS, 1, 30, 3),)))
    bench.handle(InjectorReport("stranger", 0, 1, 30, 3, 30))
    bench.handle(InjectorReport("splitter", 0, 1, 30, 3, 30))
    bench.handle(injected(30, process=1, epoch=9))
    assert bench.wake() == []
    bench.handle(injected(40))
    assert bench.journal().values == (("lines", progress(40)),)


def test_an_injector_waits_for_all_its_expected_processes() -> None:
    bench = Bench(pipeline(processes=3))
    bench.handle(injected(50, process=0, epoch=2))
    bench.handle(injected(40, process=2, epoch=5))
    assert bench.wake() == []
    bench.handle(injected(60, process=1))
    entry = bench.journal()
    assert entry.values == (("lines", progress(40)),)
    assert entry.reporters == (
        ProcessReporter("lines", 0, 2),
        ProcessReporter("lines", 2, 5),
        ProcessReporter("lines", 1, 1),
    )


# Who is told


def test_a_first_time_reporter_gets_the_watermarks_at_once() -> None:
    bench = Bench()
    bench.handle(injected(50))
    assert bench.accept() == told(("lines", progress(50)), to=["lines/0"])
    assert bench.handle(Report("worker-7", ())) == told(("lines", progress(50)), to=["worker-7"])
    assert bench.handle(Report("worker-7", ())) == []
    assert bench.handle(Report("worker-1", ())) == told(("lines", progress(50)), to=["worker-1"])
    bench.handle(injected(60))
    assert bench.accept() == told(("lines", progress(60)), to=["lines/0", "worker-1", "worker-7"])


def test_a_newcomer_gets_nothing_before_anything_is_known() -> None:
    assert Bench().handle(Report("worker-7", ())) == []


def test_lost_broadcasts_heal_after_eight_quiet_periods() -> None:
    bench = Bench(options=replace(OPTIONS, lease_us=1_000_000))
    bench.handle(report("splitter", 7, 30))
    bench.accept()
    sent = [bench.wake() for _ in range(16)]
    again = told(("splitter", progress(30)))
    assert sent == [*([[]] * 7), again, *([[]] * 7), again]
    assert len(bench.history) == 2


# Reports of the replaced


def test_a_stale_report_is_forgotten_and_the_rest_is_journaled_at_the_next_turn() -> None:
    # worker-0 was replaced as the owner of the left half; its last report may be a zombie's optimism.
    bench = Bench()
    bench.handle(report("splitter", 7, 30, LEFT))
    bench.handle(report("splitter", 8, 35, RIGHT))
    bench.accept()
    bench.handle(injected(50))
    bench.handle(report("splitter", 7, 90, LEFT))
    bench.handle(report("splitter", 8, 80, RIGHT))
    entry = bench.journal()
    assert entry.values == (("lines", progress(50)), ("splitter", progress(80)))
    assert bench.handle(Journaled(entry.request, (IntervalReporter("splitter", 7),))) == []
    assert bench.handle(report("splitter", 7, 95, LEFT)) == []  # still there, and not heard any more
    entry = bench.journal()
    assert (entry.values, entry.reporters) == ((("lines", progress(50)),), (ProcessReporter("lines", 0, 1),))
    bench.handle(Journaled(entry.request))
    bench.handle(report("splitter", 9, 60, LEFT))
    entry = bench.journal()
    assert (entry.values, entry.reporters) == (
        (("splitter", progress(60)),),
        (IntervalReporter("splitter", 8), IntervalReporter("splitter", 9)),
    )


def test_after_a_stale_report_it_looks_again_by_itself() -> None:
    # Nobody reports meanwhile: what is left of the entry goes into one of its own at the next whole period.
    bench = Bench()
    bench.handle(report("splitter", 7, 30))
    bench.handle(injected(50))
    entry = bench.journal()
    bench.now += 30
    bench.handle(Journaled(entry.request, (IntervalReporter("splitter", 7),)))
    assert bench.next_wake() == [
        Send(
            STORE,
            JournalWatermarks(
                FIRST + 3, "authority-0", 1, (("lines", progress(50)),), (ProcessReporter("lines", 0, 1),)
            ),
        )
    ]
    assert bench.now == 1_200


def test_an_entry_rests_on_what_was_reported_since_the_last_one() -> None:
    bench = Bench()
    bench.handle(report("splitter", 7, 20, LEFT))
    bench.handle(report("splitter", 8, 90, RIGHT))
    bench.accept()
    bench.handle(report("splitter", 7, 25, LEFT))
    assert bench.journal().reporters == (IntervalReporter("splitter", 7),)


def test_an_owner_whose_interval_was_cut_in_two_is_named_once() -> None:
    bench = Bench()
    bench.handle(report("splitter", 7, 30))
    bench.handle(report("splitter", 9, 40, KeyInterval("g", "m")))
    assert bench.journal().reporters == (IntervalReporter("splitter", 7), IntervalReporter("splitter", 9))


def test_a_stale_report_falls_back_to_what_the_store_has_accepted_of_its_interval() -> None:
    bench = Bench()
    bench.handle(report("splitter", 7, 50, LEFT))
    bench.handle(report("splitter", 8, 30, RIGHT))
    bench.accept()
    bench.handle(report("splitter", 7, 90, LEFT))
    bench.handle(report("splitter", 8, 80, RIGHT))
    bench.handle(Journaled(bench.journal().request, (IntervalReporter("splitter", 7),)))
    assert bench.journal().values == (("splitter", progress(50)),)


def test_a_stale_injector_process_does_not_discredit_its_siblings() -> None:
    bench = Bench(pipeline(processes=2))
    bench.handle(injected(50, process=0))
    bench.handle(injected(40, process=1))
    entry = bench.journal()
    bench.handle(Journaled(entry.request, (ProcessReporter("lines", 1, 1),)))
    assert bench.wake() == []
    bench.handle(injected(45, process=1, epoch=2))
    entry = bench.journal()
    assert entry.values == (("lines", progress(45)),)
    assert entry.reporters == (ProcessReporter("lines", 0, 1), ProcessReporter("lines", 1, 2))


def test_what_arrives_while_the_journal_is_written_waits_for_the_next_entry() -> None:
    bench = Bench()
    bench.handle(report("splitter", 7, 30))
    entry = bench.journal()
    bench.handle(report("splitter", 7, 60))
    assert bench.handle(Journaled(entry.request)) == told(("splitter", progress(30)))
    entry = bench.journal()
    assert (entry.values, entry.reporters) == (
        (("splitter", progress(60)),),
        (IntervalReporter("splitter", 7),),
    )
    bench.handle(Journaled(entry.request, (IntervalReporter("splitter", 7),)))
    assert bench.wake() == []  # back to 30


# The store is slow, or has moved on


def test_an_unanswered_journal_entry_is_sent_again_as_it_was() -> None:
    bench = Bench(options=replace(OPTIONS, lease_us=1_000_000))
    bench.handle(report("splitter", 7, 30))
    entry = bench.journal()
    assert bench.handle(Unavailable(entry.request)) == []
    bench.handle(report("splitter", 7, 60))
    assert bench.wake(499) == []
    assert bench.wake(1) == [Send(STORE, entry)]
    assert bench.wake(499) == []
    assert bench.wake(1) == [Send(STORE, entry)]
    assert bench.handle(Journaled(entry.request)) == told(("splitter", progress(30)))
    assert bench.handle(Journaled(entry.request)) == []  # the answer to the second copy


def test_a_zombie_stops_broadcasting_when_its_journal_entry_is_refused() -> None:
    bench = Bench()
    bench.handle(report("splitter", 7, 30))
    entry = bench.journal()
    assert bench.handle(Refused(entry.request, 2)) == []
    assert not bench.authority.is_active
    assert bench.handle(Journaled(entry.request)) == []
    assert bench.handle(Report("worker-7", ())) == []
    assert bench.wake(999) == []
    assert bench.wake(1) == [Send(STORE, Peek(FIRST + 3, "authority-0"))]


def test_a_zombie_stops_when_its_renewal_is_refused() -> None:
    bench = Bench()
    bench.handle(report("splitter", 7, 30))
    bench.accept()
    effects = [
        effect for _ in range(10) for effect in bench.wake() if effect not in told(("splitter", progress(30)))
    ]
    assert effects == [Send(STORE, Renew(FIRST + 3, "authority-0", 1))]
    bench.handle(Refused(FIRST + 3, 2))
    assert not bench.authority.is_active
    assert bench.wake() == []


def test_journal_entries_count_as_renewals() -> None:
    bench = Bench()
    for turn in range(30):
        bench.handle(report("splitter", 7, 10 * turn))
        assert isinstance(bench.accept()[0], Send)


# Taking over


def test_a_new_holder_repeats_the_journal_and_goes_on_from_it() -> None:
    journaled = (("lines", progress(50)), ("splitter", progress(30)))
    bench = Bench(journaled=journaled)
    assert bench.claimed == told(*journaled, to=["lines/0"])
    assert bench.history.events == [STARTED, Published(0, "authority-0.0", journaled)]
    bench.handle(report("splitter", 9, 20, LEFT))
    assert bench.wake() == []
    bench.handle(report("splitter", 9, 90, LEFT))
    assert bench.wake() == []  # the other half's last known value is the journaled minimum
    assert bench.authority._known["splitter"].map.low_watermark == 30
    bench.handle(report("splitter", 10, 80, RIGHT))
    entry = bench.journal()
    assert (entry.values, entry.reporters) == (
        (("splitter", progress(80)),),
        (IntervalReporter("splitter", 9), IntervalReporter("splitter", 10)),
    )


def test_a_standby_listens_says_nothing_and_is_up_to_date_when_it_takes_over() -> None:
    bench = Bench(
        journaled=(("splitter", progress(30)),),
        heard=[report("splitter", 7, 40, LEFT), report("splitter", 8, 45, RIGHT), injected(60)],
    )
    entry = JournalWatermarks(
        FIRST + 2,
        "authority-0",
        1,
        (("lines", progress(60)), ("splitter", progress(40))),
        (ProcessReporter("lines", 0, 1), IntervalReporter("splitter", 7), IntervalReporter("splitter", 8)),
    )
    assert bench.claimed == [*told(("splitter", progress(30))), Send(STORE, entry)]


def test_a_standby_forgets_reports_of_replaced_owners() -> None:
    bench = Bench(journaled=(("splitter", progress(30)),), heard=[report("splitter", 7, 40)])
    assert bench.handle(Journaled(FIRST + 2, (IntervalReporter("splitter", 7),))) == []
    assert bench.wake() == []


def test_a_standby_wakes_twice_in_a_lease() -> None:
    authority = WatermarkAuthority("authority-0.1", 0, [pipeline()], OPTIONS, History())
    assert authority.handle(0, Start(1)) == [WakeAt(1_000)]
    assert authority.handle(1_000, Wake()) == [Send(STORE, Peek(FIRST, "authority-0")), WakeAt(1_500)]
    assert authority.handle(1_001, Peeked(FIRST, 3, 1)) == []
    assert authority.handle(1_500, Wake()) == [WakeAt(3_000)]
    assert authority.handle(3_000, Wake()) == [Send(STORE, Peek(FIRST + 1, "authority-0")), WakeAt(3_500)]


def test_a_fresh_replica_claims_and_then_wakes_for_its_lease() -> None:
    authority = WatermarkAuthority("authority-0.0", 0, [pipeline()], OPTIONS, History())
    assert authority.handle(0, Start(1)) == [Send(STORE, Peek(FIRST, "authority-0")), WakeAt(500)]
    asked = authority.handle(1, Peeked(FIRST, 0, 0))
    assert asked == [Send(STORE, Claim(FIRST + 1, "authority-0", 0, "authority-0.0#1"))]
    assert authority.handle(2, Claimed(FIRST + 1, 1, (), 0, Table())) == []
    assert authority.handle(500, Wake()) == [WakeAt(1_001)]
    assert authority.handle(1_001, Wake()) == [Send(STORE, Renew(FIRST + 2, "authority-0", 1)), WakeAt(1_501)]


def test_an_answer_that_makes_the_next_turn_earlier_makes_it_wake_earlier() -> None:
    # Its claim is due again, and then its renewal, before the time-out of the look that came first.
    options = replace(OPTIONS, store_timeout_us=10_000)
    authority = WatermarkAuthority("authority-0.0", 0, [pipeline()], options, History())
    assert authority.handle(0, Start(1)) == [Send(STORE, Peek(FIRST, "authority-0")), WakeAt(2_000)]
    claim = Send(STORE, Claim(FIRST + 1, "authority-0", 0, "authority-0.0#1"))
    assert authority.handle(1, Peeked(FIRST, 0, 0)) == [claim, WakeAt(1_001)]


def test_a_clock_that_is_put_back_stops_nothing() -> None:
    bench = Bench()
    bench.handle(report("splitter", 7, 30))
    bench.now = 10
    assert bench.wake(0) == []
    (entry,) = bench.wake()
    assert isinstance(entry, Send)
    assert isinstance(entry.message, JournalWatermarks)
    bench.now = 5
    assert bench.wake(0) == []
    assert [bench.wake() for _ in range(5)] == [[], [], [], [], [entry]]
    assert bench.wake(500) == [Send(STORE, Renew(FIRST + 3, "authority-0", 1)), entry]


TAKEN: set[type] = {Wake, Report, InjectorReport, Journaled, Peeked, Claimed, Renewed, Refused, Unavailable}
DECLARED: dict[Standing, set[type]] = {Standing.NEW: {Start}, Standing.STANDBY: TAKEN, Standing.ACTIVE: TAKEN}


def standing(state: Standing) -> WatermarkAuthority:
    if state is Standing.ACTIVE:
        return Bench().authority
    authority = WatermarkAuthority("authority-0.1", 0, [pipeline()], OPTIONS, History())
    if state is Standing.STANDBY:
        authority.handle(0, Start(1))
    return authority


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("state", Standing, ids=lambda state: state.value)
def test_each_input_in_each_standing_is_declared_or_raises(state: Standing, kind: type) -> None:
    authority = standing(state)
    assert ((state, kind) in WatermarkAuthority.transitions) == (kind in DECLARED[state])
    if kind not in DECLARED[state]:
        with pytest.raises(
            AssertionError, match=f"authority-0.[01] is {state.value} and got {kind.__name__}"
        ):
            authority.handle(1_000, EXAMPLES[kind])
        return
    authority.handle(1_000, EXAMPLES[kind])
    authority.check_invariants()


def test_the_table_has_no_other_inputs() -> None:
    assert {kind for _, kind in WatermarkAuthority.transitions} == {Start, *TAKEN}


def test_an_injector_that_never_reported_is_at_minus_infinity() -> None:
    bench = Bench(pipeline(processes=2))
    bench.handle(injected(MAX_TIME, process=0))
    assert bench.wake() == []
    assert bench.authority._known["lines"].map.low_watermark == MIN_TIME
