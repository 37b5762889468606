"""Injectors that crash, survive as zombies and lose messages, against the real store (MillWheel 5.2, 6.1.1, 6.2).

A receiver deduplicates by id, collects ids behind the published horizon, and refuses what is before it. Whatever the schedule,
each record must be applied once, and none that was on time when it was injected may find the watermark ahead of it. Sources are
read again as slowly as you like, and every process's clock may jump.
"""

from hypothesis import example, given
from hypothesis import strategies as st

from headrace import MAX_TIME, MILLISECOND, MIN_TIME, SECOND, EngineOptions, Pipeline
from headrace.history import History, Injected
from headrace.injector.injector import Injector, Phase
from headrace.store.mediator import Mediator
from headrace.wire.effects import (
    Event,
    Replay,
    Replayed,
    Send,
    SourceEvent,
    SourceRecord,
    SourceWatermark,
    Start,
    Wake,
)
from headrace.wire.messages import Ack, Deliver, InjectorReport, ProcessReporter
from headrace.wire.rows import Production

OPTIONS = EngineOptions(id_slack_us=0)
"""Ids are collected as early as the horizon allows."""
ADDRESS = "mail/0"
STEP_US = 50 * MILLISECOND


class Receiver:
    """The outside world as a consumer that collects its ids."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}
        self.applied: dict[str, int] = {}
        self.low_watermark = self.horizon = MIN_TIME

    def deliver(self, production: Production) -> None:
        if production.origin < self.horizon or production.record_id in self.seen:
            return
        assert production.record_id not in self.applied, f"{production.record_id} is applied twice"
        self.seen[production.record_id] = production.origin
        self.applied[production.record_id] = self.low_watermark

    def learn(self, report: InjectorReport) -> None:
        self.low_watermark = max(self.low_watermark, report.low_watermark)
        self.horizon = max(self.horizon, report.horizon)

    def collect(self) -> None:
        self.seen = {record_id: origin for record_id, origin in self.seen.items() if origin >= self.horizon}


class Member:
    """One incarnation of the process.

    Attributes:
        injector: its state machine.
        skew_us: its clock is this much ahead of the world's.
        reads: offset that it is given next; ``None``: it has not asked for any.
        replay_to: how far the source was when it asked; ``None``: it has heard that this was given.
    """

    def __init__(self, injector: Injector, skew_us: int) -> None:
        self.injector, self.skew_us = injector, skew_us
        self.reads: int | None = None
        self.replay_to: int | None = None


class World:
    """One injector's process in all its incarnations, one store, one receiver.

    The source's log begins empty; what is ``fed`` is in it.
    """

    def __init__(self, source: list[SourceEvent]) -> None:
        pipeline = Pipeline("post")
        pipeline.injector("mail")
        self.pipeline = pipeline
        self.source = source
        self.fed = 0
        self.now = 0
        self.history = History()
        self.store = Mediator(self.history)
        self.receiver = Receiver()
        self.alive: list[Member] = []
        self.incarnations = 0
        self.wire: list[Production] = []
        self.loses_acks = False
        self.start(skew_us=0)

    def start(self, skew_us: int) -> None:
        self.incarnations += 1
        spec = self.pipeline.injectors["mail"]
        member = Member(Injector(spec, 0, [self.pipeline], OPTIONS, self.history), skew_us)
        self.alive.append(member)
        self.tell(member, Start(self.incarnations))

    def tell(self, member: Member, event: Event) -> None:
        effects = member.injector.handle(self.now + member.skew_us, event)
        member.injector.check_invariants()
        for effect in effects:
            match effect:
                case Replay(offset=offset):
                    member.reads, member.replay_to = offset, self.fed
                case Send(to="store", message=request):
                    self.tell(member, self.store.handle(request))  # type: ignore[arg-type]
                case Send(message=Deliver(production=production)):
                    self.wire.append(production)
                case Send(message=InjectorReport() as report):
                    if self.store.takes_report(
                        ProcessReporter(report.injector, report.process, report.epoch)
                    ):
                        self.receiver.learn(report)
                case _:
                    pass

    def feed(self) -> None:
        """The source gets one more; only who has read all that was in it reads that at once."""
        up_to_date = [member for member in self.alive if member.reads == self.fed]
        self.fed = min(self.fed + 1, len(self.source))
        for member in up_to_date:
            self.read(member, 1)

    def read(self, member: Member, count: int) -> None:
        for _ in range(count):
            if member.reads is not None and member.reads < self.fed:
                member.reads += 1
                self.tell(member, self.source[member.reads - 1])
            if member.reads is not None and member.replay_to is not None and member.reads >= member.replay_to:
                member.replay_to = None
                self.tell(member, Replayed())

    def wake(self, steps: int) -> None:
        for _ in range(steps):
            self.now += STEP_US
            for member in self.alive:
                self.tell(member, Wake())

    def arrive(self, number: int) -> None:
        """One of the deliveries under way arrives, and may arrive again later."""
        if self.wire:
            production = self.wire[number % len(self.wire)]
            self.receiver.deliver(production)
            for member in self.alive if not self.loses_acks else ():
                self.tell(member, Ack("", (production.record_id,)))

    def check_lateness(self) -> None:
        """A record that no process injected as a late one never finds the watermark ahead of it."""
        late = {
            event.productions[0].record_id
            for event in self.history
            if isinstance(event, Injected) and event.productions[0].timestamp < event.source_watermark
        }
        for event in self.source:
            record_id = f"{ADDRESS}:{event.offset}"
            if isinstance(event, SourceRecord) and record_id not in late:
                assert self.receiver.applied[record_id] <= event.timestamp, f"{record_id} became late"

    def act(self, verb: str, argument: int) -> None:
        match verb:
            case "feed":
                self.feed()
            case "read":
                for member in self.alive:
                    self.read(member, argument % 4 + 1)
            case "jump":
                self.alive[argument % len(self.alive)].skew_us = (argument - 15) * SECOND
            case "wake":
                self.wake(argument)
            case "arrive":
                self.arrive(argument)
            case "lose":
                self.wire.clear()
            case "crash":
                self.alive.clear()
                self.start(skew_us=(argument - 1) * SECOND)
            case "supersede":
                self.start(skew_us=(1 - argument) * SECOND)
            case "collect":
                self.receiver.collect()
            case _:
                self.loses_acks = not self.loses_acks

    def heal(self) -> None:
        """Everything that was lost is sent again, and arrives; then the source is at its end."""
        self.loses_acks = False
        self.fed = len(self.source)
        for member in self.alive:
            self.read(member, self.fed + 1)
        for _ in range(20):
            self.wake(10)
            for number in range(len(self.wire)):
                self.arrive(number)
            self.wire.clear()
            self.receiver.collect()


def source_of(log: list[tuple[int, int]]) -> list[SourceEvent]:
    """(timestamp, pause before it) of each. Positive: a record; negative: what the source says of its watermark (which the next
    record may break). Its clock, too, may go back."""
    events: list[SourceEvent] = []
    arrived_us = 0
    for offset, (timestamp, pause_us) in enumerate(log):
        arrived_us += pause_us
        if timestamp >= 0:
            events.append(SourceRecord(offset, "mail", "", b"1", timestamp, arrived_us))
        else:
            events.append(SourceWatermark(offset, -timestamp, arrived_us))
    return [*events, SourceWatermark(len(events), MAX_TIME, arrived_us)]


VERBS = [
    "feed", "feed", "read", "wake", "wake", "arrive", "arrive", "lose", "crash", "supersede", "collect", "acks", "jump",
]  # fmt: skip
Action = tuple[str, int]
actions = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(1, 30)), max_size=40)

# A successor that stamped its copy later than its predecessor did would let the id be collected before that copy arrives.
COLLECTED_TOO_EARLY: list[Action] = [
    ("feed", 1), ("wake", 3), ("acks", 1), ("arrive", 0), ("lose", 1), ("wake", 30), ("crash", 30), ("read", 3), ("wake", 6),
    ("collect", 1),
]  # fmt: skip


@given(
    log=st.lists(st.tuples(st.integers(-30, 30), st.integers(-2, 5)), min_size=1, max_size=8), actions=actions
)
@example(log=[(5, 0)], actions=COLLECTED_TOO_EARLY)
def test_each_record_is_applied_once_and_none_becomes_late_whatever_crashes(
    log: list[tuple[int, int]], actions: list[Action]
) -> None:
    world = World(source_of(log))
    for verb, argument in actions:
        world.act(verb, argument)
    world.heal()
    records = [f"{ADDRESS}:{event.offset}" for event in world.source if isinstance(event, SourceRecord)]
    assert sorted(world.receiver.applied) == sorted(records)
    world.check_lateness()
    assert world.receiver.low_watermark == world.receiver.horizon == MAX_TIME
    phases = [member.injector.phase for member in world.alive]
    assert phases[-1] is Phase.RUNNING
    assert set(phases[:-1]) <= {Phase.RUNNING, Phase.FENCED}
    for member in world.alive:
        if member.injector.phase is Phase.RUNNING:
            assert not member.injector.unfinished + member.injector.held_back, (
                "who has not learned that it is fenced has nothing more to say"
            )
