"""Figure 11 (MillWheel 6.1.3): weak productions, and the checkpoint that keeps a straggler from holding up its sender.

A produces to B, which at once produces to C. C is slow to ACK. After a second B checkpoints its production and ACKs A, so that
A can free what it holds. When B then restarts, it recovers the record from the checkpoint and sends it again: nothing is lost.
"""

from headrace import SECOND, Pipeline, Productions, format_time
from headrace import history as h
from headrace_properties.explain.pictures.timeline import STORE_LANE, TimelineLane
from headrace_scenarios.figures.figure12 import Forwarder
from headrace_scenarios.scenario import Scenario, Story
from headrace_sim import ClusterOptions, FeedBuilder, Protocol, start
from headrace_sim.faults import DelayCommit


def pipeline() -> Pipeline:
    """Return A -> B -> C; A and B with weak productions."""
    relays = Pipeline("figure 11")
    relays.injector("searches")
    relays.add(Forwarder("a"), name="A", inputs=["searches"], outputs=["a"], productions=Productions.WEAK)
    relays.add(Forwarder("b"), name="B", inputs=["a"], outputs=["b"], productions=Productions.WEAK)
    relays.add(Forwarder("c"), name="C", inputs=["b"], outputs=["c"])
    return relays


def tell(protocol: Protocol) -> Story:
    """Delay C's write; B checkpoints, ACKs, and crashes."""
    chain = pipeline()
    feed = FeedBuilder(chain)
    feed.record(at_us=2 * SECOND, value="cat videos", timestamp=2 * SECOND, key="cat videos")
    story = Story(start(chain, feed.build(), options=ClusterOptions(workers=5), protocol=protocol), chain)
    cluster = story.cluster

    cluster.run_until(1_900_000)
    a, b, c = story.owner("A"), story.owner("B"), story.owner("C")
    cluster.store.expect(DelayCommit(at_us=0, process=c, count=8, by_us=4 * SECOND))  # C is slow to ACK.
    cluster.run_until(3_400_000)  # B has checkpointed after a second, and A has been ACKed.
    cluster.crash(b)
    cluster.run_until(3_900_000)
    cluster.restart(b)
    cluster.run_until(5 * SECOND)
    successor = story.owner("B")
    cluster.heal()
    cluster.run_to_the_end()

    story.lanes = (
        TimelineLane(a, "A", "A"),
        TimelineLane(b, "B", "B"),
        STORE_LANE,
        TimelineLane(successor, "B, recovered", "B"),
        TimelineLane(c, "C", "C"),
    )
    if successor == b:
        story.lanes = (
            TimelineLane(a, "A", "A"),
            TimelineLane(b, "B", "B"),
            STORE_LANE,
            TimelineLane(c, "C", "C"),
        )
    story.conclusion = _conclusion(story.cluster.history, c)
    return story


def _conclusion(history: h.History, c: str) -> list[str]:
    checkpoint = next((e for e in history if isinstance(e, h.Checkpointed) and e.computation == "B"), None)
    a_acked = next(e for e in history if isinstance(e, h.Acked) and e.consumer == "B")
    c_acks = next(e for e in history if isinstance(e, h.AckSent) and e.computation == "C" and e.process == c)
    outputs = sum(isinstance(event, h.Output) for event in history)
    first = (
        f"B checkpointed its production at {format_time(checkpoint.at_us)}."
        if checkpoint is not None
        else "B never checkpointed its production."
    )
    return [
        first,
        f"A was ACKed at {format_time(a_acked.at_us)}, C's first ACK was sent at {format_time(c_acks.at_us)}.",
        f"After B's crash the record came out {outputs} time(s).",
    ]


STRAGGLER = Scenario(
    name="straggler-checkpoint",
    title="A weak production that is slow to be ACKed is checkpointed, and its sender is set free",
    source="MillWheel 6.1.3, Figure 11",
    story=__doc__.split("\n\n", 1)[1].strip(),
    tell=tell,
)
