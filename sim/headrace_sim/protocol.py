"""Which rules a cluster follows, and which state machines it hosts. The sound protocol has the engine's own.

A broken one (a mutant) overrides rules, or replaces machines by subclasses: the engine itself has no switch for being wrong.
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
    """The rules and the classes that a cluster is made of.

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
