"""A small pipeline to mutate: counts records, and says which counts are even."""

from headrace import SECOND, Computation, Context, Pipeline, Record
from headrace_properties.promises import Moment, always
from headrace_sim import Feed, FeedBuilder


class Counter(Computation):
    def initial_state(self) -> int:
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        context.state += 1
        if record.value > 9:
            context.produce("large", context.state)
        context.produce("counts", {"even": context.state % 2 == 0, "count": context.state})


@always(stream="counts")
def says_rightly_what_is_even(moment: Moment) -> None:
    """Even counts are even."""
    count = moment.changed.value
    assert count["even"] == (count["count"] % 2 == 0)


pipeline = Pipeline("counting")
pipeline.injector("letters")
pipeline.add(Counter(), name="counter", inputs=["letters"], outputs=["counts", "large"])
promises = [says_rightly_what_is_even]


def feed(seed: int) -> Feed:
    builder = FeedBuilder(pipeline)
    for number in range(4):
        at_us = SECOND + number * SECOND // 4
        builder.record(at_us=at_us, value=(seed + number) % 9, timestamp=at_us, key="a")
        builder.watermark(at_us=at_us + 1, low_watermark=at_us)
    return builder.build()
