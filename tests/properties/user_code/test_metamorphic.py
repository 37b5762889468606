"""Runs that must have the same outcome do; broken relations are reported; inapplicable ones are Unknown."""

import zlib
from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import msgspec
import pytest

from headrace import (
    MAX_TIME,
    MILLISECOND,
    SECOND,
    Computation,
    Context,
    DeadLetter,
    Pipeline,
    Productions,
    Record,
    Timer,
    TypedCodec,
    same_key,
)
from headrace.store.mediator import Mediator
from headrace.wire.effects import SourceRecord
from headrace.worker.soft_state import SoftState
from headrace_properties.proof.workloads import WORKLOADS, Echo, Refusing, Workload, city
from headrace_properties.reference import Emitted, RunResult
from headrace_properties.shrinking import Budget, fewest
from headrace_properties.user_code.comparison import without_ids
from headrace_properties.user_code.examiner import examine
from headrace_properties.user_code.feeds import has_late_records, permuted
from headrace_properties.user_code.metamorphic import ARRIVAL, REFERENCE, REPLAY, Relation, RunSetup
from headrace_properties.user_code.reexecution import check_replay
from headrace_properties.user_code.review import review
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated
from headrace_scenarios import zeitgeist
from headrace_sim import ClusterOptions, Constant, Feed, FeedBuilder, simulate
from tests.properties.user_code.engine_relations import RELATIONS, check_relations
from tests.sim.rig import letters, mail, with_engine

SKEWED = ClusterOptions(clock_skew=Constant(1_000))
NAMES = {relation.name for relation in RELATIONS} | {REFERENCE, REPLAY}


def kinds(verdicts: dict[str, Verdict]) -> dict[str, type[Verdict]]:
    return {name: type(verdict) for name, verdict in verdicts.items()}


def broken(verdicts: dict[str, Verdict]) -> set[str]:
    return {name for name, verdict in verdicts.items() if isinstance(verdict, Violated)}


SETTLED = {name: workload for name, workload in WORKLOADS.items() if workload.settled}
"""What others come to depends on the order of arrival, the clock, or faults: no relation is promised."""


@pytest.mark.parametrize("workload", SETTLED.values(), ids=SETTLED)
def test_no_relation_is_broken_on_a_workload(workload: Workload) -> None:
    found = check_relations(workload.pipeline, workload.feed(1), options=workload.options)
    assert found.keys() == NAMES
    assert broken(found) == set(), found


def test_every_relation_holds_for_code_that_keeps_to_its_context() -> None:
    assert kinds(check_relations(mail(), letters(mail(), 20))) == dict.fromkeys(NAMES, Holds)


def late_refusal() -> Workload:
    """Its second stage sends some records to the dead letters, and a letter has the id that the first stage gave."""
    pipeline = Pipeline("late refusal")
    pipeline.injector("letters")
    pipeline.add(Echo("sent"), name="senders", inputs=["letters"], outputs=["sent"])
    pipeline.add(
        Refusing(), name="readers", inputs={"sent": city}, outputs=["read", "unread"], on_failure=DeadLetter("unread"),
    )  # fmt: skip

    def feed(seed: int) -> Feed:
        builder = FeedBuilder(pipeline)
        for number in range(6):
            at_us = (number + seed) * 100 * MILLISECOND
            builder.record(at_us=at_us, value=number, timestamp=at_us, key=("ab", "ba")[number % 2])
        builder.watermark(at_us=SECOND, low_watermark=SECOND)
        return builder.build()

    return Workload("late refusal", pipeline, feed)


@pytest.mark.parametrize("workload", [late_refusal(), WORKLOADS["slips"]], ids=lambda relation: relation.name)
@pytest.mark.parametrize("seed", range(1, 4))
def test_a_dead_letter_may_name_what_failed_by_another_id(workload: Workload, seed: int) -> None:
    found = check_relations(workload.pipeline, workload.feed(seed), options=workload.options)
    assert kinds(found) == dict.fromkeys(NAMES, Holds)


class Reader(Computation):
    """Keeps and emits all fields of a record."""

    def process_record(self, context: Context, record: Record) -> None:
        if record.value == "refused":
            raise ValueError(f"{record.stream} {record.record_id}")
        said = [record.stream, record.record_id, record.key, record.timestamp, record.late]
        context.state[record.record_id] = said
        context.produce("read", said)


def initial(record: Record) -> str:
    if record.value == "no key":
        raise ValueError(f"{record.value} on {record.stream}")
    return str(record.value)[:1]


