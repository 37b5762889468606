"""The timer is set with the first record of a key only, so that its later windows never fire."""

from random import Random

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("views_per_second",)


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
