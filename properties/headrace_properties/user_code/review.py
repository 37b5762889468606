"""Check what a search for violated invariants does not cover: whether user code can safely be rerun, moved and reordered.

The protocol keeps its promises whatever user code does; these are the promises that user code must keep in return (4.1, 6.1.3).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from headrace import HeadraceError, Pipeline, Productions
from headrace.dataflow import GroupByKeyAndWindow
from headrace_properties.findings import Kind
from headrace_properties.promises import Promise
from headrace_properties.search.apart import Board, ProcessEnded, work_apart
from headrace_properties.search.limits import CodeLimits, CodeOverrunError
from headrace_properties.shrinking import Budget, fewest
from headrace_properties.user_code.findings import Examiner
from headrace_properties.user_code.growth import GROWTH
from headrace_properties.user_code.habits import COMBINE_IN_ANY_ORDER, Habit, UserFinding, shown_records
from headrace_properties.user_code.metamorphic import MEANINGLESS, RELATIONS, REPLAY, check_relations
from headrace_properties.user_code.orders import combiner_place
from headrace_properties.user_code.other_hash import OtherHashes, importable_name
from headrace_properties.user_code.settled_runs import settling_of
from headrace_properties.user_frames import Place
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated
from headrace_sim import ClusterOptions, Feed, Versions, versions_of

_IF_MEANT = (
    "Let a timer clear it; or if it may stay, say which keys: bounded_state(COMPUTATION, keeps=...) among the promises, or allow"
    f" {GROWTH!r} to be unknown"
)

RECORDS = 200
"""Maximum number of records used of an input, because each check runs it several times."""

_ALL = 100.0
"""Percentile of a low watermark that waits for all records."""

_Key = tuple[Habit, str]


@dataclass(frozen=True, slots=True)
class CodeReview:
    """What is known about a pipeline's user code.

    Attributes:
        findings: its bugs, each with the smallest input that shows it.
        relations: verdicts of the `metamorphic` relations, by name. None contradicts a finding, and each violated one is a
            finding.
        declared: what computations declare about themselves and is therefore not checked.
        permitted: what disabled guarantees permit, in sentences.
        noted: what need not be meant, but is no bug by itself, in sentences.
        not_asked: checks that could not be made, and why.
        growing: computations whose state may grow forever, each with what shows it: a question to its author.
        feeds: number of inputs examined.
    """

    findings: tuple[UserFinding, ...]
    relations: dict[str, Verdict] = field(default_factory=dict)
    declared: tuple[str, ...] = ()
    permitted: tuple[str, ...] = ()
    noted: tuple[str, ...] = ()
    not_asked: tuple[str, ...] = ()
    growing: Mapping[str, str] = field(default_factory=dict)
    feeds: int = 1

    @property
    def verdicts(self) -> dict[Kind, Violated]:
        """The findings as verdicts by kind; of several computations, the first one's."""
        found: dict[Kind, Violated] = {}
        for finding in self.findings:
            found.setdefault(finding.kind, finding.verdict)
        return found

    @property
    def uncompared(self) -> tuple[str, ...]:
        """The relations that would have told something, and were not compared."""
        return tuple(
            name
            for name, verdict in self.relations.items()
            if isinstance(verdict, Unknown) and not verdict.why.startswith(MEANINGLESS)
        )

    def question(self, promises: Iterable[Promise]) -> str:
        """Return what only the author can say of growing state: all but what a promise bounds; ``""``: nothing."""
        bounded = {name for promise in promises for name in promise.bounds}
        told = [told for computation, told in self.growing.items() if computation not in bounded]
        return f"{'; '.join(told)}. {_IF_MEANT}" if told else ""

    @property
    def why_no_runs(self) -> str:
        """Why runs with faults are useless or harmful; ``""`` if they are useful."""
        if any(finding.habit.stops for finding in self.findings):
            return "the code stops without any fault"
        if any(finding.habit in _HARMFUL for finding in self.findings):
            return "each would repeat the effects of the code"
        return ""


