"""The guarantees of MillWheel 6.2 and 4.5 as checkers of a History (see docs/protocol.md for the rules that they hold).

`judge` returns a verdict per invariant; `reached` counts the hard cases that a run hit. Both read only the History.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from headrace import EngineOptions, Pipeline
from headrace.history import Event
from headrace_properties.checkers.authority_reports import WithinReports
from headrace_properties.checkers.cases import CASES, reached
from headrace_properties.checkers.checker import Checker, Registered
from headrace_properties.checkers.consumers import EveryConsumer
from headrace_properties.checkers.deletions import CollectedAreDone, Drained
from headrace_properties.checkers.executions import LateOnlyFromLate, NotBeforeCause, OneAtATime
from headrace_properties.checkers.ledger import WorkLedger
from headrace_properties.checkers.owners import Owned
from headrace_properties.checkers.record_delivery import (
    AckAfterCommit,
    ComesToRest,
    DeliveriesArrive,
    ExactlyOnce,
    NoLoss,
)
from headrace_properties.checkers.running_ahead import PercentileOracle, SkewLimit
from headrace_properties.checkers.soft_state_check import SoftStateCheck
from headrace_properties.checkers.timer_firing import TimersFire, TimersInOrder, TimersOnce
from headrace_properties.checkers.topology_union import TopologyUnion
from headrace_properties.checkers.watermarks import (
    HorizonOracle,
    LowWatermarkOracle,
    Monotone,
    WatermarkArrives,
)
from headrace_properties.checkers.writes import Atomicity, OneIdOneRecord, SingleWriter, WeakRerunsAgree
from headrace_properties.verdict import Verdict

__all__ = ["CASES", "Checker", "Judge", "Registered", "all_checkers", "engine_checkers", "judge", "reached"]


def judge(
    history: Iterable[Event],
    pipelines: Sequence[Pipeline],
    options: EngineOptions | None = None,
    *further: Registered,
) -> dict[str, Verdict]:
    """Judge a run with all checkers, in one pass.

    Args:
        history: of the whole run.
        pipelines: the topologies that were deployed.
        options: of the engine, which set slack and time limits; ``None``: unknown.
        further: checkers besides those of the engine, such as promises.

    Returns:
        Verdict by the checker's name, such as ``S1``.
    """
    judging = Judge(engine_checkers(pipelines, options), *further)
    judging.take(history)
    return judging.verdicts()


def all_checkers(pipelines: Sequence[Pipeline]) -> Sequence[Checker]:
    """Return the engine's checkers that apply to these topologies, for their names and titles; `Judge` runs them."""
    return engine_checkers(pipelines).checkers


def engine_checkers(pipelines: Sequence[Pipeline], options: EngineOptions | None = None) -> Registered:
    """Register the engine's checkers that apply, and the ledger that they share.

    S5-weak applies only where productions are weak, S18 where there is a skew limit, S19 where a computation follows a percentile
    watermark.

    Args:
        pipelines: the topologies that were deployed.
        options: of the engine; ``None``: not known.
    """
    ledger = WorkLedger(TopologyUnion(pipelines))
    checkers = _checkers(ledger, options)
    handlers = [checker.handlers for checker in checkers]
    return Registered(checkers, [*handlers, ledger.handlers])  # the ledger is the last to know


class Judge:
    """Runs registered checkers over a History.

    Args:
        registered: the checkers.
    """

    def __init__(self, *registered: Registered) -> None:
        self._registered = registered
        self._numbers = [group.number for group in registered if group.number is not None]
        self._handlers: dict[type, list[Callable[[Any], None]]] = {}
        for handlers in (handlers for group in registered for handlers in group.handlers):
            for kind, handler in handlers.items():
                self._handlers.setdefault(kind, []).append(handler)

    def take(self, history: Iterable[Event]) -> None:
        """Take some more of a History.

        Raises:
            PromiseError: a promise is wrong in itself.
        """
        handlers, numbers = self._handlers, self._numbers
        with self._watching():
            for event in history:
                for handler in handlers.get(type(event), ()):
                    handler(event)
                for number in numbers:
                    number.value += 1

    def verdicts(self) -> dict[str, Verdict]:
        """Return the verdicts so far.

        Raises:
            PromiseError: a promise has changed what it was given.
        """
        with self._watching():
            checkers = (checker for group in self._registered for checker in group.checkers)
            return {checker.name: checker.verdict() for checker in checkers}

    @contextmanager
    def _watching(self) -> Iterator[None]:
        with ExitStack() as stack:
            for group in self._registered:
                stack.enter_context(group.watching())
            yield


def _checkers(ledger: WorkLedger, options: EngineOptions | None) -> list[Checker]:
    topology = ledger.topology
    limited = any(spec.skew_limit_us is not None for spec in topology.injectors.values())
    return [
        NoLoss(ledger),
        ExactlyOnce(),
        AckAfterCommit(ledger),
        Atomicity(ledger),
        OneIdOneRecord(ledger),
        *([WeakRerunsAgree(ledger)] if topology.weak else []),
        SingleWriter(ledger),
        SoftStateCheck(ledger),
        TimersInOrder(ledger),
        TimersOnce(ledger),
        LowWatermarkOracle(ledger),
        HorizonOracle(ledger),
        Monotone(topology),
        WithinReports(ledger),
        CollectedAreDone(ledger, options),
        OneAtATime(ledger),
        NotBeforeCause(),
        LateOnlyFromLate(ledger),
        EveryConsumer(ledger),
        *([SkewLimit(ledger)] if limited else []),
        *([PercentileOracle(ledger)] if topology.percentile else []),
        TimersFire(ledger),
        DeliveriesArrive(ledger),
        Drained(ledger, options),
        WatermarkArrives(ledger),
        Owned(ledger),
        ComesToRest(ledger),
    ]
