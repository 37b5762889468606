"""Ask about state that nothing will ever clean up (MillWheel 4.1, 6.2): a row without timer or hold, whose key comes no more.

Choice: that is a question, and no violation. A key that is done for good looks like one that rests, and only the author knows
whether there are few of them. `headrace_properties.promises.bounded_state` answers it: it says which keys may stay.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from headrace import MAX_TIME
from headrace_properties.reference import HookCall, StepResult


@dataclass(slots=True)
class _Row:
    step: HookCall | None
    came: int = 0
    state: bytes = b""
    hold: int = MAX_TIME
    timers: set[str] = field(default_factory=set)

    def take(self, step: HookCall, result: StepResult) -> None:
        if step.timer is not None:
            self.timers.discard(step.timer.tag)
        for tag, timer in result.timers.items():
            (self.timers.discard if timer is None else self.timers.add)(tag)
        self.state = self.state if result.state is None else bytes(result.state)
        self.hold = self.hold if result.hold is None else result.hold

    @property
    def stays(self) -> bool:
        return bool(self.state) and not self.timers and self.hold == MAX_TIME


@dataclass(frozen=True, slots=True)
class Resting:
    """The keys of a computation that an input leaves with state.

    Attributes:
        computation: its name.
        step: the last call of the first key that comes no more; ``None``: there is none.
        state: what that key is left with, encoded.
        came: the number of records that had come by then.
        records: of the input.
        gone: number of keys that come no more.
        left: number of keys that are left with state.
        keys: of the computation.
    """

    computation: str
    step: HookCall | None
    state: bytes
    came: int
    records: int
    gone: int
    left: int
    keys: int

    def told(self, state: Any) -> str:
        """Show that the state grows. ``state``: as user code reads it."""
        assert self.step is not None
        return (
            f"key {self.step.key!r} of {self.computation!r} comes no more after {self.came} of {self.records} records, and is"
            f" left with {state!r:.160}, which no timer and no hold will ever end; so are {self.gone} of {self.keys} keys"
        )


def resting(calls: Iterable[tuple[HookCall, object, int]], records: int) -> list[Resting]:
    """Find the keys that an input leaves with state, and those of them that came in its first half only.

    Args:
        calls: each call of the run, its outcome, and how many records had come by then.
        records: of the input.
    """
    rows: dict[str, dict[str, _Row]] = {}
    for step, outcome, came in calls:
        row = rows.setdefault(step.computation, {}).setdefault(step.key, _Row(step))
        row.step = step
        row.came = came if step.record is not None else row.came
        if isinstance(outcome, StepResult):
            row.take(step, outcome)
    rests = []
    for computation, by_key in rows.items():
        left = [row for row in by_key.values() if row.stays]
        gone = [row for row in left if 2 * row.came <= records]
        first = min(gone, key=lambda row: row.came, default=_Row(None))
        rests.append(
            Resting(
                computation, first.step, first.state, first.came, records, len(gone), len(left), len(by_key)
            )
        )
    return rests


@dataclass(slots=True)
class Growth:
    """What several inputs leave.

    Choice: state grows if two in five of the keys that are left with state had come no more for half of an input. Of keys that
    come once, it is half of them; a few accounts that come again and again have a gap of that length seldom.
    """

    _evidence: dict[str, str] = field(default_factory=dict)
    _gone: Counter[str] = field(default_factory=Counter)
    _left: Counter[str] = field(default_factory=Counter)

    def take(self, rest: Resting, state: Any) -> None:
        """Add what an input leaves. ``state``: of the first key that comes no more, as user code reads it."""
        self._gone[rest.computation] += rest.gone
        self._left[rest.computation] += rest.left
        if rest.gone:
            self._evidence.setdefault(rest.computation, rest.told(state))

    @property
    def growing(self) -> dict[str, str]:
        """The computations whose state grows, each with what shows it."""
        return {
            name: evidence
            for name, evidence in self._evidence.items()
            if 5 * self._gone[name] >= 2 * self._left[name]
        }
