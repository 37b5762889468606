"""Sources that are left as they are: trials go on from copies of the owner's checkpoint and tables (``--source keep``).

Rules of this file:

* What a program names is copied once, into a snapshot, when the first attempt names it; each trial begins with a copy of that.
* In a trial, paths below the owner's working directory are below the trial's; others below its `ROOT`.
* The files of a source are links, of the moment of the snapshot: new files do not come into a trial, and the kernel's fence lets
  nothing write through them. Where there is no fence, they are copied.
* Logs of Spark's that name files with a scheme name them in the trial.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from tempfile import mkdtemp
from typing import Any

from pyspark.sql import DataFrameReader, DataFrameWriter, SparkSession

from headrace_sim.spark.client.script_needs import ProgramError
from headrace_sim.spark.laboratory.places import (
    CHECKPOINTS,
    MOST_BYTES,
    OF_THIS_MACHINE,
    ROOT,
    copied,
    tell_paths,
    tree_size,
)
from headrace_sim.spark.refusals import shown_place, users_place
from headrace_sim.spark.sinks.processes import LetThrough
from headrace_sim.spark.sinks.sink_effects import EffectProbe, Returned, UntraceableEffect
from headrace_sim.spark.sinks.sink_runs import UnfollowableSinkError
from headrace_sim.spark.sinks.write_fence import has_fence
from headrace_sim.spark.spark_job import SparkJob, StreamSource

BY_CLOCK = frozenset({"rate", "ratestream"})
"""Sources whose rows say when they were made: no run has those of another."""
_ENDLESS = BY_CLOCK | {"rate-micro-batch", "ratepermicrobatch"}
_FROM_FILES = frozenset({
    "avro", "binaryfile", "csv", "delta", "hudi", "iceberg", "json", "org.apache.hudi", "orc", "parquet", "text", "xml",
})  # fmt: skip
_FAR = frozenset({"aws-kinesis", "eventhubs", "kafka", "kinesis", "pubsub", "pulsar"})
_WAREHOUSE = "spark-warehouse"
_BESIDE = ("", "-wal", "-journal")
"""What a file may have beside it that belongs to it: SQLite's logs."""
_PATTERN = re.compile(r"[*?{\[]")
_LOGS = ("sources/*/*", "state/**/_metadata/**/*", "_spark_metadata/*")
_QUOTED = re.compile(r"""['"`](/[^'"`]+)['"`]""")
_SCHEME = re.compile(r"(?!file:)[a-z][\w+.-]+:/")


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """The owner's files, as trials have them."""

    home: Path  # the owner's working directory
    snapshot: Path  # where copies of them are, which trials begin with
    checkpoint: str  # that of the query, as its program names it, or ""
    begins: int  # the first batch that trials run
    batches: int  # how many they run, at most
    # whether its source makes rows as long as it is asked, and its function can end the query. Else Spark ends it with what
    # is there
    is_endless: bool
    sources: tuple[Path, ...]  # the directories and files that its sources read
    digests: Mapping[str, str]  # of checkpoint and sources, as `digests_of` returned them for the snapshot

    @property
    def notes(self) -> Iterator[str]:
        """Say what of the owner's is read where it is."""
        for path in self.sources:
            place = self.snapshot / self.place(path)
            links = sum(file.is_symlink() for file in ([place] if place.is_symlink() else place.rglob("*")))
            name = path.relative_to(self.home) if path.is_relative_to(self.home) else path
            if links:
                yield f"{name} was read where it is, as it was: {links} file{'s' * (links != 1)}"

    def another(self, folder: Path) -> "KeptFiles":
        """Return it with a snapshot of its own, within a folder: for another Java."""
        own = Path(mkdtemp("-kept", dir=folder))
        shutil.copytree(self.snapshot, own, symlinks=True, dirs_exist_ok=True)
        return replace(self, snapshot=own)

    def absolute(self, name: str, folder: Path | None = None) -> Path:
        """Return the path of the owner's that a name is of. ``folder``: that of the trial in which it is named."""
        plain = Path(OF_THIS_MACHINE.sub("", name))
        if folder is not None and plain.is_relative_to(folder):
            plain = plain.relative_to(folder)
        return Path(os.path.normpath(self.home / plain))

    def end_behind(self, batch: int, probe: EffectProbe) -> None:
        """End this process, a driver, well, if a batch begins that is one too many."""
        if batch >= self.begins + self.batches:
            probe.ledger.append(Returned(probe.attempt, -1))
            os._exit(0)

    def place(self, path: Path) -> Path:
        """Return where a path of the owner's is in a trial, relative to the trial's working directory."""
        if path.is_relative_to(self.home / _WAREHOUSE):
            return Path(ROOT, "warehouse", path.relative_to(self.home / _WAREHOUSE))
        return path.relative_to(self.home) if path.is_relative_to(self.home) else Path(ROOT, *path.parts[1:])

    def begin(self, folder: Path, name: str) -> None:
        """Give a trial its copies. ``name``: of the file system that it has.

        Raise `UnfollowableSinkError` if what they are of has changed since.
        """
        now = digests_of(
            self.home, self.checkpoint, [self.snapshot / self.place(path) for path in self.sources]
        )
        for what in (what for what, digest in now.items() if digest != self.digests[what]):
            name = self.checkpoint if what == "checkpoint" else "what a source had read"
            remedy = "stop the query that uses it, or let the program work on a copy of all"
            raise UnfollowableSinkError(f"{name} changed while its trials ran: {remedy}")
        shutil.copytree(self.snapshot, folder, symlinks=True, dirs_exist_ok=True)
        for log in (path for pattern in _LOGS for path in folder.rglob(pattern)):
            if log.is_file() and not log.is_symlink() and b"file:/" in (text := log.read_bytes()):
                log.write_bytes(re.sub(rb"file:(?://)?(?=/)", f"viewfs://{name}".encode(), text))


