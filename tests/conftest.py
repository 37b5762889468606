"""Settings for all tests: how Java runs, and the Hypothesis profiles, chosen by the environment variable HYPOTHESIS_PROFILE."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark" / "conf"))
"""Its ``java-opts`` disable Java's optimizing compiler, which takes two fifths of the CPU time of such short runs; its
``spark-defaults.conf`` avoids processes that manage files. Benchmarks do not read this file, and run as users do."""

# A shell that starts a job in the background lets it ignore Ctrl-C, and so do the processes of its tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadlines: a loaded machine is not a bug. `ci` draws the same examples each time, so that results reflect the change,
# not luck; `nightly` is the one that searches.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.register_profile("nightly", deadline=None, max_examples=5_000, print_blob=True)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dev")
settings.load_profile(PROFILE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip deep searches, which run at night."""
    if PROFILE == "nightly":
        return
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.skip(reason="a deep search: HYPOTHESIS_PROFILE=nightly runs it"))
