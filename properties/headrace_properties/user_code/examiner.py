"""Find bugs in user code that no framework can compensate for, each with the smallest input that shows it (4, 6.1).

The engine reruns a step whenever it has to (6.1.3), in any order of arrival, on any machine. Code that uses only its context is
unaffected. The checks here run the code sequentially (`headrace_properties.reference`), without faults and without the engine, so
every finding is about user code.

* Each call is repeated in fresh surroundings, as after a crash: a different outcome shows state kept outside the row.
* It is repeated on another date, in another time zone, with other random numbers, and in a process with another hash seed.
* It is made twice in a row: if the second call changes its surroundings too, a retry repeats the change. A retry also repeats
  effects outside the process: on files, sockets, databases and other processes.
* The records arrive in another order, none of them late and all at the same times. If the outcome changes, the author is asked
  whether that is meant. An exception in that order is a bug.
* The records arrive in the same order at other times, with fewer watermarks, none of them late. If the outcome changes, the
  author is asked, too. If the wall clock decides, it is a bug.
* A call must not raise, end the process or run forever, nor produce a record behind its cause (4.5): the engine refuses that.

* A call must not come to something else because the codec reads another state than the call before has left.

A computation that declares ``ordered`` is not checked for order, but for the wall clock; one that declares ``nondeterministic``
must only not raise, end the process, run forever or produce a record behind its cause.
"""

from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter

from headrace import Pipeline
from headrace_properties.findings import Finding
from headrace_properties.search.limits import CodeLimits, call_time_limited
from headrace_properties.shrinking import Budget, fewest
from headrace_properties.user_code.calls import Caller
from headrace_properties.user_code.code_trial import CodeTrial
from headrace_properties.user_code.growth import Growth
from headrace_properties.user_code.habits import ORDERS, Habit, Witness, finding_of
from headrace_properties.user_code.look import Look, OtherProcess, Report
from headrace_properties.user_frames import own_code_of
from headrace_sim import Feed

TRIES = 60
"""Maximum number of inputs tried to shrink one."""

_likeness = attrgetter("computation", "by_clock", "stops")
"""Returns what two witnesses of one habit must share to be of one finding."""


def examine(
    pipeline: Pipeline,
    feed: Feed,
    seed: int = 0,
    *,
    known: frozenset[tuple[Habit, str]] = frozenset(),
    elsewhere: OtherProcess | None = None,
    report: Report = lambda _: None,
    only: Habit | None = None,
) -> list[Finding]:
    """Check a pipeline's user code.

    Args:
        pipeline: whose code to check.
        feed: an input that exercises the code; a few dozen records are enough.
        seed: seed of the orders of arrival to try.
        known: habits of computations that are no longer checked.
        elsewhere: makes calls in a process with another hash seed; ``None`` skips this check.
        report: receives a description of each call before it is made.
        only: check for this habit alone.
    """
    return list(Examiner(pipeline, seed, elsewhere, report).examine(feed, known, only))


class Examiner:
    """Runs all checks on one pipeline, and restores what its code keeps at the end.

    Args:
        pipeline: whose code.
        seed: seed of the orders of arrival.
        elsewhere: see `examine`.
        report: see `examine`.

    Attributes:
        growth: what the inputs that it has examined leave.
    """

    def __init__(
        self, pipeline: Pipeline, seed: int = 0, elsewhere: OtherProcess | None = None, report: Report = lambda _: None
    ) -> None:  # fmt: skip
        own_code_of([spec.computation for spec in pipeline.computations.values()])
        self.pipeline = pipeline
        self.seed = seed
        self.elsewhere = elsewhere
        self.report = report
        self.caller = Caller(pipeline)
        self.growth = Growth()

    def examine(
        self, feed: Feed, known: frozenset[tuple[Habit, str]] = frozenset(), only: Habit | None = None
    ) -> Iterator[Finding]:
        """Check one input."""
        look = self._look(feed)
        habits: set[Habit] = {habit for habit, _ in known}
        for habit in Habit if only is None else (only,):
            if habit in ORDERS and not habits <= set(ORDERS):
                continue  # a difference then need not be caused by the order
            for witness in look.witnesses(habit):
                asked = habits & set(ORDERS) - {habit} and not witness.by_clock and not witness.stops
                habits.add(habit)
                if not (asked or (habit, witness.computation) in known or self._declared(habit, witness)):
                    yield self._smallest(habit, witness, feed)
            if habit.stops and habit in habits:
                return
        look.tell_growth(self.growth)

    def notes(self, feed: Feed) -> Iterator[str]:
        """Name the computations that swallow what their context refuses, which is no bug in itself."""
        for computation, (cause, why) in self._look(feed).swallowed().items():
            yield f"{computation!r} goes on although its context refused something, on {cause}: {why:.300}"

    def _look(self, feed: Feed) -> Look:
        return Look(self.caller, feed, self.seed, self.elsewhere, self.report)

    def _declared(self, habit: Habit, witness: Witness) -> bool:
        spec = self.pipeline.computations.get(witness.computation)
        if spec is None or habit.stops or habit is Habit.GOES_BACK:
            return False
        return bool(spec.nondeterministic) or (spec.ordered and habit in ORDERS and not witness.by_clock)

    def _smallest(self, habit: Habit, witness: Witness, feed: Feed) -> Finding:
        best, latest = tuple(range(feed.records)), witness

        def shows(kept: tuple[int, ...]) -> bool:
            nonlocal best, latest
            for other in self._look(feed.only(kept)).witnesses(habit):
                if _likeness(other) == _likeness(witness):
                    best, latest = kept, other
                    return True
            return False

        if habit is Habit.NEVER_ENDS or "MemoryError" in witness.detail:
            with call_time_limited(CodeLimits(call_s=1.0)):
                shows(tuple(range(witness.records))[-1:])
            latest = replace(latest, detail=witness.detail)
        else:
            begun = tuple(range(witness.records))
            if shows(begun[-1:]) or shows(begun):
                fewest(best, shows, Budget(TRIES))
        few = feed.only(best)
        if habit in (Habit.KEEPS_STATE, Habit.LEAVES_TRACES):
            look = self._look(few)
            place = look.line_of_change(witness.computation)
            latest = replace(latest, place=place or latest.place)
            if habit is Habit.KEEPS_STATE and len(look.keys_of(witness.computation)) > 1:
                habit = Habit.SHARES_STATE
        habit = Habit.READS_CLOCK if witness.by_clock else habit
        habit = Habit.FAILS_IN_ANOTHER_ORDER if witness.stops else habit
        return finding_of(habit, latest, CodeTrial(kept=best, seed=self.seed), few, self.pipeline)
