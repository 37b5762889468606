"""Workloads whose topology changes while they run (MillWheel 3)."""

from headrace import Pipeline, Productions
from headrace_properties.proof.workloads.workload import SHORT, Workload, city, letters, same
from headrace_properties.proof.workloads.workload_computations import Echo, Stragglers, Windows


def draining() -> Workload:
    """Return two versions: the computation that leaves has two consumers, which both wait for what it still has."""
    versions = []
    for clerk in ("auditor", "archivist"):
        one = Pipeline("draining")
        one.injector("letters")
        one.add(Echo("sent"), name="senders", inputs=["letters"], outputs=["sent"])
        one.add(Windows("told"), name=clerk, inputs={"sent": city}, outputs=["told"])
        one.add(Windows("sums"), name="readers", inputs=["told"], outputs=["sums"])
        one.add(Echo("copies"), name="copyists", inputs={"told": city}, outputs=["copies"])
        versions.append(one)
    feed = letters(versions[0], "draining", records=8)
    return Workload("draining", versions[0], feed, SHORT, versions=(versions[1],))


def changing(productions: Productions = Productions.STRONG) -> Workload:
    """Return two versions: one of the computations of the first is replaced by another in the second; both feed the same reader.

    Args:
        productions: of all of them.
    """
    name = "changing" if productions is Productions.STRONG else "weak changing"
    versions = []
    for clerk in ("auditor", "archivist"):
        one = Pipeline(name)
        one.injector("letters")
        one.add(Echo("sent"), name="senders", inputs=["letters"], outputs=["sent"], productions=productions)
        one.add(Windows("told"), name=clerk, inputs={"sent": city}, outputs=["told"], productions=productions)
        one.add(Windows("sums"), name="readers", inputs=["told"], outputs=["sums"], productions=productions)
        versions.append(one)
    return Workload(name, versions[0], letters(versions[0], name, records=8), SHORT, versions=(versions[1],))


def gaining() -> Workload:
    """Return two versions: in the second, a stream of the injector and one of a computation gain the same consumer."""
    one = Pipeline("gaining")
    one.injector("letters")
    one.add(Echo("sent"), name="senders", inputs=["letters"], outputs=["sent"])
    one.add(Windows("sums"), name="readers", inputs={"sent": city}, outputs=["sums"])
    other = one.copy()
    other.add(Echo("copies"), name="auditor", inputs={"letters": same, "sent": city}, outputs=["copies"])
    feed = letters(one, "gaining", records=8, gap_ms=1_500)  # long enough for a change to come in between
    return Workload("gaining", one, feed, SHORT, versions=(other,))


def withdrawing() -> Workload:
    """Return two versions: a chain of two computations leaves, the first of which feeds the second, and may come back."""
    one, other = Pipeline("withdrawing"), Pipeline("withdrawing")
    for pipeline in (one, other):
        pipeline.injector("letters")
    one.add(Echo("sent"), name="senders", inputs=["letters"], outputs=["sent"])
    one.add(Windows("told"), name="clerks", inputs={"sent": city}, outputs=["told"])
    one.add(Windows("sums"), name="readers", inputs=["told"], outputs=["sums"])
    other.add(Windows("sums"), name="readers", inputs=["letters"], outputs=["sums"])
    feed = letters(one, "withdrawing", records=8, gap_ms=800)
    return Workload("withdrawing", one, feed, SHORT, versions=(other,))


def staged() -> Workload:
    """Return three versions: a computation whose consumer differs in two, and that leaves in the third with all behind it.

    What leaves keeps some records for two seconds more, and sends them by the version that it was in.
    """
    versions = []
    for reader in ("readers", "auditors", ""):
        one = Pipeline("staged")
        one.injector("letters")
        one.add(Echo("sent"), name="senders", inputs=["letters"], outputs=["sent"])
        if reader:
            one.add(Stragglers(), name="clerks", inputs={"letters": same, "sent": city}, outputs=["kept"])
            one.add(Windows("sums"), name=reader, inputs=["kept"], outputs=["sums"])
        versions.append(one)
    feed = letters(versions[0], "staged", records=12, gap_ms=800)
    return Workload("staged", versions[2], feed, SHORT, versions=(versions[0], versions[1]))