def kept(
    job: SparkJob, home: Path, folder: Path, batches: int, lets: Collection[LetThrough] = ()
) -> KeptFiles:
    """Copy what a query is known to name, and return it.

    ``home``: the owner's working directory. ``folder``: where the snapshot is made. ``batches``: how many are run, at most.
    ``lets``: what trials do outside them. Raise `ProgramError` if a source cannot be left as it is, or something is too large
    to be copied.
    """
    snapshot, checkpoint = Path(mkdtemp("-kept", dir=folder)), _checkpoint_of(job)
    (snapshot / ROOT).mkdir()
    for source in job.sources if LetThrough.NETWORK not in lets else ():
        if source.format.lower() in _FAR:
            problem = f"{source.label} of {source.format} is on another machine, which --allow-network lets trials reach"
            _refuse(problem, source.place)
    sources = _sources_of(job, home)
    before = digests_of(home, checkpoint, ())
    whole = KeptFiles(home, snapshot, checkpoint, 0, batches, False, sources, {})
    cleaned = any(name.lower() == "cleansource" for source in job.sources for name, _ in source.options)
    copied(home, snapshot, {*sources, home / _WAREHOUSE, whole.absolute(checkpoint)})
    for path in sources:
        _take(path, snapshot / whole.place(path), linked=has_fence() and not cleaned)
    for name in filter(None, (checkpoint, job.sink.target)):
        if not _SCHEME.match(name):
            _take(whole.absolute(name), snapshot / whole.place(whole.absolute(name)))
    _take(home / _WAREHOUSE, snapshot / whole.place(home / _WAREHOUSE))
    digests = digests_of(home, checkpoint, [snapshot / whole.place(path) for path in sources])
    if digests.get("checkpoint") != before.get("checkpoint"):
        problem = f"{checkpoint} changed while it was copied"
        raise ProgramError(problem, shown_place(job.sink.place), "Stop the query that uses it")
    formats = {source.format.lower() for source in job.sources}
    is_endless = bool(formats & _ENDLESS) and job.sink.function is not None
    begins = _committed(home, checkpoint) + 1
    return replace(whole, begins=begins, is_endless=is_endless, digests=digests)


@dataclass(frozen=True, slots=True)
class KeptTrial:
    """What an attempt does with the owner's files."""

    kept: KeptFiles  # they
    folder: Path  # the trial's working directory
    probe: EffectProbe  # of the attempt, which does not see what is copied

    def __post_init__(self) -> None:
        """Let effects be told relative to the owner's directory."""
        self.probe.home = f"{self.kept.home}{os.sep}"

    def bring(self, path: Path) -> None:
        """Copy what the program names now for the first time. Raise `ProgramError` if it is too large."""
        place = self.kept.place(path)
        if os.path.lexists(self.folder / place) or path.is_relative_to(self.folder.parent):
            return
        with self.probe.unseen():
            for end in _BESIDE if S_ISREG(_mode(path)) else _BESIDE[:1]:
                of_all, of_trial = (root / f"{place}{end}" for root in (self.kept.snapshot, self.folder))
                try:
                    _take(path.with_name(f"{path.name}{end}"), of_all)
                except ProgramError as error:
                    self.probe.ledger.append(UntraceableEffect(str(error)))
                    raise
                _take(of_all, of_trial)

    def moved(self, name: str, *, changes: bool) -> str:
        """Return where a path is that Python opens or changes: a copy in the trial, or, if it is only read, the owner's."""
        path = self.kept.absolute(name, self.folder)
        ours = self.folder / self.kept.place(path)
        if not _mode(ours) and _mode(path) and not changes:
            return str(path)
        if changes and S_ISREG(_mode(path)):
            self.bring(path)
        elif changes and S_ISDIR(_mode(path.parent)):
            with self.probe.unseen():
                (ours if S_ISDIR(_mode(path)) else ours.parent).mkdir(parents=True, exist_ok=True)
        return str(ours) if name.startswith("/") else name

    def named(self, name: str) -> None:
        """Copy what Spark is told to read or write, if it is on this disk."""
        if not _SCHEME.match(name):
            self.bring(self.kept.absolute(name, self.folder))


_really_stat = os.stat
"""Which a trial redirects."""


