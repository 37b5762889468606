"""Promises that fit what leaves a pipeline, each tried on a run without faults."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from headrace import Pipeline
from headrace_properties.promises import Moment, Promise, PromiseError, answered_once, at_end, judge_promises
from headrace_properties.promises.guesses import (
    Guess,
    Proposal,
    columns_of,
    guesses_about,
    looks_like_key,
    proposed,
)
from headrace_properties.promises.moment import INPUT
from headrace_properties.search.limits import CodeLimits, OverrunError, call_time_limited
from headrace_properties.user_code.hosting import with_fresh_code
from headrace_properties.verdict import Violated
from headrace_sim import ClusterOptions, Feed, simulate

Rows = dict[str, list[Any]]


def guessed_promises(
    pipeline: Pipeline, feed: Feed, options: ClusterOptions, seed: int, limits: CodeLimits
) -> tuple[Proposal, ...]:
    """Return promises that fit what leaves a pipeline; none if it does not get through a run without faults.

    Args:
        pipeline: it.
        feed: its input.
        options: of the cluster.
        seed: of all random choices.
        limits: of each call of its code.
    """
    try:
        with call_time_limited(limits):
            history = simulate(with_fresh_code(pipeline), feed, options=options, seed=seed)
    except (Exception, SystemExit, OverrunError):  # noqa: BLE001  user code may raise anything, which the search tells
        return ()

    def tried(promise: Promise) -> str | None:
        try:
            verdict = judge_promises(history, [promise], [pipeline])[promise.name]
        except PromiseError:
            return None
        return verdict.message if isinstance(verdict, Violated) else ""

    came, left = Rows(), Rows()

    @at_end
    def seen(moment: Moment) -> None:
        came.clear()
        left.clear()
        for rows, views in ((came, moment.inputs()), (left, moment.outputs())):
            for view in views:
                rows.setdefault(view.stream, []).append(view.value)

    tried(seen)
    whole = {INPUT: [row for rows in came.values() for row in rows]}
    return proposed(chain(_answers(came, left), guesses_about(left, whole)), tried)


def _answers(came: Rows, left: Rows) -> Iterator[Guess]:
    """Yield that what comes in by a key is answered once, where no answer is to anything else."""
    for requests, asked in came.items():
        for answers, answer_rows in left.items():
            keys = [column for column in columns_of(asked) if column in columns_of(answer_rows)]
            for key in filter(looks_like_key, keys):
                known, answered = ({str(row[key]) for row in rows} for rows in (asked, answer_rows))
                if len(known) == len(asked) and answered <= known:
                    code = f'answered_once("{requests}", "{answers}", by="{key}")'
                    yield code, answered_once(requests, answers, by=key)