def test_an_identity_changes_nothing_that_user_code_sees() -> None:
    """Neither streams nor ids, and a record fails in the same place: in user code, at a key extractor, at a codec."""
    pipeline = Pipeline("readers")
    for name in ("left", "right"):
        pipeline.injector(name, on_malformed=DeadLetter("malformed"))
    pipeline.add(
        Reader(),
        name="readers",
        inputs={"left": initial, "right": same_key},
        outputs=["read"],
        on_failure=DeadLetter("unread"),
    )
    builder = FeedBuilder(pipeline)
    for number, value in enumerate([b'"a"', b'"refused"', b'"no key"', b"not JSON"]):
        at_us = (number + 1) * 100 * MILLISECOND
        for name in ("left", "right"):
            builder.raw(at_us=at_us, injector=name, data=value, timestamp=at_us, key="k")
    (depth,) = [relation for relation in RELATIONS if relation.name == "depth"]
    found = check_relations(pipeline, builder.build(), relations=[depth])
    assert isinstance(found["depth"], Holds), found


def test_a_different_error_in_a_dead_letter_is_reported() -> None:
    workload = late_refusal()
    text = b'{"cause":"x@1.1#0","stream":"identity of sent","error":"no <Order object at 0x7f01>"}'
    letter = Emitted("unread", "ab", text, 0)
    outcomes = [
        without_ids(RunResult(Counter([msgspec.structs.replace(letter, value=value)]), {}), workload.pipeline)
        for value in (
            text,
            text.replace(b"x@1.1#0", b"x@2.7#1"),
            text.replace(b"0x7f01", b"0x7f02"),
            text.replace(b"no", b"yes"),
        )
    ]
    assert outcomes[0] == outcomes[1] == outcomes[2] != outcomes[3]


def test_dead_letters_of_an_injector_accuse_nothing() -> None:
    """They name the offset of their record, which another order changes."""
    pipeline = Pipeline("unread")
    pipeline.injector("letters", on_malformed=DeadLetter("unread"))
    pipeline.add(Computation(), name="sink", inputs=["letters"])
    builder = FeedBuilder(pipeline)
    for number in range(6):
        builder.raw(at_us=number, data=b"{" if number % 2 else b"1", timestamp=number, key="a")
    found = check_relations(pipeline, builder.build())
    assert {name for name, verdict in found.items() if isinstance(verdict, Violated)} == set()
    assert isinstance(found[ARRIVAL], Holds)


def test_differences_due_to_a_late_record_accuse_nothing() -> None:
    feed = zeitgeist.feed(2)
    found = check_relations(zeitgeist.pipeline, feed)
    assert has_late_records(feed)
    assert broken(found) == set()
    assert isinstance(found["faults"], Unknown)
    assert "the source delivers late records" in found["faults"].why


def test_without_records_nothing_is_known() -> None:
    feed = letters(mail(), 5).only([])
    assert set(kinds(check_relations(mail(), feed)).values()) == {Unknown}


def test_duplicated_input_proves_nothing_without_exactly_once() -> None:
    pipeline = mail(exactly_once=False)
    assert kinds(check_relations(pipeline, letters(pipeline, 10)))["duplicates"] is Unknown


# What breaks them


class Newest(Computation):
    """Depends on the order of arrival."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state = record.value


class Adder(Computation):
    """Adds up in its state."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state["sum"] = context.state.get("sum", 0) + record.value


class SumOnSelf(Computation):
    """Shares what it counts between keys, and between one run of a step and the next."""

    def __init__(self) -> None:
        self.total = 0

    def process_record(self, context: Context, record: Record) -> None:
        self.total += record.value
        context.state = self.total


def planted(computation: Computation) -> tuple[Pipeline, Feed]:
    """Numbers of two keys, all before one watermark."""
    pipeline = Pipeline("planted")
    pipeline.injector("in")
    pipeline.add(computation, name="planted", inputs=["in"])
    builder = FeedBuilder(pipeline)
    for number in range(12):
        builder.record(
            at_us=(300 + number * 10) * MILLISECOND, value=number + 1, timestamp=number, key="ab"[number % 2]
        )
    return pipeline, builder.build()


def test_dependence_on_the_order_of_arrival_excuses_the_rest() -> None:
    found = check_relations(*planted(Newest()))
    assert broken(found) == {ARRIVAL}


def race() -> tuple[Pipeline, Feed]:
    """One record each of two injectors, at one moment: no order of either's own records makes a difference."""
    pipeline = Pipeline("race")
    for name in ("left", "right"):
        pipeline.injector(name)
    pipeline.add(Newest(), name="newest", inputs=["left", "right"])
    builder = FeedBuilder(pipeline)
    for name in ("left", "right"):
        builder.record(at_us=300 * MILLISECOND, injector=name, value=name, timestamp=1, key="k")
    return pipeline, builder.build()


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_only_the_arrival_relation_excuses_others(seed: int) -> None:
    found = check_relations(*race(), seed=seed)
    excused = [
        verdict
        for verdict in found.values()
        if isinstance(verdict, Unknown) and "order of arrival" in verdict.why
    ]
    assert excused
    assert broken(found) == {ARRIVAL}


