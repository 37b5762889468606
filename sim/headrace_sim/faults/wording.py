"""Faults in words, for reports."""

from headrace import MAX_TIME, format_time
from headrace_sim.faults.kinds import (
    AnyFault,
    Breach,
    BreakStore,
    Crash,
    DelayMessage,
    DropMessage,
    DuplicateMessage,
    MessageFault,
    Pause,
    Slow,
)


def describe(fault: AnyFault) -> str:
    """Write a fault that begins at a time.

    >>> describe(Pause(at_us=1_500_000, process="worker-1", for_us=2_000_000))
    '1.500000s pause process=worker-1 for=2.000000s'
    """
    if isinstance(fault, BreakStore):
        return f"{format_time(fault.at_us)} {_breach(fault)}"
    return f"{format_time(fault.at_us)} {_words(fault)}"


def _words(fault: AnyFault) -> str:
    """Write a fault and its fields, without its time."""
    words = [fault.kind]
    for name in fault.__struct_fields__:
        value = getattr(fault, name)
        if name == "at_us" or value in ("", (), None, 0.0):
            continue
        if name.endswith("_us"):
            words.append(f"{name.removesuffix('_us')}={format_time(min(value, MAX_TIME))}")
        elif name == "verb":
            words.append(
                f"{type(value).__name__}({', '.join(str(getattr(value, f)) for f in value.__struct_fields__)})"
            )
        else:
            words.append(f"{name}={','.join(value) if isinstance(value, tuple) else value}")
    return " ".join(words)


_BREACHES = {
    Breach.LOST_WRITE: "the store answers {} write and loses it",
    Breach.TORN_ROW: "the store applies only the states of {} write",
    Breach.WRONG_ROW: "the store applies {} write to another key's row",
    Breach.OLD_SNAPSHOT: "the store answers {} read or scan with the rows of this moment",
}

ASSUMPTIONS = {
    Breach.LOST_WRITE: "a write that was answered lasts (MillWheel 4.4)",
    Breach.TORN_ROW: "a row's changes are applied all or none (MillWheel 6.1.1)",
    Breach.WRONG_ROW: "a write changes the row that it names (MillWheel 4.4)",
    Breach.OLD_SNAPSHOT: "a read sees every write that was answered (MillWheel 6.2)",
}
"""What the paper takes for granted of the store, by the fault that breaks it."""


def _breach(fault: BreakStore) -> str:
    whose = f"{fault.process}'s next" if fault.process else "the next"
    return f"{_BREACHES[fault.how].format(whose)}; outside the model, where {ASSUMPTIONS[fault.how]}"


def sentence(fault: AnyFault, when: str) -> str:
    """Write a fault that begins at a protocol step. ``when``: names the step."""
    match fault:
        case Crash(restart_after_us=None):
            return f"{fault.process} crashes {when}; it stays down until the heal"
        case Crash(restart_after_us=int() as after_us):
            return f"{fault.process} crashes {when}; it restarts after {format_time(after_us)}"
        case Pause():
            return f"{fault.process} pauses {when}; it is revived after {format_time(fault.for_us)}"
        case Slow():
            return f"{fault.process} is {fault.factor} times slower {when}, for {format_time(fault.for_us)}"
        case BreakStore():
            return f"{when}: {_breach(fault)}"
        case _:
            return f"{_words(fault)}, {when}"


def fate_of(fault: MessageFault) -> str:
    """Write what happens to a message."""
    match fault:
        case DropMessage():
            return "lost"
        case DuplicateMessage():
            return f"doubled, the second copy {format_time(fault.by_us)} later"
        case DelayMessage():
            return f"delayed by {format_time(fault.by_us)}"
