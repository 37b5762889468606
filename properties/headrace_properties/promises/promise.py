"""A promise as a value, and the decorators that make one from a function."""

import enum
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from headrace_properties.promises.moment import INPUT, OUTPUT, Moment
from headrace_properties.promises.promise_errors import PromiseError

Check = Callable[[Moment], bool | None]
"""What a user writes: ``False`` or an ``AssertionError`` breaks the promise."""

Names = str | Iterable[str]


class PromiseKind(enum.Enum):
    """When a promise must hold."""

    ALWAYS = "always"
    """After each durable change of a row and each record that leaves."""
    NEVER = "never"
    """At none of these moments."""
    EVENTUALLY = "eventually"
    """Within a bound after all faults have ended and all input is in."""
    AT_END = "at_end"
    """When the run has come to rest."""
    SOMETIMES = "sometimes"
    """At some moment of some run; else the verdict is unknown."""


@dataclass(frozen=True, slots=True)
class Versions:
    """What must come in several versions, so that a promise about the newest one is tested."""

    by: tuple[str, ...]  # the columns of its key
    version: str  # the column that is greater in a newer row


@dataclass(frozen=True, slots=True)
class Promise:
    """A property of the pipeline's work that its author states.

    Attributes:
        name: unique among promises and invariants; default: the function's name.
        kind: when it is to hold.
        check: the function.
        title: what it says, in a line: the first line of the function's docstring.
        where: file and line of the function.
        of: computations whose row changes it is checked after.
        streams: streams whose departing records it is checked after. If neither is named: it is checked after all changes.
        within_us: for `PromiseKind.EVENTUALLY`: the bound, microseconds.
        ending: for `PromiseKind.ALWAYS`: a further check when the run has come to rest.
        uses: all computations and streams that the promise names, which must exist.
        bounds: computations of which it says which rows may stay.
        tables: what it reads by `Moment.table`: tables that a sink leaves, or streams; ``""``: the only one.
        versions: what rows that are drawn for a Spark job have to show.
    """

    name: str
    kind: PromiseKind
    check: Check
    title: str
    where: str
    of: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    within_us: int = 0
    ending: Check | None = None
    uses: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    versions: Versions | None = None

    @property
    def reads_sink(self) -> bool:
        """Whether it reads the tables of a sink, and not only the input and output of a query."""
        return not {*self.tables} <= {INPUT, OUTPUT}

    def __call__(self, moment: Moment) -> bool | None:
        """Call the function, for a test of the promise itself."""
        return self.check(moment)


@overload
def always(check: Check) -> Promise: ...
@overload
def always(
    *, of: Names = (), stream: Names = (), table: Names = (), name: str = ""
) -> Callable[[Check], Promise]: ...
def always(
    check: Check | None = None, *, of: Names = (), stream: Names = (), table: Names = (), name: str = ""
) -> Promise | Callable[[Check], Promise]:
    """Promise what holds after each durable change and each record that goes outside.

    Args:
        check: the function.
        of: check only after changes of the rows of these computations.
        stream: check only after records that leave on these streams.
        table: of a Spark job: read these tables of its sink, ``moment.table(name)``; ``""``: the only one.
        name: default: the function's name.

    Raises:
        PromiseError: it is not a plain function of a moment, or the name is not allowed.
    """
    return _decorate(check, PromiseKind.ALWAYS, name, of=of, stream=stream, table=table)


@overload
def never(check: Check) -> Promise: ...
@overload
def never(
    *, of: Names = (), stream: Names = (), table: Names = (), name: str = ""
) -> Callable[[Check], Promise]: ...
def never(
    check: Check | None = None, *, of: Names = (), stream: Names = (), table: Names = (), name: str = ""
) -> Promise | Callable[[Check], Promise]:
    """Promise what must never be true: ``True`` breaks it. Arguments and errors: as for `always`."""
    return _decorate(check, PromiseKind.NEVER, name, of=of, stream=stream, table=table)


@overload
def sometimes(check: Check) -> Promise: ...
@overload
def sometimes(
    *, of: Names = (), stream: Names = (), table: Names = (), name: str = ""
) -> Callable[[Check], Promise]: ...
def sometimes(
    check: Check | None = None, *, of: Names = (), stream: Names = (), table: Names = (), name: str = ""
) -> Promise | Callable[[Check], Promise]:
    """Require some run to reach this by returning ``True``; otherwise, the verdict is unknown. Arguments: as for `always`."""
    return _decorate(check, PromiseKind.SOMETIMES, name, of=of, stream=stream, table=table)


