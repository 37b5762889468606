"""The actions of a sink on DataFrames, each of which may fail as a Spark job does."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.sinks.effects import Probe

_ACTIONS = (
    "collect",
    "count",
    "foreach",
    "foreachPartition",
    "head",
    "isEmpty",
    "take",
    "toLocalIterator",
    "toPandas",
)


def watch_actions(probe: Probe) -> None:
    """Report each action on a DataFrame of this process to the probe, before it begins."""

    def watched(action: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(action)
        def act(*args: Any, **options: Any) -> Any:
            with probe.action():
                return action(*args, **options)

        return act

    for name in _ACTIONS:
        setattr(Rows, name, watched(getattr(Rows, name)))
