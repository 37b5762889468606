"""Each ticket gets a random id, under which the next stage keeps it: when the step runs again, there are two tickets."""

import uuid
from random import Random
from typing import Any

from headrace import Computation, Context, Pipeline, Record
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("uuid",)


class Open(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.produce("tickets", record.value, key=str(uuid.uuid4()))


class MendedOpen(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        ticket = uuid.uuid5(uuid.NAMESPACE_OID, f"{context.key}/{record.value['mail']}")
        context.produce("tickets", record.value, key=str(ticket))


class Desk(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state["mail"] = record.value["mail"]
        context.produce("opened", {"ticket": context.key, "mail": record.value["mail"]})


def build(opening: Computation) -> Pipeline:
    built = Pipeline("helpdesk")
    built.injector("mails")
    built.add(
        opening, name="open", inputs={"mails": lambda record: record.value["sender"]}, outputs=["tickets"]
    )
    built.add(Desk(), name="desk", inputs=["tickets"], outputs=["opened"])
    return built


pipeline, mended = build(Open()), build(MendedOpen())


def draw(random: Random, number: int) -> dict[str, Any]:
    return {"sender": random.choice(["ann", "bob"]), "mail": number}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
