"""Application logic (MillWheel 4.1, 5.1, Figure 7): the `Computation` that users subclass."""

from typing import Any

from headrace.api.context import Context
from headrace.api.records import Record, Timer


class Computation:
    """Application logic for one node of the graph (MillWheel 4.1). Subclass it and override the hooks.

    One instance serves all keys on all machines, so keep only configuration on ``self``. Persistent data goes through
    the context: it belongs to one key and is committed atomically when the hook returns.
    """

    def initial_state(self) -> Any:
        """Return the state of a new key. State equal to it is not stored. Default: ``{}``."""
        return {}

    def process_record(self, context: Context, record: Record) -> None:
        """Handle one record (``ProcessRecord``). With exactly-once on, each record takes effect once; they come in any order."""

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Handle one timer (``ProcessTimer``). Each timer takes effect once; the timers of a key fire in increasing order."""
