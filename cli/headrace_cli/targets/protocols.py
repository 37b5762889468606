"""Protocols that are named on the command line: the sound one, those of the catalogue, and the user's own."""

from dataclasses import replace

from headrace.api.errors import did_you_mean, with_article
from headrace.rules import Rules
from headrace_cli.options.names import PARTS
from headrace_cli.targets.loading import load_named
from headrace_cli.terminal.usage_errors import WrongOptionError
from headrace_properties.proof.mutants import MUTANTS, protocol_named
from headrace_sim import SOUND, Protocol


def protocol_asked(name: str | None, without: str | None) -> Protocol:
    """Return the protocol that is asked for: the sound one, unless one is named, or what it lacks.

    Args:
        name: as in `load_protocol`; ``None``: none is named.
        without: what it lacks, such as ``sequencers``; ``None``: nothing.

    Raises:
        WrongOptionError: both are given, there is no protocol of this name, or none that lacks just this.
        TargetError: the module that it names cannot be imported, or has no protocol of this name.
    """
    if name is not None and without is not None:
        raise WrongOptionError("--without", "--protocol already says which one", "Leave one of them out")
    if name is not None:
        return load_protocol(name)
    if without is not None and without not in PARTS:
        raise WrongOptionError(
            "--without",
            f"there is no part {without!r} to leave out",
            f"{did_you_mean(without, PARTS)}It takes {' or '.join(PARTS)}",
        )
    return SOUND if without is None else MUTANTS[f"without {without}"]


def load_protocol(name: str) -> Protocol:
    """Return a broken protocol of the catalogue, or one of the user's own.

    Args:
        name: that of a mutant, or ``MODULE:NAME`` of a `Protocol` or of a class of `Rules`, for which the current directory is
            searched first.

    Raises:
        WrongOptionError: there is none of this name, or it is something else.
        TargetError: the module cannot be imported, or has nothing of this name.
    """
    if ":" not in name:
        try:
            return protocol_named(name)
        except KeyError:
            raise WrongOptionError(
                "--protocol",
                f"there is no protocol {name!r}",
                f"{did_you_mean(name, MUTANTS)}headrace mutants --list has all; one of your own is MODULE:NAME",
            ) from None
    _, own = load_named(name)
    if isinstance(own, type) and issubclass(own, Rules):
        return Protocol(name, rules=own())
    if isinstance(own, Protocol):
        return replace(own, name=name)
    raise WrongOptionError(
        "--protocol",
        f"{name} is {with_article(type(own).__name__)}",
        "Name a class of headrace.rules.Rules, or a headrace_sim.Protocol",
    )


def load_rules(name: str) -> type[Rules]:
    """Return a class of rules of the user's own.

    Args:
        name: ``MODULE:NAME``; the current directory is searched first.

    Raises:
        WrongOptionError: it is no class of rules, or overrides none.
        TargetError: the module cannot be imported, or has nothing of this name.
    """
    _, own = load_named(name)
    if not (isinstance(own, type) and issubclass(own, Rules) and own is not Rules):
        raise WrongOptionError(
            "--protocol", f"{name} is no class of rules", "Name one: class EagerAcks(headrace.rules.Rules)"
        )
    return own
