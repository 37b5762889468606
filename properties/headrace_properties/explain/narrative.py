"""Explain a violation in sentences: who believed what, which write landed when, which rule was broken.

The story covers the causal past of the witness, the owners of the keys and the faults that hit them. Unrelated events are left
out, and the story states their number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace import Pipeline
from headrace import history as h
from headrace.wire.rows import Version
from headrace_properties.checkers.invariant_catalogue import is_invariant, rule
from headrace_properties.explain.causality import LinkKind, links_of, numbers_of
from headrace_properties.explain.decoding import Codecs
from headrace_properties.explain.event_summaries import found_by, phrase, seconds
from headrace_properties.explain.fault_sentences import struck
from headrace_properties.explain.losses import losses_of
from headrace_properties.explain.stall import waiting_for
from headrace_properties.explain.step_sentences import StepSentences, listed
from headrace_properties.explain.subject import end_of, is_small, key_of, moves_of, records_of, subject_of
from headrace_properties.explain.tenures import Tenure, outages_of, tenures_of
from headrace_properties.search.judging import by_cause
from headrace_properties.verdict import Verdict, Violated

LONGEST = 20
"""Maximum number of sentences between headline and rule: nobody reads more."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One step of a story.

    Attributes:
        event: the number in the History of the event that it describes.
        text: the sentence, with its time.
    """

    event: int
    text: str


@dataclass(frozen=True, slots=True)
class Narrative:
    """Why a rule was broken.

    Attributes:
        invariant: the violated invariant.
        sentences: the story, in order of time.
        rule: which rule was broken, how, and where the paper states it.
        consequences: what else was violated in the same run.
        covered: how many events the story covers.
        left_out: how many events it leaves out.
        shortened: sentences that were dropped, because there were too many.
        cut: whether earlier writes of the same rows are left out.
        awaited: for a liveness violation, what is awaited, and since when.
        next: what should have happened next, and the rule that requires it.
    """

    invariant: str
    sentences: tuple[Sentence, ...]
    rule: str
    consequences: tuple[str, ...]
    covered: int
    left_out: int
    shortened: int
    cut: bool = False
    awaited: str = ""
    next: str = ""

    @property
    def paragraphs(self) -> tuple[str, ...]:
        """The whole story, one or two sentences per entry, ending with the rule; a broken promise comes first."""
        total, why = self.covered + self.left_out, "unrelated to this"
        if self.cut:
            why = "unrelated to this or long before it"
        omitted = f"Left out: {self.left_out:,} of {total:,} events, {why}."
        if self.shortened:
            omitted += f" To keep this short, {self.shortened:,} related ones are not told either."
        sentences = [sentence.text for sentence in self.sentences]
        awaited, following = [[event] if event else [] for event in (self.awaited, self.next)]
        story = (*awaited, *sentences, *following, omitted, *self.consequences)
        return (*story, self.rule) if is_invariant(self.invariant) else (self.rule, *story)


def narrate(
    history: Sequence[h.Event],
    verdicts: Mapping[str, Verdict],
    about: str = "",
    pipelines: Sequence[Pipeline] = (),
) -> Narrative | None:
    """Explain how a rule was violated; return ``None`` if nothing is violated.

    Args:
        history: of the whole run.
        verdicts: the verdicts on it.
        about: the violation to explain; ``""`` chooses the one closest to the cause.
        pipelines: the versions that ran, whose codecs decode the values; without one, their bytes are shown as text.
    """
    broken = by_cause(verdicts)
    if not broken:
        return None
    name = about or next(iter(broken))
    return _Narrator(history, name, broken[name], Codecs(pipelines)).tell(broken)


class _Narrator:
    """Tells one violation of one run."""

    def __init__(self, history: Sequence[h.Event], name: str, violated: Violated, codecs: Codecs) -> None:
        self._history = history
        self._steps = StepSentences(history, codecs)
        self._name = name
        self._violated = violated
        self._links = links_of(history)
        self._witness = self._proof = numbers_of(history, violated.witness)
        self._last = end_of(history, name, self._witness)
        self._tenures = {tenure.sequencer: tenure for tenure in tenures_of(history)}
        self._outages_of_run = outages_of(history)
        moved = any(tenure.replaced is not None for tenure in self._tenures.values())
        self._calm = not moved and not self._outages_of_run and not is_invariant(name)
        self._small = is_small(history)
        self._few = len(records_of(history)) <= _FEW_RECORDS
        self._moves = moves_of(history)
        self._losses = losses_of(history)
        self._heard = {link.cause for link in self._links if link.kind in (LinkKind.ACK, LinkKind.WRITE)}
        keys = [key_of(history[number]) for number in self._witness]
        self._keys = [key for key in dict.fromkeys(keys) if key is not None]
        self._applied: dict[tuple[int, int, str], int] = {}
        self._selection: set[int] = set()
        self._batches: dict[tuple[Version, str], list[int]] = {}
        for number, event in enumerate(history):
            if isinstance(event, h.Executed):
                self._batches.setdefault((event.version, event.key), []).append(number)
            elif isinstance(event, h.Applied):
                version = Version(event.sequencer, event.delta.number)
                self._heard.update(self._batches.get((version, event.delta.key), ()))
        self._waiting = None if violated.awaited is None else waiting_for(history, violated.awaited)
        if self._waiting is not None:
            self._witness = sorted({*self._witness, *self._waiting.touches})

    def tell(self, broken: Mapping[str, Violated]) -> Narrative:
        numbers = self._selection = self._selected()
        sentences = self._sentences(numbers)
        kept = self._shorten(sentences)
        others = [name for name in broken if name != self._name]
        return Narrative(
            invariant=self._name,
            sentences=tuple(kept),
            rule=self._rule(),
            consequences=(_consequences(others, broken),) if others else (),
            covered=len(numbers),
            left_out=len(self._history) - len(numbers),
            shortened=len(sentences) - len(kept),
            cut=not self._previous(numbers) <= numbers,
            awaited=self._waiting.opening if self._waiting else "",
            next=self._waiting.next if self._waiting else "",
        )

    def _previous(self, numbers: set[int]) -> set[int]:
        """Return the writes of the story's rows that precede the described ones."""
        writes = (number for number in numbers if isinstance(self._history[number], h.Applied))
        return {number for number in map(self._steps.previous, writes) if number is not None}

    def _rule(self) -> str:
        if not is_invariant(self._name):
            return f"The promise that was broken is {self._name}: {self._violated.message}."
        broken, message = rule(self._name), self._violated.message
        section = "" if "MillWheel" in message else f" (MillWheel {broken.section})"
        return f"The rule that was broken is {self._name}, {broken.title}{section}: {message}."

    # The events of the story

    def _selected(self) -> set[int]:
        subject = subject_of(
            self._history, self._witness, self._links, self._last if self._waiting is None else -1
        )
        if self._waiting is not None:
            concerned = self._waiting.processes
            subject |= {outage.begin for outage in self._outages_of_run if outage.process in concerned}
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
        if self._small and number in self._moves:
            return True
        return any(event.computation == name and event.interval.contains(key) for name, key in self._keys)

    def _sentences(self, numbers: set[int]) -> list[Sentence]:
        sentences = [
            Sentence(outage.begin, struck(self._history, outage))
            for outage in self._outages_of_run if outage.begin in numbers
        ]  # fmt: skip
        tellable = [number for number in sorted(numbers) if self._say(number, self._history[number])]
        sentences += [self._sentence(run) for run in self._runs(tellable)]
        return sorted(sentences, key=lambda sentence: sentence.event)

    def _sentence(self, run: Sequence[int]) -> Sentence:
        """Describe an event, a step with its write, or several writes."""
        first, last = run[0], run[-1]
        ran, written = self._history[first], self._history[last]
        if len(run) == 1:
            return Sentence(first, self._repeated(first, self._say(first, ran)))
        if isinstance(ran, h.Executed) and isinstance(written, h.Applied):
            return Sentence(first if first in self._proof else last, self._stepped(first, ran, last, written))
        return Sentence(first, self._say_all(run))

    def _repeated(self, number: int, text: str) -> str:
        """Add how often a similar event has happened to the awaited thing."""
        times = self._waiting.times.get(number) if self._waiting else None
        return f"{text[:-1]}, for the {times}th time." if times else text

    def _runs(self, numbers: Sequence[int]) -> list[list[int]]:
        """Group a step with its write, and an owner's consecutive writes of one row; every other event is alone."""
        runs: list[list[int]] = []
        for number in numbers:
            last = runs[-1][-1] if runs else None
            if last is not None and self._usual(number) and self._usual(last) == self._usual(number):
                runs[-1].append(number)
            else:
                runs.append([number])
        split = [part for run in runs for part in ([run] if len(run) >= _MANY else [[line] for line in run])]
        joined: list[list[int]] = []
        for run in split:
            if joined and len(run) == len(joined[-1]) == 1 and self._is_step(joined[-1][0], run[0]):
                joined[-1].append(run[0])
            else:
                joined.append(run)
        return joined

    def _is_step(self, first: int, second: int) -> bool:
        """Return whether two events are a step and its write, which the owner sent, and which arrived without delay."""
        ran, written = self._history[first], self._history[second]
        return (
            isinstance(ran, h.Executed) and isinstance(written, h.Applied)
            and (ran.version.sequencer, ran.version.number, ran.key)
            == (written.sequencer, written.delta.number, written.delta.key)
            and written.sequencer == written.live
            and not self._delay(second) and not self._again(second, written)
            and not (self._waiting and {first, second} & self._waiting.times.keys())
        )  # fmt: skip

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
            f" the row of {first.delta.key!r}{self._steps.of_states(run[0], run[-1], first.computation)}."
        )

    def _shorten(self, sentences: list[Sentence]) -> list[Sentence]:
        """Keep the most relevant sentences: the witness, then writes and owners, then those closest to the witness."""
        if len(sentences) <= LONGEST:
            return sentences
        ranked = sorted(sentences, key=lambda sentence: (self._rank(sentence.event), -sentence.event))
        kept = {sentence.event for sentence in ranked[:LONGEST]}
        return [sentence for sentence in sentences if sentence.event in kept][:LONGEST]

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
        if self._few and isinstance(event, h.Injected):
            return 1
        if key_of(event) in self._keys or isinstance(event, h.AckSent):
            return 2
        return 4 if isinstance(event, h.Output) else 3

    # Events

    def _say(self, number: int, event: h.Event) -> str:
        at = f"At {seconds(event.at_us)}"
        if self._calm and number not in self._witness and isinstance(event, _PROTOCOL):
            return ""
        match event:
            case h.Injected():
                return self._steps.injected(at, event, self._losses.get(number))
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
                return self._acked(at, number, event)
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
            case h.Resent() if self._waiting is None:
                lost = ", but the message is lost" if number in self._losses else ""
                return f"{at} {event.process} sends {event.record_id} to {event.consumer or 'the outside'!r} again{lost}."
            case h.Output():
                return self._steps.output(at, event, shows_value=number in self._witness)
            case h.UserCodeFailed():
                attempt = f" (attempt {event.attempt})" if event.attempt > 1 else ""
                error = event.error.splitlines()[-1]
                return f"{at} the code of {event.computation!r} fails on {event.cause}{attempt}: {error}."
            case h.DeadLettered():
                return f"{at} a dead letter for {event.cause} is produced to {event.stream!r}."
            case h.RunEnded() if number in self._witness:
                return f"{at} the run {_ENDS.get(event.why, event.why)}."
            case h.FaultStruck():
                return ""  # faults are described with their duration
            case _ if number in self._witness:
                return f"{at} {event.process + ': ' if event.process else ''}{phrase(event)}."
            case _:
                return ""

    def _leads_to_witness(self, number: int) -> bool:
        return any(link.cause == number and link.effect in self._witness for link in self._links)

    def _stepped(self, first: int, ran: h.Executed, last: int, written: h.Applied) -> str:
        """Describe a step together with its write."""
        steps = self._sharing(first)
        text = self._steps.ran(f"At {seconds(ran.at_us)}", steps, self._belief(first, ran))
        place = self._steps.place(last, self._selection)
        return f"{text}. Write {ran.version}{place} {self._steps.changed(last, written, steps)}."

    def _executed(self, at: str, number: int, event: h.Executed) -> str:
        steps = self._sharing(number)
        if event is not steps[-1]:
            return ""  # told with the last one
        text = f"{self._steps.ran(at, steps, self._belief(number, event))}."
        productions = self._steps.produced([production for step in steps for production in step.productions])
        if number not in self._heard:
            produces = f" It produces {productions}." if productions else ""
            return f"{text}{produces} Its write {event.version} is never applied."
        return f"{text} It sends write {event.version}{f', which produces {productions}' if productions else ''}."

    def _sharing(self, number: int) -> list[h.Executed]:
        """Return the story's record steps that share a step's write, in order; a timer's step is described by itself."""
        event = self._history[number]
        assert isinstance(event, h.Executed)
        if event.timer is not None:
            return [event]
        return [
            step for other in self._batches[event.version, event.key]
            if other in self._selection and isinstance(step := self._history[other], h.Executed) and step.timer is None
        ]  # fmt: skip

    def _belief(self, number: int, event: h.Executed) -> str:
        tenure = self._tenures.get(event.version.sequencer)
        wrong = tenure is not None and tenure.zombie_at(number)
        return ", which still believes it is the owner" if wrong else ""

    def _acked(self, at: str, number: int, event: h.AckSent) -> str:
        """Describe an ACK as received only if it was. Of the same ACK lost several times, describe the first."""
        text = f"{at} {event.process} ACKs {listed(event.record_ids)} to {event.to}"
        if number not in self._losses:
            return f"{text}{self._acked_at(number, event)}."
        same = [
            other for other in self._losses
            if isinstance(ack := self._history[other], h.AckSent)
            and (ack.process, ack.record_ids, ack.to) == (event.process, event.record_ids, event.to)
        ]  # fmt: skip
        if number != same[0]:
            return ""
        last = seconds(self._history[same[-1]].at_us)
        more = f", as are {len(same) - 1} more until {last}" if len(same) > 1 else ""
        return f"{text}, but the ACK is lost{more}."

    def _acked_at(self, number: int, event: h.AckSent) -> str:
        """Say that an ACK was received, if it was, and when, if that was late."""
        heard = min(
            (link.effect for link in self._links if link.cause == number and link.kind is LinkKind.ACK),
            default=None,
        )
        if heard is None:
            return ""
        at_us = self._history[heard].at_us
        if at_us - event.at_us <= _LONG_US:
            return ", which may now forget it"
        return f", which hears of it only at {seconds(at_us)}"

    def _landed(self, at: str, number: int, event: h.Applied) -> str:
        again = self._again(number, event)
        text = f"{at} write {event.sequencer}.{event.delta.number}{self._delay(number)} reaches the store, and is applied{again}"
        text += f": in the row of {event.delta.key!r} it {self._steps.changed(number, event)}."
        mint = self._tenures.get(event.live)
        if event.sequencer == event.live or mint is None:
            return text
        return text + self._beliefs(number, event.sequencer, mint)

    def _again(self, number: int, event: h.Applied) -> str:
        """Say when a write was applied for the first time, if that was before."""
        before = self._applied.setdefault((event.sequencer, event.delta.number, event.delta.key), number)
        return "" if before == number else f" again (first at {seconds(self._history[before].at_us)})"

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
        dead = listed([str(tenure.sequencer) for tenure in before])
        moved = listed(list(dict.fromkeys(tenure.owner for tenure in before)))
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

_PROTOCOL = (h.IntervalMinted, h.ScanEnded, h.AckSent)
"""Left out of the story of a promise, if no fault struck and no keys moved."""

_ENDS = {
    "quiescent": "comes to rest",
    "deadline": "ends with work left, of which none was done in the time allowed",
    "limit": "ends while work is still being done",
}

_LONG_US = 50_000
_MANY = 3
_FEW_RECORDS = 8
"""Up to so many records are each described, however long the story."""


def _keys(computation: str, interval: object) -> str:
    return f"the keys {interval} of {computation!r}"


def _consequences(others: Sequence[str], broken: Mapping[str, Violated]) -> str:
    """Name what else the run violated, in one line; the verdicts have the details."""
    names = listed([f"{name} ({rule(name).title})" if is_invariant(name) else name for name in others])
    return f"The same run also breaks {names}." if broken else ""
