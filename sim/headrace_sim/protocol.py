"""Which state machines a cluster hosts. The sound protocol is the engine's own classes.

A broken one (a mutant) replaces some of them by subclasses: the engine itself has no switch for being wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headrace.injector.injector import Injector
from headrace.ownership.master import Master
from headrace.store.mediator import Mediator
from headrace.watermarks.authority import WatermarkAuthority
from headrace.worker.worker import Worker


@dataclass(frozen=True, slots=True)
class Protocol:
    """The classes that a cluster is made of.

    Attributes:
        name: what reports call it.
        mediator: of the store.
        worker: of each worker.
        master: of each replica.
        authority: of each replica of each shard.
        injector: of each process.
    """

    name: str = "sound"
    mediator: Callable[..., Mediator] = Mediator
    worker: Callable[..., Worker] = Worker
    master: Callable[..., Master] = Master
    authority: Callable[..., WatermarkAuthority] = WatermarkAuthority
    injector: Callable[..., Injector] = Injector


SOUND = Protocol()
