"""Calls of Google's and Azure's clients: messages, rows and documents."""

from collections.abc import Mapping
from typing import Any

from headrace_sim.spark.stores.client_objects import (
    ClientKind,
    ClientObject,
    ClientReply,
    error_of,
    nothing,
    recorder,
    refuse,
    several,
)
from headrace_sim.spark.stores.store_changes import StoreChange, add, matching, put, remove

# Pub/Sub: messages are sent in the background


def _publish(at: ClientObject, topic: str, data: bytes, ordering_key: str = "", **attributes: Any) -> Any:
    del ordering_key
    return at._later("publish", add(f"pubsub: {topic.rpartition('/')[2]}", {"data": data, **attributes}))


PUBLISHER = ClientKind(
    "google.cloud.pubsub's publisher",
    {
        "publish": _publish,
        "topic_path": lambda _at, project, topic: f"projects/{project}/topics/{topic}",
        "stop": lambda _at: recorder().send_waiting(),
    },
)

# BigQuery: rows are added; its ids of rows are kept for a minute at best, so they promise nothing


def _rows(value: Any) -> list[dict[str, Any]]:
    return list(value.to_dict("records")) if hasattr(value, "to_dict") else [dict(row) for row in value]


def _insert_rows(at: ClientObject, table: Any, json_rows: Any, row_ids: Any = None) -> list[Any]:
    del row_ids
    several(at, "insert_rows", [add(f"bigquery: {table}", row) for row in _rows(json_rows)])
    return []


def _load(at: ClientObject, rows: Any, destination: Any, job_config: Any = None) -> Any:
    mode = str(getattr(job_config, "options", {}).get("write_disposition", "WRITE_APPEND")).rpartition(".")[2]
    if mode not in {"WRITE_APPEND", "WRITE_TRUNCATE"}:
        refuse(f"a load with {mode}", at._client)
    target = f"bigquery: {destination}"
    emptied = [remove(target, {}, many=True)] if mode == "WRITE_TRUNCATE" else []
    several(at, "load", [*emptied, *(add(target, row) for row in _rows(rows))])
    return ClientObject(
        at._client, ClientKind("google.cloud.bigquery's job", {"result": nothing(), "done": nothing(True)})
    )


BIGQUERY = ClientKind(
    "google.cloud.bigquery's client",
    {
        "insert_rows_json": _insert_rows,
        "insert_rows": _insert_rows,
        "load_table_from_json": _load,
        "load_table_from_dataframe": _load,
        "get_table": lambda _at, table: table,
        "create_table": lambda _at, table, exists_ok=False: table,
        "close": nothing(),
    },
)

# Firestore


