"""What jobs of the corpus come to at each crash point: ``python -m tests.crash_points NAME ...`` records the real Spark.

Each job runs in a process of its own, in a copy of its folder, as `tests.corpus` runs it.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.corpus import INSTALLED
from tests.properties.spark_jobs.corpus_table import CORPUS, FOLDER, CorpusJob
from tests.sim.spark.outcomes import keep

RECORDED = Path(__file__).parent / "sim" / "spark" / "crash_point_outcomes.json"
"""By job and query: the crash points of the real Spark, by what is wrong there (``""``: nothing), and the rows that are left."""
BATCHES = 2
"""How many of the drawn ones: a point of the third is like one of the second."""
Outcomes = dict[str, dict[str, Any]]
"""By query: ``points``, ``left``."""


def outcomes_of(job: CorpusJob, engine: str) -> Outcomes:
    """Return what a job comes to, by query. ``engine``: ``here``, or ``spark``."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "jobs"
        shutil.copytree(FOLDER, place)
        path = os.pathsep.join([str(INSTALLED), str(Path(__file__).parent.parent)])
        done = subprocess.run(
            [sys.executable, "-m", "tests.crash_points", "--tell", job.name, engine],
            cwd=place, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    told: Outcomes = json.loads(done.stdout.splitlines()[-1])
    return told


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
    with surroundings(script) as module:
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
        told[label] = {"points": {wrong: ", ".join(places) for wrong, places in points.items()}, "left": left}
    return told


def main(names: list[str]) -> None:
    """Record jobs of these names."""
    if names[0] == "--tell":
        sys.stdout.write(json.dumps(_told(CORPUS[names[1]], names[2])))
        return
    for name in names:
        told = outcomes_of(CORPUS[name], "spark")
        keep(RECORDED, json.loads(RECORDED.read_text()) | {name: told})


if __name__ == "__main__":
    main(sys.argv[1:])
