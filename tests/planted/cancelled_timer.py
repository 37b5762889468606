"""Paying one invoice cancels the timer that tells of all the customer's others, too."""

from random import Random
from typing import Any

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_properties.promises import answered_once
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("every_invoice_is_answered_once", "is never answered")


class Reminders(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state.setdefault(record.stream, {})[record.value["invoice"]] = True
        if record.stream == "payments":
            context.cancel_timer("month")
        else:
            context.set_timer("month", at=10 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        paid = context.state.pop("payments", {})
        for invoice in context.state.pop("invoices"):
            context.produce("answers", {"invoice": invoice, "paid": invoice in paid})


class MendedReminders(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state.setdefault(record.stream, {})[record.value["invoice"]] = True
        context.set_timer("month", at=10 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        paid = context.state.pop("payments", {})
        for invoice in context.state.pop("invoices", {}):
            context.produce("answers", {"invoice": invoice, "paid": invoice in paid})


def build(reminders: Computation) -> Pipeline:
    built = Pipeline("invoices")
    built.injector("office", outputs=["invoices", "payments"])
    customer = {stream: (lambda record: record.value["customer"]) for stream in ("invoices", "payments")}
    built.add(reminders, name="reminders", inputs=customer, outputs=["answers"])
    return built


pipeline, mended = build(Reminders()), build(MendedReminders())


def draw(random: Random, number: int) -> dict[str, Any]:
    if number % 3 == 2:
        number -= random.choice([1, 2])
        return {"invoice": f"invoice-{number}", "customer": "ab"[number % 2], "cents": 100}
    return {"invoice": f"invoice-{number}", "customer": "ab"[number % 2]}


def stream_of(value: dict[str, Any]) -> str:
    return "payments" if "cents" in value else "invoices"


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw, stream_of=stream_of)


promises = [
    answered_once(
        "invoices", "answers", by=lambda value: value["invoice"], name="every_invoice_is_answered_once"
    )
]
