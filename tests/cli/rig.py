"""Shared by the command's tests: pipelines to verify, a failure to replay, and the command in a separate process."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

from headrace import SECOND
from headrace_cli.options.kept import save_failure
from headrace_cli.targets.loading import load_target
from headrace_cli.terminal.files import OutputFiles
from headrace_properties.proof.mutants import MUTANTS
from headrace_properties.replays import messages_of, to_replay
from headrace_properties.search.application import PipelineTrial
from headrace_properties.search.judging import Failure, run_plan, violations
from headrace_properties.search.origins import input_digest
from headrace_properties.search.plans import Plan
from headrace_properties.target import PipelineSource
from headrace_sim import ClusterOptions
from headrace_sim.faults import FaultSchedule, Pause
from tests import forked

Run = Callable[..., Result]

VIEWS = '''
"""A pipeline whose every invariant has its case: records, timers, productions."""

from headrace import SECOND, Computation, Pipeline
from headrace_sim import FeedBuilder


class CountViews(Computation):
    def process_record(self, context, record):
        if record.late:
            return
        end = record.timestamp - record.timestamp % SECOND + SECOND
        context.state[str(end)] = context.state.get(str(end), 0) + 1
        context.set_timer(str(end), at=end)

    def process_timer(self, context, timer):
        context.produce("counts", context.state.pop(timer.tag))


def build(computation, name="views"):
    built = Pipeline(name)
    built.injector("views")
    built.add(computation, name="counter", inputs=["views"], outputs=["counts"])
    return built


pipeline = build(CountViews())


def feed(seed, seconds=4):
    builder = FeedBuilder(pipeline)
    for at_us in range(SECOND, seconds * SECOND, SECOND // 5):
        builder.record(at_us=at_us, value=seed, timestamp=at_us - SECOND // 4, key="ab"[at_us % 400_000 > 0])
        builder.watermark(at_us=at_us, low_watermark=at_us - SECOND)
    return builder.build()


def short_feed(seed):
    return feed(seed, seconds=2)
'''

STATELESS = '''
"""A pipeline without timers: what the invariants say of timers stays unknown."""

import views
from headrace import Computation


class Forward(Computation):
    def process_record(self, context, record):
        context.produce("counts", record.value)


pipeline = views.build(Forward())
feed = views.feed
'''

FAILING = '''
"""A pipeline whose code raises, and prints."""

import views


class Failing(views.CountViews):
    def process_timer(self, context, timer):
        print("printed by user code")
        raise ValueError("this window is cursed")


pipeline = views.build(Failing(), "failing")
feed = views.feed
'''

GROWN = '''
"""Two versions of a pipeline: in the first, somebody reads the counts."""

import views
from headrace import Computation, Productions


class Audit(Computation):
    def process_record(self, context, record):
        context.produce("audited", record.value)


plain = views.pipeline
audited = plain.copy()
audited.add(Audit(), name="auditor", inputs=["counts"], outputs=["audited"])
weak = plain.copy()
weak.add(Audit(), name="auditor", inputs=["counts"], outputs=["audited"], productions=Productions.WEAK)
feed = views.feed
'''

MODULES = {"views": VIEWS, "stateless": STATELESS, "failing": FAILING, "grown": GROWN}


def write_modules(folder: Path) -> None:
    """Write the pipelines there."""
    for name, source in MODULES.items():
        (folder / f"{name}.py").write_text(source)


ZOMBIE = Plan(
    faults=FaultSchedule(
        (Pause(at_us=768_750, process="worker-0", for_us=1_220_000),), heal_at_us=5 * SECOND
    ),
    options=ClusterOptions(),
    seed=0,
)
"""Breaks ``views:pipeline`` without sequencers: worker-0 is replaced, wakes up, and writes."""


def save_zombie(folder: Path, feed_name: str = "feed") -> Path:
    """Save `ZOMBIE` as a failure, as ``headrace verify`` would."""
    target = load_target("views:pipeline", feed_name)
    protocol = MUTANTS["without sequencers"]
    history, verdicts, _ = run_plan(target.application, PipelineTrial(ZOMBIE), protocol)
    broken = violations(verdicts)
    assert broken, "the zombie did no harm"
    failure = Failure(ZOMBIE, 0, broken, history.digest())
    source = PipelineSource(target.name, protocol=protocol.name, feed=feed_name)
    rows = input_digest(target.application.input_of(failure.trial))
    data = to_replay(source, failure.trial, messages_of(failure), digest=failure.digest, input_digest=rows)
    saved = save_failure(data, folder / "zombie.json", OutputFiles(force=True))
    assert saved is not None
    return saved


def run_process(*arguments: str, cwd: Path) -> forked.Ended:
    """The command, in a separate process."""
    return forked.headrace(arguments, cwd=cwd, env=environment())


COLOUR_SWITCHES = ("FORCE_COLOR", "PY_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS")
"""Environment variables that make rich assume a terminal, or its width."""


def environment() -> dict[str, str]:
    """This process's environment, with an absolute search path, and without colour settings."""
    path = os.pathsep.join(str(Path(folder).absolute()) for folder in sys.path if folder)
    kept = {name: value for name, value in os.environ.items() if name not in COLOUR_SWITCHES}
    return {**kept, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def plain(text: str) -> str:
    """Remove colours and line breaks from a text."""
    return re.sub(r"\s+", " ", re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", " ", text))
