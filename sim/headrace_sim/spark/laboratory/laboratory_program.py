"""An attempt of a trial in the laboratory: a fork of this process that runs the program as a driver does."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from threading import Event, current_thread, main_thread
from types import ModuleType
from typing import Any

from py4j.clientserver import FinalizerWorker
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession
from pyspark.sql.streaming import StreamingQuery

from headrace_sim.spark.client.notebooks import notebook_globals
from headrace_sim.spark.client.scripts import Script, surroundings
from headrace_sim.spark.laboratory.called import Called
from headrace_sim.spark.laboratory.inputs import read_from
from headrace_sim.spark.laboratory.jvm import SparkJvm, attach
from headrace_sim.spark.laboratory.kept_files import watch_named
from headrace_sim.spark.laboratory.looks import SourcesLook, kept_variables, note_queries
from headrace_sim.spark.laboratory.outside_writes import OutsideWrites
from headrace_sim.spark.laboratory.places import watch_commands, watch_reads
from headrace_sim.spark.laboratory.postgres import is_lock_timeout
from headrace_sim.spark.laboratory.watched_frames import (
    watch_queries,
    watch_states,
    watch_writes,
    without_trace,
)
from headrace_sim.spark.laboratory.workers import AttemptSettings, batches_of, raised_in_worker, watch_workers
from headrace_sim.spark.refusals import is_library, place_of_error, text_of
from headrace_sim.spark.sink_faults import SinkFault
from headrace_sim.spark.sinks.processes import LetThrough
from headrace_sim.spark.sinks.sink_effects import EffectProbe, Failed, Returned
from headrace_sim.spark.sinks.store_clients import StoreClients
from headrace_sim.spark.sinks.trial_contents import Raw
from headrace_sim.spark.spark_job import SparkJob

REMOTE = "spark.remote"
"""The setting that makes a program a client of Spark Connect."""
_REST_S = 0.02
"""How long, in real seconds, a wait of the program's takes at most: its query runs in real time."""


@dataclass(frozen=True, slots=True)
class LaboratoryProgram:
    """A program, and the streams that it reads in a trial."""

    script: Script | Called  # it, or what stands for it
    queries: tuple[SparkJob, ...]  # what it starts, in order
    number: int = 0  # the place of the one that is tried. The others read nothing, and write nowhere
    within: Callable[[], AbstractContextManager[object]] = nullcontext  # gives the context in which it runs
    read: Callable[[Raw], Raw] = dict  # reads what a trial left, as what is compared of it

    @property
    def job(self) -> SparkJob:
        """The query that is tried."""
        return self.queries[self.number]


def drive(
    program: LaboratoryProgram,
    jvm: SparkJvm,
    session: Any,
    settings: AttemptSettings,
    probe: EffectProbe,
    fault: SinkFault | None,
    prepare: Callable[[], Any] | None = None,
) -> int:
    """Run the program in this process, a fork, and return its exit status.

    ``jvm``: where Spark runs. ``session``: Java's session. ``settings``: how it settles in its trial. ``probe``: told of its
    effects. ``fault``: what strikes it. ``prepare``: makes what the program takes for granted, before its first attempt. Or
    None.
    """
    folder, kept = settings.folder, settings.kept
    with _settled(program, jvm, session, settings, probe) as (variables, spark, clients):
        absolute = None if kept is None else lambda name: str(kept.absolute(name, folder))
        read_from(folder.parent / "input", program.queries, program.number, absolute)
        watch_workers(settings, probe)
        outside = OutsideWrites(probe, spark, LetThrough.WRITES in jvm.lets, settings.database is not None)
        watch_writes(probe, outside)
        watch_states()
        written = watch_queries(
            probe, fault, program.queries, program.number, outside, kept, heard=settings.heard
        )
        if prepare is not None and probe.attempt == 0:
            prepare()
        before = batches_of(folder, "commits")
        status = run_program(program.script, probe, variables, spark)
        probe.wrote(sorted(batches_of(folder, "commits") - before), written)
        if status == 0:  # its batches may all have been done before
            probe.ledger.append(Returned(probe.attempt, -1))
        clients.send_waiting()
        if status == 0 and probe.dies_held:  # it dies between two batches
            probe.die()
    return status


def look(
    program: LaboratoryProgram, jvm: SparkJvm, session: Any, settings: AttemptSettings, probe: EffectProbe
) -> int:
    """Run the program without rows in this process, a fork; note its queries and its variables in the ledger.

    The arguments and what is returned are those of `drive`.
    """
    with _settled(program, jvm, session, settings, probe) as (variables, spark, _):
        watch_workers(settings, probe)
        tell = probe.ledger.append
        note_queries(SourcesLook(settings.folder.parent / "input", program.script.schemas, tell), tell)
        status = run_program(program.script, probe, variables, spark)
        probe.ledger.append(kept_variables(variables))
    return status


