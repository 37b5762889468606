"""The rules that a cluster follows and the state machines that it hosts: for the sound protocol, the engine's own.

A broken protocol (a mutant) overrides rules or replaces machines by subclasses; the engine has no switch for being wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headrace.injector.injector import Injector
from headrace.ownership.master import Master
from headrace.rules import RULES, Rules
from headrace.store.mediator import Mediator
from headrace.watermarks.authority import WatermarkAuthority
from headrace.worker.worker import Worker


@dataclass(frozen=True, slots=True)
class Protocol:
    """A protocol that a cluster can run.

    Attributes:
        name: what reports call it.
        rules: what all machines ask.
        mediator: of the store.
        worker: of each worker.
        master: of each replica.
        authority: of each replica of each shard.
        injector: of each process.
    """

    name: str = "sound"
    rules: Rules = RULES
    mediator: Callable[..., Mediator] = Mediator
    worker: Callable[..., Worker] = Worker
    master: Callable[..., Master] = Master
    authority: Callable[..., WatermarkAuthority] = WatermarkAuthority
    injector: Callable[..., Injector] = Injector


SOUND = Protocol()
