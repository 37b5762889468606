"""Findings about the user's code: what no framework can make good, each with the smallest input that shows it (4, 6.1).

The engine runs a step again whenever it has to (6.1.3), in any order of arrival, on any machine. Code that keeps to its context
does not notice. What is asked of it here runs sequentially (`headrace_properties.reference`), with no fault and no engine; so
whatever is found is the user's.

* Each call is made again in fresh surroundings, as after a crash: what then differs was kept outside the row.
* It is made again on another day, with other lots, and in a process in which texts have other hashes.
* It is made twice in a row: what it changes in its surroundings the second time, too, a retry repeats. So it does what leaves the
  process: files, sockets, databases, processes.
* The records come in another order, none of them late and all at the same times: the outcome is the same.
* A call that raises, that ends the process, or that never ends. A production behind its cause (4.5), which the engine refuses.

A computation that declares ``ordered`` is not asked about order, and one that declares ``nondeterministic`` only about the last.
"""

import copy
import enum
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import count
from typing import Any, NoReturn

from headrace import Computation, HeadraceError, Pipeline, Productions, Record, format_time
from headrace.api.specs import KeyExtractor
from headrace.wire.effects import SourceRecord
from headrace_properties.printable import describe_record, describe_value
from headrace_properties.reference import Step, StepResult, run_reference, run_step
from headrace_properties.reference.computation import RunningComputation
from headrace_properties.search.judging import Failure
from headrace_properties.search.limits import CodeLimits, CodeOverrunError, call_time_limited
from headrace_properties.search.plans import Plan
from headrace_properties.search.replay_file import CODE
from headrace_properties.search.user_frames import Place, own_code_of, place_in, place_of
from headrace_properties.user_code.calls import (
    ANOTHER_DAY,
    LOTS,
    OTHER_LOTS,
    THE_DAY,
    Caller,
    Outcome,
    Raised,
    clock_at,
)
from headrace_properties.user_code.feeds import smallest
from headrace_properties.user_code.orders import Ordered, outcomes_of
from headrace_properties.user_code.surroundings import Surroundings
from headrace_properties.user_code.tracing import CHANCE, CLOCK, HASH, IDENTITY, Trace, tracing
from headrace_properties.verdict import Violated
from headrace_sim import NO_FAULTS, ClusterOptions, Feed

PERMUTATIONS = 5
"""Orders of arrival that are tried."""

MOST_AT_ONCE = 10_000
"""Calls of one key without time or input going on: then it is taken to set off its own timers without end."""

MOST_SHOWN = 10
"""Records that a finding shows."""

LATER_US = 1_000_003
"""So much later a step with weak productions is run again."""

TRIES = 60
"""Inputs that are tried to make one smaller."""


class Habit(enum.Enum):
    """What user code does that it must not."""

    NEVER_ENDS = "never ends"
    ENDS_PROCESS = "ends the process"
    RAISES = "raises an exception"
    GOES_BACK = "produces with a timestamp before its cause"
    SHARES_STATE = "shares state between keys, outside its row"
    KEEPS_STATE = "keeps state outside its row"
    READS_CLOCK = "lets the wall clock decide its outcome"
    USES_CHANCE = "lets random numbers decide its outcome"
    USES_HASHES = "depends on hash() or on the order of a set, which differ between processes"
    NOT_DETERMINISTIC = "comes to something else when it is run again"
    HAS_EFFECTS = "has effects outside its process, which a retry repeats"
    LEAVES_TRACES = "changes objects outside its row, and again when it is retried"
    STARTS_THREADS = "starts threads"
    DEPENDS_ON_ORDER = "depends on the order of arrival"

    @property
    def verdict_name(self) -> str:
        """What verdicts call it."""
        return f"{CODE}{self.name.lower().replace('_', '-')}"

    @property
    def stops(self) -> bool:
        """A run cannot go on behind it."""
        return self in (Habit.NEVER_ENDS, Habit.ENDS_PROCESS, Habit.RAISES)


