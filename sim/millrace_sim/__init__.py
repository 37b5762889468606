"""The simulated cluster: `simulate` runs a pipeline over a feed under a fault schedule and returns its `History`."""

from millrace_sim.cluster import Cluster
from millrace_sim.contention import Contention
from millrace_sim.distributions import Constant, Distribution, Exponential, LogNormal, Uniform
from millrace_sim.faults import NO_FAULTS, FaultSchedule, StepFault
from millrace_sim.feed import Feed, FeedBuilder, FeedEntry
from millrace_sim.options import ClusterOptions
from millrace_sim.protocol import SOUND, Protocol
from millrace_sim.simulate import Versions, simulate, start, versions_of
from millrace_sim.steps import Does, Moment, Step

__all__ = [
    "NO_FAULTS",
    "SOUND",
    "Cluster",
    "ClusterOptions",
    "Constant",
    "Contention",
    "Distribution",
    "Does",
    "Exponential",
    "FaultSchedule",
    "Feed",
    "FeedBuilder",
    "FeedEntry",
    "LogNormal",
    "Moment",
    "Protocol",
    "Step",
    "StepFault",
    "Uniform",
    "Versions",
    "simulate",
    "start",
    "versions_of",
]
