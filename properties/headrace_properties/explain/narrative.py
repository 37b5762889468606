"""Explain a violation in sentences: who believed what, which write landed when, which rule was broken.

The story covers the causal past of the witness, the owners of the keys and the faults that hit them. Unrelated events are left
out, and the story states their number.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace import history as h
from headrace_properties.checkers.catalogue import is_invariant, rule
from headrace_properties.explain.causality import Link, LinkKind, causal_past, links_of, numbers_of
from headrace_properties.explain.event_summaries import changes, found_by, phrase, seconds
from headrace_properties.explain.tenures import Outage, Tenure, outages_of, tenures_of
from headrace_properties.explain.waiting import waiting_for
from headrace_properties.search.judging import is_finding
from headrace_properties.verdict import Verdict, Violated

LONGEST = 20
"""Maximum number of sentences between headline and rule: nobody reads more."""

_TOLD_FIRST = (
    "S6",
    "S7",
    "S2",
    "S1",
    "S3",
    "S9",
    "S8",
    "S5",
    "S4",
    "S14",
    "S15",
    "S10",
    "S11",
    "S12",
    "S13",
    "S16",
    "L5",
    "L1",
    "L2",
    "L3",
    "L4",
)
"""Invariants by explanatory power: the first violated one is explained, since the others follow from it."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One step of a story.

    Attributes:
        number: the number in the History of the event that it describes.
        text: the sentence, with its time.
    """

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Narrative:
    """Why a rule was broken.

    Attributes:
        invariant: the violated invariant.
        sentences: the story, in order of time.
        rule: which rule was broken, how, and where the paper states it.
        consequences: what else was violated in the same run.
        told: how many events the story covers.
        left_out: how many events it leaves out.
        shortened: sentences that were dropped, because there were too many.
        awaited: for a liveness violation, what is awaited, and since when.
        next: what should have happened next, and the rule that requires it.
    """

    invariant: str
    sentences: tuple[Sentence, ...]
    rule: str
    consequences: tuple[str, ...]
    told: int
    left_out: int
    shortened: int
    awaited: str = ""
    next: str = ""

    @property
    def paragraphs(self) -> tuple[str, ...]:
        """The whole story, one or two sentences per entry, ending with the rule; a broken promise comes first."""
        omitted = (
            f"Left out: {self.left_out:,} of {self.told + self.left_out:,} events, which had no part in it."
        )
        if self.shortened:
            omitted += f" {self.shortened} more that had are not told, to keep this short."
        sentences = [sentence.text for sentence in self.sentences]
        awaited, following = [[event] if event else [] for event in (self.awaited, self.next)]
        story = (*awaited, *sentences, *following, omitted, *self.consequences)
        return (*story, self.rule) if is_invariant(self.invariant) else (self.rule, *story)


def narrate(history: Sequence[h.Event], verdicts: Mapping[str, Verdict], about: str = "") -> Narrative | None:
    """Explain how a rule was violated; return ``None`` if nothing is violated.

    Args:
        history: of the whole run.
        verdicts: the verdicts on it.
        about: the violation to explain; ``""`` chooses the one closest to the cause.
    """
    broken = {name: verdict for name, verdict in verdicts.items() if isinstance(verdict, Violated)}
    if not broken:
        return None
    name = about or min(broken, key=_precedence)
    return _Narrator(history, name, broken[name]).tell(broken)


def _precedence(name: str) -> tuple[int, bool]:
    """Order violations: those of the protocol cause those of user code; findings that only explain come last."""
    return _TOLD_FIRST.index(name) if name in _TOLD_FIRST else len(_TOLD_FIRST), is_finding(name)


def subject_of(history: Sequence[h.Event], witness: Iterable[int], links: Sequence[Link]) -> set[int]:
    """Return the numbers of the events that a reader needs to understand a witness.

    They are its causal past, the earlier owners of the same keys, the faults at those processes, and the ACKs that relied on it.
    """
    shown = set(witness)
    last = max(shown, default=0)
    past = causal_past(links, shown)
    steps = {number for number in past if isinstance(history[number], h.Applied | h.WriteRefused)}
    past |= {
        link.effect for link in links if link.cause in steps and isinstance(history[link.effect], h.AckSent)
    }
    keys = {_key_of(history[number]) for number in shown} - {None}
    made = [link.cause for link in links if link.effect in shown and link.kind is LinkKind.WRITE]
    past |= {
        number
        for number in range(min([*shown, *made], default=0), last)
        if isinstance(history[number], h.Applied) and _key_of(history[number]) in keys
    }
    owners = set[str]()
    for tenure in tenures_of(history):
        if any(key and tenure.covers(*key) for key in keys):
            owners.add(tenure.owner)
            steps_of = (tenure.minted, tenure.scan_begun, tenure.scan_ended, tenure.forgotten)
            past |= {step for step in steps_of if step is not None and step <= last}
    processes = owners or {history[number].process for number in past}
    for outage in outages_of(history):
        if outage.process in processes - {"store", ""}:
            past |= {number for number in (outage.begin, outage.end) if number is not None and number <= last}
    return past


def _key_of(event: h.Event) -> tuple[str, str] | None:
    """Return (computation, key) of an event's subject."""
    match event:
        case h.Applied():
            return event.computation, event.delta.key
        case h.Executed() | h.Delivered() | h.DuplicateDropped():
            return event.computation, event.key
        case h.WriteRefused(keys=(key, *_)):
            return event.computation, key
        case h.CheckpointsDeleted(checkpoints=((key, _, _), *_)):
            return event.computation, key
        case _:
            return None


