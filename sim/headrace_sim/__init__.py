"""The simulated cluster: `simulate` runs a pipeline over a feed under a fault schedule and returns its `History`."""

from headrace_sim.arrivals import Arrivals, Delay, Priorities
from headrace_sim.cluster import Cluster
from headrace_sim.cluster_options import ClusterOptions
from headrace_sim.contention import Contention
from headrace_sim.deliveries import FeedSource
from headrace_sim.distributions import Constant, Distribution, Exponential, LogNormal, Uniform
from headrace_sim.faults import NO_FAULTS, FaultSchedule, StepFault
from headrace_sim.feed import Feed, FeedBuilder, FeedEntry
from headrace_sim.protocol import SOUND, Protocol
from headrace_sim.simulation import Redraw, Versions, simulate, start, versions_of
from headrace_sim.steps import Does, Moment, Step

__all__ = [
    "NO_FAULTS",
    "SOUND",
    "Arrivals",
    "Cluster",
    "ClusterOptions",
    "Constant",
    "Contention",
    "Delay",
    "Distribution",
    "Does",
    "Exponential",
    "FaultSchedule",
    "Feed",
    "FeedBuilder",
    "FeedEntry",
    "FeedSource",
    "LogNormal",
    "Moment",
    "Priorities",
    "Protocol",
    "Redraw",
    "Step",
    "StepFault",
    "Uniform",
    "Versions",
    "simulate",
    "start",
    "versions_of",
]
