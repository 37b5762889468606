"""``headrace replay --until``: the state of a run at one of its events."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from headrace import format_time
from headrace.history import Event
from headrace_cli.terminal.render import describe_event, plain_table, print_heading, print_table, print_text
from headrace_properties.explain.snapshot import Snapshot, find_event, world_at
from headrace_properties.verdict import Verdict

_TAIL = 12
"""Events that are printed; ``--json`` has them all."""


@dataclass(frozen=True, slots=True)
class Until:
    """A run up to an event.

    Attributes:
        event: its number.
        world: what was so then.
        events: all up to it, with it.
    """

    event: int
    world: Snapshot
    events: Sequence[Event]


def cut(history: Sequence[Event], wanted: str, verdicts: dict[str, Verdict]) -> Until:
    """Stop at an event; see `find_event` for what can be asked for.

    Raises:
        UnknownEventError: there is no such event.
    """
    number = find_event(history, wanted, verdicts)
    return Until(number, world_at(history, number), history[: number + 1])


def print_until(console: Console, until: Until) -> None:
    """Print the last events, and the state of the world."""
    print_heading(console, f"Up to event {until.event}, {format_time(until.world.at_us)}")
    skipped = max(0, len(until.events) - _TAIL)
    if skipped:
        print_text(console, f"({skipped:,} earlier events)", indent=2)
    for number, event in enumerate(until.events[skipped:], skipped):
        print_text(console, f"{number} {describe_event(event)}", indent=2)
    world = until.world
    print_heading(console, "Who owns what")
    table = plain_table("computation", "keys", "owner", "sequencer", "")
    for owner in world.owners:
        notes = [] if owner.scanned else ["has not scanned yet"]
        notes += [
            f"{address} believes that it owns them: sequencer {dead}" for address, dead in owner.zombies
        ]
        cells = (owner.computation, owner.interval, owner.owner, str(owner.sequencer), "; ".join(notes))
        table.add_row(*[Text(cell) for cell in cells])
    print_table(console, table, indent=2)
    _print_list(
        console,
        "Faults that last",
        [
            f"{fault.process or 'the run'}: {fault.kind} since {format_time(fault.since_us)}"
            for fault in world.faults
        ],
    )
    _print_list(
        console,
        "Writes in flight",
        [
            f"{write.version} of key {write.key!r} at {write.computation!r}, by {write.process} at {format_time(write.at_us)}"
            for write in world.writes
        ],
    )
    _print_list(
        console,
        "Low watermarks as published",
        [f"{name} {format_time(progress.low_watermark)}" for name, progress in world.watermarks.items()],
    )


def _print_list(console: Console, title: str, lines: list[str]) -> None:
    print_heading(console, title)
    for line in lines or ["none"]:
        print_text(console, line, indent=2)
