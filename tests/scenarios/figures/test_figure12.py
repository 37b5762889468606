"""Figure 12 in its two forms: what a zombie's late write does, with and without sequencers (MillWheel 6.2)."""

import re

import msgspec
import pytest

from headrace import SECOND
from headrace import history as h
from headrace.wire.messages import Progress
from headrace_properties.verdict import Holds, Unknown
from headrace_scenarios.figures.figure12 import ZOMBIE_PRODUCTION, ZOMBIE_TIMER
from headrace_scenarios.scenario import Scenario, ScenarioRun

FORMS = {"timer": ZOMBIE_TIMER, "production": ZOMBIE_PRODUCTION}
BOTH_FORMS = pytest.mark.parametrize("scenario", FORMS.values(), ids=FORMS)


@pytest.fixture(scope="module")
def told() -> dict[tuple[str, str], ScenarioRun]:
    return {
        (form, without): scenario.run(without)
        for form, scenario in FORMS.items()
        for without in ("", "sequencers")
    }


Told = dict[tuple[str, str], ScenarioRun]


def fired(outcome: ScenarioRun, key: str) -> list[h.Executed]:
    """The timers of a key that fired, in writes that were applied."""
    applied = {(e.sequencer, e.delta.number) for e in outcome.history if isinstance(e, h.Applied)}
    return [
        e
        for e in outcome.history
        if isinstance(e, h.Executed) and e.timer and e.key == key and (e.version.sequencer, e.version.number) in applied
    ]  # fmt: skip


def due_us(outcome: ScenarioRun, sender: str) -> int:
    """When the broadcast low watermark of B's or C's sender passed the end of window 1."""
    return next(
        e.at_us
        for e in outcome.history
        if isinstance(e, h.Published) and dict(e.values).get(sender, Progress()).low_watermark >= 2 * SECOND
    )


def outputs(outcome: ScenarioRun, stream: str) -> list[object]:
    return [
        msgspec.json.decode(e.production.value)
        for e in outcome.history
        if isinstance(e, h.Output) and e.production.stream == stream
    ]


def counts(outcome: ScenarioRun) -> list[int]:
    return [output["count"] for output in outputs(outcome, "counts") if isinstance(output, dict)]


def stale_writes(outcome: ScenarioRun) -> list[h.Applied]:
    return [e for e in outcome.history if isinstance(e, h.Applied) and e.sequencer != e.live]


# The verdicts


@BOTH_FORMS
def test_with_sequencers_every_invariant_holds(scenario: Scenario) -> None:
    outcome = scenario.run()
    assert outcome.protocol == "sound"
    open_ = {name for name, verdict in outcome.verdicts.items() if not isinstance(verdict, Holds)}
    assert open_ == {"S16"}, "user code runs for its records before any watermark is known"
    assert isinstance(outcome.verdicts["S16"], Unknown)
    assert outcome.violations == {}


def test_without_them_the_lost_timer_breaks_exactly_these(told: Told) -> None:
    """A zombie wrote (S6), its successor does not know (S7), and the low watermark passed the timer (S10). Nothing is lost."""
    outcome = told["timer", "sequencers"]
    assert outcome.protocol == "without sequencers"
    assert outcome.violations.keys() == {"S6", "S7", "S10"}


def test_without_them_the_missed_production_breaks_exactly_these(told: Told) -> None:
    """The watermark and the horizon run ahead of it, so that in the end C refuses it as a remnant, and it is lost."""
    outcome = told["production", "sequencers"]
    assert outcome.violations.keys() == {"S1", "S3", "S6", "S7", "S10", "S10-horizon", "S13", "L2"}


@pytest.mark.parametrize(
    ("form", "name"), [("timer", "S6"), ("timer", "S7"), ("production", "S6"), ("production", "S7")]
)
def test_the_witness_is_the_zombies_write(told: Told, form: str, name: str) -> None:
    outcome = told[form, "sequencers"]
    (stale,) = stale_writes(outcome)
    assert stale in outcome.violations[name].witness
    assert "MillWheel 6.2" in outcome.violations[name].message


# The events


@BOTH_FORMS
def test_both_runs_are_the_same_until_the_write_arrives(scenario: Scenario, told: Told) -> None:
    form = next(name for name, form in FORMS.items() if form is scenario)
    sound, broken = (told[form, without].history.events for without in ("", "sequencers"))
    first = next(index for index, pair in enumerate(zip(sound, broken, strict=False)) if pair[0] != pair[1])
    assert isinstance(sound[first], h.WriteRefused)
    assert isinstance(broken[first], h.Applied)
    scans = [e for e in sound[:first] if isinstance(e, h.ScanEnded) and e.computation == "B"]
    assert len(scans) == 2, "B and B' have scanned before"
    assert 5 * SECOND < sound[first].at_us < 5_100_000


