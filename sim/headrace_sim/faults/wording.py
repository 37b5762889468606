"""Faults in words, for reports."""

from headrace import MAX_TIME, format_time
from headrace_sim.faults.kinds import (
    AnyFault,
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
