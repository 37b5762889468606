"""A failing run as a file, which runs again byte for byte."""

import msgspec

from headrace_properties.search.application import Trial
from headrace_properties.search.judging import Failure
from headrace_properties.search.plans import Plan

REPLAY_FORMAT = 4
"""Of the files that this version writes, and the oldest that it reads."""


class ReplayFile(msgspec.Struct, frozen=True):
    """A failing run as a file: all that is needed to run it again, byte for byte.

    Attributes:
        pipeline: ``MODULE:PIPELINE``.
        feed_seed: of the input.
        plan: the faults, options and seed.
        protocol: name of the state machines that it ran on.
        digest: of its History; ``""`` if it stopped with an error.
        violations: invariant to message, or ``error`` to what it stopped with.
        feed: name of the function, in the pipeline's module, that makes the input from ``feed_seed``.
        format: of this file; 1 to 3 were written under the project's former name, and name modules that are gone.
        kept: which of the input's records the run needs, by their order from 0; ``None``: all.
        versions: further versions of the pipeline, likewise ``MODULE:PIPELINE``.
    """

    pipeline: str
    feed_seed: int
    plan: Plan
    protocol: str
    digest: str
    violations: dict[str, str]
    feed: str = "feed"
    format: int = REPLAY_FORMAT
    kept: tuple[int, ...] | None = None
    versions: tuple[str, ...] = ()

    @property
    def trial(self) -> Trial:
        """The run to make."""
        return Trial(self.plan, self.feed_seed, self.kept)


def to_replay(
    failure: Failure,
    pipeline: str,
    protocol: str = "sound",
    feed: str = "feed",
    versions: tuple[str, ...] = (),
) -> bytes:
    """Write a failure for a file; the arguments are those of `ReplayFile`."""
    broken = {name: one.message for name, one in failure.violations.items()} or {"error": failure.error}
    content = ReplayFile(
        pipeline, failure.feed_seed, failure.plan, protocol, failure.digest, broken, feed, kept=failure.kept,
        versions=versions,
    )  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(content), indent=2)
