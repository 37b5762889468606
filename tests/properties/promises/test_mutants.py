"""The machinery of promises, broken in one way at a time: each time, the named test fails."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from headrace import MAX_TIME
from headrace.history import Applied, Executed, ProcessStarted, RunEnded
from headrace_properties.promises import PromiseKind, asking, at_end, linearizability, sometimes, world
from headrace_properties.promises.asking import Asker
from headrace_properties.promises.linearizability import Operation
from headrace_properties.promises.moment import Moment
from headrace_properties.promises.promise_checkers import _AtEnd, _InTime, _Once, _Rest, _Throughout
from headrace_properties.promises.world import RowView, World
from headrace_properties.verdict import Holds
from tests.properties.promises import test_kinds as kinds
from tests.properties.promises import test_linearizability as lin
from tests.properties.promises import test_promise_errors as wrong
from tests.properties.promises import test_ready_made as ready

Patch = pytest.MonkeyPatch
Mutant = tuple[Callable[[Patch], None], Callable[[], None]]


def case(name: str) -> Callable[[], None]:
    return partial(ready.test_ready_made_promises, name)


def handler(name: str, after: Callable[[World, Any], None]) -> Callable[[Patch], None]:
    """Do something more when the world takes an event."""
    real = getattr(World, name)

    def take(self: World, event: Any) -> None:
        real(self, event)
        after(self, event)

    return lambda patch: patch.setattr(World, name, take)


def replaced(owner: Any, name: str, value: Any) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(owner, name, value)


def hearing(extra: type, act: Callable[[World, Any], None]) -> Callable[[Patch], None]:
    """Let the world listen to a further kind of event."""
    real = World.__init__

    def init(self: World, *given: Any) -> None:
        real(self, *given)
        self.handlers[extra] = lambda event: act(self, event)

    return lambda patch: patch.setattr(World, "__init__", init)


def asked_too_early(patch: Patch) -> None:
    real = World.take

    def take(self: World, number: int, event: Any) -> None:
        before = {name: {key: copied(row) for key, row in rows.items()} for name, rows in self.rows.items()}
        real(self, number, event)
        if isinstance(event, Applied):
            self.rows = before
            self.change = None if self.change is None else stale(self.change)

    patch.setattr(World, "take", take)


def copied(row: RowView) -> RowView:
    other = RowView()
    other.state, other.hold, other.timers = row.state, row.hold, dict(row.timers)
    return other


def stale(change: Any) -> Any:
    if isinstance(change, world.DurableStep):
        change.after = change.before
    return change


def on_undurable_state(self: World, event: Executed) -> None:
    for production in event.productions:
        self.outputs.append(world.SeenRecord(self.number, event, production, ("",)))
        self.change = self.outputs[-1]


def records_leave_when_produced(self: World, event: Applied) -> None:
    for production in event.delta.productions:
        self.outputs.append(world.SeenRecord(self.number, event, production, ("",)))


def forget_rows(self: World, _event: ProcessStarted) -> None:
    for rows in self.rows.values():
        rows.clear()


def after_healing_only(patch: Patch) -> None:
    real = Asker.concerns
    healed: list[bool] = []

    def hear(self: _InTime, _event: Any) -> None:
        healed.append(True)

    patch.setattr(_InTime, "_on_healed", hear)
    patch.setattr(Asker, "concerns", lambda self: bool(healed) and real(self))


def stale_view(patch: Patch) -> None:
    real = Moment.decode_state

    def decode(self: Moment, computation: str, key: str, data: bytes) -> Any:
        known = self._states.get((computation, key))
        return real(self, computation, key, data) if known is None else known[1]

    patch.setattr(Moment, "decode_state", decode)


def lost_output(self: World, _event: Any) -> None:
    if self.outputs:
        self.outputs.pop()


def change_lost(self: World, _event: Any) -> None:
    self.change = None


def bound_from_the_start(patch: Patch) -> None:
    def begin(self: _InTime, _at_us: int) -> None:
        self._met = False
        self._on_change(None)

    patch.setattr(_InTime, "_begin", begin)


def answer_before_the_last_input_counts(patch: Patch) -> None:
    patch.setattr(_InTime, "_on_injected", lambda _self, _event: None)


def each_reading_begins_anew(patch: Patch) -> None:
    patch.setattr(_InTime, "_on_injected", lambda self, event: self._begin(event.at_us))


def asked_at_the_end_only(patch: Patch) -> None:
    real = _Throughout.__init__

    def init(self: _Throughout, asker: Asker) -> None:
        real(self, asker)
        change = self.handlers[Applied]
        self.handlers = {RunEnded: change}

    patch.setattr(_Throughout, "__init__", init)


def last_violation_counts(patch: Patch) -> None:
    real = Asker.violated

    def violated(self: Asker, event: Any) -> None:
        self.violation = None
        real(self, event)

    patch.setattr(Asker, "violated", violated)

    def on_change(self: _Throughout, event: Any) -> None:
        if self.asker.concerns() and self.asker.ask(self.asker.promise.check) is False:
            self.asker.violated(event)

    patch.setattr(_Throughout, "_on_change", on_change)


def objections_are_swallowed(patch: Patch) -> None:
    real = Asker.ask

    def ask(self: Asker, check: Any) -> bool | None:
        answer = real(self, check)
        if self.objected:
            self._objection = None
            return True
        return answer

    patch.setattr(Asker, "ask", ask)


def fired_timers_stay(patch: Patch) -> None:
    real = World._on_applied

    def applied(self: World, event: Applied) -> None:
        row = self.rows[event.computation].get(event.delta.key)
        timers = dict(row.timers) if row else {}
        real(self, event)
        self.rows[event.computation][event.delta.key].timers |= timers

    patch.setattr(World, "_on_applied", applied)


def cleared_rows_stay(patch: Patch) -> None:
    real = World._on_applied

    def applied(self: World, event: Applied) -> None:
        row = self.rows[event.computation].get(event.delta.key)
        state = row.state if row else b""
        real(self, event)
        row = self.rows[event.computation][event.delta.key]
        row.state = row.state or state

    patch.setattr(World, "_on_applied", applied)


def no_hold(self: World, event: Applied) -> None:
    self.rows[event.computation][event.delta.key].hold = MAX_TIME


def nothing_consumed(self: World, _event: Any) -> None:
    if isinstance(self.change, world.DurableStep):
        self.change.consumed = ()


def ignores_real_time(patch: Patch) -> None:
    real = linearizability.is_linearizable

    def search(operations: Any, model: Any, initial: Any) -> bool:
        timeless = [
            Operation(operation.request, 0, operation.answer, operation.end and 10**9)
            for operation in operations
        ]
        return real(timeless, model, initial)

    patch.setattr(linearizability, "is_linearizable", search)


def forgets_the_unanswered(patch: Patch) -> None:
    real = linearizability.is_linearizable

    def search(operations: Any, model: Any, initial: Any) -> bool:
        return real([operation for operation in operations if operation.end is not None], model, initial)

    patch.setattr(linearizability, "is_linearizable", search)


def unexercised_holds(patch: Patch) -> None:
    real = Asker.ask

    def ask(self: Asker, check: Any) -> bool | None:
        answer = real(self, check)
        self.unexercised = ""
        return answer

    patch.setattr(Asker, "ask", ask)


MUTANTS: dict[str, Mutant] = {
    "asked before the change": (
        asked_too_early,
        kinds.test_always_is_broken_by_the_first_change_that_breaks_it,
    ),
    "asked about what is not durable": (
        hearing(Executed, on_undurable_state),
        kinds.test_code_that_ran_and_is_not_durable_says_nothing,
    ),
    "records leave when they are produced": (
        handler("_on_applied", records_leave_when_produced),
        kinds.test_a_record_on_its_way_has_not_left,
    ),
    "rows are forgotten at a restart": (
        hearing(ProcessStarted, forget_rows),
        kinds.test_a_restarted_process_changes_nothing_durable,
    ),
    "asked after healing only": (after_healing_only, kinds.test_always_is_asked_while_faults_strike),
    "asked at the end only": (asked_at_the_end_only, kinds.test_always_sees_a_dip_that_is_over_at_the_end),
    "the view is stale": (stale_view, kinds.test_sometimes_is_unknown_until_it_is_reached_once),
    "outputs are missing": (
        handler("_on_output", lost_output),
        kinds.test_the_world_is_decoded_and_each_record_counts_once,
    ),
    "outputs that come again count twice": (
        handler("_on_output", lambda self, _event: self._seen_outputs.clear()),
        kinds.test_the_world_is_decoded_and_each_record_counts_once,
    ),
    "inputs that are read again count twice": (
        handler("_on_injected", lambda self, _event: self._seen_inputs.clear()),
        kinds.test_the_world_is_decoded_and_each_record_counts_once,
    ),
    "watermarks are not followed": (
        handler("_on_published", lambda self, _event: self.low.clear()),
        kinds.test_the_world_is_decoded_and_each_record_counts_once,
    ),
    "rows that were cleared stay": (
        cleared_rows_stay,
        kinds.test_the_world_is_decoded_and_each_record_counts_once,
    ),
    "the change is lost": (
        handler("_on_applied", change_lost),
        kinds.test_always_is_broken_by_the_first_change_that_breaks_it,
    ),
    "what was consumed is lost": (
        handler("_on_applied", nothing_consumed),
        kinds.test_a_change_has_its_earlier_state_and_what_it_consumed_and_produced,
    ),
    "the last violation counts": (
        last_violation_counts,
        kinds.test_always_is_broken_by_the_first_change_that_breaks_it,
    ),
    "objections are swallowed": (
        objections_are_swallowed,
        kinds.test_always_is_broken_by_the_first_change_that_breaks_it,
    ),
    "the bound begins with the run": (
        bound_from_the_start,
        kinds.test_eventually_counts_from_the_end_of_all_faults,
    ),
    "there is no bound": (
        replaced(_InTime, "_due_us", property(lambda _self: 10**18)),
        kinds.test_eventually_is_broken_by_what_comes_after_the_bound,
    ),
    "what was so before the last input counts": (
        answer_before_the_last_input_counts,
        kinds.test_eventually_counts_from_the_last_input,
    ),
    "what is read again begins the bound anew": (
        each_reading_begins_anew,
        kinds.test_a_reread_record_does_not_restart_the_clock,
    ),
    "a run that was cut has ended": (
        replaced(_Rest, "quiescent", property(lambda _self: True)),
        partial(kinds.test_the_end_of_a_run_that_did_not_come_to_rest_is_unknown, "limit"),
    ),
    "the end is never looked at": (
        replaced(_AtEnd, "_on_end", lambda self, event: setattr(self._rest, "end", event)),
        partial(kinds.test_the_end_of_a_run_that_did_not_come_to_rest_is_unknown, "deadline"),
    ),
    "sometimes holds without being reached": (
        replaced(_Once, "verdict", lambda _self: Holds(1)),
        kinds.test_sometimes_is_unknown_until_it_is_reached_once,
    ),
    "always holds without being asked": (
        replaced(_Throughout, "verdict", lambda _self: Holds(1)),
        kinds.test_always_without_any_change_is_unknown,
    ),
    "what was not exercised holds": (
        unexercised_holds,
        kinds.test_an_unexercised_promise_is_unknown,
    ),
    "a sample passes for the whole": (
        handler("_on_sampled", lambda self, _event: setattr(self, "fraction", 1.0)),
        kinds.test_a_sample_of_the_keys_decides_about_rows_but_not_about_totals,
    ),
    "what switches permit is hidden": (
        replaced(Asker, "_note", lambda _self: ""),
        kinds.test_what_the_pipelines_switches_permit_is_said_beside_what_breaks,
    ),
    "fired timers stay": (fired_timers_stay, case("state whose timer fired")),
    "holds are not seen": (handler("_on_applied", no_hold), case("state with a hold")),
    "changes by a promise go unnoticed": (
        replaced(Moment, "changed_value", lambda _self: ""),
        partial(
            wrong.test_a_promise_that_changes_its_arguments_is_detected,
            at_end(wrong.spoil_output),
            "a record of stream 'told'",
        ),
    ),
    "a forgotten return is an answer": (
        replaced(asking, "_MAY_BE_SILENT", tuple(PromiseKind)),
        partial(wrong.test_a_forgotten_return_is_refused, sometimes),
    ),
    "real time is ignored": (ignores_real_time, lin.test_a_request_that_began_after_an_answer_comes_after_it),
    "what was not answered had no effect": (
        forgets_the_unanswered,
        lin.test_a_request_without_an_answer_may_have_taken_effect_or_not,
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_each_mutant_is_killed_by_the_test_that_it_names(
    mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it, killer = MUTANTS[mutant]
    killer()
    break_it(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        killer()


def test_at_least_twenty_mutants_exist() -> None:
    assert len(MUTANTS) >= 20
