"""What masters and authorities have announced, read as it is sent: the host needs it to decide when a run is over."""

from headrace import MAX_TIME
from headrace.wire.messages import Message, Table, Watermarks

ANNOUNCED = frozenset([Watermarks, Table])
"""The messages to `Announcements.read`."""


class Announcements:
    """The newest announcements sent.

    Attributes:
        table: the assignment table.
        low_watermarks: by computation or injector.
    """

    __slots__ = ("low_watermarks", "table")

    def __init__(self) -> None:
        self.table = Table()
        self.low_watermarks: dict[str, int] = {}

    def read(self, message: Message) -> None:
        """Read a message that is about to be sent."""
        if isinstance(message, Watermarks):
            for name, progress in message.values:
                if progress.low_watermark > self.low_watermarks.get(name, -MAX_TIME):
                    self.low_watermarks[name] = progress.low_watermark
        elif isinstance(message, Table) and message.version > self.table.version:
            self.table = message