def _mode(path: Path) -> int:
    """Return what a path is of; 0: of nothing."""
    try:
        return _really_stat(path).st_mode
    except OSError:
        return 0


def watch_named(trial: KeptTrial) -> None:
    """Copy what this process lets Spark read or write by its path into its trial, irreversibly."""
    for kind in (DataFrameReader, DataFrameWriter):
        tell_paths(kind, trial.named)
    really_sql = SparkSession.sql

    def sql(self: SparkSession, text: str, *args: Any, **options: Any) -> Any:
        for path in _QUOTED.findall(text):
            trial.named(path)
        return really_sql(self, text, *args, **options)

    SparkSession.sql = sql


def digests_of(home: Path, checkpoint: str, sources: Iterable[Path]) -> dict[str, str]:
    """Return what says in a few letters how a checkpoint and the files of sources are now."""
    last = _committed(home, checkpoint)
    listed = sorted(file for path in sources for file in _files_in(path))
    digests = {"sources": f"{len(listed)} files ({_digest(listed)})"}
    if checkpoint:
        place = home / OF_THIS_MACHINE.sub("", checkpoint)
        logs = sorted(path for log in ("commits", "offsets") for path in _files_in(place / log))
        digests["checkpoint"] = f"batch {last} ({_digest(logs)})" if logs else "new"
    return digests


def _digest(files: Iterable[Path]) -> str:
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(repr(stats).encode()).hexdigest()[:8]


def _files_in(path: Path) -> Iterator[Path]:
    paths = path.rglob("*") if path.is_dir() else [path]
    return (file for file in paths if file.is_file() and not file.name.startswith("."))


def _committed(home: Path, checkpoint: str) -> int:
    """Return the last batch that a checkpoint has as done; -1: none."""
    commits = home / OF_THIS_MACHINE.sub("", checkpoint or "/dev/null") / "commits"
    return max((int(path.name) for path in commits.glob("*") if path.name.isdigit()), default=-1)


def _checkpoint_of(job: SparkJob) -> str:
    option = {name.lower(): value for name, value in job.sink.options}.get("checkpointlocation", "")
    base = "" if option or job.state is None else job.state.settings.values.get(CHECKPOINTS, "")
    named = option or (f"{base}/{job.sink.name}" if base and job.sink.name else "")
    if _SCHEME.match(named):
        _refuse(f"its checkpoint {named} is not on this disk", job.sink.place)
    return named


def digests_of_query(job: SparkJob, home: Path) -> dict[str, str]:
    """Return those of a query's checkpoint and sources. Raises as `kept` does."""
    return digests_of(home, _checkpoint_of(job), _sources_of(job, home))


def _sources_of(job: SparkJob, home: Path) -> tuple[Path, ...]:
    if not job.sources:
        _refuse("a function of a batch has no source", job.sink.place)
    return tuple(dict.fromkeys(path for source in job.sources for path in _read_by(source, home)))


def _read_by(source: StreamSource, home: Path) -> Iterator[Path]:
    """Yield what a source reads of this disk. Raise `ProgramError` if it cannot be left as it is."""
    format_ = source.format.lower()
    if not format_:
        _refuse(f"{source.label} is a parameter, and no source of its own", source.place)
    if format_ == "socket":
        _refuse("a socket gives no row twice", source.place)
    if _SCHEME.match(source.path):
        _refuse(f"{source.path} is not on this disk", source.place)
    if format_ in _FROM_FILES and source.path:
        path = Path(os.path.normpath(home / OF_THIS_MACHINE.sub("", source.path)))
        while _PATTERN.search(str(path)):
            path = path.parent
        yield path


def _refuse(problem: str, place: str) -> None:
    remedy = "Leave --source keep out: then drawn or sampled rows come in its place"
    raise ProgramError(problem, shown_place(place), remedy)


def _take(path: Path, into: Path, *, linked: bool = False) -> None:
    """Copy a file or a directory, or link its files, unless it is there. Raise `ProgramError` if it is too large."""
    if not path.exists() or os.path.lexists(into):
        return
    if not linked and (size := tree_size(path)) > MOST_BYTES:
        problem = f"{path} has {size:,} bytes, and each trial has a copy of at most {MOST_BYTES:,}"
        remedy = "Let the program work on a smaller copy, such as the newest partition"
        place = users_place()
        raise ProgramError(problem, "" if place.startswith("unknown") else shown_place(place), remedy)
    into.parent.mkdir(parents=True, exist_ok=True)
    copy = _linked if linked else _copy
    if path.is_dir():
        left_out = shutil.ignore_patterns(".*.crc")
        shutil.copytree(path, into, symlinks=True, ignore=left_out, copy_function=copy, dirs_exist_ok=True)
    else:
        copy(str(path), str(into))


def _copy(path: str, into: str) -> None:
    shutil.copy2(path, into, follow_symlinks=False)


def _linked(path: str, into: str) -> None:
    """Link a file; copy one of a log that names others."""
    if Path(path).parent.name == "_spark_metadata":
        _copy(path, into)
    else:
        Path(into).symlink_to(path)
