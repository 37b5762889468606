"""Mutants of topology changes: computations that are added and removed while the pipeline runs (MillWheel 3)."""

from headrace import MILLISECOND, SECOND
from headrace.wire.messages import ChangeTopology
from headrace_properties.proof.mutants.mutant import Directed, Mutant, Parts, answering
from headrace_sim.faults import DropMessages, FaultSchedule, Hold, Operate

MUTANTS = (
    Mutant(
        "removed before it has drained", ("S10", "S1"), "3, 4.5",
        "a computation that retires leaves at once, with what it was sent and has not finished",
        Parts(rules=answering(may_remove=True)), "changing",
    ),
    Mutant(
        "retiring senders are not counted", ("S10",), "4.5",
        "a computation's input watermark does not wait for those of its senders that retire",
        Parts(rules=answering(counts_as_sender=lambda in_own_version, _is_passing: in_own_version)), "changing",
    ),
    Mutant(
        "fed before all know of it", ("S10",), "4.5",
        "an added computation is fed before those behind it count it among their senders",
        Parts(rules=answering(may_switch=True)), "changing",
        Directed(
            FaultSchedule(
                (
                    Operate(at_us=760 * MILLISECOND, verb=ChangeTopology(1)),
                    Hold(at_us=760 * MILLISECOND, message="Table", target="worker-2", count=9, for_us=2 * SECOND),
                    DropMessages(at_us=780 * MILLISECOND, message="Deliver", source="worker-0", count=6),
                ),
                4 * SECOND,
            ),
            why="the reader's owner must hear of the change late, and a record of the added one must be lost before: chance"
            " did not find it in 1,000 runs",
            feed_seed=4,
        ),
    ),
    Mutant(
        "an old owner keeps its version", ("S17",), "4.3",
        "what is produced goes to the consumers of the version that was in force when its owner got the interval",
        Parts(rules=answering(adopts_version=lambda injects: injects)), "changing",
    ),
    Mutant(
        "an injector keeps its version", ("S17",), "4.3",
        "what is injected goes to the consumers of the first version, whichever is in force",
        Parts(rules=answering(adopts_version=lambda injects: not injects)), "gaining",
    ),
)  # fmt: skip
"""All of this file."""
