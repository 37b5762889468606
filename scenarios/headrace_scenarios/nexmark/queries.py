"""Queries 0 to 12 (Tucker et al., 2008, and Beam's additions), each a flow from the one stream of events."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from headrace import Pipeline
from headrace.dataflow import (
    GLOBAL,
    AtCount,
    AtPeriod,
    CombineFn,
    Element,
    FixedWindows,
    KeyContext,
    Pane,
    PCollection,
    Repeat,
    Sessions,
    SlidingWindows,
    co_group,
    read,
)
from headrace_properties.promises import Moment, Promise, Unexercised, at_end
from headrace_scenarios.nexmark import plain
from headrace_scenarios.nexmark.events import STREAM


def _of(kind: str, key: str) -> PCollection[dict[str, Any]]:
    """Return the events of a kind, keyed by one of their fields."""
    return (
        read(STREAM, bounded=True)
        .filter(lambda event: bool(event["kind"] == kind), name=f"{kind}s")
        .key_by(lambda event: str(event[key]), name=f"{kind}s")
    )


def pass_through() -> PCollection[Any]:
    """Return all bids (query 0)."""
    return _of("bid", "auction")


def currency() -> PCollection[Any]:
    """Return all bids with prices in another currency (query 1)."""
    return _of("bid", "auction").map(lambda bid: {**bid, "price": bid["price"] * plain.RATE // 1_000})


def selection() -> PCollection[Any]:
    """Return the bids on some auctions (query 2)."""
    return _of("bid", "auction").filter(lambda bid: bool(bid["auction"] % plain.SELECTED == 0))


def local_items() -> PCollection[Any]:
    """Return who sells in a category, in some states (query 3): auctions meet the seller's registration."""
    people = _of("person", "id").filter(lambda person: person["state"] in plain.LOCAL_STATES)
    auctions = _of("auction", "seller").filter(
        lambda auction: bool(auction["category"] == plain.LOCAL_CATEGORY)
    )
    met = auctions.enrich(
        people, lambda auction, seller: {"auction": auction, "seller": seller}, name="local"
    )
    return met.filter(lambda pair: pair["seller"] is not None).map(
        lambda pair: {
            "auction": pair["auction"]["id"],
            "name": pair["seller"]["name"],
            "state": pair["seller"]["state"],
        }
    )


class Auctions:
    """Ends each auction at its time, with the earliest of the highest valid bids. A bid may arrive before its auction."""

    def initial_state(self) -> dict[str, Any]:
        """Return a state without auction and bids."""
        return {"auction": None, "bids": []}

    def process(self, context: KeyContext, element: Element) -> list[tuple[str, Any]]:
        """Keep what comes, until the auction has expired."""
        event, state = element.value, context.state
        if event["kind"] == "auction":
            state["auction"] = event
            context.set_timer("expired", event["expires"])
        else:
            state["bids"].append(event)
            if state["auction"] is None or element.time >= state["auction"]["expires"]:
                context.set_timer("clean", element.time)  # a bid for nothing: let it go
        return []

    def on_timer(self, context: KeyContext, tag: str, time_us: int) -> list[tuple[str, Any]]:
        """Close the auction."""
        state, auction = context.state, context.state["auction"]
        if tag == "clean":
            ended = time_us if auction is None else auction["expires"]
            state["bids"] = [bid for bid in state["bids"] if auction is not None and bid["time"] < ended]
            return []
        winner = plain.winner(auction, state["bids"])
        state["bids"] = []
        return [] if winner is None else [(context.key, {"auction": auction, "bid": winner})]


def winning_bids() -> PCollection[Any]:
    """Return each auction with its winning bid, when it has expired (query 9)."""
    both = read(STREAM, bounded=True).filter(lambda event: event["kind"] != "person", name="sales")
    keyed = both.key_by(
        lambda event: str(event["auction"] if event["kind"] == "bid" else event["id"]), name="sales"
    )
    return keyed.par_do_stateful(Auctions(), name="winning bids")


def category_prices() -> PCollection[Any]:
    """Return the average closing price of each category, after each auction (query 4)."""
    prices = (
        winning_bids()
        .key_by(lambda sale: str(sale["auction"]["category"]))
        .map(lambda sale: sale["bid"]["price"])
    )
    return prices.trigger(Repeat(AtCount(1))).accumulating().mean()


def _hotter(left: list[Any], right: list[Any]) -> list[Any]:
    if not left or not right or left[0] != right[0]:
        return max(left, right)
    return [left[0], sorted({*left[1], *right[1]})]


HOTTEST = CombineFn(list, lambda hottest, item: _hotter(hottest, [item["bids"], [item["auction"]]]), _hotter)
"""[number of bids, auctions with that many]."""


def hot_items() -> PCollection[Any]:
    """Return the auctions with the most bids lately (query 5)."""
    counts = _of("bid", "auction").window_into(SlidingWindows(2 * plain.WINDOW_US, plain.WINDOW_US)).count()
    named = counts.map(lambda key, bids: {"auction": int(key), "bids": bids}, with_key=True)
    return named.key_by(lambda _: "all").combine(HOTTEST, name="hottest")


