"""Check what the logs of Spark tell of streaming queries: micro-batches, offsets, watermarks and state, and no single record.

Rules of this file:

* A check has the name of what it means in a History of records, if that is judged there, too.
* What the log itself shows to be wrong is violated. What only the job's owner can know is `Unknown`, with what to do about it.
* Micro-batches are compared with the one before by number, so that a restart is judged as Spark resumes it.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from headrace_properties.histories.micro_batches import (
    CompletedBatch,
    QueryLog,
    QueryRun,
    SourceRead,
    StateRows,
    partitions,
    spark_time,
)
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated

_STANDS = 5
"""Choice: what does not move while so many micro-batches have rows stands."""

_REGULAR = 10
"""Choice: what goes on for so many micro-batches with rows goes on."""

_TOLD = 5
"""Choice: maximum number of reported findings of one check."""

_AHEAD_US = 3_600 * 1_000_000
"""Choice: an event time so far ahead of the clock is no time."""

_STOPS = ("InterruptedException", "was cancelled", "SparkContext was shut down", "has been shutdown")
"""Exceptions with which somebody stops a query."""

Findings = Iterator[Verdict]


def _fact(text: str) -> Verdict:
    return Violated(text, ())


def _question(text: str) -> Verdict:
    return Unknown(text, cut_short=True)


def _each_with_previous(query: QueryLog) -> Iterator[tuple[CompletedBatch, CompletedBatch]]:
    """Yield each micro-batch with its predecessor by number, as it was last completed."""
    done: dict[int, CompletedBatch] = {}
    for batch in query.batches:
        if batch.number - 1 in done:
            yield done[batch.number - 1], batch
        done[batch.number] = batch


def offsets_continue(query: QueryLog) -> Findings:
    """H10: each micro-batch begins where the one before ended, and no partition goes back."""
    for before, batch in _each_with_previous(query):
        if len(before.reads) != len(batch.reads):
            continue
        for earlier, read in zip(before.reads, batch.reads, strict=True):
            if (
                None not in (earlier.end_offset, read.start_offset)
                and earlier.end_offset != read.start_offset
            ):
                yield _fact(
                    f"{batch.place}: batch {batch.number} of {query.title} begins at {read.start_offset} of {read.description},"
                    f" and batch {before.number} had ended at {earlier.end_offset} ({before.place}): what lies between is skipped"
                    " or read twice. Compare the checkpoint's folder 'offsets', and read that range again"
                )
    for batch in query.batches:
        for read in batch.reads:
            start, end = partitions(read.start_offset), partitions(read.end_offset)
            for partition in sorted(start.keys() & end.keys()):
                if end[partition] < start[partition]:
                    yield _fact(
                        f"{batch.place}: batch {batch.number} of {query.title} goes back from offset {start[partition]} to"
                        f" {end[partition]} of partition {'-'.join(partition)}: the topic was made anew, and failOnDataLoss=false"
                        f" lets the query go on. Read the topic again, with a new checkpoint"
                    )
    yield from _expired(query)


def _expired(query: QueryLog) -> Findings:
    """Ask for rows of Kafka that are missing in a few micro-batches: transactions and compaction leave gaps in most."""
    short: list[tuple[CompletedBatch, int, int]] = []
    whole = 0
    for batch in query.filled:
        for read in batch.reads:
            span = _span(read)
            whole += span == read.num_input_rows > 0
            if span > 2 * read.num_input_rows:
                short.append((batch, span, read.num_input_rows))
    if short and whole > 2 * len(short):
        batch, span, rows = short[0]
        yield _question(
            f"{batch.place}: batch {batch.number} of {query.title} spans {span:,} offsets and read {rows:,} rows, while other"
            " batches read a row per offset. If the topic's retention removed rows before they were read, they are lost, and"
            " failOnDataLoss=false hides it"
        )


def _span(read: SourceRead) -> int:
    """Return how many offsets of Kafka, or rows of the rate source, a micro-batch spans; 0: unknown."""
    start, end = partitions(read.start_offset), partitions(read.end_offset)
    if start and start.keys() == end.keys():
        return sum(end.values()) - sum(start.values())
    if read.description.startswith("RatePerMicroBatch") and isinstance(read.end_offset, dict):
        begin = read.start_offset.get("offset", 0) if isinstance(read.start_offset, dict) else 0
        return int(read.end_offset.get("offset", 0)) - int(begin)
    return 0


def batches_once(query: QueryLog) -> Findings:
    """H11: no micro-batch completes twice."""
    done: dict[int, CompletedBatch] = {}
    again: list[tuple[CompletedBatch, CompletedBatch]] = []
    for batch in query.batches:
        first = done.get(batch.number)
        if first is not None and first.run != batch.run and first.rows and batch.rows:
            again.append((first, batch))
        done[batch.number] = batch if batch.rows or first is None else first
    if not again:
        return
    first, batch = again[0]
    count = (
        f"{len(again):,} batches, first batch {batch.number}," if len(again) > 1 else f"batch {batch.number}"
    )
    summary = f"{batch.place}: {count} of {query.title} completed again in another run ({first.place})"
    begun = min(one.at_us for one in query.batches if one.run == batch.run)
    if max(one.at_us for one in query.batches if one.run == first.run) > begun:
        yield _fact(
            f"{summary}, while the first run went on: two drivers write with one checkpoint. Stop one of them, and see that a"
            " driver that hangs is dead before another one starts"
        )
        return
    same = all(
        earlier.reads[0].end_offset == later.reads[0].end_offset for earlier, later in again if later.reads
    )
    rows = (
        "with the same offsets"
        if same
        else "with other offsets, so that a sink that goes by the batch id skips rows"
    )
    yield _question(
        f"{summary}, {rows}: an older checkpoint was put back, or commits of asynchronous progress were lost. What these batches"
        " wrote counts twice, unless the target was put back with it or the sink replaces what a batch wrote"
    )


def begins_once(queries: Sequence[QueryLog]) -> Findings:
    """H11: no query takes the place of another one with a new checkpoint."""
    for number, later in enumerate(queries):
        begin = next((batch for batch in later.batches if batch.number == 0), None)
        for earlier in queries[:number] if begin else ():
            old = earlier.batches
            if not old or begin is None or not _replaces(earlier, later) or old[-1].at_us > begin.at_us:
                continue
            yield _question(
                f"{begin.place}: {later.title} begins at batch 0 with a new checkpoint, and had come to batch {old[-1].number}"
                f" with another one ({old[-1].place}). What the source still has is read again, or what came in between is"
                " skipped (startingOffsets); a sink that goes by the batch id takes new batches for old ones. Keep the"
                " checkpoint, or key what is written by the rows, and not by the batch id"
            )
            break


def _replaces(earlier: QueryLog, later: QueryLog) -> bool:
    """Return whether one query looks like another one, with a new checkpoint."""
    old, new = earlier.batches[-1], later.batches[0]
    same = [read.description for read in old.reads] == [read.description for read in new.reads]
    if earlier.name or later.name:
        return same and earlier.name == later.name
    has_place = "[" in new.sink or earlier.log != later.log
    return same and old.sink == new.sink and has_place


def never_back(query: QueryLog) -> Findings:
    """S11: the watermark never goes back."""
    for before, batch in _each_with_previous(query):
        if batch.watermark_us is not None and batch.watermark_us < (before.watermark_us or 0):
            yield _fact(
                f"{batch.place}: the watermark of {query.title} goes back to {spark_time(batch.watermark_us)} in batch"
                f" {batch.number}, and was {spark_time(before.watermark_us or 0)} in batch {before.number} ({before.place}):"
                " windows that were closed open again, and are written twice"
            )


def watermark_follows(query: QueryLog) -> Findings:
    """H7: the watermark moves while rows come that are newer than all before."""
    since: list[CompletedBatch] = []
    newest = said = 0
    for batch in query.filled:
        if batch.watermark_us is None:
            continue
        if batch.watermark_us > said or not since:
            said = max(said, batch.watermark_us)
            since = [batch]
        elif batch.newest_us is None or batch.newest_us > newest:
            since.append(batch)
        newest = max(newest, batch.newest_us or 0)
    if len(since) <= _STANDS:
        return
    where = (
        f"the watermark of {query.title} stands at {spark_time(said)} since batch {since[0].number} ({since[0].place}), and"
        f" {len(since) - 1} batches with rows have come since"
    )
    if all(batch.newest_us is None for batch in since):
        yield _question(
            f"{where}, none with an event time: the column of withWatermark is null in all of them. See whether its text is"
            " parsed: a format that does not match gives null"
        )
        return
    rows = [sum(batch.reads[n].num_input_rows for batch in since[1:]) for n in range(len(since[-1].reads))]
    idle = [read.description for read, count in zip(since[-1].reads, rows, strict=True) if not count]
    why = (
        f"{', '.join(idle)} sent nothing meanwhile, and the least watermark of all sources counts. Let an idle source send"
        " heartbeats, or set spark.sql.streaming.multipleWatermarkPolicy=max and accept that its rows may be late"
        if idle
        else "with several watermarks the least one counts: find the input whose event times stand"
    )
    yield _question(f"{where}, up to {spark_time(newest)}. No window closes and no state is removed: {why}")


def nothing_late(query: QueryLog) -> Findings:
    """H9: the watermark drops no row."""
    late = [batch for batch in query.batches if _dropped(batch) and not _is_ahead(batch.watermark_us, batch)]
    if late:
        yield _question(
            f"{late[0].place}: batch {late[0].number} of {query.title} dropped rows behind its watermark,"
            f" {spark_time(late[0].watermark_us or 0)}; {len(late):,} of {len(query.batches):,} batches dropped"
            f" {sum(map(_dropped, late)):,} in all, counted after they were combined. Nothing else tells of them. If they must"
            " count, lengthen the delay of withWatermark, or write them elsewhere before the operator"
        )


def _dropped(batch: CompletedBatch) -> int:
    return sum(rows.num_rows_dropped_by_watermark for rows in batch.state)


def _is_ahead(time_us: int | None, batch: CompletedBatch) -> bool:
    return time_us is not None and time_us > batch.at_us + _AHEAD_US


def not_ahead(query: QueryLog) -> Findings:
    """H12: no event time runs ahead of the clock."""
    first = next((batch for batch in query.batches if _is_ahead(batch.newest_us, batch)), None)
    if first is None:
        return
    late = [batch for batch in query.batches if _dropped(batch) and _is_ahead(batch.watermark_us, batch)]
    lost = f", and {len(late):,} batches after it dropped {sum(map(_dropped, late)):,}" if late else ""
    yield _question(
        f"{first.place}: batch {first.number} of {query.title} has a row of {spark_time(first.newest_us or 0)}, and the clock"
        f" said {spark_time(first.at_us)}. The watermark follows it, and every row on time is late from then on{lost}. Filter"
        " such rows before withWatermark; the watermark is in the checkpoint, so that only a new one goes back"
    )


def state_is_bounded(query: QueryLog) -> Findings:
    """H13: the state does not only grow."""
    filled = query.filled[-_REGULAR - 1 :]
    if len(filled) <= _REGULAR:
        return
    for number, last in enumerate(filled[-1].state):
        rows = [batch.state[number] for batch in query.batches if number < len(batch.state)]
        totals = [batch.state[number].num_rows_total for batch in filled if number < len(batch.state)]
        if any(state.num_rows_removed for state in rows) or not _only_grows(totals):
            continue
        begin = f"the state of {last.operator_name} in {query.title} grew in each of the last {_REGULAR} batches with rows, from"
        yield _question(
            f"{begin} {totals[0]:,} to {totals[-1]:,} rows ({filled[0].place} to {filled[-1].place}), and none was ever removed:"
            f" {_why_kept(query, last)}"
        )


def _only_grows(totals: Sequence[int]) -> bool:
    """Return whether numbers grow, and not ever slower."""
    if len(totals) <= _REGULAR or any(later <= earlier for earlier, later in pairwise(totals)):
        return False
    middle = totals[len(totals) // 2]
    return totals[-1] - middle >= (middle - totals[0]) / 2


def _why_kept(query: QueryLog, state: StateRows) -> str:
    if query.batches[-1].watermark_us is None:
        return (
            "the query has no watermark. Add withWatermark before the operator and its column to the keys,"
            " dropDuplicatesWithinWatermark for deduplication, or a TTL or a timer for state of your own"
        )
    return (
        "if its windows or timeouts are longer than this log, record until one is over; if the column of withWatermark is not"
        f" among the keys of {state.operator_name}, nothing ever will be"
    )


def answers(query: QueryLog) -> Findings:
    """H8: a stateful query writes something."""
    filled = [batch for batch in query.filled if batch.state]
    if len(filled) >= _REGULAR and all(batch.rows_out == 0 for batch in query.batches):
        yield _question(
            f"{query.title} took rows in {len(filled):,} batches ({filled[0].place} to {filled[-1].place}), and its sink never"
            " got one. In append mode a window is written once the watermark has passed its end: see H7, or record until one is"
            " over"
        )


def keeps_up(query: QueryLog) -> Findings:
    """H14: the query keeps up with its input."""
    filled = query.filled[-_REGULAR - 1 :]
    if len(filled) > _REGULAR:
        waiting = [sum(map(_waiting, batch.reads)) for batch in filled]
        if waiting[0] > 0 and all(later > earlier for earlier, later in pairwise(waiting)):
            yield _question(
                f"the backlog of {query.title} grew in each of the last {_REGULAR} batches, from {waiting[0]:,} to"
                f" {waiting[-1]:,} rows ({filled[0].place} to {filled[-1].place}). Raise maxOffsetsPerTrigger if a batch has time"
                " left, else add executors and partitions; what the retention removes first is lost"
            )
        if all(
            later.duration_ms > earlier.duration_ms and later.rows > earlier.rows
            for earlier, later in pairwise(filled)
        ):
            yield _question(
                f"each of the last {_REGULAR} batches of {query.title} took longer and read more than the one before"
                f" ({filled[0].duration_ms:,} to {filled[-1].duration_ms:,} ms): what comes in during a batch makes the next one"
                " longer. Bound a batch (maxOffsetsPerTrigger, maxFilesPerTrigger), or add executors"
            )
    yield from _stuck_partitions(query)


def _waiting(read: SourceRead) -> int:
    end, latest = partitions(read.end_offset), partitions(read.latest_offset)
    return sum(max(latest[one] - end.get(one, 0), 0) for one in latest)


def _stuck_partitions(query: QueryLog) -> Findings:
    filled = query.filled[-_STANDS:]
    if len(filled) < _STANDS:
        return
    for number, last in enumerate(filled[-1].reads):
        reads = [batch.reads[number] for batch in filled if number < len(batch.reads)]
        latest = partitions(last.latest_offset)
        for partition in sorted(latest):
            ends = {partitions(read.end_offset).get(partition) for read in reads}
            (end, *others) = ends
            if (
                end is not None
                and not others
                and all(partitions(read.latest_offset).get(partition, 0) > end for read in reads)
            ):
                yield _question(
                    f"{filled[0].place}: {query.title} has read nothing of partition {'-'.join(partition)} beyond offset {end}"
                    f" for {len(reads)} batches, and it has rows up to {latest[partition]}. See whether maxOffsetsPerTrigger"
                    " leaves it out, and whether its leader answers"
                )


def lives(query: QueryLog) -> Findings:
    """H15: a query that dies is started again, and goes on."""
    end: QueryRun | None = None
    deaths = 0
    for event in query.events:
        if isinstance(event, CompletedBatch):
            end, deaths = None, 0
        elif not event.ended:
            end = None
        elif event.exception and not any(stop in event.exception for stop in _STOPS):
            end, deaths = event, deaths + 1
    if end is None:
        return
    after = max((batch.number for batch in query.batches), default=-1) + 1
    times = f"{deaths} times in a row" if deaths > 1 else "once"
    cause = " ".join(_cause(end.exception).split())[:200]
    yield _fact(
        f"{end.place}: {query.title} died {times} at batch {after}, and nothing says that it went on: {cause}. The batch is tried"
        " again at each start, so that a row that cannot be processed stops the query for good: let the code set such rows aside"
    )


def _cause(exception: str) -> str:
    """Return what a person looks for in an exception: Python's last line, if it has one, else its first."""
    lines = [line for line in exception.splitlines() if line.strip()]
    python = [
        line
        for line in lines
        if line.split(":")[0].endswith(("Error", "Exception")) and line[:1] not in {" ", "\t"}
    ]
    return python[-1] if len(python) > 1 else lines[0]


