"""Threads that a sink's function starts: they take turns with it, so that a trial is the same each time.

Rules of this file:

* A thread runs only while the function waits (``join``, ``result``, ``Queue.join``, an event, a sleep), or else when the next
  batch begins. So what nobody waits for is done as late as can be, and a crash behind the batch loses it.
* A wait for some time ends when nobody else can go on.
"""

import _queue
import queue
import selectors
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from headrace_sim.spark.refusals import CannotFollowError, is_library, users_place
from headrace_sim.spark.sinks.sink_effects import PLACE_OF_START

_LONGEST_TURN_S = 60.0
"""Choice: how long, in real seconds, a thread may run before it must wait or end. A lock that another one holds may block it."""
_MOST_PERIODS = 20
"""Choice: how often a wait for some time may end in others while one waits for them."""


class _Turns:
    """A thread that runs when it is given a turn, and gives it back when it waits or ends."""

    def __init__(self) -> None:
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire(), self._back.acquire()  # released by the other side
        self.has_ended = False

    def give(self) -> None:
        self._go.release()
        if not self._back.acquire(timeout=_LONGEST_TURN_S):
            remedy = "Let it wait for nothing but what other threads do"
            raise CannotFollowError("a thread that neither ends nor waits", users_place(), remedy)

    def begin(self) -> None:
        self._go.acquire()

    def give_back(self) -> None:
        self._back.release()
        self._go.acquire()

    def end(self) -> None:
        self.has_ended = True
        self._back.release()


class BackgroundThreads:
    """Lets the threads of this process take turns from here on."""

    def __init__(self) -> None:
        self._turns: dict[threading.Thread, _Turns] = {}
        self._starting: set[int] = set()
        self._steps = 0
        self._is_idle = False
        self._real_start, self._real_wait = threading.Thread.start, threading.Condition.wait
        self._real_join, self._sleep = threading.Thread.join, time.sleep
        self._replace()

    def run_on(self) -> None:
        """Let all threads run until they end, or wait for something."""
        while self._round():
            pass
        if self._idle_round():
            while self._round():
                pass

    def _replace(self) -> None:
        pool: Any = ThreadPoolExecutor
        adjust, select = pool._adjust_thread_count, selectors.DefaultSelector.select
        python_queue = vars(queue)["_PySimpleQueue"]  # its waits are those of conditions

        def adjust_with_queue(executor: Any) -> None:
            if isinstance(executor._work_queue, _queue.SimpleQueue):  # made before it was replaced
                waiting, executor._work_queue = executor._work_queue, python_queue()
                while not waiting.empty():
                    executor._work_queue.put(waiting.get())
            adjust(executor)

        def select_behind_others(selector: Any, timeout: float | None = None) -> Any:
            while threading.current_thread() not in self._turns and self._round():
                pass
            return select(selector, timeout)

        for owner, name, function in (
            (threading.Thread, "start", lambda thread: self._start(thread)),  # noqa: PLW0108  of the thread, and not of this
            (threading.Thread, "join", lambda thread, timeout=None: self._join(thread, timeout)),
            (threading.Condition, "wait", lambda condition, timeout=None: self._wait(condition, timeout)),
            (time, "sleep", self._rest), (queue, "SimpleQueue", python_queue), (pool, "_adjust_thread_count", adjust_with_queue),
            (selectors.DefaultSelector, "select", select_behind_others),
        ):  # fmt: skip
            setattr(owner, name, function)

    def _start(self, thread: threading.Thread) -> None:
        turns, run = _Turns(), thread.run

        def take_turns() -> None:
            turns.begin()
            self._steps += 1
            try:
                run()
            finally:
                self._steps += 1
                turns.end()

        thread.run = take_turns  # type: ignore[method-assign]
        self._turns[thread] = turns
        place = users_place()
        if not is_library(place.rpartition(":")[0]):
            setattr(thread, PLACE_OF_START, place)
        self._steps += 1
        me = threading.get_ident()
        self._starting.add(me)  # it waits for the thread itself
        try:
            self._real_start(thread)
        finally:
            self._starting.discard(me)

    def _join(self, thread: threading.Thread, timeout: float | None) -> None:
        turns = self._turns.get(thread)
        if turns is None or self._until(lambda: turns.has_ended, timeout):
            self._real_join(thread, timeout)

    def _wait(self, condition: Any, timeout: float | None) -> bool:
        if threading.get_ident() in self._starting or (timeout is not None and timeout <= 0):
            return self._real_wait(condition, timeout)
        waiter = threading.Lock()
        waiter.acquire()
        condition._waiters.append(waiter)
        saved = condition._release_save()
        try:
            return self._until(lambda: waiter.acquire(blocking=False), timeout)
        finally:
            condition._acquire_restore(saved)
            if waiter in condition._waiters:
                condition._waiters.remove(waiter)

    def _rest(self, seconds: float) -> None:
        self._sleep(seconds)
        if threading.current_thread() in self._turns:
            self._until(lambda: False, seconds)
        else:
            self._round()

    def _until(self, is_ready: Callable[[], bool], timeout: float | None) -> bool:
        """Let others run until something is ready; return False if the time is over before.

        Raise `CannotFollowError` if no thread can make it ready.
        """
        turns = self._turns.get(threading.current_thread())
        periods = 0
        while not is_ready():
            if turns is not None:
                if self._is_idle and timeout is not None:
                    self._is_idle = False
                    self._steps += 1
                    return False
                turns.give_back()
            elif not self._round():
                periods += 1
                if periods > _MOST_PERIODS or not self._idle_round():
                    if timeout is not None:
                        return False
                    what = "a wait for what no thread of the function does"
                    raise CannotFollowError(what, users_place(), "Start its threads in the function")
        self._steps += 1
        return True

    def _round(self) -> bool:
        """Give each thread a turn; return whether one of them went on."""
        before = self._steps
        for turns in [*self._turns.values()]:
            if not turns.has_ended:
                turns.give()
        self._turns = {thread: turns for thread, turns in self._turns.items() if not turns.has_ended}
        return self._steps != before

    def _idle_round(self) -> bool:
        """Let the first wait for some time end; return whether there is one."""
        self._is_idle = True
        went_on = self._round()
        self._is_idle = False
        return went_on
