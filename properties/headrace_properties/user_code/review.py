"""Check what a search for violated invariants does not cover: whether user code can safely be rerun, moved and reordered.

The protocol keeps its promises whatever user code does; these are the promises that user code must keep in return (4.1, 6.1.3).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from msgspec import structs

from headrace import HeadraceError, Pipeline, Productions
from headrace.dataflow import GroupByKeyAndWindow
from headrace_properties.findings import Family, Finding, FindingClass, Kind, ranked
from headrace_properties.promises import Promise
from headrace_properties.search.apart import ProcessEnded, StatusBoard, work_apart
from headrace_properties.search.limits import CodeLimits, CodeOverrunError
from headrace_properties.shrinking import Budget, fewest
from headrace_properties.user_code.code_trial import CodeTrial
from headrace_properties.user_code.examiner import Examiner
from headrace_properties.user_code.habits import (
    COMBINE_IN_ANY_ORDER,
    ORDERS,
    REMEDIES,
    Habit,
    Witness,
    finding_of,
    habit_of,
)
from headrace_properties.user_code.metamorphic import ARRIVAL, RELATIONS, REPLAY, check_relations
from headrace_properties.user_code.other_hash import OtherHashes, importable_name
from headrace_properties.user_code.record_orders import combiner_place
from headrace_properties.user_code.settled_runs import settling_of
from headrace_properties.user_code.source_deliveries import Redelivered, SourceDeliveries
from headrace_properties.user_code.succeeding_versions import Succession
from headrace_properties.user_frames import Place
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated
from headrace_sim import ClusterOptions, Feed, FeedSource, Versions, versions_of
from headrace_sim.deliveries import UNSAID

STOPS = "the code stops without any fault"
"""Why no runs are made: there is nothing to see."""

RECORDS = 200
"""Maximum number of records used of an input, because each check runs it several times."""

_ALL = 100.0
"""Percentile of a low watermark that waits for all records."""

_Key = tuple[Habit, str]

DECLARED, PERMITTED, NOTED, NOT_ASKED, NOT_COMPARED = (
    Kind(Family.CODE, name, FindingClass.NOTE)
    for name in ("declared", "permitted", "noted", "not_asked", "not_compared")
)
"""What computations declare about themselves and is therefore not checked, what disabled guarantees permit, what need not be
meant but is no bug by itself, checks that could not be made, and relations that would tell something but were not compared."""


@dataclass(frozen=True, slots=True)
class CodeReview:
    """What is known about a pipeline's user code.

    Attributes:
        findings: its bugs, and then the questions to its author, each with the smallest input that shows it.
        notes: what is worth knowing about it.
        relations: verdicts of the `metamorphic` relations, by name. None contradicts a finding, and each violated one is a
            finding.
        feeds: number of inputs examined.
    """

    findings: tuple[Finding, ...]
    notes: tuple[Finding, ...] = ()
    relations: dict[str, Verdict] = field(default_factory=dict)
    feeds: int = 1

    def of(self, finding_class: FindingClass) -> tuple[Finding, ...]:
        """Return the findings that claim this."""
        return tuple(finding for finding in self.findings if finding.finding_class is finding_class)

    @property
    def verdicts(self) -> dict[Kind, Verdict]:
        """The findings as verdicts by kind; of several computations, the first one's."""
        return {finding.kind: finding.verdict for finding in reversed(self.findings)}

    def noted(self, kind: Kind) -> tuple[str, ...]:
        """Return the notes of a kind, in sentences."""
        return tuple(note.message for note in self.notes if note.kind == kind)

    @property
    def why_no_runs(self) -> str:
        """Why runs with faults are useless or harmful; ``""`` if they are useful."""
        habits = [habit for finding in self.findings if (habit := habit_of(finding)) is not None]
        if any(habit.stops for habit in habits):
            return STOPS
        return "each would repeat the effects of the code" if any(habit.does_harm for habit in habits) else ""


