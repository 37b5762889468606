"""A small bank, and Histories of it written by hand: an event a millisecond, unless the story says otherwise."""

from collections.abc import Sequence
from typing import Any

from headrace import (
    MAX_TIME,
    MILLISECOND,
    Clock,
    Computation,
    Context,
    JsonCodec,
    Pipeline,
    Productions,
    Record,
)
from headrace.history import (
    Applied,
    Event,
    Executed,
    FaultStruck,
    Healed,
    Injected,
    KeysSampled,
    Output,
    Published,
    RunEnded,
)
from headrace.wire.messages import Progress
from headrace.wire.rows import Production, RowDelta, StoredTimer, Version
from headrace_properties.promises import Moment, Promise, judge_promises
from headrace_properties.verdict import Verdict
from headrace_sim import Feed, FeedBuilder

CODEC = JsonCodec()


class Accounts(Computation):
    """Keeps balances. A transfer is debited here and credited by a record to the other account."""

    def __init__(self, *, overdraft: bool = False, fee: int = 0) -> None:
        self.overdraft = overdraft
        self.fee = fee

    def initial_state(self) -> Any:
        """No money."""
        return {"balance": 0}

    def process_record(self, context: Context, record: Record) -> None:
        """Take a deposit or a credit, or send a transfer."""
        amount, account = record.value["amount"], context.state
        if record.stream == "transfers":
            if account["balance"] < amount and not self.overdraft:
                context.produce("told", {"id": record.value["id"], "ok": False}, key=record.key)
                return
            account["balance"] -= amount
            credit = {"amount": amount - self.fee, "to": record.value["to"]}
            context.produce("credits", credit, key=record.value["to"])
            context.produce("told", {"id": record.value["id"], "ok": True}, key=record.key)
        else:
            account["balance"] += amount


class Credits(Computation):
    """Holds what was received; apart from the accounts, as a pipeline has no cycles."""

    def initial_state(self) -> Any:
        """No money."""
        return {"balance": 0}

    def process_record(self, context: Context, record: Record) -> None:
        """Add a credit."""
        context.state["balance"] += record.value["amount"]


def bank(
    *, overdraft: bool = False, fee: int = 0, productions: Productions = Productions.STRONG, exactly_once: bool = True
) -> Pipeline:  # fmt: skip
    """Build a bank of two halves: accounts that pay, and credits that receive."""
    pipeline = Pipeline("bank")
    pipeline.injector("desk", outputs=["deposits", "transfers"])
    pipeline.add(
        Accounts(overdraft=overdraft, fee=fee),
        name="accounts",
        inputs=["deposits", "transfers"],
        outputs=["credits", "told"],
        productions=productions,
        exactly_once=exactly_once,
    )
    pipeline.add(Credits(), name="received", inputs=["credits"])
    return pipeline


def bank_feed(pipeline: Pipeline, transfers: int = 6) -> Feed:
    """Make deposits of 10 on two accounts, and transfers of 4 between them."""
    builder = FeedBuilder(pipeline)
    for number, owner in enumerate(("ann", "bob")):
        builder.record(
            at_us=number * MILLISECOND, stream="deposits", key=owner, value={"amount": 10}, timestamp=number
        )
    for number in range(transfers):
        key, to = ("ann", "bob") if number % 3 else ("bob", "ann")
        value = {"id": number, "amount": 4, "to": to}
        at_us = (50 + 20 * number) * MILLISECOND
        builder.record(at_us=at_us, stream="transfers", key=key, value=value, timestamp=10 + number)
    return builder.build()


