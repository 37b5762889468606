"""The timer is set with the first record of a key only, so that its later windows never fire."""

from collections import Counter
from random import Random

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_properties.promises import Moment, at_end
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("every_view_is_told",)


class Views(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        second = record.timestamp // SECOND
        if not context.state:
            context.set_timer(str(second), at=(second + 1) * SECOND)
        context.state[str(second)] = context.state.get(str(second), 0) + 1

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce(
            "views", {"page": context.key, "second": timer.tag, "views": context.state.pop(timer.tag)}
        )


class MendedViews(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        second = record.timestamp // SECOND
        context.set_timer(str(second), at=(second + 1) * SECOND)
        context.state[str(second)] = context.state.get(str(second), 0) + 1

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce(
            "views", {"page": context.key, "second": timer.tag, "views": context.state.pop(timer.tag)}
        )


def build(views: Computation) -> Pipeline:
    built = Pipeline("views")
    built.injector("requests")
    built.add(views, name="views", inputs={"requests": lambda record: record.value}, outputs=["views"])
    return built


pipeline, mended = build(Views()), build(MendedViews())


def draw(random: Random, number: int) -> str:
    return random.choice(["home", "news"])


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)


@at_end
def every_view_is_told(moment: Moment) -> None:
    """The counts of a page add up to the number of its views."""
    told: Counter[str] = Counter()
    for record in moment.outputs("views"):
        told[record.value["page"]] += record.value["views"]
    viewed = Counter(record.value for record in moment.inputs("requests"))
    assert told == viewed, f"the pages were viewed so often: {dict(viewed)}; told: {dict(told)}"


promises = [every_view_is_told]
