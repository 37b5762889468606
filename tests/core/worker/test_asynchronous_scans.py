"""Asynchronous scans (MillWheel 6.2): records are processed during the scan, each key once its row is known."""

from dataclasses import replace

import pytest

from headrace import KeyInterval
from headrace.api.options import EngineOptions
from headrace.history import (
    Delivered,
    DuplicateDropped,
    Executed,
    InputWatermarkAdvanced,
    KnownBy,
    Reported,
    ScanEnded,
)
from headrace.wire import messages as m
from headrace.wire.effects import Effect, Send, Wake
from headrace.worker.states import AssignmentState
from tests.core.driver import QUIET, Rig, ack, click, counter, outside_acks, result, sent, watermark
from tests.core.worker.test_recovery import COUNTER, HEIR

BY_PAGE = replace(QUIET, scan_page_rows=1, asynchronous_scans=True)
"""A page for each row."""


def heir(options: EngineOptions = BY_PAGE, *, records: int = 3, rows_came: int = 1) -> Rig:
    """A new owner of ``key 1``, ``key 2`` ..., whose predecessor has counted one record of each; some rows have come."""
    rig = Rig(counter(COUNTER), options=options)
    for number in range(1, records + 1):
        rig.settle(click(f"r{number}", f"key {number}"))
    rig.settle(outside_acks(*[f"counter@1.{number}#0" for number in range(1, records + 1)]))
    rig.wake(50_000)  # the checkpoints are deleted
    rig.shop.journal(40, 0)
    rig.shop.mint(m.MintChange("counter", KeyInterval(), HEIR, 1))
    other = Rig(rig.shop, address=HEIR)
    other.feed(rig.shop.table)
    for _ in range(rows_came):
        answer(other, m.Scan)
    return other


def answer(rig: Rig, kind: type) -> list[Effect]:
    """Let the store answer the oldest request of a kind; return the effects on others."""
    (index, *_) = [index for index, request in enumerate(rig.open) if isinstance(request, kind)]
    return [effect for effect in rig.answer(index) if not (isinstance(effect, Send) and effect.to == "store")]


def rest(rig: Rig) -> list[Effect]:
    """Let the store answer until nothing is open; return the effects on others."""
    effects: list[Effect] = []
    while rig.open:
        effects += [
            effect for effect in rig.answer() if not (isinstance(effect, Send) and effect.to == "store")
        ]
    return effects


def runs(rig: Rig) -> list[str]:
    return [
        event.cause
        for event in rig.shop.history
        if isinstance(event, Executed) and event.version.sequencer == 2
    ]


def test_a_key_that_the_scan_has_passed_runs_at_once() -> None:
    rig = heir()
    rig.feed(click("r4", "key 1"))
    assert runs(rig) == ["r4"]
    effects = answer(rig, m.Write)
    assert effects == [ack("r4"), sent(result("counter@2.1#0", 2, "key 1"), sender=HEIR)]
    assert rig.interval.state is AssignmentState.RECOVERING


def test_a_key_that_the_scan_has_passed_without_a_row_is_new() -> None:
    rig = heir()
    rig.feed(click("r4", "key 0"))
    assert runs(rig) == ["r4"]
    assert not [request for request in rig.open if isinstance(request, m.Read)]


def test_a_key_that_the_scan_has_not_reached_is_read_first() -> None:
    rig = heir()
    rig.feed(click("r4", "key 3"))
    assert runs(rig) == []
    answer(rig, m.Read)
    assert runs(rig) == ["r4"]
    assert answer(rig, m.Write) == [ack("r4"), sent(result("counter@2.1#0", 2, "key 3"), sender=HEIR)]
    assert rig.interval.state is AssignmentState.RECOVERING


def test_a_duplicate_for_a_key_that_the_scan_has_not_reached_is_recognized_by_its_row() -> None:
    rig = heir()
    rig.feed(click("r3", "key 3"))
    assert answer(rig, m.Read) == [ack("r3")]
    assert runs(rig) == []
    dropped = [event.by for event in rig.shop.history if isinstance(event, DuplicateDropped)]
    assert dropped == [KnownBy.ID]


def test_a_scan_does_not_undo_what_was_read_and_run() -> None:
    """The store serves the page before it has the write of the same key, and the page comes after the write's answer."""
    rig = heir(rows_came=2)
    (scan,) = rig.asked()
    page = rig.shop.store(scan)
    rig.feed(click("r4", "key 3"))
    answer(rig, m.Read)
    answer(rig, m.Write)
    rig.feed(page)
    assert rig.interval.state is AssignmentState.OWNED
    assert rig.settle(click("r4", "key 3")) == [ack("r4")]
    assert rig.settle(click("r5", "key 3")) == [
        ack("r5"),
        sent(result("counter@2.2#0", 3, "key 3"), sender=HEIR),
    ]


