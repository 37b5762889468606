"""Dividing a stopped job's keys anew into key intervals, at its next start (MillWheel 7.1).

Rules of this file:

* First the job comes to **rest** with its old intervals: no micro-batch is planned and not committed, and all have seen the last
  watermark. Then nothing is due that an old interval would have to do. In the staged layout each computation's query does; what
  waits in the logs is for the new intervals.
* Everything is written beside the job first. One write of its shape then makes the new intervals count. Before that write the job
  is the old one, and after it the new one, wherever its driver dies.
* A start writes its images to a directory of its own, and no file twice. So what a start left that died counts for nothing.
* Choice: the state passes through the driver, one computation at a time. If not all machines mount the directory, so do the
  images, one at a time, at each start until all intervals have them.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from headrace.api.pipeline import Pipeline
from headrace.spark.errors import SparkHostError
from headrace.spark.hosting.chunks import decode_header
from headrace.spark.hosting.layout import JobPlan, Reshard, computation_of
from headrace.spark.hosting.resharding import Image, images_of, is_done, read_image, write_images
from headrace.spark.jobs.job import Shape, last_committed, newest_in, read_shape, write_shape
from headrace.spark.jobs.log import file_name
from headrace.spark.jobs.log_source import DIVISION
from headrace.spark.jobs.state import StoredState
from headrace.spark.runtime.broadcasts import Sent
from headrace.spark.runtime.hadoop import Place, files_in, remove

_FOLDER = "intervals"


def is_at_rest(checkpoint: Place) -> bool:
    """Return whether a stopped query has nothing left to do for what it has read, from its checkpoint."""
    committed = last_committed(checkpoint)
    if newest_in(checkpoint / "offsets") != committed:
        return False
    if committed < 0:
        return True
    offset = _json(checkpoint / "offsets" / str(committed))
    commit = _json(checkpoint / "commits" / str(committed))
    return bool(offset["batchWatermarkMs"] >= commit.get("nextBatchWatermarkMs", 0))


def _json(log: Place, line: int = 1) -> dict[str, Any]:
    """Return a line of an entry of one of Spark's logs: the metadata, or, two, the offset of the first source."""
    found: dict[str, Any] = msgspec.json.decode(log.read_bytes().splitlines()[line])
    return found


def check_reshardable(directory: Place, before: Shape, pipeline: Pipeline, *, history: bool) -> None:
    """Refuse a job whose keys cannot be divided anew.

    Raises:
        SparkHostError: for the reason that it gives.
    """
    where = f"the job in {str(directory)!r} has {before.intervals} key intervals"
    removed = sorted({*before.known_levels(), *before.switches} - set(pipeline.computations))
    if removed:
        problem = f"{where}, and still keeps the state of {removed}, which the pipeline no longer has"
        raise SparkHostError(
            problem,
            f"Deploy with intervals={before.intervals}, or with a pipeline that has them, to change the number",
        )
    if history:
        problem = f"{where}, which the names in its History contain"
        raise SparkHostError(
            problem, f"Deploy with intervals={before.intervals}, or without history= to change the number"
        )


def reshard(
    spark: SparkSession, directory: Place, queries: Mapping[Place, JobPlan], now: Shape, pipeline: Pipeline
) -> None:
    """Divide the keys of a job at rest anew.

    Args:
        spark: the session.
        directory: directory of the job.
        queries: by checkpoint, the layout with the new intervals of the computations that a query hosts.
        now: the shape with the new intervals.
        pipeline: the pipeline.

    Raises:
        SparkHostError: an earlier change has not reached all intervals.
        StorageError: a file of a checkpoint is missing or damaged.
    """
    before = read_shape(directory)
    assert before is not None, "the job was deployed"
    number, batches, images = before.reshards + 1, dict[str, int](), list[str]()
    folder = directory / _FOLDER / f"{number}-{os.urandom(4).hex()}"
    intervals, splits = before.intervals, before.splits
    for checkpoint, plan in queries.items():
        stored = _stored(spark, directory, before, checkpoint, plan)
        if stored:
            name = computation_of(next(iter(stored)))
            batches[name] = last_committed(checkpoint)
            intervals, splits = before.division_at(batches[name], name)
            made = images_of(plan, stored, intervals, number)
            write_images(folder, made)
            images += made
    change = None
    if batches:
        batch, by_query = max(batches.values()), batches if now.layout == "staged" else {}
        change = Reshard(number, batch, intervals, str(folder), tuple(images), splits, by_query)
    remove(directory / "progress.json")  # it has the old intervals' names, and can be lost
    write_shape(directory, msgspec.structs.replace(now, reshard=change, reshards=number), pipeline)