@contextmanager
def _settled(
    program: LaboratoryProgram, jvm: SparkJvm, session: Any, settings: AttemptSettings, probe: EffectProbe
) -> Iterator[tuple[dict[str, Any], SparkSession, StoreClients]]:
    """Let this process be a driver in its trial, irreversibly; give the program's variables, its session and its clients."""
    forget_users_modules()
    with program.within(), _surroundings(program.script) as module:
        clients = settings.settle(probe)
        spark = attach(jvm, session)
        _keep_running(spark)
        watch_commands(settings.folder, spark.sparkContext._jsc.hadoopConfiguration())
        of_owner = settings.watch_paths(probe)
        watch_reads(settings.folder, probe.unseen) if of_owner is None else watch_named(of_owner)
        time.sleep = _resting(time.sleep, spark)  # type: ignore[assignment]
        _be_quiet()
        yield vars(module), spark, clients


@contextmanager
def _surroundings(script: Script | Called) -> Iterator[ModuleType]:
    """Give what is run its module within."""
    if isinstance(script, Script):
        with surroundings(script) as module:
            yield module
    else:
        yield ModuleType("__main__")


def forget_users_modules() -> None:
    """Forget the modules of the user's that this process has, irreversibly: they may hold what the simulation gave them."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        is_installed = is_library(file) or f"{os.sep}dist-packages{os.sep}" in file
        if file.endswith(".py") and name != "__main__" and not is_installed:
            del sys.modules[name]


def _be_quiet() -> None:
    """Let nothing that this process prints, in whatever way, reach who reads the verdict."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


def run_program(
    script: Script | Called, probe: EffectProbe, variables: dict[str, Any], spark: SparkSession
) -> int:
    """Run the program to the end of its queries. Return the exit status."""
    try:
        _start(script, variables, spark)
        for query in spark.streams.active:
            query.awaitTermination()
    except _OverError:
        pass
    except BaseException as error:  # noqa: BLE001  whatever the user's code raises
        if not _has_failed(probe):  # else its own function was heard to raise it
            _note_failure(probe, error)
        return 1
    return int(_has_failed(probe))


def _start(script: Script | Called, variables: dict[str, Any], spark: SparkSession) -> None:
    """Run the program. If it exits normally, as by ``dbutils.notebook.exit()``, the queries that it has started go on."""
    if isinstance(script, Called):
        script.start(spark)
        return
    code = variables.pop("__code__")
    variables.update(notebook_globals(spark))
    try:
        exec(code, variables)  # noqa: S102  it is what the user runs
    except SystemExit as end:
        if end.code not in {None, 0}:
            raise


def _has_failed(probe: EffectProbe) -> bool:
    entries = probe.ledger.entries()
    return any(isinstance(entry, Failed) and entry.attempt == probe.attempt for entry in entries)


def _note_failure(probe: EffectProbe, error: BaseException) -> None:
    """Record what ended the program."""
    here = type(error).__name__, without_trace(error), place_of_error(error)
    name, message, place = raised_in_worker(text_of(error)) or here
    locked = "locked" in message or "busy" in message or is_lock_timeout(error)
    probe.ledger.append(Failed(probe.attempt, -1, name, message, place, locked))


class _OverError(BaseException):
    """The program waits, and its queries have ended: nothing will come any more."""


def _resting(shift: Callable[[float], Any], spark: SparkSession) -> Callable[[float], None]:
    """Return a replacement for ``sleep``: the program's clock moves on, and it waits only until other threads have run."""
    real_sleep, started = Event().wait, []

    def rest(seconds: float) -> None:
        if isinstance(current_thread(), FinalizerWorker):  # Py4J's own, which waits all the time
            real_sleep(seconds)
            return
        shift(seconds)
        real_sleep(min(seconds, _REST_S))
        if spark.streams.active:
            started.append(True)
        elif started:
            raise _OverError

    return rest


def _stopping(really: Callable[[StreamingQuery], None]) -> Callable[[StreamingQuery], None]:
    """Return what stops a query once it has run through what is there, however short the program's waits were."""

    def stop(query: StreamingQuery) -> None:
        if current_thread() is main_thread():  # else its own function may call this
            query.awaitTermination()
        really(query)

    return stop


def _keep_running(spark: SparkSession) -> None:
    """Let the program have the session that is there, and not stop it."""
    context = spark.sparkContext

    def only(_kind: type, *_args: Any, **_options: Any) -> SparkContext:
        return context

    SparkContext.__new__ = only
    SparkContext.__init__ = lambda *_args, **_options: None
    SparkContext.stop = lambda _self: None
    StreamingQuery.stop = _stopping(StreamingQuery.stop)
    SparkSession.stop = lambda _self: None
    really_get = SparkSession.Builder.getOrCreate

    def get(builder: Any) -> SparkSession:
        for name in ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_API_MODE"):
            os.environ.pop(name, None)
        for name in (REMOTE, "spark.api.mode"):
            builder._options.pop(name, None)
        return really_get(builder)

    SparkSession.Builder.getOrCreate = get
    ConnectSession.Builder = SparkSession.Builder  # a client of Spark Connect gets the classic session
    sys.modules.setdefault("__mp_main__", sys.modules["__main__"])
