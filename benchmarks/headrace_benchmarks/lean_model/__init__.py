"""The rich lean model: what a simulated delivery costs when nothing but the delivery is simulated.

MillWheel 6.1.1, 6.1.2, 6.2 and 4.5, reduced to their message pattern. It is the anchor of the wall-clock benchmarks: the
engine and its cluster are measured beside it, in one run, on one machine, and the ratio is what counts. Nothing here is
shared with them, and nothing is meant to be reused by them.

The pattern. Injectors send keyed records to the workers of stage 1; each of those produces one record, re-keyed, to the
workers of stage 2, which ends there. Each worker owns one key interval. A delivery, with its events on the kernel's heap:

1.  the record arrives: duplicate check by id; a key that is busy queues it; user code runs (``_on_record``)
2.  its commit arrives at the store: sequencer and row version are checked, then state, id and checkpointed production
    are one write (``_on_commit``)
3.  the store's reply arrives: the id is remembered, the sender is ACKed, the production is sent (``_on_committed``)
4.  the ACK arrives at the sender (``_on_ack``)
and, where the sender is a worker and so has a checkpoint to delete (strong productions):
5.  the deletion arrives at the store (``_on_delete``)
6.  its reply arrives (``_on_deleted``)

A record from an injector has the injector's tick in place of 5 and 6, which makes (5 + 6) / 2 = 5.5 events a delivery; what
the faults, the sweeps and the watermark reports add comes on top. No commit is shared by two records.

The rules that hold in the rich model (``run_rich``):

*   Each message, to the store and back too, is dropped, duplicated, delayed or left alone by one draw of one seeded stream.
*   Nobody but the sender of a record retries, until it is ACKed (and the checkpoint gone): a record that comes again while
    its commit is under way commits again, under the same row version and therefore with the same production id.
*   A commit or deletion that does not carry the latest sequencer of its key interval is rejected whole. The store mints a
    new one now and then; the worker hears of it a message later, and what it wrote in between is lost.
*   ``audit`` raises AssertionError if a record was lost or applied twice, if a checkpoint stayed behind, or if a record was
    older than the low watermark that had been announced to its receiver; the run itself does if it does not come to an end.

The bare model (``run_bare``) is the same pattern without faults, retries, watermarks, digest and audit.

Left out of both: recovery (a worker whose sequencer was replaced goes on with its memory, as if the interval had moved to
itself), and the collection of ids. Choice: the interval between two retries is constant, without backoff, because it is
what keeps a sender's unACKed records in the order in which they are due, so that a FIFO serves and no heap is needed.
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

    Raises AssertionError if a record was lost or applied twice, or a watermark was wrong.

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

    Of the options, those for faults, retries, watermarks and sequencers have no effect.
    """
    model = BareModel(options, kernel)
    cpu_seconds = _run(kernel)
    return LeanResult(model.deliveries(), kernel.heap_events, cpu_seconds)


def _run(kernel: Kernel) -> float:
    """The CPU seconds that it took."""
    began = time.process_time()
    kernel.run()
    return time.process_time() - began
