"""Passing on what Spark's Java writes to stderr, without what it writes each time.

Errors come through, and so does what user code prints. What is left out can not be turned off at its source: Java's warning
about the module that Spark's launcher asks for, and what PySpark's `transform_with_state_driver_worker` prints at each
start of a query.
"""

import os
import re
import threading
from collections.abc import Iterable, Iterator

_CHATTER = re.compile(
    rb"WARNING: Using incubator modules|(Starting )?Streaming TransformWithState\w* Python worker\b"
)


def quietened_stderr() -> int:
    """Open a file descriptor for a child process's stderr; the caller closes it when the child has it.

    What arrives goes to this process's stderr. It ends with the last process that holds the descriptor.
    """
    reading, writing = os.pipe()
    threading.Thread(target=_pass_on, args=(reading,), name="headrace-spark-stderr", daemon=True).start()
    return writing


def without_chatter(lines: Iterable[bytes]) -> Iterator[bytes]:
    r"""Leave out the chatter, and the empty line behind it.

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
