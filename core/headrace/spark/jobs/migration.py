"""Moving the state of a job at rest to a new checkpoint, for what no checkpoint of Spark's can change (MillWheel 3, 7.1).

Spark knows the sources and the operators of a query by position, and splits no group of one that runs. So another number of key
intervals, other injectors and other levels begin a new checkpoint.

Rules of this file:

* First the job comes to **rest**: no micro-batch is planned and not committed, and all have seen the last watermark. Then nothing
  is due that an old interval would have to do.
* A **seed** query with the new operators takes the images of their intervals, in one micro-batch with a stand-in for the sources.
  So Spark itself writes the checkpoint, in the format of its version. Only what its logs say of sources and watermark is
  replaced: an input that stays goes on where it was, a new one begins.
* The new checkpoint is complete before it counts. What makes it count is the **seal**: the next entry of the old checkpoint's
  offset log, which can be created only once, and has the new shape of the job. Before it the job is the old one, and after it the
  new one, wherever its driver dies. A driver that goes on with the old checkpoint can plan no micro-batch any more.
* Micro-batches are counted on, because sinks and sequencers know them by their numbers (`JobPlan.batches_before`).
* Choice: the state passes through the driver. Spark's tasks then get it with the seed query's plan.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from pyspark.sql import DataFrame

from headrace.api.pipeline import Pipeline
from headrace.spark.host_errors import SparkHostError
from headrace.spark.hosting.group_task import seed_rows
from headrace.spark.hosting.images import Image, images_of
from headrace.spark.hosting.layout import JobPlan
from headrace.spark.hosting.parcels import PARCEL_SCHEMA
from headrace.spark.hosting.processor import OperatorProcessor
from headrace.spark.jobs.attach import operator
from headrace.spark.jobs.deployment_settings import (
    DeploymentSettings,
    Shape,
    checkpoint_of,
    completed,
    last_committed,
    newest_in,
    seal,
    seal_of,
    write_shape,
)
from headrace.spark.jobs.running_query import RunningQuery
from headrace.spark.jobs.stored_state import StoredState
from headrace.spark.runtime.event_time import from_spark
from headrace.spark.runtime.hadoop import Place, copy_tree, create, files_in, remove

_NOTHING_READ = "-"
"""Spark's mark for a source that has not been read."""


def needs_migration(before: Shape, now: Shape) -> bool:
    """Return whether a job's shape does not fit its checkpoint."""
    if (before.intervals, before.splits) != (now.intervals, now.splits):
        return True
    if before.is_divided:
        return True
    if before.injectors != now.injectors or before.own_sources not in (None, now.own_sources):
        return True
    if before.sources is not None and before.sources != now.sources:
        return True
    known = before.known_levels()
    moved = any(known.get(name, level) != level for name, level in now.known_levels().items())
    return not before.fused and (moved or len(before.stages) != len(now.stages))


def check_movable(directory: Place, before: Shape, now: Shape, *, history: bool) -> None:
    """Refuse a job whose state cannot move.

    Raises:
        SparkHostError: for the reason that it gives.
    """
    where = f"the job in {str(directory)!r} has {before.intervals} key intervals"
    if history and (before.intervals, before.splits) != (now.intervals, now.splits):
        problem = f"{where}, which the names in its History contain"
        raise SparkHostError(
            problem, f"Deploy with intervals={before.intervals}, or without history=, to change the number"
        )


def check_at_rest(directory: Place, before: Shape) -> None:
    """Refuse a stopped job that has something left to do, and whose earlier version is not there to do it.

    Raises:
        SparkHostError: it has.
    """
    if not is_at_rest(checkpoint_of(directory, before)):
        problem = (
            f"the job in {str(directory)!r} stopped in the middle of its work, which the new version cannot finish: its "
            "injectors, levels or state are others"
        )
        remedy = "Deploy the version before once more with available_now=True and await_termination(), or use Deployment.change"
        raise SparkHostError(problem, remedy)


def is_at_rest(checkpoint: Place) -> bool:
    """Return whether a stopped query has nothing left to do for what it has read, from its checkpoint."""
    committed = last_committed(checkpoint)
    if newest_in(checkpoint / "offsets") != committed:
        return False
    if committed < 0:
        return True
    offset, commit = (json.loads(_entry(checkpoint / log, committed)[1]) for log in ("offsets", "commits"))
    return bool(offset["batchWatermarkMs"] >= commit.get("nextBatchWatermarkMs", 0))


