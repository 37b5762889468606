"""The executors of a Spark cluster as a pool: what searches spread over processes, they can spread over machines.

Rules of this file:

* Each batch of work is a Spark job of one task, so its results arrive as soon as they exist, and Spark reruns it if its
  executor is lost. One batch per executor core runs, and as many again are queued.
* An application is sent once, as a broadcast, and unpickled once in each of the executors' Python processes.
* If work raises, its exception is returned as a value. If work ends its process, its task fails: then each of the batch's
  runs is made in a separate process, as on one machine.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, cast

from py4j.protocol import Py4JError
from pyspark import Broadcast, SparkContext, cloudpickle
from pyspark.errors import PySparkException

from headrace import HeadraceError
from headrace.spark import SparkHostError
from headrace.spark.runtime.failures import import_error_in
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import JudgedRun, try_plan
from headrace_properties.search.limits import limit_memory
from headrace_properties.search.parallel import AT_ONCE, RunTrials, run_apart
from headrace_sim import Protocol
from headrace_sim.kernel import seldom_collected

ThingT = TypeVar("ThingT")
ResultT = TypeVar("ResultT")


class SparkExecutors:
    """A pool of the Python processes of Spark's executors.

    Args:
        context: of a running session.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._tag = f"headrace search {uuid.uuid4()}"  # the session's other jobs are not ours to cancel

    def spread(self, work: Callable[[ThingT], ResultT], things: Sequence[ThingT]) -> Iterator[ResultT]:
        """Apply a function to many things, and yield each result as soon as it exists.

        Raises:
            SparkHostError: Spark could not run it, such as when an executor cannot import what it needs.
        """
        with self._threads() as threads:
            for future in as_completed([threads.submit(self._do, work, thing) for thing in things]):
                yield future.result()

    @contextmanager
    def runner(self, application: Application, protocol: Protocol) -> Iterator[RunTrials]:
        """Start making runs of an application on a protocol.

        Raises:
            SparkHostError: The application cannot be sent; or as for `spread`, when the runs are made.
        """
        shipped = self._context.broadcast(_pickled(application, protocol))
        try:
            with self._threads() as threads:
                yield partial(self._in_turn, threads, shipped)
        finally:
            shipped.unpersist()

    def _in_turn(
        self, threads: ThreadPoolExecutor, shipped: Broadcast[bytes], trials: Sequence[PipelineTrial]
    ) -> Iterator[JudgedRun]:
        size = max(1, min(len(trials) // self._at_once, AT_ONCE))
        batches = [trials[first : first + size] for first in range(0, len(trials), size)]
        under_way: list[Future[list[JudgedRun]]] = []
        for batch in batches:
            under_way.append(threads.submit(self._batch, shipped, batch))
            if len(under_way) > self._at_once:  # the driver keeps no more results than these
                yield from under_way.pop(0).result()
        for future in under_way:
            yield from future.result()

    def _batch(self, shipped: Broadcast[bytes], trials: Sequence[PipelineTrial]) -> list[JudgedRun]:
        try:
            return self._do(partial(_try, shipped), trials)
        except _ProcessEndedError:
            return [self._do(partial(_try_apart, shipped), trial) for trial in trials]

    @property
    def _at_once(self) -> int:
        return 2 * int(self._context.defaultParallelism)

    @contextmanager
    def _threads(self) -> Iterator[ThreadPoolExecutor]:
        threads = ThreadPoolExecutor(
            self._at_once, initializer=self._context.addJobTag, initargs=(self._tag,)
        )
        try:
            yield threads
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            self._context.cancelJobsWithTag(self._tag)
            threads.shutdown()

    def _do(self, work: Callable[[ThingT], ResultT], thing: ThingT) -> ResultT:
        """Apply a function to a thing on some executor."""
        try:
            ((raised, result),) = self._context.parallelize([thing], 1).map(partial(_outcome, work)).collect()
        except (Py4JError, PySparkException) as error:
            raise _error_of(str(error)) from error
        if raised:
            raise cast("Exception", cloudpickle.loads(result))
        return cast("ResultT", result)


def _pickled(application: Application, protocol: Protocol) -> bytes:
    try:
        return cast("bytes", cloudpickle.dumps((application, protocol)))
    except Exception as error:
        problem = (
            f"the pipeline {application.pipeline.name!r} cannot be sent to executors:"
            f" {type(error).__name__}: {error}"
        )
        remedy = "Make what cannot be pickled where it is used, not in __init__; or search here, with --jobs"
        raise SparkHostError(problem, remedy) from error


class _ProcessEndedError(SparkHostError):
    """The Python process of a task ended. Fields: problem, remedy."""


def _error_of(text: str) -> HeadraceError:
    """Explain why a task failed."""
    if "Python worker exited unexpectedly" in text or "EOFException" in text:
        problem = "a Python process of an executor ended while it worked, and what it was at is lost"
        return _ProcessEndedError(problem, "Look at the executors' logs; they may be out of memory")
    return import_error_in(text) or SparkHostError(
        f"a search's task failed: {text.strip()}", "Look at the executors' logs"
    )


# What runs on executors


def _outcome(work: Callable[[ThingT], ResultT], thing: ThingT) -> tuple[bool, Any]:
    """Return whether work raised, and what: Spark returns exceptions from executors only as text."""
    try:
        return False, work(thing)
    except Exception as error:  # noqa: BLE001  the driver raises it
        return True, cloudpickle.dumps(error)


_loaded: dict[int, tuple[Application, Protocol]] = {}
"""The last application that this process received, by its broadcast."""


def _load(shipped: Broadcast[bytes]) -> tuple[Application, Protocol]:
    number = hash(shipped.value)
    if number not in _loaded:
        _loaded.clear()
        _loaded[number] = cloudpickle.loads(shipped.value)
        limit_memory(_loaded[number][0].limits)
    return _loaded[number]


def _try(shipped: Broadcast[bytes], trials: Sequence[PipelineTrial]) -> list[JudgedRun]:
    application, protocol = _load(shipped)
    with seldom_collected():
        return [try_plan(application, trial, protocol) for trial in trials]


def _try_apart(shipped: Broadcast[bytes], trial: PipelineTrial) -> JudgedRun:
    application, protocol = _load(shipped)
    return run_apart(application, trial, protocol)
