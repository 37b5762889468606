"""A failing run as a file, reproducible byte for byte."""

from pathlib import Path

import msgspec

from headrace import HistoryFormatError, OptionsError
from headrace.api.json_text import JsonError, read_json
from headrace_properties.printable import printable_json
from headrace_properties.search.application import Application, Trial
from headrace_properties.search.judging import Failure
from headrace_properties.search.origins import code_digest, input_digest
from headrace_properties.search.plans import Plan

REPLAY_FORMAT = 4
"""The format that this version writes, and the oldest that it reads."""


CODE = "code:"
"""Prefix of the names of findings about user code."""


class ReplayFile(msgspec.Struct, frozen=True):
    """A failing run as a file: everything needed to reproduce it, byte for byte.

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
        versions: further versions of the pipeline, also as ``MODULE:PIPELINE``.
        code_digest: of the source behind the pipeline and its versions (`headrace_properties.search.origins`); ``""``: unknown.
        input_digest: of the records that the run needs, and the watermarks; ``""``: unknown.
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
    code_digest: str = ""
    input_digest: str = ""

    @property
    def about_code(self) -> bool:
        """Whether it is about user code alone, without a cluster."""
        return bool(self.violations) and all(name.startswith(CODE) for name in self.violations)

    @property
    def trial(self) -> Trial:
        """The trial to run."""
        return Trial(self.plan, self.feed_seed, self.kept)

    def changes(self, application: Application, pipeline: str = "") -> tuple[str, ...]:
        """List what may have changed since the run was recorded: ``code``, ``input``, or both.

        Args:
            application: what the run is made of today.
            pipeline: ``MODULE:PIPELINE`` of it, if not the recorded one.
        """
        today = {
            "code": (self.code_digest, code_digest([pipeline or self.pipeline, *self.versions])),
            "input": (self.input_digest, input_digest(application.input_of(self.trial))),
        }
        return tuple(name for name, (recorded, now) in today.items() if not recorded or recorded != now)


def to_replay(
    failure: Failure,
    pipeline: str,
    protocol: str = "sound",
    feed: str = "feed",
    versions: tuple[str, ...] = (),
    application: Application | None = None,
) -> bytes:
    """Write a failure for a file.

    Args:
        failure: what was found.
        pipeline: as in `ReplayFile`.
        protocol: as in `ReplayFile`.
        feed: as in `ReplayFile`.
        versions: as in `ReplayFile`.
        application: what failed; ``None``: the file does not say what code and input it came from.
    """
    broken = {name: violation.message for name, violation in failure.violations.items()} or {
        "error": str(failure.error or "")
    }
    content = ReplayFile(
        pipeline, failure.feed_seed, failure.plan, protocol, failure.digest, broken, feed, kept=failure.kept,
        versions=versions,
        code_digest=code_digest([pipeline, *versions]) if application else "",
        input_digest=input_digest(application.input_of(failure.trial)) if application else "",
    )  # fmt: skip
    return printable_json(content) + b"\n"


class _Format(msgspec.Struct):
    """The one field that every format has."""

    format: int


def read_replay(path: Path) -> ReplayFile:
    """Read what `to_replay` wrote.

    Raises:
        HistoryFormatError: it cannot be read, or is something else, or of another version.
    """
    try:
        data = path.read_bytes()
        version = read_json(data, msgspec.json.Decoder(_Format).decode).format
        if version != REPLAY_FORMAT:
            raise HistoryFormatError("replay file", str(path), _of_another_format(version))
        return read_json(data, msgspec.json.Decoder(ReplayFile).decode)
    except OSError as error:
        raise HistoryFormatError("replay file", str(path), error.strerror or str(error)) from error
    except (OptionsError, JsonError) as error:
        raise HistoryFormatError("replay file", str(path), str(error)) from error


def _of_another_format(version: int) -> str:
    """Why a file is not read, and what to do."""
    if version > REPLAY_FORMAT:
        return f"it has format {version}, and this version of Headrace reads format {REPLAY_FORMAT}. Update Headrace"
    return (
        f"it has format {version}, which was written before the project was renamed Headrace; its modules and options"
        f" have new names, and this version reads format {REPLAY_FORMAT} only. Search again with the file's pipeline:"
        " headrace verify MODULE:PIPELINE --save FILE. CHANGELOG.md lists what was renamed"
    )


class _Kind(msgspec.Struct):
    """The one field that only a file about a Spark job has."""

    spark_job: str = ""


def is_spark_file(path: Path) -> bool:
    """Return whether a file claims to be about a Spark job. Leave refusing any other to `read_replay`."""
    try:
        return bool(read_json(path.read_bytes(), msgspec.json.Decoder(_Kind).decode).spark_job)
    except (OSError, JsonError):
        return False
