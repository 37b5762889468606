"""Clients that are missing: what is in their store after a write, and after the same write once more."""

import importlib
import io
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

from headrace_properties.sinks import check_sink
from headrace_sim.spark.client.script_needs import stand_ins
from headrace_sim.spark.refusals import CannotFollowError
from headrace_sim.spark.sinks.sink_effects import Effect
from headrace_sim.spark.sinks.store_clients import stored, stored_objects
from headrace_sim.spark.stores.client_objects import StoresOfProgram, record_with
from headrace_sim.spark.stores.http_calls import HttpSession
from headrace_sim.spark.stores.redis_commands import RedisCommands, carried_out, kept_keys

ROW = {"account": "ann", "amount": 7}
AT = datetime(2030, 1, 1)


@pytest.fixture(autouse=True)
def missing() -> Iterator[None]:
    """Put stand-ins in the place of the modules."""
    with stand_ins():
        yield


def of(module: str) -> Any:
    return importlib.import_module(module)


def _mongo() -> Any:
    return of("pymongo").MongoClient("mongodb://m")["shop"].orders


def _mongo_bulk() -> None:
    from pymongo import UpdateOne  # noqa: PLC0415  as people write it

    _mongo().bulk_write([UpdateOne({"_id": "ann"}, {"$set": {"amount": 7}}, upsert=True)])


def _elastic() -> Any:
    return of("elasticsearch").Elasticsearch("http://e")


def _bulk(**meta: str) -> None:
    from elasticsearch import helpers  # noqa: PLC0415  as people write it

    helpers.bulk(_elastic(), ({"_index": "orders", **meta, "_source": ROW} for _ in "1"))


def _dynamo() -> Any:
    return of("boto3").resource("dynamodb").Table("orders")


def _dynamo_batch() -> None:
    with _dynamo().batch_writer(overwrite_by_pkeys=["account"]) as batch:
        batch.put_item(Item=ROW)


def _adds_in_dynamo(expression: str) -> None:
    _dynamo().update_item(
        Key={"account": "ann"}, UpdateExpression=expression, ExpressionAttributeValues={":n": 7, ":zero": 0}
    )


def _s3(key: str) -> None:
    of("boto3").client("s3").put_object(Bucket="lake", Key=key, Body=b'{"account": "ann"}')


def _minio(name: str) -> None:
    client = of("minio").Minio("minio:9000", "key", "word", secure=False)
    if not client.bucket_exists("lake"):
        client.make_bucket("lake")
    with pytest.raises(of("minio.error").S3Error):
        client.stat_object("lake", f"{name}/none")
    data = io.BytesIO(b'{"account": "ann"}')
    client.put_object("lake", name, data, length=18, content_type="application/json")
    assert client.get_object("lake", name).data == data.getvalue()
    assert [found.object_name for found in client.list_objects("lake", prefix="a")] == [name]


def _sqs(**options: str) -> None:
    of("boto3").client("sqs").send_message(QueueUrl="https://sqs/1/orders", MessageBody="ann", **options)


def _cassandra(statement: str, *values: Any) -> None:
    session = of("cassandra.cluster").Cluster(["c"]).connect("bank")
    session.execute("CREATE TABLE IF NOT EXISTS t (account text PRIMARY KEY, amount int, at uuid)")
    session.execute(session.prepare(statement), values)


def _influx(at: Any) -> None:
    from influxdb_client import InfluxDBClient, Point  # noqa: PLC0415  as people write it
    from influxdb_client.client.write_api import SYNCHRONOUS  # noqa: PLC0415

    point = Point("views").tag("page", "home").field("n", 7)
    InfluxDBClient(url="u").write_api(write_options=SYNCHRONOUS).write(
        bucket="b", record=point.time(at) if at else point
    )


def _firestore(write: Callable[[Any], Any]) -> None:
    write(of("google.cloud.firestore").Client().collection("accounts"))


def _cosmos(write: Callable[[Any], Any]) -> None:
    client = of("azure.cosmos").CosmosClient("u", credential="k")
    write(client.get_database_client("shop").get_container_client("orders"))


