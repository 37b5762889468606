"""Most runs of a search are on small parts of its inputs, which accuse nobody who means whole inputs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from random import Random

import msgspec
import pytest

from headrace import MAX_TIME, MILLISECOND, SECOND, Computation, Context, Pipeline, Record
from headrace.wire.effects import SourceRecord, SourceWatermark
from headrace_properties.explain.descriptions import input_lines
from headrace_properties.promises import Promise, at_end
from headrace_properties.proof.mutants import CATALOGUE, Probe
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import JudgedRun, try_plan
from headrace_properties.search.small_parts import (
    MIDDLE,
    SMALL,
    WHOLE,
    InputPart,
    draw_part,
    meetings_in,
    says_nothing,
    size_of,
)
from headrace_properties.search.steering import FEEDS, Steering
from headrace_properties.search.strategy import search
from headrace_properties.search.verification import Verification
from headrace_properties.verdict import Holds, Verdict, Violated
from headrace_sim import Feed, FeedBuilder


class Count(Computation):
    """Count the letters of a city."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state["letters"] = context.state.get("letters", 0) + 1
        context.produce("counts", {"city": context.key, "letters": context.state["letters"]})


def letters() -> Pipeline:
    pipeline = Pipeline("letters")
    pipeline.injector("mail", outputs=["mail", "parcels"])
    by_city = {stream: lambda record: record.value["city"] for stream in ("mail", "parcels")}
    pipeline.add(Count(), name="count", inputs=by_city, outputs=["counts"])
    return pipeline


PIPELINE = letters()
CITIES = ("Riva", "Lovere", "Iseo")