class LatestSales:
    """Averages the prices of a seller's last ten auctions, in the order in which these expired."""

    def initial_state(self) -> dict[str, Any]:
        """Return a state without sales."""
        return {"waiting": [], "prices": []}

    def process(self, context: KeyContext, element: Element) -> list[tuple[str, Any]]:
        """Wait until all sales up to this one have come."""
        state = context.state
        state["waiting"].append([element.time, element.value["auction"]["id"], element.value["bid"]["price"]])
        context.set_timer("in order", min(sale[0] for sale in state["waiting"]) + 1)
        return []

    def on_timer(self, context: KeyContext, tag: str, time_us: int) -> list[tuple[str, Any]]:
        """Add the sales in order."""
        del tag
        state, sums = context.state, []
        for sale in sorted(sale for sale in state["waiting"] if sale[0] < time_us):
            state["prices"] = [*state["prices"], sale[2]][-plain.LATEST_SALES :]
            sums.append((context.key, {"sales": len(state["prices"]), "sum": sum(state["prices"])}))
        state["waiting"] = [sale for sale in state["waiting"] if sale[0] >= time_us]
        if state["waiting"]:
            context.set_timer("in order", min(sale[0] for sale in state["waiting"]) + 1)
        return sums


def seller_prices() -> PCollection[Any]:
    """Return the average price of each seller's last ten sales, after each sale (query 6)."""
    by_seller = winning_bids().key_by(lambda sale: str(sale["auction"]["seller"]))
    return by_seller.par_do_stateful(LatestSales(), name="latest sales")


def highest_bid() -> PCollection[Any]:
    """Return the highest bid of each period (query 7)."""
    everyone = _of("bid", "auction").key_by(lambda _: "all").window_into(FixedWindows(plain.WINDOW_US))
    return everyone.top(1, key=lambda bid: bid["price"], name="highest").map(lambda bids: bids[0]["price"])


def new_sellers() -> PCollection[Any]:
    """Return who registered and opened an auction in the same period (query 8)."""
    people = _of("person", "id").window_into(FixedWindows(plain.WINDOW_US))
    auctions = _of("auction", "seller").window_into(FixedWindows(plain.WINDOW_US))
    both = co_group({"people": people, "auctions": auctions}, name="new sellers")
    return both.filter(lambda sides: bool(sides["people"] and sides["auctions"])).map(
        lambda sides: {"name": sides["people"][0]["name"], "auctions": len(sides["auctions"])}
    )


def logs() -> PCollection[Any]:
    """Return all events in files, by period and shard (query 10)."""
    sharded = read(STREAM, bounded=True).key_by(
        lambda event: f"shard {event['time'] // 1_000_000 % plain.SHARDS}"
    )
    return sharded.window_into(FixedWindows(plain.WINDOW_US)).distinct(name="log")


def user_sessions() -> PCollection[Any]:
    """Return the number of bids in each session of a bidder (query 11)."""
    return _of("bid", "bidder").window_into(Sessions(plain.GAP_US)).count()


def processing_time() -> PCollection[Any]:
    """Return the number of bids of a bidder in each period of processing time (query 12)."""
    return _of("bid", "bidder").trigger(Repeat(AtPeriod(plain.WINDOW_US))).count()


_FLOWS: dict[str, Callable[[], PCollection[Any]]] = {
    "q0": pass_through,
    "q1": currency,
    "q2": selection,
    "q3": local_items,
    "q4": category_prices,
    "q5": hot_items,
    "q6": seller_prices,
    "q7": highest_bid,
    "q8": new_sellers,
    "q9": winning_bids,
    "q10": logs,
    "q11": user_sessions,
    "q12": processing_time,
}

QUERIES: dict[str, Pipeline] = {
    name: make().to(name).pipeline(f"nexmark {name}") for name, make in _FLOWS.items()
}
"""The pipelines by name; each one's answers leave on the stream of its name."""

TITLES: dict[str, str] = {
    name: " ".join((make.__doc__ or "").removeprefix("Return ").split()) for name, make in _FLOWS.items()
}
"""What each query answers, in a line."""


def settled(query: str, answers: Iterable[tuple[str, Any]]) -> Counter[tuple[str, str]]:
    """Count (key, value as JSON), once the panes of a query are settled: query 4's last averages, query 12's sums.

    Args:
        query: its name.
        answers: key and value of each record that left, where a grouping's is a `Pane`.
    """
    panes = [(key, value if isinstance(value, Pane) else Pane(value, GLOBAL, 0)) for key, value in answers]
    if query == "q4":
        last: dict[str, Pane] = {}
        for key, pane in panes:
            if key not in last or pane.index > last[key].index:
                last[key] = pane
        panes = list(last.items())
    if query == "q12":
        sums: Counter[str] = Counter()
        for key, pane in panes:
            sums[key] += pane.value
        return as_counter(sums.items())
    return as_counter((key, pane.value) for key, pane in panes)


def as_counter(answers: Iterable[tuple[str, Any]]) -> Counter[tuple[str, str]]:
    """Count answers, with their values as JSON."""
    return Counter((key, json.dumps(value, sort_keys=True)) for key, value in answers)


@at_end
def answers_are_right(moment: Moment) -> None:
    """The answers are those of plain Python over the same events, if none of these was late."""
    query = next(name for name in QUERIES if moment.has_stream(name))
    records = moment.inputs(STREAM)
    if any(record.late for record in records):
        raise Unexercised("an event was late")
    events = sorted((record.value for record in records), key=lambda event: event["time"])
    expected = as_counter(plain.ANSWERS[query](events))
    answers = settled(query, [(record.key, record.value) for record in moment.outputs(query)])
    assert answers == expected, f"missing {expected - answers}, too many {answers - expected}"


promises: list[Promise] = [answers_are_right]
