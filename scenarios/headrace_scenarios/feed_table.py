"""A feed as a table, for hosts that read tables (Spark, files).

One row for each arrival, in the order of the feed. A record has a value, a timestamp and a key; a low watermark has none of them:
its row is a heartbeat. pyarrow comes with the extra ``spark``, and is imported only here.
"""

from typing import TYPE_CHECKING, Any

from headrace.wire.effects import SourceRecord
from headrace_sim.feed import Feed

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("address", "offset", "arrived_us", "stream", "key", "value", "timestamp_us", "low_watermark_us")
"""Columns: the injector's process, the offset in its log, the arrival at the source (wall time); then the fields of a record or,
with nulls in their place, the watermark that the process publishes (`MAX_TIME`: it has ended)."""


def feed_table(feed: Feed) -> "pa.Table":
    """Return a feed as a table.

    Args:
        feed: a feed, as for `simulate`.
    """
    import pyarrow as pa  # noqa: PLC0415  an extra

    text, data, number = pa.string(), pa.binary(), pa.int64()
    kinds = dict(zip(COLUMNS, (text, number, number, text, text, data, number, number), strict=True))
    rows = [_row(entry.address, entry.event) for entry in feed.entries]
    columns = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
    arrays = {name: pa.array(column, kinds[name]) for name, column in zip(COLUMNS, columns, strict=True)}
    return pa.table(arrays)


def _row(address: str, event: Any) -> tuple[Any, ...]:
    if isinstance(event, SourceRecord):
        of_record = (event.stream, event.key, event.value, event.timestamp, None)
        return (address, event.offset, event.arrived_us, *of_record)
    return (address, event.offset, event.arrived_us, None, None, None, None, event.low_watermark)
