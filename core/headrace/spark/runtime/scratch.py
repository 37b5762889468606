"""A directory for what this process's Spark needs on disk. It goes when the process does."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path


@cache
def scratch() -> Path:
    """Give this process's directory, the same each time."""
    path = Path(tempfile.mkdtemp(prefix="headrace-spark-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path