@overload
def at_end(check: Check) -> Promise: ...
@overload
def at_end(*, table: Names = (), name: str = "") -> Callable[[Check], Promise]: ...
def at_end(
    check: Check | None = None, *, table: Names = (), name: str = ""
) -> Promise | Callable[[Check], Promise]:
    """Promise what holds once the run has come to rest: all input is in, all work is done.

    Args:
        check: the function.
        table: as for `always`.
        name: default: the function's name.

    Raises:
        PromiseError: it is not a plain function of a moment, or the name is not allowed.
    """
    return _decorate(check, PromiseKind.AT_END, name, table=table)


def eventually(*, within_us: int, name: str = "") -> Callable[[Check], Promise]:
    """Promise what becomes true in time: at some moment within a bound after all faults have healed and all input is in.

    Choice: the bound begins at the later of the two, as nothing can be due for input that has not arrived.

    Args:
        within_us: the bound, true wall time, microseconds.
        name: default: the function's name.

    Raises:
        PromiseError: the bound is negative, or the function is not allowed, as for `always`.
    """

    def decorator(check: Check) -> Promise:
        promise = make(check, PromiseKind.EVENTUALLY, name=name, within_us=within_us)
        if type(within_us) is not int or within_us < 0:
            reason = (
                f"has within_us={within_us!r}. Give the bound as an int of microseconds, such as 10 * SECOND"
            )
            raise PromiseError(promise.name, "declaration", promise.where, reason)
        return promise

    return decorator


def _decorate(
    check: Check | None, kind: PromiseKind, name: str, of: Names = (), stream: Names = (), table: Names = ()
) -> Promise | Callable[[Check], Promise]:
    def decorator(check: Check) -> Promise:
        return make(check, kind, name=name, of=of, stream=stream, table=table)

    return decorator if check is None else decorator(check)


def make(
    check: Check,
    kind: PromiseKind,
    *,
    name: str = "",
    title: str = "",
    of: Names = (),
    stream: Names = (),
    table: Names = (),
    within_us: int = 0,
    ending: Check | None = None,
    uses: Iterable[str] = (),
    written: Callable[..., object] | None = None,
) -> Promise:
    """Make a promise from a function.

    Args:
        check: the function.
        kind: when it is to hold.
        name: default: the function's name.
        title: default: the first line of its docstring.
        of: computations whose changes it is checked after.
        stream: streams whose departing records it is checked after.
        table: tables that it reads.
        within_us: for `PromiseKind.EVENTUALLY`.
        ending: see `Promise`.
        uses: further computations and streams that must exist.
        written: the user's function, if ``check`` is not it.

    Raises:
        PromiseError: it is not a plain function, or the name is not allowed.
    """
    users = check if written is None else written
    name = name or getattr(users, "__name__", "")
    where = _place(users)
    if not name.isidentifier():
        reason = f"has a name that is not an identifier: {name!r}. Name it with name="
        raise PromiseError(name, "declaration", where, reason)
    if not _is_plain(users):
        reason = "is not a plain function. Write def NAME(moment) that returns a bool or None, or asserts"
        raise PromiseError(name, "declaration", where, reason)
    computations, streams = _several(of), _several(stream)
    title = title or (inspect.getdoc(users) or "").partition("\n")[0]
    used = (*computations, *streams, *uses)
    return Promise(
        name,
        kind,
        check,
        title,
        where,
        computations,
        streams,
        within_us,
        ending,
        used,
        tables=_several(table),
    )


def _is_plain(function: object) -> bool:
    """Return whether calling it runs it: no class, coroutine or generator."""
    if isinstance(function, type) or not callable(function):
        return False
    return not (inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function))


def _several(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _place(function: object) -> str:
    """Return where a function is written; for one of ours, the line of the user's that asks for it."""
    code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
    if code is None:
        return ""
    path, line = Path(code.co_filename), code.co_firstlineno
    frame = inspect.currentframe() if path.parent == _OURS else None
    while frame is not None and path.parent == _OURS:
        path, line, frame = Path(frame.f_code.co_filename), frame.f_lineno, frame.f_back
    return f"{path.name}, line {line}"


_OURS = Path(__file__).parent
