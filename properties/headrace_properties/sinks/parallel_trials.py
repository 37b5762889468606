"""Trials that several processes share, each with a host of its own; their results come in order."""

import multiprocessing
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from multiprocessing.connection import Connection
from typing import TypeVar

from headrace_sim.spark.sinks.processes import AttemptHost

TrialT = TypeVar("TrialT")
FaultT = TypeVar("FaultT")
Try = Callable[[AttemptHost, FaultT], TrialT]


def in_order(
    attempt: Try[FaultT, TrialT], host: AttemptHost, faults: Sequence[FaultT], processes: int
) -> Generator[TrialT]:
    """Yield the trial of each fault.

    Args:
        attempt: Tries a fault on a host.
        host: That of this process, which takes its share; others have one like it (`AttemptHost.another`).
        faults: What is tried.
        processes: How many share the trials; 1: this one makes them.

    Raises whatever the first trial of those that fail raises.

    """
    context = multiprocessing.get_context("fork")  # what is tried can have functions without a name
    receivers: dict[int, Connection] = {}
    others = []
    try:
        for number in range(1, min(processes, len(faults))):
            receivers[number], sender = context.Pipe(duplex=False)
            share = faults[number::processes]
            others.append(context.Process(target=_make, args=(attempt, host, share, sender), daemon=True))
            others[-1].start()
            sender.close()
        for number, fault in enumerate(faults):
            receiver = receivers.get(number % processes)
            if receiver is None:
                yield attempt(host, fault)
                continue
            outcome = receiver.recv()
            if isinstance(outcome, Exception):
                raise outcome
            yield outcome
    finally:
        for process in others:
            process.terminate()
        for process in others:
            process.join()


def _make(
    attempt: Try[FaultT, TrialT], host: AttemptHost, faults: Sequence[FaultT], sender: Connection
) -> None:
    """Try the faults in this process, a fork, and send what comes of each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # what it has started ends with it
    try:
        with host.another() as own:
            for fault in faults:
                sender.send(attempt(own, fault))
    except Exception as error:  # noqa: BLE001  it is the parent's
        sender.send(error)
