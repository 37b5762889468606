"""A search is a function of its seed: the same plans, runs, findings and replay file in every process (never a set's order)."""

import os
import subprocess
import sys

from headrace_benchmarks.sampled_runs import case_of
from headrace_benchmarks.trace_hashes import HASH_SEEDS, digests, digests_elsewhere
from headrace_properties.proof.mutants import MUTANTS
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.replays import messages_of, to_replay
from headrace_properties.search.application import Application
from headrace_properties.search.steering import Steering
from headrace_properties.search.strategy import search
from headrace_properties.target import PipelineSource
from headrace_sim import SOUND, Feed
from tests.sim.rig import letters, mail


def small_feed(_seed: int) -> Feed:
    return letters(mail(), 20)


def report() -> str:
    """What a search over the sound protocol counts, and the file that one over a broken protocol writes."""
    sound = search(Steering(Application(mail(), small_feed), seed=1), examples=6)
    broken = search(
        Steering(Application(mail(), small_feed), seed=1, protocol=MUTANTS["without sequencers"]), examples=50
    )
    assert broken.failure is not None
    counted = (
        SOUND.name,
        sound.events,
        sorted(sound.struck.items()),
        list(sound.reached.items()),
        sound.verdicts,
    )
    failure = broken.failure
    written = to_replay(
        PipelineSource("tests:mail"), failure.trial, messages_of(failure), digest=failure.digest
    )
    return f"{counted}\n{written.decode()}"


def test_a_search_is_the_same_under_every_hash_seed() -> None:
    program = "from tests.properties.search.test_hash_seeds import report\nprint(report())"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in HASH_SEEDS
    ]
    here = report()
    for process in processes:
        printed, _ = process.communicate(timeout=120)
        assert printed == here + "\n"


def test_the_same_runs_have_the_same_trace_hashes_in_other_processes_under_every_hash_seed() -> None:
    """Faults at protocol steps among them, on every workload."""
    runs = len(WORKLOADS)
    assert any(case_of(number).plan.faults.at_steps for number in range(runs))
    here = digests(runs, seed=0)
    assert len(set(here)) == runs
    elsewhere = dict(digests_elsewhere(runs, seed=0, processes=1))
    assert tuple(elsewhere) == HASH_SEEDS
    assert all(found == here for found in elsewhere.values())
