"""Examine one input: the outcome of each call of user code, and its outcome under other circumstances."""

import copy
import dis
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from traceback import walk_tb
from typing import Any, NoReturn

from headrace import Computation, HeadraceError, Pipeline, Productions, format_time
from headrace.api.codecs import decode_state
from headrace.wire.effects import SourceRecord
from headrace_properties.printable import describe_value
from headrace_properties.reference import HookCall, StepResult, run_reference, run_step
from headrace_properties.reference.running_computation import RunningComputation
from headrace_properties.search.guard import (
    EffectRefusedError,
    EndsProcessError,
    allowing_effects,
    refusal_in,
)
from headrace_properties.search.limits import CodeOverrunError
from headrace_properties.user_code.calls import (
    ANOTHER_DAY,
    ANOTHER_ZONE,
    LOTS,
    OTHER_LOTS,
    THE_DAY,
    Caller,
    Elsewhere,
    Outcome,
    Raised,
    SharedStep,
    clock_at,
)
from headrace_properties.user_code.growth import Growth, resting
from headrace_properties.user_code.habits import COMBINE_IN_ANY_ORDER, READ_BACK, REMEDIES, Habit, Witness
from headrace_properties.user_code.record_orders import Ordered, combiner_place, outcomes_of, schedules_of
from headrace_properties.user_code.surroundings import Surroundings
from headrace_properties.user_code.tracing import (
    CHANCE,
    CLOCK,
    HASH,
    IDENTITY,
    ZONE,
    Trace,
    line_found,
    tracing,
)
from headrace_properties.user_frames import Place, place_in, place_of
from headrace_sim import Feed

PERMUTATIONS = 5
"""Number of orders of arrival tried."""

SCHEDULES = 4
"""Number of arrival schedules tried."""

MOST_AT_ONCE = 10_000
"""Calls of one key without progress of time or input, after which its timers are taken to retrigger themselves forever."""

LATER_US = 1_000_003
"""How much later a step with weak productions is rerun."""


Report = Callable[[tuple[object, ...]], None]
"""Receives what happens next, so that it is known if this process dies."""

OtherProcess = Callable[[list[HookCall]], list[Elsewhere] | None]
"""Makes calls in a process with another hash seed; returns ``None`` if it cannot."""


@dataclass(slots=True)
class ObservedCall:
    """A call made in the run from first to last.

    Attributes:
        step: what was called.
        records: how many records the source had delivered by then.
        trace: its side effects.
        outcome: its outcome.
        place: where it raised, if it did.
    """

    step: HookCall
    records: int
    trace: Trace = field(default_factory=Trace)
    outcome: Outcome | None = None
    place: Place | None = None


