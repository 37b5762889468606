"""Application logic (MillWheel 4.1, 5.1, Figure 7): the `Computation` that users subclass."""

from typing import Any

from headrace.api.context import Context
from headrace.api.records import Record, Timer


class Computation:
    """Application logic for one node of the graph (MillWheel 4.1). Subclass it and override the hooks.

    One instance serves all keys on all machines: keep nothing on ``self`` but configuration. Everything that must
    last goes through the context, is scoped to one key, and is committed atomically when the hook returns.
    """

    def initial_state(self) -> Any:
        """Return the state of a key that has none yet. A key that is back in this state takes no room. Default: ``{}``."""
        return {}

    def process_record(self, context: Context, record: Record) -> None:
        """Handle one record (``ProcessRecord``). Called once for each record, with exactly-once on; any order."""

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Handle one timer (``ProcessTimer``). Called once for each timer set, in increasing order for a key."""