class Told:
    """A History in the making. Each method adds an event, a millisecond after the last, and returns it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.at_us = 0
        self._number = 0

    def wait(self, time_us: int) -> None:
        """Advance time."""
        self.at_us += time_us

    def add(self, event: Event) -> Event:
        """Add an event."""
        self.events.append(event)
        self.at_us += MILLISECOND
        return event

    def inject(
        self, stream: str, key: str, value: Any, name: str = "", timestamp: int = 0, to: str = "accounts"
    ) -> Event:
        """A record comes in."""
        self._number += 1
        record = Production(name or f"in{self._number}", stream, to, key, CODEC.encode(value), timestamp, 0)
        return self.add(Injected(self.at_us, "desk/0", self._number, 0, (record,)))

    def apply(
        self,
        key: str,
        state: Any = None,
        *,
        computation: str = "accounts",
        seen: Sequence[str] = (),
        makes: Sequence[Production] = (),
        timers: Sequence[StoredTimer] = (),
        fired: Sequence[StoredTimer] = (),
        hold: int | None = None,
        number: int = 0,
    ) -> Event:
        """A write lands."""
        data = None if state is None else CODEC.encode(state) if state != "" else b""
        self._number += 1
        delta = RowDelta(
            key, number or self._number, data, hold, tuple(timers), (), tuple(fired),
            tuple((record_id, 0) for record_id in seen), tuple(makes),
        )  # fmt: skip
        return self.add(Applied(self.at_us, "store", computation, 1, 1, delta))

    def run(self, key: str, cause: str, number: int, *makes: Production, computation: str = "accounts") -> Event:  # fmt: skip
        """User code runs; nothing is durable yet."""
        event = Executed(
            self.at_us, "worker-0", computation, key, cause, 0, late=False, timer=None, input_watermark=0,
            version=Version(1, number), productions=tuple(makes),
        )  # fmt: skip
        return self.add(event)

    def output(self, key: str, value: Any, name: str = "", stream: str = "told", timestamp: int = 0) -> Event:
        """A record arrives outside."""
        self._number += 1
        return self.add(
            Output(
                self.at_us, "outside", production(stream, "", key, value, name or f"out{self._number}", timestamp)
            )
        )  # fmt: skip

    def publish(self, **low: int) -> Event:
        """Low watermarks are broadcast."""
        return self.add(
            Published(self.at_us, "authority-0", tuple((name, Progress(time)) for name, time in low.items()))
        )

    def fault(self) -> Event:
        """A fault strikes."""
        return self.add(FaultStruck(self.at_us, "worker-0", "crash", ""))

    def heal(self) -> Event:
        """All faults end."""
        return self.add(Healed(self.at_us, "", ()))

    def sampled(self, fraction: float) -> Event:
        """The History covers only some keys."""
        return self.add(KeysSampled(self.at_us, "", fraction))

    def end(self, why: str = "quiescent") -> "Told":
        """The run ends."""
        self.add(RunEnded(self.at_us, "", why))
        return self

    def judge(self, *promises: Promise, pipeline: Pipeline | None = None) -> dict[str, Verdict]:
        """Judge the events so far."""
        return judge_promises(self.events, promises, [pipeline or bank()])

    def verdict(self, promise: Promise, pipeline: Pipeline | None = None) -> Verdict:
        """Judge by one promise."""
        return self.judge(promise, pipeline=pipeline)[promise.name]


def production(stream: str, consumer: str, key: str, value: Any, name: str, timestamp: int = 0) -> Production:
    """Make a record on its way to a consumer."""
    return Production(name, stream, consumer, key, CODEC.encode(value), timestamp, 0)


def timer(tag: str, timestamp: int = MAX_TIME - 1) -> StoredTimer:
    """Make a pending timer."""
    return StoredTimer(
        tag, timestamp, Clock.WATERMARK, timestamp, overdue=False, hold=None, set_by=Version(1, 1), origin=0
    )


class Unshowable:
    def __repr__(self) -> str:
        raise ValueError


def plain_assertion(moment: Moment) -> None:
    """Here, since pytest does not rewrite this module's assertions."""
    total = sum(state["balance"] for state in moment.states("accounts").values())
    name, odd = "evil \x1b[2J" + "x" * 300, Unshowable()
    check_total(total, name, odd)


def check_total(total: int, name: str, odd: object) -> None:
    assert total == 100
