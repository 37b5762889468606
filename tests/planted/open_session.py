"""A session is closed by a logout, and most users never log out."""

from random import Random
from typing import Any

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_properties.promises import bounded_state
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("sessions", "is left with")


class Sessions(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state[record.value["page"]] = True
        if record.value["page"] == "logout":
            context.set_timer("close", at=10 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("sessions", {"user": context.key, "pages": sorted(context.state)})
        context.clear_state()


class MendedSessions(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state[record.value["page"]] = True
        context.set_timer("close", at=10 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("sessions", {"user": context.key, "pages": sorted(context.state)})
        context.clear_state()


def build(sessions: Computation) -> Pipeline:
    built = Pipeline("sessions")
    built.injector("requests")
    built.add(
        sessions,
        name="sessions",
        inputs={"requests": lambda record: record.value["user"]},
        outputs=["sessions"],
    )
    return built


pipeline, mended = build(Sessions()), build(MendedSessions())


def draw(random: Random, number: int) -> dict[str, Any]:
    return {"user": f"user-{number % 6}", "page": random.choice(["home", "news", "shop", "logout"])}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)


promises = [bounded_state("sessions")]
