"""Strong against weak productions in one table, with exactly-once and without (MillWheel 6.1.2, 6.1.3).

The comparison is that of `headrace compare` (`headrace_properties.search.strong_weak`): every way gets the same faults at
the same times.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from statistics import median

from headrace import HOUR, MILLISECOND, SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_benchmarks.section8.calibration import CALIBRATION
from headrace_benchmarks.section8.experiment import Experiment, Sample
from headrace_benchmarks.section8.paper import TWO_VALUES, WALL_TIME
from headrace_properties.search.strong_weak import Account, compare
from headrace_scenarios import wall_clock
from headrace_sim import Feed, FeedBuilder

AGAIN = "runs of user code made again, a crash"
REPEATED = "repeated, a run"
CHANGED = "changed, a run"
LATENCY = "median latency, simulated ms"
_RUNS = 8
_FAULTS = 10
_WORKERS = 4
_RECORDS = 100
_KEYS = 20
_APART_US = 30 * MILLISECOND


class Odd(Computation):
    """Passes on odd numbers: a stateless filter, the paper's own example of an idempotent computation.

    Args:
        output: the stream that they go to.
    """

    def __init__(self, output: str) -> None:
        self._output = output

    def process_record(self, context: Context, record: Record) -> None:
        """Pass it on, or not."""
        if record.value % 2:
            context.produce(self._output, record.value)


class Total(Computation):
    """Adds up, and tells the sum at the end: a record that counts twice is seen, the order of arrival is not."""

    def initial_state(self) -> int:
        """Nothing yet."""
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        """Add it."""
        context.state += record.value
        context.set_timer("end", HOUR)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Tell the sum."""
        del timer
        context.produce("results", context.state)


@dataclass(frozen=True, slots=True)
class Code:
    """User code to run each way, and its input from a seed."""

    pipeline: Pipeline
    seeded: bool = True

    def feed(self, seed: int) -> Feed:
        """Numbers under some keys; the wall-time aggregate brings its own visits."""
        return _numbers(self.pipeline, seed) if self.seeded else wall_clock.feed(seed)


def _numbers(pipeline: Pipeline, seed: int) -> Feed:
    random, builder = Random(f"{seed}/strong weak"), FeedBuilder(pipeline)
    for number in range(_RECORDS):
        at_us = SECOND + number * _APART_US
        value, key = random.randrange(1_000), f"{random.randrange(_KEYS):02d}"
        builder.record(at_us=at_us, value=value, timestamp=at_us, key=key)
    return builder.build()


def _two_stages(name: str, second: Computation) -> Pipeline:
    pipeline = Pipeline(name)
    pipeline.injector("numbers")
    pipeline.add(Odd("odd numbers"), name="first", inputs=["numbers"], outputs=["odd numbers"])
    pipeline.add(second, name="second", inputs=["odd numbers"], outputs=["results"])
    return pipeline


CODES = {
    "filter (idempotent)": Code(_two_stages("filter", Odd("results"))),
    "sum (not idempotent)": Code(_two_stages("sum", Total())),
    WALL_TIME: Code(wall_clock.pipeline, seeded=False),
}


def sample(point: str, seed: int) -> Sample:
    """Run one code each way, once without faults, and then under the same fault schedules."""
    code = CODES[point]
    accounts = compare(
        code.pipeline,
        code.feed(seed),
        runs=_RUNS,
        faults=_FAULTS,
        seed=seed,
        options=CALIBRATION.cluster(_WORKERS),
    )
    values = [(f"{point}, {one.way.name}", *figure) for one in accounts for figure in _figures(one)]
    return Sample(point, seed, tuple(values))


def _figures(account: Account) -> Iterator[tuple[str, float]]:
    calm, stormy, runs = account.calm, account.stormy, max(account.runs, 1)
    yield LATENCY, median(calm.latencies_us) / MILLISECOND
    yield "rows written, a run of user code", calm.applied / calm.executions
    yield "bytes written", calm.applied_bytes / calm.executions
    yield "retained by senders, byte seconds a production", calm.held_byte_us / SECOND / len(calm.held_us)
    yield AGAIN, stormy.again / max(stormy.crashes, 1)
    yield "lost, a run", account.lost / runs
    yield REPEATED, account.repeated / runs
    yield CHANGED, account.changed / runs
    yield TWO_VALUES, stormy.diverged / runs
    yield "invariants broken", float(account.broken.total() + len(account.errors))


EXPERIMENT = Experiment(
    "strong-weak",
    "6.1.2, 6.1.3",
    "Strong against weak productions, with exactly-once and without, under the same faults",
    tuple(CODES),
    tuple(CODES),
    sample,
    f"Each way runs a code and its input once without faults, which latency, writes and what is retained are from, and {_RUNS}"
    f" times with {_FAULTS} faults, at the same times for each way: crashes, zombies, partitions, lost and late messages and"
    " commits. Lost, repeated and changed: of the records that went outside, against the plain sequential reference. What a weak"
    " computation makes again has the id that it had, and the outside takes each id once: so the weak filter never differs."
    " Strong without exactly-once, what a duplicate makes has an id of its own, and is repeated. The sum is wrong where a record"
    " counts twice. Weak, it is at times told twice even with exactly-once: a zombie's timer fires, and it sends what it knew"
    " before its commit is refused; strong, the commit comes first. That is why weak productions are for idempotent code."
    " The wall-time count is that of 6.1.2: every way it differs from the reference, as it depends on when it runs, and only"
    " weak does it make two bit-wise different records of one id. The same for a pipeline of your own:"
    " `headrace compare MODULE:PIPELINE`.",
    wide=True,
)
