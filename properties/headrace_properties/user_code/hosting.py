"""Run user code on copies of its objects, so that nothing left in them by one run affects another."""

import copy
from collections.abc import Callable
from typing import Any

from headrace import Computation, Context, Pipeline, Record, Timer


def fresh_copy(computation: Computation) -> Computation:
    """Return a copy of a configured object, or the object itself if it cannot be copied."""
    try:
        return copy.deepcopy(computation)
    except Exception:  # noqa: BLE001  user objects may refuse in any way
        return computation


def with_fresh_code(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with fresh copies of its computations."""
    return _hosted(pipeline, fresh_copy)


def with_code_for_each_call(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with computations that forget everything but their state between calls."""
    return _hosted(pipeline, _Copies)


def _hosted(pipeline: Pipeline, host: Callable[[Computation], Computation]) -> Pipeline:
    for name, spec in pipeline.computations.items():
        pipeline = pipeline.with_computation(name, computation=host(spec.computation))
    return pipeline


class _Copies(Computation):
    """A computation that gives each call a copy of its own, as after a crash."""

    def __init__(self, original: Computation) -> None:
        self._original = original

    def initial_state(self) -> Any:
        return self._original.initial_state()

    def process_record(self, context: Context, record: Record) -> None:
        fresh_copy(self._original).process_record(context, record)

    def process_timer(self, context: Context, timer: Timer) -> None:
        fresh_copy(self._original).process_timer(context, timer)
