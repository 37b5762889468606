"""``headrace replay --until`` and ``--when``: the state of a run at one of its events, and when it became sure to fail."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from headrace import format_time
from headrace.history import Event
from headrace_cli.terminal.live_progress import RunProgress
from headrace_cli.terminal.render import (
    counted,
    describe_event,
    plain_table,
    print_heading,
    print_table,
    print_text,
)
from headrace_properties.explain.snapshot import Snapshot, find_event, world_at
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.inevitability import CONTINUATIONS, POINTS, FailureRates, failure_rates
from headrace_properties.search.judging import violations
from headrace_properties.search.parallel import cores
from headrace_properties.search.run_error import RunError
from headrace_properties.verdict import Verdict
from headrace_sim import Protocol

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


_MOST_EVENTS = 3
"""Events that are printed of those between two moments."""


def measure(
    application: Application,
    trial: PipelineTrial,
    protocol: Protocol,
    history: Sequence[Event],
    verdicts: Mapping[str, Verdict],
    error: RunError | None,
    jobs: int | None,
) -> FailureRates:
    """Measure the rates of a run that fails, and show how far it is.

    Args:
        application: what was run.
        trial: the run.
        protocol: the state machines that it ran on.
        history: its History; nothing if it stopped with an error.
        verdicts: of the run.
        error: what it stopped with.
        jobs: processes; ``None``: as many as there are cores.
    """
    broken = violations(dict(verdicts))
    ends_us = [violated.witness[-1].at_us for violated in broken.values() if violated.witness]
    with RunProgress("continuing") as progress:
        return failure_rates(
            application,
            trial,
            history,
            list(broken),
            protocol=protocol,
            error=error,
            until_us=max(ends_us, default=None),
            jobs=jobs or cores(),
            on_run=lambda runs: progress.on_part("continuing the run", runs, POINTS * CONTINUATIONS),
        )


def print_rates(console: Console, rates: FailureRates, history: Sequence[Event]) -> None:
    """Print the rates, and where they jump."""
    print_heading(console, "When it became inevitable")
    if not rates.points:
        print_text(console, "The run has no faults: it fails from the start.", indent=2)
        return
    moments = counted(len(rates.points), "moment")
    how = f"{rates.points[0].runs} continuations from each of {moments}, with new delays and without the faults still to come:"
    print_text(console, how, indent=2)
    table = plain_table("after", "fail", numbers=("fail",))
    for point in rates.points:
        table.add_row(format_time(point.at_us), Text(f"{point.rate:.0%}"))
    print_table(console, table, indent=2)
    print_text(console, _conclusion(rates), indent=2)
    if rates.jump is not None:
        first, last = rates.jump
        for number in range(first, min(last + 1, first + _MOST_EVENTS)):
            print_text(console, f"{number} {describe_event(history[number])}", indent=4)
        if last - first >= _MOST_EVENTS:
            print_text(
                console,
                f"and {counted(last - first + 1 - _MOST_EVENTS, 'event')} more, up to {last}",
                indent=4,
            )


def _conclusion(rates: FailureRates) -> str:
    rise = rates.rise
    if rise is None:
        rate = rates.points[0].rate
        return f"The rate never rises: {rate:.0%} of the continuations fail from the start."
    before, after = rise
    place = f"between {format_time(before.at_us)} and {format_time(after.at_us)}"
    return f"The rate jumps from {before.rate:.0%} to {after.rate:.0%} {place}:"
