"""Histories that tell what the sources held: nothing of it may be lost, changed, or promised too early."""

import pytest

from headrace import MAX_TIME, Computation, DeadLetter, MalformedRecordError, Pipeline
from headrace.api.codecs import JsonCodec
from headrace.api.dead_letters import injector_letter, step_letter
from headrace.history import (
    DeadLettered,
    FaultStruck,
    Healed,
    Injected,
    KeysSampled,
    RunEnded,
    SourceHeld,
    UserCodeFailed,
)
from headrace.injector.injection import productions_of
from headrace.wire.effects import SourceRecord, SourceWatermark
from headrace.wire.rows import Production
from headrace_sim import Feed, FeedBuilder, FeedEntry, start
from headrace_sim import faults as f
from tests.properties.checkers.steps import (
    COUNT,
    QUERY,
    Row,
    Step,
    add,
    breaks,
    check,
    end,
    holds,
    inject,
    output,
    publish,
    report,
    spares,
    take,
    unknown,
    violates,
    wait,
)
from tests.properties.stories import Story, begin, counting


def letters() -> Pipeline:
    """A pipeline with dead letters for malformed queries."""
    pipeline = counting()
    pipeline.injector("mail", outputs=["mail", "bad"], on_malformed=DeadLetter("bad"))
    return pipeline


def held(offset: int, timestamp: int = 100, value: bytes = b"1") -> Step:
    """The source has a query."""
    return add(SourceHeld, "queries/0", SourceRecord(offset, "queries", "cats", value, timestamp))


def promised(low_us: int, offset: int = 9) -> Step:
    """The source promises something."""
    return add(SourceHeld, "queries/0", SourceWatermark(offset, low_us))


def mail(value: bytes) -> Step:
    """The source of the other injector has a letter."""
    return add(SourceHeld, "mail/0", SourceRecord(0, "mail", "cats", value, 100))


def to_the_bad(stream: str, offset: int = 0) -> Step:
    """The injector takes its letter for malformed, and says so of the record at an offset."""
    with pytest.raises(MalformedRecordError) as problem:
        productions_of(letters(), "mail/0", ("mail",), SourceRecord(0, "mail", "cats", b"{", 100), 0)
    letter = injector_letter("mail/0", "mail", offset, "cats", b"{", 100, str(problem.value))
    production = Production("mail/0:0", stream, "", "cats", letters().codec("bad").encode(letter), 100, 0)

    def steps(story: Story) -> None:
        add(DeadLettered, "mail/0", "mail", "mail/0:0", stream)(story)
        add(Injected, "mail/0", 0, -(2**63), (production,))(story)

    return steps


def refused() -> Story:
    """The counter leaves dead letters of what it fails on."""
    pipeline = Pipeline("refused")
    pipeline.injector("queries")
    pipeline.add(
        Computation(),
        name="counter",
        inputs=["queries"],
        outputs=["counts", "bad"],
        on_failure=DeadLetter("bad"),
    )
    return begin(pipeline)


def gives_up(*, told: bool = True, stream: str = "bad", **changes: str) -> Step:
    """The counter fails on the query, and leaves a dead letter, of which some fields are wrong."""
    right = step_letter("counter", "cats", "queries/0:0", "queries", b"1", 100, "ValueError: 1")
    letter = Production("counter@1.1#0", stream, "", "cats", JsonCodec().encode({**right, **changes}), 100, 0)

    def steps(story: Story) -> None:
        here = ("worker-0", "counter")
        add(UserCodeFailed, *here, "cats", "queries/0:0", 3, "ValueError: 1")(story)
        if told:
            add(DeadLettered, *here, "queries/0:0", "bad")(story)
        take("counter", 1, QUERY, letter)(story)

    return steps


