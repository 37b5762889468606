"""Clients of stores in an attempt: what they change is an effect, and the ledger keeps it.

Rules of this file:

* A request is an effect: it may be carried out and its reply lost, or refused.
* What a client sends in the background waits: it is sent when somebody waits for it, and else while the next batch begins. It is
  lost if the process dies before that. Spark's own workers send it at once: nobody sees when one rests between two tasks.
"""

import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from types import ModuleType
from typing import Any

from headrace_sim.spark.sinks.database_servers import replace_in, when_imported
from headrace_sim.spark.sinks.sink_effects import Effect, EffectProbe
from headrace_sim.spark.stores.client_modules import answer_client, is_answered, is_made
from headrace_sim.spark.stores.client_objects import record_with, rows_of
from headrace_sim.spark.stores.object_calls import objects_of
from headrace_sim.spark.stores.redis_calls import encoded
from headrace_sim.spark.stores.redis_commands import as_texts, carried_out, kept_keys, rows_of_key
from headrace_sim.spark.stores.store_changes import StoreChange, StoreWrite, kept_documents


def stored(effects: Iterable[Effect]) -> dict[str, list[Any]]:
    """Return what the stores keep after these effects, by destination."""
    payloads = [effect.payload for effect in effects]
    # Objects are read apart, and keys are what tells rows apart.
    changes = [change for change in _changes(payloads) if not change.target.startswith("key of ")]
    kept = kept_documents(change for change in changes if "://" not in change.target)
    contents: dict[str, list[Any]] = {name: list(rows_of(documents)) for name, documents in kept.items()}
    for key, value in kept_keys(payloads).items():
        contents[f"redis: {key}"] = list(rows_of_key(value))
    return contents


def stored_objects(effects: Iterable[Effect]) -> dict[str, bytes]:
    """Return the objects that buckets keep after these effects, by address."""
    return objects_of(_changes(effect.payload for effect in effects))


def _changes(payloads: Iterable[Any]) -> list[StoreChange]:
    return [change for one in payloads if isinstance(one, StoreWrite) for change in one.changes]


class StoreClients:
    """Answers the clients of a process, and sends what they have in the background.

    ``probe``: told of each effect. ``keys``: the columns of the keys of tables, as the author says them, by table.
    ``sends_at_once``: whether nothing waits.
    """

    sends_at_once = False

    def __init__(self, probe: EffectProbe, keys: Mapping[str, tuple[str, ...]]) -> None:
        self._probe = probe
        self._keys = keys
        self._waiting: list[tuple[str, StoreWrite, str, Future[Any]]] = []
        self._answered: set[str] = set()
        record_with(self)
        when_imported(self._answer, is_store_client)

    def changes(self) -> list[StoreChange]:
        """Return all changes so far."""
        return _changes(effect.payload for effect in self._probe.done())

    def key_of(self, table: str) -> tuple[str, ...]:
        """Return the names of a table's key, lower case, as the author says; none: unknown."""
        return self._keys.get(table, ())

    def request(self, action: str, write: StoreWrite) -> None:
        """Carry out a request."""
        self._effect(action, write, replied=True)

    def later(self, action: str, write: StoreWrite, place: str) -> Future[Any]:
        """Let a request wait until it is sent in the background."""
        future: Future[Any] = Future()
        self._waiting.append((action, write, place, future))
        if self.sends_at_once:
            self.send_waiting()
        return future

    def send_waiting(self) -> None:
        """Send what waits."""
        while self._waiting:
            action, write, place, future = self._waiting[0]
            self._effect(action, write, place=place, is_late=True)
            future.set_result(write)

    def _effect(
        self, action: str, write: StoreWrite, *, replied: bool = False, place: str = "", is_late: bool = False
    ) -> None:
        changes = write.changes
        target = ", ".join(dict.fromkeys(change.target for change in changes))
        if self._probe.is_preparing:
            self._probe.note(action, target, write)
            return
        several = len(changes) > 1

        def half() -> None:
            self._probe.note(action, target, replace(write, changes=changes[: len(changes) // 2]))

        with self._probe.effect(
            action,
            target,
            half=half if several else None,
            replied=replied,
            payload=lambda: write,
            place=place,
            is_late=is_late,
        ):
            if is_late:
                self._waiting.pop(0)

    def commands(self, calls: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Carry out commands of Redis in one request, and return their replies."""
        replies, changed = carried_out(
            as_texts(calls), kept_keys(effect.payload for effect in self._probe.done())
        )
        changes = changed.commands
        if changes:
            target = "redis: " + ", ".join(dict.fromkeys(command[1] for command in changes))
            action = ", ".join(dict.fromkeys(name for name, *_ in changes))
            if self._probe.is_preparing:
                self._probe.note(action, target, changed)
            with self._probe.effect(action, target, replied=True, payload=lambda: changed):
                pass
        return replies

    def _answer(self, module: ModuleType) -> None:
        if not _is_redis(module):
            answer_client(module, replace_in)
        elif "redis" not in self._answered:
            self._answered.add("redis")
            self._answer_redis(module)

    def _answer_redis(self, module: ModuleType) -> None:
        """Answer redis-py that is installed: all its commands go through `execute_command`."""

        def execute_command(client: Any, *args: Any, **_options: Any) -> Any:
            return carried(client, [args])[0]

        def execute(pipeline: Any, raise_on_error: bool = True) -> list[Any]:
            del raise_on_error
            commands, pipeline.command_stack = [args for args, _ in pipeline.command_stack], []
            return carried(pipeline, commands)

        def carried(client: Any, calls: list[tuple[Any, ...]]) -> list[Any]:
            pool = getattr(client, "connection_pool", None)
            options = getattr(pool, "connection_kwargs", None) or vars(client)
            try:
                return [
                    encoded(reply, texts=bool(options.get("decode_responses")))
                    for reply in self.commands(calls)
                ]
            except ConnectionError as error:
                raise module.ConnectionError(str(error)) from error

        module.Redis.execute_command = execute_command
        pipelines = getattr(sys.modules.get("redis.client"), "Pipeline", None)
        if pipelines is not None:
            pipelines.execute = execute


def is_store_client(module: ModuleType) -> bool:
    """Return whether a module has a client that is answered."""
    return is_answered(module) or _is_redis(module)


def _is_redis(module: ModuleType) -> bool:
    return module.__name__ == "redis" and not is_made(module)
