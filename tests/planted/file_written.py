"""Each payment is appended to a file, and once more whenever its step runs again."""

import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from headrace import Computation, Context, Pipeline, Record
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("file", "payments-export.jsonl")
EXPORT = Path(tempfile.gettempdir()) / "payments-export.jsonl"


class Payments(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        with EXPORT.open("a") as export:
            export.write(json.dumps(record.value) + "\n")
        context.produce("booked", record.value)


class MendedPayments(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.produce("export", json.dumps(record.value))
        context.produce("booked", record.value)


def build(payments: Computation) -> Pipeline:
    built = Pipeline("payments")
    built.injector("payments")
    built.add(
        payments,
        name="book",
        inputs={"payments": lambda record: record.value["payer"]},
        outputs=["booked", "export"],
    )
    return built


pipeline, mended = build(Payments()), build(MendedPayments())


def draw(random: Random, number: int) -> dict[str, Any]:
    return {"payer": random.choice(["ann", "bob"]), "payment": number, "cents": random.randrange(1, 900)}


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
