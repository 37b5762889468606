"""The parts of the protocol that ``--without`` can leave out: mutants by what they lack."""

from typing import Annotated

import typer

from headrace_cli.terminal.exit import UnknownWithoutError
from headrace_properties.proof.mutants import MUTANTS
from headrace_sim import SOUND, Protocol

_PREFIX = "without "
_LACKING = tuple(name.removeprefix(_PREFIX) for name in MUTANTS if name.startswith(_PREFIX))

_HELP = f"Leave this part out of the protocol, to see what it prevents: {', '.join(_LACKING)}."
WithoutOption = Annotated[str | None, typer.Option(metavar="WHAT", help=_HELP)]


def protocol_without(name: str | None) -> Protocol:
    """Return the sound protocol, or the one that lacks the named part.

    Args:
        name: what it lacks, such as ``sequencers``; ``None``: nothing.

    Raises:
        UnknownWithoutError: there is no protocol that lacks just this.
    """
    if name is None:
        return SOUND
    if name not in _LACKING:
        raise UnknownWithoutError(name, _LACKING)
    return MUTANTS[_PREFIX + name]
