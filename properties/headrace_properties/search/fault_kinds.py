"""The kinds of faults that random plans choose from, in tables that keep their meaning.

A plan's bytes and a seed mean what they mean by a table: its kinds, their order, and all that they look up (`STEPS` too). So a
table never changes. A new kind goes in a new table, after those of the one before, and a plan that is drawn from it names it
(`headrace_properties.search.plans`); plans and seeds of older tables still mean the same faults.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from headrace import MILLISECOND, SECOND
from headrace.wire.messages import ChangeTopology, MergeIntervals, MoveInterval, SplitInterval
from headrace_properties.search.ground import FIRST_KEY, Ground
from headrace_sim import Does, Moment, Step
from headrace_sim import faults as f
from headrace_sim.steps import MESSAGES, role_of

_LEASE_US = 1_200 * MILLISECOND
"""A process that pauses for longer is replaced."""


class Slot:
    """The bytes that a fault is made from.

    Attributes:
        ground: what there is to disturb.
        at_us: when the fault begins, if it begins at a time.
        when: the byte of that time.
        where: the byte of the place.
        how: the byte of the fault's form.
        for_us: how long it lasts: 20 ms to 3.9 s, mostly short.
    """

    def __init__(self, ground: Ground, at_us: int, when: int, where: int, how: int, how_long: int) -> None:
        self.ground = ground
        self.at_us = at_us
        self.when = when
        self.where = where
        self.how = how
        self.for_us = 20 * MILLISECOND + how_long * how_long * 60

    def pick(self, places: Sequence[str]) -> str:
        """Choose one by the byte of the place."""
        return places[self.where % len(places)]


def _partition(b: Slot) -> f.AnyFault:
    side = b.pick(b.ground.processes)
    others: tuple[tuple[str, ...], ...] = ((), ("master-0", "master-1"), ("store",), b.ground.workers)
    other = tuple(name for name in others[b.how >> 1 & 3] if name != side)
    return f.Partition(at_us=b.at_us, side=(side,), other=other, for_us=b.for_us, one_way=bool(b.how & 1))


_Traffic = tuple[tuple[str, ...], ...]
_TRAFFIC: _Traffic = ((), ("Ack",), ("Deliver",), ("Report", "Watermarks"), ("Heartbeat", "Table"))
_RATES = ((0.2, 0.2, 0.2), (0.5, 0.0, 0.0), (0.0, 0.7, 0.0), (0.0, 0.0, 0.8))
"""How many messages are lost, repeated and late."""


def _noise(
    b: Slot, traffic: _Traffic = _TRAFFIC, rates: Sequence[tuple[float, float, float]] = _RATES
) -> f.AnyFault:
    drop, duplicate, delay = rates[b.how & 3]
    return f.Noise(
        at_us=b.at_us, for_us=b.for_us + SECOND, drop=drop, duplicate=duplicate, delay=delay,
        delay_us=(100 * MILLISECOND, SECOND, 3 * SECOND)[(b.how >> 2) % 3],
        kinds=traffic[b.where % len(traffic)],
    )  # fmt: skip


def _message(b: Slot) -> str:
    return ("Deliver", "Ack", "Report", "Table", "Watermarks", "InjectorReport", "Heartbeat")[b.how % 7]


def _skew(b: Slot) -> f.AnyFault:
    by_us = (b.how - 128) * 20 * MILLISECOND or SECOND
    return f.SkewClock(at_us=b.at_us, process=b.pick(b.ground.processes), by_us=by_us, for_us=b.for_us)


def _operate(b: Slot) -> f.Operate:
    computation, which = b.pick(b.ground.computations), b.how // 3
    key = b.ground.keys[which % len(b.ground.keys)]
    # Half of the merges are of the first two intervals: all keys may be of the last one, which nothing can be merged with.
    first = key if which % 2 else FIRST_KEY
    makers: tuple[Callable[[], f.Operate], ...] = (
        lambda: f.Operate(at_us=b.at_us, verb=MoveInterval(computation, key)),
        lambda: f.Operate(at_us=b.at_us, verb=SplitInterval(computation, key)),
        lambda: f.Operate(at_us=b.at_us, verb=MergeIntervals(computation, first)),
    )
    return makers[b.how % 3]()


STEPS: dict[str, tuple[tuple[Does, str], ...]] = {
    "worker": (
        (Does.SENDS, "Write"), (Does.RECEIVES, "Written"), (Does.RECEIVES, "Deliver"), (Does.SENDS, "Ack"),
        (Does.SENDS, "Deliver"), (Does.RECEIVES, "Ack"), (Does.RECEIVES, "Table"), (Does.SENDS, "Scan"),
        (Does.RECEIVES, "Scanned"), (Does.SENDS, "Report"), (Does.RECEIVES, "Watermarks"), (Does.SENDS, "CollectIds"),
        (Does.RECEIVES, "Refused"), (Does.SENDS, "Heartbeat"),
    ),
    "master": (
        (Does.SENDS, "Mint"), (Does.RECEIVES, "Minted"), (Does.SENDS, "Table"), (Does.RECEIVES, "Heartbeat"),
        (Does.SENDS, "Claim"), (Does.RECEIVES, "Claimed"), (Does.SENDS, "Renew"),
    ),
    "authority": (
        (Does.SENDS, "JournalWatermarks"), (Does.RECEIVES, "Journaled"), (Does.RECEIVES, "Report"),
        (Does.SENDS, "Watermarks"), (Does.RECEIVES, "InjectorReport"), (Does.RECEIVES, "Claimed"),
    ),
    "injector": (
        (Does.SENDS, "Deliver"), (Does.RECEIVES, "Ack"), (Does.SENDS, "JournalPosition"), (Does.RECEIVES, "Journaled"),
        (Does.SENDS, "InjectorReport"), (Does.RECEIVES, "SourceRecord"), (Does.RECEIVES, "Watermarks"),
    ),
}  # fmt: skip
"""The protocol steps that plans of the first table tie faults to, by role; those of every role come up in most runs."""


def _step(b: Slot, *, of_message: bool = False) -> Step:
    """Choose a step: its message by the byte of the time, its number by the upper bits of the form."""
    process = b.pick(b.ground.workers * 2 + b.ground.processes)
    steps = [step for step in STEPS[role_of(process)] if step[1] in MESSAGES or not of_message]
    does, message = steps[b.when % len(steps)]
    return Step(process, does, message, 1 + (b.how >> 3) % 12)


def _crash_at_step(b: Slot) -> f.StepFault:
    step, moment = _step(b), Moment.AFTER if b.how & 1 else Moment.BEFORE
    crash = f.Crash(at_us=0, process=step.process, restart_after_us=None if b.how & 6 == 6 else b.for_us)
    return f.StepFault(step, crash, moment)


def _pause_at(step: Step, b: Slot, moment: Moment = Moment.BEFORE) -> f.StepFault:
    """Pause a process for longer than its lease, so that it wakes up as a zombie."""
    return f.StepFault(step, f.Pause(at_us=0, process=step.process, for_us=_LEASE_US + b.for_us), moment)


def _message_at_step(b: Slot) -> f.StepFault:
    fates = (
        f.DropMessage(at_us=0),
        f.DuplicateMessage(at_us=0, by_us=b.for_us),
        f.DelayMessage(at_us=0, by_us=b.for_us),
    )
    return f.StepFault(_step(b, of_message=True), fates[b.how % 3])


def _partition_at_step(b: Slot) -> f.StepFault:
    step = _step(b)
    leaders = [leader for leader in b.ground.leaders if leader != step.process]
    masters = tuple(leader for leader in leaders if role_of(leader) == "master")
    other = ((), masters, ("store",), masters)[b.how >> 1 & 3]
    cut = f.Partition(
        at_us=0, side=(step.process,), other=other, for_us=SECOND + b.for_us, one_way=bool(b.how & 1)
    )
    return f.StepFault(step, cut)


def _change(b: Slot) -> f.Operate:
    """Change to any version; half as often to the first, which is in force from the start."""
    versions = b.ground.versions
    return f.Operate(at_us=b.at_us, verb=ChangeTopology((b.how % (2 * versions - 1) + 1) % versions))


Maker = Callable[[Slot], f.AnyFault | f.StepFault | tuple[f.AnyFault | f.StepFault, ...]]
"""Makes a fault, or several that belong together."""


class KindTable(NamedTuple):
    """What a slot can become, in an order that gives each its number.

    Attributes:
        makers: whatever is disturbed.
        changes: further ones, where there is another version of the pipeline to change to.
    """

    makers: tuple[Maker, ...]
    changes: tuple[Maker, ...]

    def makers_for(self, ground: Ground) -> tuple[Maker, ...]:
        """Return what a slot can become there."""
        return self.makers + self.changes if ground.versions > 1 else self.makers

    def with_more(self, *makers: Maker) -> "KindTable":
        """Return the table that has further kinds."""
        return KindTable(self.makers + makers, self.changes)


MAKERS: tuple[Maker, ...] = (
    _operate,
    lambda b: f.Pause(at_us=b.at_us, process=b.pick(b.ground.processes), for_us=b.for_us),
    lambda b: f.Crash(at_us=b.at_us, process=b.pick(b.ground.processes), restart_after_us=b.for_us),
    _partition,
    _noise,
    lambda b: f.DelayCommit(at_us=b.at_us, process=b.pick(b.ground.workers), count=1 + b.how % 3, by_us=b.for_us),
    lambda b: f.Hold(at_us=b.at_us, message=_message(b), count=1 + b.where % 4, for_us=b.for_us),
    lambda b: f.DropMessages(at_us=b.at_us, message=_message(b), count=1 + b.where % 4),
    lambda b: f.Pause(at_us=b.at_us, process=b.pick(b.ground.workers), for_us=_LEASE_US + b.for_us),  # a zombie
    lambda b: f.Crash(at_us=b.at_us, process=b.pick(b.ground.workers), restart_after_us=None if b.how & 1 else b.for_us),
    lambda b: f.LoseCommit(at_us=b.at_us, process=b.pick(b.ground.workers), count=1 + b.how % 3),
    lambda b: f.LoseReply(at_us=b.at_us, process=b.pick(b.ground.workers), count=1 + b.how % 3),
    lambda b: f.DuplicateCommit(at_us=b.at_us, process=b.pick(b.ground.workers), count=1 + b.how % 3, by_us=b.for_us),
    lambda b: f.StoreUnavailable(at_us=b.at_us, for_us=b.for_us // 2, silent=bool(b.how & 1)),
    lambda b: f.StoreErrors(at_us=b.at_us, for_us=b.for_us, rate=0.5),
    lambda b: f.Slow(at_us=b.at_us, process=b.pick(b.ground.processes), for_us=b.for_us, factor=100 + b.how * 40),
    _skew,
    lambda b: f.LateRecords(at_us=b.at_us, process=b.pick(b.ground.injectors), count=1 + b.how % 4, by_us=b.for_us),
    lambda b: f.StallSource(at_us=b.at_us, process=b.pick(b.ground.injectors), for_us=b.for_us),
    _crash_at_step,
    lambda b: _pause_at(_step(b), b),
    _message_at_step,
    _partition_at_step,
    lambda b: f.StepFault(_step(b), _operate(b)),
)  # fmt: skip
"""The kinds of the first table."""

_CHANGES: tuple[Maker, ...] = (_change, lambda b: f.StepFault(_step(b), _change(b))) * 3
"""Choice: a fifth of all kinds where there are versions, because every change has to meet every other fault."""

FIRST_TABLE = 1

# The second table: what the first has no form for


def _cut_new_owner(b: Slot) -> f.StepFault:
    """Let a new owner hear no broadcasts right after its scan: what it knows, it knows by the scan."""
    owner = b.pick(b.ground.workers)
    authorities = tuple(leader for leader in b.ground.leaders if role_of(leader) == "authority")
    step = Step(owner, Does.RECEIVES, "Scanned", 1 + b.how % 6)
    cut = f.Partition(at_us=0, side=authorities, other=(owner,), for_us=SECOND + b.for_us, one_way=True)
    return f.StepFault(step, cut, Moment.AFTER)


_STORE_TRAFFIC: _Traffic = (
    ("Mint", "Minted", "Claim", "Claimed", "Renew", "Renewed"),
    ("JournalWatermarks", "JournalPosition", "Journaled"),
    ("Write", "Written"),
    ("Scan", "Scanned", "Read", "RowRead"),
    ("Mint", "Claim", "JournalWatermarks", "JournalPosition", "Write", "Scan", "CollectIds"),
)


def _store_noise(b: Slot) -> f.AnyFault:
    """Repeat, delay or lose requests to the store and its answers: mints, claims and journal entries too."""
    return _noise(b, _STORE_TRAFFIC, (_RATES[0], *_RATES[2:], _RATES[1]))


_RECOVERY: dict[str, tuple[tuple[Does, str], ...]] = {
    "worker": (
        (Does.SENDS, "Scan"),
        (Does.RECEIVES, "Scanned"),
        (Does.RECEIVES, "Table"),
        (Does.SENDS, "Report"),
    ),
    "master": (
        (Does.SENDS, "Claim"),
        (Does.RECEIVES, "Claimed"),
        (Does.SENDS, "Mint"),
        (Does.RECEIVES, "Minted"),
    ),
    "authority": ((Does.SENDS, "Claim"), (Does.RECEIVES, "Claimed"), (Does.SENDS, "JournalWatermarks")),
    "injector": ((Does.RECEIVES, "Claimed"), (Does.RECEIVES, "Replayed"), (Does.SENDS, "JournalPosition")),
}


def _strike_recovery(b: Slot) -> tuple[f.AnyFault | f.StepFault, ...]:
    """Stop a process, and whoever recovers its work in the middle of that, too."""
    first = b.pick(b.ground.processes)
    role = role_of(first)
    heirs = [
        process
        for process in b.ground.processes
        if role_of(process) == role and (process != first or role == "injector")
    ]
    does, message = _RECOVERY[role][b.when % len(_RECOVERY[role])]
    moment = Moment.AFTER if b.how & 1 else Moment.BEFORE
    stop = f.Crash(at_us=b.at_us, process=first, restart_after_us=b.for_us)
    steps = [Step(heir, does, message, 1 + (b.how >> 2) % 3, after_us=max(b.at_us, 1)) for heir in heirs]
    if b.how & 2:
        return (stop, *[_pause_at(step, b, moment) for step in steps])
    crashes = [f.Crash(at_us=0, process=step.process, restart_after_us=b.for_us) for step in steps]
    return (stop, *[f.StepFault(step, crash, moment) for step, crash in zip(steps, crashes, strict=True)])


SECOND_TABLE = 2

TABLES: dict[int, KindTable] = {
    FIRST_TABLE: KindTable(MAKERS, _CHANGES),
    SECOND_TABLE: KindTable((*MAKERS, *(_cut_new_owner, _store_noise, _strike_recovery) * 3), _CHANGES),
}
"""All tables by number. Add, never change: the next is ``3: TABLES[2].with_more(...)``."""

NEWEST_TABLE = max(TABLES)
"""What searches draw from beside the first."""
