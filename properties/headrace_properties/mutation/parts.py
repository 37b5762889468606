"""Small parts of the engine by hand, each against a model in plain Python: clocks are put back, and what is due comes at once.

In a cluster most of what they do is done again a moment later by somebody else, so that a mistake costs a wake, a retry or some
memory, and no oracle can see it. Here a part is alone.

Rules of this file: a part's name says what it is about; it asserts what its engine's docstrings promise, after each operation.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from headrace import MAX_TIME, MIN_TIME, SECOND, EngineOptions, KeyInterval, Pipeline
from headrace.deadlines import Deadline, Wakes
from headrace.delivery.outbox import Outbox
from headrace.history import History
from headrace.injector.injection import productions_of, time_of
from headrace.ownership.draining import Draining
from headrace.rules import RULES
from headrace.store.client import StoreClient
from headrace.store.election import Election
from headrace.store.mediator import MASTER_ROLE, Mediator
from headrace.watermarks.percentile import percentile_watermark
from headrace.wire import messages as m
from headrace.wire.effects import Effect, Send, SourceRecord
from headrace.wire.keys import ALL_KEYS
from headrace.wire.rows import Production, RowDelta
from headrace.worker.seen import ForgottenKeys, SeenFilter
from headrace_properties.search.judging import JudgedRun
from headrace_properties.search.workloads.computations import Echo

PARTS = "parts by hand"
_EACH = 12
"""How often a run tries each part."""
_STEPS = 60


def try_parts(number: int) -> JudgedRun:
    """Try each part a few times; what a part does not promise is an error of the run."""
    error = ""
    for part in _ALL:
        for turn in range(_EACH):
            try:
                part(Random(f"{number}/{turn}/{part.__name__}"))
            except Exception as problem:  # noqa: BLE001  a mutant may raise anything
                error = error or f"{part.__name__}: {type(problem).__name__}: {problem}"
    return JudgedRun({}, {}, Counter(), Counter(), 0, PARTS, error)


def _times(random: Random, *, back: float = 0.1) -> Iterator[tuple[int, bool]]:
    """Yield times of a clock, and whether it was put back."""
    now = 1_000
    for _ in range(_STEPS):
        is_back = random.random() < back
        now = max(0, now - random.randrange(1, 400)) if is_back else now + random.randrange(40)
        yield now, is_back


def _wakes(random: Random) -> None:
    """What is believed to come is what was asked for since the clock was put back, and never more than will come."""
    wakes, coming = Wakes(), 0
    believed: list[int] = []
    for now, is_back in _times(random):
        if is_back:
            wakes.set_clock_back()
            believed = []
        elif coming and random.random() < 0.4:
            at_us = random.choice([now, *believed])
            wakes.came(at_us)
            coming -= 1
            believed = [due_us for due_us in believed if due_us > at_us]
            believed = believed[max(0, len(believed) - coming) :]
        else:
            due_us = now + random.randrange(1, 60)
            asks = due_us < min(believed, default=MAX_TIME)
            assert wakes.asks(due_us) == asks, f"asks for {due_us} although {believed} come"
            if asks:
                coming += 1
                believed = sorted([*believed, due_us])
        assert wakes.next_us == min(believed, default=MAX_TIME), f"{believed} come"


def _deadlines(random: Random) -> None:
    """A deadline is due a wait after it began, or on a whole wait after it was due."""
    wait_us = random.randrange(1, 100)
    deadline, due_us = Deadline(wait_us), MAX_TIME
    for now, is_back in _times(random):
        assert deadline.is_due(now) == (now >= due_us)
        if is_back:
            deadline.set_clock_back(now)
            due_us = min(due_us, now + wait_us)
        elif random.random() < 0.3:
            deadline.begin(now)
            due_us = now + wait_us
        else:
            deadline.begin_on_time(now)
            while due_us <= now:
                due_us += wait_us
        assert deadline.due_us == due_us


def _production(record_id: str, consumer: str) -> Production:
    return Production(record_id, "clicks", consumer, "dog", b"", timestamp=0, origin=0)


def _outboxes(random: Random) -> None:
    """Each production is due a pause after it was sent, which doubles; none waits longer than its pause from now on."""
    outbox: Outbox[str] = Outbox(50, 300)
    pauses_us = (50, 100, 200, 300)
    due: dict[tuple[str, str], int] = {}
    attempts: dict[tuple[str, str], int] = {}
    for number, (now, is_back) in enumerate(_times(random)):
        name = random.choice([*due, ("x", "nobody")])
        if is_back:
            outbox.set_clock_back(now)
            due = {one: min(us, now + pauses_us[min(attempts[one], 4) - 1]) for one, us in due.items()}
        if random.random() < 0.4:
            name = random.choice("ab"), str(number)
            outbox.add(now, _production(name[1], name[0]), "holder")
            due[name], attempts[name] = now + pauses_us[0], 1
        elif random.random() < 0.3:
            found = outbox.acked(*name)
            assert (found is not None) == (due.pop(name, None) is not None)
            assert found is None or found.done
        found_again = {(one.production.consumer, one.production.record_id) for one in outbox.due(now)}
        late = {one for one, us in due.items() if us <= now}
        assert found_again == late, f"{found_again} are sent again, and {late} are due"
        for one in late:
            attempts[one] += 1
            due[one] = now + pauses_us[min(attempts[one], 4) - 1]
        assert outbox.next_due() == min(due.values(), default=None)
        assert {(one.production.consumer, one.production.record_id): one.due_us for one in outbox} == due
        assert all(outbox.find(*one) is not None for one in due)
        assert outbox.find("x", "nobody") is None
        counts = Counter(consumer for consumer, _ in due)
        assert dict(outbox.owing("abx")) == counts
        assert len(outbox) == len(due)
        outbox.check_invariants()


def _clients(random: Random) -> None:
    """A request is sent again whenever its time-out is over, until it is answered; then its asker hears of it, once."""
    effects: list[Effect] = []
    client, heard = StoreClient(effects, 100), list[int]()
    client.start(3)
    due: dict[int, tuple[int, int]] = {}
    asked: dict[int, int] = {}
    owners: dict[int, object] = {}
    alice, bob = object(), object()
    for now, is_back in _times(random):
        effects.clear()
        sent = list[int]()
        if is_back:
            client.set_clock_back(now)
            due = {number: (min(us, now + wait_us), wait_us) for number, (us, wait_us) in due.items()}
            asked = {number: min(us, now) for number, us in asked.items()}
        chance = random.random()
        if chance < 0.4:
            number, wait_us = client.number(), random.choice([100, 30])
            owners[number] = random.choice([alice, bob])
            client.ask(
                now, m.Peek(number, "role"), lambda _, reply: heard.append(reply.request),
                owners[number], timeout_us=wait_us if wait_us < 100 else None,
            )  # fmt: skip
            due[number], asked[number], sent = (now + wait_us, wait_us), now, [number]
        elif chance < 0.7:
            number = random.choice([*due, 0])
            reply: m.Reply = m.Peeked(number, 1, 1)
            if random.random() < 0.3:
                reply = m.Unavailable(number)
            client.reply(now, reply)
            answered = isinstance(reply, m.Peeked) and due.pop(number, None) is not None
            assert heard == [number] * answered, f"{heard} heard of {reply}"
            assert not answered or client.asked_us == asked[number]
            heard.clear()
        elif chance < 0.8:
            client.forget(alice)
            due = {number: its for number, its in due.items() if owners[number] is bob}
        client.sweep(now)
        late = [number for number, (us, _) in due.items() if us <= now]
        for number in late:
            due[number], asked[number] = (now + due[number][1], due[number][1]), now
        messages = [effect.message for effect in effects if isinstance(effect, Send)]
        told = [message.request for message in messages if isinstance(message, m.Peek)]
        assert sorted(told) == sorted([*sent, *late]), f"{told} were sent, and {late} are due"
        assert client.next_due() == min((us for us, _ in due.values()), default=None)
        assert sorted(request.request for request in client.open_requests()) == sorted(due)
        assert client.asks(alice) == sum(owners[number] is alice for number in due)
        assert len(client) == len(due)
        client.check_invariants()


def _filters(random: Random) -> None:
    """No id is taken for new that somebody may send again; those that nobody can are forgotten."""
    seen, alive, below = SeenFilter(random.choice([1, 8, 64]), 1e-9), list[tuple[list[int], int]](), MIN_TIME
    keys, forgotten = ForgottenKeys(random.choice([1, 8]), 1e-9), set[int]()
    for number in range(_STEPS):
        prints = [number * 10 + some for some in range(random.randrange(1, 5))]
        keys.add_all(prints)
        forgotten.update(prints)
        keys.check_invariants()
        assert all(print_ in keys.known for print_ in forgotten)
        assert sum(print_ in keys.known for print_ in range(10**6, 10**6 + 20)) == 0
        if random.random() < 0.8:
            newest = random.choice([number, max(below, 0), max(below, 0) + 1, max(number - 3, 0)])
            seen.add_all(prints, newest)
            alive.append((prints, newest))
        else:
            below = max(below, random.randrange(number + 1))
            seen.forget_before(below)
        alive = [(some, newest) for some, newest in alive if newest >= below]
        assert all(print_ in seen.known for some, _ in alive for print_ in some), "an id is taken for new"
        seen.check_invariants(below)
        assert len(seen) >= sum(len(some) for some, _ in alive)
    seen.forget_before(_STEPS)
    assert len(seen) == 0


def _percentiles(random: Random) -> None:
    """Of all that is pending, no more than its share is left behind; nothing goes back, or ahead of the sources."""
    for _ in range(_STEPS):
        _percentile(random)


def _percentile(random: Random) -> None:
    pending = [(random.randrange(20) * 10, random.randrange(1, 4)) for _ in range(random.randrange(6))]
    percent, previous = random.choice([50, 80, 90, 99.5, 100]), random.choice([MIN_TIME, 0, 50, 100])
    low, frontier = random.choice([0, 30, 90]), random.choice([0, 60, 120, 500])
    times = sorted(time_us for time_us, count in pending for _ in range(count))
    left_behind = RULES.outliers(percent, len(times))
    first = times[left_behind] if left_behind < len(times) else MAX_TIME
    told = percentile_watermark(percent, previous, low, frontier, pending)
    assert told == max(previous, low, min(first, frontier)), f"{told} of {pending}"


def _records(random: Random) -> None:
    """A record without a time has that of its arrival, if that is one; without an id, its place in the source."""
    pipeline, offset = Pipeline("one"), random.randrange(100)
    pipeline.injector("letters")
    pipeline.add(Echo("sent"), name="clerks", inputs=["letters"], outputs=["sent"])
    record = SourceRecord(offset, "letters", "dog", b"1", 5, 9)
    (made,) = productions_of(pipeline, "letters/0", ("letters",), record, 9)
    assert (made.record_id, made.consumer, made.key) == (f"letters/0:{offset}", "clerks", "dog")
    assert (made.timestamp, made.origin, made.value) == (5, 9, b"1")
    for arrived_us, expected in (
        (-1, 0),
        (0, 0),
        (1, 1),
        (MAX_TIME - 1, MAX_TIME - 1),
        (MAX_TIME, MAX_TIME - 1),
    ):
        given = random.choice([MAX_TIME, None, "x"])
        assert time_of(SourceRecord(0, "s", "k", b"", given, arrived_us)) == expected  # type: ignore[arg-type]


def _elections(random: Random) -> None:
    """A standby claims a role when its holder has been silent for a lease, and not before, wherever its clock was meanwhile."""
    effects: list[Effect] = []
    options, step_us = EngineOptions(), 20_000
    store, claimed = StoreClient(effects, options.store_timeout_us), list[m.Reply]()
    election = Election(
        "role", "master-1", options, store, lambda _, reply: claimed.append(reply), lambda: None
    )
    store.start(1)
    now, renewals, jumps = 5 * SECOND, 0, random.randrange(5, 50)
    dies = random.choice([jumps + 1, random.randrange(60, 90)])
    election.start(now, 1)
    for step in range(dies + 150):
        now += step_us
        if step in (jumps, jumps + 3):
            now += 3_600 * SECOND if step == jumps else -3_600 * SECOND
            if step != jumps:
                store.set_clock_back(now)
                election.set_clock_back(now)
        election.tick(now)
        store.sweep(now)
        renewals += step < dies and step % 10 == 0
        requests = [effect.message for effect in effects if isinstance(effect, Send)]
        effects.clear()
        for request in requests:
            if isinstance(request, m.Peek):
                store.reply(now, m.Peeked(request.request, 4, renewals))
            elif isinstance(request, m.Claim):
                assert (request.seen_epoch, request.holder, request.role) == (4, "master-1#1", "role")
                store.reply(now, m.Claimed(request.request, 5, (), 0, m.Table()))
        election.check_invariants()
        if claimed:
            assert step >= dies or jumps <= step < jumps + 3, (
                f"the role was claimed at step {step}, and its holder lived until {dies}"
            )
            return
    raise AssertionError("the role was not claimed in three leases")


def _drainings(random: Random) -> None:
    """A computation leaves when nobody owes it anything, and then it is empty, in heartbeats that know of both."""
    one, other = Pipeline("one"), Pipeline("one")
    for pipeline in (one, other):
        pipeline.injector("letters")
        pipeline.add(Echo("sent"), name="senders", inputs=["letters"], outputs=["sent"])
    one.add(Echo("told"), name="clerks", inputs=["sent"], outputs=["told"])
    owners = {1: ("senders", "worker-0"), 2: ("clerks", "worker-1")}
    assignments = tuple(
        m.Assignment(name, ALL_KEYS, sequencer, owner, 1) for sequencer, (name, owner) in owners.items()
    )
    version, draining, beats = 5, Draining((one, other)), dict[str, m.Heartbeat]()
    draining.adopt(m.Table(version, 1, ("clerks",), assignments, None, (0,)))
    since, settled, marked = version, False, 0
    addresses = ("worker-0", "worker-1", "letters/0")
    for _ in range(_STEPS):
        for address in random.sample(addresses, random.randrange(4)):
            loads = tuple(
                m.IntervalLoad(name, sequencer, 0, 0, "", random.randrange(2))
                for sequencer, (name, owner) in owners.items()
                if owner == address and random.random() < 0.9
            )
            owing = (("clerks", 1),) if random.random() < 0.3 else ()
            knows = random.randrange(version - 2, version + 1)
            beats[address] = m.Heartbeat(
                address, random.choice([1, 1, 1, 2]), knows, loads, owing, address != "letters/0"
            )
        told = draining.look(beats, addresses)
        assert told == (("clerks",) if marked and _says(beats, 2, marked) == 0 else ())
        if not settled:
            informed = all(
                address in beats and beats[address].table_version >= since and not beats[address].owing
                for address in addresses
            )
            settled = informed and _says(beats, 1, 0) is not None
        assert draining.wants_mint == (settled and not marked)
        if random.random() < 0.3:
            version += 1
            draining.adopt(m.Table(version, 1, ("clerks",), assignments, None, (0,)))
            marked = marked or (version if settled else 0)


def _says(beats: dict[str, m.Heartbeat], sequencer: int, version: int) -> int | None:
    beat = beats.get(f"worker-{sequencer - 1}")
    if beat is None or beat.incarnation != 1 or beat.table_version < version:
        return None
    return next((load.pending for load in beat.loads if load.sequencer == sequencer), None)


class _Asking:
    """Asks a store everything twice, as the network may, and looks at the replies."""

    def __init__(self, number: int) -> None:
        self.store = Mediator(History())
        self._number = number

    def ask(self, expected: type, make: Callable[..., m.Request], *arguments: Any) -> Any:
        """Ask, and return the reply."""
        self._number += 1
        replies = [self.store.handle(make(self._number, *arguments)) for _ in range(2)]
        for reply in replies:
            right = type(reply) is expected and reply.request == self._number
            assert right, f"{make.__name__}{arguments} is answered {reply}"
        assert replies[0] == replies[1], f"{make.__name__}{arguments} is answered {replies}"
        return replies[0]


def _stores(random: Random) -> None:
    """The latest owner of a key is served, and every other refused."""
    asking = _Asking(random.randrange(1_000, 2_000))
    store, ask = asking.store, asking.ask
    keys = ["", *sorted(random.sample("bdfhj", random.randrange(3)))]
    intervals = [KeyInterval(low, high) for low, high in zip(keys, [*keys[1:], None], strict=True)]
    ask(m.Claimed, m.Claim, MASTER_ROLE, 0, "master-0#1")
    changes = tuple(m.MintChange("clerks", interval, "worker-0", 1) for interval in intervals)
    ask(m.Minted, m.Mint, 1, 1, changes, 0)
    key = random.choice("acegik")
    place = bisect_right(keys, key) - 1
    mine, sequencer = intervals[place], place + 1
    write = (RowDelta(key, 1, state=b"1", seen=(("r", 5),)),)
    ask(m.Written, m.Write, "clerks", sequencer, write)
    assert ask(m.RowRead, m.Read, "clerks", sequencer, key).row.key == key
    assert [row.key for row in ask(m.Scanned, m.Scan, "clerks", sequencer, mine, None, ()).rows] == [key]
    below = random.choice([5, 6])
    ask(m.Collected, m.CollectIds, "clerks", sequencer, mine, below)
    assert len(store.rows("clerks")[key].seen) == (below == 5)
    moved = (m.MintChange("clerks", mine, "worker-1", 1),)
    ask(m.Minted, m.Mint, 1, 2, moved, 0)
    latest = store.live_sequencer("clerks", key)
    assert latest == len(intervals) + 1
    refused = [
        ask(m.Refused, m.Write, "clerks", sequencer, write), ask(m.Refused, m.Read, "clerks", sequencer, key),
        ask(m.Refused, m.Scan, "clerks", sequencer, mine, None, ()),
        ask(m.Refused, m.CollectIds, "clerks", sequencer, mine, 9),
    ]  # fmt: skip
    assert [reply.latest for reply in refused] == [latest] * 4
    ask(m.Claimed, m.Claim, MASTER_ROLE, 1, "master-1#1")
    ask(m.Refused, m.Mint, 1, 3, moved, 0)
    store.check_invariants()


def _journals(random: Random) -> None:
    """The latest holder of a role is served, and every other refused; a stale reporter is named."""
    asking = _Asking(random.randrange(1_000, 2_000))
    ask, nothing = asking.ask, m.Progress()
    ask(m.Claimed, m.Claim, MASTER_ROLE, 0, "master-0#1")
    ask(m.Minted, m.Mint, 1, 1, (m.MintChange("clerks", ALL_KEYS, "worker-0", 1),), 0)
    assert asking.store.handle(m.Peek(7, "letters/0")) == m.Peeked(7, 0, 0)
    ask(m.Claimed, m.Claim, "letters/0", 0, "letters/0#1")
    ask(m.Refused, m.Claim, "letters/0", 0, "letters/0#2")
    ask(m.Journaled, m.JournalPosition, "letters/0", 1, 3, nothing)
    ask(m.Claimed, m.Claim, "letters/0", 1, "letters/0#2")
    ask(m.Refused, m.JournalPosition, "letters/0", 1, 4, nothing)
    assert asking.store.journal("letters/0").position == 3
    ask(m.Claimed, m.Claim, "authority", 0, "authority-0-0#1")
    ask(m.Renewed, m.Renew, "authority", 1)
    live = m.IntervalReporter("clerks", 1), m.ProcessReporter("letters", 0, 2)
    stale = m.IntervalReporter("clerks", 2), m.ProcessReporter("letters", 0, 1)
    assert ask(m.Journaled, m.JournalWatermarks, "authority", 1, (), live).stale == ()
    assert ask(m.Journaled, m.JournalWatermarks, "authority", 1, (), (*live, *stale)).stale == stale
    ask(m.Claimed, m.Claim, "authority", 1, "authority-0-1#1")
    ask(m.Refused, m.Renew, "authority", 1)
    ask(m.Refused, m.JournalWatermarks, "authority", 1, (), ())


_ALL = (
    _wakes, _deadlines, _outboxes, _clients, _filters, _percentiles, _records, _elections, _drainings, _stores, _journals,
)  # fmt: skip
