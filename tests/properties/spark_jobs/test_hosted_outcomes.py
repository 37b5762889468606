"""What a pipeline on Spark comes to, as its sink has it, compared with the reference."""

from collections import Counter

import pytest

from headrace.spark.hosting import history_export as _export
from headrace_properties.findings import FindingClass
from headrace_properties.promises import Moment, at_end
from headrace_properties.reference import run_reference
from headrace_properties.search.application import Application
from headrace_properties.spark_jobs.hosted_outcomes import HostedOutcome, Row, TrialReader, outcome_of
from headrace_properties.spark_jobs.laboratory import laboratory_on
from headrace_properties.spark_jobs.named_targets import hosted_target
from headrace_properties.user_code.habits import Habit
from headrace_scenarios.chaos import turnstiles
from headrace_sim import FeedSource
from headrace_sim.spark.laboratory.hosted import OUTPUTS
from headrace_sim.spark.sinks.trial_contents import Item
from tests.spark.microbatches import run_in_batches

EXPECTED = run_reference(turnstiles.pipeline, turnstiles.feed(0))


def healthy() -> list[Row]:
    """What a sink has after a run without faults."""
    running = run_in_batches(turnstiles.pipeline, turnstiles.feed(0), [40, 7], intervals=2, history=True)
    rows: list[Row] = [
        (output.stream, output.key, output.value, output.timestamp) for output in running.outputs.elements()
    ]
    return rows + [(None, None, event, None) for event in running.events]


def messages(outcome: HostedOutcome) -> list[str]:
    return [finding.message for finding in outcome.findings(EXPECTED)]


def problems(rows: list[Row]) -> list[str]:
    return messages(outcome_of(turnstiles.pipeline, rows))


def test_a_run_as_it_should_be_holds() -> None:
    found = outcome_of(turnstiles.pipeline, healthy(), turnstiles.promises)
    assert messages(found) == []
    assert [*found.unknown(())] == []
    assert found.note.startswith("156 outputs and 9 states were compared with the reference; ")


def test_a_lost_output_is_found() -> None:
    rows = healthy()
    index = next(number for number, row in enumerate(rows) if row[0] is not None)
    assert problems(rows[:index] + rows[index + 1 :]) == ["outputs: 1 missing, 0 extra, 155 as expected"]


def test_a_difference_may_be_a_question_and_a_violation_may_not() -> None:
    found = outcome_of(turnstiles.pipeline, [row for row in healthy() if row[0] != "passed"][:-3])
    classes = {
        finding.kind.name: finding.finding_class
        for finding in found.findings(EXPECTED, FindingClass.UNDECLARED)
    }
    assert classes.pop("outputs") is classes.pop("states") is FindingClass.UNDECLARED
    assert set(classes.values()) == {FindingClass.VIOLATED}


def test_an_output_that_came_twice_is_found() -> None:
    rows = healthy()
    index = next(number for number, row in enumerate(rows) if row[0] is not None)
    assert problems([*rows, rows[index]]) == ["outputs: 0 missing, 1 extra, 156 as expected"]


def test_a_lost_micro_batch_is_found_in_states_and_invariants() -> None:
    rows = healthy()
    batches = {row[2]: _export._decode(row[2]).batch for row in rows if row[0] is None}
    numbers = sorted(set(batches.values()))
    lost = {numbers[len(numbers) // 2], numbers[-1]}
    left = [row for row in rows if row[0] is not None or batches[row[2]] not in lost]
    kinds = [finding.kind.name for finding in outcome_of(turnstiles.pipeline, left).findings(EXPECTED)]
    assert kinds[0] == "states"
    assert any(kind.startswith("S") for kind in kinds[1:])


def test_a_promise_that_is_broken_is_found_and_one_that_nothing_exercised_is_unknown() -> None:
    @at_end
    def nobody_passes(moment: Moment) -> None:
        assert not moment.outputs("hall_counts")

    (finding,) = outcome_of(turnstiles.pipeline, healthy(), [nobody_passes]).findings(EXPECTED)
    assert finding.kind.title == "the promise nobody_passes"
    silent = outcome_of(turnstiles.pipeline, [], [nobody_passes])
    assert [told.partition(":")[0] for told in silent.unknown(())] == ["promise nobody_passes"]
    assert [*silent.unknown(["nobody_passes"])] == []


def test_states_that_a_job_has_stored_are_compared() -> None:
    rows = [row for row in healthy() if row[0] is not None]
    whole, (lost, *_) = {name: bytes(state) for name, state in EXPECTED.states.items()}, EXPECTED.states
    assert messages(outcome_of(turnstiles.pipeline, rows, stored=whole)) == []
    rest = {name: state for name, state in whole.items() if name != lost}
    found = messages(outcome_of(turnstiles.pipeline, rows, stored=rest))
    assert found == ["states: 1 of 9 differ from the reference"]


@pytest.mark.parametrize("once", [None, True, False])
def test_what_the_source_promises_is_heeded_on_spark_as_in_the_cluster(once: bool | None) -> None:
    source = FeedSource(once=once)
    application = Application((turnstiles.pipeline,), turnstiles.feed, source=source)
    laboratory = laboratory_on("spark")
    assert laboratory is not None
    target = hosted_target("headrace_scenarios.chaos.turnstiles:pipeline", application, 0, laboratory)
    assert target.job.declares.source == source
    assert target.laboratory is not None
    assert target.laboratory.reader is not None
    findings = [*target.laboratory.reader.of_source(source)]
    assert [finding.kind for finding in findings] == [Habit.COUNTS_AGAIN.kind] * (once is False)
    assert all(finding.trial is None for finding in findings)


def test_trials_are_compared_by_outputs_states_and_violations_and_not_by_ids_and_times() -> None:
    names = ("stream", "key", "value", "timestamp", "record_id")
    table: list[Item] = [
        tuple((name, repr(value)) for name, value in zip(names, (*row, f"id {number}"), strict=True))
        for number, row in enumerate(healthy())
    ]
    read = TrialReader(turnstiles.pipeline, (), turnstiles.feed(0), EXPECTED)
    whole = read({OUTPUTS: table, "log": ["a line"]})
    assert {name: len(items) for name, items in whole.items()} == {
        "log": 1, "outputs": 156, "states": 9, "violated": 0,
    }  # fmt: skip
    assert read.first is not None
    assert messages(read.first) == []
    without_ids: list[Item] = [item[:-1] for item in table if isinstance(item, tuple)]
    again = read({OUTPUTS: without_ids[::-1]})
    assert all(Counter(again[name]) == Counter(whole[name]) for name in ("outputs", "states"))
    lost = read({OUTPUTS: table[:-5]})
    assert lost["states"] != whole["states"] or lost["violated"]
    assert read({"own.db: counts": table}) == {"own.db: counts": table}
