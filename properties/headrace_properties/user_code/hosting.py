"""User code on objects of its own: copies, so that what one run leaves in them does not show in another."""

import copy
from collections.abc import Callable
from typing import Any

from headrace import Computation, Context, Pipeline, Record, Timer


def fresh_copy(computation: Computation) -> Computation:
    """A copy as it was configured; what cannot be copied is its own copy."""
    try:
        return copy.deepcopy(computation)
    except Exception:  # noqa: BLE001  user objects may refuse in any way
        return computation


def with_fresh_code(pipeline: Pipeline) -> Pipeline:
    """The pipeline with copies of its computations, that have not run yet."""
    return _hosted(pipeline, fresh_copy)


def with_code_for_each_call(pipeline: Pipeline) -> Pipeline:
    """The pipeline with computations that forget all but their state between calls."""
    return _hosted(pipeline, _Copies)


def _hosted(pipeline: Pipeline, host: Callable[[Computation], Computation]) -> Pipeline:
    for name, spec in pipeline.computations.items():
        pipeline = pipeline.with_computation(name, computation=host(spec.computation))
    return pipeline


class _Copies(Computation):
    """Gives each call a copy of its own, as after a crash."""

    def __init__(self, original: Computation) -> None:
        self._original = original

    def initial_state(self) -> Any:
        return self._original.initial_state()

    def process_record(self, context: Context, record: Record) -> None:
        fresh_copy(self._original).process_record(context, record)

    def process_timer(self, context: Context, timer: Timer) -> None:
        fresh_copy(self._original).process_timer(context, timer)
