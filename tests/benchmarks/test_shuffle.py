"""The shuffle that is measured: what it does, not how fast."""

from headrace_benchmarks.shuffle import ShuffleOptions, run_shuffle, shuffle_pipeline
from headrace_properties.checkers import judge
from headrace_properties.verdict import Violated

SMALL = ShuffleOptions(records=400, workers=20, injectors=4, fault_rate=0.01)


def test_every_record_is_delivered_in_both_stages_under_faults_with_at_most_six_heap_events() -> None:
    result = run_shuffle(SMALL)
    assert result.deliveries >= 2 * SMALL.records
    assert result.struck > 0
    assert result.resent > 0
    verdicts = judge(result.history, [shuffle_pipeline(SMALL)])
    assert not [name for name, verdict in verdicts.items() if isinstance(verdict, Violated)]


def test_a_delivery_takes_at_most_six_heap_events_without_faults() -> None:
    result = run_shuffle(ShuffleOptions(records=4_000, workers=20, injectors=4, fault_rate=0.0))
    assert result.deliveries == 8_000
    assert result.heap_events_per_delivery <= 6


def test_the_same_seed_makes_the_same_history() -> None:
    assert run_shuffle(SMALL).history.digest() == run_shuffle(SMALL).history.digest()
