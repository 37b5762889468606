"""Ready-made promises that many pipelines need, written on the same `Moment` that users have."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any, overload

from headrace_properties.promises.moment import INPUT, OUTPUT, Moment, RecordView, RowChange
from headrace_properties.promises.promise import Promise, PromiseKind, make
from headrace_properties.promises.promise_errors import Broken, PromiseError, Unexercised
from headrace_properties.promises.table_promises import Column, expected_query, expected_table, one_row_each

Amount = Callable[[Any], Any]
"""Returns the amount that a state or a record's value represents."""

OUTSIDE = ""


def conserved(name: str, *, held: Mapping[str, Amount], carried: Mapping[str, Amount]) -> Promise:
    """Promise that nothing is lost or doubled: when all is done, what came in is held by rows or has left.

    If broken, the message names the first step that did not balance: what it consumed and held before differs from what it
    produced and holds after.

    Args:
        name: of the promise.
        held: computation to how much a state of it holds, on its way or at rest; counted from its initial state.
        carried: stream to how much the value of a record carries. It counts for consumers in ``held``, and outside; a
            computation that only forwards records holds 0.

    Raises:
        PromiseError: the name is not allowed, or nothing is held or carried.
    """

    def worth(view: RecordView) -> Any:
        amount = carried.get(view.stream)
        counted = sum(consumer == OUTSIDE or consumer in held for consumer in view.consumers)
        return amount(view.value) * counted if amount is not None and counted else 0

    def balances(moment: Moment) -> None:
        change = moment.changed
        if not isinstance(change, RowChange) or "unbalanced" in moment.memory:
            return
        amount = held[change.computation]
        before = amount(change.before) + sum(map(worth, change.consumed))
        after = amount(change.after) + sum(map(worth, change.produced))
        if before != after:
            moment.memory["unbalanced"] = change, before, after

    def nothing_lost(moment: Moment) -> None:
        came = [view for view in moment.inputs() if view.stream in carried]
        if not came:
            raise Unexercised(f"nothing came in on {', '.join(map(repr, carried))}")
        came_in = sum(map(worth, came))
        has_left = sum(worth(view) for view in moment.outputs() if view.stream in carried)
        rests = sum(
            amount(state) - amount(moment.initial_state(name))
            for name, amount in held.items()
            for state in moment.states(name).values()
        )
        if came_in == rests + has_left:
            return
        sums = f"{came_in} came in, but {rests} is held and {has_left} has left"
        if "unbalanced" not in moment.memory:
            raise Broken(f"{sums}; each step balances, so a record was lost or took effect twice")
        change, before, after = moment.memory["unbalanced"]
        raise Broken(
            f"{sums}. The first step that does not balance made {after} of {before}: the {change!r}{_moved(change)}",
            change,
        )

    uses = (*held, *carried)
    if not held or not carried:
        raise PromiseError(name, "declaration", "", "conserves nothing: give held= and carried=")
    title = f"what comes in on {', '.join(carried)} is held by {', '.join(held)} or leaves"
    return make(balances, PromiseKind.ALWAYS, name=name, title=title, of=held, uses=uses, ending=nothing_lost)


def _moved(change: RowChange) -> str:
    """Return what a step consumed and produced, as the tail of a sentence."""
    consumed = ", ".join(repr(view.value) for view in change.consumed) or "nothing"
    produced = ", ".join(repr(view.value) for view in change.produced) or "nothing"
    return f"; it consumed {consumed} and produced {produced}"


