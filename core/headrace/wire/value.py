"""What every value that crosses a boundary is made of.

Choice: ``msgspec.Struct`` instead of frozen dataclasses. It is as frozen and as typed, is built four times faster,
and comes with the wire format that histories, fault schedules and replay files are written in.
"""

import msgspec


class Value(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A frozen, comparable, serialisable value."""