# fmt: off
HISTORIES: dict[str, Row] = {
    "a record of the source that nobody injects is lost": (
        begin, held(0), held(1), inject(0, 100), take("counter", 1, QUERY, COUNT), end(),
        violates("S1", "the source's record at offset 1", "queries/0 never injected it")),
    "a record of the source that is injected and applied is not": (
        begin, held(0), inject(0, 100), take("counter", 1, QUERY), end(),
        holds("S1", 1)),
    "a host that does not tell of its sources is not asked": (
        begin, inject(0, 100), take("counter", 1, QUERY), end("deadline"),
        spares("S1"), spares("L2"), spares("S5")),
    "a record of the source that waits for ever does not arrive": (
        begin, held(0), held(1), inject(0, 100), take("counter", 1, QUERY), wait(100), end("deadline"),
        violates("L2", "the source's record at offset 1", "1 record in the source of queries/0")),
    "a record that is not what the source held is caught": (
        begin, held(0, value=b"2"), inject(0, 100),
        violates("S5", "the source held b'2' of 'queries'", "and b'1' of 'queries'")),
    "a record with another timestamp is caught": (
        begin, held(0, 99), inject(0, 100),
        violates("S5", "as that of offset 0")),
    "a record that the source never held is caught": (
        begin, held(0), inject(1, 100),
        violates("S5", "the source held no record there")),
    "a dead letter of a malformed record is no other record": (
        lambda: begin(letters()), mail(b"{"), to_the_bad("bad"),
        spares("S5")),
    "a dead letter that tells of another record is caught": (
        lambda: begin(letters()), mail(b"{"), to_the_bad("bad", offset=1),
        violates("S5", "its dead letter", "is not that of b'{' of 'mail'")),
    "a dead letter of a well-formed record is caught": (
        lambda: begin(letters()), mail(b"1"), to_the_bad("bad"),
        violates("S5", "it went to the dead letters, and is well formed")),
    "a dead letter in another stream is caught": (
        lambda: begin(letters()), mail(b"{"), to_the_bad("mail"),
        violates("S5", "its dead letter did not go to 'bad'")),
    "a dead letter of a step that says what failed holds": (
        refused, inject(0, 100), gives_up(),
        holds("S5"), spares("S4")),
    "a dead letter of another key is caught": (
        refused, inject(0, 100), gives_up(key="counter", computation="cats"),
        violates("S5", "gave queries/0:0 up", "is not that of key 'cats' and of the error 'ValueError: 1'")),
    "a dead letter of another record is caught": (
        refused, inject(0, 100), gives_up(value_base64="Mg=="),
        violates("S5", "is not that of key 'cats'")),
    "a dead letter that is not reported is caught": (
        refused, inject(0, 100), gives_up(told=False),
        violates("S5", "it left a dead letter that was not reported")),
    "a dead letter in another stream than the reported one is caught": (
        refused, inject(0, 100), gives_up(stream="counts"),
        violates("S5", "a dead letter was reported, and 'counts' got a record")),
    "in a sample of the keys, dead letters are not judged": (
        refused, add(KeysSampled, "", 0.5), inject(0, 100), gives_up(told=False),
        spares("S5")),
    "an injector that promises more than its source is caught": (
        begin, promised(200), report(200), spares("S12"), report(201),
        violates("S12", "queries/0 reported the low watermark 0.000201s", "not said more than 0.000200s")),
    "a watermark that stops behind the source is caught though the injector says no more": (
        begin, promised(300), report(200), publish("counter", 200), publish("detector", 200), end(),
        violates("L4", "stands at 0.000200s at the end", "its sources had reached 0.000300s")),
    "a watermark that reaches the source holds": (
        begin, promised(300), publish("counter", 300), publish("detector", MAX_TIME), end(),
        holds("L4", 2)),
    # L6
    "a healed run that stands still is caught": (
        begin, add(FaultStruck, "worker-0", "pause", ""), add(Healed, "", ()), end("deadline"),
        breaks("L6"), violates("L6", "did not come to rest")),
    "a run that comes to rest holds": (
        begin, end(),
        holds("L6", 1)),
    "a run on Spark that somebody ends need not come to rest": (
        begin, add(RunEnded, "spark", "deadline"),
        unknown("L6")),
    "a run that is not healed need not come to rest": (
        begin, add(FaultStruck, "worker-0", "pause", ""), end("deadline"),
        unknown("L6")),
}
# fmt: on


@pytest.mark.parametrize("row", HISTORIES.values(), ids=HISTORIES)
def test_checkers_give_the_expected_verdicts(row: Row) -> None:
    check(row)


def test_outputs_do_not_count_as_source_records() -> None:
    check((begin, held(0), inject(0, 100), take("counter", 1, QUERY, COUNT), output(COUNT), holds("S5")))


def feed() -> Feed:
    builder = FeedBuilder(counting())
    builder.record(at_us=400_000, value=1, timestamp=5)
    builder.record(at_us=900_000, value=2, timestamp=6)
    return builder.build()


@pytest.mark.parametrize("restart_after_us", [700_000, None])
def test_the_host_records_a_sources_contents_once_even_if_its_reader_is_down(
    restart_after_us: int | None,
) -> None:
    crash = f.Crash(at_us=600_000, process="queries/0", restart_after_us=restart_after_us)
    cluster = start(counting(), feed(), faults=f.FaultSchedule((crash,), 2_000_000))
    cluster.run_until(2_000_000)
    cluster.run_to_the_end()
    found = [FeedEntry(0, e.process, e.what) for e in cluster.history if isinstance(e, SourceHeld)]
    assert [entry.event.offset for entry in found] == [0, 1, 2]
    assert [entry.event for entry in found] == [entry.event for entry in feed().entries]