def migrate(
    settings: DeploymentSettings, before: Shape, now: Shape, pipeline: Pipeline, plan: JobPlan
) -> None:
    """Move the state of a job at rest to a new checkpoint.

    Args:
        settings: of the deployment, with the new partitions and operators.
        before: the shape that counts.
        now: the new one.
        pipeline: the new pipeline.
        plan: the layout with the new operators and intervals.

    Raises:
        SparkHostError: another driver has gone on with the old checkpoint, or it does not say which source is which.
        StorageError: a file of a checkpoint is missing or damaged.
    """
    directory, old = settings.directory, checkpoint_of(settings.directory, before)
    committed = last_committed(old)
    now = msgspec.structs.replace(
        now,
        checkpoint=f"pipeline-{os.urandom(4).hex()}",
        levels={},  # what was removed has no operator there
        batches_before=before.batches_before + max(committed, 0),
        wake_until=before.batches_before + committed + 10,
    )
    new = checkpoint_of(directory, now)
    if committed >= 0:
        entry = _entry(old / "offsets", committed)
        offsets = _moved_offsets(before, now, entry[2:])
        _seed(settings, plan, new, _stored(settings, before, plan, json.loads(entry[1])))
        _tell_logs(new, json.loads(entry[1]), [offset for offset, _ in offsets])
        remove(new / "sources")
        for place, (_, source) in enumerate(offsets):
            if source is not None:
                copy_tree(old / "sources" / str(source), new / "sources" / str(place))
    try:
        seal(old, committed, completed(directory, now, pipeline))
    except FileExistsError:
        remove(new)
        problem = f"another driver has gone on with the job in {str(directory)!r}"
        raise SparkHostError(problem, "Stop that driver, and deploy again") from None
    write_shape(directory, now, pipeline)
    remove(directory / "progress.json")  # it may have the names of other intervals, and can be lost
    _tidy(directory, new)


def _entry(log: Place, number: int) -> list[str]:
    """Return the lines of an entry of one of Spark's logs: a version, JSON, and for offsets one line for each source."""
    return (log / str(number)).read_bytes().decode().splitlines()


def _moved_offsets(before: Shape, now: Shape, lines: Sequence[str]) -> list[tuple[str, int | None]]:
    """Return how far each new source was read, and its number so far, if it had one."""
    known = before.sources or [[f"{name}/0"] for name in before.injectors]
    if len(known) != len(lines) or now.sources is None:
        problem = (
            f"{len(lines)} sources were read, and which is which was not noted when the job was deployed"
        )
        raise SparkHostError(problem, "Deploy the version before once more: this one notes it")
    left = dict(enumerate(map(set, known)))
    offsets: list[tuple[str, int | None]] = []
    for users in now.sources:
        place = max(left, key=lambda at: len(left[at].intersection(users)), default=-1)
        if left.get(place, set()).isdisjoint(users):
            offsets.append((_NOTHING_READ, None))
        else:
            offsets.append((lines[place], place))
            del left[place]
    return offsets


def _stored(
    settings: DeploymentSettings, before: Shape, plan: JobPlan, metadata: Mapping[str, Any]
) -> dict[str, Image]:
    """Return the images of all new intervals."""
    levels, stored = before.known_levels(), dict[str, Image]()
    for name in plan.pipeline.computations:
        if name in levels:
            stored |= StoredState(settings.spark, settings.directory, before, name).images()
    return images_of(plan, stored, before.intervals, from_spark(metadata["batchWatermarkMs"]))


def _seed(
    settings: DeploymentSettings, plan: JobPlan, checkpoint: Place, images: Mapping[str, Image]
) -> None:
    """Have Spark make a checkpoint in which each interval has its image."""
    spark = settings.spark
    ticks = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=1, startTimestamp=0).load()
    ticks = ticks.withWatermark("timestamp", "0 seconds")
    parcels = ticks.crossJoin(spark.createDataFrame(seed_rows(plan, images), PARCEL_SCHEMA)).select(
        "group", "parcel"
    )
    for level in range(1 if plan.fused else len(plan.levels)):
        parcels = operator(parcels, OperatorProcessor(plan, level, seeds=True))
    once = replace(settings, available_now=True, trigger_us=None)
    RunningQuery(f"{settings.directory}: migration", parcels, _compute, checkpoint, once).await_end()
    assert last_committed(checkpoint) == 0, "a seed is one micro-batch"


def _compute(frame: DataFrame, _number: int) -> None:
    frame.write.format("noop").mode("append").save()


def _tell_logs(checkpoint: Place, metadata: Mapping[str, Any], offsets: Sequence[str]) -> None:
    """Let the entries of the seed's micro-batch say how far the job has read, and its watermark."""
    watermark_ms = metadata["batchWatermarkMs"]
    times = {"batchWatermarkMs": watermark_ms, "batchTimestampMs": metadata["batchTimestampMs"]}
    for log, fields, rest in (
        ("offsets", times, offsets),
        ("commits", {"nextBatchWatermarkMs": watermark_ms}, ()),
    ):
        version, data, *_ = _entry(checkpoint / log, 0)
        entry = checkpoint / log / "0"
        remove(entry)
        remove(checkpoint / log / ".0.crc")
        create(entry, "\n".join([version, json.dumps(json.loads(data) | fields), *rest]).encode())


def _tidy(directory: Place, current: Place) -> None:
    """Delete what nobody can go on from: the state of checkpoints with a seal, and checkpoints that never counted."""
    for checkpoint in files_in(directory / "checkpoints"):
        if checkpoint.name == current.name:
            continue
        if seal_of(checkpoint) is None:
            remove(checkpoint)
            continue
        for place in files_in(checkpoint):
            if place.name != "offsets":
                remove(place)
