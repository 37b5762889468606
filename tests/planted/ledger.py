"""A bill is split by whole cents, and the odd cents are lost."""

from random import Random
from typing import Any

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_properties.promises import conserved
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("no_cent_is_lost", "split")


class Split(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        bill = record.value
        for member in bill["members"]:
            context.produce("shares", {"member": member, "cents": bill["cents"] // len(bill["members"])})


class MendedSplit(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        bill = record.value
        share, odd = divmod(bill["cents"], len(bill["members"]))
        for number, member in enumerate(bill["members"]):
            context.produce("shares", {"member": member, "cents": share + (number < odd)})


class Debts(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state["cents"] = context.state.get("cents", 0) + record.value["cents"]
        context.set_timer("statement", at=5 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("statements", {"member": context.key, "cents": context.state["cents"]})


def build(split: Computation) -> Pipeline:
    built = Pipeline("ledger")
    built.injector("bills")
    built.add(split, name="split", inputs={"bills": lambda record: record.value["bill"]}, outputs=["shares"])
    built.add(
        Debts(),
        name="debts",
        inputs={"shares": lambda record: record.value["member"]},
        outputs=["statements"],
    )
    return built


pipeline, mended = build(Split()), build(MendedSplit())
MEMBERS = ["ann", "bob", "cy"]


def draw(random: Random, number: int) -> dict[str, Any]:
    return {
        "bill": f"bill-{number}",
        "members": random.sample(MEMBERS, random.randint(1, 3)),
        "cents": random.randrange(900),
    }


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw, records=12)


promises = [
    conserved(
        "no_cent_is_lost",
        held={"split": lambda _: 0, "debts": lambda state: state.get("cents", 0)},
        carried=dict.fromkeys(["bills", "shares"], lambda value: value["cents"]),
    )
]
