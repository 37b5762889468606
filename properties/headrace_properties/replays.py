"""A finding as a file, reproducible byte for byte: where its target comes from, the trial that shows it, and what was found.

Rule of this file: all formats are read, and the newest is written. PySpark is not needed for either.

Formats 1 to 4 were about a pipeline or its code by itself, and the first three were written under the project's former name.
Files about Spark jobs and sinks had a format 1 of their own.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from headrace import HistoryFormatError, OptionsError
from headrace.api.json_text import JsonError, in_words, read_json
from headrace_properties.checkers.invariant_catalogue import is_invariant
from headrace_properties.findings import Family, Kind
from headrace_properties.printable import printable_json
from headrace_properties.search.application import PipelineTrial
from headrace_properties.search.judging import Failure
from headrace_properties.search.origins import code_digest
from headrace_properties.search.plans import Plan
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.trials import QueryTrial, SinkTrial
from headrace_properties.target import PipelineSource, Source, SparkSource
from headrace_properties.user_code.code_trial import CodeTrial
from headrace_sim.spark.query.schedules import Schedule
from headrace_sim.spark.real.server_protocol import SparkAnswer
from headrace_sim.spark.sink_faults import SinkFault

REPLAY_FORMAT = 6
"""The format that this version writes. Only its trials of pipelines may put arrivals closer, which tells it from format 5."""

_OF_ANY_TARGET = 5
"""Files of this format and later ones are about any target."""


AnyTrial = PipelineTrial | CodeTrial | QueryTrial | SinkTrial


class ReplayFile(msgspec.Struct, frozen=True):
    """A finding, and everything needed to see it again.

    Attributes:
        source: where the target comes from.
        trial: what to run.
        found: message of each finding, by family and name.
        digest: of the run's History; ``""``: it has none.
        code_digest: of the source behind the target (`headrace_properties.search.origins`); ``""``: unknown.
        input_digest: of the records or rows that the trial keeps; ``""``: unknown.
        format: of the file.
        answers: what the real Spark said to the trial, by the digest of the question; not set: nothing was asked.
        versions: of what judged a Spark job, by name; not set: it is about no Spark job, or does not say.
    """

    source: Source
    trial: AnyTrial
    found: dict[Family, dict[str, str]]
    digest: str = ""
    code_digest: str = ""
    input_digest: str = ""
    format: int = REPLAY_FORMAT
    answers: dict[str, SparkAnswer] | msgspec.UnsetType = msgspec.UNSET
    versions: dict[str, str] | msgspec.UnsetType = msgspec.UNSET

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What was found, without what it claims."""
        return tuple(Kind(family, name) for family, messages in self.found.items() for name in messages)

    def shows(self, kind: Kind) -> bool:
        """Return whether a kind of finding was recorded."""
        return kind.name in self.found.get(kind.family, {})

    def changes(self, input_digest: str) -> tuple[str, ...]:
        """List what may have changed since it was recorded: ``code``, ``input``, or both.

        Args:
            input_digest: of today's input of the trial.
        """
        today = {
            "code": (self.code_digest, code_digest(self.source.names)),
            "input": (self.input_digest, input_digest),
        }
        return tuple(name for name, (recorded, now) in today.items() if not recorded or recorded != now)


_NO_ANSWERS: Mapping[str, SparkAnswer] = {}
_NO_VERSIONS: Mapping[str, str] = {}


def to_replay(
    source: Source,
    trial: AnyTrial,
    messages: Mapping[Kind, str],
    *,
    digest: str = "",
    input_digest: str = "",
    answers: Mapping[str, SparkAnswer] = _NO_ANSWERS,
    versions: Mapping[str, str] = _NO_VERSIONS,
) -> bytes:
    """Write a finding for a file.

    Args:
        source: as in `ReplayFile`; so are ``trial`` and ``digest``.
        trial: what shows it.
        messages: what was found.
        digest: of its History.
        input_digest: of its input; ``""``: the file does not say what code and input it came from.
        answers: what the real Spark said.
        versions: of what judged a Spark job.
    """
    by_family: dict[Family, dict[str, str]] = {}
    for kind, message in messages.items():
        by_family.setdefault(kind.family, {})[kind.name] = message
    code = code_digest(source.names) if input_digest else ""
    kept, judges = dict(answers) or msgspec.UNSET, dict(versions) or msgspec.UNSET
    replay = ReplayFile(source, trial, by_family, digest, code, input_digest, answers=kept, versions=judges)
    return printable_json(replay) + b"\n"


def kind_of(name: str) -> Kind:
    """Return the kind of finding that a verdict of a pipeline's run is about."""
    return Kind(Family.INVARIANT if is_invariant(name) else Family.PROMISE, name)


ERROR = Kind(Family.ERROR, "error")
"""What stopped the run."""


def messages_of(failure: Failure) -> dict[Kind, str]:
    """Return what a failing run of a pipeline violates, or what stopped it."""
    violated = {kind_of(name): violation.message for name, violation in failure.violations.items()}
    return violated or {ERROR: str(failure.error or "")}


class _Header(msgspec.Struct):
    """What tells the formats apart: only the first one about Spark jobs has ``spark_job``."""

    format: int
    spark_job: str | None = None


