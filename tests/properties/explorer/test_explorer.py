"""A person finds failures by hand: choices become plans, positions are deterministic, and what is saved is reproduced."""

from pathlib import Path

import pytest

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_properties.explorer.explorer import (
    ExploredPosition,
    Explorer,
    ExplorerState,
    UnknownPositionError,
)
from headrace_properties.explorer.saved_schedules import check_schedule, schedule_test
from headrace_properties.pipeline_target import PipelineTarget, pipeline_target
from headrace_properties.proof.mutants import MUTANTS
from headrace_properties.replays import read_replay
from headrace_properties.search.judging import try_plan
from headrace_properties.search.moves import ScopedRuns
from headrace_properties.search.scope import Scope
from headrace_sim import SOUND, Feed, FeedBuilder, Protocol


class CountViews(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state["views"] = context.state.get("views", 0) + 1
        context.set_timer("end", at=3 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("counts", context.state.pop("views"))


class CursedHook(CountViews):
    def process_timer(self, context: Context, timer: Timer) -> None:
        raise ValueError("this window is cursed")


def pipeline_of(computation: Computation) -> Pipeline:
    pipeline = Pipeline("views")
    pipeline.injector("views")
    pipeline.add(computation, name="counter", inputs=["views"], outputs=["counts"])
    return pipeline


def feed_of(pipeline: Pipeline) -> Feed:
    builder = FeedBuilder(pipeline)
    for at_us in (SECOND, 2 * SECOND):
        builder.record(at_us=at_us, value=1, timestamp=at_us, key="home")
        builder.watermark(at_us=at_us, low_watermark=at_us)
    return builder.build()


def target_of(computation: Computation, protocol: Protocol = SOUND) -> PipelineTarget:
    pipeline = pipeline_of(computation)
    return pipeline_target("views:pipeline", pipeline, lambda _: feed_of(pipeline), protocol=protocol)


def explorer_of(target: PipelineTarget) -> Explorer:
    return Explorer(target, ScopedRuns(target.application, Scope(), 0).trial())


class Hand:
    """A person at the page: goes on to steps and makes choices, by their words."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.position = ExploredPosition()

    @property
    def state(self) -> ExplorerState:
        return self.explorer.state(self.position)

    def until(self, process: str, message: str, nth: int = 1) -> None:
        stops = [number for number, *stop in self.state.stops if stop == [process, message]]
        later = [number for number in stops if number >= self.position.at]
        self.position = ExploredPosition(self.position.made, later[nth - 1])

    def choose(self, *words: str) -> None:
        possible = self.state.possible
        numbers = [number for number, (_, text) in enumerate(possible) if all(word in text for word in words)]
        assert len(numbers) == 1, (words, [text for _, text in possible])
        made = (*self.position.made, (self.position.at, numbers[0]))
        self.position = ExploredPosition(made, self.position.at + 1)

    def end(self) -> None:
        self.position = ExploredPosition(self.position.made, self.state.steps)


def zombie(protocol: Protocol) -> Hand:
    """Hold a write of worker-0, give its keys to worker-1, and let the write go once worker-1 has worked (Figure 12)."""
    hand = Hand(explorer_of(target_of(CountViews(), protocol)))
    hand.until("worker-0", "Deliver")
    hand.choose("Write of 'home'", "is held")
    hand.choose("move the keys", "from worker-0 to worker-1")
    hand.until("worker-1", "Written")
    hand.position = ExploredPosition(hand.position.made, hand.position.at + 1)
    hand.choose("Write", "is let go")
    return hand


def verdicts(state: ExplorerState) -> dict[str, str]:
    return {shown.name: shown.verdict for shown in state.verdicts}


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


def test_a_zombie_is_seen_to_believe_that_it_owns_its_keys() -> None:
    hand = zombie(MUTANTS["without sequencers"])
    hand.position = ExploredPosition(hand.position.made[:1], hand.position.made[0][0] + 1)
    write = [flight for flight in hand.state.cluster.flights if flight.what.startswith("Write")]
    assert [(flight.source, flight.target) for flight in write] == [("worker-0", "store")]
    hand.choose("worker-0 stops, and seems dead")
    hand.until("worker-1", "Scanned")
    worker = next(process for process in hand.state.cluster.processes if process.address == "worker-0")
    assert worker.state == "paused"
    assert [owned.valid for owned in worker.owns] == [False]


def test_the_state_before_a_choice_does_not_depend_on_it_and_is_the_same_each_time() -> None:
    hand = zombie(MUTANTS["without sequencers"])
    made, at = hand.position.made, hand.position.made[1][0]
    before = explorer_of(target_of(CountViews(), MUTANTS["without sequencers"])).state(
        ExploredPosition(made[:1], at - 1)
    )
    assert hand.explorer.state(ExploredPosition(made, at - 1)) == before
    assert before.cluster.flights


def test_each_choice_leaves_what_happened_before_its_step_as_it_was() -> None:
    target = target_of(CountViews())
    for message in ("Deliver", "Written"):
        hand = Hand(explorer_of(target))
        hand.until("worker-0", message)
        before = hand.state
        for number, (group, words) in enumerate(before.possible):
            made = ((before.at, number),)
            after = hand.explorer.state(ExploredPosition(made, before.at - 1))
            again = hand.explorer.state(ExploredPosition((), before.at - 1))
            assert (after.events, after.cluster) == (again.events, again.cluster), (group, words)
            beyond = hand.explorer.state(ExploredPosition(made, before.at))
            assert (beyond.events, beyond.cluster.processes) == (before.events, before.cluster.processes), (
                words
            )
            assert beyond.error == "", words


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


def test_saved_test_holds_on_the_sound_protocol_and_fails_where_the_code_breaks(tmp_path: Path) -> None:
    hand = zombie(SOUND)
    _, failure = hand.explorer.replay(hand.position)
    target = target_of(CountViews())
    text = schedule_test(target, failure.trial)
    compile(text, "test_saved.py", "exec")
    schedule = text.split('SCHEDULE = r"""')[1].split('"""')[0]
    check_schedule(schedule, target.pipeline, target.feed)
    cursed = target_of(CursedHook())
    with pytest.raises(AssertionError, match="this window is cursed"):
        check_schedule(schedule, cursed.pipeline, cursed.feed)


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