def review(
    pipeline: Versions,
    feeds: Feed | Mapping[int, Feed],
    *,
    options: ClusterOptions | None = None,
    seed: int = 0,
    limits: CodeLimits | None = None,
    promises: Iterable[Promise] = (),
    source: FeedSource = UNSAID,
) -> CodeReview:
    """Check a pipeline's user code in a separate process.

    Args:
        pipeline: whose code to check; if it has several versions, each of them.
        feeds: inputs that exercise the code, by seed; of a longer one only the first `RECORDS` records are used.
        options: of the cluster in which runs are compared.
        seed: seed of all random choices.
        limits: resource limits of user code; default: 10 s per call, and 1 GiB.
        promises: which may say that state is meant to stay.
        source: what the source of the inputs promises.
    """
    versions = versions_of(pipeline)
    by_seed = {seed: feeds} if isinstance(feeds, Feed) else dict(feeds)
    few = {
        seed: feed if feed.records <= RECORDS else feed.only(range(RECORDS)) for seed, feed in by_seed.items()
    }
    names = [importable_name(version) for version in versions]
    limits = limits or CodeLimits()
    work = _Review(versions, few, names, options, seed, limits, source)
    bounded = {name for promise in promises for name in promise.bounds}
    findings: list[Finding] = []
    relations: dict[str, Verdict] = {}
    for item in work_apart(work, limits):
        if isinstance(item, ProcessEnded):
            findings.append(_of_ended(item, versions[0], few, seed))
        elif not isinstance(item, Finding):
            relations = item
        elif item.kind != Habit.GROWTH.kind or item.subject not in bounded:
            findings.append(item)
    relations = relations or _unknown(_why_stopped(findings))
    notes = {
        DECLARED: _declared(versions, next(iter(few.values()))),
        PERMITTED: permitted_by(versions[0]),
        NOT_ASKED: () if all(names) else (_NO_NAME,),
        NOT_COMPARED: tuple(name for name, verdict in relations.items() if _is_missed(verdict)),
    }
    notices = (Finding(kind, message) for kind, messages in notes.items() for message in messages)
    is_note = {True: [*notices], False: list[Finding]()}
    for finding in findings:
        is_note[finding.finding_class is FindingClass.NOTE].append(finding)
    return CodeReview(ranked(is_note[False]), ranked(is_note[True]), relations, len(few))


def _is_missed(verdict: Verdict) -> bool:
    """Return whether a relation could have shown something, and was not compared."""
    return isinstance(verdict, Unknown) and verdict.applies


_NO_NAME = (
    "hash() and the order of sets: no importable module defines the pipeline, so no other process can run it"
)


