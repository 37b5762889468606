"""Pipelines as people write them, without a word about what is meant, and each with one realistic mistake beside it."""

import random
import time
from random import Random
from typing import Any

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CITIES = ("ann", "bob", "cy")


class Latest(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state["value"] = record.value["n"]
        context.produce("out", {"who": context.key, "n": record.value["n"]})


class LatestOnSelf(Computation):
    def __init__(self) -> None:
        self.last: dict[str, int] = {}

    def process_record(self, context: Context, record: Record) -> None:
        before = self.last.get(context.key, 0)
        self.last[context.key] = record.value["n"]
        context.produce("out", {"who": context.key, "n": record.value["n"] - before})


class Average(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        count = context.state.get("count", 0) + 1
        total = context.state.get("total", 0) + record.value["n"]
        context.state.update({"count": count, "total": total})
        context.produce("out", {"who": context.key, "average": total / count})


class AverageOfClass(Computation):
    count = 0

    def process_record(self, context: Context, record: Record) -> None:
        AverageOfClass.count += 1
        total = context.state.get("total", 0) + record.value["n"]
        context.state["total"] = total
        context.produce("out", {"who": context.key, "average": total / AverageOfClass.count})


class Sessions(Computation):
    gap_us = 2 * SECOND

    def process_record(self, context: Context, record: Record) -> None:
        first = context.state.get("first", record.timestamp)
        last = max(context.state.get("last", 0), record.timestamp)
        context.state.update(
            {
                "first": min(first, record.timestamp),
                "last": last,
                "events": context.state.get("events", 0) + 1,
            }
        )
        context.set_timer("quiet", at=last + self.gap_us)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("out", {"who": context.key, "events": context.state["events"]})
        context.state.clear()


class SessionsByClock(Sessions):
    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("out", {"who": context.key, "closed": time.time()})
        context.state.clear()


class Top(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        best = sorted([*context.state.get("best", []), record.value["n"]], reverse=True)[:3]
        if best != context.state.get("best"):
            context.state["best"] = best
            context.produce("out", {"who": context.key, "best": best})


_best: dict[str, list[int]] = {}


class TopInModule(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        best = _best.setdefault(context.key, [])
        best.append(record.value["n"])
        context.produce("out", {"who": context.key, "best": sorted(best, reverse=True)[:3]})


class Dedup(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        if not context.state.get("seen"):
            context.state["seen"] = True
            context.produce("out", record.value)
            context.set_timer("forget", at=record.timestamp + 60 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.state.clear()


class DedupOnSelf(Computation):
    def __init__(self) -> None:
        self.seen: set[str] = set()

    def process_record(self, context: Context, record: Record) -> None:
        if context.key not in self.seen:
            self.seen.add(context.key)
            context.produce("out", record.value)


class Counter(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state["count"] = context.state.get("count", 0) + 1
        context.set_timer("tell", at=5 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("out", {"who": context.key, "count": context.state["count"]})


class CounterOfSample(Counter):
    def process_record(self, context: Context, record: Record) -> None:
        if random.random() < 0.5:
            super().process_record(context, record)


def _built(computation: Computation, key: str = "who", *, ordered: bool = False) -> Pipeline:
    built = Pipeline("everyday")
    built.injector("events")
    inputs = {"events": lambda record: record.value[key]}
    built.add(computation, name="step", inputs=inputs, outputs=["out"], ordered=ordered)
    return built


latest, meant_latest, planted_latest = (
    _built(Latest()),
    _built(Latest(), ordered=True),
    _built(LatestOnSelf()),
)
average, meant_average = _built(Average()), _built(Average(), ordered=True)
planted_average = _built(AverageOfClass())
sessions, meant_sessions, planted_sessions = _built(Sessions()), _built(Sessions()), _built(SessionsByClock())
top, meant_top, planted_top = _built(Top()), _built(Top(), ordered=True), _built(TopInModule())
dedup, meant_dedup = _built(Dedup(), "id"), _built(Dedup(), "id", ordered=True)
planted_dedup = _built(DedupOnSelf(), "id")
counter, meant_counter, planted_counter = _built(Counter()), _built(Counter()), _built(CounterOfSample())


def draw(random: Random, number: int) -> dict[str, Any]:
    return {"id": f"id-{random.randrange(20)}", "who": random.choice(CITIES), "n": random.randrange(100)}


def feed(seed: int) -> Feed:
    return arrivals(latest, seed, draw)
