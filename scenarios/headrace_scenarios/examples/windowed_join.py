"""A windowed join of two streams: which click belongs to which impression of an advertisement?

A click counts for an impression of the same user if both are in the same second. The window closes once the low watermark has
passed it; what comes later is not dropped in silence, but told on the stream ``late``.
"""

from collections import Counter
from random import Random

from headrace import MILLISECOND, SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_properties.promises import Moment, at_end, bounded_state, sometimes
from headrace_sim import Feed, FeedBuilder


class Join(Computation):
    """Joins the impressions and clicks of a user, second by second."""

    def process_record(self, context: Context, record: Record) -> None:
        """Keep the record until its window closes."""
        end = window_end(record.timestamp)
        if context.low_watermark >= end:
            context.produce("late", {"stream": record.stream, **record.value})
            return
        window = context.state.setdefault(str(end), {"impressions": [], "clicks": []})
        window[record.stream].append(record.value["id"])
        context.set_timer(str(end), at=end)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Close a window: each impression meets each click."""
        window = context.state.pop(timer.tag)
        for impression in sorted(window["impressions"]):
            for click in sorted(window["clicks"]):
                context.produce("joined", {"impression": impression, "click": click})


def window_end(timestamp: int) -> int:
    """Return where the window of an event time ends, exclusively."""
    return timestamp // SECOND * SECOND + SECOND


def user(record: Record) -> str:
    """Return the key: both streams name the user."""
    return str(record.value["user"])


pipeline = Pipeline("windowed join")
pipeline.injector("web", outputs=["impressions", "clicks"])
pipeline.add(Join(), name="join", inputs={"impressions": user, "clicks": user}, outputs=["joined", "late"])


@at_end
def every_pair_is_joined(moment: Moment) -> None:
    """The joined pairs are those of a plain join, late records aside."""
    late = {(record.value["stream"], record.value["id"]) for record in moment.outputs("late")}
    kept = [record for record in moment.inputs() if (record.stream, record.value["id"]) not in late]
    expected = Counter(
        (impression.value["id"], click.value["id"])
        for impression in kept
        for click in kept
        if (impression.stream, click.stream) == ("impressions", "clicks")
        and impression.value["user"] == click.value["user"]
        and window_end(impression.timestamp) == window_end(click.timestamp)
    )
    joined = Counter(
        (output.value["impression"], output.value["click"]) for output in moment.outputs("joined")
    )
    assert joined == expected, f"missing {expected - joined}, too many {joined - expected}"


@sometimes(stream="late")
def some_click_is_late(moment: Moment) -> bool:
    """Some click comes behind its window."""
    return bool(moment.changed.value["stream"] == "clicks")


promises = [every_pair_is_joined, some_click_is_late, bounded_state("join")]


def feed(seed: int) -> Feed:
    """Make a feed: 24 impressions and clicks of three users, out of order by up to half a second, and a click that is late."""
    random, builder = Random(seed), FeedBuilder(pipeline)
    for number in range(25):
        at_us = SECOND + number * 100 * MILLISECOND
        late = number == 24
        builder.record(
            at_us=at_us,
            value={"id": number, "user": random.choice(["ann", "bob", "cy"])},
            timestamp=at_us - (2 * SECOND if late else random.randrange(SECOND // 2)),
            stream="clicks" if late else random.choice(["impressions", "clicks"]),
        )
        if number % 3 == 2:
            builder.watermark(at_us=at_us, low_watermark=at_us - SECOND // 2)
    return builder.build()
