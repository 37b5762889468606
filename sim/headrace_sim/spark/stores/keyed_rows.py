"""Rows of stores that tell them apart by their table's key, which the client does not say: DynamoDB and Cassandra.

Choice: where nothing tells the key, the whole row is taken for it. A row that is written again is then the same row, whatever
the key is, and one that differs when it is written again is asked about.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from headrace_sim.spark.stores.client_objects import ClientObject, recorder
from headrace_sim.spark.stores.store_changes import put


def put_rows(
    at: ClientObject, action: str, target: str, rows: Iterable[Mapping[str, Any]], columns: Iterable[str] = ()
) -> None:
    """Put rows by their table's key.

    ``at``: the client's object. ``action``: what its user calls. ``target``: the table. ``rows``: with none, nothing is sent.
    ``columns``: those of the key, as the code says.
    """
    known = frozenset(name.lower() for name in columns) or frozenset(
        recorder().key_of(target.partition(": ")[2])
    )
    changes = []
    for row in rows:
        key = {name: value for name, value in row.items() if name.lower() in known}
        changes.append(put(target, key if known and len(key) == len(known) else dict(row), row))
    if changes:
        at._write(action, *changes, is_keyed=bool(known))
