"""Zeitgeist's computations on records of another kind: counts of five minutes, each a record with a weight."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from headrace import MINUTE, OptionsError, Pipeline, Record
from headrace_properties.reference import run_reference
from headrace_scenarios.zeitgeist import AnomalyKind, ZeitgeistOptions, anomaly_pipeline
from headrace_sim import FeedBuilder

FIVE = 5 * MINUTE


@dataclass(frozen=True)
class Tweets:
    symbol: str
    count: int


def symbol(record: Record) -> str:
    return str(record.value.symbol)


def count(record: Record) -> int:
    return int(record.value.count)


def tweets(ends_us: int | None = None) -> Pipeline:
    options = ZeitgeistOptions(window_us=FIVE, quiet_windows=6, ends_us=ends_us)
    return anomaly_pipeline(
        "tweets", "tweets", Tweets, symbol, options=options, weight=count, running=True, comparisons=True
    )


def found(pipeline: Pipeline, counts: list[int]) -> list[tuple[AnomalyKind, int]]:
    """Kind and number of the bucket of each anomaly."""
    builder = FeedBuilder(pipeline)
    for number, tweeted in enumerate(counts):
        at_us = number * FIVE
        builder.record(at_us=number, value=Tweets("KO", tweeted), timestamp=at_us, stream="tweets")
        builder.watermark(at_us=number, low_watermark=at_us)
    outputs: Counter[Any] = run_reference(pipeline, builder.build()).outputs
    anomalies = [
        pipeline.codec("anomalies").decode(emitted.value)
        for emitted in outputs.elements()
        if emitted.stream == "anomalies"
    ]
    return sorted(((anomaly.kind, anomaly.start // FIVE) for anomaly in anomalies), key=lambda pair: pair[1])


def test_weights_are_added_up_and_a_spike_and_a_dip_are_found() -> None:
    assert found(tweets(10 * FIVE), [20, 22, 21, 20, 19, 90, 20, 1, 0, 2]) == [
        (AnomalyKind.SPIKE, 5), (AnomalyKind.DIP, 9),
    ]  # fmt: skip


def test_dips_end_with_the_data() -> None:
    counts = [20] * 8
    assert {kind for kind, _ in found(tweets(), counts)} == {AnomalyKind.DIP}
    assert found(tweets(8 * FIVE), counts) == []


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("window_us", 0, "at least 1"),
        ("lead_windows", 0, "at least 1"),
        ("model_weight", 5, "from 0 to 1"),
        ("dip_factor", -1, "from 0 to 1"),
        ("quiet_windows", -1, "at least 0"),
    ],
)
def test_an_option_out_of_its_range_is_refused(option: str, value: float, expected: str) -> None:
    options: dict[str, Any] = {option: value}
    with pytest.raises(OptionsError, match=f"option {option}={value}: expected {expected}"):
        ZeitgeistOptions(**options)
