"""An injector's process (MillWheel 5.2, 6.1.1, 8.4): feed an event, assert all effects."""

import base64
import json

import pytest

from headrace import (
    MAX_TIME,
    MILLISECOND,
    MIN_TIME,
    Computation,
    MalformedRecordError,
    Pipeline,
    Record,
)
from headrace.history import (
    Acked,
    DeadLettered,
    Injected,
    InjectorReported,
    ProcessStarted,
    Resent,
    VersionAdopted,
)
from headrace.injector.injector import TRANSITIONS, Phase
from headrace.wire.effects import (
    Effect,
    Event,
    Halt,
    Replay,
    Replayed,
    Send,
    SourceRecord,
    SourceWatermark,
    Start,
    Wake,
)
from headrace.wire.messages import (
    STORE,
    Ack,
    Claim,
    Claimed,
    Deliver,
    Heartbeat,
    InjectorReport,
    Journaled,
    Peek,
    Peeked,
    Progress,
    Refused,
    Table,
    Unavailable,
    Watermarks,
)
from tests.core.injector.injector_rig import (
    ADDRESS,
    CLAIM,
    FIRST_REQUEST,
    JOURNAL,
    JOURNAL_US,
    MINUTE_US,
    Rig,
    ack,
    broadcast,
    letter,
    pipeline_of,
    production,
    running,
    table_of,
)

# Becoming the holder of the role


def test_it_starts_by_peeking_at_its_journal() -> None:
    rig = Rig()
    peek = Send(STORE, Peek(FIRST_REQUEST, ADDRESS))
    assert rig.at(5, Start(1)) == [peek]
    assert rig.wakes == [5 + rig.options.store_timeout_us]
    assert rig.history.events == [ProcessStarted(0, ADDRESS, 1)]


def test_it_claims_the_epoch_that_it_has_seen_in_the_name_of_its_incarnation() -> None:
    rig = Rig()
    rig.at(0, Start(1))
    assert rig.at(7, Peeked(FIRST_REQUEST, 3, 20)) == [Send(STORE, Claim(CLAIM, ADDRESS, 3, "mail/0#1"))]


def test_a_first_holder_reads_from_the_beginning_and_shows_itself_to_all_masters() -> None:
    rig = Rig()
    rig.at(0, Start(1))
    rig.at(0, Peeked(FIRST_REQUEST, 0, 0))
    beat = Heartbeat(ADDRESS, 1, table_version=1, is_worker=False)
    assert rig.at(9, Claimed(CLAIM, 1, (), 0, table_of())) == [
        Replay(0),
        Send("master-0", beat),
        Send("master-1", beat),
    ]
    assert rig.wakes[0] == 9 + rig.options.heartbeat_period_us


def test_a_successor_reads_from_the_journaled_position_and_repeats_the_journaled_progress() -> None:
    rig = Rig()
    rig.at(0, Start(1))
    rig.at(0, Peeked(FIRST_REQUEST, 1, 8))
    effects = rig.at(9, Claimed(CLAIM, 2, ((ADDRESS, Progress(60, 500)),), 7, table_of()))
    beat = Heartbeat(ADDRESS, 1, table_version=1, is_worker=False)
    report = InjectorReport("mail", 0, 2, low_watermark=60, horizon=500, frontier=60)
    assert effects == [
        Replay(7),
        Send("master-0", beat),
        Send("master-1", beat),
        Send("authority-0.0", report),
        Send("authority-0.1", report),
    ]
    assert rig.of(InjectorReported) == [InjectorReported(0, ADDRESS, "mail", 60, 500)]


@pytest.mark.parametrize("answer", [None, Unavailable(FIRST_REQUEST)], ids=["silence", "unavailable"])
def test_an_unanswered_peek_is_asked_again_as_the_same_request(answer: Event | None) -> None:
    rig = Rig()
    rig.at(0, Start(1))
    if answer is not None:
        assert rig.at(1, answer) == []
    timeout_us = rig.options.store_timeout_us
    again = Send(STORE, Peek(FIRST_REQUEST, ADDRESS))
    assert rig.wakes == [timeout_us]
    assert rig.at(timeout_us, Wake()) == [again]
    assert rig.wakes == [2 * timeout_us]