def _stored(
    spark: SparkSession, directory: Place, before: Shape, checkpoint: Place, plan: JobPlan
) -> dict[str, Image]:
    """Return the intervals that a query's state has, by group."""
    batch, levels = last_committed(checkpoint), before.known_levels()
    found: dict[str, Image] = {}
    for name in plan.pipeline.computations:
        if batch >= 0 and (
            name in levels or before.layout == "staged"
        ):  # there also what was removed and is back
            operator = before.operator_of(name)
            found |= StoredState(spark, checkpoint, operator, name, fused=before.fused).images()
    if before.reshard is not None and batch > max(
        before.reshard.of(name).batch for name in plan.pipeline.computations
    ):
        found = _of_the_latest(before.reshard, found, directory, plan)
    return found


def _of_the_latest(
    change: Reshard, stored: dict[str, Image], directory: Place, plan: JobPlan
) -> dict[str, Image]:
    """Return the intervals that have their rows since the latest change; all of them must."""
    latest = {
        group: image for group, image in stored.items() if decode_header(image[0]).generation == change.number
    }
    images = [group for group in change.images if computation_of(group) in plan.pipeline.computations]
    missing = set(images) - set(latest)
    if missing:
        problem = (
            f"the keys of the job in {str(directory)!r} were divided anew, and {len(missing)} of its key intervals have not "
            "taken their rows yet"
        )
        raise SparkHostError(
            problem,
            "Deploy with the number of intervals before, let it process some input, and then change it",
        )
    return latest


def folder_of(directory: Place, change: Reshard) -> Place:
    """Return the directory with the images of a change of a job."""
    return directory / _FOLDER / change.path.rpartition("/")[2]


def pending(directory: Place, before: Shape | None) -> Reshard | None:
    """Return the latest change of a job's intervals, unless all of them have committed their images."""
    change = None if before is None else before.reshard
    if change is None or not change.batches:
        return None if change is None or is_done(folder_of(directory, change)) else change
    checkpoints = [directory / "checkpoints" / file_name(name) for name in change.batches]
    return None if all(has_taken(checkpoint, change.number) for checkpoint in checkpoints) else change


def has_taken(checkpoint: Place, number: int) -> bool:
    """Return whether the intervals of a computation of a staged job have their rows since this change.

    The first micro-batch that its query plans with new intervals calls all of them, and its offset says so.

    Args:
        checkpoint: of the query.
        number: see `Reshard`; 0: the first intervals.
    """
    last = last_committed(checkpoint)
    return last < 0 or _json(checkpoint / "offsets" / str(last), 2).get(DIVISION, 0) >= number


def sent_images(spark: SparkSession, directory: Place, change: Reshard | None) -> dict[str, Sent]:
    """Send the images of a pending change to Python workers, unless these can read them from the job's directory.

    Raises:
        CheckpointDamagedError: one is missing.
    """
    if change is None or isinstance(directory, Path):
        return {}
    folder = folder_of(directory, change)
    return {group: Sent.by(spark, read_image(folder, group)) for group in change.images}


def carried(before: Shape | None, now: Shape, change: Reshard | None) -> Shape:
    """Return a shape that also has the changes of a job's intervals: the pending one, and how many there were."""
    if before is None:
        return now
    return msgspec.structs.replace(now, reshards=before.reshards, reshard=change)


def forget(directory: Place, before: Shape | None, change: Reshard | None) -> None:
    """Delete all images once the latest change is no longer pending and the job's shape does not name it any more.

    Until then those of earlier starts are kept: one that was presumed dead may still make its own count.
    """
    if before is None or before.reshard is None or change is not None:
        return
    for folder in files_in(directory / _FOLDER):
        number = folder.name.partition("-")[0]
        if number.isdecimal() and int(number) <= before.reshard.number:
            remove(folder)
