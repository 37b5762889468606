"""Calls of Elasticsearch's and OpenSearch's clients: documents in indices."""

import functools
import json
from collections.abc import Mapping
from typing import Any

from headrace_sim.spark.stores.client_objects import (
    ClientKind,
    ClientObject,
    ClientReply,
    error_of,
    nothing,
    refuse,
    several,
)
from headrace_sim.spark.stores.store_changes import StoreChange, add, matching, put, remove


def _index(
    at: ClientObject,
    index: str,
    document: Any = None,
    id: Any = None,
    body: Any = None,
    op_type: str = "index",
) -> Any:
    at._write(op_type, _indexed(at, index, id, document if body is None else body, op_type))
    return ClientReply(_id=id, _index=index, result="created")


def _indexed(at: ClientObject, index: str, key: Any, document: Any, action: str) -> StoreChange:
    target = f"elasticsearch: {index}"
    if key is None:
        return add(target, document)
    existing = matching(at._documents(target), {"_id": str(key)})
    if action == "create" and existing:
        raise error_of(at._client, f"version conflict, {key} already exists", "ConflictError")
    return put(target, {"_id": str(key)}, document)


def _update(
    at: ClientObject,
    index: str,
    id: Any,
    doc: Any = None,
    body: Any = None,
    doc_as_upsert: bool = False,
    upsert: Any = None,
) -> Any:
    whole = {"doc": doc, "doc_as_upsert": doc_as_upsert, "upsert": upsert, **(body or {})}
    at._write("update", _updated_document(at, index, id, whole))
    return ClientReply(_id=id, result="updated")


def _updated_document(at: ClientObject, index: str, key: Any, body: Any) -> StoreChange:
    if body.get("doc") is None or "script" in body:
        refuse(f"an update of {at._kind.name} by a script", at._client)
    adds = bool(body.get("doc_as_upsert") or body.get("upsert"))
    return StoreChange(f"elasticsearch: {index}", {"_id": str(key)}, (("set", body["doc"]),), adds=adds)


def _got(at: ClientObject, index: str, id: Any) -> ClientReply:
    documents = matching(at._documents(f"elasticsearch: {index}"), {"_id": str(id)})
    if not documents:
        raise error_of(at._client, f"{id} is not in {index}", "NotFoundError")
    return ClientReply(
        _id=id, found=True, _source={name: value for name, value in documents[0].items() if name != "_id"}
    )


def _action(at: ClientObject, action: Mapping[str, Any], index: Any) -> StoreChange:
    """Return what an action of `helpers.bulk` changes."""
    meta = {name: value for name, value in action.items() if name.startswith("_")}
    rest = {name: value for name, value in action.items() if name not in meta}
    kind, to, key = meta.get("_op_type", "index"), meta.get("_index", index), meta.get("_id")
    if kind == "delete":
        return remove(f"elasticsearch: {to}", {"_id": str(key)})
    if kind == "update":
        return _updated_document(at, to, key, rest)
    return _indexed(at, to, key, meta.get("_source", rest), kind)


def _bulk_helper(
    client: ClientObject, actions: Any, index: Any = None, stats_only: bool = False, **_: Any
) -> tuple[int, Any]:
    count = several(client, "bulk", [_action(client, action, index) for action in actions])
    return count, 0 if stats_only else []


def _streaming_bulk(client: ClientObject, actions: Any, index: Any = None, **_: Any) -> Any:
    for _action_done in range(_bulk_helper(client, actions, index)[0]):
        yield True, {}


def _bulk(at: ClientObject, body: Any = None, operations: Any = None, index: Any = None) -> ClientReply:
    """Carry out the body of a bulk request: a line that says what is done, and for most one with the document."""
    lines = body if operations is None else operations
    if isinstance(lines, str):
        lines = [json.loads(line) for line in lines.splitlines() if line.strip()]
    left, changes = list(lines), list[StoreChange]()
    while left:
        ((kind, meta),) = left.pop(0).items()
        body = {} if kind == "delete" else left.pop(0)
        document = body if kind == "update" else {"_source": body}
        changes.append(_action(at, {"_op_type": kind, **meta, **document}, index))
    several(at, "bulk", changes)
    return ClientReply(errors=False, items=[])


_INDICES = ClientKind(
    "elasticsearch's indices",
    {name: nothing(ClientReply(acknowledged=True)) for name in ("create", "put_mapping", "refresh")}
    | {"exists": nothing(True)},
)
_ELASTIC_CALLS: Mapping[str, Any] = {
    "index": _index,
    "create": functools.partial(_index, op_type="create"),
    "update": _update,
    "delete": lambda at, index, id: at._write("delete", remove(f"elasticsearch: {index}", {"_id": str(id)})),
    "get": _got,
    "exists": lambda at, index, id: bool(matching(at._documents(f"elasticsearch: {index}"), {"_id": str(id)})),
    "bulk": _bulk,
    "ping": nothing(True),
    "info": nothing(ClientReply(version={"number": "8.0.0"})),
    "close": nothing(),
}  # fmt: skip


ELASTIC = ClientKind("elasticsearch's client", _ELASTIC_CALLS, parts={"indices": _INDICES})
ELASTIC_HELPERS: dict[str, Any] = {
    "bulk": _bulk_helper,
    "streaming_bulk": _streaming_bulk,
    "parallel_bulk": _streaming_bulk,
}
