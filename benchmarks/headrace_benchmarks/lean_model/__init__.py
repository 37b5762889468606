"""The rich lean model: the cost of a simulated delivery when only the delivery is simulated.

It reduces MillWheel 6.1.1, 6.1.2, 6.2 and 4.5 to their message pattern, and is the anchor of the wall-clock benchmarks: the
engine and its cluster are measured beside it, in one run on one machine, and only the ratio counts. It shares no code with
them.

The pattern: injectors send keyed records to the workers of stage 1; each record makes one production, re-keyed, to the workers
of stage 2, where it ends. Each worker owns one key interval. A delivery has these events on the kernel's heap:

1.  the record arrives: duplicate check by id; a busy key queues it; user code runs (``_on_record``)
2.  its commit arrives at the store: sequencer and row version are checked; state, id and checkpointed production are
    one write (``_on_commit``)
3.  the store's reply arrives: the id is remembered, the sender is ACKed, the production is sent (``_on_committed``)
4.  the ACK arrives at the sender (``_on_ack``)
and, if the sender is a worker and hence has a checkpoint to delete (strong productions):
5.  the deletion arrives at the store (``_on_delete``)
6.  its reply arrives (``_on_deleted``)

A record from an injector has the injector's tick instead of 5 and 6, which makes (5 + 6) / 2 = 5.5 events per delivery,
plus those of faults, sweeps and watermark reports. No two records share a commit.

The rules of the rich model (``run_rich``):

*   Each message, including those to and from the store, is dropped, duplicated, delayed or left alone by one draw from one
    seeded stream.
*   Only the sender of a record retries, until the record is ACKed (and its checkpoint deleted): a record that comes again
    while its commit is in flight commits again, with the same row version and hence the same production id.
*   A commit or deletion without the latest sequencer of its key interval is rejected as a whole. The store occasionally mints
    a new one; the worker learns of it one message later, and its writes in between are lost.
*   ``audit`` raises AssertionError if a record was lost or applied twice, if a checkpoint was left behind, or if a record was
    older than the low watermark announced to its receiver; the run itself raises it if it does not end.

The bare model (``run_bare``) is the same pattern without faults, retries, watermarks, digest and audit.

Neither model has recovery (a worker whose sequencer was replaced continues with its memory, as if the interval had moved to
itself) or the collection of ids. Choice: the retry delay is constant, without backoff, which keeps a sender's unACKed records
in the order in which they are due, so that a FIFO is enough and no heap is needed.
"""

import time

from headrace_benchmarks.lean_model._bare import BareModel
from headrace_benchmarks.lean_model._kernels import HeapKernel, Kernel, SimpyKernel
from headrace_benchmarks.lean_model._options import LeanOptions, LeanResult, Struck
from headrace_benchmarks.lean_model._rich import RichModel

__all__ = [
    "BareModel",
    "HeapKernel",
    "Kernel",
    "LeanOptions",
    "LeanResult",
    "RichModel",
    "SimpyKernel",
    "Struck",
    "run_bare",
    "run_rich",
]


def run_rich(options: LeanOptions, kernel: Kernel) -> LeanResult:
    """Run the rich lean model to its end on a fresh kernel, and audit it.

    Raises:
        AssertionError: a record was lost or applied twice, or a watermark was wrong.

    >>> run_rich(LeanOptions(records=100, workers=4), HeapKernel()).deliveries
    200
    """
    model = RichModel(options, kernel)
    cpu_seconds = _run(kernel)
    model.audit()
    return LeanResult(
        deliveries=model.deliveries(),
        heap_events=kernel.heap_events,
        cpu_seconds=cpu_seconds,
        digest=model.digest(),
        low_watermark_us=model.broadcast[2],
        struck=Struck(**model.struck),
    )


def run_bare(options: LeanOptions, kernel: Kernel) -> LeanResult:
    """Run the bare model to its end on a fresh kernel; with a ``SimpyKernel`` it is *the* bare SimPy model.

    Options for faults, retries, watermarks and sequencers have no effect.
    """
    model = BareModel(options, kernel)
    cpu_seconds = _run(kernel)
    return LeanResult(model.deliveries(), kernel.heap_events, cpu_seconds)


def _run(kernel: Kernel) -> float:
    """Run a kernel, and return the CPU seconds used."""
    began = time.process_time()
    kernel.run()
    return time.process_time() - began
