"""What Zeitgeist promises, whatever strikes and in whichever order searches come."""

from headrace_properties.promises import Broken, Moment, always, at_end, bounded_state, sometimes
from headrace_scenarios.zeitgeist.computations import AnomalyKind, Comparison


@always(of="window_counter")
def buckets_in_order(moment: Moment) -> None:
    """Each bucket of a query is counted once, and after all that are before it."""
    last = moment.memory
    for count in moment.changed.produced:
        if count.stream == "window_counts" and count.consumers == ("model_calculator",):
            before = last.get(count.key)
            if before is not None and count.value.start <= before.value.start:
                raise Broken(f"bucket {count.value.start} comes after {before.value.start}", before, count)
            last[count.key] = count


@always(stream="anomalies")
def each_anomaly_once(moment: Moment) -> None:
    """No anomaly is told twice."""
    anomaly = moment.changed.value
    name = (anomaly.key, anomaly.kind, anomaly.start)
    if name in moment.memory:
        raise Broken(f"{anomaly} is told again", moment.memory[name])
    moment.memory[name] = moment.changed


@sometimes(stream="anomalies")
def some_dip(moment: Moment) -> bool:
    """A dip is found, which takes the low watermark to tell."""
    return bool(moment.changed.value.kind is AnomalyKind.DIP)


@at_end
def late_searches_are_told(moment: Moment) -> bool:
    """Each search that was dropped because it was late is on the stream of late ones."""
    dropped = sum(state.dropped for state in moment.states("window_counter").values())
    return bool(dropped == len(moment.outputs("late")))


def _one_prediction(_key: str, state: Comparison) -> bool:
    """Return whether this is all that a query leaves that has fallen silent: a prediction of the bucket that never came."""
    return not state.counts and len(state.predictions) <= 1


promises = [
    buckets_in_order,
    each_anomaly_once,
    some_dip,
    late_searches_are_told,
    bounded_state("spike_detector", keeps=_one_prediction),
]
