"""One kind of message makes the handler leave the process."""

import sys
from random import Random

from headrace import Computation, Context, Pipeline, Record
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("exit",)


class Commands(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        if record.value == "quit":
            sys.exit(0)
        context.state[record.value] = context.state.get(record.value, 0) + 1


class MendedCommands(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        if record.value == "quit":
            context.produce("sessions", {"key": context.key, "ended": True})
        else:
            context.state[record.value] = context.state.get(record.value, 0) + 1


def build(commands: Computation) -> Pipeline:
    built = Pipeline("commands")
    built.injector("commands")
    built.add(
        commands, name="obey", inputs={"commands": lambda record: record.value[0]}, outputs=["sessions"]
    )
    return built


pipeline, mended = build(Commands()), build(MendedCommands())


def draw(random: Random, number: int) -> str:
    return "quit" if random.randrange(50) == 0 else random.choice(["list", "load", "query"])


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