def feed(seed: int, records: int = 30) -> Feed:
    random, builder = Random(seed), FeedBuilder(PIPELINE)
    for number in range(records):
        at_us = (number + 1) * SECOND
        stream = random.choice(["mail", "parcels"])
        builder.record(at_us=at_us, value={"city": random.choice(CITIES)}, timestamp=at_us, stream=stream)
        builder.watermark(at_us=at_us, low_watermark=at_us - SECOND // 2)
        builder.watermark(at_us=at_us, low_watermark=at_us)
    return builder.build()


def records_of(of: Feed) -> list[SourceRecord]:
    return [entry.event for entry in of.entries if isinstance(entry.event, SourceRecord)]


def test_closer_arrivals_are_the_same_records_with_the_last_watermark_before_each() -> None:
    whole = feed(1, 4)
    closer = whole.closer(50 * MILLISECOND)
    assert [record.value for record in records_of(closer)] == [record.value for record in records_of(whole)]
    assert [record.timestamp for record in records_of(closer)] == [k * SECOND for k in (1, 2, 3, 4)]
    times = [entry.at_us for entry in closer.entries if isinstance(entry.event, SourceRecord)]
    assert times == [SECOND, *(SECOND + k * 50 * MILLISECOND for k in (1, 2, 3))]
    watermarks = [
        entry.event.low_watermark for entry in closer.entries if isinstance(entry.event, SourceWatermark)
    ]
    assert watermarks == [SECOND, 2 * SECOND, 3 * SECOND, MAX_TIME]
    assert whole.closer(SECOND).end_us == whole.end_us


def test_records_of_one_key_meet_whatever_their_stream() -> None:
    whole = feed(3)
    records = records_of(whole)
    cities = [PIPELINE.codec(record.stream).decode(record.value)["city"] for record in records]
    meetings = meetings_in(PIPELINE, whole)
    for number, city in enumerate(cities):
        assert sorted(other for other, _ in meetings[number]) == [
            other for other, theirs in enumerate(cities) if theirs == city and other != number
        ]
    drawn = [draw_part(Random(seed), 0, 30, meetings, middle=False).kept or () for seed in range(200)]
    assert {len(kept) for kept in drawn} == set(SMALL)
    of_one_city = [kept for kept in drawn if len({cities[number] for number in kept}) == 1]
    assert len(of_one_city) > 140
    both = [kept for kept in of_one_city if len({records[number].stream for number in kept}) == 2]
    assert len(both) > 60
    middle = [draw_part(Random(seed), 0, 30, meetings, middle=True).kept or () for seed in range(50)]
    assert {len(kept) for kept in middle} == set(MIDDLE)


def test_a_record_that_cannot_be_keyed_meets_none() -> None:
    builder = FeedBuilder(PIPELINE)
    for number, data in enumerate([b'{"city":"Riva"}', b"{", b'{"city":"Riva"}']):
        builder.raw(at_us=number, data=data, timestamp=number, stream="mail")
    assert meetings_in(PIPELINE, builder.build()) == {0: [(2, "mail")], 2: [(0, "mail")]}


def test_each_input_has_its_turn_early_and_most_runs_are_small() -> None:
    steering = Steering(Application((PIPELINE,), feed))
    early = [trial for _ in range(2) for trial in steering.round(Counter())][: 3 * FEEDS]
    assert {trial.feed_seed for trial in early if trial.kept is None} == set(range(FEEDS))
    assert sum(trial.kept is not None and len(trial.kept) <= max(SMALL) for trial in early) == 2 * FEEDS


def test_a_search_says_what_share_each_size_got() -> None:
    found = search(Steering(Application((PIPELINE,), feed)), examples=80)
    assert found.failure is None
    assert found.sizes.keys() == {WHOLE, "1 to 5 records", "6 to 12 records"}
    assert found.sizes.total() == found.runs + found.idle
    assert found.sizes["1 to 5 records"] > found.sizes[WHOLE] > found.sizes["6 to 12 records"]
    assert found.sizes_events.total() == found.events
    assert search(Steering(Application((PIPELINE,), feed), small_first=False), examples=8).sizes.keys() == {
        WHOLE
    }


@at_end
def every_city_has_letters(moment: object) -> bool:
    """Each city has a letter: true of whole inputs alone."""
    return set(moment.states("count")) == set(CITIES)  # type: ignore[attr-defined]


@at_end
def many(moment: object) -> bool:
    """A promise that fails, and breaks none, on small inputs."""
    return moment.inputs("mail")[4] is not None  # type: ignore[attr-defined]


@pytest.mark.parametrize("promise", [every_city_has_letters, many], ids=lambda promise: promise.name)
def test_a_promise_about_whole_inputs_is_not_broken_by_a_part(promise: Promise) -> None:
    application = Application((PIPELINE,), feed, (promise,))
    found = search(Steering(application), examples=60)
    assert found.failure is None
    assert found.sizes[WHOLE] > 20
    part = InputPart(0, (0, 1), 50 * MILLISECOND)
    steering = Steering(application)
    judged = next(iter(steering._run([part.healthy(steering.usual)])))
    assert says_nothing(judged, application)


def test_what_breaks_on_a_part_is_reported_with_the_times_of_the_input_if_it_breaks_then() -> None:
    application, protocol = Application((PIPELINE,), feed), CATALOGUE["no recovery scan"].protocol(Probe())
    first: list[PipelineTrial] = []

    def note(found: Verification) -> None:
        if found.failure is not None:
            first.append(found.failure.trial)

    found = search(Steering(application, protocol=protocol), examples=60, on_run=note)
    assert found.failure is not None
    assert size_of(first[0]) == "1 to 5 records"
    assert found.failure.kept is not None
    own_times = msgspec.structs.replace(found.failure.trial, gap_us=None)
    again = try_plan(application, own_times, protocol)
    assert found.failure.gap_us is None or not again.broken.keys() & found.failure.violations.keys()
    told = "\n".join(input_lines(replace(found.failure, gap_us=50 * MILLISECOND), application))
    assert "arrive at most 0.050000s apart" in told
    assert "arrive at most" not in "\n".join(input_lines(replace(found.failure, gap_us=None), application))


@pytest.mark.parametrize(
    ("broken", "with_own_times", "undisturbed", "fails"),
    [
        (many.name, False, False, False),
        (many.name, True, False, True),
        (many.name, True, True, False),
        ("S6", False, False, True),
    ],
)
def test_a_promise_must_break_with_the_times_of_the_input_and_an_invariant_need_not(
    broken: str,
    with_own_times: bool,  # noqa: FBT001
    undisturbed: bool,  # noqa: FBT001
    fails: bool,  # noqa: FBT001
) -> None:
    """Runs on parts break something; those with the input's own times if so wished, and there without a fault if so wished."""

    def run(trials: Sequence[PipelineTrial]) -> Iterator[JudgedRun]:
        for trial in trials:
            own_times = trial.gap_us is None
            strikes = trial.kept is not None and (
                bool(trial.plan.faults.count) or (undisturbed and own_times)
            )
            wrong = strikes and (with_own_times or not own_times)
            verdicts: dict[str, Verdict] = {broken: Violated("broken", ()) if wrong else Holds(1)}
            yield JudgedRun(verdicts, {}, Counter(), Counter(), 1, "")

    judged = [
        pair
        for batch in islice(Steering(Application((PIPELINE,), feed, (many,))).batches(run), 3)
        for pair in batch
    ]
    assert any(trial.kept for trial, _ in judged)
    assert any(outcome.failed for _, outcome in judged) == fails
    failing = [trial for trial, outcome in judged if outcome.failed]
    assert {trial.gap_us is None for trial in failing} == ({broken == many.name} if fails else set())
