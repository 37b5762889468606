"""Whether requests and answers fit a sequential order (Herlihy and Wing; the search of Wing and Gong, with Lowe's memory).

Rules of this file:

* A request begins when it is injected and ends when its answer has arrived outside; one that ends before another begins takes
  effect before it. A request without an answer may have taken effect at any time after it began, or never.
* Each key is judged on its own: a history is linearizable if and only if every key's is (P-compositionality).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace_properties.promises.moment import Moment, RecordView
from headrace_properties.promises.promise import Promise, PromiseKind, make
from headrace_properties.promises.promise_errors import Broken, Unexercised

Model = Callable[[Any, Any], tuple[Any, Any]]
"""The sequential object: (state, value of a request) -> (new state, answer). It must not change the state that it is given."""

MOST_STEPS = 100_000
"""Choice: the search for one key stops after this many steps; the verdict is then unknown."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A request and its answer.

    Attributes:
        request: the request's value.
        begin: number of the event that injected it.
        answer: the answer; meaningless if ``end`` is ``None``.
        end: number of the event that took the answer outside;
            ``None``: there is none.
    """

    request: Any
    begin: int
    answer: Any = None
    end: int | None = None


class TooLargeError(Exception):
    """A search took too many steps."""


def linearizable(
    requests: str,
    answers: str,
    *,
    model: Model,
    initial: Any,
    by: Callable[[Any], Any],
    answer: Callable[[Any], Any] = lambda value: value,
    key: Callable[[RecordView], Any] = lambda view: view.key,
    name: str = "",
) -> Promise:
    """Promise that each key behaves like one object that handles requests one at a time.

    Args:
        requests: stream on which requests are injected.
        answers: stream on which answers leave.
        model: the object: (state, value of a request) -> (new state, answer).
        initial: state of the object of a new key. States are compared by their ``repr``.
        by: tells which request it is, from the value of a request or of its answer.
        answer: what the model is to return, from the value of an answer; default: all of it.
        key: tells whose object a request is about; default: the record's key.
        name: default: ``linearizable``.
    """

    def check(moment: Moment) -> None:
        answered = {by(view.value): view for view in moment.outputs(answers)}
        objects: dict[Any, list[tuple[RecordView, Operation]]] = {}
        for view in moment.inputs(requests):
            answer_view = answered.get(by(view.value))
            operation = Operation(view.value, view.number)
            if answer_view is not None:
                operation = Operation(view.value, view.number, answer(answer_view.value), answer_view.number)
            objects.setdefault(key(view), []).append((view, operation))
        if not answered or not objects:
            raise Unexercised(f"nothing was asked on {requests!r} and answered on {answers!r}")
        for whose, asked in objects.items():
            try:
                fits = is_linearizable([operation for _, operation in asked], model, initial)
            except TooLargeError:
                raise Unexercised(
                    f"key {whose!r} has {len(asked)} requests at once, too many to try their orders"
                ) from None
            if not fits:
                told_of = ", ".join(
                    f"{operation.request!r} -> {'no answer' if operation.end is None else repr(operation.answer)}"
                    for _, operation in asked
                )
                views = [view for view, _ in asked]
                views += [answered[by(view.value)] for view in views if by(view.value) in answered]
                raise Broken(
                    f"no order of the requests of key {whose!r} gives these answers: {told_of}", *views
                )

    title = f"requests on {requests!r} and answers on {answers!r} fit a sequential order, for each key"
    uses = [requests, answers]
    return make(check, PromiseKind.AT_END, name=name or "linearizable", title=title, uses=uses, written=check)


def is_linearizable(
    operations: list[Operation], model: Model, initial: Any, most_steps: int = MOST_STEPS
) -> bool:
    """Return whether some order of the operations fits both the model and real time.

    Args:
        operations: on one object, in the order in which they began.
        model: the object.
        initial: its first state.
        most_steps: how many steps of the model may be tried.

    Raises:
        TooLargeError: more steps are needed.
    """
    needed = sum(1 << place for place, operation in enumerate(operations) if operation.end is not None)
    tried = {(0, repr(initial))}
    waiting, steps = [(0, initial)], 0
    while waiting:
        done, state = waiting.pop()
        if done & needed == needed:
            return True
        # an operation that begins after another has ended cannot precede it
        left = [place for place in range(len(operations)) if not done >> place & 1]
        ends = [end for place in left if (end := operations[place].end) is not None]
        first_end = min(ends)
        for place in left:
            operation = operations[place]
            if operation.begin > first_end:
                continue
            steps += 1
            if steps > most_steps:
                raise TooLargeError
            after, answer = model(state, operation.request)
            if operation.end is not None and answer != operation.answer:
                continue
            known = (done | 1 << place, repr(after))
            if known not in tried:
                tried.add(known)
                waiting.append((known[0], after))
    return False
