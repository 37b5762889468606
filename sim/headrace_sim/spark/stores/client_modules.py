"""Modules of clients: those that are missing are made of the table, and those that are there are answered by it."""

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from headrace_sim.spark.stores.client_objects import ClientKind, Named, Opener, error_named, refuse
from headrace_sim.spark.stores.client_table import CLIENTS, SERVERS
from headrace_sim.spark.stores.server_modules import fill_server

_FOLLOWED_BELOW = frozenset({"redis", "requests"})
"""What is followed where it is installed, by the commands that it sends."""
_KNOWN = frozenset({*CLIENTS, *SERVERS})


def client_of(name: str) -> str | None:
    """Return the client that a module is of; None: of none."""
    return next((client for client in _KNOWN if f"{name}.".startswith(f"{client}.")), None)


def is_around_client(name: str) -> bool:
    """Return whether a module is a package around a client."""
    return any(client.startswith(f"{name}.") for client in _KNOWN)


def make_client_module(name: str, client: str) -> ModuleType:
    """Return a module in the place of one that is missing. ``client``: the client that it is of."""
    module = _ClientModule(name)
    if client in SERVERS:
        fill_server(module, client, SERVERS[client])
    return module


class _ClientModule(ModuleType):
    """A client's module, or one of its submodules."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        client = str(client_of(self.__name__))
        row = CLIENTS.get(client, {}).get(name)
        if row is not None:
            return _member(client, name, row)
        if name.islower():
            return importlib.import_module(f"{self.__name__}.{name}")
        return error_named(client, name) or Named(f"{self.__name__}.{name}")

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        refuse(f"{self.__name__}()", str(client_of(self.__name__)))

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)


def _member(client: str, name: str, row: Any) -> Any:
    return Opener(client, name, row) if isinstance(row, ClientKind) else row


def is_made(module: ModuleType) -> bool:
    """Return whether a module was made of the table."""
    return isinstance(module, _ClientModule)


def is_answered(module: ModuleType) -> bool:
    """Return whether a module that is installed has classes that are answered."""
    client = client_of(module.__name__)
    return client in CLIENTS and client not in _FOLLOWED_BELOW and not is_made(module)


def answer_client(module: ModuleType, replace: Callable[[ModuleType, str, Any], None]) -> None:
    """Answer an installed client by the table.

    ``module``: one of its modules. ``replace``: replaces a name of a module, wherever it was imported.
    """
    client = client_of(module.__name__)
    if client is None or not is_answered(module):
        return
    for name, row in CLIENTS[client].items():
        real = vars(module).get(name)
        if real is not None and not isinstance(real, Opener) and real is not row:
            replace(module, name, _member(client, name, row))
