"""The state of the world at one event of a History: who owns what, who is down, what is in flight, what is published."""

from collections.abc import Sequence

from headrace import HeadraceError
from headrace import history as h
from headrace.api.errors import did_you_mean
from headrace.wire.messages import Progress
from headrace.wire.value import Value
from headrace_properties.explain.causality import numbers_of
from headrace_properties.explain.tenures import outages_of, tenures_of
from headrace_properties.verdict import Verdict, Violated


class Ownership(Value, frozen=True):
    """An interval's owner. ``zombies``: addresses that believe they own some of its keys, with their dead sequencers."""

    computation: str
    interval: str
    owner: str
    sequencer: int
    scanned: bool
    zombies: tuple[tuple[str, int], ...]


class PendingWrite(Value, frozen=True):
    """A step whose write the store has neither applied nor refused yet. ``at_us``: when user code ran."""

    at_us: int
    process: str
    computation: str
    key: str
    version: str


class Outstanding(Value, frozen=True):
    """A fault in progress. ``since_us``: when it first took effect."""

    process: str
    kind: str
    since_us: int


class Snapshot(Value, frozen=True):
    """The state after an event.

    Attributes:
        at_us: true time.
        owners: of all intervals, in order.
        faults: the faults in progress.
        writes: the writes in flight.
        watermarks: the last published ones, by computation and injector.
    """

    at_us: int
    owners: tuple[Ownership, ...]
    faults: tuple[Outstanding, ...]
    writes: tuple[PendingWrite, ...]
    watermarks: dict[str, Progress]


class UnknownEventError(HeadraceError):
    """The requested event does not exist in the run. Fields: wanted, reason."""

    def __init__(self, wanted: str, reason: str) -> None:
        super().__init__(wanted, reason)
        self.wanted, self.reason = wanted, reason

    def __str__(self) -> str:
        """State what is wrong, and which events exist."""
        return f"the run has no event {self.wanted!r}. {self.reason}"


def find_event(history: Sequence[h.Event], wanted: str, verdicts: dict[str, Verdict]) -> int:
    """Find an event: by its number; by its kind, the first one; or ``violation``, the last event of the earliest witness.

    Raises:
        UnknownEventError: there is none.
    """
    if wanted.isdecimal():
        if int(wanted) >= len(history):
            raise UnknownEventError(wanted, f"Its events are 0 to {len(history) - 1}")
        return int(wanted)
    if wanted == "violation":
        witnesses = [
            numbers_of(history, verdict.witness)
            for verdict in verdicts.values()
            if isinstance(verdict, Violated)
        ]
        ends = [max(numbers) for numbers in witnesses if numbers]
        if not ends:
            raise UnknownEventError(wanted, "Nothing is violated, or no event is a witness of it")
        return min(ends)
    for number, event in enumerate(history):
        if type(event).__name__ == wanted:
            return number
    kinds = sorted({type(event).__name__ for event in history})
    hint = did_you_mean(wanted, [*kinds, "violation"])
    raise UnknownEventError(wanted, f"{hint}Give a number, 'violation', or one of {', '.join(kinds)}")


def world_at(history: Sequence[h.Event], number: int) -> Snapshot:
    """Compute the state after an event from the events up to it."""
    past = history[: number + 1]
    return Snapshot(
        at_us=past[-1].at_us,
        owners=_owners(past, number),
        faults=tuple(
            Outstanding(outage.process, outage.kind, past[outage.begin].at_us)
            for outage in outages_of(past)
            if outage.end is None
        ),
        writes=_writes(past),
        watermarks={
            name: progress
            for event in past
            if isinstance(event, h.Published)
            for name, progress in event.values
        },
    )


def _owners(past: Sequence[h.Event], number: int) -> tuple[Ownership, ...]:
    tenures = tenures_of(past)
    owners = []
    for tenure in sorted(tenures, key=lambda tenure: (tenure.computation, tenure.interval.low)):
        if not tenure.true_at(number):
            continue
        zombies = tuple(
            (other.owner, other.sequencer)
            for other in tenures
            if other.computation == tenure.computation
            and other.interval.overlaps(tenure.interval)
            and other.zombie_at(number)
        )
        scanned = tenure.scan_ended is not None
        owners.append(
            Ownership(
                tenure.computation, str(tenure.interval), tenure.owner, tenure.sequencer, scanned, zombies
            )
        )
    return tuple(owners)


def _writes(past: Sequence[h.Event]) -> tuple[PendingWrite, ...]:
    """Return the writes in flight; weak steps that will never write cannot be distinguished from those that will."""
    waiting: dict[tuple[int, int], PendingWrite] = {}
    for event in past:
        match event:
            case h.Executed():
                version = event.version
                waiting[version.sequencer, version.number] = PendingWrite(
                    event.at_us, event.process, event.computation, event.key, str(version)
                )
            case h.Applied():
                waiting.pop((event.sequencer, event.delta.number), None)
            case h.WriteRefused():
                refused = [at for at in waiting if at[0] == event.sequencer and waiting[at].key in event.keys]
                for at in refused:
                    del waiting[at]
            case _:
                pass
    return tuple(waiting.values())
