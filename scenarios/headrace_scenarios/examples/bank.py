"""A bank: transfers between accounts, each debited at one key and credited at another.

    deposits, transfers -> Payers -> credits -> Payees
                             |
                             +-> answers

Whether an account can pay depends on what came before. Records arrive in any order, so each waits until the low watermark has
passed it, and takes effect in the order of event time. What an account receives can be spent by the next day's batch: a payer
does not read its own credits.
"""

from random import Random
from typing import Any

from headrace import MILLISECOND, SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_properties.promises import Moment, always, answered_once, conserved, sometimes
from headrace_sim import Feed, FeedBuilder


class Payers(Computation):
    """Takes transfers from accounts, as long as these have the money."""

    def initial_state(self) -> dict[str, Any]:
        """Return an empty account, with nothing that waits."""
        return {"cents": 0, "waiting": []}

    def process_record(self, context: Context, record: Record) -> None:
        """Let it wait until nothing earlier can come."""
        context.state["waiting"].append([record.timestamp, record.stream, record.value])
        context.set_timer(str(record.timestamp), at=record.timestamp + 1)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Execute what has waited long enough, in the order of event time; deposits before transfers."""
        waiting = sorted(context.state["waiting"], key=_order)
        due = [entry for entry in waiting if entry[0] < timer.timestamp]
        context.state["waiting"] = waiting[len(due) :]
        for _, stream, value in due:
            if stream == "deposits":
                context.state["cents"] += value["cents"]
            else:
                self.transfer(context, value)

    def transfer(self, context: Context, transfer: dict[str, Any]) -> None:
        """Debit and credit it if the account has the money, and answer it."""
        booked = transfer["cents"] <= context.state["cents"]
        if booked:
            context.state["cents"] -= transfer["cents"]
            context.produce("credits", transfer)
        context.produce("answers", {"transfer": transfer["transfer"], "booked": booked})


def _order(entry: list[Any]) -> tuple[int, str, str]:
    timestamp, stream, value = entry
    return timestamp, stream, value.get("transfer", "")


class Payees(Computation):
    """Keeps what accounts have received."""

    def initial_state(self) -> dict[str, int]:
        """Nothing yet."""
        return {"cents": 0}

    def process_record(self, context: Context, record: Record) -> None:
        """Book a credit."""
        context.state["cents"] += record.value["cents"]


pipeline = Pipeline("bank")
pipeline.injector("branch", outputs=["deposits", "transfers"])
pipeline.add(
    Payers(),
    name="payers",
    inputs={
        "deposits": lambda record: record.value["account"],
        "transfers": lambda record: record.value["from"],
    },
    outputs=["credits", "answers"],
)
pipeline.add(Payees(), name="payees", inputs={"credits": lambda record: record.value["to"]})


@always(of="payers")
def no_overdraft(moment: Moment) -> None:
    """No account is ever below zero."""
    cents = moment.changed.after["cents"]
    assert cents >= 0, f"account {moment.changed.key} has {cents} cents"


@sometimes(stream="answers")
def some_transfer_is_refused(moment: Moment) -> bool:
    """Some account lacks the money: the case that matters."""
    return not moment.changed.value["booked"]


def _cents(value: dict[str, Any]) -> int:
    return int(value["cents"])


def _payers_cents(state: dict[str, Any]) -> int:
    waiting = (_cents(value) for _, stream, value in state["waiting"] if stream == "deposits")
    return _cents(state) + sum(waiting)


promises = [
    no_overdraft,
    some_transfer_is_refused,
    conserved(
        "no_money_is_lost",
        held={"payers": _payers_cents, "payees": _cents},
        carried={"deposits": _cents, "credits": _cents},
    ),
    answered_once("transfers", "answers", by=lambda value: value["transfer"]),
]


def feed(seed: int) -> Feed:
    """Make a feed: two deposits for each of four accounts, and 16 transfers between them, out of order by up to 0.4 s."""
    random, builder = Random(seed), FeedBuilder(pipeline)
    accounts = ["ann", "bob", "cy", "dora"]
    values: list[tuple[str, dict[str, Any]]] = [
        ("deposits", {"account": account, "cents": random.randrange(100, 1_000)}) for account in 2 * accounts
    ]
    for number in range(16):
        payer, payee = random.sample(accounts, 2)
        cents = random.randrange(1, 600)
        values.append(("transfers", {"transfer": f"t{number}", "from": payer, "to": payee, "cents": cents}))
    for number, (stream, value) in enumerate(values):
        at_us = SECOND + number * 100 * MILLISECOND
        timestamp = at_us - random.randrange(400 * MILLISECOND)
        builder.record(at_us=at_us, value=value, timestamp=timestamp, stream=stream)
        if number % 3 == 2:
            builder.watermark(at_us=at_us, low_watermark=at_us - 400 * MILLISECOND)
    return builder.build()
