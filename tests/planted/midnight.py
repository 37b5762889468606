"""Steps of a day are told as they come, so their order is meant; a new day begins when the machine's clock passes midnight."""

from random import Random
from typing import Any

from headrace import HOUR, Computation, Context, Pipeline, Record, Timer
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("context.wall_time",)

DAY = 24 * HOUR


class Steps(Computation):
    def day(self, context: Context, record: Record) -> int:
        return context.wall_time // DAY

    def process_record(self, context: Context, record: Record) -> None:
        day = self.day(context, record)
        if context.state.get("day") != day:
            context.state = {"day": day, "steps": 0}
        context.state["steps"] += record.value["steps"]
        context.produce("days", {"day": day, "steps": context.state["steps"]})
        context.set_timer("end", at=(record.timestamp // DAY + 1) * DAY)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.clear_state()


class MendedSteps(Steps):
    def day(self, context: Context, record: Record) -> int:
        return record.timestamp // DAY


def build(steps: Computation) -> Pipeline:
    built = Pipeline("walks")
    built.injector("walks")
    built.add(
        steps,
        name="steps",
        inputs={"walks": lambda record: record.value["who"]},
        outputs=["days"],
        ordered=True,
    )
    return built


pipeline, mended = build(Steps()), build(MendedSteps())


def draw(random: Random, number: int) -> dict[str, Any]:
    return {"who": random.choice("ab"), "steps": random.randint(1, 99)}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
