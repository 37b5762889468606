"""The deployed versions of a pipeline (MillWheel 3): what may differ between them.

Rules of this file:

* Each version is a valid pipeline of its own; the computations that they have in common may differ in their code, their inputs
  and outputs, and most switches.
* Choice: ``productions`` and ``exactly_once`` belong to a computation's name for good. Its timers' origins and its records'
  ids are in its rows, and mean other things in the other mode: a timer that was set strong does not hold the horizon (6.1.1),
  and one that then fires weak would produce what its consumer takes for a remnant. Rows outlive a computation's removal, and so
  this holds between any two versions.
"""

from collections.abc import MutableMapping, Sequence

from headrace.api.errors import PipelineError
from headrace.api.pipeline import Pipeline
from headrace.api.specs import ComputationSpec

Switches = tuple[str, ...]

_REMEDY = (
    "What it has stored and sent is of the one kind and can not be taken for the other: "
    "give it a new name in the version that changes it"
)


def check_versions(versions: Sequence[Pipeline]) -> None:
    """Check versions that are to be deployed together; every host calls this before it starts.

    Raises:
        PipelineError: a version that does not fit together, or a computation whose ``productions`` or ``exactly_once`` change.
    """
    known: dict[str, tuple[str, Switches]] = {}
    for number, version in enumerate(versions):
        check_version(version, f"version {number}", known)


def check_version(version: Pipeline, called: str, known: MutableMapping[str, tuple[str, Switches]]) -> None:
    """Check one more version.

    Args:
        version: which.
        called: what messages call it.
        known: by computation, the version that had it first, and its switches there; new ones are added.

    Raises:
        PipelineError: see `check_versions`.
    """
    for name, spec in version.computations.items():
        own = switches_of(spec)
        before, switches = known.setdefault(name, (called, own))
        for one, other in zip(switches, own, strict=True):
            if one != other:
                problem = f"computation {name!r} has {one} in {before} and {other} in {called}"
                raise PipelineError(version.name, problem, _REMEDY)


def switches_of(spec: ComputationSpec) -> Switches:
    """The switches that stay, in words."""
    return f"productions={spec.productions.value}", f"exactly_once={spec.exactly_once}"
