"""Small parts of the inputs: a few records that have to do with each other, close to each other.

Most of what breaks shows with a few records, and a run of few takes a fraction of a run of all: most of its cost is time that
passes between arrivals. So a search gives each part many schedules, and the whole inputs the rest.

Rules of this file:

* A part has records of one key of some computation, from different streams if the key has several, and some that are not; or a
  stretch of the input. All watermarks stay, so windows end.
* A part that breaks a promise or the code without any fault says nothing of faults: its author may mean whole inputs alone. It
  is left out. So is what breaks one under faults, unless it does so with the times that the input has: closer arrivals let
  the low watermark run further ahead than the author has it. What breaks an invariant is the protocol's, and stays.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random

import msgspec

from headrace import MILLISECOND, SECOND, Pipeline
from headrace.injector.injection import productions_of
from headrace.wire.effects import SourceRecord
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import JudgedRun
from headrace_properties.search.plans import Plan
from headrace_sim import NO_FAULTS, ClusterOptions, Feed

SMALL = (1, 2, 2, 3, 3, 3, 4, 5)
"""Choice: how many records a small part has, each as likely as it stands here."""

MIDDLE = (6, 8, 12)
"""Choice: how many a middle one has."""

_GAPS_US = (50 * MILLISECOND, 200 * MILLISECOND, SECOND)
"""Choice: the longest times between two arrivals. What shows only where time passes needs the longest."""

_OF_ONE_KEY = 0.75
"""Choice: the share of small parts whose records meet."""


class InputPart(msgspec.Struct, frozen=True):
    """A part of an input.

    Attributes:
        feed_seed: seed of the input.
        kept: which of its records, by their order from 0.
        gap_us: the longest time between two arrivals.
    """

    feed_seed: int
    kept: tuple[int, ...] | None = None
    gap_us: int | None = None

    def trial(self, plan: Plan, *, watched: bool = False) -> PipelineTrial:
        """Return the trial of a plan on it."""
        return PipelineTrial(plan, self.feed_seed, self.kept, self.gap_us, watched=watched)

    def healthy(self, options: ClusterOptions) -> PipelineTrial:
        """Return its run without faults."""
        return self.trial(Plan(NO_FAULTS, options, 0))


WHOLE = "whole inputs"


def size_of(trial: PipelineTrial) -> str:
    """Return how large the part of an input is that a trial runs on, in words."""
    if trial.gap_us is None or trial.kept is None:
        return WHOLE
    sizes = SMALL if len(trial.kept) <= max(SMALL) else MIDDLE
    return f"{min(sizes)} to {max(sizes)} records"


def says_nothing(judged: JudgedRun, application: Application) -> bool:
    """Return whether a part breaks something of the author's without any fault. ``judged``: its run."""
    promised = {promise.name for promise in application.promises}
    return judged.error is not None or not judged.verdicts or bool(judged.broken.keys() & promised)


def with_own_times(trial: PipelineTrial, application: Application) -> PipelineTrial:
    """Return a trial on closer arrivals with the input's own times; its faults stay where they are beside the first record."""
    own = msgspec.structs.replace(trial, gap_us=None)
    closer, further = application.input_of(trial), application.input_of(own)
    later_us = _first_us(further) - _first_us(closer)
    schedule = trial.plan.faults
    moved = tuple(msgspec.structs.replace(fault, at_us=fault.at_us + later_us) for fault in schedule.faults)
    heal_at_us = schedule.heals_at_us + further.end_us - closer.end_us
    schedule = msgspec.structs.replace(schedule, faults=moved, heal_at_us=heal_at_us)
    return msgspec.structs.replace(own, plan=msgspec.structs.replace(trial.plan, faults=schedule))


def _first_us(feed: Feed) -> int:
    """Return when the first record arrives."""
    return next((entry.at_us for entry in feed.entries if isinstance(entry.event, SourceRecord)), 0)


def breaks_invariant(judged: JudgedRun, application: Application) -> bool:
    """Return whether a run breaks an invariant of the protocol, which holds whatever the input and its times."""
    return bool(judged.broken.keys() - {promise.name for promise in application.promises})


Meetings = Mapping[int, Sequence[tuple[int, str]]]
"""Record of an input to the records that meet it at a key of some computation, each with its stream."""


def meetings_in(pipeline: Pipeline, feed: Feed) -> Meetings:
    """Return which records meet where the injectors send them; a record that cannot be read or keyed meets none."""
    records = [
        (entry.address, entry.event) for entry in feed.entries if isinstance(entry.event, SourceRecord)
    ]
    together: defaultdict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for number, (address, record) in enumerate(records):
        outputs = pipeline.injectors[address.rpartition("/")[0]].outputs
        with suppress(Exception):  # user code, which the runs and a review of it judge
            for production in productions_of(pipeline, address, outputs, record, 0):
                if production.consumer:
                    together[production.consumer, production.key][number] = production.stream
    meetings: dict[int, list[tuple[int, str]]] = {}
    for group in together.values():
        for number in group:
            meetings.setdefault(number, []).extend(pair for pair in group.items() if pair[0] != number)
    return meetings


def draw_part(random: Random, feed_seed: int, records: int, meetings: Meetings, *, middle: bool) -> InputPart:
    """Draw a part of an input.

    Args:
        random: decides.
        feed_seed: seed of the input.
        records: how many it has.
        meetings: which of them meet.
        middle: a stretch of some records, and not a few.
    """
    size = min(random.choice(MIDDLE if middle else SMALL), records)
    gap_us = SECOND if middle else random.choice(_GAPS_US)
    if middle:
        begin = random.randrange(records - size + 1)
        return InputPart(feed_seed, tuple(range(begin, begin + size)), gap_us)
    first = random.randrange(records)
    kept = {first}
    if random.random() < _OF_ONE_KEY:
        kept |= set(_meeting(random, first, size, meetings))
    others = [number for number in range(records) if number not in kept]
    kept |= set(random.sample(others, size - len(kept)))
    return InputPart(feed_seed, tuple(sorted(kept)), gap_us)


def _meeting(random: Random, first: int, size: int, meetings: Meetings) -> Iterator[int]:
    """Yield up to ``size - 1`` records that meet one, of as many streams as there are."""
    by_stream: defaultdict[str, list[int]] = defaultdict(list)
    for number, stream in meetings.get(first, ()):
        by_stream[stream].append(number)
    left = size - 1
    while left and by_stream:
        stream = random.choice(sorted(by_stream))
        numbers = by_stream.pop(stream)
        take = random.randint(1, left) if by_stream else left
        chosen = random.sample(numbers, min(take, len(numbers)))
        left -= len(chosen)
        yield from chosen
