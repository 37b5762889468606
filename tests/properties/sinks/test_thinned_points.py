"""Which faults strike a sink whose source repeats rows in their order."""

from headrace_properties.sinks.points import fault_points, thinned
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.sink_effects import Acted, Effect
from headrace_sim.spark.sinks.sqlite_effects import BEGIN


def effect(action: str, *, pending: bool = False) -> Effect:
    return Effect(0, 0, action, "a.db", "sink.py:1", pending=pending)


def test_a_transaction_is_struck_once_by_each_kind_and_rows_come_in_their_order() -> None:
    effects = [
        effect(BEGIN, pending=True), effect("INSERT", pending=True), effect("UPDATE", pending=True), effect("commit"),
        effect("open"),
    ]  # fmt: skip
    behind = Acted(1, 0)  # in a batch without rows
    points = list(fault_points([effects], [behind], overtaken=True, tasks=False))
    kept = list(thinned(points, [effects]))
    assert {fault.kind for fault in points} - {fault.kind for fault in kept} == {SinkFaultKind.REORDER}
    assert [fault for fault in points if fault.kind is not SinkFaultKind.REORDER and fault not in kept] == [
        SinkFault(kind, 0, place) for kind in (SinkFaultKind.KILL, SinkFaultKind.PAUSE) for place in (2, 3)
    ]