def test_an_unanswered_claim_is_asked_again_as_the_same_request() -> None:
    rig = Rig()
    rig.at(0, Start(1))
    rig.at(10, Peeked(FIRST_REQUEST, 0, 0))
    rig.at(20, Unavailable(CLAIM))
    timeout_us = rig.options.store_timeout_us
    assert rig.at(timeout_us, Wake()) == []
    assert rig.wakes == [timeout_us + 10]
    again = Send(STORE, Claim(CLAIM, ADDRESS, 0, "mail/0#1"))
    assert rig.at(timeout_us + 10, Wake()) == [again]
    assert rig.wakes == [2 * timeout_us + 10]


def test_a_request_does_not_wait_for_a_clock_that_was_put_back() -> None:
    rig = Rig()
    rig.at(MINUTE_US, Start(1))
    timeout_us = rig.options.store_timeout_us
    assert rig.at(0, Unavailable(FIRST_REQUEST)) == []
    assert rig.wakes[0] == timeout_us
    assert rig.at(timeout_us, Wake()) == [Send(STORE, Peek(FIRST_REQUEST, ADDRESS))]


def test_a_claim_that_arrives_too_late_peeks_again() -> None:
    rig = Rig()
    rig.at(0, Start(1))
    rig.at(0, Peeked(FIRST_REQUEST, 0, 0))
    assert rig.at(5, Refused(CLAIM, 1)) == [Send(STORE, Peek(CLAIM + 1, ADDRESS))]
    assert rig.at(6, Peeked(CLAIM + 1, 1, 1)) == [Send(STORE, Claim(CLAIM + 2, ADDRESS, 1, "mail/0#1"))]


def test_answers_to_a_former_incarnation_are_ignored() -> None:
    """Incarnation 1 has asked and died. Incarnation 2 of the same address gets the answers, and asks for itself."""
    rig = Rig()
    (peek,) = rig.at(0, Start(2))
    assert peek == Send(STORE, Peek((2 << 32) + 1, ADDRESS))
    assert rig.at(1, Peeked(FIRST_REQUEST, 5, 0)) == []
    rig.at(1, Peeked((2 << 32) + 1, 5, 0))
    assert rig.at(2, Claimed(CLAIM, 5, (), 0, table_of())) == []
    assert rig.at(2, Refused(CLAIM, 5)) == []
    assert rig.injector.phase is Phase.CLAIMING


# Records (5.2, 6.1.1)


def origins_of(rig: Rig) -> list[int]:
    events = [event for event in rig.of(Injected) if isinstance(event, Injected)]
    return [event.productions[0].origin for event in events]


def test_a_record_goes_to_the_owner_of_each_consumers_key_under_the_id_of_its_offset() -> None:
    rig = running()
    record = letter(0, timestamp=50, city="Riva", key="p", arrived_us=7)
    to_counter = production(record, "counter", "Riva", origin=7)
    to_sorter = production(record, "sorter", "p", origin=7)
    assert rig.at(11, record) == [
        Send("worker-1", Deliver(to_counter, ADDRESS)),
        Send("worker-91", Deliver(to_sorter, ADDRESS)),
    ]
    assert rig.of(Injected) == [Injected(0, ADDRESS, 0, MIN_TIME, (to_counter, to_sorter))]


def test_a_stream_without_consumers_goes_outside() -> None:
    rig = running()
    record = letter(0, timestamp=50, key="k", stream="spam", arrived_us=7)
    assert rig.at(11, record) == [Send("outside", Deliver(production(record, "", "k", 7), ADDRESS))]


def test_repeated_offsets_are_ignored_and_a_gap_is_a_bug_of_the_host() -> None:
    rig = running(position=4, epoch=2)
    assert rig.at(0, letter(3, timestamp=1)) == []
    assert rig.at(0, SourceWatermark(2, 99)) == []
    with pytest.raises(AssertionError, match="jumps from offset 4 to 6"):
        rig.at(0, letter(6, timestamp=1))


def test_origins_are_the_sources_stamps_whatever_the_clock_says_and_never_go_back() -> None:
    rig = running()
    for offset, (now, arrived_us) in enumerate(((900, 30), (100, 20), (500, 40))):
        rig.at(now, letter(offset, timestamp=0, arrived_us=arrived_us))
    assert origins_of(rig) == [30, 30, 40]


