"""Messages that a fault took: what an event sends and nobody receives."""

from collections.abc import Iterator, Sequence

from headrace import history as h

_LOSING = ("partition", "noise_drop", "drop", "drop_message")
"""Verbs of the faults that take a message from the network."""


def losses_of(history: Sequence[h.Event]) -> dict[int, h.FaultStruck]:
    """Return the events whose message a fault took, by number, with the strike that took it.

    Known are ACKs, and records that a sender sends for the first time or again. The strike is in the same step of their process.
    """
    lost: dict[int, h.FaultStruck] = {}
    used: set[int] = set()
    for number, event in enumerate(history):
        if not isinstance(event, h.AckSent | h.Injected | h.Resent):
            continue
        for place, strike in _strikes(history, number):
            if place not in used and _took(strike.detail.split(), event):
                used.add(place)
                lost[number] = strike
                break
    return lost


def _strikes(history: Sequence[h.Event], number: int) -> Iterator[tuple[int, h.FaultStruck]]:
    """Yield the losses that follow an event in the same step of its process."""
    sent = history[number]
    for place in range(number + 1, len(history)):
        event = history[place]
        if event.at_us != sent.at_us or event.process != sent.process:
            return
        if isinstance(event, h.FaultStruck) and event.kind in _LOSING:
            yield place, event


def _took(words: list[str], event: h.AckSent | h.Injected | h.Resent) -> bool:
    """Return whether a strike with this detail took the message of an event."""
    if isinstance(event, h.AckSent):
        return "Ack" in words and ("->" not in words or event.to in words)
    return "Deliver" in words
