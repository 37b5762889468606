"""Read a recorded run's result in the reference's terms: records sent outside, and final states."""

from collections import Counter
from collections.abc import Iterable

from headrace import Encoded
from headrace.history import Applied, Event, Output
from headrace_properties.reference import Emitted, RunResult


def result_of(history: Iterable[Event]) -> RunResult:
    """Read the result of a run from its History, to compare it with `headrace_properties.reference.run_reference`."""
    outputs: Counter[Emitted] = Counter()
    states: dict[tuple[str, str], Encoded] = {}
    for event in history:
        if type(event) is Output:
            production = event.production
            outputs[Emitted(production.stream, production.key, production.value, production.timestamp)] += 1
        elif type(event) is Applied and event.delta.state is not None:
            states[event.computation, event.delta.key] = event.delta.state
    return RunResult(outputs, {name: bytes(state) for name, state in states.items() if state})


def outputs_of(history: Iterable[Event]) -> Counter[Emitted]:
    """Return what a recorded run sent outside."""
    return result_of(history).outputs
