"""When each kind of promise is asked during a run, and how its answers become a verdict."""

from collections.abc import Callable, Mapping
from typing import Protocol

from headrace import SECOND, Clock
from headrace.history import Applied, FaultStruck, Healed, Injected, Output, Published, RunEnded
from headrace_properties.checkers.checker import Handlers
from headrace_properties.promises.asking import Asker
from headrace_properties.promises.promise import PromiseKind
from headrace_properties.verdict import Holds, Unknown, Verdict


class _Asked(Protocol):
    """One promise during one run.

    Attributes:
        asker: asks it.
        handlers: the events that it wants; the world has taken each before.
    """

    asker: Asker
    handlers: Handlers

    def verdict(self) -> Verdict:
        """Return the verdict so far, if it is not broken."""
        ...


class PromiseChecker:
    """A promise as a checker: the one of the user's.

    Args:
        asked: the promise during this run.
    """

    __slots__ = ("_asked",)

    section = ""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked

    @property
    def name(self) -> str:
        """The promise's name."""
        return self._asked.asker.promise.name

    @property
    def title(self) -> str:
        """What it says."""
        return self._asked.asker.promise.title

    @property
    def handlers(self) -> Handlers:
        """Handlers by type of event."""
        return self._asked.handlers

    def verdict(self) -> Verdict:
        """Return the verdict so far.

        Raises:
            PromiseError: the promise has changed what it was given.
        """
        return self._asked.asker.final(self._asked.verdict)


class _Rest:
    """Tracks whether a run has come to rest.

    Attributes:
        end: how the run ended, if it has.
    """

    def __init__(self) -> None:
        self.end: RunEnded | None = None

    @property
    def quiescent(self) -> bool:
        """All is done."""
        return self.end is not None and self.end.why == "quiescent"

    def unknown(self) -> Unknown:
        """Explain why the end cannot be judged."""
        why = _NO_REST["" if self.end is None else self.end.why]
        return Unknown(f"{why}, and had not come to rest", cut_short=True)


_NO_REST = {
    "": "the History ends before the run did",
    "deadline": "the run was ended when nothing more was being done, though work remained",
    "limit": "the run was ended at its limit",
}


class _Throughout:
    """`PromiseKind.ALWAYS` and `PromiseKind.NEVER`: asked after each change."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self._wrong = asker.promise.kind is PromiseKind.NEVER
        self._reached = 0
        self._why = ""
        self._rest = _Rest()
        self.handlers: Handlers = {Applied: self._on_change, Output: self._on_change, RunEnded: self._on_end}

    def _on_change(self, event: Applied | Output) -> None:
        asker = self.asker
        if asker.violation is None and asker.concerns():
            if asker.ask(asker.promise.check) is self._wrong or asker.objected:
                asker.violated(event)
            elif asker.unexercised:
                self._why = asker.unexercised
            else:
                self._reached += 1

    def _on_end(self, event: RunEnded) -> None:
        self._rest.end = event
        asker, ending = self.asker, self.asker.promise.ending
        if (
            ending is not None
            and asker.violation is None
            and self._rest.quiescent
            and asker.ask(ending) is False
        ):
            asker.violated(event)

    def verdict(self) -> Verdict:
        promise = self.asker.promise
        if promise.ending is not None and not self._rest.quiescent:
            return self._rest.unknown()
        if promise.ending is not None:
            return Unknown(self.asker.unexercised) if self.asker.unexercised else Holds(max(self._reached, 1))
        if self._reached:
            return Holds(self._reached)
        if self._why:
            return Unknown(self._why)
        names = [*map(repr, (*promise.of, *promise.streams))]
        return Unknown(f"nothing changed that it is about{': ' if names else ''}{', '.join(names)}")


class _Once:
    """`PromiseKind.SOMETIMES`: asked after each change until it says yes."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self._reached = False
        self.handlers: Handlers = {Applied: self._on_change, Output: self._on_change}

    def _on_change(self, _event: Applied | Output) -> None:
        if not self._reached and self.asker.concerns():
            self._reached = self.asker.ask(self.asker.promise.check) is True

    def verdict(self) -> Verdict:
        return Holds(1) if self._reached else Unknown(self.asker.unexercised or "no run has reached it")