def _event_hub() -> None:
    from azure.eventhub import EventData, EventHubProducerClient  # noqa: PLC0415  as people write it

    producer = EventHubProducerClient.from_connection_string("c", eventhub_name="orders")
    with producer:
        batch = producer.create_batch()
        batch.add(EventData("ann"))
        producer.send_batch(batch)


def _hbase(write: Callable[[Any], Any]) -> None:
    write(of("happybase").Connection("h").table("orders"))


def _redis(write: Callable[[Any], Any]) -> None:
    pipeline = of("redis").Redis(host="r").pipeline()
    write(pipeline)
    pipeline.execute()


KEPT: dict[str, Callable[[], Any]] = {
    "insert_one with _id": lambda: _mongo().replace_one({"_id": "ann"}, ROW, upsert=True),
    "bulk_write of upserts": _mongo_bulk,
    "index with id": lambda: _elastic().index(index="orders", id="ann", document=ROW),
    "helpers.bulk with _id": lambda: _bulk(_id="ann"),
    "put_item": lambda: _dynamo().put_item(Item=ROW),
    "batch_writer": _dynamo_batch,
    "update_item SET": lambda: _adds_in_dynamo("SET amount = :n"),
    "put_object": lambda: _s3("ann.json"),
    "put_object of minio": lambda: _minio("ann.json"),
    "send_message with an id": lambda: _sqs(MessageDeduplicationId="1"),
    "CQL INSERT": lambda: _cassandra("INSERT INTO t (account, amount) VALUES (?, ?)", "ann", 7),
    "a point with its time": lambda: _influx(AT),
    "document.set": lambda: _firestore(lambda rows: rows.document("ann").set(ROW)),
    "upsert_item": lambda: _cosmos(lambda rows: rows.upsert_item({"id": "ann", **ROW})),
    "HBase put": lambda: _hbase(lambda table: table.put(b"ann", {b"f:amount": b"7"})),
    "HSET": lambda: _redis(lambda client: client.hset("accounts", mapping=ROW)),
}
DOUBLED: dict[str, Callable[[], Any]] = {
    "insert_one": lambda: _mongo().insert_one(dict(ROW)),
    "$inc": lambda: _mongo().update_one({"_id": "ann"}, {"$inc": {"amount": 7}}, upsert=True),
    "index": lambda: _elastic().index(index="orders", body=ROW),
    "helpers.bulk": _bulk,
    "update_item ADD": lambda: _adds_in_dynamo("ADD amount :n"),
    "update_item SET n + 1": lambda: _adds_in_dynamo("SET amount = if_not_exists(amount, :zero) + :n"),
    "send_message": _sqs,
    "put_record": lambda: of("boto3").client("kinesis").put_record(StreamName="s", Data=b"ann", PartitionKey="ann"),
    "CQL counter": lambda: _cassandra("UPDATE t SET amount = amount + ? WHERE account = ?", 7, "ann"),
    "CQL uuid()": lambda: _cassandra("INSERT INTO t (account, at) VALUES (uuid(), now())"),
    "a point without a time": lambda: _influx(None),
    "document.add": lambda: _firestore(lambda rows: rows.add(ROW)),
    "Increment": lambda: _firestore(
        lambda rows: rows.document("ann").set({"n": of("google.cloud.firestore").Increment(7)}, merge=True)
    ),
    "insert_rows_json": lambda: of("google.cloud.bigquery").Client().insert_rows_json("d.t", [ROW]),
    "publish": lambda: of("google.cloud.pubsub_v1").PublisherClient().publish("projects/p/topics/t", b"ann").result(),
    "create_item": lambda: _cosmos(lambda rows: rows.create_item(ROW)),
    "send_batch": _event_hub,
    "counter_inc": lambda: _hbase(lambda table: table.counter_inc(b"ann", b"f:n")),
    "HINCRBY": lambda: _redis(lambda client: client.hincrby("accounts", "ann", 7)),
    "produce": lambda: of("confluent_kafka").Producer({}).produce("orders", key="ann", value="7"),
}  # fmt: skip


