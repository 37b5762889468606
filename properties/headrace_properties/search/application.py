"""The subject of a search: the application under test, and one trial of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from headrace import Pipeline
from headrace_properties.promises import Promise
from headrace_properties.search.limits import CodeLimits
from headrace_properties.search.plans import Plan
from headrace_sim import Feed, FeedEntry, FeedSource, Redraw, Versions, versions_of
from headrace_sim.deliveries import UNSAID

FeedOf = Callable[[int], Feed]
"""Makes the input from a seed."""


class PipelineTrial(msgspec.Struct, frozen=True, tag="pipeline", omit_defaults=True):
    """One run to make of an application.

    Attributes:
        plan: the faults, options and seed.
        feed_seed: seed of the input.
        kept: which of the input's records to keep, by their order from 0; ``None``: all.
        gap_us: the longest time between two arrivals (`Feed.closer`); ``None``: they come when the input has them.
        redraw: continue it differently from some time on.
        watched: note which branches of user code it takes.
    """

    plan: Plan
    feed_seed: int = 0
    kept: tuple[int, ...] | None = None
    gap_us: int | None = None
    redraw: Redraw | None = None
    watched: bool = False


class HasInput(Protocol):
    """A trial of a pipeline, or of its code by itself."""

    @property
    def feed_seed(self) -> int:
        """Seed of its input."""

    @property
    def kept(self) -> tuple[int, ...] | None:
        """Which of the input's records it keeps."""


@dataclass(frozen=True, slots=True)
class Application:
    """What is under test: a pipeline, its inputs and its author's promises.

    Attributes:
        versions: the pipeline, or its deployed versions (3), of which the first is in force from the start.
        feed_of: makes an input from a seed; called once for each seed.
        promises: what must hold of every run, besides the invariants.
        limits: what user code may take.
        source: what the source of the inputs promises.
    """

    versions: Versions
    feed_of: FeedOf
    promises: tuple[Promise, ...] = ()
    limits: CodeLimits = field(default_factory=CodeLimits)
    source: FeedSource = UNSAID
    _feeds: dict[int, Feed] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def with_input(cls, versions: Versions, feed: Feed, promises: tuple[Promise, ...] = ()) -> "Application":
        """Return an application whose input is the same for every seed."""
        return cls(versions, lambda _: feed, promises)

    @property
    def pipeline(self) -> Pipeline:
        """The version in force from the start."""
        return versions_of(self.versions)[0]

    @property
    def deployed(self) -> tuple[Pipeline, ...]:
        """All versions; the first is in force from the start."""
        return tuple(versions_of(self.versions))

    def feed_seeds(self, first: int, most: int) -> tuple[int, ...]:
        """Return the seeds of the different inputs among those of ``most`` seeds in a row.

        Args:
            first: the first seed; always returned.
            most: how many seeds to look at.
        """
        seeds: list[int] = []
        for seed in range(first, first + most):
            if all(self.feed(seed) != self.feed(other_seed) for other_seed in seeds):
                seeds.append(seed)
        return tuple(seeds)

    def feed(self, seed: int) -> Feed:
        """Return the whole input of a seed."""
        if seed not in self._feeds:
            self._feeds[seed] = self.feed_of(seed)
        return self._feeds[seed]

    def input_of(self, trial: HasInput) -> Feed:
        """Return the input of a trial: the whole one, or the records that it keeps, as close as it has them."""
        feed = self.feed(trial.feed_seed)
        part = feed if trial.kept is None else feed.only(trial.kept)
        gap_us = trial.gap_us if isinstance(trial, PipelineTrial) else None
        return part if gap_us is None else part.closer(gap_us)


def stray_entry(pipeline: Pipeline, feed: Feed) -> FeedEntry | None:
    """Return the first entry that is for no process of the pipeline's injectors; ``None``: the feed is for this pipeline."""
    addresses = {address for spec in pipeline.injectors.values() for address in spec.addresses()}
    return next((entry for entry in feed.entries if entry.address not in addresses), None)