REMEDIES = {
    Habit.NEVER_ENDS: "Bound the loop, or the timers that it sets",
    Habit.ENDS_PROCESS: "Return, or raise an exception",
    Habit.RAISES: "Handle the record, or give the computation on_failure=DeadLetter(stream)",
    Habit.GOES_BACK: "Give the production the timestamp of its cause or a later one",
    Habit.SHARES_STATE: "Keep it in context.state",
    Habit.KEEPS_STATE: "Keep it in context.state",
    Habit.READS_CLOCK: 'Use record.timestamp, or context.wall_time with strong productions; or declare nondeterministic="why"',
    Habit.USES_CHANCE: 'Derive it from the record; or declare nondeterministic="why"',
    Habit.USES_HASHES: 'Sort the set, or use zlib.crc32 for hash(); or declare nondeterministic="why"',
    Habit.NOT_DETERMINISTIC: 'Use the record and the state only; or declare nondeterministic="why"',
    Habit.HAS_EFFECTS: 'Produce a record instead, and let a consumer of it do that once; or declare nondeterministic="why"',
    Habit.LEAVES_TRACES: 'Keep it in context.state, or produce it; or declare nondeterministic="why"',
    Habit.STARTS_THREADS: 'Produce a record instead; or declare nondeterministic="why"',
    Habit.DEPENDS_ON_ORDER: "Compare timestamps, or wait for the low watermark; or declare ordered=True",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class UserFinding:
    """One thing that is wrong with user code.

    Attributes:
        habit: what it does.
        computation: whose code.
        detail: how it shows.
        feed: the smallest input found that shows it.
        cause: the record or timer, and its key, for which the call was made that shows it.
        place: the line; ``None``: not known.
        outcomes: what differs: circumstances and outcome of each.
        kept: which records of the whole input those are, by their order from 0.
        feed_seed: that the whole input was made from.
        shown: its records, for people.
    """

    habit: Habit
    computation: str
    detail: str
    feed: Feed
    cause: str = ""
    place: Place | None = None
    outcomes: tuple[tuple[str, str], ...] = ()
    kept: tuple[int, ...] = ()
    feed_seed: int = 0
    shown: tuple[str, ...] = ()

    @property
    def verdict(self) -> Violated:
        """It, as a verdict."""
        return Violated(str(self), ())

    @property
    def failure(self) -> Failure:
        """It, as a failing run without any fault: what replay files hold."""
        plan = Plan(NO_FAULTS, ClusterOptions(), 0)
        return Failure(plan, self.feed_seed, {self.habit.verdict_name: self.verdict}, "", kept=self.kept)

    def of_feed(self, feed_seed: int) -> "UserFinding":
        """The same, with the seed of its input."""
        return replace(self, feed_seed=feed_seed)

    def __str__(self) -> str:
        """Write it for people: what it does and where, what the outcomes were, and by which records it is shown."""
        return " ".join(self.story())

    def story(self) -> list[str]:
        """The same in sentences: the first says what and where."""
        where = f" ({self.place})" if self.place else ""
        sentences = [f"The code of {self.computation!r} {self.habit.value}{where}: {self.detail}."]
        if self.cause:
            sentences.append(f"It was called for {self.cause}.")
        sentences += [f"{circumstances}: {outcome:.400}." for circumstances, outcome in self.outcomes]
        number = "one record" if self.feed.records == 1 else f"{self.feed.records} records"
        more = [f"and {len(self.shown) - MOST_SHOWN} more"] if len(self.shown) > MOST_SHOWN else []
        shown = "; ".join([*self.shown[:MOST_SHOWN], *more])
        sentences.append(f"Shown by {number}{f': {shown}' if shown else ''}.")
        return [*sentences, f"{REMEDIES[self.habit]}."]


Report = Callable[[tuple[object, ...]], None]
"""Told what comes next, for whoever survives this process."""

OtherProcess = Callable[[list[Step]], list[Outcome] | None]
"""Makes calls in a process with other hashes; ``None``: it cannot."""


def examine(
    pipeline: Pipeline,
    feed: Feed,
    seed: int = 0,
    *,
    known: frozenset[tuple[Habit, str]] = frozenset(),
    elsewhere: OtherProcess | None = None,
    report: Report = lambda _: None,
    only: Habit | None = None,
) -> list[UserFinding]:
    """Look for what is wrong with a pipeline's user code.

    Args:
        pipeline: whose code to look at.
        feed: an input that exercises it; a few dozen records are enough.
        seed: of the orders of arrival that are tried.
        known: habits of computations that are not asked for any more.
        elsewhere: makes calls in a process with other hashes; ``None``: that is not asked.
        report: told of each call before it is made.
        only: ask for this habit alone.
    """
    return list(Examiner(pipeline, seed, elsewhere, report).examine(feed, known, only))


@dataclass(frozen=True, slots=True)
class Witness:
    """How a habit shows in one input.

    Attributes:
        computation: whose.
        detail: how.
        records: so many of the input's first records are enough.
        cause: see `UserFinding`.
        place: likewise.
        outcomes: likewise.
    """

    computation: str
    detail: str
    records: int
    cause: str = ""
    place: Place | None = None
    outcomes: tuple[tuple[str, str], ...] = ()


class Examiner:
    """Asks all questions of one pipeline. What its code keeps is put back in the end.

    Args:
        pipeline: whose code.
        seed: of the orders of arrival.
        elsewhere: see `examine`.
        report: see `examine`.
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

    def examine(
        self, feed: Feed, known: frozenset[tuple[Habit, str]] = frozenset(), only: Habit | None = None
    ) -> Iterator[UserFinding]:
        """Ask about one input."""
        look = Look(self, feed)
        found: set[Habit] = {habit for habit, _ in known}
        for habit in Habit if only is None else (only,):
            if habit is Habit.DEPENDS_ON_ORDER and found - {Habit.DEPENDS_ON_ORDER}:
                continue  # what differs then need not be the order's work
            for witness in look.witnesses(habit):
                found.add(habit)
                if (habit, witness.computation) not in known and not self._declared(
                    habit, witness.computation
                ):
                    yield self._smallest(habit, witness, feed)
            if habit.stops and habit in found:
                return

    def _declared(self, habit: Habit, computation: str) -> bool:
        spec = self.pipeline.computations.get(computation)
        if spec is None or habit.stops or habit is Habit.GOES_BACK:
            return False
        return bool(spec.nondeterministic) or (spec.ordered and habit is Habit.DEPENDS_ON_ORDER)

    def _smallest(self, habit: Habit, witness: Witness, feed: Feed) -> UserFinding:
        best, latest = tuple(range(feed.records)), witness
        tries = count()

        def shows(kept: tuple[int, ...]) -> bool:
            nonlocal best, latest
            if next(tries) > TRIES:
                return False
            for one in Look(self, feed.only(kept)).witnesses(habit):
                if one.computation == witness.computation:
                    best, latest = kept, one
                    return True
            return False

        if habit is Habit.NEVER_ENDS or "MemoryError" in witness.detail:
            with call_time_limited(CodeLimits(call_s=1.0)):
                shows(tuple(range(witness.records))[-1:])
            latest = replace(latest, detail=witness.detail)
        else:
            begun = tuple(range(witness.records))
            if shows(begun[-1:]) or shows(begun):
                smallest(best, shows)
        if habit is Habit.KEEPS_STATE and len(Look(self, feed.only(best)).keys_of(witness.computation)) > 1:
            habit = Habit.SHARES_STATE
        few = feed.only(best)
        return UserFinding(
            habit, witness.computation, latest.detail, few, latest.cause, latest.place, latest.outcomes, best,
            shown=shown_records(self.pipeline, few),
        )  # fmt: skip


def shown_records(pipeline: Pipeline, feed: Feed) -> tuple[str, ...]:
    """The records of an input, for people."""
    records = [entry.event for entry in feed.entries if isinstance(entry.event, SourceRecord)]
    return tuple(describe_record(pipeline, record) for record in records)


@dataclass(slots=True)
class Call:
    """A call of the run from first to last.

    Attributes:
        step: what was called.
        records: how many records the source had brought by then.
        trace: what it did besides.
        outcome: what it came to.
        place: where it raised something.
    """

    step: Step
    records: int
    trace: Trace = field(default_factory=Trace)
    outcome: Outcome | None = None
    place: Place | None = None


class Look:
    """One input: the run from first to last, and what becomes of its calls under other circumstances.

    Args:
        examiner: knows the pipeline.
        feed: the input.
    """

    def __init__(self, examiner: Examiner, feed: Feed) -> None:
        self._examiner = examiner
        self._pipeline = examiner.pipeline
        self._caller = examiner.caller
        self._feed = feed
        self._records = 0
        self._stopped: tuple[Habit, Witness] | None = None
        self._at_once: tuple[object, int] = (None, 0)

    def witnesses(self, habit: Habit) -> list[Witness]:
        """How a habit shows, once for each computation."""
        found: dict[str, Witness] = {}
        for witness in self._ask(habit):
            found.setdefault(witness.computation, witness)
        return list(found.values())

    def _ask(self, habit: Habit) -> Iterator[Witness]:
        self.calls  # noqa: B018  whatever stops the run shows by it
        match habit:
            case Habit.NEVER_ENDS | Habit.ENDS_PROCESS:
                if self._stopped is not None and self._stopped[0] is habit:
                    yield self._stopped[1]
            case Habit.RAISES | Habit.GOES_BACK:
                yield from self._raised(habit)
            case Habit.KEEPS_STATE | Habit.READS_CLOCK | Habit.USES_CHANCE | Habit.NOT_DETERMINISTIC:
                yield from self._differing(habit)
                if habit is Habit.NOT_DETERMINISTIC:
                    yield from self._keyed_otherwise()
            case Habit.USES_HASHES:
                yield from self._elsewhere()
            case Habit.HAS_EFFECTS | Habit.STARTS_THREADS:
                yield from self._left_the_process(habit)
            case Habit.LEAVES_TRACES:
                yield from self._repeated(self.calls)
            case Habit.SHARES_STATE:
                pass  # that is how a small input shows that state is kept
            case Habit.DEPENDS_ON_ORDER:
                yield from self._other_orders()

    # From first to last

    @cached_property
    def calls(self) -> list[Call]:
        """All calls, as they came."""
        found: list[Call] = []
        self._caller.restore()
        self._caller.changed = set()

        def host(pipeline: Pipeline, stage: RunningComputation, step: Step) -> StepResult:
            call = Call(step, self._records)
            found.append(call)
            return self._host(pipeline, stage, call)

        try:
            with clock_at(THE_DAY):
                run_reference(self._pipeline, self._feed, self._arrival, host)
        except (HeadraceError, _StoppedError):
            pass
        self._caller.restore()
        return found

    def keys_of(self, computation: str) -> set[str]:
        """The keys that a computation is called for."""
        return {call.step.key for call in self.calls if call.step.computation == computation}

    def _arrival(self, done: int) -> None:
        self._records += isinstance(self._feed.entries[done].event, SourceRecord)

    def _host(self, pipeline: Pipeline, stage: RunningComputation, call: Call) -> StepResult:
        step = call.step
        self._examiner.report(
            (self._records, step.computation, self._cause(step), _entry_of(stage.spec.computation, step))
        )
        self._check_progress(call)
        try:
            with tracing(call.trace):
                result = self._run(pipeline, stage, step)
        except Exception as error:
            self._caller.note_change(step.computation)
            call.outcome = Raised(type(error).__name__, str(error))
            call.place = _place_of(error)
            raise
        except CodeOverrunError as error:
            detail = f"it has not ended after {error.seconds:g} s"
            self._stop(Habit.NEVER_ENDS, replace(self._witness(call, detail), place=error.place))
        except BaseException as error:  # noqa: BLE001  it would end the process
            detail = (
                f"it raises {type(error).__name__}{f'({error})' if str(error) else ''}, which ends a worker"
            )
            self._stop(Habit.ENDS_PROCESS, replace(self._witness(call, detail), place=_place_of(error)))
        self._caller.note_change(step.computation)
        call.outcome = replace(result, timers={tag: copy.copy(timer) for tag, timer in result.timers.items()})
        return result

    @staticmethod
    def _run(pipeline: Pipeline, stage: RunningComputation, step: Step) -> StepResult:
        random.seed(LOTS)  # as in `Caller`
        return run_step(pipeline, stage, step)

    def _check_progress(self, call: Call) -> None:
        step = call.step
        here = (step.computation, step.key, step.now, self._records, step.timer is None)
        number = self._at_once[1] + 1 if self._at_once[0] == here else 1
        self._at_once = here, number
        if number > MOST_AT_ONCE and step.timer is not None:
            detail = f"timer {step.timer.tag!r} has set itself again {MOST_AT_ONCE:,} times, and neither time nor input goes on"
            self._stop(Habit.NEVER_ENDS, self._witness(call, detail))

    def _stop(self, habit: Habit, witness: Witness) -> NoReturn:
        self._stopped = habit, witness
        raise _StoppedError

    # Questions about single calls

    def _raised(self, habit: Habit) -> Iterator[Witness]:
        for call in self.calls:
            if not isinstance(call.outcome, Raised):
                continue
            goes_back = call.outcome.kind == "TimestampRegressionError"
            text = f"{call.outcome.kind}: {call.outcome.text}".rstrip(": .")
            if habit is Habit.GOES_BACK and goes_back:
                yield self._witness(call, call.outcome.text.rstrip("."), call.place)
            elif habit is Habit.RAISES and not goes_back and not _has_dead_letters(self._pipeline, call.step):
                yield self._witness(call, text, call.place)

    def _asked(self) -> Iterator[Call]:
        """The calls of computations that have not declared anything, and came to an outcome."""
        computations = self._pipeline.computations
        for call in self.calls:
            if call.outcome is not None and not computations[call.step.computation].nondeterministic:
                yield call

    @cached_property
    def _fresh(self) -> list[tuple[Call, Outcome]]:
        """Each call again, in fresh surroundings."""
        with clock_at(THE_DAY):
            return [(call, self._caller.call(call.step)) for call in self._asked()]

    def _differing(self, wanted: Habit) -> Iterator[Witness]:
        for habit, witness in self._differences:
            if habit is wanted:
                yield witness

    @cached_property
    def _differences(self) -> list[tuple[Habit, Witness]]:
        """Calls that come to something else in fresh surroundings, when made again, on another day, or with other lots."""
        found: list[tuple[Habit, Witness]] = []
        caller = self._caller
        for call, fresh in self._fresh:
            step, plain = call.step, call.outcome
            assert plain is not None
            with clock_at(THE_DAY):
                again = fresh if caller.same(step, plain, fresh) else caller.call(step)
            if not caller.same(step, fresh, again):
                found.append(self._not_determined(call, plain, again, "When it was run again"))
                continue
            if not caller.same(step, plain, fresh):
                found.append((Habit.KEEPS_STATE, self._kept(call, plain, fresh)))
                continue
            with clock_at(ANOTHER_DAY):
                later = caller.call(step)
            if not caller.same(step, fresh, later):
                found.append(self._not_determined(call, plain, later, "On another day", CLOCK))
                continue
            if (weak := self._weak(call, fresh)) is not None:
                found.append((Habit.READS_CLOCK, weak))
                continue
            if any(kind == CHANCE for kind, _, _ in call.trace.readings):
                with clock_at(THE_DAY):
                    others = [caller.call(step, lots) for lots in OTHER_LOTS]
                for other in others:
                    if not caller.same(step, fresh, other):
                        found.append(self._not_determined(call, plain, other, "With other lots", CHANCE))
                        break
        return found

    def _weak(self, call: Call, fresh: Outcome) -> Witness | None:
        """Weak productions that go by the wall time: a step that is run again sends others (6.1.2)."""
        step, spec = call.step, self._pipeline.computations[call.step.computation]
        if spec.productions is not Productions.WEAK or not isinstance(fresh, StepResult):
            return None
        with clock_at(THE_DAY):
            later = self._caller.call(replace(step, now=step.now + LATER_US))
        if isinstance(later, StepResult) and later.made == fresh.made:
            return None
        detail = (
            "its productions are weak and go by context.wall_time: a step that is run again sends others, too"
        )
        outcomes = (
            ("First it came to", self._shown(call, fresh)),
            ("When it is run again later, to", self._shown(call, later)),
        )
        return self._witness(call, detail, None, outcomes)

    def _keyed_otherwise(self) -> Iterator[Witness]:
        """Records for which an extractor names another key when it is asked again: a retry would go to another row (4.2)."""
        for call in self._asked():
            step = call.step
            if step.record is None:
                continue
            extractor = self._pipeline.computations[step.computation].inputs[step.record.stream]
            for day, lots in ((THE_DAY, LOTS), (ANOTHER_DAY, OTHER_LOTS[0])):
                again = self._key_again(step, extractor, day, lots)
                if again != step.key:
                    code = getattr(extractor, "__code__", None)
                    place = None if code is None else place_of(code, code.co_firstlineno)
                    outcomes = (
                        ("First its key was", repr(step.key)),
                        ("When it was asked for again", repr(again)),
                    )
                    detail = f"the key extractor of {step.record.stream!r} does not go by the record alone"
                    yield self._witness(call, detail, place, outcomes)

    def _key_again(self, step: Step, extractor: KeyExtractor, day: datetime, lots: int) -> object:
        record = step.record
        assert record is not None
        injected = any(record.stream in one.outputs for one in self._pipeline.injectors.values())
        value = self._pipeline.codec(record.stream).decode(record.value)
        seen = Record(
            record.key,
            value,
            record.timestamp,
            record.stream,
            record_id=step.cause if injected else "",
        )
        with clock_at(day):
            random.seed(lots)
            try:
                return extractor(seen)
            except Exception as error:  # noqa: BLE001  user code may raise anything
                return type(error).__name__

    def _not_determined(
        self, call: Call, plain: Outcome, other: Outcome, circumstances: str, kind: str = ""
    ) -> tuple[Habit, Witness]:
        readings = {one: (text, place) for one, text, place in reversed(call.trace.readings)}
        kind = kind or next((one for one in (CHANCE, CLOCK, IDENTITY) if one in readings), "")
        habit = {CHANCE: Habit.USES_CHANCE, CLOCK: Habit.READS_CLOCK}.get(kind, Habit.NOT_DETERMINISTIC)
        text, place = readings.get(kind, ("", None))
        detail = f"it calls {text}" if text else "the same record on the same state has another outcome"
        outcomes = (("First it came to", self._shown(call, plain)), (circumstances, self._shown(call, other)))
        return habit, self._witness(call, detail, place, outcomes)

    def _kept(self, call: Call, plain: Outcome, fresh: Outcome) -> Witness:
        names = self._changed_until(call)
        detail = (
            f"in {' and in '.join(names[:3])}"
            if names
            else "with fresh objects, as after a crash, the outcome differs"
        )
        outcomes = (
            ("In the process that had handled the records before, it came to", self._shown(call, plain)),
            ("In a fresh process, as after a crash, to", self._shown(call, fresh)),
        )
        return self._witness(call, detail, None, outcomes)

    def _changed_until(self, until: Call) -> tuple[str, ...]:
        """The names of what a computation had changed before a call."""
        caller, name = self._caller, until.step.computation
        surroundings = caller.surroundings[name]
        surroundings.restore()
        for call in self.calls:
            if call is until:
                break
            if call.step.computation == name:
                caller.call_on(call.step)
        names = surroundings.changes()
        caller.restore()
        return names

    def _elsewhere(self) -> Iterator[Witness]:
        elsewhere = self._examiner.elsewhere
        if elsewhere is None or self._differences:
            return
        outcomes = elsewhere([call.step for call, _ in self._fresh])
        for (call, fresh), other in zip(self._fresh, outcomes or (), strict=False):
            if not self._caller.same(call.step, fresh, other):
                readings = [(text, place) for kind, text, place in call.trace.readings if kind == HASH]
                text, place = readings[0] if readings else ("", None)
                detail = (
                    f"it calls {text}" if text else "it iterates a set, or keeps something of one process"
                )
                shown = (
                    ("In one process it came to", self._shown(call, fresh)),
                    ("In another, to", self._shown(call, other)),
                )
                yield self._witness(call, detail, place, shown)

    def _left_the_process(self, habit: Habit) -> Iterator[Witness]:
        for call in self.calls:
            is_effect = habit is Habit.HAS_EFFECTS
            for text, place in (call.trace.effects if is_effect else call.trace.threads)[:1]:
                detail = f"it {text}" if is_effect else f"it {text}, which goes on when the call has ended"
                yield self._witness(call, detail, place)

    def _repeated(self, calls: list[Call]) -> Iterator[Witness]:
        """Calls that change their surroundings, and change them again when they are retried."""
        caller = self._caller
        kept = {witness.computation for witness in self._differing(Habit.KEEPS_STATE)}
        for call in calls:
            step = call.step
            if step.computation in kept or step.computation not in caller.changed:
                continue
            with clock_at(THE_DAY):
                caller.call(step)
                once = Surroundings(self._pipeline.computations[step.computation].computation)
                caller.call_on(step)
                names = once.differences()
            if names:
                detail = f"it changes {' and '.join(names[:3])}"
                yield self._witness(call, detail)
        caller.restore()

    # Order

    def _other_orders(self) -> Iterator[Witness]:
        self._caller.restore()
        found: Ordered | None = outcomes_of(self._pipeline, self._feed, self._examiner.seed, PERMUTATIONS)
        self._caller.restore()
        if found is None:
            return
        spec = self._pipeline.computations.get(found.computation)
        place = None if spec is None else _entry_place(spec.computation)
        shown = (
            ("In the order of the input it came to", found.first),
            ("In another order, to", found.second),
        )
        yield Witness(
            found.computation,
            "the same records in another order come to another outcome",
            self._feed.records,
            "",
            place,
            shown,
        )

    # Words

    def _witness(
        self, call: Call, detail: str, place: Place | None = None, outcomes: tuple[tuple[str, str], ...] = ()
    ) -> Witness:
        computation = self._pipeline.computations[call.step.computation].computation
        if place is None:
            place = _entry_place(computation, is_timer=call.step.timer is not None)
        return Witness(call.step.computation, detail, call.records, self._cause(call.step), place, outcomes)

    def _cause(self, step: Step) -> str:
        if step.timer is not None:
            return f"timer {step.timer.tag!r} of key {step.key!r}"
        assert step.record is not None
        value = describe_value(self._pipeline, step.record.stream, step.record.value)
        return f"record {value} of key {step.key!r}, timestamp {format_time(step.record.timestamp)}"

    def _shown(self, call: Call, outcome: Outcome) -> str:
        return self._caller.shown(call.step, outcome)


class _StoppedError(BaseException):
    """The run cannot go on."""


def _has_dead_letters(pipeline: Pipeline, step: Step) -> bool:
    return hasattr(pipeline.computations[step.computation].on_failure, "stream")


def _place_of(error: BaseException) -> Place | None:
    """The innermost line of user code that an exception came through."""
    found, trace = None, error.__traceback__
    while trace is not None:
        place = place_in(trace.tb_frame, trace.tb_frame.f_back)
        found = found if place is None else replace(place, line=trace.tb_lineno)
        trace = trace.tb_next
    return found


def _entry_place(computation: Computation, *, is_timer: bool = False) -> Place | None:
    """Where a computation's hook begins."""
    hook = type(computation).process_timer if is_timer else type(computation).process_record
    code = getattr(hook, "__code__", None)
    return None if code is None else place_of(code, code.co_firstlineno)


def _entry_of(computation: Computation, step: Step) -> list[Any]:
    place = _entry_place(computation, is_timer=step.timer is not None)
    return [] if place is None else [place.file, place.line, place.function]
