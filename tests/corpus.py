"""Runs the corpus of streaming jobs: ``python -m tests.corpus [name ...]`` prints what is said of each, and the time.

``python -m tests.corpus --page`` pastes that into docs/reference/spark-corpus.md.

Each job runs in a copy of its folder, with the client modules beside it that its owner has installed.
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.properties.spark_jobs.corpus_table import CORPUS, FOLDER, CorpusJob

INSTALLED = FOLDER.with_name("corpus_modules")
"""What speaks to servers that are not there: psycopg2 and its like, as their users know them."""
PAGE = Path(__file__).parent.parent / "docs" / "reference" / "spark-corpus.md"
_FINDING = re.compile(r"^(?:VIOLATED|UNDECLARED): .*\(([^()]+)\)$", re.MULTILINE)
_REFUSED = re.compile(r"^UNKNOWN: .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CorpusVerdict:
    """What the command said of a job.

    Attributes:
        code: Its exit code.
        findings: The names of what it found.
        output: All that it printed.
        cpu_s: CPU time, seconds, of the command and its trials.

    """

    code: int
    findings: frozenset[str]
    output: str
    cpu_s: float

    @property
    def taken(self) -> bool:
        """Whether the job was judged at all."""
        return self.code in {0, 1, 3} and not _REFUSED.search(self.output)

    def is_right(self, job: CorpusJob) -> bool:
        """Return whether this is what is right to say."""
        return self.taken and (self.code, self.findings) == (job.code, frozenset(job.findings))


def verdict_of(job: CorpusJob, *options: str) -> CorpusVerdict:
    """Run ``headrace verify`` on a job in a process of its own. ``options``: further ones of the command."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "jobs"
        shutil.copytree(FOLDER, place)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        verify, *arguments = job.command()
        done = subprocess.run(
            [sys.executable, "-m", "headrace_cli", verify, *options, *arguments],
            cwd=place, env=os.environ | {"PYTHONPATH": str(INSTALLED), "COLUMNS": "1000"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return CorpusVerdict(done.returncode, frozenset(_FINDING.findall(done.stdout)), done.stdout, cpu_s)


def _line(job: CorpusJob, verdict: CorpusVerdict) -> str:
    names = ", ".join(sorted(verdict.findings))
    right = "yes" if verdict.is_right(job) else "no" if verdict.taken else "-"
    taken = "yes" if verdict.taken else "no"
    return f"| `{job.file}` | {taken} | {verdict.code} {names} | {right} | {verdict.cpu_s:.1f} | {job.why} |"


def table(jobs: Iterable[CorpusJob]) -> Iterator[str]:
    """Run jobs, and yield the lines of a table about them, each as soon as it is known."""
    judged: list[tuple[bool, bool]] = []
    yield "| job | taken | verdict | right | CPU, s | why |"
    yield "|---|---|---|---|--:|---|"
    for job in jobs:
        verdict = verdict_of(job)
        judged.append((verdict.taken, verdict.is_right(job)))
        yield _line(job, verdict)
    taken, right = map(sum, zip(*judged, strict=True))
    yield f"\n{taken} of {len(judged)} are taken as they are, and {right} are judged right."


def main(names: list[str]) -> None:
    """Print a table of the jobs of these names, or of all."""
    lines = []
    for line in table([CORPUS[name] for name in names if name != "--page"] or CORPUS.values()):
        print(line, flush=True)
        lines.append(f"{line}\n")
    if "--page" in names:
        text, _, _ = PAGE.read_text(encoding="utf-8").partition(lines[0])
        PAGE.write_text(text + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
