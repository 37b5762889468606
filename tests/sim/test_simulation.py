"""A run is a function of (pipeline, feed, options, faults, seed): the same bytes each time, in every process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace import Pipeline
from headrace.histories import header_of, load_history, save_history
from headrace.history import Event, FaultStruck, History, RunEnded
from headrace_scenarios import zeitgeist
from headrace_sim import ClusterOptions, FaultSchedule, simulate
from headrace_sim import faults as f
from tests.sim.rig import HEAL_US, storm, with_engine

FAULTS = FaultSchedule(storm("searches/0", "window_counter"), HEAL_US)
OPTIONS = with_engine(cache_bytes=2_000, commit_batch=4, id_slack_us=0)


def zeitgeist_run(
    pipeline: Pipeline = zeitgeist.pipeline,
    *,
    feed_seed: int = 1,
    options: ClusterOptions = OPTIONS,
    faults: FaultSchedule = FAULTS,
    seed: int = 7,
) -> History:
    return simulate(pipeline, zeitgeist.feed(feed_seed), options=options, faults=faults, seed=seed)


def test_the_runs_of_these_tests_have_many_faults() -> None:
    struck = {event.kind.partition("_")[0] for event in zeitgeist_run() if isinstance(event, FaultStruck)}
    assert struck >= {kind.partition("_")[0] for kind in f.KINDS.values()}


@pytest.mark.parametrize("pipeline", [zeitgeist.pipeline, zeitgeist.weak_pipeline], ids=["strong", "weak"])
def test_the_same_run_twice_in_one_process_is_the_same_history(pipeline: Pipeline) -> None:
    first, second = zeitgeist_run(pipeline), zeitgeist_run(pipeline)
    assert first.digest() == second.digest()
    assert first.events == second.events


def test_a_run_leaves_nothing_behind_that_changes_the_next_one() -> None:
    before = zeitgeist_run().digest()
    zeitgeist_run(zeitgeist.weak_pipeline, feed_seed=2, seed=8)
    assert zeitgeist_run().digest() == before


def test_everything_that_goes_into_a_run_changes_it() -> None:
    runs = [
        zeitgeist_run(),
        zeitgeist_run(zeitgeist.build(split_at=("b",))),
        zeitgeist_run(feed_seed=2),
        zeitgeist_run(options=with_engine(cache_bytes=0, commit_batch=4, id_slack_us=0)),
        zeitgeist_run(faults=FaultSchedule(FAULTS.faults[:-1], HEAL_US)),
        zeitgeist_run(seed=8),
    ]
    assert len({history.digest() for history in runs}) == len(runs)


PROGRAM = """
from headrace_scenarios import zeitgeist
from tests.sim.test_simulation import zeitgeist_run
for pipeline in (zeitgeist.pipeline, zeitgeist.weak_pipeline):
    print(zeitgeist_run(pipeline).digest())
"""


def test_every_process_makes_the_same_history_whatever_its_hash_seed() -> None:
    here = [zeitgeist_run().digest(), zeitgeist_run(zeitgeist.weak_pipeline).digest()]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("0", "1", "random")
    ]
    for process in processes:
        printed, _ = process.communicate(timeout=120)
        assert printed.split() == here


# Histories as files


def test_a_history_survives_a_file(tmp_path: Path) -> None:
    history = zeitgeist_run()
    path = tmp_path / "history.jsonl"
    save_history(path, history, header_of([zeitgeist.pipeline]))
    header, again = load_history(path)
    assert header.pipeline == zeitgeist.pipeline.name
    assert again.events == history.events
    assert again.activations == history.activations != []
    assert again.digest() == history.digest()
    assert isinstance(again.events[-1], RunEnded)


def test_the_history_of_these_runs_has_most_of_the_vocabulary(tmp_path: Path) -> None:
    """So that the file above is a fair sample of what must survive."""
    kinds = {type(event) for event in zeitgeist_run()} | {
        type(event) for event in zeitgeist_run(zeitgeist.weak_pipeline)
    }
    absent = {kind.__name__ for kind in Event.__args__ if kind not in kinds}
    assert absent <= {
        "UserCodeFailed",
        "DeadLettered",
        "ComputationRemoved",
        "VersionAdopted",
        "Checkpointed",
        "WriteRefused",
        "StepReached",
        "Rested",
        "KeysSampled",
    }
