"""What the queries answer, in plain Python over all events in the order of their event times; it shares no code with the flows.

Each function returns the answers as (key, value) pairs, in any order.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

RATE = 908
"""Thousandths of a euro for a dollar."""
SELECTED = 3
"""Query 2 selects the auctions whose number is a multiple of this."""
LOCAL_STATES = ("CA", "ID", "OR")
LOCAL_CATEGORY = 10
LATEST_SALES = 10
SHARDS = 3
WINDOW_US = 5_000_000
"""Length of a period, event time, microseconds."""
GAP_US = 1_000_000
"""Inactivity that ends a session, event time, microseconds."""

Event = dict[str, Any]
Answers = list[tuple[str, Any]]


def winner(auction: Event, bids: Iterable[Event]) -> Event | None:
    """Return the bid that wins an auction: the highest one before its end; of equal ones the earliest. ``None``: no valid bid."""
    valid = [bid for bid in bids if bid["time"] < auction["expires"] and bid["price"] >= auction["reserve"]]
    return max(valid, key=lambda bid: (bid["price"], -bid["time"]), default=None)


def _bids(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event["kind"] == "bid"]


def _sales(events: Sequence[Event]) -> list[tuple[Event, Event]]:
    """Return each auction that was sold, with its winning bid, in the order in which they expired."""
    auctions = [event for event in events if event["kind"] == "auction"]
    sold = []
    for auction in sorted(auctions, key=lambda event: (event["expires"], event["id"])):
        won = winner(auction, [bid for bid in _bids(events) if bid["auction"] == auction["id"]])
        if won is not None:
            sold.append((auction, won))
    return sold


def q0(events: Sequence[Event]) -> Answers:
    """Return all bids."""
    return [(str(bid["auction"]), bid) for bid in _bids(events)]


def q1(events: Sequence[Event]) -> Answers:
    """Return all bids in another currency."""
    return [(str(bid["auction"]), {**bid, "price": bid["price"] * RATE // 1_000}) for bid in _bids(events)]


def q2(events: Sequence[Event]) -> Answers:
    """Return the bids on some auctions."""
    return [(str(bid["auction"]), bid) for bid in _bids(events) if bid["auction"] % SELECTED == 0]


def q3(events: Sequence[Event]) -> Answers:
    """Who sells in a category, in some states."""
    people = {event["id"]: event for event in events if event["kind"] == "person"}
    answers = []
    for event in events:
        if event["kind"] == "auction" and event["category"] == LOCAL_CATEGORY:
            seller = people[event["seller"]]
            if seller["state"] in LOCAL_STATES:
                answer = {"auction": event["id"], "name": seller["name"], "state": seller["state"]}
                answers.append((str(event["seller"]), answer))
    return answers


def q4(events: Sequence[Event]) -> Answers:
    """Return the average closing price of each category."""
    prices = defaultdict(list)
    for auction, bid in _sales(events):
        prices[str(auction["category"])].append(bid["price"])
    return [(category, sum(paid) / len(paid)) for category, paid in prices.items()]


def q5(events: Sequence[Event]) -> Answers:
    """Return the auctions with the most bids in each ten seconds, every five."""
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    for bid in _bids(events):
        start = bid["time"] - bid["time"] % WINDOW_US
        for begin in (start - WINDOW_US, start):
            counts[begin][bid["auction"]] += 1
    most = {start: max(bids_of.values()) for start, bids_of in counts.items()}
    return [
        ("all", [most[start], sorted(auction for auction, bids in bids_of.items() if bids == most[start])])
        for start, bids_of in counts.items()
    ]


def q6(events: Sequence[Event]) -> Answers:
    """Return the prices of each seller's last ten sales, after each sale."""
    prices: dict[str, list[int]] = defaultdict(list)
    answers = []
    for auction, bid in _sales(events):
        seller = str(auction["seller"])
        prices[seller] = [*prices[seller], bid["price"]][-LATEST_SALES:]
        answers.append((seller, {"sales": len(prices[seller]), "sum": sum(prices[seller])}))
    return answers


def q7(events: Sequence[Event]) -> Answers:
    """Return the highest bid of each period."""
    highest: dict[int, int] = defaultdict(int)
    for bid in _bids(events):
        highest[bid["time"] // WINDOW_US] = max(highest[bid["time"] // WINDOW_US], bid["price"])
    return [("all", price) for price in highest.values()]


def q8(events: Sequence[Event]) -> Answers:
    """Who registered and opened auctions in the same period."""
    answers = []
    for person in events:
        if person["kind"] == "person":
            opened = [
                event
                for event in events
                if event["kind"] == "auction"
                and event["seller"] == person["id"]
                and event["time"] // WINDOW_US == person["time"] // WINDOW_US
            ]
            if opened:
                answers.append((str(person["id"]), {"name": person["name"], "auctions": len(opened)}))
    return answers


def q9(events: Sequence[Event]) -> Answers:
    """Return each auction that was sold, with its winning bid."""
    return [(str(auction["id"]), {"auction": auction, "bid": bid}) for auction, bid in _sales(events)]


def q10(events: Sequence[Event]) -> Answers:
    """Return all events."""
    return [(f"shard {event['time'] // 1_000_000 % SHARDS}", event) for event in events]


def q11(events: Sequence[Event]) -> Answers:
    """Return the number of bids in each session of a bidder."""
    times = defaultdict(list)
    for bid in _bids(events):
        times[str(bid["bidder"])].append(bid["time"])
    answers = []
    for bidder, seen in times.items():
        sizes = [1]
        for before, after in pairwise(seen):
            if after - before <= GAP_US:
                sizes[-1] += 1
            else:
                sizes.append(1)
        answers += [(bidder, size) for size in sizes]
    return answers


def q12(events: Sequence[Event]) -> Answers:
    """Return the number of bids of each bidder; the events do not say how processing time divides them."""
    return list(Counter(str(bid["bidder"]) for bid in _bids(events)).items())


ANSWERS: dict[str, Callable[[Sequence[Event]], Answers]] = {
    "q0": q0,
    "q1": q1,
    "q2": q2,
    "q3": q3,
    "q4": q4,
    "q5": q5,
    "q6": q6,
    "q7": q7,
    "q8": q8,
    "q9": q9,
    "q10": q10,
    "q11": q11,
    "q12": q12,
}
"""The functions by query."""
