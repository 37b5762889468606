"""Listeners of streaming queries, told of what a program's queries do, as Spark tells them.

Spark calls them beside the batches, and logs what they raise: no query fails for it.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.listener import QueryProgressEvent, QueryStartedEvent, QueryTerminatedEvent

from headrace.api.errors import HeadraceError
from headrace_sim.spark.refusals import place_of_error, shown_place


@dataclass(slots=True)
class Listeners:
    """The listeners of a program."""

    kept: list[Any] = field(default_factory=list)
    raised: dict[str, str] = field(default_factory=dict)  # what each method raised first, by its name

    def add(self, listener: Any) -> None:
        """Tell a listener from here on."""
        self.kept.append(listener)

    def remove(self, listener: Any) -> None:
        """Tell it no longer."""
        self.kept = [other for other in self.kept if other is not listener]

    def started(self, ids: Mapping[str, str], name: str | None) -> None:
        """Tell that the query of these ids has started."""
        event: dict[str, Any] = {**ids, "name": name, "timestamp": "2030-01-01T00:00:00.000Z", "jobTags": []}
        self._tell("onQueryStarted", QueryStartedEvent.fromJson(event))

    def ended(self, ids: Mapping[str, str], batches: Iterable[Mapping[str, Any]]) -> None:
        """Tell of the batches of the query of these ids, and that it has ended."""
        for batch in batches:
            self._tell("onQueryProgress", QueryProgressEvent.fromJson({"progress": batch}))
        ended = {**ids, "exception": None, "errorClassOnException": None}
        self._tell("onQueryTerminated", QueryTerminatedEvent.fromJson(ended))

    def notes(self) -> Iterator[str]:
        """Yield what is worth knowing of them."""
        for kind in dict.fromkeys(type(listener) for listener in self.kept if listener is not None):
            yield (
                f"{_place(kind)}Spark calls the listener {kind.__name__} beside the batches: an event is lost if the driver dies,"
                " and told again if the batch is run again, so what it writes is not judged"
            )
        yield from self.raised.values()

    def _tell(self, method: str, event: Any) -> None:
        for listener in self.kept:
            call = getattr(listener, method, None)
            if call is None:
                continue
            try:
                call(event)
            except Exception as error:  # noqa: BLE001  as Spark, which logs it
                if isinstance(error, HeadraceError):
                    self.raised.setdefault(method, f"{method} of a listener is not followed: {error}")
                    continue
                place = shown_place(place_of_error(error))
                problem = f"{type(error).__name__}: {str(error).rstrip('.')}"
                self.raised.setdefault(
                    method, f"{place}: {method} raises {problem}. Spark logs it, and goes on"
                )


def _place(kind: type) -> str:
    """Return where a class is, to begin a sentence with; "": it is not known."""
    try:
        line = inspect.getsourcelines(kind)[1]
        return f"{shown_place(f'{inspect.getsourcefile(kind)}:{line}')}: "
    except (OSError, TypeError):
        return ""
