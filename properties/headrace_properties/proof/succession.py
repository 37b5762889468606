"""What one owner, version or attempt must leave to the next, read off a run's History (MillWheel 3, 6.2, 7.1).

Each function says what was not so; ``""``: nothing.
"""

from collections.abc import Sequence

from headrace import Pipeline
from headrace.history import (
    ComputationRemoved,
    Executed,
    History,
    IntervalDropped,
    IntervalMinted,
    ProcessStarted,
    UserCodeFailed,
    VersionAdopted,
)
from headrace.wire.messages import STORE


def miscounted(history: History) -> str:
    """Say which attempt of user code was not the one after its owner's last; a new owner begins with the first (4.1)."""
    attempts: dict[tuple[str, str, str, str], int] = {}
    for event in history:
        if isinstance(event, ProcessStarted):
            attempts = {name: count for name, count in attempts.items() if name[0] != event.process}
        elif isinstance(event, IntervalDropped):
            attempts = {
                name: count for name, count in attempts.items()
                if name[:2] != (event.process, event.computation) or not event.interval.contains(name[2])
            }  # fmt: skip
        elif isinstance(event, UserCodeFailed):
            name = event.process, event.computation, event.key, event.cause
            before = attempts.get(name, 0)
            if event.attempt != before + 1:
                return (
                    f"{event.process} failed on {event.cause} for the {event.attempt}th time, after {before}"
                )
            attempts[name] = event.attempt
    return ""


def adopted_twice(history: History) -> str:
    """Say who adopted the version that it had; an incarnation begins with the first one (3)."""
    versions: dict[str, int] = {}
    for event in history:
        if isinstance(event, ProcessStarted):
            versions[event.process] = 0
        elif isinstance(event, VersionAdopted):
            if event.version == versions.get(event.process, 0):
                return f"{event.process} adopted version {event.version} at {event.at_us} us, which it had"
            versions[event.process] = event.version
    return ""


def left_too_soon(history: History, versions: Sequence[Pipeline]) -> str:
    """Say which computation left while another that fed it had still to leave, each by the version that it ran in (3)."""
    runs_in = dict.fromkeys(versions[0].computations, 0)
    current = 0
    for event in history:
        if isinstance(event, VersionAdopted) and event.process == STORE:
            current = event.version
            runs_in |= dict.fromkeys(versions[current].computations, current)
        elif isinstance(event, ComputationRemoved):
            runs_in.pop(event.computation, None)
            for sender, version in runs_in.items():
                is_fed = event.computation in versions[version].computations and sender in versions[
                    version
                ].senders(event.computation)
                if is_fed and sender not in versions[current].computations:
                    return (
                        f"{event.computation} left at {event.at_us} us, and {sender}, which fed it, had not"
                    )
    return ""


def knows_less(history: History) -> str:
    """Say which owner ran user code under a watermark behind one that a predecessor had run it under (7.2).

    Nothing is said once a computation of another version joins: it may be a sender, of which nothing is known yet (3).
    """
    reached: dict[tuple[str, str], int] = {}
    least: dict[tuple[int, str], int] = {}
    minted = set[str]()
    for event in history:
        if isinstance(event, IntervalMinted):
            if reached and event.computation not in minted:
                return ""  # it joins
            minted.add(event.computation)
            for (computation, key), watermark in reached.items():
                if computation == event.computation and event.interval.contains(key):
                    least[event.sequencer, key] = watermark
        elif isinstance(event, Executed):
            here, watermark = (event.computation, event.key), event.input_watermark
            if watermark < least.get((event.version.sequencer, event.key), watermark):
                return f"{event.process} ran {event.cause} under the watermark {watermark}, which its predecessor had passed"
            reached[here] = max(watermark, reached.get(here, watermark))
    return ""