def review(
    pipeline: Versions,
    feeds: Feed | Mapping[int, Feed],
    *,
    options: ClusterOptions | None = None,
    seed: int = 0,
    limits: CodeLimits | None = None,
) -> CodeReview:
    """Check a pipeline's user code in a separate process.

    Args:
        pipeline: whose code to check; if it has several versions, each of them.
        feeds: inputs that exercise the code, by seed; of a longer one only the first `RECORDS` records are used.
        options: of the cluster in which runs are compared.
        seed: seed of all random choices.
        limits: resource limits of user code; default: 10 s per call, and 1 GiB.
    """
    versions = versions_of(pipeline)
    by_seed = {seed: feeds} if isinstance(feeds, Feed) else dict(feeds)
    few = {
        seed: feed if feed.records <= RECORDS else feed.only(range(RECORDS)) for seed, feed in by_seed.items()
    }
    names = [importable_name(version) for version in versions]
    limits = limits or CodeLimits()
    work = _Review(versions, few, names, options, seed, limits)
    findings: list[UserFinding] = []
    relations: dict[str, Verdict] = {}
    noted: dict[str, None] = {}
    grows: dict[str, str] = {}
    for item in work_apart(work, limits):
        if isinstance(item, ProcessEnded):
            findings.append(_of_ended(item, versions[0], few))
        elif isinstance(item, UserFinding):
            findings.append(item)
        elif isinstance(item, str):
            noted[item] = None
        elif isinstance(item, _Growing):
            grows = {**item.told, **grows}
        else:
            relations = item
    habits = list(Habit)
    return CodeReview(
        tuple(
            replace(finding, seed=seed)
            for finding in sorted(findings, key=lambda finding: habits.index(finding.habit))
        ),
        relations or _unknown(_why_stopped(findings)),
        _declared(versions, next(iter(few.values()))),
        permitted_by(versions[0]),
        tuple(noted),
        (() if all(names) else (_NO_NAME,)) + ((_NO_MEANING,) if len(versions) > 1 else ()),
        grows,
        len(few),
    )


_HARMFUL = (Habit.HAS_EFFECTS, Habit.STARTS_THREADS)

_NO_NAME = (
    "hash() and the order of sets: no importable module defines the pipeline, so no other process can run it"
)

_NO_MEANING = (
    "whether a version takes what another one has left, states and timers, for what it is: the versions are compared each by"
    " itself, and only errors and promises tell"
)


