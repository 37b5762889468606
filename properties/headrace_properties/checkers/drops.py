"""Count the elements that a pipeline's groupings have dropped (Dataflow 2.3): too late, or after their trigger finished.

Each key's row holds the count (`KeyState.dropped`), so it is as exact as the row: reruns are not counted twice.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from headrace import Encoded, Pipeline
from headrace.api.codecs import decode_state
from headrace.dataflow import GroupByKeyAndWindow
from headrace.history import Applied, Event


class DropCounter:
    """Counts dropped elements by computation, from a History.

    Args:
        pipelines: the versions of a pipeline.
    """

    def __init__(self, pipelines: Iterable[Pipeline]) -> None:
        self._codecs = {
            name: spec.state_codec
            for pipeline in pipelines
            for name, spec in pipeline.computations.items()
            if isinstance(spec.computation, GroupByKeyAndWindow)
        }
        self._states: dict[tuple[str, str], Encoded] = {}

    def take(self, events: Iterable[Event]) -> None:
        """Take further events."""
        if not self._codecs:
            return
        for event in events:
            if type(event) is Applied and event.delta.state is not None and event.computation in self._codecs:
                self._states[event.computation, event.delta.key] = event.delta.state

    def take_states(self, states: Mapping[tuple[str, str], bytes]) -> None:
        """Take the states of rows, by (computation, key)."""
        self._states.update((place, state) for place, state in states.items() if place[0] in self._codecs)

    def counts(self) -> Counter[str]:
        """Return the count of each computation that has dropped any."""
        dropped: Counter[str] = Counter()
        for (name, _), state in sorted(self._states.items()):
            if state:
                dropped[name] += decode_state(self._codecs[name], state).dropped
        return +dropped
