"""What a repeated write does follows the connector, its mode and its options; what is not known is asked."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import functions as F

from headrace_properties.sinks import SinkReport, UnfollowableSinkError, Wrong, check_sink
from headrace_sim.spark.tables.connectors import CONNECTORS, Guarantee, Repeated, guarantee
from tests.nights import others_at_night
from tests.sim.spark.apart import call

_ROWS = [[(1, 1.0), (2, 2.0)]]
_SCHEMA = "id INT, v DOUBLE"
_ES, _HUDI, _DROP = "org.elasticsearch.spark.sql", "hoodie.datasource.write.", "insert.drop.duplicates"
_BY_KEY: list[tuple[str, str, dict[str, str]]] = [
    ("org.apache.spark.sql.cassandra", "append", {"table": "t", "keyspace": "k"}),
    (_ES, "append", {"es.mapping.id": "id"}),
    ("es", "append", {"es.mapping.id": "id", "es.write.operation": "upsert"}),
    ("hudi", "append", {f"{_HUDI}operation": "upsert", f"{_HUDI}recordkey.field": "id"}),
    ("hudi", "append", {f"{_HUDI}recordkey.field": "id"}),
    ("hudi", "append", {f"{_HUDI}operation": "insert", f"{_HUDI}{_DROP}": "true", f"{_HUDI}recordkey.field": "id"}),
    ("mongodb", "append", {"idFieldList": "id", "collection": "t"}),
    ("opensearch", "append", {"opensearch.mapping.id": "id", "opensearch.write.operation": "upsert"}),
    ("org.apache.spark.sql.redis", "append", {"table": "t", "key.column": "id"}),
    ("cosmos.oltp", "append", {"spark.cosmos.container": "t"}),
    ("org.neo4j.spark.DataSource", "overwrite", {"labels": ":T", "node.keys": "id"}),
    ("kudu", "append", {"kudu.table": "t"}),
]  # fmt: skip
_ADDING: list[tuple[str, dict[str, str], str]] = [
    ("parquet", {}, "partition of the batch id"),
    ("delta", {}, "txnAppId"),
    ("iceberg", {}, "overwritePartitions"),
    (_ES, {}, "es.mapping.id"),
    ("hudi", {f"{_HUDI}operation": "bulk_insert", f"{_HUDI}recordkey.field": "id"}, "operation upsert"),
    ("mongodb", {"collection": "t"}, "idFieldList"),
    ("mongodb", {"collection": "t", "operationType": "insert", "idFieldList": "id"}, "idFieldList"),
    ("jdbc", {"dbtable": "t"}, "staging table"),
    ("kafka", {"topic": "t"}, "let readers drop"),
    ("opensearch", {"opensearch.write.operation": "index"}, "opensearch.mapping.id"),
    ("mongo", {"collection": "t"}, "_id"),
    ("snowflake", {"dbtable": "t"}, "staging table"),
    ("bigquery", {"table": "t"}, "staging table"),
    ("redis", {"table": "t"}, "key.column"),
    ("org.neo4j.spark.DataSource", {"labels": ":T"}, "node.keys"),
]


def _written(source: str, mode: str, options: dict[str, str]) -> Callable[..., None]:
    return lambda df, batch_id: df.write.format(source).mode(mode).options(**options).save()


def _check(sink: Callable[..., Any], rows: Any = _ROWS, **options: Any) -> SinkReport:
    return call(check_sink, sink, rows, _SCHEMA, **options)


def _known(source: str, mode: str, options: dict[str, str], column: str = "v") -> Guarantee:
    return guarantee(
        source.lower(),
        mode,
        {name.lower(): value for name, value in options.items()},
        ("id", column.lower()),
        None,
    )


def test_table_says_what_each_connector_does() -> None:
    for source, mode, options in _BY_KEY:
        known = _known(source, mode, options)
        assert (known.repeated is Repeated.ADDS, "is not known" in known.question) == (False, False), source
    for source, options, remedy in _ADDING:
        known = _known(source, "append", options)
        assert (known.repeated, known.question, remedy in known.remedy) == (Repeated.ADDS, "", True), source
    for source, options, column in _ASKED:
        assert f"What {source} does is not known" in _known(source, "append", options, column).question


@pytest.mark.parametrize(("source", "mode", "options"), others_at_night(_BY_KEY[:2], _BY_KEY))
def test_connector_that_writes_by_key_holds(source: str, mode: str, options: dict[str, str]) -> None:
    assert _check(_written(source, mode, options)).holds


@pytest.mark.parametrize(("source", "options", "remedy"), others_at_night(_ADDING[:2], _ADDING))
def test_connector_that_adds_rows_is_named_with_a_remedy_that_it_has(
    source: str, options: dict[str, str], remedy: str
) -> None:
    (finding,) = _check(_written(source, "append", options)).findings
    assert finding.wrong is Wrong.TWICE
    assert remedy in finding.remedy


def test_store_that_takes_a_key_once_only_stops_the_batch_that_runs_again() -> None:
    sink = _written(_ES, "append", {"es.mapping.id": "id", "es.write.operation": "create"})
    assert {finding.wrong for finding in _check(sink).findings} == {Wrong.STUCK}


def test_older_row_replaces_the_newer_one_unless_the_connector_compares_them() -> None:
    key = {f"{_HUDI}recordkey.field": "id"}
    older_last = [[(1, 2.0), (1, 1.0)]]
    assert not _check(_written("hudi", "append", key), older_last).holds
    ordered = key | {"hoodie.table.ordering.fields": "id, v"}
    assert _check(_written("hudi", "append", key | {f"{_HUDI}precombine.field": "v"}), older_last).holds
    assert _check(_written("hudi", "append", ordered), older_last).holds
    by_commit = ordered | {"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"}
    assert not _check(_written("hudi", "append", by_commit), older_last).holds


def test_unknown_connector_is_asked_about_and_declared() -> None:
    sink = _written("com.acme.store", "append", {"table": "t"})
    report = _check(sink)
    assert report.findings == ()
    (why,) = map(str, report.questions)
    assert "t: is a second write of the same row a second row? What com.acme.store does is not known" in why
    assert "--keys t=column,..." in why
    assert _check(sink, keys={"t": ["id"]}).holds
    assert {finding.wrong for finding in _check(sink, keys={"t": []}).findings} == {Wrong.TWICE}
    with pytest.raises(UnfollowableSinkError, match=r"a key is declared of 'other'.* Its tables: t"):
        _check(sink, keys={"other": ["id"]})


_ASKED = [
    (
        _ES,
        {
            "es.mapping.id": "id",
            "es.write.operation": "upsert",
            "es.update.script.inline": "ctx._source.n += 1",
        },
        "v",
    ),
    ("opensearch", {"opensearch.mapping.id": "id", "opensearch.write.operation": "delete"}, "v"),
    ("redshift", {"dbtable": "t", "preactions": "DELETE FROM t WHERE batch = 1"}, "v"),
    ("snowflake", {"dbtable": "staged", "postactions": "MERGE INTO t USING staged"}, "v"),
    ("bigquery", {"table": "t", "writeAtLeastOnce": "true"}, "_CHANGE_TYPE"),
    ("cosmos.oltp", {"spark.cosmos.container": "t"}, "operationType"),
    ("cosmos.oltp", {"spark.cosmos.container": "t", "spark.cosmos.write.strategy": "ItemPatch"}, "v"),
    ("kudu", {"kudu.table": "t", "kudu.operation": "insert"}, "v"),
    ("mongo", {"collection": "t", "shardKey": '{"id": 1}'}, "v"),
    ("hudi", {f"{_HUDI}recordkey.field": "id", f"{_HUDI}payload.class": "com.acme.Sum"}, "v"),
    ("hudi", {f"{_HUDI}recordkey.field": "id", "hoodie.datasource.insert.dup.policy": "drop"}, "v"),
    ("dev.mauch.spark.excel", {"path": "t"}, "v"),
]


@pytest.mark.parametrize(("source", "options", "column"), others_at_night(_ASKED[:2], _ASKED))
def test_option_or_column_that_changes_what_a_write_does_is_asked_about(
    source: str, options: dict[str, str], column: str
) -> None:
    report = call(check_sink, _written(source, "append", options), _ROWS, f"id INT, {column} DOUBLE")
    assert report.findings == ()
    assert f"What {source} does is not known" in str(report.questions[0])


def test_old_mongo_connector_replaces_by_id_unless_it_is_told_to_insert() -> None:
    again = {"collection": "t", "forceInsert": "true"}
    for options, wrong in (({"collection": "t"}, set()), (again, {Wrong.STUCK})):
        report = call(check_sink, _written("mongo", "append", options), _ROWS, "_id INT, v DOUBLE")
        assert {finding.wrong for finding in report.findings} == wrong


def test_key_that_the_table_alone_knows_is_asked_for_where_it_matters() -> None:
    def stamped(df: Any, batch_id: int) -> None:
        _written("cassandra", "append", {"table": "t"})(df.withColumn("at", F.current_timestamp()), batch_id)

    assert "which columns are its key?" in str(_check(stamped).questions[0])
    assert _check(stamped, keys={"t": ["id"]}).holds


def test_overwriting_what_matches_a_condition_is_idempotent() -> None:
    def of_the_batch(df: Any, batch_id: int) -> None:
        tagged = df.withColumn("batch", F.lit(batch_id))
        tagged.write.format("delta").mode("overwrite").option("replaceWhere", f"batch = {batch_id}").save("t")

    assert _check(of_the_batch).holds


def test_each_row_of_the_table_has_a_source_and_what_adds_rows_a_remedy() -> None:
    for row in CONNECTORS:
        assert row.source.startswith("https://")
        assert bool(row.remedy) == (row.repeated is Repeated.ADDS)