class _AtEnd:
    """`PromiseKind.AT_END`: asked when the run has come to rest."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self._rest = _Rest()
        self.handlers: Handlers = {RunEnded: self._on_end}

    def _on_end(self, event: RunEnded) -> None:
        self._rest.end = event
        if self._rest.quiescent and self.asker.ask(self.asker.promise.check) is False:
            self.asker.violated(event)

    def verdict(self) -> Verdict:
        if not self._rest.quiescent:
            return self._rest.unknown()
        return Unknown(self.asker.unexercised) if self.asker.unexercised else Holds(1)


class _InTime:
    """`PromiseKind.EVENTUALLY`: asked from the moment when all faults have healed and all input is in, until it says yes.

    The last input is known only at the end, so each arriving record restarts the clock.
    """

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self._rest = _Rest()
        self._faulty = self._healed = self._met = False
        self._begin_us = 0
        self._awaited = ""
        self.handlers: Handlers = {
            FaultStruck: self._on_fault,
            Healed: self._on_healed,
            Injected: self._on_injected,
            Applied: self._on_change,
            Output: self._on_change,
            Published: self._on_change,
            RunEnded: self._on_end,
        }

    def _on_fault(self, _event: FaultStruck) -> None:
        self._faulty = not self._healed

    def _on_healed(self, event: Healed) -> None:
        self._healed, self._faulty = True, False
        self._begin(event.at_us)

    def _on_injected(self, event: Injected) -> None:
        if self.asker.world.change is not None:  # and not one that was read again after a crash
            self._begin(event.at_us)

    def _begin(self, at_us: int) -> None:
        self._begin_us, self._met = at_us, False
        self._on_change(None)

    def _on_change(self, _event: Applied | Output | Published | None) -> None:
        if not self._met and not self._faulty and self.asker.world.at_us <= self._due_us:
            self._met = self.asker.ask(self.asker.promise.check) is True

    @property
    def _due_us(self) -> int:
        return self._begin_us + self.asker.promise.within_us

    def _on_end(self, event: RunEnded) -> None:
        self._rest.end = event
        if (
            self._met
            or self._faulty
            or self.asker.unexercised
            or (not self._rest.quiescent and event.at_us <= self._due_us)
        ):
            return
        if event.at_us <= self._due_us:
            self._awaited = self._wall_timer()
        if self._awaited:
            return
        within, begin = self.asker.promise.within_us / SECOND, self._begin_us / SECOND
        message = (
            f"not so within {within:g} s of {begin:g} s, when all faults had healed and all input was in"
        )
        self.asker.broken(message, event)

    def verdict(self) -> Verdict:
        if self._met and self._rest.end is not None:
            return Holds(1)
        if self._awaited:
            within = f"{self.asker.promise.within_us / SECOND:g} s had passed"
            return Unknown(
                f"the run ended before wall timer {self._awaited}, and before {within}", cut_short=True
            )
        return Unknown(self.asker.unexercised) if self.asker.unexercised else self._rest.unknown()

    def _wall_timer(self) -> str:
        """Return a wall timer that is still pending: what it does could yet keep the promise; ``""``: there is none."""
        for computation, rows in self.asker.world.rows.items():
            for key, row in rows.items():
                for timer in row.timers.values():
                    if timer.clock is Clock.WALL:
                        return f"{timer.tag!r} of key {key!r} at {computation!r}"
        return ""


CHECKERS: Mapping[PromiseKind, Callable[[Asker], _Asked]] = {
    PromiseKind.ALWAYS: _Throughout,
    PromiseKind.NEVER: _Throughout,
    PromiseKind.SOMETIMES: _Once,
    PromiseKind.AT_END: _AtEnd,
    PromiseKind.EVENTUALLY: _InTime,
}