def answered_once(
    requests: str = INPUT, answers: str = OUTPUT, *, by: Column, of: Column | None = None, table: str | None = None,
    name: str = "",
) -> Promise:  # fmt: skip
    """Promise that each request gets exactly one answer, and that every answer has a request.

    Args:
        requests: stream on which requests are injected.
        answers: stream on which answers leave.
        by: tells which request it is, from the value of a request; or its column.
        of: tells which request it answers, from the value of an answer; default: as ``by``.
        table: of a Spark job: its requests are the input, and its answers the rows of this table; ``""``: the only one.
        name: default: ``answered_once``, with the table.
    """
    if table is not None:
        return one_row_each(by, by if of is None else of, table, name)
    asked, answered = (
        itemgetter(column) if isinstance(column, str) else column for column in (by, by if of is None else of)
    )

    def no_answer_twice(moment: Moment) -> None:
        memory, answer = moment.memory, moment.changed
        request = answered(answer.value)
        if request not in memory.get("asked", ()):
            memory["asked"] = {asked(view.value) for view in moment.inputs(requests)}
        if request not in memory["asked"]:
            raise Broken(f"the answer is to {request!r}, which nobody asked", answer)
        first = memory.setdefault("answers", {}).setdefault(request, answer)
        if first is not answer:
            raise Broken(
                f"request {request!r} is answered again; the first answer was {first.value!r}", first
            )

    def all_answered(moment: Moment) -> None:
        came = moment.inputs(requests)
        if not came:
            raise Unexercised(f"no request came in on {requests!r}")
        answers_to = moment.memory.get("answers", {})
        for view in came:
            if asked(view.value) not in answers_to:
                raise Broken(f"request {asked(view.value)!r} is never answered: {view.value!r}", view)

    title = f"each record of {requests!r} is answered exactly once on {answers!r}"
    return make(
        no_answer_twice, PromiseKind.ALWAYS, name=name or "answered_once", title=title, stream=answers, uses=[requests],
        ending=all_answered, written=no_answer_twice,
    )  # fmt: skip


def in_order(stream: str, *, by: Callable[[Any], Any], strictly: bool = False, name: str = "") -> Promise:
    """Promise that the records of a key leave in order.

    MillWheel delivers records in any order: a pipeline that makes this promise has to ensure it.

    Args:
        stream: on which they leave.
        by: returns the sort key of a record's value.
        strictly: no two of a key are equal.
        name: default: ``in_order``.
    """

    def order(moment: Moment) -> None:
        view, last = moment.changed, moment.memory.setdefault("last", {})
        before = last.get(view.key)
        last[view.key] = view
        if before is None:
            return
        moment.memory["pairs"] = True
        first, second = by(before.value), by(view.value)
        if second < first or (strictly and first == second):
            raise Broken(f"key {view.key!r} has {second!r} after {first!r}", before)

    def some_pair(moment: Moment) -> None:
        if "pairs" not in moment.memory:
            raise Unexercised(f"no key has two records on {stream!r}")

    title = f"the records of a key leave in order on {stream!r}"
    return make(
        order, PromiseKind.ALWAYS, name=name or "in_order", title=title, stream=stream, ending=some_pair
    )


def bounded_state(
    of: str, *, keeps: Callable[[str, Any], bool] = lambda _key, _state: False, name: str = ""
) -> Promise:
    """Promise that nothing piles up: when all is done, every key with state has a timer or a hold that will end it.

    Args:
        of: the computation.
        keeps: returns whether a key's state is meant to stay.
        name: default: ``bounded_state``.
    """

    def nothing_left(moment: Moment) -> None:
        if not moment.memory:
            raise Unexercised(f"no row of {of!r} was ever written")
        for key, state in moment.states(of).items():
            ends = moment.timers(of, key) or moment.hold(of, key) is not None
            if not ends and not keeps(key, state):
                message = f"key {key!r} of {of!r} is left with {state!r}, and no timer or hold that would ever end it"
                raise Broken(message, moment.memory[key])

    def last_write(moment: Moment) -> None:
        moment.memory[moment.changed.key] = moment.changed

    title = f"no key of {of!r} is left with state that nothing will ever clean up"
    promise = make(
        last_write, PromiseKind.ALWAYS, name=name or "bounded_state", title=title, of=of, ending=nothing_left
    )
    return replace(promise, bounds=(of,))


