"""What `headrace_sim.kernel` relies on in SimPy: the private names that it uses, and how SimPy's loop treats an event.

If one of these fails after an upgrade, adapt `headrace_sim/kernel.py` first and the bound on ``simpy`` in pyproject.toml then.
"""

import inspect
from pathlib import Path
from typing import Any

import pytest
import simpy

from headrace_sim.kernel import EndlessRunError, HeapEvent, Kernel

CHANGED = f"SimPy {simpy.__version__} has changed what headrace_sim/kernel.py relies on: "


def test_simpys_queue_is_a_heap_of_time_priority_number_and_event() -> None:
    environment = simpy.Environment()
    assert isinstance(getattr(environment, "_queue", None), list), f"{CHANGED}Environment._queue is no list"
    assert hasattr(getattr(environment, "_eid", None), "__next__"), (
        f"{CHANGED}Environment._eid is no iterator"
    )
    event = environment.timeout(7)
    assert environment._queue == [(7, simpy.events.NORMAL, 0, event)], (
        f"{CHANGED}schedule() no longer puts (time, priority, number, event) on Environment._queue"
    )
    assert next(environment._eid) == 1, f"{CHANGED}Environment._eid no longer numbers what is scheduled"


def test_simpys_loop_takes_whatever_has_callbacks_and_is_ok() -> None:
    """An event of ours, put on the heap by hand, is called with itself, once, at its time."""
    environment, seen = simpy.Environment(), list[Any]()
    event = HeapEvent((lambda taken: seen.append((environment.now, taken)),), 5)
    environment._queue.append((5, simpy.events.NORMAL, next(environment._eid), event))  # type: ignore[arg-type]
    try:
        environment.step()
    except Exception as error:  # noqa: BLE001  whatever it is, it is news
        pytest.fail(f"{CHANGED}step() asks for more than callbacks and _ok of an event: {error!r}")
    assert seen == [(5, event)], f"{CHANGED}step() no longer calls an event's callbacks with it"
    assert not environment._queue, f"{CHANGED}step() leaves an event that has happened on the heap"


def test_stopping_from_a_callback_ends_the_run_before_the_next_event() -> None:
    kernel, seen = Kernel(), list[int]()
    kernel.call_at(1, lambda _: kernel.stop(), None)
    kernel.call_at(2, seen.append, 2)
    kernel.run_until(10)
    assert kernel.now == 1, f"{CHANGED}StopSimulation no longer ends run()"
    assert not seen
    kernel.run_until(10)
    assert seen == [2], f"{CHANGED}run() cannot go on after StopSimulation"


def test_simultaneous_events_happen_in_the_order_in_which_they_were_scheduled() -> None:
    kernel, seen = Kernel(), list[int]()
    for number in range(20):
        kernel.call_at(3, seen.append, number)
    assert len(kernel.pending()) == kernel.events == 20
    kernel.run_until(3)
    assert seen == list(range(20))


def test_only_the_kernel_uses_what_is_private_in_simpy() -> None:
    path = Path(inspect.getfile(Kernel))
    users = {
        found.relative_to(path.parent).as_posix()
        for found in path.parent.rglob("*.py")
        if any(
            name in found.read_text("utf-8") for name in ("import simpy", "from simpy", "._queue", "._eid")
        )
    }
    assert users == {path.name}


def test_a_run_with_too_many_events_ends_with_an_error_that_says_when() -> None:
    """A callback that schedules itself for the same time keeps time from going on."""
    kernel = Kernel()
    kernel.most_events = 1_000

    def again(argument: None) -> None:
        kernel.call_later(0, again, argument)

    kernel.call_at(5_000_000, again, None)
    with pytest.raises(
        EndlessRunError, match=r"never ends: it has had 1,000 events and has reached 5\.000000s"
    ):
        kernel.run_until(6_000_000)