@dataclass(frozen=True, slots=True)
class _Review:
    """The work of the separate process."""

    versions: list[Pipeline]
    feeds: dict[int, Feed]
    names: list[tuple[str, str] | None]
    options: ClusterOptions | None
    seed: int
    limits: CodeLimits
    source: FeedSource

    def __call__(self, board: StatusBoard) -> Iterator[Finding | dict[str, Verdict]]:
        findings: list[Finding] = []
        for version, name in zip(self.versions, self.names, strict=True):
            for finding in self._findings(version, name, board):
                findings.append(finding)
                yield finding
        known = CodeReview(tuple(findings))
        if known.why_no_runs != STOPS:
            board.write(None)
            relations = self._relations(known)
            yield relations
            if not known.of(FindingClass.VIOLATED):
                yield from self._of_relations(known, relations)
                yield from self._of_versions()
                yield from self._of_deliveries()

    def _findings(
        self, version: Pipeline, name: tuple[str, str] | None, board: StatusBoard
    ) -> Iterator[Finding]:
        if name is None:
            yield from self._examined(Examiner(version, self.seed), board)
        else:
            with OtherHashes(name, self.limits) as elsewhere:
                yield from self._examined(Examiner(version, self.seed, elsewhere.call), board)

    def _examined(self, examiner: Examiner, board: StatusBoard) -> Iterator[Finding]:
        known: set[_Key] = set()
        for feed_seed, feed in self.feeds.items():
            examiner.report = partial(_write_to, board, feed_seed)
            for finding in examiner.examine(feed, frozenset(known)):
                known |= _with_likes(finding)
                yield replace(finding, trial=structs.replace(finding.trial, feed_seed=feed_seed))
            if any(habit.stops for habit, _ in known):
                return
        for computation, shown in examiner.growth.growing.items():
            kind, message = Habit.GROWTH.kind, f"The code of {computation!r} {Habit.GROWTH.value}: {shown}"
            yield Finding(kind, message, remedy=REMEDIES[Habit.GROWTH], subject=computation)
        if not known:
            for note in examiner.notes(next(iter(self.feeds.values()))):
                yield Finding(NOTED, note)

    def _relations(self, known: CodeReview) -> dict[str, Verdict]:
        by_habit = {habit_of(finding): finding for finding in reversed(known.findings)}
        order = by_habit[Habit.DEPENDS_ON_ORDER].message if Habit.DEPENDS_ON_ORDER in by_habit else ""
        feed = next(iter(self.feeds.values()))
        if known.why_no_runs:
            return _unknown("more runs would repeat the effects of the code")
        try:
            relations = check_relations(
                self.versions[0],
                feed,
                options=self.options,
                seed=self.seed,
                relations=RELATIONS,
                order_matters=order,
            )
        except (HeadraceError, SystemExit, CodeOverrunError) as error:
            return _unknown(f"the run stops without any fault: {error}")
        for habit in by_habit:
            relations = {name: _beside(habit, verdict) for name, verdict in relations.items()}
        settles = settling_of(self.versions[0], feed) is not None
        return {
            name: _as_declared(name, verdict, self.versions[0], settles=settles)
            for name, verdict in relations.items()
        }

    def _of_relations(self, known: CodeReview, relations: Mapping[str, Verdict]) -> Iterator[Finding]:
        """Yield the first violated relation of order, and of anything else, as findings, on few records."""
        broken = [name for name, verdict in relations.items() if isinstance(verdict, Violated)]
        if ARRIVAL in broken and not any(habit_of(finding) in ORDERS for finding in known.findings):
            yield self._of_relation(ARRIVAL, relations[ARRIVAL])
        others = [name for name in broken if name != ARRIVAL]
        if others:
            yield self._of_relation(others[0], relations[others[0]])

    def _of_versions(self) -> Iterator[Finding]:
        """Yield the findings on how later versions read what the first one leaves."""
        feed_seed, feed = next(iter(self.feeds.items()))
        for number, version in enumerate(self.versions[1:], 1):
            succession = Succession(self.versions[0], version, f"version {number}")
            shown = succession.misread(feed)
            if shown is not None and not shown.is_wrong:
                yield Finding(NOTED, f"{shown.computation!r} of {shown.detail}")
            elif shown is not None:
                kept = fewest(
                    tuple(range(feed.records)), partial(succession.is_wrong, feed), Budget(_SHRINKS)
                )
                few = feed.only(kept)
                shown = succession.misread(few) or shown
                witness = Witness(shown.computation, shown.detail, len(kept))
                yield finding_of(Habit.MISREADS, witness, CodeTrial(feed_seed, kept, self.seed), few, version)

    def _of_deliveries(self) -> Iterator[Finding]:
        """Yield what the first version makes of records as their source really delivers them."""
        feed_seed, feed = next(iter(self.feeds.items()))
        yield from of_source(self.versions[0], feed, self.source, CodeTrial(feed_seed, seed=self.seed))
        for note in SourceDeliveries(self.versions[0], feed, self.source).notes():
            yield Finding(NOTED, note)

    def _of_relation(self, name: str, violated: Verdict) -> Finding:
        feed_seed, feed = next(iter(self.feeds.items()))

        def fails(kept: tuple[int, ...]) -> bool:
            nonlocal violated
            verdict = self._checked(name, feed.only(kept))
            violated = verdict or violated
            return verdict is not None

        kept = fewest(tuple(range(feed.records)), fails, Budget(_SHRINKS))
        pipeline = self.versions[0]
        assert isinstance(violated, Violated)
        combiners = _combiners(pipeline)
        witness = Witness(
            ", ".join(pipeline.computations), f"it does not hold that {violated.message}", len(kept),
            place=combiners[0] if len(combiners) == 1 else None, remedy=COMBINE_IN_ANY_ORDER if combiners else "",
        )  # fmt: skip
        habit = Habit.DEPENDS_ON_SCHEDULE if name == ARRIVAL else Habit.DEPENDS_ON_FAULTS
        return finding_of(habit, witness, CodeTrial(feed_seed, kept, self.seed), feed.only(kept), pipeline)

    def _checked(self, name: str, feed: Feed) -> Violated | None:
        """Return how a relation is violated on another input, if it is."""
        pipeline, chosen = self.versions[0], [relation for relation in RELATIONS if relation.name == name]
        try:
            verdicts = check_relations(pipeline, feed, options=self.options, seed=self.seed, relations=chosen)
        except (HeadraceError, SystemExit, CodeOverrunError):
            return None
        settles = settling_of(pipeline, feed) is not None
        verdict = _as_declared(name, verdicts[name], pipeline, settles=settles)
        return verdict if isinstance(verdict, Violated) else None


