"""Injectors that crash, live on as zombies and lose messages, against the real store (MillWheel 5.2, 6.1.1, 6.2).

A receiver deduplicates by id, collects ids behind the published horizon, and refuses what is before it. Whatever the schedule,
each record must be applied once, and none that was on time when it was injected may find the watermark ahead of it.
"""

from hypothesis import example, given
from hypothesis import strategies as st

from millrace import MAX_TIME, MILLISECOND, MIN_TIME, EngineOptions, Pipeline
from millrace._effects import Event, Replay, Send, SourceEvent, SourceRecord, SourceWatermark, Start, Wake
from millrace._injector import Injector, Phase
from millrace._mediator import Mediator
from millrace._messages import Ack, Deliver, InjectorReport
from millrace._rows import Production
from millrace.history import History, Injected

OPTIONS = EngineOptions()
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
        below = self.horizon - OPTIONS.id_slack_us
        self.seen = {record_id: origin for record_id, origin in self.seen.items() if origin >= below}


class World:
    """One injector's process in all its incarnations, one clock, one store, one receiver."""

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
        self.alive: list[Injector] = []
        self.incarnations = 0
        self.wire: list[Production] = []
        self.loses_acks = False
        self.start()

    def start(self) -> None:
        self.incarnations += 1
        spec = self.pipeline.injectors["mail"]
        injector = Injector(spec, 0, [self.pipeline], OPTIONS, self.history)
        self.alive.append(injector)
        self.tell(injector, Start(self.incarnations))

    def tell(self, injector: Injector, event: Event) -> None:
        effects = injector.handle(self.now, event)
        injector.check_invariants()
        for effect in effects:
            match effect:
                case Replay(offset=offset):
                    for replayed in self.source[offset : self.fed]:
                        self.tell(injector, replayed)
                case Send(to="store", message=request):
                    self.tell(injector, self.store.handle(request))  # type: ignore[arg-type]
                case Send(message=Deliver(production=production)):
                    self.wire.append(production)
                case Send(message=InjectorReport() as report):
                    if self.store.is_current_report(ADDRESS, report.epoch):
                        self.receiver.learn(report)
                case _:
                    pass

    def feed(self) -> None:
        if self.fed < len(self.source):
            event = self.source[self.fed]
            self.fed += 1
            for injector in self.alive:
                self.tell(injector, event)

    def wake(self, steps: int) -> None:
        for _ in range(steps):
            self.now += STEP_US
            for injector in self.alive:
                self.tell(injector, Wake())

    def arrive(self, number: int) -> None:
        """One of the deliveries under way arrives, and may arrive again later."""
        if self.wire:
            production = self.wire[number % len(self.wire)]
            self.receiver.deliver(production)
            for injector in self.alive if not self.loses_acks else ():
                self.tell(injector, Ack("", (production.record_id,)))

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
            case "wake":
                self.wake(argument)
            case "arrive":
                self.arrive(argument)
            case "lose":
                self.wire.clear()
            case "crash":
                self.alive.clear()
                self.start()
            case "supersede":
                self.start()
            case "collect":
                self.receiver.collect()
            case _:
                self.loses_acks = not self.loses_acks

    def heal(self) -> None:
        """Everything that was lost is sent again, and arrives; then the source is at its end."""
        self.loses_acks = False
        while self.fed < len(self.source):
            self.feed()
        for _ in range(20):
            self.wake(10)
            for number in range(len(self.wire)):
                self.arrive(number)
            self.wire.clear()
            self.receiver.collect()


def source_of(timestamps: list[int]) -> list[SourceEvent]:
    """Positive: a record; negative: what the source says of its watermark (which the next record may break)."""
    events: list[SourceEvent] = []
    for offset, timestamp in enumerate(timestamps):
        if timestamp >= 0:
            events.append(SourceRecord(offset, "mail", "", b"1", timestamp))
        else:
            events.append(SourceWatermark(offset, -timestamp))
    return [*events, SourceWatermark(len(events), MAX_TIME)]


VERBS = ["feed", "feed", "wake", "wake", "arrive", "arrive", "lose", "crash", "supersede", "collect", "acks"]
Action = tuple[str, int]
actions = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(1, 30)), max_size=40)

# The successor stamps its copy later than its predecessor did, and the id is collected before that copy arrives.
COLLECTED_TOO_EARLY: list[Action] = [
    ("feed", 1), ("wake", 3), ("acks", 1), ("arrive", 0), ("lose", 1), ("wake", 30), ("crash", 1), ("wake", 6), ("collect", 1),
]  # fmt: skip


@given(timestamps=st.lists(st.integers(-30, 30), min_size=1, max_size=8), actions=actions)
@example(timestamps=[5], actions=COLLECTED_TOO_EARLY)
def test_each_record_is_applied_once_and_none_becomes_late_whatever_crashes(
    timestamps: list[int], actions: list[Action]
) -> None:
    world = World(source_of(timestamps))
    for verb, argument in actions:
        world.act(verb, argument)
    world.heal()
    records = [f"{ADDRESS}:{event.offset}" for event in world.source if isinstance(event, SourceRecord)]
    assert sorted(world.receiver.applied) == sorted(records)
    world.check_lateness()
    assert world.receiver.low_watermark == MAX_TIME
    running = [injector for injector in world.alive if injector.phase is Phase.RUNNING]
    assert len(running) == 1, "all but the last must have learned that they are fenced"
