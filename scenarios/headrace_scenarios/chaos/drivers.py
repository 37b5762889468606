"""A driver of a chaos run, from outside: its process, what it reports, and what it has started."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from headrace.spark.runtime.spark_session import worker_path
from headrace_scenarios.chaos.chaos_job import Added, ChaosJob, Ended, Idle
from headrace_scenarios.chaos.system_processes import SystemProcess, processes_of, signal_all
from headrace_sim.spark.sinks.sink_effects import Ledger

_MODULE = "headrace_scenarios.chaos.driver"


class Driver:
    """A driver's processes and reports."""

    def __init__(self, job: ChaosJob, job_file: Path, number: int) -> None:
        self._job = job
        self.number = number
        self._ledger = Ledger(job.reports_file(number))
        command = [sys.executable, "-m", _MODULE, str(job_file), str(number)]
        with job.log(number).open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  our own module
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "PYTHONPATH": worker_path()},
            )  # fmt: skip

    @property
    def session(self) -> int:
        """The session of all its processes."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether its Python process is running."""
        return self._process.poll() is None

    @property
    def log(self) -> str:
        """Path of its log."""
        return str(self._job.log(self.number))

    def reports(self) -> list[Any]:
        """Return its reports so far."""
        return self._ledger.entries()

    def ended(self) -> Ended | None:
        """Return how its query ended, if it has reported that."""
        return next((report for report in self.reports() if isinstance(report, Ended)), None)

    def idle_files(self) -> int:
        """Return how many files it had processed when it was last idle; -1: never."""
        return max([report.files for report in self.reports() if isinstance(report, Idle)], default=-1)

    def additions(self) -> int:
        """Return how many computations it has added last; 0: none."""
        return max([report.additions for report in self.reports() if isinstance(report, Added)], default=0)

    def main_processes(self) -> list[SystemProcess]:
        """Return its Python and its Java process, without executors and workers."""
        return [
            process
            for process in processes_of(self.session)
            if process.pid == self.session or process.is_java_of_driver
        ]

    def kill(self) -> None:
        """Kill all its remaining processes."""
        signal_all(self.session, signal.SIGKILL)
        self._process.wait()
