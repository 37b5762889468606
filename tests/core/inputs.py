"""One example of each input, for walking tables of (state x input)."""

from types import UnionType
from typing import Any, get_args

from headrace import KeyInterval
from headrace.wire import messages as m
from headrace.wire.effects import Deliveries, Event, Replayed, SourceRecord, SourceWatermark, Start, Wake
from headrace.wire.rows import Production

_PRODUCTION = Production("r", "letters", "counter", "dog", b"", 1, 0)
_KEYS = KeyInterval()
_EXAMPLES: tuple[Event, ...] = (
    Start(2),
    Wake(),
    Deliveries((), "mail/0"),
    SourceRecord(0, "letters", "p", b"{}", 1),
    SourceWatermark(0, 1),
    Replayed(),
    m.Deliver(_PRODUCTION, "mail/0"),
    m.Ack("counter", ("r",)),
    m.Table(),
    m.Heartbeat("stranger", 1, 0),
    m.Report("worker-0", ()),
    m.InjectorReport("stranger", 0, 1, 0, 0, 0),
    m.Watermarks(0, ()),
    m.MoveInterval("stranger", "dog"),
    m.SplitInterval("stranger", "dog"),
    m.MergeIntervals("stranger", "dog"),
    m.ChangeTopology(99),
    m.Read(0, "counter", 1, "dog"),
    m.Scan(0, "counter", 1, _KEYS, None, ()),
    m.Write(0, "counter", 1, ()),
    m.CollectIds(0, "counter", 1, _KEYS, 0),
    m.Mint(0, 1, 1, (), 0),
    m.Peek(0, "master"),
    m.Claim(0, "master", 0, "master-0#1"),
    m.Renew(0, "master", 1),
    m.JournalWatermarks(0, "authority-0", 1, (), ()),
    m.JournalPosition(0, "mail/0", 1, 0, m.Progress()),
    m.RowRead(0, None),
    m.Scanned(0, (), None, ()),
    m.Written(0),
    m.Collected(0),
    m.Refused(0, 0),
    m.Unavailable(0),
    m.Minted(0, m.Table()),
    m.Peeked(0, 1, 1),
    m.Claimed(0, 1, (), 0, m.Table()),
    m.Renewed(0),
    m.Journaled(0),
)
EXAMPLES: dict[type, Event] = {type(example): example for example in _EXAMPLES}
"""Replies are to request 0, which nobody has asked."""


def _types(union: Any) -> set[type]:
    if isinstance(union, UnionType):
        return {kind for argument in get_args(union) for kind in _types(argument)}
    return {union}


assert EXAMPLES.keys() == _types(Event), "an input has no example"
