"""Inputs drawn from strategies: by the seed alone, and with sources that promise what is true."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import strategies as st

from headrace import SECOND, HeadraceError, Pipeline
from headrace.wire.effects import SourceRecord, SourceWatermark
from headrace_properties.drawn_feeds import Arrival, DrawnFeed, UndrawnFeedError, feed_function
from headrace_properties.user_code.feeds import has_late_records
from headrace_sim import Feed, FeedBuilder

PIPELINE = Pipeline("letters")
PIPELINE.injector("mail", outputs=["letters", "parcels"], processes=2)

ARRIVALS = st.lists(
    st.builds(
        Arrival,
        value=st.integers(0, 9),
        key=st.sampled_from("ab"),
        timestamp=st.none() | st.integers(0, 3 * SECOND),
        stream=st.sampled_from(["letters", "parcels"]),
        process=st.integers(0, 1),
        after_us=st.integers(0, SECOND),
    )
)
SOURCE = """
import hashlib, msgspec, sys
from tests.properties.test_drawn_feeds import ARRIVALS, DrawnFeed, PIPELINE
if len(sys.argv) > 1:  # a module of the user's, whose constants Hypothesis may choose in its own draws
    sys.path.insert(0, sys.argv[1]); import constants
draw = DrawnFeed(PIPELINE, ARRIVALS)
print(hashlib.sha256(msgspec.msgpack.encode([draw(seed) for seed in range(100)])).hexdigest())
"""


def test_no_record_is_late_and_the_sources_promise_all_that_is_true() -> None:
    draw = DrawnFeed(PIPELINE, ARRIVALS)
    for feed in map(draw, range(100)):
        assert not has_late_records(feed)
        timestamps = [
            entry.event.timestamp for entry in feed.entries if isinstance(entry.event, SourceRecord)
        ]
        for process in ("mail/0", "mail/1"):
            said = [
                entry.event.low_watermark
                for entry in feed.entries
                if entry.address == process and isinstance(entry.event, SourceWatermark)
            ][:-1]
            assert said == [min(timestamps[number:]) for number in range(1, len(timestamps))]


def test_an_input_is_a_function_of_its_seed_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "constants.py").write_text("NUMBERS = [1_234_567, 7, 99_999]\n")
    printed = {
        subprocess.run(
            [sys.executable, "-c", SOURCE, *more], env=os.environ | {"PYTHONHASHSEED": hashes},
            capture_output=True, text=True, check=True,
        ).stdout
        for hashes, more in (("0", ()), ("1", (str(tmp_path),)))
    }  # fmt: skip
    assert len(printed) == 1
    draw = DrawnFeed(PIPELINE, ARRIVALS)
    assert len({draw(seed) for seed in range(100)}) > 80


def test_plain_values_arrive_one_after_the_other() -> None:
    feed = DrawnFeed(PIPELINE, st.just(["a", "b"]))(5)
    told = [(entry.at_us, entry.event) for entry in feed.entries if isinstance(entry.event, SourceRecord)]
    assert [(at_us, event.timestamp, event.stream, event.value) for at_us, event in told] == [
        (1_100_000, 1_100_000, "letters", b'"a"'),
        (1_200_000, 1_200_000, "letters", b'"b"'),
    ]


def test_a_strategy_of_feeds_is_used_unchanged() -> None:
    """Long ones, too."""

    @st.composite
    def feeds(draw: st.DrawFn) -> Feed:
        builder = FeedBuilder(PIPELINE)
        for value in draw(st.lists(st.integers(0, 9), min_size=1_000)):
            builder.record(at_us=0, value=value, timestamp=-5)
        return builder.build()

    assert DrawnFeed(PIPELINE, feeds())(0).records >= 1_000


def test_a_function_is_used_unchanged() -> None:
    assert feed_function(PIPELINE, len) is len
    assert isinstance(feed_function(PIPELINE, ARRIVALS), DrawnFeed)


@pytest.mark.parametrize(
    ("strategy", "problem"),
    [
        (st.lists(st.none()).filter(lambda _: False), "refused all that was tried. Loosen its filters"),
        (st.integers(), "draws an int. Let it draw a list of records"),
        (st.just([Arrival(0, after_us=-1)]), "after_us"),
        (st.just([Arrival(0, process=2)]), "a process of injector 'mail', 0 to 1"),
        (st.just([object()]), "stream 'letters', feed of 'mail'"),
    ],
    ids=["nothing", "a number", "in the past", "no such process", "no value of the stream"],
)
def test_an_invalid_input_is_named(strategy: st.SearchStrategy[object], problem: str) -> None:
    with pytest.raises(HeadraceError, match=problem) as caught:
        DrawnFeed(PIPELINE, strategy)(0)
    if isinstance(caught.value, UndrawnFeedError):
        assert str(strategy)[:20] in str(caught.value)
