"""The work of ``headrace job state``."""

import base64
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
from rich import filesize
from rich.console import Console

from headrace import StateCodec
from headrace_cli.targets.loading import load_pipeline
from headrace_cli.terminal.documents import fields_of, show, stdout_reserved
from headrace_cli.terminal.live_progress import time_cell
from headrace_cli.terminal.render import (
    counted,
    plain_table,
    print_heading,
    print_lines,
    print_table,
    print_text,
)
from headrace_cli.terminal.usage_errors import WrongOptionError
from headrace_properties.target import TargetError

if TYPE_CHECKING:
    from headrace.spark import ComputationState, JobState, RowState


def print_state(
    directory: str,
    computation: str | None,
    key: str | None,
    limit: int,
    pipeline: str | None,
    *,
    as_json: bool,
) -> None:
    """Print what a job has stored."""
    codec = _codec(pipeline, computation)
    from headrace.spark import JobState, session
    from headrace.spark.jobs.deployment_settings import shape_of_job
    from headrace.spark.runtime.job_files import local_directory, scheme_of

    if scheme_of(directory) in (None, "file"):
        shape_of_job(local_directory("directory", directory))  # before Spark is started for nothing
    with stdout_reserved(), session("local[2]", "headrace job state", config=_SESSION) as spark:
        job = JobState(spark, directory)
        if computation is None:
            computations, rows = job.computations(), None
        else:
            computations, rows = (job.computation(computation),), _rows(job, computation, key, limit)
    show(
        lambda: _document(job, computations, rows, codec),
        lambda console: (
            _print_job(console, job, computations)
            if rows is None
            else _print_computation(console, computations[0], rows, key, codec)
        ),
        as_json=as_json,
    )


_SESSION = {"spark.sql.shuffle.partitions": "2"}
"""Reading the state needs no shuffle."""


def _codec(pipeline: str | None, computation: str | None) -> StateCodec | None:
    if pipeline is None or computation is None:
        return None
    with stdout_reserved():
        keeper = load_pipeline(pipeline).computations.get(computation)
    if keeper is None:
        raise TargetError(
            pipeline, f"it has no computation {computation!r}", "Name the pipeline that the job runs"
        )
    return keeper.state_codec


def _rows(job: "JobState", computation: str, key: str | None, limit: int) -> "list[RowState]":
    if key is None:
        return list(islice(job.rows(computation), limit))
    row = job.row(computation, key)
    return [] if row is None else [row]


def _value(data: bytes, codec: StateCodec | None) -> Any:
    """Return a state as a value for JSON; bytes that neither the codec nor JSON can decode in base64."""
    if not data:
        return None
    try:
        if codec is not None:
            return msgspec.to_builtins(codec.decode(data), str_keys=True, enc_hook=repr)
        return msgspec.json.decode(data)
    except Exception as error:
        if codec is not None:
            problem = f"{codec!r} cannot decode a stored state ({type(error).__name__}: {error})"
            raise WrongOptionError("--pipeline", problem, "Leave it out to see its JSON or bytes") from error
        return {"base64": base64.b64encode(data).decode()}


def _document(
    job: "JobState",
    computations: "Iterable[ComputationState]",
    rows: "list[RowState] | None",
    codec: StateCodec | None,
) -> dict[str, Any]:
    document = fields_of(job, "pipeline") | {"computations": list(computations)}
    if rows is not None:
        document["rows"] = [{**msgspec.to_builtins(row), "state": _value(row.state, codec)} for row in rows]
    return document


def _print_job(console: Console, job: "JobState", computations: "Iterable[ComputationState]") -> None:
    print_text(console, job.pipeline)
    columns = ("micro-batch", "intervals", "keys", "timers", "state", "low watermark", "hold")
    table = plain_table("computation", *columns, numbers=columns)
    for computation in computations:
        table.add_row(
            computation.name + (" (removed)" if computation.removed else ""),
            f"{computation.micro_batch:,}" if computation.micro_batch >= 0 else "none",
            f"{len(computation.intervals):,}",
            f"{sum(interval.keys for interval in computation.intervals):,}",
            f"{sum(interval.timers for interval in computation.intervals):,}",
            filesize.decimal(sum(interval.state_bytes for interval in computation.intervals)),
            _time(_earliest([interval.low_watermark for interval in computation.intervals])),
            _time(_earliest([interval.hold for interval in computation.intervals if interval.hold is not None])),
        )  # fmt: skip
    print_table(console, table)


def _earliest(times: list[int | None]) -> int | None:
    """Return the earliest of event times; ``None`` if one is unknown, or there is none."""
    known = [time_us for time_us in times if time_us is not None]
    return min(known) if known and len(known) == len(times) else None


def _print_computation(
    console: Console,
    computation: "ComputationState",
    rows: "list[RowState]",
    key: str | None,
    codec: StateCodec | None,
) -> None:
    if key is not None:
        if not rows:
            print_text(
                console,
                f"{computation.name} has no row for {key!r} as of micro-batch {computation.micro_batch:,}",
            )
        for row in rows:
            _print_row(console, computation, row, codec)
        return
    table = plain_table("interval", "keys", "timers", "state", "records", "low watermark", "hold")
    for interval in computation.intervals:
        table.add_row(
            f"{interval.number}", f"{interval.keys:,}", f"{interval.timers:,}", filesize.decimal(interval.state_bytes),
            f"{interval.records:,}", _time(interval.low_watermark), _time(interval.hold),
        )  # fmt: skip
    print_table(console, table)
    for interval in computation.intervals:
        for sender, time_us in interval.holds.items():
            print_lines(console, f"interval {interval.number}: {sender} holds its input at {_time(time_us)}")
    if rows:
        print_heading(console, "Rows")
        listed = plain_table("key", "interval", "state", "timers", "hold")
        for row in rows:
            text = _text(row, codec)
            listed.add_row(row.key, f"{row.interval}", text, f"{len(row.timers)}", _time(row.hold))
        print_table(console, listed)
    left = sum(interval.keys for interval in computation.intervals) - len(rows)
    if left > 0:
        print_text(console, f"{counted(left, 'more row')}: see --limit, or name a key")


def _print_row(
    console: Console, computation: "ComputationState", row: "RowState", codec: StateCodec | None
) -> None:
    print_text(
        console, f"{computation.name}, interval {row.interval}, as of micro-batch {computation.micro_batch:,}"
    )
    print_lines(console, f"state: {_text(row, codec)}")
    print_lines(console, f"hold: {_time(row.hold) or 'none'}")
    print_lines(console, f"record ids kept: {len(row.seen):,}")
    for record_id, origin in row.seen.items():
        print_lines(console, f"{record_id}, origin {_time(origin)}", indent=2)
    print_lines(console, f"timers: {len(row.timers):,}")
    for timer in row.timers:
        held = "" if timer.hold is None else f", holds the low watermark at {_time(timer.hold)}"
        print_lines(console, f"{timer.tag!r}, {timer.clock}, due {_time(timer.due)}{held}", indent=2)


def _text(row: "RowState", codec: StateCodec | None) -> str:
    return msgspec.json.encode(_value(row.state, codec)).decode() if row.state else "none"


def _time(time_us: int | None) -> str:
    return "" if time_us is None else time_cell(time_us)
