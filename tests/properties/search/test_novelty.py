"""How much a search has not seen: the estimate, the lines of user code that no run reached, and the searches that stop by it."""

from pathlib import Path
from random import Random

import pytest

from headrace import Computation, Context, Pipeline, Record
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import try_plan
from headrace_properties.search.novelty import Novelty
from headrace_properties.search.plans import Plan
from headrace_properties.search.steering import FEEDS, Steering
from headrace_properties.search.strategy import search
from headrace_properties.search.user_lines import EVERY
from headrace_properties.search.verification import Verification
from headrace_sim import ClusterOptions, FaultSchedule
from tests.sim.rig import city, letters, mail


def drawn(chances: list[float], runs: int, seed: int) -> list[list[str]]:
    """Runs that each show thing number N with the chance that it has."""
    random = Random(seed)
    return [[str(n) for n, chance in enumerate(chances) if random.random() < chance] for _ in range(runs)]


@pytest.mark.parametrize("runs", [50, 200, 1_000])
def test_the_estimate_is_near_the_share_of_later_runs_that_show_something_new(runs: int) -> None:
    """Many rare things: over 300 samples, the mean estimate against what the next run really showed."""
    chances = [1 / (3 * n) for n in range(1, 400)]
    estimates, news = [], []
    for seed in range(300 if runs < 1_000 else 40):
        *before, following = drawn(chances, runs + 1, seed)
        novelty = Novelty()
        for things in before:
            novelty.take(things)
        estimates.append(novelty.chance)
        news.append(bool(set(following) - {thing for things in before for thing in things}))
    assert sum(estimates) / len(estimates) == pytest.approx(sum(news) / len(news), abs=0.12)


def test_a_few_runs_never_look_quiet_and_many_similar_ones_do() -> None:
    novelty = Novelty()
    assert novelty.chance == 1
    novelty.take(["a"])
    assert novelty.chance == 1
    for _ in range(98):
        novelty.take(["a"])
    assert novelty.chance == pytest.approx(0.01)
    assert (novelty.things, novelty.runs) == (1, 99)


def test_the_curve_begins_at_the_first_run_and_ends_at_the_last() -> None:
    novelty = Novelty()
    for run in range(107):
        novelty.take([str(run // 10)])
    curve = novelty.curve
    assert (curve[0], curve[-1]) == ((1, 1), (107, 11))
    assert len(curve) <= 22
    assert curve == sorted(curve)


@pytest.fixture(scope="module")
def found() -> Verification:
    return search(Steering(Application(mail(), lambda seed: letters(mail(), 5 + seed))), examples=40)


def test_a_search_counts_what_its_runs_have_shown(found: Verification) -> None:
    assert found.novelty.runs == found.runs + found.idle
    assert found.novelty.things > 40
    assert 0 < found.novelty.chance < 1
    assert found.code.runs == 1 + (found.runs + found.idle - 1) // EVERY


def test_it_is_the_same_with_any_number_of_processes(found: Verification) -> None:
    again = search(Steering(Application(mail(), lambda seed: letters(mail(), 5 + seed))), examples=40, jobs=2)
    assert again == found


def test_the_watched_runs_take_turns_with_all_inputs() -> None:
    assert len({number * EVERY % FEEDS for number in range(FEEDS)}) == FEEDS


def test_a_search_stops_once_it_is_quiet() -> None:
    application = Application.with_input(mail(), letters(mail(), 3))
    found = search(Steering(application), examples=10_000, until_quiet=0.9)
    assert found.stopped_for == "quiet"
    assert found.chance_of_news < 0.9
    assert found.runs < 1_000


def test_a_search_stops_after_its_time() -> None:
    found = search(Steering(Application.with_input(mail(), letters(mail(), 3))), examples=10_000, minutes=0)
    assert (found.stopped_for, found.runs + found.idle) == ("minutes", 1)


class Choosy(Computation):
    """Has lines that no letter reaches."""

    def process_record(self, context: Context, record: Record) -> None:
        if record.value["number"] < 0:
            context.produce("never", 0)  # unreached
        for _ in range(2):
            context.state["count"] = 1

    def process_timer(self, context: Context, timer: object) -> None:
        context.produce("never", 1)  # unreached


def test_lines_that_no_run_reached_are_listed() -> None:
    pipeline = Pipeline("choosy")
    pipeline.injector("mail")
    pipeline.add(Choosy(), name="choosy", inputs={"mail": city}, outputs=["never"])
    found = search(Steering(Application.with_input(pipeline, letters(pipeline, 5))), examples=3)
    source = Path(__file__).read_text().splitlines()
    expected = [(__file__, n) for n, line in enumerate(source, 1) if line.endswith("# unreached")]
    assert [*found.unreached] == expected


def test_a_watched_run_has_the_same_history() -> None:
    application = Application.with_input(mail(), letters(mail(), 5))
    plan = Plan(FaultSchedule(), ClusterOptions(), 0)
    plain, watched = (
        try_plan(application, PipelineTrial(plan, watched=watched)) for watched in (False, True)
    )
    assert plain.digest == watched.digest
    assert plain.branches is None
    assert watched.branches
