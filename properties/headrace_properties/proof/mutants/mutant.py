"""What a mutant is: a broken protocol with a name, and the invariant that it must be caught by.

Rules of this file:

* The engine has no switch for being wrong. A mutant is a subclass of `Rules` that overrides a rule or a few. Where that does not
  express what is wrong (a store that checks at the beginning of a transaction has a state of its own), it replaces a
  machine, or a part of one, by a subclass.
* A mutant is **activated** when it answers otherwise than the sound protocol would. Rules are compared with the sound ones at
  each question; a subclass of a machine counts by its ``probe``. A mutant that is never activated proves nothing.
* The classes are derived again for each run, with that run's probe: nothing survives from one run to the next.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import msgspec

from headrace.injector.injector import Injector
from headrace.rules import RULES, Rules, Work
from headrace.store.mediator import Mediator
from headrace.watermarks.authority import WatermarkAuthority
from headrace.watermarks.interval_map import IntervalMap
from headrace.wire.messages import Write
from headrace.wire.rows import RowDelta
from headrace.worker.commits import Commits
from headrace.worker.interval import OwnedInterval
from headrace.worker.running import StepRun
from headrace.worker.step import KeyStep
from headrace.worker.worker import Worker
from headrace_properties.search.plans import Plan
from headrace_sim import ClusterOptions, FaultSchedule, Protocol

ClassT = TypeVar("ClassT", bound=type)


RULE_NAMES = tuple(name for name, member in vars(Rules).items() if not name.startswith("_"))
"""All rules."""


class Probe:
    """Counts how often a mutant has done something else than the sound protocol, in one run."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def note(self) -> None:
        """Note that it just did."""
        self.count += 1


def overridden(own: type[Rules]) -> tuple[str, ...]:
    """List the rules that a class overrides."""
    return tuple(name for name in RULE_NAMES if getattr(own, name) is not getattr(Rules, name))


def noting(own: type[Rules], probe: Probe) -> Rules:
    """Make rules of this class, and let the probe count each answer that is not the sound one."""

    def counted(name: str) -> Callable[..., object]:
        broken, sound = getattr(own, name), getattr(Rules, name)

        def ask(rules: Rules, *values: object, **named: object) -> object:
            answer = broken(rules, *values, **named)
            if answer != sound(rules, *values, **named):
                probe.note()
            return answer

        return ask

    rules: type[Rules] = type(own.__name__, (own,), {name: counted(name) for name in overridden(own)})
    return rules()


def answering(**answers: object) -> type[Rules]:
    """Make rules that give other answers. ``answers``: by rule, a value or a function of what the rule is asked."""

    def answered(answer: object) -> Callable[..., object]:
        if callable(answer):
            return lambda _rules, *asked, **named: answer(*asked, **named)
        return lambda *_asked, **_named: answer

    return _broken(f"answering {answers}", {name: answered(answer) for name, answer in answers.items()})


def leaving_out(rule: str, **fields: object) -> type[Rules]:
    """Make rules in which a rule that passes on a delta or a row, such as ``written``, leaves fields out.

    Args:
        rule: its name.
        fields: what they are without it.
    """
    return _broken(f"{rule} {fields}", {rule: lambda _rules, row: msgspec.structs.replace(row, **fields)})


def ignoring(work: Work, *rules: str) -> type[Rules]:
    """Make rules by which some work holds nothing back. ``rules``: ``holds_watermark``, ``holds_horizon`` or both."""

    def without_it(sound: Callable[..., bool]) -> Callable[..., bool]:
        return lambda self, held, time_us, reported: held is not work and sound(self, held, time_us, reported)

    return _broken(f"{rules} without {work}", {name: without_it(getattr(Rules, name)) for name in rules})


def _broken(name: str, changed: Mapping[str, Callable[..., object]]) -> type[Rules]:
    assert changed.keys() <= set(RULE_NAMES), f"{changed.keys() - set(RULE_NAMES)} are no rules"
    return type(name, (Rules,), dict(changed))


