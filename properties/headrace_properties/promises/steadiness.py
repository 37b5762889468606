"""Judge a run against promises, and refuse those that go by more than their moments.

Rule of this file: what breaks a promise, and each promise once in each process, is asked about the same run again, on another day
and with other random numbers. If the answer is another one, the promise is wrong in itself, whatever it says of the run.
"""

import functools
import random
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from headrace import EngineOptions, Pipeline
from headrace.history import History
from headrace_properties.checkers import judge
from headrace_properties.promises.promise import Promise
from headrace_properties.promises.promise_errors import PromiseError
from headrace_properties.promises.promise_judge import judge_promises, promise_checkers
from headrace_properties.verdict import Unknown, Verdict, Violated

_ANOTHER_DAY = datetime(2025, 4, 5, 19, 58, 38, 777_777, tzinfo=UTC)


def judge_steadily(
    history: History,
    promises: tuple[Promise, ...],
    pipelines: Sequence[Pipeline],
    options: EngineOptions | None = None,
) -> dict[str, Verdict]:
    """Judge a run by the invariants, and against promises.

    Args:
        history: of the whole run.
        promises: what to judge by, besides the invariants.
        pipelines: the topologies that were deployed.
        options: of the engine; ``None``: not known.

    Raises:
        PromiseError: a promise is wrong in itself, such as one that goes by more than its moments.
    """
    verdicts = judge(history, pipelines, options, promise_checkers(promises, pipelines))
    if promises:
        known = _asked_again(promises)
        if not known or any(isinstance(verdicts[promise.name], Violated) for promise in promises):
            known.append(True)
            _check_steady(verdicts, history, promises, pipelines)
    return verdicts


@functools.lru_cache(maxsize=4)
def _asked_again(promises: tuple[Promise, ...]) -> list[bool]:
    """Return a list that stays the same for the same promises."""
    del promises
    return []


def _check_steady(
    verdicts: dict[str, Verdict],
    history: History,
    promises: tuple[Promise, ...],
    pipelines: Sequence[Pipeline],
) -> None:
    def check(reason: str) -> None:
        again = judge_promises(history, promises, pipelines)
        for promise in promises:
            if _core(verdicts[promise.name]) != _core(again[promise.name]):
                raise PromiseError(promise.name, "unsteady", promise.where, reason)

    import time_machine  # noqa: PLC0415  as in `user_code.calls`

    check(_ONCE_MORE)
    lots = random.getstate()
    try:
        with time_machine.travel(_ANOTHER_DAY, tick=False):
            for other in _OTHER_LOTS:
                random.seed(other)
                check(_ELSEWHERE)
    finally:
        random.setstate(lots)


_OTHER_LOTS = range(4)
"""Choice: two draws may break a promise at the same moment, five hardly do."""

_ONCE_MORE = (
    "goes by more than its moment: asked about the same run once more, it says something else. Keep what it must remember in"
    " moment.memory, and draw no random numbers"
)
_ELSEWHERE = (
    "goes by more than its moment: asked about the same run on another day and with other random numbers, it says something else."
    " Go by moment.at_us and by what the moment shows"
)


def _core(verdict: Verdict) -> object:
    """Return a verdict without its words, which may show times and addresses."""
    if isinstance(verdict, Violated):
        return msgspec.structs.replace(verdict, message="")
    return Unknown if isinstance(verdict, Unknown) else verdict
