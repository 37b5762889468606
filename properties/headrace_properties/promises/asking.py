"""Asking a promise: its possible answers, what it must not do, and how its violation is reported."""

import linecache
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType, TracebackType
from typing import Any

from headrace import format_time
from headrace.api.errors import with_article
from headrace.history import Event
from headrace_properties.printable import visible
from headrace_properties.promises.call_watch import CallWatch, HangError
from headrace_properties.promises.moment import Moment
from headrace_properties.promises.promise import Check, Promise, PromiseKind
from headrace_properties.promises.promise_errors import Broken, NotInPipelineError, PromiseError, Unexercised
from headrace_properties.promises.reach import Reach
from headrace_properties.promises.world import DurableStep, World
from headrace_properties.user_frames import is_our_file
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated

_MAY_BE_SILENT = (PromiseKind.ALWAYS, PromiseKind.AT_END)
"""For the others, a forgotten ``return`` would count as an answer."""

_MOST_VALUES = 8
_VALUE_LENGTH = 200


class Asker:
    """One promise during one run.

    Args:
        promise: which.
        world: what it looks at.
        watch: on calls that never return.

    Attributes:
        promise: which.
        world: what it looks at.
        violation: the first, if there was one.
        unexercised: why the promise said, when it was asked last, that it could not tell; ``""``: it did not say so.
    """

    __slots__ = ("_moment", "_objection", "_reach", "_watch", "promise", "unexercised", "violation", "world")

    def __init__(self, promise: Promise, world: World, watch: CallWatch) -> None:
        self.promise = promise
        self.world = world
        self.violation: Violated | None = None
        self.unexercised = ""
        self._watch = watch
        self._moment = Moment(world)
        self._reach = Reach(promise)
        self._objection: AssertionError | None = None

    def concerns(self) -> bool:
        """Return whether the promise is to be asked after the last change."""
        promise, change = self.promise, self.world.change
        if change is None:
            return False
        if not promise.of and not promise.streams:
            return True
        if isinstance(change, DurableStep):
            return change.event.computation in promise.of
        return change.production.stream in promise.streams

    def ask(self, check: Check) -> bool | None:
        """Ask: ``False`` also for an ``AssertionError``; ``None``: nothing to object.

        Raises:
            PromiseError: the promise is wrong in itself.
        """
        with nullcontext() if self._reach.tested else self._reach.watching():
            answer = ask(self.promise, check, self._moment, self._watch)
        self._objection, self.unexercised = answer.objection, answer.unexercised
        return answer.value

    @property
    def objected(self) -> bool:
        """The last answer was an ``AssertionError``."""
        return self._objection is not None

    def violated(self, event: Event) -> None:
        """Record that the promise is broken, by its answer after this event; only the first time counts.

        Raises:
            PromiseError: the promise has changed its arguments, and so may have misled itself.
        """
        if self.violation is not None:
            return
        self._check_unchanged()
        objection = self._objection
        about = objection.about if isinstance(objection, Broken) else ()
        witness = {view.number: view.event for view in about}
        change = self.world.change
        when = "when the run had come to rest" if change is None else f"after the {self._moment.changed!r}"
        if self.world.change is not None or not witness:
            witness[self.world.number] = event
        message = (
            f"at {format_time(self.world.at_us)}, {when}: {reason_of(self.promise, objection)}{self._note()}"
        )
        self.violation = Violated(message, tuple(witness[number] for number in sorted(witness)))

    def broken(self, message: str, *witness: Event) -> None:
        """Record that the promise was not kept in time."""
        if self.violation is None:
            self._check_unchanged()
            self.violation = Violated(
                f"{message}: {reason_of(self.promise, self._objection)}{self._note()}", witness
            )

    def final(self, verdict: Callable[[], Verdict]) -> Verdict:
        """Return the verdict. ``verdict``: returns it if the promise is not known to be broken, and could judge.

        Raises:
            PromiseError: the promise has changed what it was given.
        """
        judged = verdict() if self.violation is None else self.violation
        self._check_unchanged()
        if isinstance(judged, Holds) and self._moment.empty and not self._moment.saw:
            return Unknown(f"it goes through {', '.join(self._moment.empty)}, and there was nothing")
        if isinstance(judged, Holds) and not self._reach.tested:
            return Unknown(self._reach.untold)
        if self.world.fraction < 1 and self._moment.widely:
            share = f"{self.world.fraction:.3g} of the keys"
            return Unknown(f"the History has {share}, and the promise looks at more than single rows")
        return self.violation or judged

    def _check_unchanged(self) -> None:
        changed = self._moment.changed_value()
        if changed:
            raise changes(self.promise, changed)

    def _note(self) -> str:
        """Name the pipeline's settings that may explain it (6.1.3)."""
        topology, change = self.world.topology, self.world.change
        makers = [*topology.computations]
        if isinstance(change, DurableStep):
            makers = [change.event.computation]
        elif change is not None:
            stream = change.production.stream
            makers = [name for name, spec in topology.computations.items() if stream in spec.all_outputs]
        names = {name for maker in makers for name in topology.upstream[maker]}
        loose = sorted(names & topology.at_least_once)
        weak = sorted(names & topology.weak)
        notes = []
        if loose:
            which = ", ".join(map(repr, loose))
            notes.append(f"exactly_once=False of {which} permits that a record takes effect more than once")
        if weak:
            which = ", ".join(map(repr, weak))
            notes.append(
                f"weak productions of {which} permit that a step which is run again produces something else"
            )
        return f" (note: {'; '.join(notes)})" if notes else ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a promise said.

    Attributes:
        value: ``False`` also for an ``AssertionError``; ``None``: nothing to object.
        objection: the ``AssertionError``.
        unexercised: why it could not tell.
    """

    value: bool | None
    objection: AssertionError | None = None
    unexercised: str = ""


def ask(promise: Promise, check: Callable[[Any], Any], moment: object, watch: CallWatch) -> Answer:
    """Ask a promise once.

    Raises:
        PromiseError: the promise is wrong in itself.
    """
    watch.calls += 1
    try:
        watch.inside = True
        answer: object = check(moment)
        watch.inside = False
    except AssertionError as error:
        return Answer(value=False, objection=error)
    except Unexercised as error:
        return Answer(None, unexercised=str(error) or "its case did not come up")
    except NotInPipelineError as error:
        raise _wrong(promise, "declaration", f"is wrong{_innermost(error)}: {error.args[0]}") from error
    except HangError as error:
        reason = f"did not return within {watch.patience_s:g} s{_innermost(error)}. Make it faster, or end its loop"
        raise _wrong(promise, "hangs", reason) from error
    except (Exception, SystemExit) as error:
        reason = f"raises {type(error).__name__}: {error}{_innermost(error)}. Raise only AssertionError"
        raise _wrong(promise, "raises", reason) from error
    finally:
        watch.inside = False
    silent = promise.kind in _MAY_BE_SILENT
    if answer is True or answer is False or (answer is None and silent):
        return Answer(answer)
    wanted = "True or False, or nothing" if silent else "True or False"
    raise _wrong(promise, "returns", f"returned {answer!r:.60}. Return {wanted}")


def changes(promise: Promise, what: str) -> PromiseError:
    """Return the error of a promise that changes what it is given."""
    return _wrong(promise, "changes", f"changes what it is given: {what}. Copy it first, with copy.deepcopy")


def _wrong(promise: Promise, kind: str, reason: str) -> PromiseError:
    return PromiseError(promise.name, kind, promise.where, reason)


def reason_of(promise: Promise, objection: AssertionError | None) -> str:
    """Explain why a promise is broken: the assertion's message, or its line and values; else the promise's title."""
    text = str(objection) if objection is not None else ""
    if text:
        return text
    line = _last_line(objection.__traceback__) if objection is not None else ""
    return line or f"{promise.title.rstrip('.') or promise.name}: this is not so"


def _last_line(where: TracebackType | None) -> str:
    """Return the source line of an assertion without a message."""
    frames = traceback.extract_tb(where)
    if not frames:
        return ""
    line = linecache.getline(frames[-1].filename, frames[-1].lineno or 0).strip()
    return (
        f"{line} ({Path(frames[-1].filename).name}, line {frames[-1].lineno}){_values(where)}" if line else ""
    )


def _values(where: TracebackType | None) -> str:
    """Return the informative variables of the innermost function at an assertion."""
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    known = {} if where is None else where.tb_frame.f_locals
    shown = [
        f"{name}={_shown(value)}"
        for name, value in known.items()
        if not isinstance(value, Moment | ModuleType | FunctionType | type)
    ]
    return f", where {', '.join(shown[:_MOST_VALUES])}" if shown else ""


def _shown(value: object) -> str:
    try:
        text = visible(repr(value))
    except Exception:  # noqa: BLE001  a repr may be the user's
        return with_article(type(value).__name__)
    return text if len(text) <= _VALUE_LENGTH else f"{text[:_VALUE_LENGTH]}..."


def _innermost(error: BaseException) -> str:
    """Return where the promise's own code was when this happened."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not is_our_file(frame.filename)]
    return f" at {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
