"""What jobs of the corpus come to at each crash point: ``python -m tests.crash_points NAME ...`` records the real Spark.

They run in one process, in a copy of their folder, as `tests.corpus` runs them: Java starts once.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

from pyspark.sql import types as t

from headrace.api.errors import HeadraceError
from headrace_properties.query_search import QuerySearch
from headrace_properties.spark_jobs.query_review import is_for_looking
from headrace_sim.spark.sinks.trial_contents import Item
from tests.corpus import INSTALLED
from tests.properties.spark_jobs.corpus_table import CORPUS, FOLDER, CorpusJob
from tests.sim.spark.outcomes import keep

RECORDED = Path(__file__).parent / "sim" / "spark" / "crash_point_outcomes.json"
"""By job and query: what the real Spark found, its crash points by what is wrong there (``""``: nothing), and the rows left."""
WITH_STATE = FOLDER.with_name("corpus_state")
"""State, timers and times to live: a job that keeps all in Spark, and one that keeps a part in its module."""
JOBS = CORPUS | {
    job.name: job
    for job in (
        CorpusJob("idle_carts.py", 0, (), "all that it keeps is Spark's"),
        CorpusJob(
            "idle_carts_module.py",
            1,
            ("faults", "memory"),
            "its articles are in the module of a Python worker",
        ),
    )
}
BATCHES = 2
"""How many of the drawn ones: a point of the third is like one of the second."""
Outcomes = dict[str, dict[str, Any]]
"""By query: ``found``, ``points``, ``left``."""


def outcomes_of(jobs: Sequence[CorpusJob], engine: str) -> Iterator[tuple[str, Outcomes]]:
    """Yield what jobs come to, each by its name and query. ``engine``: ``here``, or ``spark``."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "jobs"
        for jobs_of_one_kind in (FOLDER, WITH_STATE):
            shutil.copytree(jobs_of_one_kind, place, dirs_exist_ok=True)
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
    from headrace_properties.spark_jobs.laboratory import Laboratory  # noqa: PLC0415
    from headrace_properties.spark_jobs.programs import ProgramInput  # noqa: PLC0415
    from headrace_properties.spark_trials import TrialOptions, trials_of_program  # noqa: PLC0415
    from headrace_sim.spark.client.scripts import Script, surroundings  # noqa: PLC0415

    variables = (part for part in job.options.split() if part != "--env")
    script = Script(
        job.file.removeprefix("-m "),
        tuple(job.arguments.split()),
        dict(part.split("=", 1) for part in variables),
    )
    # What Java's death adds is told of findings, and a new checkpoint in notes: neither is a point.
    check = "headrace_properties.sinks.sink_check.SinkCheck"
    alone = patch.multiple(check, _kill_with_java=Mock(return_value=[]), _restart=Mock(return_value=""))
    with surroundings(script) as module, alone:
        laboratory = Laboratory(script) if engine == "spark" else None
        trials = trials_of_program(script, module, ProgramInput(), TrialOptions(laboratory=laboratory))
        for part in trials.parts:
            part.target = replace(part.target, feed=part.target.feed[:BATCHES])
        trials.search()
        parts = [(part.source.query, part.report, _left(part)) for part in trials.parts]
    told = {}
    for label, report, left in parts:
        sink = report and report.sink
        points: dict[str, list[str]] = {}
        for point in sink.outcomes if sink else ():
            wrong = ", ".join(sorted({wrong.value for wrong, _ in point.wrong}))
            points.setdefault(wrong, []).append(
                f"{point.fault.kind.value} {point.fault.batch} {point.fault.effect}"
            )
        told[label] = {
            "found": sorted({finding.kind.name for finding in report.findings}) if report else [],
            "points": {wrong: ", ".join(places) for wrong, places in points.items()},
            "left": _tables({name: _rows(items.elements()) for name, items in sorted(left.items())}),
        }
    return told


def _left(part: QuerySearch) -> dict[str, Counter[Item]]:
    """Return what a query leaves undisturbed; of one without code in the simulation, what reaches its sink, as ``""``."""
    if part.report is not None and part.report.sink is not None:
        return part.report.sink.left
    if part.target.laboratory is not None:
        return {}
    left, output = Counter[Item](), part.target.job.output
    with suppress(HeadraceError):
        for number, rows in part.target.outcome().outputs.items():
            batch = {"batch": number} if is_for_looking(part.target.job) else {}
            left.update(_item(_named(row, output) | batch) for row in rows)
    return {"": left}


def _tables(left: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return rows by table, where the simulation has a destination for each partition."""
    tables: dict[str, list[str]] = {}
    for name, rows in left.items():
        folder, _, part = name.rpartition("/")
        is_partition = "=" in part
        of_table = tables.setdefault(folder if is_partition else name, [])
        of_table += [f"{row}, {part}" for row in rows] if is_partition else rows
    return {name: sorted(rows) for name, rows in tables.items()}


def _item(row: dict[str, Any]) -> Item:
    return tuple((name, repr(value)) for name, value in row.items())


def _named(row: Sequence[Any], schema: t.StructType) -> dict[str, Any]:
    return {
        field.name: _named(value, field.dataType)
        if value and isinstance(field.dataType, t.StructType)
        else value
        for field, value in zip(schema, row, strict=True)
    }


def _rows(items: Iterable[Item]) -> list[str]:
    """Return rows as text, without nulls, which JSON leaves out, and with values as both engines have them."""
    pairs = ([("", item)] if isinstance(item, str) else item for item in items)
    return sorted(
        ", ".join(f"{name}={_plain(value)}".lstrip("=") for name, value in row if value != "None")
        for row in pairs
    )


def _plain(value: str) -> str:
    text = _TIME.sub(lambda time: f"'{_iso(time[1].split(', '))}'", value)
    return _ISO_TIME.sub(lambda time: str(datetime.fromisoformat(f"{time[1]}Z")), text).strip("'")


def _iso(parts: list[str]) -> str:
    *date, hour, minute, second, microsecond = (part.zfill(2) for part in [*parts, "0", "0"][:7])
    return f"{'-'.join(date)}T{hour}:{minute}:{second}.{microsecond.zfill(6)}"


_TIME = re.compile(r"datetime\.datetime\(([\d, ]+?)(?:, tzinfo=[^),]+)?\)")
_ISO_TIME = re.compile(r"(?:'|Timestamp\(')(\d{4}-\d\d-\d\d[T ][\d:.]+)Z?'(?:, tz='[^']*')?\)?")
"""In JSON, and as pandas has times with nanoseconds."""


def main(names: list[str]) -> None:
    """Record jobs of these names."""
    if names[0] == "--tell":
        sys.path.append(str(INSTALLED))  # behind what is really installed
        for name in names[2:]:
            sys.stdout.write(json.dumps({"job": name, "queries": _told(JOBS[name], names[1])}) + "\n")
            sys.stdout.flush()
        return
    for name, told in outcomes_of([JOBS[name] for name in names], "spark"):
        keep(RECORDED, json.loads(RECORDED.read_text()) | {name: told})


if __name__ == "__main__":
    main(sys.argv[1:])
