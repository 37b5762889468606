"""All oracles at once: the checkers of a History, and four that need more.

``reference``: the plain sequential reference on the same input, for workloads with a settled result. ``expected``: what a
workload's own plain Python expects, how many records may share a step, the origins of its productions, and what owners,
versions and attempts leave to those after them (`headrace_properties.proof.succession`). ``calm``: what a run without faults
may cost (`headrace_properties.proof.calm`). ``error``: a run that stops with an exception. A run's plan is a function of its
workload and its seed; that of seed 0 has no faults.
"""

from collections.abc import Callable

import msgspec

from headrace import Productions
from headrace.history import (
    Applied,
    Delivered,
    DropCause,
    Event,
    Executed,
    History,
    Injected,
    IntervalDropped,
    IntervalMinted,
    Output,
    ProcessStarted,
    RoleClaimed,
    ScanBegun,
    ScanEnded,
)
from headrace.worker.running import MOST_IN_STEP
from headrace_properties.proof.calm import judge_calm
from headrace_properties.proof.succession import adopted_twice, knows_less, left_too_soon, miscounted
from headrace_properties.proof.workloads import Workload
from headrace_properties.reference import run_reference
from headrace_properties.results import result_of
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.fault_kinds import FIRST_TABLE
from headrace_properties.search.judging import JudgedRun, try_plan
from headrace_properties.search.plans import Plan, random_plan
from headrace_properties.verdict import Verdict, Violated
from headrace_sim import SOUND, Feed, Protocol

REFERENCE = "reference"
EXPECTED = "expected"
ERROR = "error"


def try_workload(
    workload: Workload,
    feed: Feed,
    plan: Plan,
    protocol: Protocol = SOUND,
    more: Callable[[History], dict[str, Verdict]] = lambda _: {},
) -> JudgedRun:
    """Run a plan on a workload once, and consult all oracles.

    Args:
        workload: what is run.
        feed: its input, or a part of it.
        plan: the faults, options and seed.
        protocol: the state machines to host.
        more: gives further verdicts of the History.
    """
    return try_plan(
        Application.with_input(workload.deployed, feed),
        PipelineTrial(plan),
        protocol,
        more=lambda history: (
            _by_reference(workload, feed, history)
            | _by_expectation(workload, plan, history)
            | by_calm(workload, plan, history)
            | more(history)
        ),
    )


def fired(judged: JudgedRun) -> tuple[str, ...]:
    """Return the oracles that fired in a run."""
    return (ERROR,) if judged.error else tuple(judged.broken)


def plan_of(workload: Workload, feed: Feed, seed: int, table: int = FIRST_TABLE) -> Plan:
    """Return the plan of a seed on a workload; see `random_plan`."""
    return random_plan(workload.deployed, feed, workload.options, seed, table)


def _by_reference(workload: Workload, feed: Feed, history: History) -> dict[str, Verdict]:
    """Describe how it differs from the reference; empty if it does not, or if nothing is promised."""
    if (
        not workload.settled
        or _is_late(history)
        or len(feed.on_time()) < feed.records
        or _zombie_told(workload, history)
        or result_of(history) == run_reference(workload.pipeline, feed)
    ):
        return {}
    message = "output or state differs from what the plain sequential reference makes of the same input"
    return {REFERENCE: Violated(message, ())}


def _by_expectation(workload: Workload, plan: Plan, history: History) -> dict[str, Verdict]:
    batch = plan.options.engine.commit_batch
    problem = (
        workload.unexpected(history)
        or _overfull(history, batch)
        or _strayed(history, workload)
        or _impersonated(history)
        or miscounted(history)
        or adopted_twice(history)
        or left_too_soon(history, workload.deployed)
        or knows_less(history)
        or _misreported(history)
        or _unreadable(history)
    )
    return {EXPECTED: Violated(problem, ())} if problem else {}


def _overfull(history: History, batch: int) -> str:
    """Say which write has more records and timers than may share one, of a key or of several (6.1.1)."""
    most = min(batch, MOST_IN_STEP)
    ends = [*(activation.first_event for activation in history.activations[1:]), len(history)]
    for activation, end in zip(history.activations, ends, strict=False):
        if activation.input == "Write":
            applied = [event for event in history[activation.first_event : end] if isinstance(event, Applied)]
            counts = [len(event.delta.seen) + len(event.delta.fired) for event in applied]
            if max(counts, default=0) > most or (sum(counts) > batch and len(counts) > 1):
                return f"a write at {applied[0].at_us} us has {counts} records and timers in its steps, of at most {batch}"
    return ""