class InNextWrite(Commits):
    """Writes something of a step by a write of its own, once the step is durable."""

    probe: ClassVar[Probe]

    def left_out(self, step: KeyStep) -> Mapping[str, Any]:
        """Return what the write of a step was without, as fields of a `RowDelta`; none: there is no other write."""
        raise NotImplementedError

    def finish(self, now: int, steps: list[KeyStep]) -> None:
        """Finish the steps, and write what was left out."""
        soft, store = self.soft, self.shared.store
        super().finish(now, steps)
        for step in steps:
            fields = self.left_out(step)
            if fields:
                delta = RowDelta(step.slot.key, self.take_number(), **fields)
                write = Write(store.number(), soft.computation, soft.sequencer, (delta,))
                store.ask(now, write, lambda _now, _reply: None, soft)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a mutant replaces in the engine: rules, or machines and their parts, which get the run's ``probe``."""

    rules: type[Rules] = Rules
    mediator: type[Mediator] = Mediator
    interval: type[OwnedInterval] = OwnedInterval
    commits: type[Commits] = Commits
    run: type[StepRun] = StepRun
    authority: type[WatermarkAuthority] = WatermarkAuthority
    map: type[IntervalMap] = IntervalMap
    injector: type[Injector] = Injector

    def assembled(self, name: str, probe: Probe) -> Protocol:
        """Put them together. What is not replaced, nor has a part that is, stays the engine's own class."""

        def derive(own: ClassT, base: ClassT, **parts: object) -> ClassT:
            return own if own is base and not parts else _derived(own, {"probe": probe, **parts})

        intervals = {OwnedInterval: self.interval, Commits: self.commits, StepRun: self.run}
        parts = {base: _derived(own, {"probe": probe}) for base, own in intervals.items() if own is not base}
        maps = {} if self.map is IntervalMap else {"map_class": derive(self.map, IntervalMap)}
        return Protocol(
            name,
            rules=noting(self.rules, probe) if self.rules is not Rules else RULES,
            mediator=derive(self.mediator, Mediator),
            worker=_derived(Worker, {"parts": parts}) if parts else Worker,
            authority=derive(self.authority, WatermarkAuthority, **maps),
            injector=derive(self.injector, Injector),
        )


def _derived(own: ClassT, attributes: Mapping[str, Any]) -> ClassT:
    """Return a subclass with these class attributes, under the same name."""
    return type(own)(own.__name__, (own,), {"__module__": own.__module__, **attributes})


@dataclass(frozen=True, slots=True)
class Directed:
    """A run that shows what a search by chance does not find.

    Attributes:
        faults: what goes wrong.
        why: why chance does not find it.
        feed_seed: of the workload's input.
        seed: of the cluster's draws.
    """

    faults: FaultSchedule
    why: str
    feed_seed: int = 0
    seed: int = 0

    def plan(self, options: ClusterOptions) -> Plan:
        """Return all that varies; ``options``: the workload's."""
        return Plan(self.faults, options, self.seed)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken protocol.

    Attributes:
        name: what it gets wrong, in a few words.
        breaks: the invariants by which it is caught; see `headrace_properties.proof.oracles` for the names.
        section: of the paper, whose rule it breaks.
        wrong: the same in a sentence.
        parts: what it puts in the place of the engine's rules, or machines.
        workload: the name of the one on which it shows.
        directed: a run that shows it, where chance takes too long.
        bypasses: the rules that a machine which it replaces asks no longer, or acts against; what its own rules override is
            known without.
    """

    name: str
    breaks: tuple[str, ...]
    section: str
    wrong: str
    parts: Parts
    workload: str = "tallies"
    directed: Directed | None = None
    bypasses: tuple[str, ...] = ()

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that it breaks, by name, in the order of `Rules`; none if it breaks what no rule decides."""
        broken = {*overridden(self.parts.rules), *self.bypasses}
        return tuple(name for name in RULE_NAMES if name in broken)

    def protocol(self, probe: Probe | None = None) -> Protocol:
        """Return the protocol for a run; ``probe``: counts its activations."""
        return self.parts.assembled(self.name, probe or Probe())