def evaluated_once(query: QueryLog) -> Findings:
    """H16: a micro-batch reads its rows once. A plan may read a stream twice on purpose: this is a note, not a question."""
    spans = [(batch, read, span) for batch in query.filled for read in batch.reads if (span := _span(read))]
    if spans and all(
        read.num_input_rows >= 2 * span and not read.num_input_rows % span for _, read, span in spans
    ):
        batch, read, span = spans[0]
        yield Unknown(
            f"{batch.place}: batch {batch.number} read its {span:,} rows {read.num_input_rows // span} times, as all batches did."
            " Each action of foreachBatch evaluates the batch again: call persist() first, or random and current values differ"
            " between its writes"
        )


Check = Callable[[QueryLog], Findings]

_NO_WATERMARK = "no query has a watermark"
_NO_STATE = "no query is stateful"
_NO_BATCH = "no micro-batch completed"

_CHECKS: dict[str, tuple[Check, str]] = {
    "S11": (never_back, _NO_WATERMARK),
    "H7": (watermark_follows, _NO_WATERMARK),
    "H8": (answers, _NO_STATE),
    "H9": (nothing_late, _NO_WATERMARK),
    "H10": (offsets_continue, "no micro-batch followed another one"),
    "H11": (batches_once, _NO_BATCH),
    "H12": (not_ahead, _NO_WATERMARK),
    "H13": (state_is_bounded, _NO_STATE),
    "H14": (keeps_up, _NO_BATCH),
    "H15": (lives, "no query was started again"),
    "H16": (evaluated_once, "no source tells how many rows its offsets span"),
}
"""By name: what finds something wrong, and why there may be nothing to find it in."""