def test_a_record_that_is_read_again_has_the_same_origin_whenever_that_is() -> None:
    """The second copy of a record must not have an origin of its own: its id could be collected while it is under way."""
    letters = [letter(offset, timestamp=5, arrived_us=100 * offset) for offset in range(3)]
    former = running()
    for record in letters:
        former.at(1_000, record)
    successor = running(now=MINUTE_US, epoch=2, position=1, journaled=Progress(5, 100), replayed=False)
    for record in letters[1:]:
        successor.at(MINUTE_US, record)
    assert origins_of(successor) == origins_of(former)[1:] == [100, 200]


def test_a_record_is_sent_with_growing_pauses_until_it_is_acked() -> None:
    """200 ms, then 400 ms after the first sends; the one that is ACKed in between is left alone."""
    rig = running()
    rig.at(0, letter(0, timestamp=5))
    rig.at(0, letter(1, timestamp=6))
    ack(rig, 10, offset=0)
    assert rig.of(Acked) == [Acked(0, ADDRESS, "mail/0:0", name) for name in ("counter", "sorter")]
    both = [("worker-1", "counter", "mail/0:1"), ("worker-91", "sorter", "mail/0:1")]
    assert rig.deliveries(200 * MILLISECOND - 1, Wake()) == []
    assert rig.deliveries(200 * MILLISECOND, Wake()) == both
    assert rig.deliveries(600 * MILLISECOND - 1, Wake()) == []
    assert rig.deliveries(600 * MILLISECOND, Wake()) == both
    assert rig.of(Resent) == [Resent(0, ADDRESS, "mail/0:1", name) for name in ("counter", "sorter")] * 2
    ack(rig, 700 * MILLISECOND, offset=1)
    assert rig.deliveries(MINUTE_US, Wake()) == []


def test_a_repeated_or_unknown_ack_changes_nothing() -> None:
    rig = running()
    rig.at(0, letter(0, timestamp=5))
    ack(rig, 10, offset=0)
    before = len(rig.history)
    ack(rig, 11, offset=0)
    rig.at(11, Ack("counter", ("mail/0:77",)))
    assert len(rig.history) == before


# Ownership (7.1)


def beats_of(rig: Rig, now: int) -> list[Effect]:
    """Return the heartbeats that it sends when it wakes."""
    sends = [effect for effect in rig.at(now, Wake()) if isinstance(effect, Send)]
    return [effect for effect in sends if isinstance(effect.message, Heartbeat)]


def owing_of(rig: Rig, now: int) -> tuple[tuple[str, int], ...]:
    """Return the debts that it reports to the masters in its heartbeat."""
    beat, same = beats_of(rig, now)
    assert isinstance(beat, Send)
    assert isinstance(same, Send)
    assert beat.message == same.message
    assert isinstance(beat.message, Heartbeat)
    return beat.message.owing


def test_a_record_without_an_owner_waits_for_a_table_and_its_first_sending_is_no_retry() -> None:
    rig = running(table=Table())
    assert rig.deliveries(0, letter(0, timestamp=5)) == []
    assert rig.deliveries(200 * MILLISECOND, Wake()) == []
    owners = [("worker-1", "counter", "mail/0:0"), ("worker-91", "sorter", "mail/0:0")]
    assert rig.deliveries(201 * MILLISECOND, table_of()) == owners
    assert rig.of(Resent) == []
    assert rig.deliveries(401 * MILLISECOND, Wake()) == owners
    assert len(rig.of(Resent)) == 2


def test_a_new_owner_gets_what_is_pending_at_once_and_an_older_table_changes_nothing() -> None:
    rig = running()
    rig.at(0, letter(0, timestamp=5))
    assert rig.deliveries(10, table_of(version=3, counter=2)) == [("worker-2", "counter", "mail/0:0")]
    assert rig.of(Resent) == [Resent(0, ADDRESS, "mail/0:0", "counter")]
    assert rig.deliveries(11, table_of(version=2, counter=1)) == []
    assert rig.deliveries(12, letter(1, timestamp=5))[0] == ("worker-2", "counter", "mail/0:1")


