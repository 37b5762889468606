"""The digests of a sample's first runs, in separate processes: equal under every hash seed, unless something iterates a set.

``python -m headrace_benchmarks.trace_hashes RUNS SEED`` prints one digest per line.
"""

import os
import subprocess
import sys
from collections.abc import Iterator

from headrace_benchmarks.sampled_runs import case_of

HASH_SEEDS = ("0", "1", "random")


def digests(runs: int, seed: int) -> list[str]:
    """Return the digests of the Histories of a sample's first runs."""
    return [case_of(number, seed).digest() for number in range(runs)]


def digests_elsewhere(runs: int, seed: int, processes: int = 2) -> Iterator[tuple[str, list[str]]]:
    """Compute the digests in fresh processes; yield (hash seed, digests) of each.

    Args:
        runs: number of runs.
        seed: the sample's seed.
        processes: number of parallel processes for each hash seed.

    Raises:
        RuntimeError: a process failed.
    """
    command = [sys.executable, "-m", "headrace_benchmarks.trace_hashes", str(runs), str(seed)]
    path = os.pathsep.join(filter(None, sys.path))
    for hash_seed in HASH_SEEDS:
        started = [
            subprocess.Popen(  # noqa: S603  this module, by this interpreter
                command,
                env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(processes)
        ]
        for process in started:
            printed, _ = process.communicate()
            if process.returncode:
                raise RuntimeError(f"{' '.join(command)} exited with {process.returncode}")
            yield hash_seed, printed.split()


if __name__ == "__main__":
    print("\n".join(digests(int(sys.argv[1]), int(sys.argv[2]))))
