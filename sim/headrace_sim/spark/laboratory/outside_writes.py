"""Writes that no trial can have for itself: those of connectors and catalogs whose data is not in files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from headrace.api.errors import HeadraceError
from headrace_sim.spark.refusals import shown_place, users_place
from headrace_sim.spark.sinks.sink_effects import EffectProbe, UntraceableEffect

_IN_FILES = frozenset(
    {
        "", "avro", "binaryfile", "console", "csv", "delta", "hudi", "iceberg", "json", "memory", "noop", "orc",
        "org.apache.hudi", "parquet", "text", "xml",
    }
)  # fmt: skip
"""The formats of data in files or in memory, of which each trial has its own."""
_CATALOGS_IN_FILES = ("DeltaCatalog", "HoodieCatalog", "InMemoryTableCatalog")


class OutsideWriteError(HeadraceError):
    """A program writes to what all trials would share. Fields: target, place."""

    def __init__(self, target: str, place: str) -> None:
        super().__init__(target, place)
        self.target, self.place = target, place

    def __str__(self) -> str:
        """Name it, and the option."""
        what = f"{shown_place(self.place)}: the sink writes to {self.target}"
        return f"{what}, which no trial can have for itself: --allow-writes lets it"


@dataclass(frozen=True, slots=True)
class OutsideWrites:
    """Refuses what this process would write outside its trial."""

    probe: EffectProbe  # its own
    spark: SparkSession  # its session
    is_let: bool  # whether its owner lets it
    has_postgres: bool  # whether the trial has a PostgreSQL, whatever host is named
    # the formats that the program registers, whose code is in Python and runs in the trial
    own: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Hear of formats that are registered, from PySpark 4.0 on."""
        if hasattr(self.spark, "dataSource"):
            registration = type(self.spark.dataSource)
            really = registration.register

            def register(self_: Any, source: Any) -> None:
                self.own.add(source.name().lower())
                really(self_, source)

            registration.register = register

    def refuse(self, options: Mapping[str, Any], table: str = "") -> None:
        """Raise `OutsideWriteError` if a writer with these options, its format included, writes outside. ``table``: its name."""
        if self.is_let:
            return
        target = self._of_connector(options) or (self._of_catalog(table) if table else "")
        if target:
            error = OutsideWriteError(target, users_place())
            self.probe.ledger.append(UntraceableEffect(str(error)))
            raise error

    def _of_connector(self, options: Mapping[str, Any]) -> str:
        format_, url = str(options.get("format") or "").lower(), str(options.get("url") or "")
        if not url.startswith("jdbc:"):
            return "" if format_ in _IN_FILES | self.own else format_
        is_ours = self.has_postgres and url.startswith("jdbc:postgresql:")
        return "" if is_ours else url.partition("?")[0].partition(";")[0]

    def _of_catalog(self, table: str) -> str:
        first, dot, _ = table.replace("`", "").partition(".")
        settings = self.spark.conf
        for catalog in (*[first] * bool(dot), self.spark.catalog.currentCatalog()):
            if implementation := settings.get(f"spark.sql.catalog.{catalog}", ""):
                of_files = settings.get(f"spark.sql.catalog.{catalog}.type", "") == "hadoop"
                is_ours = of_files or str(implementation).endswith(_CATALOGS_IN_FILES)
                return "" if is_ours else f"{table} of the catalog {catalog}"
        return ""
