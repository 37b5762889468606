"""Boto3's calls: objects of S3, tables of DynamoDB, queues, topics and streams."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from headrace_sim.spark.stores.client_objects import (
    ClientKind,
    ClientObject,
    ClientReply,
    put_rows,
    refuse,
    several,
)
from headrace_sim.spark.stores.object_calls import DONE, S3, S3_BUCKET, S3_OBJECT
from headrace_sim.spark.stores.store_changes import StoreChange, add, matching, remove

Calls = Mapping[str, Callable[..., Any]]


def _table(at: ClientObject) -> str:
    return f"dynamodb: {at._names[-1]}"


def _plain(value: Any) -> Any:
    """Return a value of DynamoDB's low-level client, which wraps each in its type, as Python has it."""
    ((kind, inner),) = value.items()
    if kind in {"M", "L"}:
        return _plain_row(inner) if kind == "M" else [_plain(one) for one in inner]
    return inner


def _plain_row(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in row.items()}


def _put_item(at: ClientObject, Item: Any) -> ClientReply:
    put_rows(at, "put_item", _table(at), [Item])
    return DONE


_ASSIGNED = re.compile(r"\s*([\w.#]+)\s*=\s*(?:(if_not_exists\s*\(.*\)|[\w.#]+)\s*\+\s*)?(:\w+)\s*$")
_ADDED = re.compile(r"\s*([\w.#]+)\s+()(:\w+)\s*$")


def _update_item(
    at: ClientObject,
    Key: Any,
    UpdateExpression: str,
    ExpressionAttributeValues: Any = None,
    ExpressionAttributeNames: Any = None,
) -> ClientReply:
    names, values = dict(ExpressionAttributeNames or {}), dict(ExpressionAttributeValues or {})
    operators = list[tuple[str, Mapping[str, Any]]]()
    clauses = re.split(r"\b(SET|ADD|REMOVE|DELETE)\b", UpdateExpression, flags=re.IGNORECASE)[1:]
    for verb, clause in zip(clauses[::2], clauses[1::2], strict=True):
        for part in re.split(r",(?![^(]*\))", clause):
            pattern = {"SET": _ASSIGNED, "ADD": _ADDED}.get(verb.upper())
            match = pattern.match(part) if pattern is not None else None
            if match is None:
                refuse(f"the update expression {UpdateExpression!r}", at._client)
            operator = "set" if match[2] is None else "increment"
            operators.append((operator, {str(names.get(match[1], match[1])): values[match[3]]}))
    at._write("update_item", StoreChange(_table(at), dict(Key), tuple(operators)))
    return DONE


def _get_item(at: ClientObject, Key: Any) -> ClientReply:
    items = matching(at._documents(_table(at)), Key)
    return ClientReply(DONE, **({"Item": dict(items[0])} if items else {}))


class _BatchWriter:
    """Puts and deletes that are sent together when it ends."""

    def __init__(self, at: ClientObject, keys: Any) -> None:
        self._at, self._keys, self._items = at, tuple(keys or ()), list[Any]()

    def __enter__(self) -> Self:
        return self

    def put_item(self, Item: Any) -> None:
        self._items.append(Item)
        if len(self._items) == _MOST_IN_BATCH:
            self._send()

    def delete_item(self, Key: Any) -> None:
        self._send()
        self._at._write("delete_item", remove(_table(self._at), Key))

    def _send(self) -> None:
        items, self._items = self._items, []
        put_rows(self._at, "batch_write_item", _table(self._at), items, self._keys)

    def __exit__(self, *_: object) -> None:
        self._send()


_MOST_IN_BATCH = 25
_TABLE_CALLS: Calls = {
    "put_item": _put_item,
    "update_item": _update_item,
    "get_item": _get_item,
    "delete_item": lambda at, Key: at._write("delete_item", remove(_table(at), Key)),
    "batch_writer": lambda at, overwrite_by_pkeys=None: _BatchWriter(at, overwrite_by_pkeys),
}
_TABLE = ClientKind("boto3's DynamoDB table", _TABLE_CALLS)


def _of_table(name: str) -> Callable[..., Any]:
    """Return a table's call as the low-level client has it: it names the table, and wraps values in their types."""

    def call(at: ClientObject, TableName: str, **options: Any) -> Any:
        plain = {
            option: _plain_row(value) if option in {"Item", "Key", "ExpressionAttributeValues"} else value
            for option, value in options.items()
        }
        return at._behind(_TABLE, TableName)._call(name, _TABLE_CALLS[name], **plain)

    return call