def _strayed(history: History, workload: Workload) -> str:
    """Say which production has an origin that is not its cause's (6.1.1); a strong timer may take a later one."""
    weak = {
        name
        for pipeline in workload.deployed
        for name, spec in pipeline.computations.items()
        if spec.productions is Productions.WEAK
    }
    origins: dict[str, int] = {}
    for event in history:
        if isinstance(event, Executed):
            own = origins.get(event.cause) if event.timer is None else event.timer.origin
            later = event.timer is not None and event.computation not in weak
            for production in event.productions:
                if own is not None and (production.origin < own or (production.origin > own and not later)):
                    return f"{production.record_id} has the origin {production.origin}, and its cause {own}"
        if isinstance(event, Executed | Injected):
            origins |= {production.record_id: production.origin for production in event.productions}
    return ""


def _impersonated(history: History) -> str:
    """Say which role is held by somebody who has not been started, or who has it already.

    Incarnations tell zombies from their successors, and a claim that is repeated is the same claim (7.1).
    """
    started, holders = set[str](), dict[str, str]()
    for event in history:
        if isinstance(event, ProcessStarted):
            started.add(f"{event.process}#{event.incarnation}")
        elif isinstance(event, RoleClaimed):
            if event.holder not in started:
                return f"{event.holder} claimed the role {event.role}, and was never started"
            if holders.get(event.role) == event.holder:
                return f"{event.holder} claimed the role {event.role} at {event.at_us} us, which it held"
            holders[event.role] = event.holder
    return ""


def _unreadable(history: History) -> str:
    """Say which event cannot be read back from what a file would have of it: a field has a value of another type."""
    try:
        _EVENTS.decode_lines(history.to_bytes())
    except msgspec.MsgspecError as error:
        return f"a History cannot be read back: {error}"
    return ""


_EVENTS: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def _misreported(history: History) -> str:
    """Say which scan returned other rows than the store's, and which owner gives another reason for the end of its tenure."""
    written: dict[str, set[str]] = {}
    since: dict[int, set[str]] = {}
    inputs = {activation.first_event: activation.input for activation in history.activations}
    input_ = ""
    for number, event in enumerate(history):
        input_ = inputs.get(number, input_)
        match event:
            case Applied():
                written.setdefault(event.computation, set()).add(event.delta.key)
            case ScanBegun():
                since[event.sequencer] = _within(written, event)
            case ScanEnded() if (
                not len(since.get(event.sequencer, ())) <= event.keys <= len(_within(written, event))
            ):
                return f"the scan of {event.computation} that ended at {event.at_us} us brought {event.keys} rows"
            case IntervalDropped() if (event.why is DropCause.REFUSED) != (input_ == "Refused"):
                return f"{event.process} dropped {event.interval} as {event.why.value} when it got a {input_}"
            case _:
                pass
    return ""


def _within(written: dict[str, set[str]], event: ScanBegun | ScanEnded) -> set[str]:
    return {key for key in written.get(event.computation, ()) if event.interval.contains(key)}


def by_calm(workload: Workload, plan: Plan, history: History) -> dict[str, Verdict]:
    """Return what cost or took too much, in a run that nothing disturbed; nothing, if all is well or the plan disturbs it.

    Args:
        workload: what was run, with its options.
        plan: how.
        history: of the run.
    """
    options = plan.options
    usual = msgspec.structs.replace(
        workload.options, limit_us=options.limit_us, check_invariants=options.check_invariants
    )
    disturbed = plan.faults.count or plan.delays is not None or plan.priorities is not None
    return {} if disturbed or plan.options != usual else judge_calm(history, workload.pipeline, usual)


def _is_late(history: History) -> bool:
    """Return whether the source delivered a late record, whose effects may depend on timing."""
    injected = [event for event in history if type(event) is Injected]
    return any(
        production.timestamp < event.source_watermark
        for event in injected
        for production in event.productions
    )


def _zombie_told(workload: Workload, history: History) -> bool:
    """A replaced owner fired a timer of a weak computation, and a consumer took what no owner makes again.

    Weak productions are sent before the store can refuse the write (6.1.3). So a zombie may emit a state that its successor
    has already extended; the successor's timer and its productions then differ.
    """
    specs = workload.pipeline.computations
    weak = {name for name, spec in specs.items() if spec.productions is Productions.WEAK}
    minted: list[IntervalMinted] = []
    owners, zombies, taken = set[str](), set[str](), set[str]()
    for event in history:
        match event:
            case IntervalMinted():
                minted.append(event)
            case Executed() if event.computation in weak:
                is_zombie = event.timer is not None and any(_replaces(mint, event) for mint in minted)
                producers = zombies if is_zombie else owners
                producers.update([production.record_id for production in event.productions])
            case Delivered():
                taken.add(event.record_id)
            case Output():
                taken.add(event.production.record_id)
            case _:
                pass
    return not (zombies - owners).isdisjoint(taken)


def _replaces(mint: IntervalMinted, executed: Executed) -> bool:
    return (
        mint.computation == executed.computation
        and mint.sequencer > executed.version.sequencer
        and mint.interval.contains(executed.key)
    )
