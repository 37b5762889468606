"""Build a cluster's parts from its options: random streams, sources, and machines with their processes."""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from headrace import Pipeline
from headrace.history import History
from headrace_sim.cluster_options import ClusterOptions
from headrace_sim.contention import SharedCpu
from headrace_sim.endpoints.node import Node
from headrace_sim.endpoints.outside import InjectorLog
from headrace_sim.feed import Feed, FeedEntry
from headrace_sim.protocol import Protocol


def stream(seed: int, concern: str) -> random.Random:
    """Return the random stream of one concern; drawing from it never shifts another."""
    return random.Random(f"{seed}/{concern}")


def sources_of(feed: Feed, pipeline: Pipeline) -> dict[str, InjectorLog]:
    """Return each injector process's part of the feed, by address."""
    entries: dict[str, list[FeedEntry]] = {
        address: [] for spec in pipeline.injectors.values() for address in spec.addresses()
    }
    for entry in feed.entries:
        entries[entry.address].append(entry)
    return {address: InjectorLog(own) for address, own in entries.items()}


def machines_of(
    pipelines: Sequence[Pipeline],
    options: ClusterOptions,
    protocol: Protocol,
    history: History,
    stream: Callable[[str], random.Random],
) -> dict[str, Node]:
    """Build a machine for each process, by address, not yet started."""
    skew_us = options.clock_skew.sampler(stream("clock skew"))
    contention = options.contention
    machines = {}
    for address, build in _builders(pipelines, options, protocol, history):
        cpu = None if contention is None else SharedCpu(contention, stream(f"contention of {address}"))
        machines[address] = Node(address, build, skew_us(), cpu)
    return machines


def _builders(
    pipelines: Sequence[Pipeline], options: ClusterOptions, protocol: Protocol, history: History
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the addresses, each with the function that makes its process."""
    engine = options.engine
    common = (pipelines, engine, history, protocol.rules)
    for address in engine.master_addresses():
        yield address, partial(protocol.master, address, *common)
    for shard in range(engine.authority_shards):
        for address in engine.authority_addresses(shard):
            yield address, partial(protocol.authority, address, shard, *common)
    for number in range(options.workers):
        address = f"worker-{number}"
        yield address, partial(protocol.worker, address, *common)
    for spec in pipelines[0].injectors.values():
        for number, address in enumerate(spec.addresses()):
            yield address, partial(protocol.injector, spec, number, *common)
