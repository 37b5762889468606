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
        name: its name in reports.
        rules: the rules that all machines apply.
        mediator: the store's mediator.
        worker: the state machine of each worker.
        master: the state machine of each master replica.
        authority: the state machine of each replica of each shard.
        injector: the state machine of each injector process.
    """

    name: str = "sound"
    rules: Rules = RULES
    mediator: Callable[..., Mediator] = Mediator
    worker: Callable[..., Worker] = Worker
    master: Callable[..., Master] = Master
    authority: Callable[..., WatermarkAuthority] = WatermarkAuthority
    injector: Callable[..., Injector] = Injector


SOUND = Protocol()
