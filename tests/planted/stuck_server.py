"""A server takes half a second of wall time for each job; when it has none left, it never becomes free again."""

from random import Random

from headrace import MILLISECOND, SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_properties.promises import Moment, eventually
from headrace_sim import Feed, FeedBuilder


class Server(Computation):
    """Works on one job at a time, in the order in which they come."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state.setdefault("waiting", []).append(record.value)
        if "busy" not in context.state:
            self.begin(context)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("done", self.end(context.state))
        if context.state["waiting"]:
            self.begin(context)

    def begin(self, context: Context) -> None:
        context.state["busy"] = context.state["waiting"].pop(0)
        context.set_wall_timer("done", context.wall_time + 500 * MILLISECOND)

    def end(self, state: dict[str, object]) -> object:
        return state["busy"]  # and stays busy


class FreedServer(Server):
    """Is free after a job."""

    def end(self, state: dict[str, object]) -> object:
        return state.pop("busy")


@eventually(within_us=30 * SECOND)
def every_job_is_done(moment: Moment) -> bool:
    """Nothing waits for ever."""
    return len(moment.outputs("done")) == len(moment.inputs("jobs"))


def build(server: Server) -> Pipeline:
    built = Pipeline("server")
    built.injector("jobs")
    built.add(
        server,
        name="server",
        inputs=["jobs"],
        outputs=["done"],
        ordered=True,
        nondeterministic="takes wall time",
    )
    return built


pipeline, mended = build(Server()), build(FreedServer())
promises = [every_job_is_done]
CAUSE = ("every_job_is_done", "within 30 s")


def feed(seed: int) -> Feed:
    """A dozen jobs for two servers."""
    random, builder = Random(seed), FeedBuilder(pipeline)
    for number in range(12):
        at_us = SECOND + number * 300 * MILLISECOND
        builder.record(at_us=at_us, key=random.choice("ab"), value=f"job {number}", timestamp=at_us)
        builder.watermark(at_us=at_us, low_watermark=at_us)
    return builder.build()