@dataclass(frozen=True, slots=True)
class _Growing:
    """Computations of a version whose state may grow forever, each with what shows it."""

    told: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Review:
    """Do the work of the separate process."""

    versions: list[Pipeline]
    feeds: dict[int, Feed]
    names: list[tuple[str, str] | None]
    options: ClusterOptions | None
    seed: int
    limits: CodeLimits

    def __call__(self, board: Board) -> Iterator[UserFinding | str | _Growing | dict[str, Verdict]]:
        findings: list[UserFinding] = []
        for version, name in zip(self.versions, self.names, strict=True):
            for finding in self._findings(version, name, board):
                findings += [finding] if isinstance(finding, UserFinding) else []
                yield finding
        if not any(finding.habit.stops for finding in findings):
            board.write(None)
            relations = self._relations(findings)
            yield relations
            if not findings:
                yield from self._of_relations(relations)

    def _findings(
        self, version: Pipeline, name: tuple[str, str] | None, board: Board
    ) -> Iterator[UserFinding | str | _Growing]:
        if name is None:
            yield from self._examined(Examiner(version, self.seed), board)
        else:
            with OtherHashes(name, self.limits) as elsewhere:
                yield from self._examined(Examiner(version, self.seed, elsewhere.call), board)

    def _examined(self, examiner: Examiner, board: Board) -> Iterator[UserFinding | str | _Growing]:
        known: set[_Key] = set()
        for feed_seed, feed in self.feeds.items():
            examiner.report = partial(_write_to, board, feed_seed)
            for finding in examiner.examine(feed, frozenset(known)):
                known |= _with_likes(finding)
                yield replace(finding, feed_seed=feed_seed)
            if any(habit.stops for habit, _ in known):
                return
        yield _Growing(examiner.growth.growing)
        if not known:
            yield from examiner.notes(next(iter(self.feeds.values())))

    def _relations(self, findings: list[UserFinding]) -> dict[str, Verdict]:
        order = next((finding.detail for finding in findings if finding.habit is Habit.DEPENDS_ON_ORDER), "")
        feed = next(iter(self.feeds.values()))
        if any(finding.habit in _HARMFUL for finding in findings):
            return _unknown("more runs would repeat the effects of the code")
        try:
            relations = check_relations(
                self.versions[0], feed, options=self.options, seed=self.seed, order_matters=order
            )
        except (HeadraceError, SystemExit, CodeOverrunError) as error:
            return _unknown(f"the run stops without any fault: {error}")
        for finding in findings:
            relations = {name: _beside(finding, verdict) for name, verdict in relations.items()}
        settles = settling_of(self.versions[0], feed) is not None
        return {
            name: _as_declared(name, verdict, self.versions[0], settles=settles)
            for name, verdict in relations.items()
        }

    def _of_relations(self, relations: Mapping[str, Verdict]) -> Iterator[UserFinding]:
        """Yield the first violated relation as a finding, on few records: it only shows in the cluster."""
        name = next((name for name, verdict in relations.items() if isinstance(verdict, Violated)), None)
        if name is None:
            return
        feed_seed, feed = next(iter(self.feeds.items()))
        violated = relations[name]

        def fails(kept: tuple[int, ...]) -> bool:
            nonlocal violated
            found = self._checked(name, feed.only(kept))
            violated = found or violated
            return found is not None

        kept = fewest(tuple(range(feed.records)), fails, Budget(_SHRINKS))
        few, pipeline = feed.only(kept), self.versions[0]
        assert isinstance(violated, Violated)
        combiners = _combiners(pipeline)
        yield UserFinding(
            Habit.DEPENDS_ON_SCHEDULE, ", ".join(pipeline.computations), f"it does not hold that {violated.message}", few,
            place=combiners[0] if len(combiners) == 1 else None, kept=kept, feed_seed=feed_seed,
            shown=shown_records(pipeline, few), remedy=COMBINE_IN_ANY_ORDER if combiners else "",
        )  # fmt: skip

    def _checked(self, name: str, feed: Feed) -> Violated | None:
        """Return how a relation is violated on another input, if it is."""
        pipeline, chosen = self.versions[0], [relation for relation in RELATIONS if relation.name == name]
        try:
            found = check_relations(pipeline, feed, options=self.options, seed=self.seed, relations=chosen)
        except (HeadraceError, SystemExit, CodeOverrunError):
            return None
        settles = settling_of(pipeline, feed) is not None
        verdict = _as_declared(name, found[name], pipeline, settles=settles)
        return verdict if isinstance(verdict, Violated) else None


_SHRINKS = 40
"""Choice: how many smaller inputs are tried for a violated relation, each in some ten runs."""


def _combiners(pipeline: Pipeline) -> list[Place]:
    """Return where the combiners of a pipeline begin, if they are all that can go by the order: the rest is the layer's."""
    computations = [spec.computation for spec in pipeline.computations.values()]
    if not all(type(computation).__module__.startswith("headrace.dataflow.") for computation in computations):
        return []
    return [place for place in map(combiner_place, computations) if place is not None]


def _write_to(board: Board, feed_seed: int, entry: tuple[object, ...]) -> None:
    board.write((feed_seed, *entry))


def permitted_by(pipeline: Pipeline) -> tuple[str, ...]:
    """Describe what weak productions and deliveries without deduplication permit in a pipeline (6.1.2, 6.1.3)."""
    found = []
    for name, spec in pipeline.computations.items():
        if not spec.exactly_once:
            found.append(f"{name!r} has exactly_once=False: a record that is retried takes effect once more")
        if spec.productions is Productions.WEAK:
            found.append(
                f"{name!r} has weak productions: a step that is run again on another state sends what differs, too"
            )
    return tuple(found)


def _why_stopped(findings: list[UserFinding]) -> str:
    """Say why no runs were compared."""
    stopping = next((finding.habit for finding in findings if finding.habit.stops), Habit.NEVER_ENDS)
    return f"the code {stopping.value}"


