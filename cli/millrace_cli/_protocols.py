"""What ``--without`` can leave out of the protocol: the mutants, by what they lack."""

from millrace_cli._exit import UnknownWithoutError
from millrace_properties.mutants import MUTANTS
from millrace_sim import SOUND, Protocol

_PREFIX = "without "

WITHOUT_HELP = f"Leave this out of the protocol, and see what it was for: {', '.join(n.removeprefix(_PREFIX) for n in MUTANTS)}."


def protocol_without(name: str | None) -> Protocol:
    """The sound protocol, or the one that lacks something.

    Args:
        name: what it lacks, such as ``sequencers``; ``None``: nothing.

    Raises:
        UnknownWithoutError: there is no protocol that lacks just this.
    """
    if name is None:
        return SOUND
    protocol = MUTANTS.get(_PREFIX + name)
    if protocol is None:
        known = tuple(one.removeprefix(_PREFIX) for one in MUTANTS if one.startswith(_PREFIX))
        raise UnknownWithoutError(name, known)
    return protocol
