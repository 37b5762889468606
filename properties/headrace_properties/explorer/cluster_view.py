"""What a person sees of a simulated cluster between two steps: processes, rows, watermarks, and what is in flight."""

from collections.abc import Iterator, Sequence
from typing import Any

from headrace import Pipeline
from headrace.wire import messages as m
from headrace.wire.value import Value
from headrace_properties.explain.decoding import Codecs
from headrace_properties.explain.event_summaries import seconds
from headrace_sim import Cluster
from headrace_sim.arrivals import what_arrives
from headrace_sim.hosting.step_watch import CaughtEvent


class BelievedInterval(Value, frozen=True):
    """An interval that a worker believes it owns. ``valid``: the store's table says so, too."""

    computation: str
    keys: str
    sequencer: int
    state: str
    valid: bool


class ProcessView(Value, frozen=True):
    """A process. ``state``: up, starting, paused or down; ``waiting``: how many events wait for a paused one."""

    address: str
    state: str
    incarnation: int
    owns: tuple[BelievedInterval, ...] = ()
    unacked: int = 0
    waiting: int = 0


class StoredRowView(Value, frozen=True):
    """A row of the store. ``timers`` and ``checkpoints`` in words; ``seen``: number of record ids."""

    computation: str
    key: str
    version: str
    state: str
    timers: tuple[str, ...]
    checkpoints: tuple[str, ...]
    seen: int


class FlightView(Value, frozen=True):
    """A message in flight. ``at``: when it arrives unless something happens to it."""

    what: str
    source: str
    target: str
    at: str


class WatermarkView(Value, frozen=True):
    """What is journaled of a computation or injector: ``low`` in event time, ``horizon`` in time of origin."""

    name: str
    low: str
    horizon: str


class ClusterView(Value, frozen=True):
    """The cluster at one moment. ``table``: the assignments that are in force; ``at_us``: true time."""

    at_us: int = 0
    processes: tuple[ProcessView, ...] = ()
    rows: tuple[StoredRowView, ...] = ()
    flights: tuple[FlightView, ...] = ()
    watermarks: tuple[WatermarkView, ...] = ()
    table: tuple[m.Assignment, ...] = ()


def view_of(cluster: Cluster, pipelines: Sequence[Pipeline]) -> ClusterView:
    """Look at a cluster. ``pipelines``: the versions that run, whose codecs decode the states."""
    mediator = cluster.store.mediator
    valid = {assignment.sequencer for assignment in mediator.table.assignments}
    return ClusterView(
        cluster.kernel.now,
        tuple(_processes(cluster, valid)),
        tuple(_rows(mediator.images(), Codecs(pipelines))),
        tuple(_flights(cluster)),
        tuple(
            WatermarkView(name, seconds(progress.low_watermark), seconds(progress.horizon))
            for name, progress in sorted(mediator.progress.items())
        ),
        mediator.table.assignments,
    )


def _processes(cluster: Cluster, valid: set[int]) -> Iterator[ProcessView]:
    for address, node in cluster.nodes.items():
        process = node.process if node.state.value != "down" else None
        owns = tuple(
            BelievedInterval(
                owned.computation, str(owned.interval), owned.sequencer, owned.state.name.lower(),
                owned.sequencer in valid,
            )
            for owned in getattr(process, "intervals", ())
        )  # fmt: skip
        unacked = getattr(process, "unacked", 0)
        yield ProcessView(address, node.state.value, node.incarnation, owns, unacked, len(node.inbox))


def _rows(images: dict[str, dict[str, Any]], codecs: Codecs) -> Iterator[StoredRowView]:
    for computation, rows in sorted(images.items()):
        for key, row in sorted(rows.items()):
            yield StoredRowView(
                computation, key, str(row.version), f"{codecs.state(computation, row.state)!r:.400}",
                tuple(f"{timer.tag!r} due {seconds(timer.due)}" for timer in row.timers),
                tuple(f"{made.record_id} to {made.consumer or 'outside'}" for made in row.productions),
                len(row.seen),
            )  # fmt: skip


def _flights(cluster: Cluster) -> Iterator[FlightView]:
    for event in sorted(cluster.kernel.pending(), key=lambda event: getattr(event, "at_us", -1)):
        if not hasattr(event, "at_us"):  # the kernel's own event that ends a run
            continue
        target, source, _, message = what_arrives(event)
        match getattr(event, "argument", None):
            case (_, CaughtEvent() as held):
                message = held.event
            case _:
                pass
        if message is not None:
            yield FlightView(in_words(message), source, target, seconds(event.at_us))


def in_words(event: Any) -> str:
    """Describe a message, or another event that a process receives, in a few words.

    >>> in_words(m.Ack("counter", ("views/0:1",)))
    "Ack of views/0:1 by 'counter'"
    """
    match event:
        case m.Deliver(production=production):
            to = f"to {production.consumer!r}" if production.consumer else "to the outside"
            return f"Deliver of {production.record_id} (key {production.key!r}) {to}"
        case m.Ack():
            return f"Ack of {', '.join(event.record_ids)} by {event.consumer!r}"
        case m.Write():
            keys = ", ".join(repr(key) for key in dict.fromkeys(event.keys()))
            return f"Write of {keys} of {event.computation!r} under sequencer {event.sequencer}"
        case m.Read():
            return f"Read of {event.key!r} of {event.computation!r} under sequencer {event.sequencer}"
        case m.Scan():
            return f"Scan of {event.computation!r} {event.interval} under sequencer {event.sequencer}"
        case m.Table():
            owners = ", ".join(
                f"{assignment.computation} {assignment.interval} to {assignment.owner} ({assignment.sequencer})"
                for assignment in event.assignments
            )
            return f"Table {event.version}: {owners or 'nothing assigned'}"
        case m.Watermarks():
            values = ", ".join(f"{name} {seconds(progress.low_watermark)}" for name, progress in event.values)
            return f"Watermarks: {values}"
        case _:
            return type(event).__name__
