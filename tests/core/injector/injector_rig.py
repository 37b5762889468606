"""An injector's process for tests, and its neighbours' messages."""

import json

from headrace import (
    MILLISECOND,
    Computation,
    DeadLetter,
    EngineOptions,
    KeyInterval,
    Pipeline,
)
from headrace.history import History
from headrace.injector.injector import Injector
from headrace.wire.effects import (
    Effect,
    Event,
    Replayed,
    Send,
    SourceRecord,
    Start,
    Wake,
)
from headrace.wire.messages import (
    Ack,
    Assignment,
    Claimed,
    Deliver,
    JournalPosition,
    Peeked,
    Progress,
    Table,
    Watermarks,
)
from headrace.wire.rows import Production
from tests.core.wakes import take_wakes

ADDRESS = "mail/0"
FIRST_REQUEST = (1 << 32) + 1
"""Of incarnation 1: the `Peek`. The next are the `Claim` and the journal's."""
CLAIM, JOURNAL = FIRST_REQUEST + 1, FIRST_REQUEST + 2
JOURNAL_US = EngineOptions().injector_journal_us
HEARTBEAT_US = EngineOptions().heartbeat_period_us
MINUTE_US = 60_000 * MILLISECOND


def pipeline_of(
    *,
    counted: bool = True,
    skew_limit_us: int | None = None,
    dead_letters: str | None = None,
    percentile: float = 100.0,
) -> Pipeline:
    """ "counter" takes letters by city, "sorter" by the record's own key; "spam" goes outside."""
    pipeline = Pipeline("post")
    policy = DeadLetter(dead_letters) if dead_letters else None
    pipeline.injector("mail", outputs=["letters", "spam"], skew_limit_us=skew_limit_us, on_malformed=policy)
    if counted:
        city = {"letters": lambda record: record.value["city"]}
        pipeline.add(Computation(), name="counter", inputs=city, watermark_percentile=percentile)
    pipeline.add(Computation(), name="sorter", inputs=["letters"])
    return pipeline


def table_of(
    version: int = 1, *, counter: int = 1, topology: int = 0, retiring: tuple[str, ...] = ()
) -> Table:
    assignments = (
        Assignment("counter", KeyInterval("", "m"), counter, f"worker-{counter}", 1),
        Assignment("counter", KeyInterval("m", None), 90, "worker-90", 1),
        Assignment("sorter", KeyInterval(), 91, "worker-91", 1),
    )
    return Table(version, topology, retiring, assignments)


class Rig:
    """A process with its history; its invariants are checked after each event.

    Attributes:
        wakes: when it will be woken, earliest first, microseconds on its clock.
    """

    def __init__(self, *topologies: Pipeline, options: EngineOptions | None = None) -> None:
        self.options = options or EngineOptions()
        self.history = History()
        self.wakes: list[int] = []
        topologies = topologies or (pipeline_of(),)
        spec = topologies[0].injectors["mail"]
        self.injector = Injector(spec, 0, topologies, self.options, self.history)

    def at(self, now: int, event: Event) -> list[Effect]:
        """Its effects but for `wakes`."""
        effects = take_wakes(self.wakes, now, event, self.injector.handle(now, event))
        self.injector.check_invariants()
        return effects

    def deliveries(self, now: int, event: Event) -> list[tuple[str, str, str]]:
        """(to, consumer, record id) of the records that it sends."""
        found = []
        for effect in self.at(now, event):
            if isinstance(effect, Send) and isinstance(effect.message, Deliver):
                production = effect.message.production
                found.append((effect.to, production.consumer, production.record_id))
        return found

    def wakes_until(self, until_us: int) -> list[tuple[int, list[Effect]]]:
        """Wake it at each time that it requests; return what it sends."""
        found: list[tuple[int, list[Effect]]] = []
        while (due_us := self.wakes[0]) <= until_us:
            found.append((due_us, self.at(due_us, Wake())))
        return found

    def of(self, kind: type) -> list[object]:
        """The events of one type in its history."""
        return [event for event in self.history if isinstance(event, kind)]


def running(
    *topologies: Pipeline,
    now: int = 0,
    options: EngineOptions | None = None,
    table: Table | None = None,
    epoch: int = 1,
    position: int = 0,
    journaled: Progress | None = None,
    replayed: bool = True,
) -> Rig:
    """A process that has just claimed its role, under incarnation 1, and by default has heard that it has re-read all."""
    rig = Rig(*topologies, options=options)
    rig.at(now, Start(1))
    rig.at(now, Peeked(FIRST_REQUEST, epoch - 1, 0))
    contents = () if journaled is None else ((ADDRESS, journaled),)
    rig.at(now, Claimed(CLAIM, epoch, contents, position, table or table_of()))
    if replayed:
        rig.at(now, Replayed())
    return rig


def letter(
    offset: int,
    timestamp: int,
    city: str = "Riva",
    key: str = "p",
    stream: str = "letters",
    arrived_us: int = 0,
) -> SourceRecord:
    value = json.dumps({"city": city}, separators=(",", ":")).encode()
    return SourceRecord(offset, stream, key, value, timestamp, arrived_us)


def production(record: SourceRecord, consumer: str, key: str, origin: int) -> Production:
    record_id = f"{ADDRESS}:{record.offset}"
    return Production(record_id, record.stream, consumer, key, record.value, record.timestamp, origin)


def ack(rig: Rig, now: int, offset: int) -> None:
    """Both consumers of a letter ACK it."""
    for consumer in ("counter", "sorter"):
        rig.at(now, Ack(consumer, (f"{ADDRESS}:{offset}",)))


def journal_request(rig: Rig, now: int) -> JournalPosition:
    requests = [
        effect.message
        for effect in rig.at(now, Wake())
        if isinstance(effect, Send) and isinstance(effect.message, JournalPosition)
    ]
    (request,) = requests
    return request


def broadcast(low_watermark: int, *names: str) -> Watermarks:
    return Watermarks(0, tuple((name, Progress(low_watermark)) for name in names or ("counter", "sorter")))