def read_replay(path: Path) -> ReplayFile:
    """Read a file of any format.

    Raises:
        HistoryFormatError: it cannot be read, or is something else, or of a newer version.
    """
    try:
        data = path.read_bytes()
        header = read_json(data, msgspec.json.Decoder(_Header).decode)
        if header.spark_job is not None and header.format == _SPARK_FORMAT:
            return read_json(data, msgspec.json.Decoder(_SparkFile).decode).replay
        if header.spark_job is not None or not 0 < header.format <= REPLAY_FORMAT:
            reason = f"it has format {header.format}, and this version of Headrace reads formats up to {REPLAY_FORMAT}"
            raise HistoryFormatError("replay file", str(path), f"{reason}. Update Headrace")
        if header.format >= _OF_ANY_TARGET:
            return read_json(data, msgspec.json.Decoder(ReplayFile).decode)
        if header.format <= _LAST_OF_FORMER_NAME:
            return _translated(read_json(data, msgspec.json.decode)).replay
        return read_json(data, msgspec.json.Decoder(_PipelineFile).decode).replay
    except OSError as error:
        raise HistoryFormatError("replay file", str(path), error.strerror or str(error)) from error
    except (OptionsError, JsonError, msgspec.ValidationError) as error:
        raise HistoryFormatError("replay file", str(path), in_words(error)) from error


_CODE = "code:"


class _PipelineFile(msgspec.Struct):
    """Format 4."""

    pipeline: str
    feed_seed: int
    plan: Plan
    protocol: str
    digest: str
    violations: dict[str, str]
    feed: str = "feed"
    kept: tuple[int, ...] | None = None
    versions: tuple[str, ...] = ()
    code_digest: str = ""
    input_digest: str = ""

    @property
    def replay(self) -> ReplayFile:
        names = self.violations
        about_code = bool(names) and all(name.startswith(_CODE) for name in names)
        trial: AnyTrial = PipelineTrial(self.plan, self.feed_seed, self.kept)
        if about_code:
            trial = CodeTrial(self.feed_seed, self.kept, self.plan.seed)
        by_family: dict[Family, dict[str, str]] = {}
        for name, message in names.items():
            kind = ERROR if name == ERROR.name else kind_of(name)
            kind = Kind(Family.CODE, name.removeprefix(_CODE)) if about_code else kind
            by_family.setdefault(kind.family, {})[kind.name] = message
        source = PipelineSource(self.pipeline, self.versions, self.protocol, self.feed)
        return ReplayFile(source, trial, by_family, self.digest, self.code_digest, self.input_digest)


_LAST_OF_FORMER_NAME = 3


def _translated(content: Any) -> _PipelineFile:
    """Return a file of formats 1 to 3, with the modules' names of today.

    Raises:
        JsonError: it has options or faults that are no more.
    """
    file = msgspec.convert(content, _PipelineFile)
    read = set(_paths("plan", msgspec.to_builtins(file.plan)))
    lost = next((path for path in _paths("plan", content["plan"]) if path not in read), None)
    if lost is not None:
        raise JsonError(
            f"{lost} is no more. Search again with the file's pipeline: headrace verify MODULE:PIPELINE --save FILE."
            " CHANGELOG.md lists what was renamed"
        )
    names = [re.sub(r"^millrace", "headrace", name) for name in (file.pipeline, *file.versions)]
    return msgspec.structs.replace(file, pipeline=names[0], versions=tuple(names[1:]))


def _paths(path: str, value: Any) -> Iterator[str]:
    """Yield the path of each field that has a value, also within others."""
    named = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list | tuple)
        else ()
    )
    for name, inner in named:
        if inner is not None:
            yield f"{path}.{name}"
            yield from _paths(f"{path}.{name}", inner)


_SPARK_FORMAT = 1


class _SparkFile(msgspec.Struct):
    """Format 1 of files about Spark jobs."""

    spark_job: str
    violations: dict[str, str]
    schemas: str | dict[str, str] | None
    feed: str
    feed_seed: int
    kept: tuple[int, ...]
    cause: Cause | None = None
    changed: Cause = Cause.FAULTS
    schedule: Schedule | None = None
    fault: SinkFault | None = None
    promise: str = ""
    code_digest: str = ""
    input_digest: str = ""
    keys: dict[str, tuple[str, ...]] = {}

    @property
    def replay(self) -> ReplayFile:
        source = SparkSource(self.spark_job, self.schemas, self.feed, self.keys)
        return ReplayFile(source, self._trial(), self._messages(), "", self.code_digest, self.input_digest)

    def _trial(self) -> QueryTrial | SinkTrial:
        if self.cause is not None and self.fault is None:
            return QueryTrial(
                self.cause, self.changed, self.schedule, self.promise, self.feed_seed, self.kept
            )
        if self.fault is not None and self.cause is None:
            return SinkTrial(self.fault, self.feed_seed, self.kept)
        raise JsonError("it has neither the cause nor the fault of a finding, or both")

    def _messages(self) -> dict[Family, dict[str, str]]:
        family = Family.SINK if self.fault else Family.PROMISE if self.promise else Family.OUTCOME
        return {family: {self.promise or _in_brackets(name): text for name, text in self.violations.items()}}


def _in_brackets(name: str) -> str:
    """Return the short name: ``each row exactly once (twice)``."""
    return name.rpartition("(")[2].removesuffix(")")
