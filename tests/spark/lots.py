"""User code that draws lots: whoever runs it again gets something else. So it shows whose run has counted."""

import uuid

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_sim import Feed, FeedBuilder

KEYS = tuple("abcdefgh")


class Drawing(Computation):
    """Draws a lot when a key is first seen, tells it, keeps it, and tells at the end which one it has kept."""

    def process_record(self, context: Context, record: Record) -> None:
        if not context.state:
            context.state["lot"] = uuid.uuid4().hex
            context.produce("drawn", context.state["lot"])
            context.set_timer("end", 1_000 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("kept", context.state["lot"])


pipeline = Pipeline("lots")
pipeline.injector("tickets")
pipeline.add(Drawing(), name="drawing", inputs=["tickets"], outputs=["drawn", "kept"])


def feed(seed: int) -> Feed:
    """All keys come at once, and then one of them again and again."""
    del seed
    builder = FeedBuilder(pipeline)
    for number, key in enumerate([*KEYS, *KEYS[:1] * 24]):
        at_us = SECOND + (0 if number < len(KEYS) else number) * SECOND
        builder.record(at_us=at_us, value=1, timestamp=at_us, key=key)
    return builder.build()
