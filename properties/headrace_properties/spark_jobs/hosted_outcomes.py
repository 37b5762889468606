"""What a pipeline on Spark comes to, compared with the sequential reference (`headrace_properties.reference`).

Rules of this file: only rows of committed transactions count, since the work of a killed attempt is repeated. Outputs are
counted, so that an extra one is found as well as a missing one. States are taken from the History; those of a job without one are
what it has stored.
"""

from ast import literal_eval
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace import Pipeline
from headrace_properties.checkers import judge
from headrace_properties.findings import Family, Finding, FindingClass, Kind
from headrace_properties.promises import Promise
from headrace_properties.promises.promise_judge import promise_checkers
from headrace_properties.reference import Emitted, RunResult
from headrace_properties.results import result_of
from headrace_properties.search.judging import violations
from headrace_properties.target_kinds import ORDER
from headrace_properties.user_code.code_trial import CodeTrial
from headrace_properties.user_code.comparison import same_output
from headrace_properties.user_code.review import RECORDS, of_source
from headrace_properties.verdict import Holds, Unknown, Verdict
from headrace_sim import Feed, FeedSource
from headrace_sim.spark.laboratory.hosted import OUTPUTS
from headrace_sim.spark.sinks.trial_contents import Item, Raw

Row = tuple[str | None, str | None, bytes, int | None]
"""A row of the sink's table: stream, key, value, timestamp; a History event has only a value."""


@dataclass(frozen=True, slots=True)
class HostedOutcome:
    """What a run came to."""

    outputs: Counter[Emitted]  # how often each record went outside
    states: Mapping[tuple[str, str], bytes]  # (computation, key) to encoded state
    # on its History, by invariant and promise; none without a History
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    promised: frozenset[str] = frozenset()  # the names of the promises

    def findings(
        self, expected: RunResult, difference: FindingClass = FindingClass.VIOLATED
    ) -> Iterator[Finding]:
        """Yield what is wrong: what differs from the reference, and what is violated, the cause first.

        Args:
            expected: what the reference comes to.
            difference: what a difference claims: of code whose outcome depends on the order of arrival, or with late records,
                it may be meant.
        """
        compared = same_output(expected.outputs, self.outputs)
        missing, extra = compared.only_first.total(), compared.only_second.total()
        if missing or extra:
            message = f"outputs: {missing} missing, {extra} extra, {compared.common} as expected"
            yield _difference(
                "outputs", difference, message, [f"{mark} {record}" for mark, record in compared.examples()]
            )
        names = sorted(expected.states.keys() | self.states.keys())
        differing = [name for name in names if expected.states.get(name) != self.states.get(name)]
        if differing:
            message = f"states: {len(differing)} of {len(names)} differ from the reference"
            yield _difference(
                "states", difference, message, [self._told(name, expected) for name in differing[:_EXAMPLES]]
            )
        for name, violated in violations(dict(self.verdicts)).items():
            family = Family.PROMISE if name in self.promised else Family.INVARIANT
            yield Finding(Kind(family, name), violated.message)

    def _told(self, name: tuple[str, str], expected: RunResult) -> str:
        held, wanted = (
            None if state is None else bytes(state).decode(errors="backslashreplace")
            for state in (self.states.get(name), expected.states.get(name))
        )  # fmt: skip
        return f"state of {name[0]} {name[1]!r}: {held}, expected {wanted}"

    def unknown(self, allowed: Collection[str]) -> Iterator[str]:
        """Yield the promises that the run did not exercise. ``allowed``: those that no run needs to."""
        for name in sorted(self.promised.difference(allowed)):
            verdict = self.verdicts[name]
            if isinstance(verdict, Unknown):
                yield f"promise {name}: {verdict.why}"

    def asked(self) -> dict[str, str]:
        """Return why the run did not exercise a promise, by its name; "": it did."""
        verdicts = {name: self.verdicts.get(name) for name in sorted(self.promised)}
        return {
            name: verdict.why if isinstance(verdict, Unknown) else "" for name, verdict in verdicts.items()
        }

    @property
    def note(self) -> str:
        """What was compared, in words."""
        held = sum(isinstance(verdict, Holds) for verdict in self.verdicts.values())
        judged = f"{held} of {len(self.verdicts)} invariants and promises were exercised"
        counts = (
            f"{self.outputs.total()} outputs and {len(self.states)} states were compared with the reference"
        )
        return f"{counts}; {judged if self.verdicts else 'no invariant was checked, for want of a History'}"


