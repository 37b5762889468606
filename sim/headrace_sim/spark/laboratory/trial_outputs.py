"""What a trial of the laboratory left: files, databases, and directories that Spark wrote, as rows.

A directory of parts is one destination. Of a directory with a log of its own (``_spark_metadata``, ``_delta_log``) only what
the log counts is read, as any reader does; what lies in ``_temporary`` counts nowhere. Spark itself reads Iceberg's tables.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq
from pyarrow import orc

from headrace_sim.spark.laboratory.places import looked_at, shown
from headrace_sim.spark.sinks.sink_effects import Effect
from headrace_sim.spark.sinks.trial_contents import Item, Raw, items_of
from headrace_sim.spark.sinks.trial_contents import collected as collected_files

_LOGS = ("_spark_metadata", "_delta_log")
_ICEBERG = "metadata/version-hint.text"
"""What says which version of an Iceberg table counts, if no server does."""
_PART = re.compile(r"part-\d+")
_TABLES: Mapping[str, Callable[[Path], list[dict[str, object]]]] = {
    ".parquet": lambda path: pq.ParquetFile(path).read().to_pylist(),
    ".orc": lambda path: orc.ORCFile(path).read().to_pylist(),
}


@dataclass(frozen=True, slots=True)
class CsvHeader:
    """What is kept of a write whose files of CSV begin with the names of the columns."""


def collected(
    folder: Path,
    effects: list[Effect],
    known: Mapping[str, tuple[int, int]],
    read_iceberg: Callable[[str], list[Item]],
) -> Raw:
    """Return what is in a trial's folder, and in the stand-ins, by destination.

    ``folder``: its working directory. ``effects``: those of all attempts. ``known``: the files that were there before, by
    relative path. ``read_iceberg``: reads a table of Iceberg, of this path.
    """
    unchanged = {name for name, stat in looked_at(folder).items() if known.get(name) == stat}
    changed = [path for path in folder.rglob("part-*") if str(path.relative_to(folder)) not in unchanged]
    checkpoints = [path.parent for path in folder.rglob("metadata") if (path.parent / "offsets").is_dir()]
    tables = {_table_of(path, folder) for path in changed if path.is_file()}
    of_iceberg = [path.parent.parent for path in folder.rglob(_ICEBERG)]
    logged = (path.parent for name in _LOGS for path in folder.rglob(name))
    skipped = [*checkpoints, *tables, *of_iceberg, *logged]

    def counts(path: Path) -> bool:
        return str(path.relative_to(folder)) not in unchanged and not any(
            path.is_relative_to(place) for place in skipped
        )

    raw = {shown(name): items for name, items in collected_files(folder, effects, counts).items()}
    for place in of_iceberg:
        if str((place / _ICEBERG).relative_to(folder)) not in unchanged:
            name = shown(str(place.relative_to(folder)))
            raw[name] = read_iceberg(name)
    with_header = {effect.target for effect in effects if isinstance(effect.payload, CsvHeader)}
    for table in sorted(tables):
        if not any(table.is_relative_to(place) for place in checkpoints):
            name = shown(str(table.relative_to(folder)))
            rows = [_rows(path, table) for path in _parts(table)]
            read = _named if name in with_header else iter
            raw[name] = [item for items in rows for item in read(items)]
    return raw


def _named(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the rows of a part that begins with the names of their columns; those of its partition have theirs."""
    header, *rows = [*items] or [()]
    for row in rows:
        yield tuple(
            (name if place.startswith("column ") else place, value)
            for (place, name), (_, value) in zip(header, row, strict=True)
        )


def _table_of(part: Path, folder: Path) -> Path:
    """Return the directory of a table, of which a part may be in a directory of its partition."""
    place = part.parent
    while "=" in place.name and place != folder:
        place = place.parent
    within = next((parent for parent in place.parents if parent.name == "_temporary"), None)
    return place if within is None else within.parent


def _parts(table: Path) -> Iterator[Path]:
    """Yield the files of a table that count, in their order."""
    for name, read in (("_spark_metadata", _of_file_sink), ("_delta_log", _of_delta)):
        if (table / name).is_dir():
            yield from (path for path in read(table, table / name) if path.is_file())
            return
    for path in sorted(table.rglob("*")):
        *folders, name = path.relative_to(table).parts
        if path.is_file() and not name.startswith(("_", ".")) and all("=" in folder for folder in folders):
            yield path


def _of_file_sink(table: Path, log: Path) -> list[Path]:
    """Return the files that the log of Spark's file sink counts."""
    entries = sorted((path for path in log.iterdir() if path.stem.isdigit()), key=lambda path: int(path.stem))
    compacted = max((n for n, path in enumerate(entries) if path.suffix == ".compact"), default=0)
    lines = [line for path in entries[compacted:] for line in path.read_text().splitlines()[1:]]
    added = [json.loads(line) for line in lines]
    inside = (urlsplit(entry["path"]).path for entry in added if entry.get("action", "add") == "add")
    return [table / _below(unquote(path), table) for path in inside]


def _below(path: str, table: Path) -> str:
    return path.rpartition(f"/{table.name}/")[2]


def _of_delta(table: Path, log: Path) -> list[Path]:
    """Return the files of the latest version of a Delta table whose log has no checkpoint yet."""
    files: dict[str, None] = {}
    for version in sorted(log.glob("*.json")):
        for action in map(json.loads, version.read_text().splitlines()):
            if "add" in action:
                files[unquote(action["add"]["path"])] = None
            elif "remove" in action:
                files.pop(unquote(action["remove"]["path"]), None)
    return [table / path for path in files]


def _rows(path: Path, table: Path) -> Iterable[Item]:
    """Return the rows of a part, with the values of its partition."""
    partition = [tuple(part.split("=", 1)) for part in path.relative_to(table).parent.parts if "=" in part]
    added = tuple((name, repr(unquote(value))) for name, value in partition)
    suffix = next((suffix for suffix in path.suffixes if suffix in _TABLES), None)
    if suffix is not None:
        for row in _TABLES[suffix](path):
            yield tuple((name, repr(value)) for name, value in row.items()) + added
        return
    content = path.read_bytes()
    for item in items_of(content, path.suffix) if content else ():
        yield item + added if isinstance(item, tuple) else item