def _batch_write_item(at: ClientObject, RequestItems: Any) -> ClientReply:
    for table, requests in RequestItems.items():
        puts = [_plain_row(request["PutRequest"]["Item"]) for request in requests if "PutRequest" in request]
        if len(puts) < len(requests):
            refuse("batch_write_item with a DeleteRequest", at._client)
        put_rows(at, "batch_write_item", f"dynamodb: {table}", puts)
    return ClientReply(DONE, UnprocessedItems={})


def _message(
    service: str, place: str, action: str, one: Callable[[Any], Mapping[str, Any]], many: str = ""
) -> Callable[..., Any]:
    """Return a call that sends a message, or those of an option: each is there as often as it is sent."""

    def call(at: ClientObject, **options: Any) -> ClientReply:
        target = f"{service}: {str(options.get(place)).rpartition('/')[2].rpartition(':')[2]}"
        messages = map(one, options[many] if many else [options])
        several(at, action, _without_repeats(at, target, messages))
        return ClientReply(
            DONE, MessageId="message", Failed=[], Successful=[], FailedRecordCount=0, FailedPutCount=0, Records=[],
        )  # fmt: skip

    return call


def _without_repeats(
    at: ClientObject, target: str, messages: Iterable[Mapping[str, Any]]
) -> Iterable[StoreChange]:
    """Yield the messages that a queue takes: of one MessageDeduplicationId, within five minutes, only the first."""
    known = at._documents(target)
    for message in messages:
        once = {name: value for name, value in message.items() if name == "MessageDeduplicationId" and value}
        if not once or not matching(known, once):
            yield add(target, {name: value for name, value in message.items() if value is not None})


def _queued(sent: Any) -> dict[str, Any]:
    return {"body": sent["MessageBody"], "MessageDeduplicationId": sent.get("MessageDeduplicationId")}


def _published(sent: Any) -> dict[str, Any]:
    return {"body": sent["Message"], "MessageDeduplicationId": sent.get("MessageDeduplicationId")}


def _streamed(sent: Any) -> dict[str, Any]:
    return {"key": sent.get("PartitionKey"), "value": sent["Data"]}


SERVICES = {
    "s3": ClientKind("boto3's S3 client", S3),
    "dynamodb": ClientKind(
        "boto3's DynamoDB client",
        {"batch_write_item": _batch_write_item}
        | {name: _of_table(name) for name in ("put_item", "update_item", "get_item", "delete_item")},
    ),
    "sqs": ClientKind(
        "boto3's SQS client",
        {
            "send_message": _message("sqs", "QueueUrl", "send_message", _queued),
            "send_message_batch": _message("sqs", "QueueUrl", "send_message_batch", _queued, "Entries"),
            "get_queue_url": lambda _at, QueueName: ClientReply(QueueUrl=f"https://sqs/{QueueName}"),
        },
    ),
    "sns": ClientKind("boto3's SNS client", {"publish": _message("sns", "TopicArn", "publish", _published)}),
    "kinesis": ClientKind(
        "boto3's Kinesis client",
        {
            "put_record": _message("kinesis", "StreamName", "put_record", _streamed),
            "put_records": _message("kinesis", "StreamName", "put_records", _streamed, "Records"),
        },
    ),
    "firehose": ClientKind(
        "boto3's Firehose client",
        {
            "put_record": _message("firehose", "DeliveryStreamName", "put_record", lambda sent: _streamed(sent["Record"])),
            "put_record_batch": _message("firehose", "DeliveryStreamName", "put_record_batch", _streamed, "Records"),
        },
    ),
}  # fmt: skip
"""Boto3's low-level clients, by service."""
RESOURCES = {
    "s3": ClientKind("boto3's S3 resource", opens={"Object": S3_OBJECT, "Bucket": S3_BUCKET}),
    "dynamodb": ClientKind("boto3's DynamoDB resource", opens={"Table": _TABLE}),
}
"""Boto3's resources, by service."""


def service(kinds: Mapping[str, ClientKind]) -> Callable[..., ClientObject]:
    """Return what makes a client or a resource of a service."""

    def make(service_name: str, *_: Any, **options: Any) -> ClientObject:
        if service_name not in kinds:
            refuse(f"boto3's {service_name}", "boto3")
        return ClientObject("boto3", kinds[service_name], (), options)

    return make


def _of_session(kinds: Mapping[str, ClientKind]) -> Callable[..., ClientObject]:
    make = service(kinds)
    return lambda at, service_name, **options: make(service_name, **options)


SESSION = ClientKind("boto3's session", {"client": _of_session(SERVICES), "resource": _of_session(RESOURCES)})
