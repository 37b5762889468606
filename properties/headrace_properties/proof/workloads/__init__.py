"""Small pipelines with their input: what broken protocols are run on, and what every single fault is tried on.

A run takes a few milliseconds, so that a search can afford thousands. The engine must be sound on each of them; between them they
use every part of the protocol.
"""

from headrace import MILLISECOND, Productions
from headrace_properties.proof.workloads.stage_workloads import (
    apart,
    chains,
    crowd,
    failing,
    files,
    forgetful,
    forked,
    holding,
    hurried,
    late_owners,
    late_start,
    long_quiet,
    malformed,
    outliers,
    patient,
    prompt,
    read_files,
    refusing,
    reminders,
    slips,
    slow_scans,
    sparing,
    tallies,
    two_stages,
    uneven,
)
from headrace_properties.proof.workloads.topologies import changing, draining, gaining, staged, withdrawing
from headrace_properties.proof.workloads.witnesses import busy, witnesses
from headrace_properties.proof.workloads.workload import Workload, city, same
from headrace_properties.proof.workloads.workload_computations import (
    HOUR_US,
    Counting,
    Echo,
    Passing,
    Refusing,
    Windows,
)

__all__ = [
    "HOUR_US", "WORKLOADS", "Counting", "Echo", "Refusing", "Windows", "Workload", "city", "malformed",
    "read_files", "same", "tallies",
]  # fmt: skip


def _all() -> list[Workload]:
    weak = Productions.WEAK
    echoes, windows = two_stages("echoes", Echo), two_stages("windows", Windows)
    weak_windows = two_stages("weak windows", Windows, weak)
    bursts = two_stages("bursts", Echo, records=12)
    return [
        tallies(), tallies(weak), slips(), changing(), changing(weak),
        echoes, windows, weak_windows, bursts, forked(), holding(), refusing(), late_start(),
        long_quiet(),
        two_stages("weak echoes", Echo, weak),
        two_stages("late windows", Windows, late=True),
        two_stages("two processes", Windows, processes=2),
        two_stages("at least once", Echo, weak, exactly_once=False),
        weak_windows.varied("stragglers", straggler_delay_us=MILLISECOND, sweep_period_us=2 * MILLISECOND),
        bursts.varied("crowded filter", bloom_capacity=1, bloom_error=0.9),
        bursts.varied("short memory", bloom_capacity=1, cache_bytes=0, collect_period_us=100 * MILLISECOND),
        echoes.varied("eager collection", collect_period_us=100 * MILLISECOND, id_slack_us=0),
        windows.varied("no cache", cache_bytes=0),
        windows.varied("one row a page", scan_page_rows=1),
        gaining(),
        prompt(),
        two_stages("limited", Windows, skew_limit_us=100 * MILLISECOND).varied("limited", cache_bytes=300),
        chains(),
        slow_scans(), slow_scans(weak),
        outliers(),
        reminders(),
        malformed(), apart(), draining(),
        withdrawing(), staged(), files(), witnesses(), busy(),
        windows.varied("two shards", authority_shards=2),
        failing(share_state=False), failing(share_state=True),
        failing(share_state=True, crammed=True), forgetful(), late_owners(), crowd(), hurried(),
        bursts.varied("lingering", commit_linger_us=30 * MILLISECOND, commits_in_flight=1),
        two_stages("passing on", Passing, weak, exactly_once=False),
        slow_scans(weak, exactly_once=False).varied("repeating slow scans", straggler_delay_us=MILLISECOND),
        slow_scans().varied("eager slow scans", collect_period_us=100 * MILLISECOND, id_slack_us=0),
        uneven(), sparing(), patient(),
    ]  # fmt: skip


WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in _all()}
"""By name."""
