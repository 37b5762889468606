"""A person at the page: a pipeline to explore, and hands that choose by words."""

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_properties.explorer.explorer import (
    ExploredPosition,
    Explorer,
    ExplorerState,
)
from headrace_properties.pipeline_target import PipelineTarget, pipeline_target
from headrace_properties.search.moves import ScopedRuns
from headrace_properties.search.scope import Scope
from headrace_sim import SOUND, Feed, FeedBuilder, Protocol


class CountViews(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.state["views"] = context.state.get("views", 0) + 1
        context.set_timer("end", at=3 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("counts", context.state.pop("views"))


class CursedHook(CountViews):
    def process_timer(self, context: Context, timer: Timer) -> None:
        raise ValueError("this window is cursed")


def pipeline_of(computation: Computation) -> Pipeline:
    pipeline = Pipeline("views")
    pipeline.injector("views")
    pipeline.add(computation, name="counter", inputs=["views"], outputs=["counts"])
    return pipeline


def feed_of(pipeline: Pipeline) -> Feed:
    builder = FeedBuilder(pipeline)
    for at_us in (SECOND, 2 * SECOND):
        builder.record(at_us=at_us, value=1, timestamp=at_us, key="home")
        builder.watermark(at_us=at_us, low_watermark=at_us)
    return builder.build()


def target_of(computation: Computation, protocol: Protocol = SOUND) -> PipelineTarget:
    pipeline = pipeline_of(computation)
    return pipeline_target("views:pipeline", pipeline, lambda _: feed_of(pipeline), protocol=protocol)


def explorer_of(target: PipelineTarget) -> Explorer:
    return Explorer(target, ScopedRuns(target.application, Scope(), 0).trial())


class Hand:
    """A person at the page: goes on to steps and makes choices, by their words."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.position = ExploredPosition()

    @property
    def state(self) -> ExplorerState:
        return self.explorer.state(self.position)

    def until(self, process: str, message: str, nth: int = 1) -> None:
        stops = [number for number, *stop in self.state.stops if stop == [process, message]]
        later = [number for number in stops if number >= self.position.at]
        self.position = ExploredPosition(self.position.made, later[nth - 1])

    def choose(self, *words: str) -> None:
        possible = self.state.possible
        numbers = [number for number, (_, text) in enumerate(possible) if all(word in text for word in words)]
        assert len(numbers) == 1, (words, [text for _, text in possible])
        made = (*self.position.made, (self.position.at, numbers[0]))
        self.position = ExploredPosition(made, self.position.at + 1)

    def end(self) -> None:
        self.position = ExploredPosition(self.position.made, self.state.steps)


def zombie(protocol: Protocol) -> Hand:
    """Hold a write of worker-0, give its keys to worker-1, and let the write go once worker-1 has worked (Figure 12)."""
    hand = Hand(explorer_of(target_of(CountViews(), protocol)))
    hand.until("worker-0", "Deliver")
    hand.choose("Write of 'home'", "is held")
    hand.choose("move the keys", "from worker-0 to worker-1")
    hand.until("worker-1", "Written")
    hand.position = ExploredPosition(hand.position.made, hand.position.at + 1)
    hand.choose("Write", "is let go")
    return hand


def verdicts(state: ExplorerState) -> dict[str, str]:
    return {shown.name: shown.verdict for shown in state.verdicts}