def test_a_known_dependence_on_order_is_reported_by_the_arrival_relation() -> None:
    pipeline, feed = planted(Adder())
    assert broken(check_relations(pipeline, feed, order_matters="seen elsewhere")) == {ARRIVAL}


class Inexact(Computation):
    """Adds up fractions, whose sum has other last digits in another order, and lists what it was given."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state["sum"] = context.state.get("sum", 0) + record.value / 7
        context.state["seen"] = [*context.state.get("seen", []), record.value]


def test_last_digits_of_sums_and_the_order_of_lists_in_states_count_as_the_same() -> None:
    assert broken(check_relations(*planted(Inexact()))) == set()


def test_strong_productions_need_not_do_as_well_as_weak_ones() -> None:
    found = check_relations(*planted(Adder()), relations=[replace_weak_with(Newest())])
    assert isinstance(found["weak"], Unknown)
    assert found["weak"].why.startswith("this code needs strong productions")
    assert not found["weak"].applies


def replace_weak_with(computation: Computation) -> Relation:
    """A relation of that name that cannot hold."""

    def change(setup: RunSetup) -> list[RunSetup]:
        return [replace(setup, pipeline=setup.pipeline.with_computation("planted", computation=computation))]

    return Relation("weak", "other code comes to the same", change)


def test_state_that_is_kept_outside_the_row_breaks_the_replay() -> None:
    found = check_relations(*planted(SumOnSelf()))
    assert REPLAY in broken(found)


@dataclass
class Total:
    value: float = 0.0


class IntForFloat(Computation):
    """Keeps an int where its state says float, until the state is encoded.

    Args:
        shows: whether it emits it.
    """

    def __init__(self, *, shows: bool) -> None:
        self.shows = shows

    def initial_state(self) -> Total:
        return Total(0)

    def process_record(self, context: Context, record: Record) -> None:
        if self.shows:
            context.produce("out", context.state.value)
        context.state.value = int(context.state.value) + record.value


def at_once(computation: Computation) -> tuple[Pipeline, Feed]:
    """Records that come together, and share a step and the state."""
    pipeline = Pipeline("at once")
    pipeline.injector("in")
    pipeline.add(
        computation, name="planted", inputs=["in"], outputs=["out"], ordered=True,
        state_codec=TypedCodec(Total), share_state=True,
    )  # fmt: skip
    builder = FeedBuilder(pipeline)
    for number in range(20):
        builder.record(at_us=SECOND, value=number, timestamp=SECOND + number, key="a")
    return pipeline, builder.build()


def test_a_shared_state_is_replayed_as_it_is_read_and_not_as_it_was_written() -> None:
    assert isinstance(check_relations(*at_once(IntForFloat(shows=False)))[REPLAY], Holds)
    assert isinstance(check_relations(*at_once(IntForFloat(shows=True)))[REPLAY], Violated)


def test_a_declared_order_does_not_excuse_a_step_that_is_replayed_in_its_order() -> None:
    shown = [review(*at_once(IntForFloat(shows=shows))).relations[REPLAY] for shows in (False, True)]
    assert [type(verdict) for verdict in shown] == [Holds, Violated]


class Ids(Computation):
    """Keeps and emits the ids of its records."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state[record.record_id] = record.value
        context.produce("ids", record.record_id)


class Offsets(Computation):
    """Emits the position of each record in its source, which it reads from the id."""

    def process_record(self, context: Context, record: Record) -> None:
        context.produce("ids", int(record.record_id.rpartition(":")[2]))


@pytest.mark.parametrize("computation", [Ids(), Offsets()], ids=["kept", "parsed"])
def test_ids_of_records_go_with_them_into_another_order(computation: Computation) -> None:
    pipeline = Pipeline("ids")
    pipeline.injector("in")
    pipeline.add(computation, name="planted", inputs=["in"], outputs=["ids"])
    feed = planted(Ids())[1]
    assert examine(pipeline, feed) == []
    assert kinds(check_relations(pipeline, feed)) == dict.fromkeys(NAMES, Holds)


def test_ids_of_productions_differ_from_run_to_run() -> None:
    pipeline = mail()
    pipeline.add(Ids(), name="ids", inputs=["sorted"], outputs=["ids"])
    found = check_relations(pipeline, letters(pipeline, 20))
    reference = found[REFERENCE]
    assert isinstance(reference, Unknown)
    assert reference.why.startswith("the outcome of 'ids' contains ids of productions")
    assert broken(found) == set()


class Sampling(Computation):
    """Passes on the records whose ids it likes."""

    def process_record(self, context: Context, record: Record) -> None:
        if zlib.crc32(record.record_id.encode()) % 2:
            context.produce("sampled", record.value)