def of_source(pipeline: Pipeline, feed: Feed, source: FeedSource, trial: CodeTrial) -> Iterator[Finding]:
    """Yield what a pipeline does wrong with records that come as their source says that they may, on few records.

    Args:
        pipeline: whose code it is.
        feed: the input as it should come.
        source: what its source promises.
        trial: the seeds of the input and of the review.
    """
    for habit in DELIVERED:

        def shown(kept: tuple[int, ...], habit: Habit = habit) -> Redelivered | None:
            return redelivered(habit, pipeline, feed.only(kept), source)

        kept = tuple(range(feed.records))
        if shown(kept) is not None:
            kept = fewest(kept, lambda some: shown(some) is not None, Budget(_SHRINKS))
            again = shown(kept)
            assert again is not None
            witness = Witness(", ".join(pipeline.computations), again.detail, len(kept))
            yield finding_of(habit, witness, structs.replace(trial, kept=kept), feed.only(kept), pipeline)


def redelivered(habit: Habit, pipeline: Pipeline, feed: Feed, source: FeedSource) -> Redelivered | None:
    """Return how an input that comes as its source says that it may shows a habit of `DELIVERED`; None: it does not."""
    return DELIVERED[habit](SourceDeliveries(pipeline, feed, source))


DELIVERED: Mapping[Habit, Callable[[SourceDeliveries], Redelivered | None]] = {
    Habit.COUNTS_AGAIN: SourceDeliveries.counts_again, Habit.SPLITS_KEYS: SourceDeliveries.splits_keys,
}  # fmt: skip
"""What the source's deliveries show that it promises."""

_SHRINKS = 40
"""Choice: how many smaller inputs are tried for a violated relation, each in some ten runs."""


def _combiners(pipeline: Pipeline) -> list[Place]:
    """Return where the combiners of a pipeline begin, if they are all that can go by the order: the rest is the layer's."""
    computations = [spec.computation for spec in pipeline.computations.values()]
    if not all(type(computation).__module__.startswith("headrace.dataflow.") for computation in computations):
        return []
    return [place for place in map(combiner_place, computations) if place is not None]


def _write_to(board: StatusBoard, feed_seed: int, entry: tuple[object, ...]) -> None:
    board.write((feed_seed, *entry))


