"""Judge promises: ask each one at its moments, in one pass over a History, and return verdicts by name.

Rules of this file:

* A promise is asked after the change it is about, never before, and only about what is durable or has left.
* The first violation is kept. A promise that was never asked, or could not see the run to its end, is unknown.
* A promise that raises, hangs, changes what it is given, or returns no bool is a `PromiseError`, not a violation.
"""

from collections.abc import Callable, Iterable, Sequence

from headrace import Pipeline
from headrace.api.errors import with_article
from headrace.history import Event
from headrace_properties.checkers import Judge, Registered
from headrace_properties.checkers.checker import EventNumber
from headrace_properties.checkers.invariant_catalogue import rules
from headrace_properties.checkers.topology_union import TopologyUnion
from headrace_properties.promises.asking import Asker
from headrace_properties.promises.call_watch import PATIENCE_S, CallWatch
from headrace_properties.promises.moment import INPUT, OUTPUT
from headrace_properties.promises.promise import Promise, PromiseKind
from headrace_properties.promises.promise_checkers import CHECKERS, PromiseChecker
from headrace_properties.promises.promise_errors import PromiseError
from headrace_properties.promises.world import World
from headrace_properties.verdict import Verdict


def judge_promises(
    history: Iterable[Event],
    promises: Iterable[Promise],
    pipelines: Sequence[Pipeline],
    key_of: Callable[[str], str] = str,
) -> dict[str, Verdict]:
    """Judge a run against promises.

    Args:
        history: of the whole run.
        promises: what to judge by.
        pipelines: the topologies that were deployed.
        key_of: the key as user code knows it, of one in the History; default: they are the same.

    Returns:
        Verdict by the promise's name.

    Raises:
        PromiseError: a promise is wrong in itself.
    """
    judge = Judge(promise_checkers(promises, pipelines, key_of))
    judge.take(history)
    return judge.verdicts()


def promise_checkers(
    promises: Iterable[Promise],
    pipelines: Sequence[Pipeline],
    key_of: Callable[[str], str] = str,
    patience_s: float = PATIENCE_S,
) -> Registered:
    """Register promises as checkers of the user's, with the world that they observe.

    Args:
        promises: what to judge by.
        pipelines: the topologies that were deployed.
        key_of: see `judge_promises`.
        patience_s: how long one call of a promise may take, seconds.

    Raises:
        PromiseError: a promise is wrong in itself.
    """
    asked = tuple(promises)
    if not asked:
        return Registered((), ())
    world, watch, number = World(pipelines, key_of), CallWatch(patience_s), EventNumber()
    askers = [Asker(promise, world, watch) for promise in _checked(asked, world.topology)]
    checkers = [CHECKERS[asker.promise.kind](asker) for asker in askers]
    kinds = {*world.handlers, *(kind for checker in checkers for kind in checker.handlers)}

    def observe(event: Event) -> None:
        world.take(number.value, event)

    handlers = [dict.fromkeys(kinds, observe), *(checker.handlers for checker in checkers)]
    return Registered([PromiseChecker(checker) for checker in checkers], handlers, number, watch.watching)


def check_promises(promises: Iterable[Promise], pipelines: Sequence[Pipeline]) -> tuple[Promise, ...]:
    """Return the promises, or refuse those that no run could be judged by.

    Raises:
        PromiseError: something is not a promise, a name is taken, or a computation or stream does not exist.
    """
    return _checked(promises, TopologyUnion(pipelines))


def check_are_promises(promises: object) -> tuple[Promise, ...]:
    """Return a list of promises, each with a name of its own.

    Raises:
        PromiseError: it is not a list, something in it is not a promise, or two have one name.
    """
    if not isinstance(promises, Iterable):
        reason = f"is {with_article(type(promises).__name__)}, not a list of promises. Write promises = [...]"
        raise PromiseError("promises", "declaration", "", reason)
    checked = tuple(promises)
    names = set[str]()
    for promise in checked:
        _check_is_promise(promise)
        if promise.name in names:
            problem = "has the name of another promise. Give each its own name"
            raise PromiseError(promise.name, "declaration", promise.where, problem)
        names.add(promise.name)
    return checked


def _checked(promises: Iterable[Promise], topology: TopologyUnion) -> tuple[Promise, ...]:
    checked = check_are_promises(promises)
    for promise in checked:
        problem = _problem_of(promise, topology)
        if problem:
            raise PromiseError(promise.name, "declaration", promise.where, problem)
    return checked


def _check_is_promise(thing: object) -> None:
    if not isinstance(thing, Promise):
        name = getattr(thing, "__name__", repr(thing))
        kinds = ", ".join(f"@{kind.value}" for kind in PromiseKind)
        reason = (
            f"is {with_article(type(thing).__name__)}, not a promise. Decorate a function with one of {kinds}"
        )
        raise PromiseError(name, "declaration", "", reason)


def _problem_of(promise: Promise, topology: TopologyUnion) -> str:
    if promise.name in rules():
        return "has the name of an invariant. Give it another name"
    nodes = {*topology.computations}
    streams = {stream for pipeline in topology.versions for stream in pipeline.streams}
    for kind, asked, known in (
        ("computation", promise.of, nodes),
        ("stream", promise.streams, streams),
        ("stream", set(promise.tables) - {"", INPUT, OUTPUT}, streams),
        ("computation or stream", promise.uses, nodes | streams),
    ):
        for name in asked:
            if name not in known:
                return f"names a {kind} {name!r} that the pipeline does not have: {', '.join(sorted(known))}"
    outside = {stream for pipeline in topology.versions for stream in pipeline.output_streams}
    inner = [stream for stream in promise.streams if stream not in outside]
    if inner:
        return f"waits for records that leave on stream {inner[0]!r}, which a computation consumes. Use of= that computation"
    return ""
