"""The digests of a sample's first runs, in processes of their own: equal under every hash seed, unless something iterates a set.

``python -m headrace_benchmarks.trace_hashes RUNS SEED`` prints one digest a line.
"""

import os
import subprocess
import sys
from collections.abc import Iterator

from headrace_properties.search.sampled_runs import case_of

HASH_SEEDS = ("0", "1", "random")


def digests(runs: int, seed: int) -> list[str]:
    """The digest of each run's History, of the first so many runs of a sample."""
    return [case_of(number, seed).digest() for number in range(runs)]


def digests_elsewhere(runs: int, seed: int, processes: int = 2) -> Iterator[tuple[str, list[str]]]:
    """The same in fresh processes: (hash seed, digests) of each.

    Args:
        runs: how many runs.
        seed: of the sample.
        processes: so many for each hash seed; they run at the same time.

    Raises:
        RuntimeError: one of them failed.
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
                raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
            yield hash_seed, printed.split()


if __name__ == "__main__":
    print("\n".join(digests(int(sys.argv[1]), int(sys.argv[2]))))