def permitted_by(pipeline: Pipeline) -> tuple[str, ...]:
    """Describe what weak productions and deliveries without deduplication permit in a pipeline (6.1.2, 6.1.3)."""
    sentences = []
    for name, spec in pipeline.computations.items():
        if not spec.exactly_once:
            sentences.append(
                f"{name!r} has exactly_once=False: a record that is retried takes effect once more"
            )
        if spec.productions is Productions.WEAK:
            sentences.append(
                f"{name!r} has weak productions: a step that is run again on another state sends what differs, too"
            )
    return tuple(sentences)


def _why_stopped(findings: Iterable[Finding]) -> str:
    """Say why no runs were compared."""
    habits = (habit_of(finding) for finding in findings)
    stopping = next((habit for habit in habits if habit and habit.stops), Habit.NEVER_ENDS)
    return f"the code {stopping.value}"


def _declared(versions: list[Pipeline], feed: Feed) -> tuple[str, ...]:
    sentences: dict[str, None] = {}
    for version in versions:
        settles = settling_of(version, feed) is not None
        for name, spec in version.computations.items():
            if spec.ordered and isinstance(spec.computation, GroupByKeyAndWindow):
                why = f"the trigger or engine of {name!r} goes by arrival, and so do its panes"
                sentences[f"{why}: {_SETTLING if settles else _NOT_SETTLING}"] = None
            elif spec.ordered:
                sentences[
                    f"{name!r} declares that its outcome depends on the order of arrival (ordered=True)"
                ] = None
            if spec.nondeterministic:
                sentences[f"{name!r} declares that it is nondeterministic: {spec.nondeterministic}"] = None
    return tuple(sentences)


_SETTLING = "what they settle to is compared"
_NOT_SETTLING = (
    "they are not compared, since not everything that is made of them settles: promise what must come of them"
)


def _with_likes(finding: Finding) -> set[_Key]:
    """Return the habits not to check again after a finding: the same one, and those with the same cause."""
    habit = habit_of(finding)
    likes = next((likes for likes in _LIKES if habit in likes), (habit,))
    return {(like, finding.subject) for like in likes if like is not None}


_LIKES = (
    (Habit.KEEPS_STATE, Habit.SHARES_STATE),
    (Habit.READS_CLOCK, Habit.DEPENDS_ON_SCHEDULE),
    (Habit.FAILS_IN_ANOTHER_ORDER, *ORDERS),
)
"""Habits with the same cause: the first check that sees it says so."""


def _of_ended(ended: ProcessEnded, pipeline: Pipeline, feeds: dict[int, Feed], seed: int) -> Finding:
    """Return the finding that user code ended its process, or could not be interrupted."""
    habit = Habit.NEVER_ENDS if ended.hung else Habit.ENDS_PROCESS
    detail = (
        "it could not be interrupted, and was ended with its process"
        if ended.hung
        else f"its process ended with {ended.how}"
    )
    if ended.entry is None:
        detail = f"{detail}; which call it was at is not known"
        return finding_of(habit, Witness("", detail, 0), CodeTrial(seed=seed), Feed(()), pipeline)
    feed_seed, records, computation, cause, entry = ended.entry
    kept = tuple(range(records))
    witness = Witness(computation, detail, records, cause, Place(*entry) if entry else None)
    return finding_of(habit, witness, CodeTrial(feed_seed, kept, seed), feeds[feed_seed].only(kept), pipeline)


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


def _beside(habit: Habit | None, verdict: Verdict) -> Verdict:
    """Return a relation's verdict in view of a finding: `Unknown` where that makes the comparison meaningless.

    The simulated cluster keeps all keys in one process, and its crashes do not clear what is kept outside the rows.
    """
    match habit:
        case (
            Habit.NOT_DETERMINISTIC
            | Habit.READS_CLOCK
            | Habit.USES_ZONE
            | Habit.USES_CHANCE
            | Habit.USES_HASHES
        ):
            return Unknown(f"the code {habit.value}")
        case Habit.KEEPS_STATE | Habit.SHARES_STATE if isinstance(verdict, Holds):
            return Unknown(f"the code {habit.value}")
    return verdict
