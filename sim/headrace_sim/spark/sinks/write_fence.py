"""A fence of the kernel's around a process and all that it starts: they change files only below some directories.

A guard sees what Python does. This is for the rest: Java, and libraries of C and Rust. See Linux' Landlock,
https://docs.kernel.org/userspace-api/landlock.html. Elsewhere, and before Linux 6.2, there is none.
"""

import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path

_MAKE, _ADD, _RESTRICT = 444, 445, 446
"""The system calls, of the same numbers on each kind of machine."""
_ASKS_VERSION = 1
_NEEDED = 3
"""The version from which a file can be kept from being emptied."""
_CHANGES = 0b0111_1111_1111_0010
"""The rights to write to files, to remove, to make, to move and to empty them."""
_BELOW = 1
_NO_NEW_PRIVILEGES = 38
_call = ctypes.CDLL(None, use_errno=True).syscall if sys.platform == "linux" else None


class _Rule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def has_fence() -> bool:
    """Return whether this kernel has it."""
    return _call is not None and _call(_MAKE, None, 0, _ASKS_VERSION) >= _NEEDED


def fence(folders: Iterable[Path]) -> None:
    """Let this process, and what it will start, change files below these folders and in ``/dev`` only, irreversibly.

    To be called before the process has threads.
    """
    if _call is None or not has_fence():
        return
    rules = _call(_MAKE, ctypes.byref(ctypes.c_uint64(_CHANGES)), 8, 0)
    for folder in (*folders, Path("/dev")):
        opened = os.open(folder, os.O_PATH)
        _call(_ADD, rules, _BELOW, ctypes.byref(_Rule(_CHANGES, opened)), 0)
        os.close(opened)
    ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if _call(_RESTRICT, rules, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refuses to keep this process within its trial")
    os.close(rules)
