"""A person finds failures by hand: choices become plans, positions are deterministic, and what is saved is reproduced."""

from pathlib import Path

import pytest

from headrace_properties.explorer.explorer import (
    ExploredPosition,
    Explorer,
    UnknownPositionError,
)
from headrace_properties.proof.mutants import MUTANTS
from headrace_properties.replays import read_replay
from headrace_properties.search.judging import try_plan
from headrace_sim import SOUND
from tests.properties.explorer.by_hand import (
    CountViews,
    CursedHook,
    Hand,
    explorer_of,
    target_of,
    verdicts,
    zombie,
)


def test_zombie_write_found_by_hand_breaks_without_sequencers_only() -> None:
    hand = zombie(MUTANTS["without sequencers"])
    hand.end()
    broken = {shown.name: shown for shown in hand.state.verdicts if shown.verdict == "broken"}
    assert broken["S6"].section.startswith("6.2")
    assert "sequencer" in broken["S6"].message
    sound = zombie(SOUND)
    sound.end()
    assert not {"broken", "breaks"} & set(verdicts(sound.state).values())


def test_invariant_turns_from_breaks_to_broken_at_the_step_that_breaks_it() -> None:
    hand = zombie(MUTANTS["without sequencers"])
    made = hand.position.made
    assert verdicts(hand.explorer.state(ExploredPosition(made, made[-1][0])))["S6"] == "breaks"
    stale = next(at for at in range(made[-1][0], hand.state.steps) if is_stale(hand, at))
    assert verdicts(hand.explorer.state(ExploredPosition(made, stale)))["S6"] == "broken"


def is_stale(hand: Hand, at: int) -> bool:
    events = hand.explorer.state(ExploredPosition(hand.position.made, at)).events
    return any("STALE" in words for *_, words in events)


def test_the_state_before_a_choice_does_not_depend_on_it_and_is_the_same_each_time() -> None:
    hand = zombie(MUTANTS["without sequencers"])
    made, at = hand.position.made, hand.position.made[1][0]
    before = explorer_of(target_of(CountViews(), MUTANTS["without sequencers"])).state(
        ExploredPosition(made[:1], at - 1)
    )
    assert hand.explorer.state(ExploredPosition(made, at - 1)) == before
    assert before.cluster.flights


def test_what_is_saved_is_reproduced_byte_for_byte_with_the_same_verdicts(tmp_path: Path) -> None:
    hand = zombie(MUTANTS["without sequencers"])
    data, failure = hand.explorer.replay(hand.position)
    (tmp_path / "saved.json").write_bytes(data)
    recorded = read_replay(tmp_path / "saved.json")
    target = target_of(CountViews(), MUTANTS["without sequencers"])
    again = try_plan(target.application, recorded.trial, target.protocol)  # type: ignore[arg-type]
    assert again.digest == recorded.digest == failure.digest
    shown = {name for name, verdict in verdicts(hand.state).items() if verdict in ("broken", "breaks")}
    assert again.broken.keys() == failure.violations.keys() == shown


def test_a_replay_goes_on_from_any_of_its_steps_and_its_plan_can_be_left_out(tmp_path: Path) -> None:
    saved = zombie(MUTANTS["without sequencers"])
    _, failure = saved.explorer.replay(saved.position)
    hand = Hand(Explorer(target_of(CountViews(), MUTANTS["without sequencers"]), failure.trial))
    assert len(hand.state.planned) == 2
    assert verdicts(hand.state)["S6"] == "breaks"
    hand.choose("operate")
    assert verdicts(hand.state)["S6"] != "breaks"


def test_users_hook_that_fails_stops_the_run_at_its_step_with_its_words() -> None:
    hand = Hand(explorer_of(target_of(CursedHook())))
    assert "this window is cursed" in hand.state.error
    hand.until("worker-0", "Deliver")
    assert not any("cursed" in words for *_, words in hand.state.events)
    hand.end()
    assert any("user code fails" in words for *_, words in hand.state.events)


@pytest.mark.parametrize(
    ("choices", "at"), [("x", "1"), ("1.2-", "1"), ("1", "1"), ("", "-1"), ("", "99999999")]
)
def test_address_that_is_no_position_is_refused(choices: str, at: str) -> None:
    with pytest.raises(UnknownPositionError):
        ExploredPosition.read(choices, at)


def test_choice_that_is_not_possible_is_refused() -> None:
    explorer = explorer_of(target_of(CountViews()))
    for made in (((0, 9_999),), ((9_999, 0),), ((5, 0), (4, 0))):
        with pytest.raises(UnknownPositionError, match="no such choice"):
            explorer.state(ExploredPosition(made, 20_000))