_EXAMPLES = 10


def _difference(name: str, claims: FindingClass, message: str, story: Sequence[str]) -> Finding:
    asks = claims is FindingClass.UNDECLARED
    remedy = (
        f"Hosts differ in the order of arrival, and in what is late. If it depends on that: --allow {ORDER}"
    )
    return Finding(Kind(Family.OUTCOME, name, claims), message, remedy=remedy * asks, story=tuple(story))


def outcome_of(
    pipeline: Pipeline,
    rows: Sequence[Row],
    promises: Sequence[Promise] = (),
    stored: Mapping[tuple[str, str], bytes] | None = None,
) -> HostedOutcome:
    """Return what a run came to.

    Args:
        pipeline: it.
        rows: of the sink's table.
        promises: what to judge by besides the invariants.
        stored: states that the job has stored, by computation and key; ``None``: they are in the History.
    """
    from headrace.spark import history_of, user_key  # noqa: PLC0415  not every PySpark hosts pipelines

    outputs = Counter(
        Emitted(stream, str(key), value, int(timestamp or 0))
        for stream, key, value, timestamp in rows
        if stream is not None
    )
    if stored is not None:
        return HostedOutcome(outputs, stored)
    history = history_of(pipeline, [value for stream, _, value, _ in rows if stream is None])
    states = {
        (computation, user_key(key)): bytes(state)
        for (computation, key), state in result_of(history.events).states.items()
    }
    checkers = promise_checkers(promises, [pipeline], user_key)
    named = frozenset(promise.name for promise in promises)
    return HostedOutcome(outputs, states, judge(history, [pipeline], None, checkers), named)


@dataclass(slots=True)
class TrialReader:
    """Reads what trials of a pipeline left in its table: outputs, states, and what is violated."""

    pipeline: Pipeline
    promises: tuple[Promise, ...]  # what to judge by besides the invariants
    feed: Feed  # the input
    expected: RunResult  # what the reference comes to
    # what its first trial came to, which is undisturbed; ``None``: none was read, or it writes to a sink of its own
    first: HostedOutcome | None = None

    def __call__(self, raw: Raw) -> Raw:
        """Return what is compared of what a trial left."""
        table = raw.get(OUTPUTS)
        if table is None:
            return raw
        outcome = outcome_of(self.pipeline, [_row(item) for item in table], self.promises)
        self.first = self.first or outcome
        own: Raw = {
            "outputs": [
                tuple((name, repr(getattr(record, name))) for name in Emitted.__struct_fields__)
                for record in outcome.outputs.elements()
            ],
            "states": [
                (("computation", computation), ("key", key), ("state", repr(state)))
                for (computation, key), state in outcome.states.items()
            ],
            "violated": [
                f"{name}: {each.message}" for name, each in violations(dict(outcome.verdicts)).items()
            ],
        }
        return {name: items for name, items in raw.items() if name != OUTPUTS} | own

    def of_source(self, source: FeedSource) -> Iterator[Finding]:
        """Yield what the code does wrong with records that come as their source promises, on any engine: see `review`."""
        for finding in of_source(self.pipeline, self.feed.only(range(RECORDS)), source, CodeTrial()):
            yield replace(
                finding, trial=None
            )  # no trial on Spark shows it again, and the cluster's review does


def _row(item: Item) -> Row:
    assert isinstance(item, tuple), "it is a row of a table"
    row = {name: literal_eval(value) for name, value in item}
    return row["stream"], row["key"], row["value"], row["timestamp"]
