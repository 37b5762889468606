"""Sentences about faults: what struck which process, from when to when."""

from collections.abc import Sequence

from headrace import history as h
from headrace_properties.explain.event_summaries import seconds
from headrace_properties.explain.tenures import Outage


def struck(history: Sequence[h.Event], outage: Outage) -> str:
    """Say what a fault did to its process."""
    begin = seconds(history[outage.begin].at_us)
    until = "the end" if outage.end is None else seconds(history[outage.end].at_us)
    several = len(outage.details) > 1
    pattern = _SENTENCES.get(outage.kind, "At {begin} a fault strikes {process}: {kind} {detail}{times}.")
    targets = list(dict.fromkeys(detail.partition(" -> ")[2] for detail in outage.details))
    if outage.kind == "partition" and len(targets) == 1 and targets[0]:
        pattern = _ONE_WAY
    return pattern.format(
        begin=begin,
        until=until,
        process=outage.process,
        kind=outage.kind,
        target=targets[0],
        detail=_VERBS.get(outage.details[0], outage.details[0]),
        count=len(outage.details),
        kinds=", ".join(dict.fromkeys(detail.split()[0] for detail in outage.details if detail)),
        times=f" ({len(outage.details)} times until {until})" if several else "",
    )


_SENTENCES = {
    "crash": "At {begin} {process} crashes and loses its memory; it is down until {until}.",
    "pause": "From {begin} to {until} {process} is paused: it hears nothing, and keeps its memory.",
    "partition": (
        "From {begin} to {until} {process} is cut off by a partition: {count} of its messages are lost ({kinds})."
    ),
    "slow": "From {begin} to {until} {process} is slow: each of its steps takes {detail} as long.",
    "skew_clock": "At {begin} the clock of {process} jumps {detail}.",
    "stall_source": "At {begin} the source of {process} stalls.",
    "late_records": "At {begin} the source of {process} holds {detail} back, and gives them later.",
    "delay_commit": "A fault delays the {detail} by {process}, sent at {begin}, on its way to the store.",
    "duplicate_commit": (
        "A fault doubles the {detail} by {process}, sent at {begin}: a second copy comes later."
    ),
    "lose_commit": "The {detail} by {process}, sent at {begin}, is lost on its way to the store.",
    "lose_reply": "The store's reply to the {detail} by {process}, sent at {begin}, is lost.",
    "noise_drop": "At {begin} the network loses a message, {detail}{times}.",
    "drop": "At {begin} the network loses a message, {detail}{times}.",
    "drop_message": "At {begin} a message is lost: {detail}.",
    "noise_delay": "At {begin} the network delays a message, {detail}{times}.",
    "hold": "At {begin} the network holds a message back, {detail}{times}.",
    "delay_message": "At {begin} a message is delayed: {detail}.",
    "noise_duplicate": "At {begin} the network doubles a message, {detail}{times}.",
    "duplicate_message": "At {begin} a message arrives twice: {detail}.",
    "store_unavailable": "At {begin} the store does not serve a request of {process}, {detail}{times}.",
    "store_errors": "At {begin} the store fails on a request of {process}, {detail}{times}.",
    "operate": "At {begin} an operator {detail}.",
}
"""By the fault's verb."""

_ONE_WAY = (
    "From {begin} to {until} {count} messages from {process} to {target} are lost in a partition ({kinds})."
)
"""Of a partition that took messages to a single process, which may be the one that is cut off."""

_VERBS = {
    "MoveInterval": "has keys moved to another worker",
    "SplitInterval": "has an interval of keys split",
    "MergeIntervals": "has two intervals of keys merged",
    "ChangeTopology": "deploys another version of the pipeline",
}
"""What an operator does, by the name of the request."""
