"""Dividing a stopped job's keys anew into key intervals, at its next start (MillWheel 7.1).

Rules of this file:

* First the job comes to **rest** with its old intervals: no micro-batch is planned and not committed, and all have seen the last
  watermark. Then nothing is due that an old interval would have to do.
* Everything is written beside the job first. One write of its shape then makes the new intervals count. Before that write the job
  is the old one, and after it the new one, wherever its driver dies.
* A start writes its images to a directory of its own, and no file twice. So what a start left that died counts for nothing.
* Choice: the state passes through the driver, one computation at a time. If not all machines mount the directory, so do the
  images, one at a time, at each start until all intervals have them.
"""

import os
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from headrace.api.pipeline import Pipeline
from headrace.spark.errors import SparkHostError
from headrace.spark.hosting.chunks import decode_header
from headrace.spark.hosting.layout import JobPlan, Reshard
from headrace.spark.hosting.resharding import Image, images_of, is_done, read_image, write_images
from headrace.spark.jobs.job import Shape, last_committed, read_shape, write_shape
from headrace.spark.jobs.state import StoredState
from headrace.spark.runtime.broadcasts import Sent
from headrace.spark.runtime.hadoop import Place, files_in, remove

_FOLDER = "intervals"


def is_at_rest(checkpoint: Place) -> bool:
    """Return whether a stopped query has nothing left to do for what it has read, from its checkpoint."""
    committed = last_committed(checkpoint)
    planned = max(
        [int(path.name) for path in files_in(checkpoint / "offsets") if path.name.isdigit()], default=-1
    )
    if planned != committed:
        return False
    if committed < 0:
        return True
    offset = _json(checkpoint / "offsets" / str(committed))
    commit = _json(checkpoint / "commits" / str(committed))
    return bool(offset["batchWatermarkMs"] >= commit.get("nextBatchWatermarkMs", 0))


def _json(log: Place) -> dict[str, int]:
    """Return the metadata in an entry of one of Spark's logs: its second line."""
    found: dict[str, int] = msgspec.json.decode(log.read_bytes().splitlines()[1])
    return found


def check_reshardable(directory: Place, before: Shape, pipeline: Pipeline, *, history: bool) -> None:
    """Refuse a job whose keys cannot be divided anew.

    Raises:
        SparkHostError: for the reason that it gives.
    """
    where = f"the job in {str(directory)!r} has {before.intervals} key intervals"
    removed = sorted(set(before.known_levels()) - set(pipeline.computations))
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
    spark: SparkSession, directory: Place, checkpoint: Place, plan: JobPlan, now: Shape, pipeline: Pipeline
) -> None:
    """Divide the keys of a job at rest anew.

    Args:
        spark: the session.
        directory: directory of the job.
        checkpoint: its query's checkpoint.
        plan: the layout with the new intervals.
        now: the shape with the new intervals.
        pipeline: the pipeline.

    Raises:
        SparkHostError: an earlier change has not reached all intervals.
        StorageError: a file of the checkpoint is missing or damaged.
    """
    before = read_shape(directory)
    assert before is not None, "the job was deployed"
    number, batch, levels = before.reshards + 1, last_committed(checkpoint), before.known_levels()
    stored: dict[str, Image] = {}
    for name in pipeline.computations:
        if name in levels and batch >= 0:
            stored |= StoredState(
                spark, checkpoint, before.operator_of(name), name, fused=before.fused
            ).images()
    if before.reshard is not None and batch > before.reshard.batch:
        stored = _of_the_latest(before.reshard, stored, directory)
    folder = directory / _FOLDER / f"{number}-{os.urandom(4).hex()}"
    intervals, splits = before.division_at(batch)
    images = images_of(plan, stored, intervals, number)
    write_images(folder, images)
    remove(directory / "progress.json")  # it has the old intervals' names, and can be lost
    change = Reshard(number, batch, intervals, str(folder), tuple(images), splits) if stored else None
    write_shape(directory, msgspec.structs.replace(now, reshard=change, reshards=number), pipeline)


def _of_the_latest(change: Reshard, stored: dict[str, Image], directory: Place) -> dict[str, Image]:
    """Return the intervals that have their rows since the latest change; all of them must."""
    latest = {
        group: image for group, image in stored.items() if decode_header(image[0]).generation == change.number
    }
    missing = set(change.images) - set(latest)
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
    return None if change is None or is_done(folder_of(directory, change)) else change


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