def _declared(versions: list[Pipeline], feed: Feed) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for version in versions:
        settles = settling_of(version, feed) is not None
        for name, spec in version.computations.items():
            if spec.ordered and isinstance(spec.computation, GroupByKeyAndWindow):
                why = f"the trigger or engine of {name!r} goes by arrival, and so do its panes"
                found[f"{why}: {_SETTLING if settles else _NOT_SETTLING}"] = None
            elif spec.ordered:
                found[
                    f"{name!r} declares that its outcome depends on the order of arrival (ordered=True)"
                ] = None
            if spec.nondeterministic:
                found[f"{name!r} declares that it is nondeterministic: {spec.nondeterministic}"] = None
    return tuple(found)


_SETTLING = "what they settle to is compared"
_NOT_SETTLING = (
    "they are not compared, since not everything that is made of them settles: promise what must come of them"
)


def _with_likes(finding: UserFinding) -> set[_Key]:
    """Return the habits not to check again after a finding: the same one, and those with the same cause."""
    likes = {finding.habit}
    if finding.habit in (Habit.KEEPS_STATE, Habit.SHARES_STATE):
        likes |= {Habit.KEEPS_STATE, Habit.SHARES_STATE}
    return {(habit, finding.computation) for habit in likes}


def _of_ended(ended: ProcessEnded, pipeline: Pipeline, feeds: dict[int, Feed]) -> UserFinding:
    """Return the finding that user code ended its process, or could not be interrupted."""
    habit = Habit.NEVER_ENDS if ended.hung else Habit.ENDS_PROCESS
    detail = (
        "it could not be interrupted, and was ended with its process"
        if ended.hung
        else f"its process ended with {ended.how}"
    )
    if ended.entry is None:
        return UserFinding(habit, "", f"{detail}; which call it was at is not known", Feed(()))
    feed_seed, records, computation, cause, entry = ended.entry
    kept = tuple(range(records))
    few = feeds[feed_seed].only(kept)
    place = Place(*entry) if entry else None
    return UserFinding(
        habit, computation, detail, few, cause, place, kept=kept, feed_seed=feed_seed, shown=shown_records(pipeline, few)
    )  # fmt: skip


def _unknown(why: str) -> dict[str, Verdict]:
    unknown: Verdict = Unknown(why)
    return {relation.name: unknown for relation in RELATIONS}


def _as_declared(name: str, verdict: Verdict, pipeline: Pipeline, *, settles: bool) -> Verdict:
    """Turn violations that are declared or permitted into `Unknown`. A step computed again takes its records in the same order.

    ``settles``: compared was what panes settle to, on which triggers that go by arrival, and are ``ordered``, have no effect.
    """
    if isinstance(verdict, Violated):
        for computation, spec in pipeline.computations.items():
            if spec.nondeterministic or (spec.ordered and not settles and name != REPLAY):
                return Unknown(f"{computation!r} declares that its outcome may differ; {verdict.message}")
            if name == REPLAY:
                continue
            if not spec.exactly_once:
                return Unknown(f"{computation!r} has exactly_once=False; {verdict.message}")
            if spec.watermark_percentile < _ALL:
                why = f"{computation!r} follows {spec.watermark_percentile:g} percent of the records"
                return Unknown(f"{why}; {verdict.message}")
    return verdict


def _beside(finding: UserFinding, verdict: Verdict) -> Verdict:
    """Return a relation's verdict in view of the findings: `Unknown` where a finding makes the comparison meaningless.

    The simulated cluster keeps all keys in one process, and its crashes do not clear what is kept outside the rows.
    """
    match finding.habit:
        case (
            Habit.NOT_DETERMINISTIC
            | Habit.READS_CLOCK
            | Habit.USES_ZONE
            | Habit.USES_CHANCE
            | Habit.USES_HASHES
        ):
            return Unknown(f"the code {finding.habit.value}")
        case Habit.KEEPS_STATE | Habit.SHARES_STATE if isinstance(verdict, Holds):
            return Unknown(f"the code {finding.habit.value}")
    return verdict
