"""The process with other string hashes, forked from one that has imported what it needs instead of starting Python.

Each review of a pipeline has an `OtherHashes`, whose Python takes longer to start than a short search. Here one such Python
waits at a socket, and forks for each review: a fork has the string hashes of the process that it comes from.
"""

import os
import pickle
import signal
import socket
import socketserver
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import cast

import time_machine  # noqa: F401  for the forks

import headrace_sim  # noqa: F401  for the forks
from headrace_properties.search.guard import unguarded
from headrace_properties.search.limits import CodeLimits
from headrace_properties.user_code import review
from headrace_properties.user_code.other_hash import OtherHashes, serve

_SEED = "1"
"""PYTHONHASHSEED of the process; that of `OtherHashes`, unless its own process has it."""

_CODE = "from tests.other_hashes import fork_for_each; fork_for_each()"


@cache
def address() -> str:
    """Start the process, which ends with this one, and return the name of its socket."""
    path = str(Path(get_temp_dir(), "other-hashes"))
    environment = {"PYTHONHASHSEED": _SEED, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        listener.set_inheritable(True)
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-c", _CODE, str(listener.fileno())],
            {**os.environ, **environment},
            file_actions=[(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)],
        )
    return path


def fork_from(name: str) -> None:
    """Let reviews in this process, and in its forks, take forks of the process at this socket."""
    _ForkedOtherHashes.address = name
    vars(review)["OtherHashes"] = _ForkedOtherHashes


def fork_for_each() -> None:
    """Serve each connection in a fork, until the process that started this one has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _Server(socket.socket(fileno=int(sys.argv[1]))).serve_forever()


class _ForkedOtherHashes(OtherHashes):
    address = ""

    def __init__(self, name: tuple[str, str], limits: CodeLimits) -> None:
        if os.environ.get("PYTHONHASHSEED") == _SEED:
            super().__init__(name, limits)
            return
        self._process = cast("subprocess.Popen[bytes]", _Fork(self.address))
        self._name, self._limits = name, limits
        self._begun = False


class _Fork:
    """What `OtherHashes` needs of a `Popen`."""

    def __init__(self, address: str) -> None:
        with unguarded(), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(address)
            self.stdin = connection.makefile("wb")
            self.stdout = connection.makefile("rb")
        pickle.dump((Path.cwd(), dict(os.environ), sys.path), self.stdin)
        self.stdin.flush()
        self._pid: int = pickle.load(self.stdout)  # noqa: S301  from our own process

    def kill(self) -> None:
        with unguarded(), suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)

    def communicate(self) -> None:
        with suppress(OSError):
            self.stdin.close()
        self.stdout.close()


class _Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    def __init__(self, listener: socket.socket) -> None:
        super().__init__(listener.getsockname(), _Serving, bind_and_activate=False)
        self.socket = listener
        self._parent = os.getppid()

    def service_actions(self) -> None:
        super().service_actions()
        if os.getppid() != self._parent:
            sys.exit()


class _Serving(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        folder, environment, path = pickle.load(self.rfile)  # noqa: S301  from our own process
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()
        sys.path[:] = ["", *filter(None, path)]
        pickle.dump(os.getpid(), self.wfile)
        for number in (0, 1):
            os.dup2(self.connection.fileno(), number)
        serve()