class _Narrator:
    """Tells one violation of one run."""

    def __init__(self, history: Sequence[h.Event], name: str, violated: Violated) -> None:
        self._history = history
        self._name = name
        self._violated = violated
        self._links = links_of(history)
        self._witness = self._proof = numbers_of(history, violated.witness)
        self._last = max(self._witness, default=len(history) - 1)
        self._tenures = {tenure.sequencer: tenure for tenure in tenures_of(history)}
        found = [_key_of(history[number]) for number in self._witness]
        self._keys = [key for key in dict.fromkeys(found) if key is not None]
        self._applied: dict[tuple[int, int, str], int] = {}
        self._waiting = None if violated.awaited is None else waiting_for(history, violated.awaited)
        if self._waiting is not None:
            self._witness = sorted({*self._witness, *self._waiting.touches})

    def tell(self, broken: Mapping[str, Violated]) -> Narrative:
        numbers = self._selected()
        sentences = self._sentences(numbers)
        kept = self._shorten(sentences)
        others = [name for name in broken if name != self._name]
        return Narrative(
            invariant=self._name,
            sentences=tuple(kept),
            rule=self._rule(),
            consequences=(_consequences(others, broken),) if others else (),
            told=len(numbers),
            left_out=len(self._history) - len(numbers),
            shortened=len(sentences) - len(kept),
            awaited=self._waiting.opening if self._waiting else "",
            next=self._waiting.next if self._waiting else "",
        )

    def _rule(self) -> str:
        if not is_invariant(self._name):
            return f"The promise that was broken is {self._name}: {self._violated.message}."
        broken, message = rule(self._name), self._violated.message
        section = "" if "MillWheel" in message else f" (MillWheel {broken.section})"
        return f"The rule that was broken is {self._name}, {broken.title}{section}: {message}."

    # The events of the story

    def _selected(self) -> set[int]:
        subject = subject_of(self._history, self._witness, self._links)
        if self._waiting is not None:
            concerned = self._waiting.processes
            subject |= {outage.begin for outage in outages_of(self._history) if outage.process in concerned}
        return {
            number for number in subject
            if (number <= self._last or isinstance(self._history[number], h.AckSent)) and self._of_these_keys(number)
        }  # fmt: skip

    def _of_these_keys(self, number: int) -> bool:
        """Return whether to tell an event: an ownership event only if it concerns the witness's keys, not those upstream."""
        event = self._history[number]
        if not self._keys or not isinstance(
            event, h.IntervalMinted | h.ScanBegun | h.ScanEnded | h.IntervalDropped
        ):
            return True
        return any(event.computation == name and event.interval.contains(key) for name, key in self._keys)

    def _sentences(self, numbers: set[int]) -> list[Sentence]:
        told = [*self._outages(numbers)]
        for run in self._runs(
            [number for number in sorted(numbers) if self._say(number, self._history[number])]
        ):
            text = self._say(run[0], self._history[run[0]]) if len(run) < _MANY else self._say_all(run)
            if text:
                told.append(Sentence(run[0], self._repeated(run[0], text)))
        return sorted(told, key=lambda sentence: sentence.number)

    def _repeated(self, number: int, text: str) -> str:
        """Add how often a similar event has happened to the awaited thing."""
        times = self._waiting.times.get(number) if self._waiting else None
        return f"{text[:-1]}, for the {times}th time." if times else text

    def _runs(self, numbers: Sequence[int]) -> list[list[int]]:
        """Group an owner's consecutive writes of one row, unless they are witnesses; every other event is alone."""
        runs: list[list[int]] = []
        for number in numbers:
            last = runs[-1][-1] if runs else None
            if last is not None and self._usual(number) and self._usual(last) == self._usual(number):
                runs[-1].append(number)
            else:
                runs.append([number])
        return [part for run in runs for part in ([run] if len(run) >= _MANY else [[line] for line in run])]

    def _usual(self, number: int) -> tuple[str, str, int] | None:
        event = self._history[number]
        if not isinstance(event, h.Applied) or number in self._witness or event.sequencer != event.live:
            return None
        return event.computation, event.delta.key, event.sequencer

    def _say_all(self, run: Sequence[int]) -> str:
        writes = [
            event for event in (self._history[number] for number in run) if isinstance(event, h.Applied)
        ]
        for number, event in zip(run, writes, strict=True):
            self._applied.setdefault((event.sequencer, event.delta.number, event.delta.key), number)
        first, last = writes[0], writes[-1]
        tenure = self._tenures.get(first.sequencer)
        versions = f"{first.sequencer}.{first.delta.number} to {last.sequencer}.{last.delta.number}"
        owner = f" of {tenure.owner}" if tenure else ""
        return (
            f"From {seconds(first.at_us)} to {seconds(last.at_us)} the {len(run)} writes {versions}{owner} are applied to"
            f" the row of {first.delta.key!r}."
        )

    def _shorten(self, sentences: list[Sentence]) -> list[Sentence]:
        """Keep the most relevant sentences: the witness, then writes and owners, then those closest to the witness."""
        if len(sentences) <= LONGEST:
            return sentences
        ranked = sorted(sentences, key=lambda sentence: (self._rank(sentence.number), -sentence.number))
        kept = {sentence.number for sentence in ranked[:LONGEST]}
        return [sentence for sentence in sentences if sentence.number in kept][:LONGEST]

    def _rank(self, number: int) -> int:
        event = self._history[number]
        if number in self._proof:
            return -1
        if number in self._witness:
            return 0
        if isinstance(
            event, h.IntervalMinted | h.ScanEnded | h.FaultStruck | h.WriteRefused | h.IntervalDropped
        ):
            return 1
        if _key_of(event) in self._keys or isinstance(event, h.AckSent):
            return 2
        return 3

    # Faults

    def _outages(self, numbers: set[int]) -> list[Sentence]:
        return [
            Sentence(outage.begin, self._struck(outage))
            for outage in outages_of(self._history)
            if outage.begin in numbers
        ]

    def _struck(self, outage: Outage) -> str:
        begin, process = seconds(self._history[outage.begin].at_us), outage.process
        until = "the end" if outage.end is None else seconds(self._history[outage.end].at_us)
        detail = outage.details[0]
        match outage.kind:
            case "crash":
                return f"At {begin} {process} crashes and loses its memory; it is down until {until}."
            case "pause":
                return f"From {begin} to {until} {process} is paused: it hears nothing, and keeps its memory."
            case "partition":
                kinds = ", ".join(dict.fromkeys(detail.split()[0] for detail in outage.details))
                return (
                    f"From {begin} to {until} {process} is cut off by a partition:"
                    f" {len(outage.details)} of its messages are lost ({kinds})."
                )
            case "delay_commit":
                return f"A fault delays the {detail} by {process}, sent at {begin}, on its way to the store."
            case "duplicate_commit":
                return (
                    f"A fault doubles the {detail} by {process}, sent at {begin}: a second copy comes later."
                )
            case _:
                times = f" ({len(outage.details)} times until {until})" if len(outage.details) > 1 else ""
                return f"At {begin} a fault strikes {process}: {outage.kind} {detail}{times}."

    # Events

    def _say(self, number: int, event: h.Event) -> str:
        at = f"At {seconds(event.at_us)}"
        match event:
            case h.Injected():
                return self._injected(at, event)
            case h.Executed():
                return self._executed(at, number, event)
            case h.Applied():
                return self._landed(at, number, event)
            case h.WriteRefused():
                mint = self._tenures.get(event.live)
                since = f" since {seconds(self._history[mint.minted].at_us)}" if mint else ""
                return (
                    f"{at} the store refuses a write of {event.computation!r} under sequencer {event.sequencer}:"
                    f" {event.live} is the latest{since}."
                )
            case h.AckSent():
                return f"{at} {event.process} ACKs {_listed(event.record_ids)} to {event.to}, which may now forget it."
            case h.IntervalMinted():
                return self._minted(at, number, event)
            case h.ScanEnded():
                return self._scanned(at, event)
            case h.IntervalDropped():
                how = "its write was refused" if event.why == "refused" else "the master's table says so"
                return f"{at} {event.process} learns that it has lost {_keys(event.computation, event.interval)}: {how}."
            case h.DuplicateDropped():
                return f"{at} {event.process} drops {event.record_id}: {_DROPPED.get(event.by, event.by)}."
            case _:
                return self._say_of_the_rest(at, number, event)

    def _say_of_the_rest(self, at: str, number: int, event: h.Event) -> str:
        """Describe the remaining events; reports and broadcasts only if the witness depends on them."""
        match event:
            case h.Published() if number in self._witness:
                values = ", ".join(
                    f"{name!r} {seconds(report.low_watermark)}" for name, report in event.values
                )
                return f"{at} {event.process} broadcasts the low watermarks {values}."
            case h.Reported() if self._leads_to_witness(number):
                return (
                    f"{at} {event.process} (sequencer {event.sequencer}) reports {event.computation!r} done up to"
                    f" {seconds(event.low_watermark)}: it knows of nothing older."
                )
            case h.InputWatermarkAdvanced() if self._leads_to_witness(number):
                return f"{at} {event.process} hears that its input is complete up to {seconds(event.low_watermark)}."
            case h.FaultStruck():
                return ""  # faults are described with their duration
            case _ if number in self._witness:
                return f"{at} {event.process + ': ' if event.process else ''}{phrase(event)}."
            case _:
                return ""

    def _leads_to_witness(self, number: int) -> bool:
        return any(link.cause == number and link.effect in self._witness for link in self._links)

    def _injected(self, at: str, event: h.Injected) -> str:
        production = event.productions[0]
        return (
            f"{at} {event.process} sends record {production.record_id} (key {production.key!r},"
            f" timestamp {seconds(production.timestamp)}) to {_listed(tuple(repr(to.consumer) for to in event.productions))}."
        )

    def _executed(self, at: str, number: int, event: h.Executed) -> str:
        version = f"write {event.version}"
        names = list(dict.fromkeys(production.record_id for production in event.productions))
        made = f", which produces {_listed(names)}" if names else ""
        if event.timer is not None:
            tenure = self._tenures.get(event.version.sequencer)
            wrong = tenure is not None and tenure.zombie_at(number)
            belief = ", which still believes it is the owner" if wrong else ""
            return (
                f"{at} timer {event.timer.tag!r} of key {event.key!r} fires at {event.process}{belief};"
                f" {event.computation!r} sends {version}{made}."
            )
        late = ", which is late," if event.late else ""
        return (
            f"{at} {event.process} runs {event.computation!r} for {event.cause} (key {event.key!r}){late} and sends"
            f" {version}{made}."
        )

    def _landed(self, at: str, number: int, event: h.Applied) -> str:
        delta = event.delta
        version = (event.sequencer, delta.number, delta.key)
        before = self._applied.setdefault(version, number)
        again = "" if before == number else f" again (first at {seconds(self._history[before].at_us)})"
        text = f"{at} write {event.sequencer}.{delta.number}{self._delay(number)} reaches the store, and is applied{again}"
        text += f": in the row of {delta.key!r} it {_listed(changes(event))}."
        mint = self._tenures.get(event.live)
        if event.sequencer == event.live or mint is None:
            return text
        return text + self._beliefs(number, event.sequencer, mint)

    def _delay(self, number: int) -> str:
        """Return how long a write was in flight, if that was long."""
        sent = next((link.cause for link in self._links if link.effect == number and link.label), None)
        if sent is None:
            return ""
        took_us = self._history[number].at_us - self._history[sent].at_us
        return f", {seconds(took_us)} after it was made," if took_us > _LONG_US else ""

    def _beliefs(self, number: int, sequencer: int, live: Tenure) -> str:
        """Contrast what the writer believes with what the store knows."""
        writer = self._tenures.get(sequencer)
        knows = (
            f"the store gave {live.sequencer} to {live.owner} at {seconds(self._history[live.minted].at_us)}"
        )
        if writer is None:
            return f" Its sequencer {sequencer} is dead: {knows}."
        if not writer.believed_at(number):
            return f" {writer.owner}, which sent it, does not own the key any more: {knows}."
        return f" {writer.owner} still believes that it owns {writer.interval} with sequencer {sequencer}; {knows}."

    # Ownership

    def _minted(self, at: str, number: int, event: h.IntervalMinted) -> str:
        what = _keys(event.computation, event.interval)
        before = [tenure for tenure in self._tenures.values() if tenure.replaced == number]
        if not before:
            return f"{at} the store gives {event.owner} {what}: sequencer {event.sequencer}."
        dead = _listed([str(tenure.sequencer) for tenure in before])
        moved = _listed(list(dict.fromkeys(tenure.owner for tenure in before)))
        text = f"{at} the store gives {event.owner} {what} anew, with sequencer"
        if moved != event.owner:
            text = f"{at} the master takes keys from {moved}: the store gives {event.owner} {what} with sequencer"
        text += f" {event.sequencer}, and from here on nothing under {dead} may count."
        zombies = [tenure for tenure in before if tenure.believed_at(number) and tenure.owner != event.owner]
        for zombie in zombies[:1]:
            text += f" {zombie.owner} does not know it: it still believes that it owns them (sequencer {zombie.sequencer})."
        return text

    def _scanned(self, at: str, event: h.ScanEnded) -> str:
        text = f"{at} {event.process} has scanned its rows of {event.computation!r}, and knows of {found_by(event)}."
        known = {key for key, _ in event.timers}
        missing = [key for computation, key in self._keys if computation == event.computation]
        missing = [key for key in missing if event.interval.contains(key) and key not in known]
        if missing and known:
            text = f"{text[:-1]}; of {missing[0]!r} it found no timer."
        return text


_DROPPED = {
    "id": "it knows its id, so it takes it for a duplicate",
    "horizon": "its origin is behind the horizon, so it takes it for a remnant of what is done",
    "in progress": "it is at work on it already",
}
"""Why a record is dropped, by what the process dropping it believes."""

_LONG_US = 50_000
_MANY = 3


def _keys(computation: str, interval: object) -> str:
    return f"the keys {interval} of {computation!r}"


def _listed(words: Sequence[str]) -> str:
    """Join words with commas and "and".

    >>> _listed(["a", "b", "c"])
    'a, b and c'
    """
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def _consequences(others: Sequence[str], broken: Mapping[str, Violated]) -> str:
    """Name what else the run violated, in one line; the verdicts have the details."""
    told = _listed([f"{name} ({rule(name).title})" if is_invariant(name) else name for name in others])
    return f"The same run also breaks {told}." if broken else ""