@pytest.mark.parametrize("form", FORMS)
def test_with_sequencers_the_late_write_is_refused_and_a_sends_again(told: Told, form: str) -> None:
    events = told[form, ""].history.events
    (refused,) = [event for event in events if isinstance(event, h.WriteRefused)]
    assert (refused.computation, refused.keys) == ("B", ("cat videos",))
    assert refused.live > refused.sequencer
    second = [e for e in events if isinstance(e, h.Executed) and e.computation == "B" and e.timer is None][-1]
    assert second.at_us > refused.at_us
    assert second.version.sequencer == refused.live
    assert [
        e
        for e in events
        if isinstance(e, h.Resent) and e.record_id == second.cause and e.at_us > refused.at_us
    ]


@pytest.mark.parametrize("form", FORMS)
def test_without_them_a_is_acked_and_forgets(told: Told, form: str) -> None:
    outcome = told[form, "sequencers"]
    (stale,) = stale_writes(outcome)
    ((record_id, _),) = stale.delta.seen
    acked = next(e for e in outcome.history if isinstance(e, h.Acked) and e.record_id == record_id)
    assert 0 < acked.at_us - stale.at_us < 10_000
    assert not [
        e
        for e in outcome.history
        if isinstance(e, h.Resent) and e.record_id == record_id and e.at_us > acked.at_us
    ]


def test_with_sequencers_the_timer_fires_on_time(told: Told) -> None:
    outcome = told["timer", ""]
    for key in ("cat videos", "dog videos"):
        (event,) = fired(outcome, key)
        assert 0 <= event.at_us - due_us(outcome, "A") < SECOND // 2
    assert counts(outcome) == [1, 1]


def test_without_them_the_timer_is_lost_to_its_owner_for_more_than_five_seconds(told: Told) -> None:
    """It fires only when B' happens to scan again; the timer that the first scan had found fires on time."""
    outcome = told["timer", "sequencers"]
    (late,), (on_time,) = fired(outcome, "cat videos"), fired(outcome, "dog videos")
    delay_us = late.at_us - due_us(outcome, "A")
    assert delay_us > 5 * SECOND
    assert on_time.at_us - due_us(outcome, "A") < SECOND // 2
    stated = re.search(r"fired ([\d.]+)s later", " ".join(outcome.conclusion))
    assert stated is not None
    assert float(stated[1]) == delay_us / SECOND
    judged = re.search(r"fired only ([\d.]+)s later", outcome.violations["S7"].message)
    assert judged is not None
    assert float(judged[1]) > 5


def test_with_sequencers_c_counts_both_searches(told: Told) -> None:
    outcome = told["production", ""]
    assert counts(outcome) == [2]
    assert outputs(outcome, "late") == []


def test_without_them_the_watermark_runs_ahead_and_cs_window_is_incomplete(told: Told) -> None:
    outcome = told["production", "sequencers"]
    assert counts(outcome) == [1]
    (stale,) = stale_writes(outcome)
    (production,) = stale.delta.productions
    ahead = next(
        e
        for e in outcome.history
        if isinstance(e, h.Published)
        and dict(e.values).get("B", Progress()).low_watermark > production.timestamp
    )
    found = next(
        e
        for e in outcome.history
        if isinstance(e, h.ScanEnded)
        and production.record_id in {record_id for record_id, _ in e.productions}
    )
    assert stale.at_us < ahead.at_us < due_us(outcome, "B") + SECOND < found.at_us


def test_the_conclusions_say_what_the_history_shows(told: Told) -> None:
    assert "refused" in told["timer", ""].conclusion[0]
    assert "applied" in told["timer", "sequencers"].conclusion[0]
    assert told["production", ""].conclusion[0].endswith('C counted {"count":2,"window":"1"}.')
    assert told["production", "sequencers"].conclusion[0].endswith('C counted {"count":1,"window":"1"}.')
    assert told["production", ""].conclusion[1:] == ("Nothing came late.",)
    assert told["production", "sequencers"].conclusion[1].startswith("The other one is lost")


@pytest.mark.parametrize("without", ["", "sequencers"])
@BOTH_FORMS
def test_a_scenario_is_the_same_story_each_time(scenario: Scenario, without: str) -> None:
    assert scenario.run(without).history.digest() == scenario.run(without).history.digest()


def test_nothing_else_can_be_left_out() -> None:
    with pytest.raises(KeyError, match="without luck"):
        ZOMBIE_TIMER.run("luck")