class Increment:
    """What Firestore adds to a number."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _document(at: ClientObject) -> tuple[str, dict[str, Any]]:
    return f"firestore: {'/'.join(at._names[:-1])}", {"id": at._names[-1]}


def _fields(at: ClientObject, fields: Mapping[str, Any], operator: str) -> StoreChange:
    target, key = _document(at)
    added = {name: value.value for name, value in fields.items() if isinstance(value, Increment)}
    others = {name: value for name, value in fields.items() if name not in added}
    kept = {**key, **others} if operator == "replace" else others
    return StoreChange(target, key, ((operator, kept), ("increment", added)))


def _set(at: ClientObject, document_data: Mapping[str, Any], merge: Any = False) -> None:
    at._write("set", _fields(at, document_data, "set" if merge else "replace"))


def _create(at: ClientObject, document_data: Mapping[str, Any]) -> None:
    target, key = _document(at)
    if matching(at._documents(target), key):
        raise error_of(at._client, f"{key['id']} exists", "AlreadyExists")
    at._write("create", put(target, key, document_data))


def _got(at: ClientObject) -> ClientReply:
    target, key = _document(at)
    documents = matching(at._documents(target), key)
    return ClientReply(
        exists=bool(documents), to_dict=lambda: dict(documents[0]) if documents else None, id=key["id"]
    )


_REFERENCE = ClientKind(
    "google.cloud.firestore's document",
    {
        "set": _set,
        "update": lambda at, field_updates: at._write("update", _fields(at, field_updates, "set")),
        "create": _create,
        "get": _got,
        "delete": lambda at: at._write("delete", remove(*_document(at))),
    },
)
_COLLECTION = ClientKind(
    "google.cloud.firestore's collection",
    {"add": lambda at, document_data: at._write("add", add(f"firestore: {'/'.join(at._names)}", document_data))},
    {"document": _REFERENCE},
)  # fmt: skip
_REFERENCE.opens["collection"] = _COLLECTION  # type: ignore[index]


def _held(name: str) -> Any:
    """Return a call of a batch, which waits for its commit."""
    changes: dict[str, Any] = {
        "set": lambda at, data, merge=False: _fields(at, data, "set" if merge else "replace"),
        "update": lambda at, data: _fields(at, data, "set"),
        "delete": lambda at: remove(*_document(at)),
    }
    return lambda at, reference, *args, **options: at._held.append(changes[name](reference, *args, **options))


def _commit(at: ClientObject) -> None:
    waiting, at._held[:] = [one for one in at._held if isinstance(one, StoreChange)], []
    several(at, "commit", waiting)


_BATCH = ClientKind(
    "google.cloud.firestore's batch",
    {**{name: _held(name) for name in ("set", "update", "delete")}, "commit": _commit},
)
FIRESTORE = ClientKind("google.cloud.firestore's client", opens={"collection": _COLLECTION, "batch": _BATCH})

# Azure: Cosmos and Event Hubs


def _cosmos(at: ClientObject) -> str:
    return f"cosmos: {'.'.join(at._names)}"


def _upsert(at: ClientObject, body: Mapping[str, Any]) -> Mapping[str, Any]:
    if "id" not in body:
        at._write("upsert_item", add(_cosmos(at), body))
    else:
        at._write("upsert_item", put(_cosmos(at), {"id": body["id"]}, body))
    return body


def _create_item(
    at: ClientObject, body: Mapping[str, Any], enable_automatic_id_generation: bool = False
) -> Mapping[str, Any]:
    del enable_automatic_id_generation
    key = {"id": body.get("id")}
    if key["id"] is not None and matching(at._documents(_cosmos(at)), key):
        raise error_of(at._client, f"{key['id']} exists", "CosmosResourceExistsError")
    at._write("create_item", add(_cosmos(at), body))
    return body


def _read_item(at: ClientObject, item: str, partition_key: Any = None) -> Mapping[str, Any]:
    del partition_key
    items = matching(at._documents(_cosmos(at)), {"id": item})
    if not items:
        raise error_of(at._client, f"{item} is not there", "CosmosResourceNotFoundError")
    return dict(items[0])


_CONTAINER = ClientKind(
    "azure.cosmos' container",
    {
        "upsert_item": _upsert,
        "create_item": _create_item,
        "replace_item": lambda at, item, body: at._write("replace_item", put(_cosmos(at), {"id": body["id"]}, body)),
        "read_item": _read_item,
        "delete_item": lambda at, item, partition_key=None: at._write("delete_item", remove(_cosmos(at), {"id": item})),
    },
)  # fmt: skip
_COSMOS_DATABASE = ClientKind(
    "azure.cosmos' database",
    opens={"get_container_client": _CONTAINER, "create_container_if_not_exists": _CONTAINER},
)
COSMOS = ClientKind(
    "azure.cosmos' client",
    opens={"get_database_client": _COSMOS_DATABASE, "create_database_if_not_exists": _COSMOS_DATABASE},
)


class EventData:
    """An event."""

    def __init__(self, body: Any = b"") -> None:
        self.body, self.properties = body, dict[str, Any]()


def _send_batch(at: ClientObject, event_data_batch: Any) -> None:
    events = event_data_batch._held if isinstance(event_data_batch, ClientObject) else event_data_batch
    hub = next((str(value) for name, value in at._options.items() if name == "eventhub_name"), "events")
    bodies = [{"body": each.body, **each.properties} for each in events if isinstance(each, EventData)]
    several(at, "send_batch", [add(f"eventhub: {hub}", body) for body in bodies])


_EVENTS = ClientKind("azure.eventhub's batch", {"add": lambda at, event_data: at._held.append(event_data)})
EVENT_HUB = ClientKind(
    "azure.eventhub's producer",
    {
        "send_batch": _send_batch,
        "send_event": lambda at, event: _send_batch(at, [event]),
        "close": nothing(),
        "flush": nothing(),
    },
    {"create_batch": _EVENTS},
)


class JobConfig:
    """How BigQuery loads rows."""

    def __init__(self, **options: Any) -> None:
        self.options = options
