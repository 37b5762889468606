"""Runs that must stop: user code or a source fails for good, and nothing says what is to become of it (MillWheel 4.1, 5.2).

Whoever started the run reads the error, so that it must name the computation, the key, the record and its value, or the place in
the source; and as long as user code may be tried again, nothing stops.
"""

import dataclasses
from collections.abc import Callable, Mapping
from random import Random

from headrace import (
    MAX_TIME,
    MILLISECOND,
    SECOND,
    Computation,
    Context,
    EngineOptions,
    Pipeline,
    Record,
    Timer,
)
from headrace_properties.proof.mutation.watched_options import watched
from headrace_properties.proof.workloads.workload import SHORT
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import JudgedRun, try_plan
from headrace_properties.search.plans import Plan
from headrace_properties.search.run_error import RunError
from headrace_sim import NO_FAULTS, SOUND, FeedBuilder, Protocol

HALTING = "halting"
_ATTEMPTS = EngineOptions().user_code_attempts


class _Adder(Computation):
    """Adds up; fails on the number 7, and on a timer that it sets for the number 8."""

    def process_record(self, context: Context, record: Record) -> None:
        if record.value == 7:
            raise ValueError(record.value)
        if record.value == 8:
            context.set_timer("eight", record.timestamp + MILLISECOND)
        context.produce("sums", record.value)

    def process_timer(self, context: Context, timer: Timer) -> None:
        del context
        raise ValueError(timer.tag)


def _no_key(record: Record) -> str:
    return None if record.value == 9 else record.key  # type: ignore[return-value]


_Wrong = tuple[object, tuple[str, ...]]
_FAILURES: Mapping[str, Callable[[str, int], _Wrong]] = {
    "a record": lambda key, offset: (
        b"7",
        (
            f"UserCodeError: computation 'adders', key {key!r}: user code failed {_ATTEMPTS} times on letters/0:{offset},",
            "whose value is 7.",
        ),
    ),
    "a timer": lambda key, _: (
        b"8", (f"UserCodeError: computation 'adders', key {key!r}: user code failed {_ATTEMPTS} times on ", "eight"),
    ),
    "a key": lambda _, offset: (
        b"9", (f"MalformedRecordError: injector 'letters/0', record {offset} for stream 'letters': ", "adders", "None"),
    ),
    "a value": lambda _, offset: (
        b"{", (f"MalformedRecordError: injector 'letters/0', record {offset} for stream 'letters': ",),
    ),
    "a time": lambda _, offset: (
        None,
        (f"MalformedRecordError: injector 'letters/0', record {offset} for stream 'letters': timestamp {MAX_TIME} is not",),
    ),
}  # fmt: skip


def try_halting(seed: int, protocol: Protocol = SOUND) -> JudgedRun:
    """Give one thing that cannot be processed, among others, and judge by the error that ends the run."""
    random = Random(f"{seed}/halting")
    pipeline = Pipeline("halting")
    pipeline.injector("letters")
    pipeline.add(_Adder(), name="adders", inputs={"letters": _no_key}, outputs=["sums"])
    wrong = random.randrange(5)
    key, failure = random.choice("ab"), _FAILURES[list(_FAILURES)[seed % len(_FAILURES)]]
    builder, at_us = FeedBuilder(pipeline), SECOND
    offset = wrong * 2
    data, told = failure(key, offset)
    for number in range(5):
        at_us += random.randrange(100) * MILLISECOND
        given = data if number == wrong else b"%d" % random.randrange(5)
        stamp = MAX_TIME if given is None else at_us
        builder.raw(at_us=at_us, data=given if isinstance(given, bytes) else b"1", timestamp=stamp, key=key)
        builder.watermark(at_us=at_us + 1, low_watermark=at_us - 100 * MILLISECOND)
    plan = Plan(NO_FAULTS, watched(SHORT), seed)
    judged = try_plan(Application.with_input((pipeline,), builder.build()), PipelineTrial(plan), protocol)
    is_right = judged.error is not None and all(part in str(judged.error) for part in told)
    return stopped_rightly(judged, f"with {told[0]}", is_right=is_right)


def stopped_rightly(judged: JudgedRun, how: str, *, is_right: bool) -> JudgedRun:
    """Return a run that had to stop: what is wrong is an error other than that one, or none."""
    wrong = judged.error or RunError.wrong(f"the run went on, and had to stop {how}")
    return dataclasses.replace(judged, error=None if is_right else wrong)