class Look:
    """Checks one input: the run from first to last, then its calls under other circumstances.

    Args:
        caller: calls the pipeline's code.
        feed: the input.
        seed: seed of the orders of arrival.
        elsewhere: see `headrace_properties.user_code.examiner.examine`.
        report: see `headrace_properties.user_code.examiner.examine`.
    """

    def __init__(
        self, caller: Caller, feed: Feed, seed: int, elsewhere: OtherProcess | None, report: Report
    ) -> None:
        self._caller = caller
        self._pipeline = caller.pipeline
        self._feed = feed
        self._seed = seed
        self._other_process = elsewhere
        self._report = report
        self._records = 0
        self._stopped: tuple[Habit, Witness] | None = None
        self._refused: Witness | None = None
        self._at_once: tuple[object, int] = (None, 0)

    def witnesses(self, habit: Habit) -> list[Witness]:
        """Return how a habit shows, once for each computation."""
        witnesses: dict[str, Witness] = {}
        for witness in self._ask(habit):
            witnesses.setdefault(witness.computation, witness)
        return list(witnesses.values())

    def _ask(self, habit: Habit) -> Iterator[Witness]:
        self.calls  # noqa: B018  evaluating it shows what stops the run
        match habit:
            case Habit.NEVER_ENDS | Habit.ENDS_PROCESS:
                if self._stopped is not None and self._stopped[0] is habit:
                    yield self._stopped[1]
            case Habit.RAISES | Habit.GOES_BACK:
                yield from self._raised(habit)
            case (
                Habit.KEEPS_STATE
                | Habit.READS_CLOCK
                | Habit.USES_ZONE
                | Habit.USES_CHANCE
                | Habit.NOT_DETERMINISTIC
            ):
                yield from self._differing(habit)
            case Habit.USES_HASHES:
                yield from self._elsewhere()
            case Habit.HAS_EFFECTS | Habit.STARTS_THREADS:
                yield from self._left_the_process(habit)
            case Habit.LEAVES_TRACES:
                yield from self._repeated(self.calls)
            case Habit.NOT_READ_BACK:
                yield from self._left_otherwise()
                self._caller.restore()
            case (
                Habit.SHARES_STATE
                | Habit.FAILS_IN_ANOTHER_ORDER
                | Habit.DEPENDS_ON_FAULTS
                | Habit.COUNTS_AGAIN
                | Habit.SPLITS_KEYS
                | Habit.MISREADS
                | Habit.GROWTH
            ):
                pass  # a small input shows kept state this way, the orders what fails in one; the rest takes runs, or all inputs
            case Habit.DEPENDS_ON_ORDER:
                yield from self._other_orders()
            case Habit.DEPENDS_ON_SCHEDULE:
                yield from self._other_schedules()

    # From first to last

    @cached_property
    def calls(self) -> list[ObservedCall]:
        """All calls in order."""
        calls: list[ObservedCall] = []
        self._caller.restore()
        self._caller.changed = set()

        def host(pipeline: Pipeline, stage: RunningComputation, step: HookCall) -> StepResult:
            call = ObservedCall(step, self._records)
            calls.append(call)
            return self._host(pipeline, stage, call)

        try:
            with clock_at(THE_DAY):
                run_reference(self._pipeline, self._feed, self._arrival, host)
        except HeadraceError as error:
            refusal = refusal_in(error)
            if refusal is not None and not any(call.trace.effects for call in calls):
                name, stream = self._extractor_in(refusal)
                detail = f"the key extractor{stream} {refusal.effect}"
                self._refused = Witness(name, detail, self._records, "", refusal.place)
        except _StoppedError:
            pass
        except _RefusedError as refused:
            raise EffectRefusedError(*refused.args) from refused
        except (SystemExit, CodeOverrunError) as error:
            self._stopped = self._stopped_while_keying(error)
        self._caller.restore()
        return calls

    def keys_of(self, computation: str) -> set[str]:
        """Return the keys that a computation is called for."""
        return {call.step.key for call in self.calls if call.step.computation == computation}

    def _arrival(self, done: int) -> None:
        self._records += isinstance(self._feed.entries[done].event, SourceRecord)

    def _host(self, pipeline: Pipeline, stage: RunningComputation, call: ObservedCall) -> StepResult:
        step = call.step
        self._report(
            (self._records, step.computation, self._cause(step), _entry_of(stage.spec.computation, step))
        )
        self._check_progress(call)
        try:
            with tracing(call.trace):
                random.seed(LOTS)  # as in `Caller`
                result = run_step(pipeline, stage, step)
        except Exception as error:
            if (
                call.trace.effects
                and not allowing_effects()
                and pipeline.computations[step.computation].nondeterministic
            ):
                raise _RefusedError(*call.trace.effects[0]) from error  # declared, so no finding
            self._caller.note_change(step.computation)
            call.outcome = Raised(type(error).__name__, str(error))
            call.place = _place_of(error)
            raise
        except CodeOverrunError as error:
            detail = f"it has not ended after {error.limit}"
            self._stop(Habit.NEVER_ENDS, replace(self._witness(call, detail), place=error.place))
        except BaseException as error:  # noqa: BLE001  it would end the process
            detail = f"it {_ending(error)}"
            self._stop(Habit.ENDS_PROCESS, replace(self._witness(call, detail), place=_place_of(error)))
        self._caller.note_change(step.computation)
        call.outcome = replace(result, timers={tag: copy.copy(timer) for tag, timer in result.timers.items()})
        return result

    def _stopped_while_keying(self, error: SystemExit | CodeOverrunError) -> tuple[Habit, Witness]:
        """Return how a key extractor stops the run, which is called outside of all steps."""
        name, stream = self._extractor_in(error)
        if isinstance(error, CodeOverrunError):
            detail = f"the key extractor{stream} has not ended after {error.limit}"
            return Habit.NEVER_ENDS, Witness(name, detail, self._records, "", error.place)
        detail = f"the key extractor{stream} {_ending(error)}"
        return Habit.ENDS_PROCESS, Witness(name, detail, self._records, "", _place_of(error))

    def _extractor_in(self, error: BaseException) -> tuple[str, str]:
        """Return whose key extractor was running, and of which stream, as text; ``""``: unknown."""
        codes = {frame.f_code for frame, _ in walk_tb(error.__traceback__)}
        return next(
            (
                (name, f" of {stream!r}")
                for name, spec in self._pipeline.computations.items()
                for stream, extractor in spec.inputs.items()
                if getattr(extractor, "__code__", None) in codes
            ),
            ("", ""),
        )

    def _check_progress(self, call: ObservedCall) -> None:
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

    # Checks of single calls

    def _raised(self, habit: Habit) -> Iterator[Witness]:
        for call in self.calls:
            if not isinstance(call.outcome, Raised):
                continue
            goes_back = call.outcome.kind == "TimestampRegressionError"
            text = f"{call.outcome.kind}: {call.outcome.text}".rstrip(": .")
            if habit is Habit.GOES_BACK and goes_back:
                yield self._witness(call, call.outcome.text.rstrip("."), call.place)
            elif habit is Habit.RAISES and not (
                goes_back
                or hasattr(self._pipeline.computations[call.step.computation].on_failure, "stream")
                or call.trace.effects
            ):  # an effect is told instead of the error that comes of it: it is refused, or fails here
                yield self._witness(call, text, call.place)

    def _asked(self) -> Iterator[ObservedCall]:
        """Yield the completed calls of computations that declare nothing."""
        computations = self._pipeline.computations
        for call in self.calls:
            if call.outcome is not None and not computations[call.step.computation].nondeterministic:
                yield call

    @cached_property
    def _fresh(self) -> list[tuple[ObservedCall, Outcome]]:
        """Repeat each call in fresh surroundings."""
        with clock_at(THE_DAY):
            return [(call, self._caller.call(call.step)) for call in self._asked()]

    def _differing(self, wanted: Habit) -> Iterator[Witness]:
        for habit, witness in self._differences:
            if habit is wanted:
                yield witness
        if wanted is Habit.NOT_DETERMINISTIC:
            yield from self._keyed_otherwise

    @cached_property
    def _differences(self) -> list[tuple[Habit, Witness]]:
        """Find calls whose outcome changes in fresh surroundings, on repetition, elsewhere or with other random numbers."""
        differences: list[tuple[Habit, Witness]] = []
        caller = self._caller
        for call, fresh in self._fresh:
            step, plain = call.step, call.outcome
            assert plain is not None
            with clock_at(THE_DAY):
                again = fresh if caller.same(step, plain, fresh) else caller.call(step)
            if not caller.same(step, fresh, again):
                differences.append(self._not_determined(call, plain, again, "When it was run again"))
                continue
            if not caller.same(step, plain, fresh):
                differences.append((Habit.KEEPS_STATE, self._kept(call, plain, fresh)))
                continue
            with clock_at(ANOTHER_DAY, ANOTHER_ZONE):
                abroad = caller.call(step)
            if not caller.same(step, fresh, abroad):
                with clock_at(ANOTHER_DAY):
                    later = caller.call(step)
                if caller.same(step, fresh, later):
                    differences.append(
                        self._not_determined(call, plain, abroad, "In another time zone", ZONE)
                    )
                    continue
                read = {kind for kind, _, _ in call.trace.readings}
                if (
                    CHANCE in read and CLOCK not in read
                ):  # a generator of its own, which has gone on meanwhile
                    differences.append(self._not_determined(call, plain, later, "When it was run again"))
                else:
                    differences.append(self._not_determined(call, plain, later, "On another day", CLOCK))
                continue
            if (weak := self._weak(call, fresh)) is not None:
                differences.append((Habit.READS_CLOCK, weak))
                continue
            if any(kind == CHANCE for kind, _, _ in call.trace.readings):
                with clock_at(THE_DAY):
                    others = [caller.call(step, lots) for lots in OTHER_LOTS]
                for other in others:
                    if not caller.same(step, fresh, other):
                        differences.append(
                            self._not_determined(call, plain, other, "With other lots", CHANCE)
                        )
                        break
        return differences

    def _weak(self, call: ObservedCall, fresh: Outcome) -> Witness | None:
        """Find weak productions that depend on the wall time: a rerun of their step sends different ones (6.1.2)."""
        step, spec = call.step, self._pipeline.computations[call.step.computation]
        if spec.productions is not Productions.WEAK or not isinstance(fresh, StepResult):
            return None
        with clock_at(THE_DAY):
            later = self._caller.call(replace(step, now=step.now + LATER_US))
        if isinstance(later, StepResult) and later.made == fresh.made:
            return None
        detail = "its productions are weak and depend on context.wall_time, so a rerun of the step sends different ones, too"
        outcomes = (
            ("First it came to", self._shown(call, fresh)),
            ("When it is run again later, to", self._shown(call, later)),
        )
        return self._witness(call, detail, None, outcomes)

    @cached_property
    def _keyed_otherwise(self) -> list[Witness]:
        """Find records whose key extractor returns another key when called again: a retry would go to another row (4.2)."""
        witnesses = []
        for call in self._asked():
            if call.step.record is None:
                continue
            for day, zone, lots in ((THE_DAY, "", LOTS), (ANOTHER_DAY, ANOTHER_ZONE, OTHER_LOTS[0])):
                with clock_at(day, zone), tracing(Trace()) as trace:
                    again = self._caller.key_of(call.step, lots)
                call.trace.effects += trace.effects
                if again != call.step.key:
                    witnesses.append(self._keyed(call, again, "When it was asked for again"))
        return witnesses

    def _keyed(self, call: ObservedCall, again: object, circumstances: str) -> Witness:
        record = call.step.record
        assert record is not None
        extractor = self._pipeline.computations[call.step.computation].inputs[record.stream]
        code = getattr(extractor, "__code__", None)
        place = None if code is None else place_of(code, code.co_firstlineno)
        outcomes = (("First its key was", repr(call.step.key)), (circumstances, repr(again)))
        detail = f"the key extractor of {record.stream!r} depends on more than the record"
        return self._witness(call, detail, place, outcomes)

    def _not_determined(
        self, call: ObservedCall, plain: Outcome, other: Outcome, circumstances: str, kind: str = ""
    ) -> tuple[Habit, Witness]:
        readings = {habit: (text, place) for habit, text, place in reversed(call.trace.readings)}
        kind = kind or next((habit for habit in (CHANCE, CLOCK, IDENTITY) if habit in readings), "")
        habits = {CHANCE: Habit.USES_CHANCE, CLOCK: Habit.READS_CLOCK, ZONE: Habit.USES_ZONE}
        habit = habits.get(kind, Habit.NOT_DETERMINISTIC)
        by_clock = (
            readings.get(CLOCK, ("", None)) if kind == ZONE else ("", None)
        )  # time.localtime tells both
        text, place = readings.get(kind, by_clock)
        detail = f"it calls {text}" if text else "the same record on the same state gives another outcome"
        outcomes = (("First it came to", self._shown(call, plain)), (circumstances, self._shown(call, other)))
        return habit, self._witness(call, detail, place, outcomes)

    def _kept(self, call: ObservedCall, plain: Outcome, fresh: Outcome) -> Witness:
        names = self._changed_until(call)
        detail = (
            f"in {' and in '.join(names[:3])}"
            if names
            else "with fresh objects, as after a crash, the outcome differs"
        )
        outcomes = (
            ("In the process that had handled the earlier records, it produced", self._shown(call, plain)),
            ("In a fresh process, as after a crash, to", self._shown(call, fresh)),
        )
        return self._witness(call, detail, None, outcomes)

    def _changed_until(self, until: ObservedCall) -> tuple[str, ...]:
        """Return the names of what a computation had changed before a call."""
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

    def line_of_change(self, computation: str) -> Place | None:
        """Return the first line that changes what a computation can reach outside its row; ``None`` if unknown."""
        calls = [call.step for call in self.calls if call.step.computation == computation]
        surroundings = self._caller.surroundings[computation]
        surroundings.restore()
        with clock_at(THE_DAY), line_found(lambda: surroundings.changed) as places:
            for step in calls:
                self._caller.call_on(step)
        self._caller.restore()
        return places[0] if places else None

    def _elsewhere(self) -> Iterator[Witness]:
        elsewhere = self._other_process
        if elsewhere is None or self._differences:
            return
        repeated = elsewhere([call.step for call, _ in self._fresh])
        for (call, fresh), there in zip(self._fresh, repeated or (), strict=False):
            again = there.outcome
            if call.step.record is not None and there.key != call.step.key and not self._keyed_otherwise:
                yield self._keyed(call, there.key, "In another process its key was")
            elif not self._caller.same(call.step, fresh, again):
                readings = [(text, place) for kind, text, place in call.trace.readings if kind == HASH]
                text, place = readings[0] if readings else ("", None)
                detail = (
                    f"it calls {text}"
                    if text
                    else "it iterates a set, or keeps something specific to one process"
                )
                shown = (
                    ("In one process it produced", self._shown(call, fresh)),
                    ("In another, to", self._shown(call, again)),
                )
                yield self._witness(call, detail, place, shown)

    def _left_the_process(self, habit: Habit) -> Iterator[Witness]:
        self._keyed_otherwise  # noqa: B018  evaluating it shows what key extractors do
        is_effect = habit is Habit.HAS_EFFECTS
        if is_effect and self._refused is not None:
            yield self._refused
        for call in () if is_effect and allowing_effects() else self.calls:
            for text, place in (call.trace.effects if is_effect else call.trace.threads)[:1]:
                detail = f"it {text}" if is_effect else f"it {text}, which outlives the call"
                yield self._witness(call, detail, place)

    def _repeated(self, calls: list[ObservedCall]) -> Iterator[Witness]:
        """Find calls that change their surroundings, and change them again when retried."""
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

    def tell_growth(self, growth: Growth) -> None:
        """Add what this input leaves; how long a grouping keeps its windows, its allowed lateness declares."""
        for rest in resting(((call.step, call.outcome, call.records) for call in self.calls), self._records):
            spec = self._pipeline.computations[rest.computation]
            if not _is_the_layers(spec.computation):
                growth.take(rest, decode_state(spec.state_codec, rest.state) if rest.state else None)

    def swallowed(self) -> dict[str, tuple[str, str]]:
        """Return, by computation, the first call that went on after its context had refused something, and why it had."""
        refusals: dict[str, tuple[str, str]] = {}
        for call in self.calls:
            if isinstance(call.outcome, StepResult) and call.outcome.refused:
                refusals.setdefault(call.step.computation, (self._cause(call.step), call.outcome.refused[0]))
        return refusals

    def _left_otherwise(self) -> Iterator[Witness]:
        """Find calls whose outcome is another one on the state as the last call left it, not encoded and decoded.

        Codecs may do that: JSON has no tuples and no keys but text. It is a bug only where the outcome depends on it.

        Steps are as long as they can be: a key's due timers, then its records. A timer fires in a later step than it is set in.
        Calls that raise an exception are run again with copies, so they are not compared.
        """
        caller, steps = self._caller, dict[tuple[str, str], SharedStep]()
        differing = {witness.computation for _, witness in self._differences}
        for call, fresh in self._fresh:
            step, spec = call.step, self._pipeline.computations[call.step.computation]
            if step.computation in differing:
                continue
            if not spec.share_state and _is_the_layers(spec.computation):
                continue  # the Dataflow layer's codecs keep types
            shared_step = steps.setdefault((step.computation, step.key), SharedStep())
            with clock_at(THE_DAY):
                shared = caller.call_sharing(step, begins=shared_step.begins(step))
            if isinstance(shared, Raised):
                del steps[step.computation, step.key]
            elif isinstance(fresh, Raised) or not caller.same_leveled(
                step, fresh, shared, unordered=not spec.share_state
            ):
                detail = "what a call leaves in the state is not what the next one reads if the state is encoded in between"
                outcomes = (
                    ("On the state as it is read it came to", self._shown(call, fresh)),
                    ("On the state as the call before left it, to", self._shown(call, shared)),
                )
                remedy = "" if spec.share_state else READ_BACK
                yield replace(self._witness(call, detail, None, outcomes), remedy=remedy)
            else:
                shared_step.set_timers.update(shared.timers)

    # Order

    def _other_orders(self) -> Iterator[Witness]:
        self._caller.restore()
        difference: Ordered | None = outcomes_of(self._pipeline, self._feed, self._seed, PERMUTATIONS)
        self._caller.restore()
        if difference is None:
            return
        spec = self._pipeline.computations.get(difference.computation)
        combiner = None if spec is None else combiner_place(spec.computation)
        place = combiner or (None if spec is None else _entry_place(spec.computation))
        shown = (
            ("In the order of the input it produced", difference.first),
            ("In another order, to", difference.second),
        )
        yield Witness(
            difference.computation,
            difference.why or "the same records in another order give another outcome",
            self._feed.records,
            "",
            place,
            shown,
            COMBINE_IN_ANY_ORDER if combiner and not difference.why else "",
            stops=difference.stops,
        )

    def _other_schedules(self) -> Iterator[Witness]:
        self._caller.restore()
        difference = schedules_of(self._pipeline, self._feed, self._seed, SCHEDULES, self._goes_by_clock)
        self._caller.restore()
        if difference is None:
            return
        shown = (
            ("On the schedule of the input it produced", difference.first),
            ("On another, on which no record is late either, to", difference.second),
        )
        computation = self._pipeline.computations[difference.computation].computation
        detail, cause, place = "the same records come to another outcome", "", _entry_place(computation)
        if difference.step is not None and difference.other is not None:
            name = self._went_by(difference.step, difference.other)
            is_timer = difference.step.timer is not None
            place = _line_with(computation, name, is_timer=is_timer) or _entry_place(
                computation, is_timer=is_timer
            )
            detail, cause = f"it goes by context.{name}", self._cause(difference.step)
        remedy = REMEDIES[Habit.READS_CLOCK] if difference.by_clock else ""
        yield Witness(
            difference.computation, detail, self._feed.records, cause, place, shown, remedy, difference.by_clock, difference.stops
        )  # fmt: skip

    def _goes_by_clock(self, step: HookCall, other: HookCall) -> bool:
        """Return whether a call makes something else at another's wall time."""
        with clock_at(THE_DAY):
            outcomes = [self._caller.call(each) for each in (step, replace(step, now=other.now))]
        sent = [outcome.made for outcome in outcomes if isinstance(outcome, StepResult)]
        return len(sent) == len(outcomes) and sent[0] != sent[1]

    def _went_by(self, step: HookCall, other: HookCall) -> str:
        """Return which of the two things that a schedule decides makes the difference between two calls."""
        with clock_at(THE_DAY):
            plain, later = self._caller.call(step), self._caller.call(replace(step, now=other.now))
        return "low_watermark" if self._caller.same(step, plain, later) else "wall_time"

    # Words

    def _witness(
        self,
        call: ObservedCall,
        detail: str,
        place: Place | None = None,
        outcomes: tuple[tuple[str, str], ...] = (),
    ) -> Witness:
        computation = self._pipeline.computations[call.step.computation].computation
        if place is None:
            place = _entry_place(computation, is_timer=call.step.timer is not None)
        return Witness(call.step.computation, detail, call.records, self._cause(call.step), place, outcomes)

    def _cause(self, step: HookCall) -> str:
        if step.timer is not None:
            return f"timer {step.timer.tag!r} of key {step.key!r}"
        assert step.record is not None
        value = describe_value(self._pipeline, step.record.stream, step.record.value)
        return f"record {value} of key {step.key!r}, timestamp {format_time(step.record.timestamp)}"

    def _shown(self, call: ObservedCall, outcome: Outcome) -> str:
        return self._caller.shown(call.step, outcome)


