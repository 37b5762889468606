"""Inputs drawn from a Hypothesis strategy: ``feed = st.lists(...)`` beside a pipeline, instead of a function ``feed(seed)``.

Rules of this file:

* An input depends only on the seed and the strategy: the strategy reads bytes derived from the seed (Hypothesis's
  ``fuzz_one_input``). Hypothesis's own generator mixes in constants of whatever modules are imported, so it would draw another
  input in another process.
* The search shrinks an input like any other: by leaving out records.
"""

import sys
from collections.abc import Callable, Sequence
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING, Any, TypeGuard

import msgspec

from headrace import MILLISECOND, SECOND, HeadraceError, OptionsError, Pipeline
from headrace.api.errors import with_article
from headrace_sim import Feed, FeedBuilder

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_BYTES = 1 << 14
"""Number of bytes to draw from. Choice: more than the 8 KiB that Hypothesis takes for one input."""

_TRIES = 200
"""Choice: maximum number of inputs that a strategy's filters may reject."""


class Arrival(msgspec.Struct, frozen=True):
    """A record that arrives at an injector.

    Attributes:
        value: what the stream's codec takes.
        key: the record's own key.
        timestamp: event time in microseconds; ``None``: when it arrives.
        stream: ``None``: the injector's first output.
        injector: ``None``: the pipeline's first.
        process: number of the injector's process.
        after_us: how long after the arrival before it, or after the first second of the run.
    """

    value: Any
    key: str = ""
    timestamp: int | None = None
    stream: str | None = None
    injector: str | None = None
    process: int = 0
    after_us: int = 100 * MILLISECOND


class UndrawnFeedError(HeadraceError):
    """A strategy yields no input. Fields: strategy, problem, remedy."""

    def __init__(self, strategy: str, problem: str, remedy: str) -> None:
        super().__init__(strategy, problem, remedy)
        self.strategy, self.problem, self.remedy = strategy, problem, remedy

    def __str__(self) -> str:
        """Say why, and what to do."""
        return f"the strategy {self.strategy:.100} {self.problem}. {self.remedy}"


class DrawnFeed:
    """Makes the input of a seed by drawing it from a strategy.

    Args:
        pipeline: whose input it is.
        strategy: draws a `Feed`, or a list of values and `Arrival`s; a value is an arrival with all defaults. The sources of a
            list promise as much as is true after each arrival (the lowest timestamp to come), so no record of it is late.
    """

    def __init__(self, pipeline: Pipeline, strategy: "SearchStrategy[Any]") -> None:
        self._pipeline = pipeline
        self._strategy = strategy

    def __call__(self, seed: int) -> Feed:
        """Draw the input of a seed.

        Raises:
            UndrawnFeedError: the strategy's filters refuse all that is tried, or what it draws is no input.
            HeadraceError: the pipeline has no such injector or stream, or its codec refuses a value.
        """
        drawn = _draw(self._strategy, Random(f"{seed}/feed"))
        if isinstance(drawn, Feed):
            return drawn
        if not isinstance(drawn, list | tuple):
            problem = f"draws {with_article(type(drawn).__name__)}"
            raise UndrawnFeedError(
                repr(self._strategy), problem, "Let it draw a list of records: st.lists(...)"
            )
        return self._feed_of([value if isinstance(value, Arrival) else Arrival(value) for value in drawn])

    def _feed_of(self, arrivals: Sequence[Arrival]) -> Feed:
        builder = FeedBuilder(self._pipeline)
        times = list(accumulate((_wait(arrival) for arrival in arrivals), initial=SECOND))[1:]
        timestamps = [
            at_us if arrival.timestamp is None else arrival.timestamp
            for arrival, at_us in zip(arrivals, times, strict=True)
        ]
        to_come = [*accumulate(reversed(timestamps), min)][-2::-1]
        for arrival, at_us, timestamp in zip(arrivals, times, timestamps, strict=True):
            builder.record(
                at_us=at_us, value=arrival.value, timestamp=timestamp, key=arrival.key, stream=arrival.stream,
                injector=arrival.injector, process=arrival.process,
            )  # fmt: skip
        for at_us, low_watermark in zip(times, to_come, strict=False):
            for spec in self._pipeline.injectors.values():
                for process in range(spec.processes):
                    builder.watermark(
                        at_us=at_us, low_watermark=low_watermark, injector=spec.name, process=process
                    )
        return builder.build()


def _wait(arrival: Arrival) -> int:
    if arrival.after_us < 0:
        raise OptionsError("after_us", arrival.after_us, "0 or more")
    return arrival.after_us


def feed_function(pipeline: Pipeline, feed: Any) -> Any:
    """Return what makes inputs from seeds: a strategy becomes a `DrawnFeed`; anything else is left as it is."""
    return DrawnFeed(pipeline, feed) if _is_strategy(feed) else feed


def _is_strategy(feed: Any) -> "TypeGuard[SearchStrategy[Any]]":
    """Return whether it is a strategy. Whoever made one has imported Hypothesis, which takes others a tenth of a second."""
    strategies = sys.modules.get("hypothesis.strategies")
    return strategies is not None and isinstance(feed, strategies.SearchStrategy)


def _draw(strategy: "SearchStrategy[Any]", random: Random) -> Any:
    from hypothesis import given, settings  # noqa: PLC0415  imported by whoever made the strategy

    values: list[Any] = []

    @settings(database=None)
    @given(strategy)
    def note(drawn: Any) -> None:
        values.append(drawn)

    draw_from: Callable[[bytes], object] = note.hypothesis.fuzz_one_input  # type: ignore[attr-defined]
    for _ in range(_TRIES):
        draw_from(random.randbytes(_BYTES))
        if values:
            return values[0]
    remedy = "Loosen its filters, or ask for shorter lists: Hypothesis draws up to 8 KiB"
    raise UndrawnFeedError(repr(strategy), "refused all that was tried", remedy)
