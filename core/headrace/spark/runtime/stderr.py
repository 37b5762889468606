"""Passing on what Spark's Java writes to stderr, without the lines that it writes at every start.

Errors pass through, and so does what user code prints. The lines left out cannot be turned off at their source: Java's warning
about the module that Spark's launcher asks for, and what PySpark's `transform_with_state_driver_worker` prints whenever a query
starts.
"""

import os
import re
import threading
from collections.abc import Iterable, Iterator

_CHATTER = re.compile(
    rb"WARNING: Using incubator modules|(Starting )?Streaming TransformWithState\w* Python worker\b"
)


def quietened_stderr() -> int:
    """Open a file descriptor for a child process's stderr; the caller closes it once the child has inherited it.

    What the child writes goes to this process's stderr, until the last process that holds the descriptor ends.
    """
    reading, writing = os.pipe()
    threading.Thread(target=_pass_on, args=(reading,), name="headrace-spark-stderr", daemon=True).start()
    return writing


def without_chatter(lines: Iterable[bytes]) -> Iterator[bytes]:
    r"""Yield the lines without the chatter and the empty line that follows it.

    >>> list(without_chatter([b"Starting Streaming TransformWithStateInPandas Python worker.\n", b"\n", b"\n", b"mine\n"]))
    [b'\n', b'mine\n']
    """
    behind_chatter = False
    for line in lines:
        chatter = _CHATTER.match(line) is not None
        if not chatter and (line.strip() or not behind_chatter):
            yield line
        behind_chatter = chatter


def _pass_on(reading: int) -> None:
    with open(reading, "rb", buffering=0) as stream:
        lines = iter(stream.readline, b"")
        for line in without_chatter(lines):
            os.write(2, line)
