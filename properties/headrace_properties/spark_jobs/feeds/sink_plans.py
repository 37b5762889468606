"""Rows for what a function of `foreachBatch` does with its frames: it is run once, apart, to see what it asks of them."""

import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from typing import Any
from unittest.mock import patch

import pyspark.sql.connect.proto as pb

from headrace.api.errors import HeadraceError
from headrace_properties.spark_jobs.feeds.job_feeds import feed_of
from headrace_properties.spark_jobs.feeds.query_plans import SinkPlans
from headrace_sim.spark.client.connect_answers import Answers
from headrace_sim.spark.sinks.processes import SinkFunction
from headrace_sim.spark.spark_job import SparkJob

_Feed = Sequence[Sequence[tuple[Any, ...]]]


def feed_for_sink(job: SparkJob, seed: int, feed: _Feed, run: Callable[[SinkFunction], object]) -> _Feed:
    """Return rows that reach more of a job's sink than those that were drawn for its query alone.

    Args:
        job: The job, with a function of a batch.
        seed: The rows follow from it.
        feed: The rows that were drawn.
        run: Calls a function for each batch of their output, in a process of its own: a process that dies may answer nothing.

    """
    function, plans = job.sink.function, SinkPlans()
    assert function is not None

    with TemporaryFile() as answer:

        def watched(frame: Any, batch_id: int) -> None:
            plans.batches.append(frame._plan._handle)
            with patch.object(Answers, "schema", _noting(plans, Answers.schema)):
                try:
                    function(frame, batch_id)
                finally:
                    with suppress(HeadraceError):
                        drawn = pickle.dumps(feed_of(job, seed, {}, plans))
                        answer.seek(0)
                        answer.write(drawn)
                        answer.flush()

        with suppress(HeadraceError):  # the trials will tell of it
            run(watched)
        answer.seek(0)
        drawn = answer.read()
    return pickle.loads(drawn) if drawn else feed  # noqa: S301  our own process wrote it


def _noting(plans: SinkPlans, original: Callable[..., Any]) -> Callable[..., Any]:
    def schema(answers: Answers, relation: pb.Relation) -> Any:
        plans.relations.append(answers.resolved(relation))
        return original(answers, relation)

    return schema
