"""Strong and weak productions in one table, with and without exactly-once (MillWheel 6.1.2, 6.1.3).

The comparison is that of `headrace compare` (`headrace_properties.search.production_modes`): every combination gets the same
faults at the same times.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from statistics import median

from headrace import HOUR, MILLISECOND, SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_benchmarks.section8.calibration import CALIBRATION
from headrace_benchmarks.section8.experiment import Experiment, RunSample
from headrace_benchmarks.section8.paper import TWO_VALUES, WALL_TIME
from headrace_properties.search.production_modes import Account, compare
from headrace_scenarios import wall_clock
from headrace_sim import Feed, FeedBuilder

AGAIN = "re-runs of user code per crash"
REPEATED = "repeated per run"
CHANGED = "changed per run"
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
        output: output stream.
    """

    def __init__(self, output: str) -> None:
        self._output = output

    def process_record(self, context: Context, record: Record) -> None:
        """Pass on an odd number, drop an even one."""
        if record.value % 2:
            context.produce(self._output, record.value)


class FinalSum(Computation):
    """Produces a sum at the end. It reveals records that count twice, but does not depend on the order of arrival."""

    def initial_state(self) -> int:
        """Start at 0."""
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        """Add the value."""
        context.state += record.value
        context.set_timer("end", HOUR)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Produce the sum."""
        del timer
        context.produce("results", context.state)


@dataclass(frozen=True, slots=True)
class Code:
    """User code to run in each combination, and its input by seed."""

    pipeline: Pipeline
    seeded: bool = True

    def feed(self, seed: int) -> Feed:
        """Make numbers under random keys; the wall-time count has its own input of visits."""
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
    "sum (not idempotent)": Code(_two_stages("sum", FinalSum())),
    WALL_TIME: Code(wall_clock.pipeline, seeded=False),
}


def sample(point: str, seed: int) -> RunSample:
    """Run one code in each combination, once without faults, and then under the same fault schedules."""
    code = CODES[point]
    accounts = compare(
        code.pipeline,
        code.feed(seed),
        runs=_RUNS,
        faults=_FAULTS,
        seed=seed,
        options=CALIBRATION.cluster(_WORKERS),
    )
    values = [
        (f"{point}, {account.way.name}", *figure) for account in accounts for figure in _figures(account)
    ]
    return RunSample(point, seed, tuple(values))


def _figures(account: Account) -> Iterator[tuple[str, float]]:
    calm, stormy, runs = account.without_faults, account.with_faults, max(account.runs, 1)
    yield LATENCY, median(calm.latencies_us) / MILLISECOND
    yield "rows written per run of user code", calm.writes / calm.executions
    yield "bytes written per run of user code", calm.written_bytes / calm.executions
    yield "retained by senders, byte seconds per production", calm.held_byte_us / SECOND / len(calm.held_us)
    yield AGAIN, stormy.again / max(stormy.crashes, 1)
    yield "lost per run", account.lost / runs
    yield REPEATED, account.repeated / runs
    yield CHANGED, account.changed / runs
    yield TWO_VALUES, stormy.diverged / runs
    yield "invariants broken", float(account.violated.total() + len(account.errors))


EXPERIMENT = Experiment(
    "strong-weak",
    "6.1.2, 6.1.3",
    "Strong and weak productions, with and without exactly-once, under the same faults",
    tuple(CODES),
    tuple(CODES),
    sample,
    f"Each combination runs the code once without faults, for latency, writes and retained bytes, and then {_RUNS} times with"
    f" {_FAULTS} faults, which strike every combination at the same times: crashes, zombies, partitions, and lost and late"
    " messages and commits. Lost, repeated and changed count records that went outside, compared with the sequential reference."
    " When a weak computation re-runs, its productions have the same ids as before, and the outside accepts each id once; so the"
    " weak filter never differs. With strong productions and without exactly-once, the production of a duplicate has a new id and"
    " is repeated. The sum is wrong if a record counts twice. With weak productions it is sometimes sent twice, even with"
    " exactly-once: a zombie's timer fires, and the zombie sends its outdated sum before its commit is refused. With strong"
    " productions the commit comes first. This is why weak productions are for idempotent code. The wall-time count is that of"
    " 6.1.2: it depends on when it runs, so it differs from the reference in every combination, but only weak productions send"
    " two bit-wise different records with the same id. To compare your own pipeline: `headrace compare MODULE:PIPELINE`.",
    wide=True,
)