def test_what_ids_of_productions_decide_is_another_outcome() -> None:
    pipeline = mail()
    pipeline.add(Sampling(), name="sampling", inputs=["sorted"], outputs=["sampled"])
    assert REFERENCE in broken(check_relations(pipeline, letters(pipeline, 20)))


def test_what_ids_of_injected_records_decide_is_the_same_in_every_run() -> None:
    pipeline = Pipeline("sampling")
    pipeline.injector("in")
    pipeline.add(Sampling(), name="planted", inputs=["in"], outputs=["sampled"])
    assert broken(check_relations(pipeline, planted(Ids())[1])) == set()


class LateAside(Computation):
    """Adds up each second's numbers, and passes on those that are late."""

    def process_record(self, context: Context, record: Record) -> None:
        if record.late:
            context.produce("late", record.value)
            return
        end = record.timestamp // SECOND * SECOND + SECOND
        context.state[str(end)] = context.state.get(str(end), 0) + record.value
        context.set_timer(str(end), at=end)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("out", context.state.pop(timer.tag))


def test_which_records_are_late_may_depend_on_their_order() -> None:
    pipeline = Pipeline("aside")
    pipeline.injector("in")
    pipeline.add(LateAside(), name="planted", inputs=["in"], outputs=["out", "late"])
    builder, random = FeedBuilder(pipeline), Random(0)
    for number in range(40):
        at_us = SECOND + number * 200 * MILLISECOND
        builder.record(
            at_us=at_us, value=number, timestamp=at_us - random.randrange(SECOND), key="ab"[number % 2]
        )
        if number % 5 == 4:
            builder.watermark(at_us=at_us, low_watermark=at_us - 250 * MILLISECOND)
    found = check_relations(pipeline, builder.build())
    arrival = found[ARRIVAL]
    assert isinstance(arrival, Unknown)
    assert arrival.why.startswith("the source delivers late records")
    assert broken(found) == set()


def test_code_that_reads_the_wall_clock_cannot_be_replayed() -> None:
    class Watcher(Computation):
        def process_record(self, context: Context, record: Record) -> None:
            context.state = context.wall_time

    assert isinstance(check_relations(*planted(Watcher()), options=SKEWED)[REPLAY], Unknown)


def test_an_engine_whose_cache_differs_from_the_rows_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that left the cache come back without their state: the relation tells by the outcome, the replay by the step."""
    read = Mediator._read

    def stateless(self: Mediator, request: Any) -> Any:
        reply: Any = read(self, request)
        if getattr(reply, "row", None) is None:
            return reply
        return msgspec.structs.replace(reply, row=msgspec.structs.replace(reply.row, state=b""))

    monkeypatch.setattr(Mediator, "_read", stateless)
    pipeline, feed = planted(Adder())
    assert "cache" in broken(check_relations(pipeline, feed))
    history = simulate(pipeline, feed, options=with_engine(cache_bytes=0))
    assert isinstance(check_replay(history, pipeline), Violated)


def test_an_engine_that_does_not_remember_ids_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    init = SoftState.__init__

    def forgetful(self: Any, *args: Any) -> None:
        init(self, *args)
        self.exactly_once = False

    monkeypatch.setattr(SoftState, "__init__", forgetful)
    pipeline = mail()
    assert broken(check_relations(pipeline, letters(pipeline, 20))) & {"duplicates", "faults"}


def test_a_pipeline_that_is_weak_already_is_held_to_the_same() -> None:
    pipeline = mail(productions=Productions.WEAK)
    assert broken(check_relations(pipeline, letters(pipeline, 20))) == set()


# Feeds


def test_a_permuted_feed_has_the_same_records_and_makes_none_late() -> None:
    feed = letters(mail(processes=2), 40)
    other = permuted(feed, Random(1))
    assert other != feed
    assert sorted(map(_content, other.entries)) == sorted(map(_content, feed.entries))
    low = dict.fromkeys({entry.address for entry in feed.entries}, -MAX_TIME)
    for entry in other.entries:
        if isinstance(entry.event, SourceRecord):
            assert entry.event.timestamp >= low[entry.address]
        else:
            low[entry.address] = entry.event.low_watermark


def _content(entry: Any) -> tuple[Any, ...]:
    event = entry.event
    return (
        (entry.address, event.value, event.timestamp)
        if isinstance(event, SourceRecord)
        else (entry.address, b"", event.low_watermark)
    )


def test_the_smallest_feed_has_what_it_takes_and_no_more() -> None:
    feed = letters(mail(), 30)

    def fails(kept: tuple[int, ...]) -> bool:
        entries = feed.only(kept).entries
        values = [entry.event.value for entry in entries if isinstance(entry.event, SourceRecord)]
        return any(b":3" in value for value in values) and any(b":17" in value for value in values)

    everything = tuple(range(feed.records))
    assert fails(everything)
    assert len(fewest(everything, fails, Budget(200))) == 2