BATCH_TITLES = {
    "H10": "each batch begins where the one before ended",
    "H11": "no batch completes twice",
    "H12": "no event time runs ahead of the clock",
    "H13": "the state does not only grow",
    "H14": "a query keeps up with its input",
    "H15": "a query that dies goes on",
    "H16": "a batch is evaluated once",
}
"""What the checks say that a History of records does not have."""

SPARK_CHECKS = tuple(_CHECKS)
"""The names of the checks, in order."""

UNREACHED = frozenset(unreached for _, unreached in _CHECKS.values())
"""Why there was nothing to judge."""


def judge_queries(queries: Sequence[QueryLog]) -> dict[str, Verdict]:
    """Judge the streaming queries of Spark's logs.

    Args:
        queries: of `read_spark_logs`.

    Returns:
        The verdict on each check, by name: the worst finding of all queries, with what it says.
    """
    verdicts: dict[str, Verdict] = {}
    for name, (check, unreached) in _CHECKS.items():
        findings = [finding for query in queries for finding in check(query)]
        if name == "H11":
            findings += begins_once(queries)
        reached = sum(_reached(name, query) for query in queries)
        verdicts[name] = _worst(findings) or (Holds(reached) if reached else Unknown(unreached))
    return verdicts


def _worst(findings: Sequence[Verdict]) -> Verdict | None:
    """Return the violations as one, or else the questions; of many, the first few."""
    violated = [finding.message for finding in findings if isinstance(finding, Violated)]
    unknown = [finding for finding in findings if isinstance(finding, Unknown)]
    texts = violated or [finding.why for finding in unknown]
    if not texts:
        return None
    more = [f"(and {len(texts) - _TOLD:,} more)"] if len(texts) > _TOLD else []
    text = "\n".join(texts[:_TOLD] + more)
    return Violated(text, ()) if violated else Unknown(text, any(finding.cut_short for finding in unknown))


def _reached(name: str, query: QueryLog) -> int:
    """Return how often a query exercised a check."""
    batches = query.batches
    match name:
        case "H10":
            return sum(1 for _ in _each_with_previous(query))
        case "H11" | "H14":
            return len(batches)
        case "H8" | "H13":
            return sum(1 for batch in batches if batch.state)
        case "H15":
            return max(
                sum(1 for event in query.events if isinstance(event, QueryRun) and not event.ended) - 1, 0
            )
        case "H16":
            return sum(1 for batch in batches for read in batch.reads if _span(read))
        case _:
            return sum(1 for batch in batches if batch.watermark_us is not None)
