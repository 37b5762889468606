"""Each record goes to every consumer of its stream in its producer's version of the pipeline (MillWheel 2, 3).

Rules of this file:

* A worker or an injector's process uses the version that it adopted last; each incarnation starts with version 0.
* Its own report is not enough: a process that runs a step under a sequencer has a table at least as new as that sequencer,
  and so uses the version that was deployed when the sequencer was minted, or a later one.
* A computation that is not in its owner's version retires: it keeps using the version that was deployed when it began to.
* A consumer that has left the topology need not get anything. What an injector reads again may also go to those that retire,
  which may be owed it.
* That what is addressed to a consumer is applied there is S1's and L2's; that every owner learns of the version in force, L5's.
"""

from collections.abc import Iterable

from headrace import format_time
from headrace.api.errors import HeadraceError
from headrace.history import Executed, Injected, IntervalMinted, ProcessStarted, VersionAdopted
from headrace.wire.messages import STORE
from headrace.wire.rows import Production
from headrace_properties.checkers.checker import Handlers, OpenVerdict
from headrace_properties.checkers.ledger import WorkLedger


class OtherPipelineError(HeadraceError):
    """A History is not of the pipeline that it is judged by. Field: problem."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        """Name what does not belong to it, and the remedy."""
        return f"the History is not of this pipeline: {self.problem}. Judge it by the code that made it, with all its versions"


class EveryConsumer:
    """S17: a record is addressed to each consumer of its stream once, and to no other.

    A step that produces what has no consumer at all cannot be told from one that produces nothing: the reference and the
    replay of steps (`headrace_properties.user_code.reexecution`) see that.
    """

    name = "S17"
    title = "a record goes to all consumers of its stream"
    section = "2, 3"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._versions = ledger.topology.versions
        self._verdict = OpenVerdict("no record was made")
        self.verdict = self._verdict.verdict
        self._consumers: dict[tuple[int, str], frozenset[str]] = {}
        self._in_force = [0]
        self._in_force_at_mint: dict[int, int] = {}
        self._adopted: dict[str, int] = {}
        self._retired_from: dict[str, list[int]] = {}
        self.handlers: Handlers = {Executed: self._on_executed, Injected: self._on_injected}
        if ledger.topology.changes:
            self.handlers = {
                **self.handlers,
                VersionAdopted: self._on_adopted,
                ProcessStarted: self._on_started,
                IntervalMinted: self._on_minted,
            }

    def _on_adopted(self, event: VersionAdopted) -> None:
        if event.version >= len(self._versions):
            raise OtherPipelineError(
                f"{event.process} adopts version {event.version} of {len(self._versions)}"
            )
        if event.process != STORE:
            self._adopted[event.process] = event.version
            return
        before = self._in_force[-1]
        self._in_force.append(event.version)
        for name in self._versions[before].computations:
            if name not in self._versions[event.version].computations:
                self._retired_from.setdefault(name, []).append(before)

    def _on_started(self, event: ProcessStarted) -> None:
        self._adopted.pop(event.process, None)

    def _on_minted(self, event: IntervalMinted) -> None:
        self._in_force_at_mint[event.sequencer] = len(self._in_force) - 1

    def _on_executed(self, event: Executed) -> None:
        version = self._adopted.get(event.process, 0)
        at_mint = self._in_force_at_mint.get(event.version.sequencer, 0)
        if at_mint and version not in self._in_force[at_mint:]:
            self._verdict.violated(
                f"{event.process} runs {event.computation!r} at {format_time(event.at_us)} by version {version} of the pipeline,"
                f" and owns it by a sequencer that was minted when version {self._in_force[at_mint]} was in force (MillWheel 3)",
                event,
            )
        if event.productions:
            self._judge(event, event.computation, version)

    def _on_injected(self, event: Injected) -> None:
        self._judge(event, event.process.partition("/")[0], self._adopted.get(event.process, 0))

    def _judge(self, event: Executed | Injected, maker: str, version: int) -> None:
        """Judge the productions of one step, or of one record of the source."""
        works_by = self._works_by(maker, version)
        for (record_id, stream), got in _by_record(event.productions).items():
            self._verdict.reached += 1
            problems = [self._problem(event, stream, got, work) for work in works_by]
            if all(problems):
                self._verdict.violated(
                    f"{event.process}, which works by version {version} of the pipeline, made record {record_id} at"
                    f" {format_time(event.at_us)} and sends it {problems[0]} (MillWheel 2, 3)",
                    event,
                )

    def _problem(self, event: Executed | Injected, stream: str, got: list[str], version: int) -> str:
        """Return what is wrong with a record's consumers if its producer uses this version; ``""``: nothing."""
        wanted = self._consumers_of(version, stream)
        if len(got) == len(wanted) and wanted.issuperset(got):
            return ""
        missing = [name for name in sorted(wanted.difference(got)) if not self._ledger.has_left(name)]
        more = [name for name in got if name not in wanted and not self._may_be_owed(name, event, stream)]
        more += sorted({name for name in got if got.count(name) > 1})
        return " and ".join(
            f"{what} {', '.join(map(repr, names))}"
            for what, names in (("not to", missing), ("out of turn to", more))
            if names
        )

    def _works_by(self, maker: str, version: int) -> list[int]:
        """Return its process's adopted version; for a computation not in it, those that it can have retired from.

        Raises:
            OtherPipelineError: no version has it.
        """
        pipeline = self._versions[version]
        if maker in pipeline.injectors or maker in pipeline.computations:
            return [version]
        known = self._retired_from.get(maker) or [
            number for number, version in enumerate(self._versions) if maker in version.computations
        ]
        if not known:
            raise OtherPipelineError(f"it has no {maker!r}")
        return known

    def _consumers_of(self, version: int, stream: str) -> frozenset[str]:
        """Return the names of a stream's consumers in a version, cached because every record asks for them."""
        consumers = self._consumers.get((version, stream))
        if consumers is None:
            pipeline = self._versions[version]
            subscribers = pipeline.consumers(stream) if stream in pipeline.streams else ()
            consumers = self._consumers[version, stream] = frozenset(name for name, _ in subscribers)
        return consumers

    def _may_be_owed(self, consumer: str, event: Executed | Injected, stream: str) -> bool:
        """Return whether a dead injector may have owed a record to a consumer that retires."""
        if isinstance(event, Executed) or self._ledger.has_left(consumer):
            return False
        return any(consumer in self._consumers_of(number, stream) for number in range(len(self._versions)))


def _by_record(productions: Iterable[Production]) -> dict[tuple[str, str], list[str]]:
    """Map record id and stream to the consumers that a record is addressed to."""
    consumers: dict[tuple[str, str], list[str]] = {}
    for production in productions:
        consumers.setdefault((production.record_id, production.stream), []).append(production.consumer)
    return consumers