def test_a_retiring_computation_gets_nothing_new_and_its_debts_are_reported_to_the_masters() -> None:
    """A record is pending when "counter" retires. It is sent until it is ACKed, and every heartbeat says so."""
    rig = running(pipeline_of(), pipeline_of(counted=False))
    rig.at(0, letter(0, timestamp=5))
    rig.at(1, table_of(version=2, topology=1, retiring=("counter",)))
    assert rig.of(VersionAdopted) == [VersionAdopted(0, ADDRESS, 1)]
    assert rig.deliveries(2, letter(1, timestamp=5)) == [("worker-91", "sorter", "mail/0:1")]
    period_us = rig.options.heartbeat_period_us
    owing = (("counter", 1),)
    assert beats_of(rig, period_us) == [
        Send(master, Heartbeat(ADDRESS, 1, 2, owing=owing, is_worker=False))
        for master in ("master-0", "master-1")
    ]
    rig.at(period_us, Ack("counter", ("mail/0:0",)))
    assert owing_of(rig, 2 * period_us) == ()


COUNTER_RETIRES = table_of(version=2, topology=1, retiring=("counter",))


def retiring_rig(*, replayed: bool, table: Table = COUNTER_RETIRES, skew_limit_us: int | None = None) -> Rig:
    """A successor, which reads again from offset 0."""
    topologies = (
        pipeline_of(skew_limit_us=skew_limit_us),
        pipeline_of(counted=False, skew_limit_us=skew_limit_us),
    )
    return running(*topologies, epoch=2, table=table, replayed=replayed)


def test_a_retiring_computation_is_owed_what_is_read_again_and_nothing_that_is_read_after() -> None:
    """A predecessor may have died before "counter", which retires, had ACKed what it sent."""
    rig = retiring_rig(replayed=False)
    assert rig.deliveries(1, letter(0, timestamp=5)) == [
        ("worker-91", "sorter", "mail/0:0"),
        ("worker-1", "counter", "mail/0:0"),
    ]
    assert rig.at(2, Replayed()) == []
    assert rig.deliveries(3, letter(1, timestamp=5)) == [("worker-91", "sorter", "mail/0:1")]


def test_a_retiring_computation_is_not_owed_a_stream_that_it_did_not_consume() -> None:
    rig = retiring_rig(replayed=False)
    assert rig.deliveries(1, letter(0, timestamp=5, key="k", stream="spam")) == [("outside", "", "mail/0:0")]


def test_what_is_read_again_is_keyed_by_the_retiring_computations_own_extractor() -> None:
    rig = retiring_rig(replayed=False)
    rig.at(1, letter(0, timestamp=5, city="Riva", key="p"))
    (injected,) = rig.of(Injected)
    assert isinstance(injected, Injected)
    assert [(sent.consumer, sent.key) for sent in injected.productions] == [
        ("sorter", "p"),
        ("counter", "Riva"),
    ]


def test_a_record_that_was_read_again_but_waits_for_the_slowest_is_still_owed_when_it_enters() -> None:
    """Its predecessor may have known of later watermarks (8.4), and have sent it."""
    rig = retiring_rig(replayed=False, skew_limit_us=100)
    rig.at(0, broadcast(1_000))
    rig.at(1, letter(0, timestamp=1_200))
    rig.at(2, Replayed())
    rig.at(3, letter(1, timestamp=1_201))
    assert rig.deliveries(4, broadcast(2_000)) == [
        ("worker-91", "sorter", "mail/0:0"),
        ("worker-1", "counter", "mail/0:0"),
        ("worker-91", "sorter", "mail/0:1"),
    ]


def test_a_computation_that_retires_during_a_reread_may_be_owed_some_of_it() -> None:
    """The masters must not take it for settled: what the source gives next is sent to it, too."""
    rig = retiring_rig(replayed=False)
    period_us = rig.options.heartbeat_period_us
    assert owing_of(rig, period_us) == (("counter", 1),)
    for offset in range(2):
        rig.at(period_us, letter(offset, timestamp=5))
    assert owing_of(rig, 2 * period_us) == (("counter", 2),)
    rig.at(2 * period_us, Replayed())
    ack(rig, 2 * period_us, offset=0)
    assert owing_of(rig, 3 * period_us) == (("counter", 1),)
    ack(rig, 3 * period_us, offset=1)
    assert owing_of(rig, 4 * period_us) == ()


def test_a_record_that_was_read_again_and_waits_is_owed_too() -> None:
    rig = retiring_rig(replayed=False, skew_limit_us=100)
    rig.at(0, broadcast(1_000))
    rig.at(1, letter(0, timestamp=1_200))
    rig.at(2, Replayed())
    period_us = rig.options.heartbeat_period_us
    assert owing_of(rig, period_us) == (("counter", 1),)
    rig.at(period_us, broadcast(2_000))
    ack(rig, period_us, offset=0)
    rig.at(period_us, letter(1, timestamp=9_000))  # waits, but was not read again
    assert owing_of(rig, 2 * period_us) == ()


