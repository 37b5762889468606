"""PyMongo's calls: documents in collections."""

import functools
from collections.abc import Callable
from typing import Any

from headrace_sim.spark.stores.client_objects import (
    ClientKind,
    ClientObject,
    ClientReply,
    error_of,
    named_call,
    nothing,
    refuse,
    several,
)
from headrace_sim.spark.stores.store_changes import StoreChange, add, matching, put, remove

_UPDATES = {
    "$set": "set", "$setOnInsert": "set on insert", "$inc": "increment", "$push": "push", "$addToSet": "add to set",
    "$min": "min", "$max": "max", "$unset": "unset", "$currentDate": "set",
}  # fmt: skip


def _mongo(at: ClientObject) -> str:
    return f"mongodb: {'.'.join(map(str, at._names))}"


def _by(at: ClientObject, wanted: Any) -> dict[str, Any]:
    """Return a filter of equal fields."""
    for name, value in (wanted or {}).items():
        if name.startswith("$") or (
            isinstance(value, dict) and any(str(one).startswith("$") for one in value)
        ):
            refuse(f"the filter {wanted!r} of {at._kind.name}", at._client)
    return dict(wanted or {})


def _insert(at: ClientObject, document: Any) -> StoreChange:
    if "_id" not in document:
        return add(_mongo(at), dict(document))
    key = {"_id": document["_id"]}
    if matching(at._documents(_mongo(at)), key):
        raise error_of(at._client, f"E11000 duplicate key error: {key}", "DuplicateKeyError")
    return put(_mongo(at), key, document)


def _insert_one(at: ClientObject, document: Any) -> ClientReply:
    at._write("insert_one", _insert(at, document))
    return ClientReply(inserted_id=document.get("_id", "an id of the server's"), acknowledged=True)


def _insert_many(at: ClientObject, documents: Any) -> ClientReply:
    inserted = list(documents)
    several(at, "insert_many", [_insert(at, document) for document in inserted])
    return ClientReply(inserted_ids=[document.get("_id") for document in inserted], acknowledged=True)


def _replaced(at: ClientObject, filter: Any, replacement: Any, upsert: bool = False) -> StoreChange:
    match = _by(at, filter)
    kept = {"_id": match["_id"], **replacement} if "_id" in match else replacement
    return StoreChange(_mongo(at), match, (("replace", kept),), adds=upsert)


def _updated(
    at: ClientObject, filter: Any, update: Any, upsert: bool = False, many: bool = False
) -> StoreChange:
    operators = []
    for operator, fields in update.items():
        if operator not in _UPDATES:
            refuse(f"the update {operator} of {at._kind.name}", at._client)
        values = {
            name: value["$each"] if isinstance(value, dict) and "$each" in value else [value]
            for name, value in fields.items()
        } if operator in {"$push", "$addToSet"} else fields  # fmt: skip
        operators.append((_UPDATES[operator], values))
    return StoreChange(_mongo(at), _by(at, filter), tuple(operators), adds=upsert, many=many)


def _changed(action: str, change: Callable[..., StoreChange]) -> Callable[..., ClientReply]:
    """Return a call that sends one change, of the same arguments."""

    @functools.wraps(change)
    def call(at: ClientObject, *args: Any, **options: Any) -> ClientReply:
        sent = change(at, *args, **options)
        matched = len(matching(at._documents(sent.target), sent.match or {}))
        at._write(action, sent)
        return ClientReply(
            matched_count=matched, modified_count=matched, deleted_count=matched, upserted_id=None, acknowledged=True,
        )  # fmt: skip

    return call


_MONGO_CHANGES: dict[str, Callable[..., StoreChange]] = {
    "InsertOne": _insert, "ReplaceOne": _replaced, "UpdateOne": _updated,
    "UpdateMany": functools.partial(_updated, many=True),
    "DeleteOne": lambda at, filter: remove(_mongo(at), _by(at, filter)),
    "DeleteMany": lambda at, filter: remove(_mongo(at), _by(at, filter), many=True),
}  # fmt: skip


def _bulk_write(at: ClientObject, requests: Any) -> ClientReply:
    count = several(
        at, "bulk_write", (_MONGO_CHANGES[name](at, *args, **options) for name, args, options in requests)
    )
    return ClientReply(upserted_count=count, modified_count=count, inserted_count=count, matched_count=count)


def _find(at: ClientObject, filter: Any = None, projection: Any = None) -> list[Any]:
    del projection
    return [dict(document) for document in matching(at._documents(_mongo(at)), _by(at, filter))]


_COLLECTION = ClientKind(
    "pymongo's collection",
    {
        "insert_one": _insert_one,
        "insert_many": _insert_many,
        "replace_one": _changed("replace_one", _replaced),
        "update_one": _changed("update_one", _updated),
        "update_many": _changed("update_many", _MONGO_CHANGES["UpdateMany"]),
        "delete_one": _changed("delete_one", _MONGO_CHANGES["DeleteOne"]),
        "delete_many": _changed("delete_many", _MONGO_CHANGES["DeleteMany"]),
        "bulk_write": _bulk_write,
        "find": _find,
        "find_one": lambda at, filter=None, projection=None: next(iter(_find(at, filter)), None),
        "count_documents": lambda at, filter: len(_find(at, filter)),
        "create_index": nothing("index"),
    },
)
_MONGO_DATABASE = ClientKind(
    "pymongo's database", {"command": nothing({"ok": 1.0})}, {"get_collection": _COLLECTION}, inner=_COLLECTION,
)  # fmt: skip
_MONGO = ClientKind(
    "pymongo's client",
    {"close": nothing(), "server_info": nothing(ClientReply(version="7.0"))},
    {"get_database": _MONGO_DATABASE},
    inner=_MONGO_DATABASE,
)
PYMONGO: dict[str, Any] = {"MongoClient": _MONGO, **{name: named_call(name) for name in _MONGO_CHANGES}}
