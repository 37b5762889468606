"""What random faults refer to: the names of processes and keys of a run, and how long it lasts."""

from collections.abc import Iterator
from itertools import pairwise

import msgspec

from headrace import SECOND
from headrace_sim import ClusterOptions, Feed, Versions, versions_of

FIRST_KEY = ""
"""A key in the first interval of every computation."""


class Ground(msgspec.Struct, frozen=True):
    """What there is to disturb in a run.

    Attributes:
        workers: addresses of workers.
        leaders: addresses of masters and authorities.
        injectors: addresses of injectors' processes.
        computations: names of computations.
        keys: some keys, for operators' verbs.
        horizon_us: faults begin before this, true time.
        versions: how many versions of the pipeline an operator can put in force.
        boundaries: for each computation, in order, the keys at which its key space is divided from the start.
        silences: (begin, length) of the times in which no source has anything and a fault would disturb nobody, microseconds.
    """

    workers: tuple[str, ...]
    leaders: tuple[str, ...]
    injectors: tuple[str, ...]
    computations: tuple[str, ...]
    keys: tuple[str, ...]
    horizon_us: int
    versions: int = 1
    boundaries: tuple[tuple[str, ...], ...] = ()
    silences: tuple[tuple[int, int], ...] = ()

    @property
    def processes(self) -> tuple[str, ...]:
        """All processes that faults can strike."""
        return self.workers + self.leaders + self.injectors

    @property
    def busy_us(self) -> int:
        """How long a run lasts without its silences."""
        return self.horizon_us - sum(for_us for _, for_us in self.silences)

    def moment(self, busy_us: int) -> int:
        """Return when a run has lasted for a time that does not count silences; both in microseconds."""
        at_us = busy_us
        for begin_us, for_us in self.silences:
            if at_us < begin_us:
                break
            at_us += for_us
        return at_us


def ground_of(pipeline: Versions, feed: Feed, options: ClusterOptions) -> Ground:
    """Return what there is to disturb in a run of a pipeline."""
    engine, versions = options.engine, versions_of(pipeline)
    specs = {name: spec for version in versions for name, spec in version.computations.items()}
    authorities = [a for shard in range(engine.authority_shards) for a in engine.authority_addresses(shard)]
    keys = sorted({key for spec in specs.values() for key in spec.split_at} | {"c", "g", "m", "s"})
    return Ground(
        workers=tuple(f"worker-{number}" for number in range(options.workers)),
        leaders=(*engine.master_addresses(), *authorities),
        injectors=tuple(a for spec in versions[0].injectors.values() for a in spec.addresses()),
        computations=tuple(specs),
        keys=tuple(keys),
        horizon_us=feed.end_us + SECOND,
        versions=len(versions),
        boundaries=tuple(spec.split_at for spec in specs.values()),
        silences=tuple(_silences(feed)),
    )


def _silences(feed: Feed) -> Iterator[tuple[int, int]]:
    for before, after in pairwise((0, *[entry.at_us for entry in feed.entries])):
        if after - before > _AFTER_US + _BEFORE_US:
            yield before + _AFTER_US, after - before - _AFTER_US - _BEFORE_US


_AFTER_US, _BEFORE_US = 30 * SECOND, 5 * SECOND
"""Choice: random faults strike that long after an arrival, when wall timers may be due, and before one. Hardly anything happens
in between, and faults at protocol steps strike wherever there are any."""
