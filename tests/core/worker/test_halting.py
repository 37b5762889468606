"""Runs that must stop: user code or a source fails for good, and nothing says what is to become of it (MillWheel 4.1, 5.2).

Whoever started the run reads the error, so that it must name the computation, the key, the record and its value, or the place in
the source; and as long as user code may be tried again, nothing stops.
"""

from collections.abc import Callable, Mapping

import pytest

from headrace import (
    MAX_TIME,
    MILLISECOND,
    SECOND,
    Computation,
    Context,
    EngineOptions,
    HeadraceError,
    Pipeline,
    Record,
    Timer,
)
from headrace_sim import ClusterOptions, FeedBuilder, simulate

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


_FAILURES: Mapping[str, Callable[[str, int], tuple[bytes | None, tuple[str, ...]]]] = {
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


@pytest.mark.parametrize("wrong", [0, 3])
@pytest.mark.parametrize("what", _FAILURES)
def test_the_error_that_ends_a_run_names_what_cannot_be_processed(what: str, wrong: int) -> None:
    """One of five letters: only it is to blame."""
    pipeline = Pipeline("halting")
    pipeline.injector("letters")
    pipeline.add(_Adder(), name="adders", inputs={"letters": _no_key}, outputs=["sums"])
    data, told = _FAILURES[what]("ab"[wrong % 2], wrong * 2)
    builder = FeedBuilder(pipeline)
    for number in range(5):
        at_us = SECOND + number * 50 * MILLISECOND
        given = data if number == wrong else b"%d" % number
        stamp = MAX_TIME if given is None else at_us
        builder.raw(at_us=at_us, data=given or b"1", timestamp=stamp, key="ab"[number % 2])
        builder.watermark(at_us=at_us + 1, low_watermark=at_us - 100 * MILLISECOND)
    with pytest.raises(HeadraceError) as caught:
        simulate(pipeline, builder.build(), options=ClusterOptions(check_invariants=True))
    error = f"{type(caught.value).__name__}: {caught.value}"
    assert [part for part in told if part not in error] == []
