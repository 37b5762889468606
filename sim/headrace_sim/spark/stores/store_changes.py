"""What stores keep: a list of documents for each collection, table, index or topic, and what a change does to it.

One form serves all: a change finds documents by their fields, and does something to them; if it finds none, it may add one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]
Operators = tuple[tuple[str, Mapping[str, Any]], ...]


@dataclass(frozen=True, slots=True)
class StoreChange:
    """A change of a store: it finds documents, and does something to them."""

    target: str  # the collection, table, index or topic: ``mongodb: shop.orders``
    match: Mapping[str, Any] | None  # the fields of the documents that it changes. None: it adds one
    operators: Operators  # what it does to each, by the rows of `OPERATORS`, in order
    adds: bool = True  # whether it adds a document where it finds none
    many: bool = False  # whether it changes all that it finds, and not only the first


@dataclass(frozen=True, slots=True)
class StoreWrite:
    """What one request changes, in order."""

    changes: tuple[StoreChange, ...]
    is_keyed: bool = True  # whether it is known by which key the store tells documents apart


def add(target: str, document: Mapping[str, Any]) -> StoreChange:
    """Return the change that adds a document beside those that are there."""
    return StoreChange(target, None, (("set", document),))


def put(target: str, key: Mapping[str, Any], document: Mapping[str, Any]) -> StoreChange:
    """Return the change that replaces the document of a key, or adds it."""
    return StoreChange(target, key, (("replace", {**key, **document}),))


def remove(target: str, key: Mapping[str, Any], *, many: bool = False) -> StoreChange:
    """Return the change that removes what has these fields."""
    return StoreChange(target, key, (("remove", {}),), adds=False, many=many)


def kept_documents(changes: Iterable[StoreChange]) -> dict[str, list[Document]]:
    """Return what is there after these changes, by target."""
    stores: dict[str, list[Document]] = {}
    for change in changes:
        _apply(stores.setdefault(change.target, []), change)
    return stores


def matching(documents: Iterable[Document], fields: Mapping[str, Any]) -> list[Document]:
    """Return the documents that have these fields."""
    return [
        document
        for document in documents
        if all(name in document and document[name] == value for name, value in fields.items())
    ]


def _apply(documents: list[Document], change: StoreChange) -> None:
    affected = [] if change.match is None else matching(documents, change.match)
    is_new = not affected and change.adds
    if is_new:
        affected = [dict(change.match or {})]
        documents.extend(affected)
    for document in affected if change.many else affected[:1]:
        for operator, fields in change.operators:
            if operator == "remove":
                documents[:] = [kept for kept in documents if kept is not document]
            elif operator != "set on insert" or is_new:
                OPERATORS[operator](document, fields)


def _replace(document: Document, fields: Mapping[str, Any]) -> None:
    document.clear()
    document.update(fields)


def _unset(document: Document, fields: Mapping[str, Any]) -> None:
    for name in fields:
        document.pop(name, None)


def _each(change: Callable[[Any, Any], Any]) -> Callable[[Document, Mapping[str, Any]], None]:
    """Return an operator that changes each field by itself."""

    def apply(document: Document, fields: Mapping[str, Any]) -> None:
        for name, value in fields.items():
            document[name] = change(document.get(name), value)

    return apply


OPERATORS: dict[str, Callable[[Document, Mapping[str, Any]], None]] = {
    "replace": _replace,
    "set": lambda document, fields: document.update(fields),
    "set on insert": lambda document, fields: document.update(fields),
    "increment": _each(lambda before, value: (before or 0) + value),
    "push": _each(lambda before, value: [*(before or []), *value]),
    "add to set": _each(lambda before, value: [*(before or []), *(one for one in value if one not in (before or []))]),
    "min": _each(lambda before, value: value if before is None else min(before, value)),
    "max": _each(lambda before, value: value if before is None else max(before, value)),
    "unset": _unset,
}  # fmt: skip
"""What each operator does to a document; ``remove`` removes it."""
