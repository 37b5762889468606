"""Planted mistakes and their mended twins, verified.

::

    python -m tests.properties.spark_jobs.trials                   # each mistake, with default settings
    python -m tests.properties.spark_jobs.trials --mended 2000     # each mended twin, in so many schedules
"""

import argparse
import os
import re
import sys
from dataclasses import dataclass

from headrace_properties.spark_jobs.outcomes import SCHEDULES
from tests.properties.spark_jobs.planted import PLANTED
from tests.properties.spark_jobs.planted_state import PLANTED_STATE

ALL = PLANTED | PLANTED_STATE
SENTENCES = 4
"""The cause has to be named in so many."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Whether it came out as it should, and what was said."""

    is_right: bool
    said: str


def found(name: str, schedules: int = SCHEDULES) -> Trial:
    """Verify a mistake: its cause must be the first finding, and named in the first sentences."""
    planted = ALL[name]
    findings = planted.target().verify(schedules=schedules).findings
    if not findings:
        return Trial(False, "not found")
    said = " ".join(re.split(r"(?<=[.!?]) (?=[A-Z])", str(findings[0]))[:SENTENCES])
    is_right = findings[0].kind.name == planted.cause and all(word in said for word in planted.words)
    return Trial(is_right, said)


def held(name: str, schedules: int) -> Trial:
    """Verify a mended twin: it must hold, and nothing be unknown."""
    report = ALL[name].target(mended=True).verify(schedules=schedules)
    said = [*map(str, report.findings), *report.unknown]
    return Trial(not said, " ".join(said) or f"holds in {schedules:,} schedules")


def _cpu_s() -> float:
    """CPU time of this process and its children."""
    return sum(os.times()[:4])


def main() -> int:
    """Print a table; return 1 if something did not come out as it should."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mended", type=int, metavar="SCHEDULES", help="verify the mended twins")
    options = parser.parse_args()
    wrong = 0
    for name in ALL:
        began = _cpu_s()
        trial = held(name, options.mended) if options.mended else found(name)
        wrong += not trial.is_right
        verdict = "right" if trial.is_right else "WRONG"
        sys.stdout.write(f"{name:36} {verdict} {_cpu_s() - began:6.1f} s  {trial.said[:200]}\n")
        sys.stdout.flush()
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