def _left(write: Callable[[], Any], times: int) -> Any:
    stores = StoresOfProgram()
    record_with(stores)
    for _ in range(times):
        write()
    effects = [Effect(0, 0, action, "", "", payload=made) for action, made in stores.writes]
    return stored(effects), stored_objects(effects)


@pytest.mark.parametrize(
    ("client", "name"), [("requests", "Session"), ("requests", "session"), ("httpx", "Client")]
)
def test_a_session_is_called_as_its_client_calls_it(client: str, name: str) -> None:
    assert isinstance(getattr(of(client), name)(), HttpSession)


@pytest.mark.parametrize("name", [*KEPT, *DOUBLED])
def test_a_second_write_does_what_the_store_documents(name: str) -> None:
    write = (KEPT | DOUBLED)[name]
    once, twice = _left(write, 1), _left(write, 2)
    assert any(once)
    assert (once == twice) is (name in KEPT)


@pytest.mark.parametrize(
    "call",
    [
        lambda: _mongo().aggregate([]),
        lambda: _mongo().update_one({"n": {"$gt": 1}}, {"$set": {"a": 1}}),
        lambda: of("pymongo").ASCENDING(),
        lambda: _dynamo().put_item(Item=ROW, ConditionExpression="attribute_not_exists(account)"),
        lambda: of("boto3").client("glue"),
        lambda: _cassandra("TRUNCATE t"),
    ],
    ids=["aggregate", "filter", "name", "condition", "service", "statement"],
)
def test_what_the_table_lacks_is_refused_by_name_and_place(call: Callable[[], Any]) -> None:
    with pytest.raises(CannotFollowError, match=r"test_client_table.py:\d+: cannot follow .*--stand-in"):
        call()


def test_errors_of_a_client_are_caught_by_the_names_of_its_module() -> None:
    from pymongo.errors import DuplicateKeyError, PyMongoError  # noqa: PLC0415  as people write it

    _mongo().insert_one({"_id": "eve"})
    with pytest.raises(DuplicateKeyError):
        _mongo().insert_one({"_id": "eve"})
    with pytest.raises(PyMongoError):
        _mongo().insert_one({"_id": "eve"})


def _keyed(df: Any, batch_id: int) -> None:
    collection = _mongo()
    for number, row in enumerate(sorted(df.collect())):
        collection.replace_one({"_id": f"{batch_id}-{number}"}, row.asDict(), upsert=True)


def _swallows(df: Any, batch_id: int) -> None:
    from pymongo.errors import PyMongoError  # noqa: PLC0415  as people write it

    try:
        _keyed(df, batch_id)
    except PyMongoError:
        return


def _clocked(df: Any, batch_id: int) -> None:
    table = _dynamo()
    for row in df.collect():
        table.put_item(Item={**row.asDict(), "at": datetime.now().isoformat()})


@pytest.mark.parametrize(
    ("sink", "wrong", "asked"),
    [(_keyed, set(), set()), (_swallows, {"missing"}, set()), (_clocked, set(), {"keys"})],
)
def test_sinks_with_a_client_are_judged(
    sink: Callable[[Any, int], None], wrong: set[str], asked: set[str]
) -> None:
    report = check_sink(sink, [[("ann", 7)], [("bob", 1)]], "account STRING, amount INT", overtaken=False)
    assert {finding.wrong.value for finding in report.findings} == wrong
    assert ({question.about.value for question in report.questions}, report.unknown) == (asked, ())


def test_lists_of_redis_are_trimmed_and_read_by_places() -> None:
    pushed = (
        ("LPUSH", "alerts", "1", "2", "3", "4"),
        ("LTRIM", "alerts", "0", "-2"),
        ("LTRIM", "none", "0", "9"),
    )
    keys = kept_keys([RedisCommands(pushed)])
    assert keys == {"alerts": ["4", "3", "2"]}
    (replies, changes) = carried_out([("LRANGE", "alerts", "1", "5"), ("LRANGE", "none", "0", "-1")], keys)
    assert (replies, changes.commands) == ([["3", "2"], []], ())
