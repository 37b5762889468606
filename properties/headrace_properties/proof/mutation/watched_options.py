"""The options of a run that a mutant is judged by: it is watched closely, and for a limited time."""

import msgspec

from headrace import SECOND
from headrace_sim import ClusterOptions

LIMIT_US = 600 * SECOND
"""Choice: a broken protocol may be busy for ever with what it repeats; ten minutes of that show as much as an hour."""


def watched(options: ClusterOptions) -> ClusterOptions:
    """Return options under which the memory of each process is looked at after each event."""
    return msgspec.structs.replace(options, limit_us=LIMIT_US, check_invariants=True)