@pytest.mark.parametrize("first", [m.Read, m.Scan])
def test_a_row_that_is_both_read_and_scanned_is_recovered_once(first: type) -> None:
    rig = heir(rows_came=1)
    rig.feed(click("r4", "key 2"))
    for kind in (first, m.Scan if first is m.Read else m.Read):
        answer(rig, kind)
    effects = rest(rig)
    assert effects[:2] == [ack("r4"), sent(result("counter@2.1#0", 2, "key 2"), sender=HEIR)]
    assert runs(rig) == ["r4"]
    (ended,) = [event for event in rig.shop.history if isinstance(event, ScanEnded) and event.sequencer == 2]
    assert ended.keys == 3
    assert sorted(ended.timers) == [("key 1", "t"), ("key 2", "t"), ("key 3", "t")]


def test_several_records_of_a_key_wait_for_one_read_and_run_in_order() -> None:
    rig = heir(replace(BY_PAGE, commit_batch=8))
    for number in (4, 5, 6):
        rig.feed(click(f"r{number}", "key 3"))
    assert len([request for request in rig.open if isinstance(request, m.Read)]) == 1
    answer(rig, m.Read)
    assert runs(rig) == ["r4", "r5", "r6"]


def test_before_the_first_page_a_delivery_waits_for_the_journaled_horizon() -> None:
    """Without the horizon a remnant, whose id was collected, cannot be told from a new record."""
    rig = heir(rows_came=0)
    rig.shop.journal(40, 30)
    rig.feed(click("old", "key 3", origin=29))
    assert not [
        event for event in rig.shop.history if isinstance(event, Delivered) and event.sender == "feed/0"
    ][3:]
    assert answer(rig, m.Scan) == [ack("old")]
    assert runs(rig) == []


def test_watermarks_stay_where_they_were_journaled_until_the_scan_is_done() -> None:
    rig = heir(replace(BY_PAGE, report_period_us=50_000))
    rig.feed(watermark(60, horizon=0))
    rig.feed(Wake(), 200_000)
    heard = [event.low_watermark for event in rig.shop.history if isinstance(event, InputWatermarkAdvanced)]
    assert heard == [40]
    assert not [event for event in rig.shop.history if isinstance(event, Reported) and event.sequencer == 2]
    rest(rig)
    heard = [event.low_watermark for event in rig.shop.history if isinstance(event, InputWatermarkAdvanced)]
    assert heard == [40, 60]


def fired_and_run(rig: Rig) -> list[str]:
    """What the third owner ran."""
    events = [event for event in rig.shop.history if isinstance(event, Executed)]
    return [event.cause for event in events if event.version.sequencer == 3]


def test_due_timers_of_a_key_fire_in_order_before_the_record_that_has_read_its_row() -> None:
    shop = heir().shop
    shop.journal(60, 0)
    shop.mint(m.MintChange("counter", KeyInterval(), "worker-2", 1))
    rig = Rig(shop, address="worker-2")
    rig.feed(shop.table)
    answer(rig, m.Scan)
    assert fired_and_run(rig) == ["counter@1.1!t"]
    rig.feed(click("r4", "key 3", timestamp=70))
    answer(rig, m.Read)
    assert fired_and_run(rig)[1:] == ["counter@1.3!t"]
    rest(rig)
    assert [cause for cause in fired_and_run(rig) if cause in ("counter@1.3!t", "r4")] == [
        "counter@1.3!t",
        "r4",
    ]


def test_a_scan_of_one_page_makes_no_difference() -> None:
    synchronous, asynchronous = (
        heir(replace(QUIET, asynchronous_scans=asynchronous), rows_came=1) for asynchronous in (False, True)
    )
    assert asynchronous.interval.state is synchronous.interval.state is AssignmentState.OWNED
    assert asynchronous.shop.history.events == synchronous.shop.history.events


def test_without_the_option_records_wait_for_the_last_page() -> None:
    rig = heir(replace(BY_PAGE, asynchronous_scans=False))
    rig.feed(click("r4", "key 1"))
    assert runs(rig) == []
    assert [type(request) for request in rig.open] == [m.Scan]
    rest(rig)
    assert runs(rig) == ["r4"]


def test_an_interval_that_is_lost_during_an_asynchronous_scan_acks_nothing() -> None:
    rig = heir()
    rig.feed(click("r4", "key 1"))
    rig.shop.mint(m.MintChange("counter", KeyInterval(), "worker-2", 1))
    assert rest(rig) == []
    assert rig.worker.intervals == ()
