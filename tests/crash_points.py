"""What jobs of the corpus come to at each crash point: ``python -m tests.crash_points NAME ...`` records the real Spark.

They run in one process, in a copy of their folder, as `tests.corpus` runs them: Java starts once.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.corpus import INSTALLED
from tests.properties.spark_jobs.corpus_table import CORPUS, FOLDER, CorpusJob
from tests.sim.spark.outcomes import keep

RECORDED = Path(__file__).parent / "sim" / "spark" / "crash_point_outcomes.json"
"""By job and query: what the real Spark found, its crash points by what is wrong there (``""``: nothing), and the rows left."""
BATCHES = 2
"""How many of the drawn ones: a point of the third is like one of the second."""
Outcomes = dict[str, dict[str, Any]]
"""By query: ``found``, ``points``, ``left``."""


def outcomes_of(jobs: Sequence[CorpusJob], engine: str) -> Iterator[tuple[str, Outcomes]]:
    """Yield what jobs come to, each by its name and query. ``engine``: ``here``, or ``spark``."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "jobs"
        shutil.copytree(FOLDER, place)
        names = [job.name for job in jobs]
        with subprocess.Popen(
            [sys.executable, "-m", "tests.crash_points", "--tell", engine, *names],
            cwd=place, env=os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}, stdout=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            told = (json.loads(line) for line in process.stdout if line.startswith(_TOLD))
            yield from ((outcomes["job"], outcomes["queries"]) for outcomes in told)
        assert process.returncode == 0


_TOLD = '{"job": '


def _told(job: CorpusJob, engine: str) -> Outcomes:
    """Return the same of this process, which is in the job's folder."""
    from headrace_properties.program_trials import TrialOptions, trials_of_program  # noqa: PLC0415
    from headrace_properties.spark_jobs.laboratory import Laboratory  # noqa: PLC0415
    from headrace_properties.spark_jobs.programs import ProgramInput  # noqa: PLC0415
    from headrace_sim.spark.client.scripts import Script, surroundings  # noqa: PLC0415

    variables = (part for part in job.options.split() if part != "--env")
    script = Script(
        job.file.removeprefix("-m "),
        tuple(job.arguments.split()),
        dict(part.split("=", 1) for part in variables),
    )
    # What Java's death adds is told of findings, and not of points.
    alone = patch("headrace_sim.spark.sinks.sink_check.SinkCheck._kill_with_java", return_value=[])
    with surroundings(script) as module, alone:
        laboratory = Laboratory(script) if engine == "spark" else None
        trials = trials_of_program(script, module, ProgramInput(), TrialOptions(laboratory=laboratory))
        for part in trials.parts:
            part.target = replace(part.target, feed=part.target.feed[:BATCHES])
        trials.search()
        reports = {part.source.query: part.report for part in trials.parts}
    told = {}
    for label, report in reports.items():
        sink = report and report.sink
        points: dict[str, list[str]] = {}
        for point in sink.outcomes if sink else ():
            wrong = ", ".join(sorted({wrong.value for wrong, _ in point.wrong}))
            points.setdefault(wrong, []).append(
                f"{point.fault.kind.value} {point.fault.batch} {point.fault.effect}"
            )
        left = {name: items.total() for name, items in sorted(sink.left.items())} if sink else {}
        told[label] = {
            "found": sorted({finding.kind.name for finding in report.findings}) if report else [],
            "points": {wrong: ", ".join(places) for wrong, places in points.items()},
            "left": left,
        }
    return told


def main(names: list[str]) -> None:
    """Record jobs of these names."""
    if names[0] == "--tell":
        sys.path.append(str(INSTALLED))  # behind what is really installed
        for name in names[2:]:
            sys.stdout.write(json.dumps({"job": name, "queries": _told(CORPUS[name], names[1])}) + "\n")
            sys.stdout.flush()
        return
    for name, told in outcomes_of([CORPUS[name] for name in names], "spark"):
        keep(RECORDED, json.loads(RECORDED.read_text()) | {name: told})


if __name__ == "__main__":
    main(sys.argv[1:])
