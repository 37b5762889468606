"""A run as a function: ``(pipeline, input, options, faults, seed) -> History``, the same bytes each time."""

from collections.abc import Callable, Sequence

import msgspec

from headrace import OptionsError, Pipeline
from headrace.delivery.routing import OUTSIDE_ADDRESS
from headrace.history import History
from headrace.wire.messages import STORE
from headrace_sim import faults as f
from headrace_sim.arrivals import Arrivals, earliest
from headrace_sim.cluster import Cluster
from headrace_sim.cluster_options import ClusterOptions
from headrace_sim.director import Director
from headrace_sim.feed import Feed
from headrace_sim.kernel import collect_run, seldom_collected
from headrace_sim.protocol import SOUND, Protocol
from headrace_sim.steps import EVENTS, MESSAGES, Does

Versions = Pipeline | Sequence[Pipeline]
"""A pipeline, or its deployed versions (3), of which the first is in force from the start."""


def versions_of(pipeline: Versions) -> list[Pipeline]:
    """Return all versions, the first one first."""
    return [pipeline] if isinstance(pipeline, Pipeline) else list(pipeline)


class Redraw(msgspec.Struct, frozen=True):
    """Another continuation of a run: the same up to a time, then without further faults and with new random choices.

    Attributes:
        at_us: the time at which it branches off, true time in microseconds; a time after the heal means the heal.
        seed: seed of the new random choices.
    """

    at_us: int
    seed: int


def simulate(
    pipeline: Versions,
    feed: Feed,
    *,
    options: ClusterOptions | None = None,
    faults: f.FaultSchedule = f.NO_FAULTS,
    seed: int = 0,
    protocol: Protocol = SOUND,
    redraw: Redraw | None = None,
    most_events: int | None = None,
    arrivals: Arrivals | None = None,
    look: Callable[[Cluster], None] = lambda _: None,
) -> History:
    """Run a pipeline over a feed in a simulated cluster, with faults; then heal, and run until all work is done.

    Args:
        pipeline: the pipeline, or its deployed versions (3), of which the first is in force from the start.
        feed: the input.
        options: of the cluster; default: three workers, two masters, two authorities.
        faults: what goes wrong.
        seed: root seed of all random choices.
        protocol: the state machines to host; default: the engine's own.
        redraw: another continuation of the run from some time on.
        most_events: events of the simulation that the run may have; default: any number.
        arrivals: decides the order of arrivals; default: randomly drawn latencies do.
        look: looks at the cluster when faults end, and when the run is over.

    Raises:
        PipelineError: a version does not fit together, or does not fit the others.
        OptionsError: a fault names a process that does not exist.
        EndlessRunError: the run has had ``most_events`` events and is not over.
        HeadraceError: user code or input failed for good, and the policy is to stop.
    """
    planned = faults if redraw is None else faults.before(redraw.at_us)
    with seldom_collected():
        cluster = start(
            pipeline, feed, options=options, faults=planned, seed=seed, protocol=protocol, arrivals=arrivals
        )
        cluster.kernel.most_events = most_events
        if redraw is not None:
            cluster.run_until(min(redraw.at_us, faults.heals_at_us))
            cluster.redraw(redraw.seed)
            if arrivals is not None:
                arrivals.redraw(redraw.seed)
        cluster.run_until(faults.heals_at_us)
        look(cluster)
        cluster.heal(faults.lasting)
        cluster.run_to_the_end()
        look(cluster)
        history = cluster.history
        if arrivals is not None:
            arrivals.detach()
        del cluster
        collect_run()
    return history


def start(
    pipeline: Versions,
    feed: Feed,
    *,
    options: ClusterOptions | None = None,
    faults: f.FaultSchedule = f.NO_FAULTS,
    seed: int = 0,
    protocol: Protocol = SOUND,
    history: History | None = None,
    arrivals: Arrivals | None = None,
) -> Cluster:
    """Build the cluster of a run with its faults scheduled; the caller controls how time passes.

    Raises:
        PipelineError: a version does not fit together, or does not fit the others.
        OptionsError: a fault names a process that does not exist, or a latency is no interval and ``arrivals`` are given.
    """
    options = options or ClusterOptions()
    drawn = options if arrivals is None else earliest(options)
    cluster = Cluster(versions_of(pipeline), feed, drawn, seed, protocol, history)
    cluster.rests.begin()
    if arrivals is not None:
        arrivals.attach(cluster.kernel, cluster.history, options)
    _check(cluster, faults)
    Director(cluster, faults).schedule()
    return cluster


def _check(cluster: Cluster, schedule: f.FaultSchedule) -> None:
    nodes, sources, wires = [*cluster.nodes], [*cluster.sources], [*cluster.nodes, STORE, OUTSIDE_ADDRESS]
    for tied in schedule.at_steps:
        _check_step(tied, nodes)
    for fault in (*schedule.faults, *(tied.fault for tied in schedule.at_steps)):
        known = nodes
        if isinstance(fault, f.LateRecords | f.StallSource):
            known = sources
        elif isinstance(fault, f.Partition | f.Noise | f.Hold | f.DropMessages):
            known = wires
        _check_known(f"{fault.kind} of", fault.addresses, known)
    _check_known("lasting", schedule.lasting, nodes)


def _check_step(tied: f.StepFault, nodes: Sequence[str]) -> None:
    step = tied.step
    _check_known("step of", [step.process], nodes)
    any_message = step.does is Does.SENDS or isinstance(tied.fault, f.MessageFault)
    known = MESSAGES if any_message else MESSAGES + EVENTS
    _check_known(f"{tied.fault.kind} where it {step.does.value}", [step.message], known)
    if step.nth < 1:
        raise OptionsError("nth", step.nth, "at least 1")


def _check_known(option: str, addresses: Sequence[str], known: Sequence[str]) -> None:
    for address in addresses:
        if address not in known:
            raise OptionsError(option, address, f"one of {', '.join(known)}")