# Malformed records


NOT_JSON = SourceRecord(0, "letters", "p", b"\xff{", 5, arrived_us=11)
NO_CITY = SourceRecord(0, "letters", "p", b"{}", 5, arrived_us=11)
NUMBER_AS_KEY = SourceRecord(0, "letters", "p", b'{"city":3}', 5, arrived_us=11)
UNKNOWN_STREAM = SourceRecord(0, "parcels", "p", b"{}", 5, arrived_us=11)
NO_TIMESTAMP = SourceRecord(0, "letters", "p", b'{"city":"Riva"}', "noon", arrived_us=11)  # type: ignore[arg-type]
END_OF_TIME = SourceRecord(0, "letters", "p", b'{"city":"Riva"}', MAX_TIME, arrived_us=11)
NO_KEY = SourceRecord(0, "letters", None, b'{"city":"Riva"}', 5, arrived_us=11)  # type: ignore[arg-type]
NO_BYTES = SourceRecord(0, "letters", "p", {"city": "Riva"}, 5, arrived_us=11)  # type: ignore[arg-type]

MALFORMED = [
    pytest.param(NOT_JSON, "cannot read this value", id="bytes that the codec cannot read"),
    pytest.param(NO_CITY, "KeyError: 'city'", id="key extractor fails"),
    pytest.param(NUMBER_AS_KEY, r"returned 3 \(int\)", id="key extractor returns a number"),
    pytest.param(UNKNOWN_STREAM, "not among its outputs", id="a stream that is not its own"),
    pytest.param(NO_TIMESTAMP, "timestamp 'noon' is not an int", id="timestamp of another type"),
    pytest.param(END_OF_TIME, "is not an int of microseconds", id="timestamp at the end of time"),
    pytest.param(NO_KEY, "key None is not a str", id="key of another type"),
    pytest.param(NO_BYTES, "is not bytes", id="value that was not encoded"),
]


@pytest.mark.parametrize(("record", "reason"), MALFORMED)
def test_a_malformed_record_stops_the_run_with_its_place_in_the_source(
    record: SourceRecord, reason: str
) -> None:
    rig = running()
    (halt,) = rig.at(11, record)
    assert isinstance(halt, Halt)
    assert isinstance(halt.error, MalformedRecordError)
    assert (halt.error.injector, halt.error.stream, halt.error.offset) == (ADDRESS, record.stream, 0)
    with pytest.raises(MalformedRecordError, match=reason):
        raise halt.error
    assert rig.of(Injected) == []
    assert rig.at(12, letter(1, timestamp=5)) == []


@pytest.mark.parametrize(("record", "reason"), MALFORMED)
def test_a_malformed_record_goes_to_the_dead_letters_and_its_offset_is_consumed(
    record: SourceRecord, reason: str
) -> None:
    rig = running(pipeline_of(dead_letters="rejected"))
    (sent,) = rig.at(900, record)
    assert isinstance(sent, Send)
    assert isinstance(sent.message, Deliver)
    rejected = sent.message.production
    assert (sent.to, rejected.record_id, rejected.stream, rejected.origin) == (
        "outside",
        "mail/0:0",
        "rejected",
        11,
    )
    assert rig.of(DeadLettered) == [DeadLettered(0, ADDRESS, "mail", "mail/0:0", "rejected")]
    assert rig.of(Injected) == [Injected(0, ADDRESS, 0, MIN_TIME, (rejected,))]
    assert rig.deliveries(12, letter(1, timestamp=5))[0] == ("worker-1", "counter", "mail/0:1")


def test_a_dead_letter_has_all_that_the_record_had_and_why_it_was_refused() -> None:
    rig = running(pipeline_of(dead_letters="rejected"))
    (sent,) = rig.at(11, NOT_JSON)
    assert isinstance(sent, Send)
    assert isinstance(sent.message, Deliver)
    assert sent.message.production.timestamp == 5
    content = json.loads(sent.message.production.value)
    assert "cannot read" in content.pop("error")
    assert base64.b64decode(content.pop("value")) == NOT_JSON.value
    assert content == {"injector": ADDRESS, "stream": "letters", "offset": 0, "key": "p", "timestamp": 5}


