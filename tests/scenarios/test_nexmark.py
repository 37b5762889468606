"""NEXMark's queries answer what plain Python answers, in the reference and in the cluster under faults."""

import pytest

from headrace import SECOND
from headrace_properties.checkers import judge
from headrace_properties.promises import judge_promises, promise_checkers
from headrace_properties.reference import run_reference
from headrace_properties.search.ground import ground_of
from headrace_properties.search.plans import draw_faults
from headrace_properties.verdict import Holds, Unknown, Violated
from headrace_scenarios.nexmark import QUERIES, TITLES, Mix, events, feed, plain, promises
from headrace_scenarios.nexmark.queries import as_counter, settled
from headrace_sim import ClusterOptions, simulate
from headrace_sim.faults.kinds import LateRecords
from headrace_sim.faults.schedule import FaultSchedule

SMALL = Mix(count=100)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_answers_what_plain_python_answers(query: str) -> None:
    pipeline = QUERIES[query]
    for seed in range(4):
        outputs = run_reference(pipeline, feed(seed)).outputs
        decode = pipeline.codec(query).decode
        answers = [(made.key, decode(made.value)) for made in outputs.elements() if made.stream == query]
        expected = as_counter(plain.ANSWERS[query]([event for _, event in events(seed)]))
        assert settled(query, answers) == expected
        assert expected or query == "q3"


@pytest.mark.parametrize("query", QUERIES)
def test_twenty_faults_change_no_answer(query: str) -> None:
    pipeline, input_ = QUERIES[query], feed(5, SMALL)
    schedule = draw_faults(ground_of(pipeline, input_, ClusterOptions()), 20, seed=5, without=(LateRecords,))
    history = simulate(pipeline, input_, faults=schedule, seed=5)
    verdicts = judge(history, [pipeline], None, promise_checkers(promises, [pipeline]))
    assert [name for name, verdict in verdicts.items() if isinstance(verdict, Violated)] == []
    assert isinstance(verdicts["answers_are_right"], Holds)


def test_a_lost_answer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = QUERIES["q2"]
    history = simulate(pipeline, feed(1, SMALL), seed=1)
    assert isinstance(judge_promises(history, promises, [pipeline])["answers_are_right"], Holds)
    monkeypatch.setattr(plain, "SELECTED", 2)
    assert isinstance(judge_promises(history, promises, [pipeline])["answers_are_right"], Violated)


def test_late_events_are_not_judged() -> None:
    """A record that comes behind its source's watermark may be left out; the promise does not judge that run."""
    pipeline, input_ = QUERIES["q7"], feed(1, SMALL)
    late = LateRecords(at_us=0, process="events/0", count=1, by_us=8 * SECOND)
    verdicts = {}
    for faults in ((), (late,)):
        history = simulate(pipeline, input_, faults=FaultSchedule(faults), seed=1)
        verdicts[len(faults)] = judge_promises(history, promises, [pipeline])["answers_are_right"]
    assert isinstance(verdicts[0], Holds)
    assert isinstance(verdicts[1], Unknown)


def test_of_fifty_events_one_is_a_person_and_three_are_auctions() -> None:
    kinds = [event["kind"] for _, event in events(3, Mix(count=500))]
    assert (kinds.count("person"), kinds.count("auction"), kinds.count("bid")) == (10, 30, 460)
    assert events(3) == events(3) != events(4)


def test_each_query_says_what_it_answers() -> None:
    assert list(TITLES) == list(QUERIES) == [f"q{number}" for number in range(13)]
    assert all(f"(query {name[1:]})" in title for name, title in TITLES.items())
