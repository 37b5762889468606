"""The page of a space-time diagram: one file, whole, with the facts in it as data.

What it draws, `tests/cli/test_pictures.py` looks at.
"""

import json
import re
from typing import Any

import pytest

from headrace import MAX_TIME, SECOND, Computation, Context, PickleCodec, Pipeline, Record
from headrace.history import Applied, IntervalMinted, Output, ProcessStarted, ScanEnded
from headrace_properties.explain.pictures.spacetime import document_of, lanes_of, spacetime_html
from headrace_properties.explain.pictures.spacetime.still import spacetime_svg
from headrace_properties.printable import visible
from headrace_scenarios.catalogue import SCENARIOS
from headrace_scenarios.scenario import ScenarioRun
from headrace_sim import FeedBuilder, simulate
from tests.properties.stories import healthy, record


@pytest.fixture(scope="module")
def zombie() -> ScenarioRun:
    return SCENARIOS["zombie-timer"].run("sequencers")


def page_of(outcome: ScenarioRun) -> str:
    return spacetime_html(outcome.history, outcome.verdicts, title="A zombie's write", names=outcome.names)


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    document: dict[str, Any] = json.loads(found[1])
    return document


def test_the_page_needs_no_network_and_no_other_file(zombie: ScenarioRun) -> None:
    page = page_of(zombie)
    addresses = set(re.findall(r"https?://[^\"'\s<>)]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, which is never fetched
    assert not re.search(r"<(?:link|img|iframe)\b|<script[^>]+src=|@import|url\(|\bfetch\(|\{\{", page)
    assert "<title>A zombie&#x27;s write</title>" in page


def test_the_same_run_makes_the_same_page_and_says_its_lanes_names(zombie: ScenarioRun) -> None:
    page = page_of(zombie)
    assert page == page_of(SCENARIOS["zombie-timer"].run("sequencers"))
    lanes = {lane["address"]: lane["name"] for lane in data_of(page)["lanes"]}
    assert (lanes["worker-1"], lanes["worker-2"], lanes["store"]) == ("B (zombie)", "B'", "store")


def test_a_run_without_violations_is_told_by_its_faults_owners_records_and_results() -> None:
    sound = SCENARIOS["zombie-timer"].run()
    story = data_of(page_of(sound))["story"]
    told = [sentence["text"] for sentence in story["sentences"]]
    assert len(told) <= 20
    for words in (
        "At 1.500 s searches/0: inject searches/0:0, 'dog videos' at 1.100 s: \"first\".",
        "From 2.000 s to 5.250 s B (zombie) is cut off by a partition",
        "store: B ['', end): sequencer 3 for B'.",
        "store: REFUSE write of 2",
        "outside: receive from counts",
    ):
        assert any(words in text for text in told), words
    assert story["moral"] == ["No rule is violated."]


def test_lanes_go_from_the_injectors_to_the_outside(zombie: ScenarioRun) -> None:
    lanes = lanes_of(zombie.history)
    assert lanes[0] == "searches/0"
    assert lanes[-2:] == ["store", "outside"]
    assert lanes.index("worker-4") < lanes.index("master-0") < lanes.index("authority-0.0")


def test_lanes_are_in_the_order_of_their_numbers_and_roles_that_are_not_known_come_last() -> None:
    addresses = ["job-1", "worker-10", "worker-9", "queries/11", "queries/2", "store"]
    history = [ProcessStarted(0, address, 1) for address in addresses]
    assert lanes_of(history) == ["queries/2", "queries/11", "worker-9", "worker-10", "store", "job-1"]


def test_every_event_is_there_and_every_number_is_one_of_theirs(zombie: ScenarioRun) -> None:
    data = data_of(page_of(zombie))
    numbers = range(len(zombie.history))
    assert len(data["events"]) == len(zombie.history)
    assert all(
        cause in numbers and effect in numbers and cause < effect for cause, effect, *_ in data["links"]
    )
    for verdict in data["verdicts"]:
        assert set(verdict["witness"]) <= set(verdict["subject"]) <= set(numbers)
        assert {told["event"] for told in verdict["sentences"]} <= set(verdict["subject"])
    assert data["told"] == "S6"


def test_what_a_dead_sequencer_wrote_is_marked_and_a_zombies_belief_outlasts_its_tenure(
    zombie: ScenarioRun,
) -> None:
    data = data_of(page_of(zombie))
    marked = [
        zombie.history.events[n] for n, event in enumerate(data["events"]) if event.get("mark") == "stale"
    ]
    assert [(event.sequencer, event.live) for event in marked if isinstance(event, Applied)] == [(2, 3)]
    tenure = next(tenure for tenure in data["tenures"] if tenure["sequencer"] == 2)
    assert tenure["begin"] < tenure["replaced"] < tenure["end"]


def test_a_refused_write_is_marked_on_the_sound_protocol() -> None:
    data = data_of(page_of(SCENARIOS["zombie-timer"].run()))
    assert [event["type"] for event in data["events"] if event.get("mark") == "refused"] == ["WriteRefused"]
    assert data["verdicts"] == []


def test_a_value_cannot_end_the_script_and_the_ends_of_time_are_named() -> None:
    story = healthy()
    evil = record("x", "", MAX_TIME, value=b"</script><script>alert(1)</script>")
    story.add(Output(story.tick(), "outside", evil))
    page = spacetime_html(story.events, story.verdicts(), title="</title>{{js}}")
    assert "alert(1)</script>" not in page
    fields = data_of(page)["events"][-1]["fields"]["production"]
    assert fields["value"] == evil.value.decode()
    assert fields["timestamp"] == "end"
    assert "<title>&lt;/title&gt;{{js}}</title>" in page


def test_a_reply_is_drawn_only_if_it_was_sent(zombie: ScenarioRun) -> None:
    """A scan finds a row long after its write: the answer to its read is drawn, and not one from the write."""
    events, data = zombie.history.events, data_of(page_of(zombie))
    replies = [(cause, effect) for cause, effect, kind, _ in data["links"] if kind == "reply"]
    assert replies
    assert not [effect for _, effect in replies if isinstance(events[effect], ScanEnded)]
    answered = {
        number
        for number, lane, kind in data["stubs"]
        if kind == "answered" and data["lanes"][lane]["role"] == "store"
    }
    assert answered == {number for number, event in enumerate(events) if isinstance(event, ScanEnded)}


def test_the_master_that_asked_for_an_interval_is_known(zombie: ScenarioRun) -> None:
    data = data_of(page_of(zombie))
    asked = {
        number: data["lanes"][lane]["address"] for number, lane, kind in data["stubs"] if kind == "asked"
    }
    minted = [n for n, event in enumerate(zombie.history.events) if isinstance(event, IntervalMinted)]
    assert asked == dict.fromkeys(minted, "master-0")


# Values


class Passing(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state = record.value
        context.produce("out", record.value)


EVIL = "paid\x1b[2J\u202eevil\x00"


def test_values_are_decoded_by_their_codecs_and_can_steer_no_screen() -> None:
    """Neither in the page nor in the still picture; a value that no codec is known for is shown as hexadecimal digits."""
    pipeline = Pipeline("pickled")
    pipeline.injector("in")
    pipeline.stream("in", PickleCodec())
    pipeline.stream("out", PickleCodec())
    pipeline.add(Passing(), name="pass", inputs=["in"], outputs=["out"], state_codec=PickleCodec())
    builder = FeedBuilder(pipeline)
    builder.record(at_us=SECOND, value={"what": EVIL}, timestamp=1, key="k\u202e")
    history = simulate(pipeline, builder.build())
    shown = visible(repr({"what": EVIL}))
    document = document_of(history, {}, f"a run {EVIL}", "", pipelines=[pipeline])
    details = [event["detail"] for event in document["events"]]
    for kind in ("Injected", "Output"):
        assert any(shown in event["detail"] for event in document["events"] if event["type"] == kind)
    assert f"state: {shown}" in details
    assert "0x80" not in str(details)
    page = spacetime_html(history, {}, title=f"a run {EVIL}", pipelines=[pipeline])
    picture = spacetime_svg(history, {}, title=f"a run {EVIL}", pipelines=[pipeline])
    for text in (page, picture, *_texts(data_of(page))):
        assert not re.findall("[\x00\x1b\u202e]", text)
    assert "0x80" in str(document_of(history, {}, "", "")["events"])


def _texts(data: Any) -> list[str]:
    if isinstance(data, dict):
        return [text for part in (*data, *data.values()) for text in _texts(part)]
    if isinstance(data, list):
        return [text for part in data for text in _texts(part)]
    return [data] if isinstance(data, str) else []
