"""Each click increments a counter in a database, and once more whenever its step runs again."""

import sqlite3
import tempfile
from pathlib import Path
from random import Random

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_sim import Feed
from tests.planted.feeds import arrivals

CAUSE = ("sqlite3",)
DATABASE = Path(tempfile.gettempdir()) / "clicks.sqlite"


class Clicks(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        with sqlite3.connect(DATABASE) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS clicks (page TEXT PRIMARY KEY, count INTEGER)")
            connection.execute(
                "INSERT INTO clicks VALUES (?, 1) ON CONFLICT (page) DO UPDATE SET count = count + 1",
                (context.key,),
            )
        connection.close()


class MendedClicks(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state["count"] = context.state.get("count", 0) + 1
        context.set_timer("end", at=5 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("counts", {"page": context.key, "count": context.state.pop("count")})


def build(clicks: Computation) -> Pipeline:
    built = Pipeline("clicks")
    built.injector("clicks")
    built.add(clicks, name="count", inputs={"clicks": lambda record: record.value}, outputs=["counts"])
    return built


pipeline, mended = build(Clicks()), build(MendedClicks())


def draw(random: Random, number: int) -> str:
    return random.choice(["home", "news", "shop"])


def feed(seed: int) -> Feed:
    return arrivals(pipeline, seed, draw)
