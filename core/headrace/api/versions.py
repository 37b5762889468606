"""The deployed versions of a pipeline (MillWheel 3): what may differ between them.

Rules of this file:

* Each version is a valid pipeline on its own; computations that several versions share may differ in their code, inputs,
  outputs and most switches.
* The injectors of the first version stay, so each version has their streams, if only to send them outside.
* Choice: ``productions`` and ``exactly_once`` never change for a computation's name. Its rows contain the origins of timers and
  the ids of records, which mean different things in the other mode: a timer set with strong productions does not hold the
  horizon (6.1.1), and if it fired with weak ones, consumers would take its productions for network remnants. Rows outlive a
  computation's removal, so this applies to any two versions.
"""

from collections.abc import MutableMapping, Sequence

from headrace.api.errors import PipelineError
from headrace.api.pipeline import Pipeline
from headrace.api.specs import ComputationSpec

Switches = tuple[str, ...]

_REMEDY = (
    "Its stored rows and sent records are valid for one setting only: "
    "give the computation a new name in the version that changes it"
)


def check_versions(versions: Sequence[Pipeline]) -> None:
    """Check versions that will be deployed together; every host calls this before it starts.

    Raises:
        PipelineError: a version is inconsistent, changes a computation's ``productions`` or ``exactly_once``, or lacks a stream
            that the first version's injectors fill.
    """
    known: dict[str, tuple[str, Switches]] = {}
    for number, version in enumerate(versions):
        check_version(version, f"version {number}", known)
        for spec in versions[0].injectors.values():
            lacking = [stream for stream in spec.all_outputs if stream not in version.streams]
            if lacking:
                problem = f"injector {spec.name!r} goes on to inject into {lacking[0]!r}, which version {number} lacks"
                raise PipelineError(version.name, problem, "Keep it among the outputs of the injector")


def check_version(version: Pipeline, called: str, known: MutableMapping[str, tuple[str, Switches]]) -> None:
    """Check one more version.

    Args:
        version: the version.
        called: its name in error messages.
        known: by computation, the first version that had it and its switches there; new computations are added.

    Raises:
        PipelineError: see `check_versions`.
    """
    for name, spec in version.computations.items():
        own = switches_of(spec)
        before, switches = known.setdefault(name, (called, own))
        for first, now in zip(switches, own, strict=True):
            if first != now:
                problem = f"computation {name!r} has {first} in {before} and {now} in {called}"
                raise PipelineError(version.name, problem, _REMEDY)


def switches_of(spec: ComputationSpec) -> Switches:
    """Return the switches that must not change, as text."""
    return f"productions={spec.productions.value}", f"exactly_once={spec.exactly_once}"