def test_without_a_time_it_has_that_of_its_arrival_however_often_it_is_read_and_waits_for_nobody() -> None:
    record = letter(0, timestamp=MAX_TIME, arrived_us=700)
    for promised in (0, 300):
        rig = running(
            pipeline_of(dead_letters="rejected", skew_limit_us=100), journaled=Progress(promised, promised)
        )
        (sent,) = rig.at(900, record)
        assert isinstance(sent, Send)
        assert isinstance(sent.message, Deliver)
        assert sent.message.production.timestamp == 700


def test_a_dead_letter_that_cannot_be_keyed_either_stops_the_run() -> None:
    pipeline = pipeline_of(dead_letters="rejected")
    pipeline.add(Computation(), name="clerk", inputs={"rejected": lambda record: record.value["city"]})
    rig = running(pipeline)
    (halt,) = rig.at(11, NOT_JSON)
    assert isinstance(halt, Halt)
    assert "key extractor of computation 'clerk'" in str(halt.error)


def test_a_key_extractor_that_changes_its_record_affects_no_other() -> None:
    def tear(record: Record) -> str:
        city: str = record.value.pop("city")
        return city

    pipeline = Pipeline("post")
    pipeline.injector("mail", outputs=["letters"])
    pipeline.add(Computation(), name="counter", inputs={"letters": tear})
    pipeline.add(Computation(), name="sorter", inputs={"letters": tear})
    assert len(running(pipeline).deliveries(0, letter(0, timestamp=5))) == 2


# The whole table


EXAMPLES: dict[type, Event] = {
    Start: Start(1),
    Wake: Wake(),
    SourceRecord: letter(0, timestamp=1),
    SourceWatermark: SourceWatermark(0, 1),
    Replayed: Replayed(),
    Ack: Ack("counter", ("mail/0:9",)),
    Table: table_of(),
    Watermarks: broadcast(1),
    Peeked: Peeked(0, 0, 0),
    Claimed: Claimed(0, 1, (), 0, Table()),
    Journaled: Journaled(0),
    Refused: Refused(0, 0),
    Unavailable: Unavailable(0),
    # Inputs that no injector ever receives.
    Replay: Replay(0),  # type: ignore[dict-item]
    Heartbeat: Heartbeat(ADDRESS, 1, 1),
}
DECLARED: dict[Phase, set[type]] = {
    Phase.NEW: {Start},
    **dict.fromkeys(
        (Phase.PEEKING, Phase.CLAIMING, Phase.RUNNING, Phase.FENCED, Phase.HALTED),
        set(EXAMPLES) - {Start, Replay, Heartbeat},
    ),
}


def in_phase(phase: Phase) -> Rig:
    rig = Rig()
    if phase is not Phase.NEW:
        rig.at(0, Start(1))
    if phase not in {Phase.NEW, Phase.PEEKING}:
        rig.at(0, Peeked(FIRST_REQUEST, 0, 0))
    if phase in {Phase.RUNNING, Phase.FENCED, Phase.HALTED}:
        rig.at(0, Claimed(CLAIM, 1, (), 0, table_of()))
    if phase is Phase.FENCED:
        rig.at(0, letter(0, timestamp=1))
        rig.at(JOURNAL_US, Wake())
        rig.at(JOURNAL_US, Refused(JOURNAL, 2))
    if phase is Phase.HALTED:
        rig.at(0, NOT_JSON)
    assert rig.injector.phase is phase
    return rig


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.value)
def test_each_input_in_each_phase_is_declared_or_raises(phase: Phase, kind: type) -> None:
    rig = in_phase(phase)
    assert ((phase, kind) in TRANSITIONS) == (kind in DECLARED[phase])
    if kind not in DECLARED[phase]:
        with pytest.raises(AssertionError, match=f"mail/0 is {phase.value} and got {kind.__name__}"):
            rig.at(JOURNAL_US, EXAMPLES[kind])
        return
    effects = rig.at(JOURNAL_US, EXAMPLES[kind])
    assert rig.injector.phase in TRANSITIONS[phase, kind].leads_to
    if phase in {Phase.FENCED, Phase.HALTED}:
        assert effects == []


def test_the_table_has_no_other_inputs() -> None:
    assert {kind for _, kind in TRANSITIONS} == EXAMPLES.keys() - {Replay, Heartbeat}