class _RefusedError(BaseException):
    """The run cannot go on, because an effect is refused that the code may have. Fields: as of `EffectRefusedError`."""


class _StoppedError(BaseException):
    """The run cannot go on."""


def _is_the_layers(computation: Computation) -> bool:
    return type(computation).__module__.startswith("headrace.")


def _ending(error: BaseException) -> str:
    """Say what ends a worker."""
    if isinstance(error, EndsProcessError):
        return f"calls {error.call}, which ends a worker"
    return f"raises {type(error).__name__}{f'({error})' if str(error) else ''}, which ends a worker"


def _place_of(error: BaseException) -> Place | None:
    """Return the innermost line of user code that an exception came through."""
    innermost, trace = None, error.__traceback__
    while trace is not None:
        place = place_in(trace.tb_frame, trace.tb_frame.f_back)
        innermost = innermost if place is None else replace(place, line=trace.tb_lineno)
        trace = trace.tb_next
    return innermost


def _entry_place(computation: Computation, *, is_timer: bool = False) -> Place | None:
    """Return where a computation's hook begins."""
    hook = type(computation).process_timer if is_timer else type(computation).process_record
    code = getattr(hook, "__code__", None)
    return None if code is None else place_of(code, code.co_firstlineno)


def _line_with(computation: Computation, name: str, *, is_timer: bool) -> Place | None:
    """Return the first line of a computation's hook that names an attribute."""
    hook = type(computation).process_timer if is_timer else type(computation).process_record
    code = getattr(hook, "__code__", None)
    if code is None:
        return None
    for instruction in dis.get_instructions(code):
        if instruction.argval == name and instruction.positions is not None and instruction.positions.lineno:
            return place_of(code, instruction.positions.lineno)
    return None


def _entry_of(computation: Computation, step: HookCall) -> list[Any]:
    place = _entry_place(computation, is_timer=step.timer is not None)
    return [] if place is None else [place.file, place.line, place.function]