@overload
def expected(*, sql: str, table: str = "", name: str = "") -> Promise: ...
@overload
def expected(
    stream: str = "",
    *,
    of: str = "",
    initial: Callable[[], Any] = dict,
    table: str | None = None,
    name: str = "",
) -> Callable[[Callable[..., Any]], Promise]: ...
def expected(
    stream: str = "", *, of: str = "", initial: Callable[[], Any] = dict, table: str | None = None, sql: str = "",
    name: str = "",
) -> Promise | Callable[[Callable[..., Any]], Promise]:  # fmt: skip
    """Promise that the records that leave on a stream are exactly those that a function returns, in any order.

    With ``table``, that has exactly the rows that the function makes of the input, a tuple of ``Row``: it returns tuples, dicts
    or ``Row`` values, or a pandas DataFrame. Of dicts and frames, only their columns are compared. If its parameter is annotated
    as a ``DataFrame``, it gets the input as one of pandas. With ``sql``, nothing is decorated: the table has the rows of a
    query over ``input`` and over other tables, as SQLite evaluates it: ``expected(sql="SELECT ...", table="totals")``.

    The function returns (key, value) pairs, or (key, value, timestamp) triples. Without ``of`` it is called once, when all is
    done, with the records that were injected, a tuple of `RecordView`. With ``of`` it is a sequential model of a key of that
    computation: it is called as ``step(state, record)`` for each record in the order in which they took effect, and returns
    the new state and what leaves.

    Args:
        stream: on which they leave.
        of: the computation whose order of records steps the model; default: the function takes the whole input.
        initial: makes the model's state of a new key.
        table: that a sink leaves, or a stream; ``""``: the only one; ``"output"``: the rows that a query gives out.
        sql: instead of a function. A time is text in it, a decimal a float, and a struct JSON.
        name: default: the function's name.

    Raises:
        PromiseError: it is not a plain function, or the name is not allowed.
    """
    if sql:
        return expected_query(sql, table or "", name)

    def decorator(function: Callable[..., Any]) -> Promise:
        if table is not None:
            return expected_table(function, table, name)

        def step(moment: Moment) -> None:
            change, memory = moment.changed, moment.memory
            for record in change.consumed:
                state = memory[change.key] if change.key in memory else initial()
                memory[change.key], left = function(state, record)
                memory.setdefault(_MADE, []).extend(_pairs(left))

        def stepped(moment: Moment) -> None:
            _same(moment, stream, moment.memory.get(_MADE, []))

        def whole(moment: Moment) -> None:
            _same(moment, stream, _pairs(function(moment.inputs())))

        if of:
            return make(
                step, PromiseKind.ALWAYS, name=name, of=of, uses=[stream], ending=stepped, written=function
            )
        return make(whole, PromiseKind.AT_END, name=name, uses=[stream], written=function)

    return decorator


_MADE = object()
"""The model's output so far; not the key of any row."""


def _pairs(returned: Any) -> list[Any]:
    """Check what a model returns."""
    rows = [*returned] if isinstance(returned, Iterable) else [returned]
    for row in rows:
        if not isinstance(row, list | tuple) or len(row) not in {2, 3}:
            message = f"{row!r:.60} is no (key, value) pair, and no (key, value, timestamp)"
            raise TypeError(message)
    return rows


def _same(moment: Moment, stream: str, wanted: list[Any]) -> None:
    """Compare the records that left on a stream with those that should have."""
    left = moment.outputs(stream)
    if not wanted and not left:
        raise Unexercised(f"nothing is expected on {stream!r}, and nothing left")
    timed = any(len(row) > 2 for row in wanted)
    expects = Counter((row[0], moment.encode(stream, row[1]), *row[2:]) for row in wanted)
    actual = Counter((view.key, view.data, *([view.timestamp] if timed else [])) for view in left)
    missing, surplus = expects - actual, actual - expects
    if not missing and not surplus:
        return
    shown = {(row[0], moment.encode(stream, row[1]), *row[2:]): row for row in wanted}
    parts = []
    if missing:
        some = ", ".join(repr(shown[row]) for row in list(missing)[:_SHOWN])
        parts.append(f"{missing.total()} missing on {stream!r}: {some}{_more(missing)}")
    wrong = [view for view in left if (view.key, view.data, *([view.timestamp] if timed else [])) in surplus]
    if wrong:
        some = ", ".join(f"({view.key!r}, {view.value!r})" for view in wrong[:_SHOWN])
        parts.append(f"{surplus.total()} not expected on {stream!r}: {some}{_more(surplus)}")
    raise Broken("; ".join(parts), *wrong[:1])


_SHOWN = 3


def _more(counts: Counter[Any]) -> str:
    return f" and {len(counts) - _SHOWN} more" if len(counts) > _SHOWN else ""
