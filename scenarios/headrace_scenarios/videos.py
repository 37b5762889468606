"""The streaming video provider of the Dataflow paper's introduction (Dataflow 1): view sessions, and what they cost and earn.

    views -> sessions by viewer and video -> bills by advertiser, payments by provider, each day

What is billed is a property of whole sessions: who watched less than five seconds of an ad in a session is not charged for. So a
view that comes late, from a phone that was offline, may turn two cheap sessions into a dear one, or move it to the next day. Each
session takes back what it said before, and the totals, a second grouping on other keys, come out right (2.3: "retractions are
necessary in pipelines with multiple serial groupings").
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import msgspec

from headrace import MILLISECOND, SECOND, Record, TypedCodec
from headrace.dataflow import (
    AtPeriod,
    AtWatermark,
    CombineFn,
    Element,
    FixedWindows,
    Flow,
    Pane,
    Repeat,
    RepeatUntil,
    SequenceOf,
    Sessions,
    Trigger,
    read,
)
from headrace_sim import Feed, FeedBuilder


class AdView(msgspec.Struct, frozen=True):
    """One heartbeat of a player: what was watched since the last one.

    Attributes:
        viewer: who.
        video: what.
        provider: who made it, and is paid.
        advertiser: whose ad went with it, and who pays.
        ad_seconds: of the ad.
    """

    viewer: str
    video: str
    provider: str
    advertiser: str
    ad_seconds: int


@dataclass(frozen=True, slots=True)
class VideoOptions:
    """The terms of business; a day of seconds, so that a simulation sees several.

    Attributes:
        gap_us: a viewer who does nothing with a video for longer than this has ended the session.
        day_us: bills are by day.
        update_us: how often a total that is not complete is told, wall time, microseconds; ``None``: never.
        least_seconds: an ad that was watched for less than this in a session is free.
        cents_per_second: what the advertiser pays for the rest.
        provider_percent: how much of it the provider gets.
    """

    gap_us: int = SECOND
    day_us: int = 5 * SECOND
    update_us: int | None = SECOND
    least_seconds: int = 5
    cents_per_second: int = 2
    provider_percent: int = 50


VIDEOS = VideoOptions()

Session = dict[str, Any]
"""A session's value: its ``provider``, and ``ads``: seconds by advertiser."""


def _nothing() -> Session:
    return {"provider": "", "ads": {}}


def _watch(session: Session, view: AdView) -> Session:
    ads = session["ads"]
    ads[view.advertiser] = ads.get(view.advertiser, 0) + view.ad_seconds
    return {"provider": view.provider, "ads": ads}


def _join(one: Session, other: Session) -> Session:
    ads: Counter[str] = Counter(one["ads"])
    ads.update(other["ads"])
    return {"provider": one["provider"] or other["provider"], "ads": dict(sorted(ads.items()))}


WATCHED = CombineFn(_nothing, _watch, _join)
"""What a session comes to."""


@dataclass(frozen=True, slots=True)
class Charge:
    """Makes a session's lines of the accounts (a ``DoFn``): what each advertiser owes, and the provider is owed, in cents."""

    options: VideoOptions

    def __call__(self, element: Element) -> Iterator[tuple[str, int]]:
        """Yield (account, cents)."""
        yield from charges(element.value, self.options)


def charges(session: Session, options: VideoOptions) -> Iterator[tuple[str, int]]:
    """Yield (account, cents) of one session."""
    for advertiser, seconds in sorted(session["ads"].items()):
        if seconds >= options.least_seconds:
            cents = seconds * options.cents_per_second
            yield f"advertiser {advertiser}", cents
            yield f"provider {session['provider']}", cents * options.provider_percent // 100


def viewing(record: Record) -> str:
    """The key of a session: who watches what."""
    return f"{record.value.viewer} {record.value.video}"


def soon_and_again(options: VideoOptions) -> Trigger:
    """As Figures 13 and 14: updates until the watermark has passed, then each correction at once."""
    if options.update_us is None:
        return Repeat(AtWatermark())
    return SequenceOf(RepeatUntil(AtPeriod(options.update_us), AtWatermark()), Repeat(AtWatermark()))


def flow(options: VideoOptions = VIDEOS) -> Flow:
    """Describe sessions and accounts.

    Args:
        options: the terms of business.
    """
    views = read("views", key=viewing, codec=TypedCodec(AdView)).allowed_lateness(None)
    sessions = (
        views.window_into(Sessions(options.gap_us))
        .trigger(soon_and_again(options))
        .accumulating_and_retracting()
        .combine(WATCHED, name="sessions")
    )
    accounts = (
        sessions.par_do(Charge(options))
        .window_into(FixedWindows(options.day_us))
        .trigger(soon_and_again(options))
        .sum()
    )
    return sessions.to("view_sessions") + accounts.to("accounts")


pipeline = flow().pipeline("videos", processes=2)
"""Sessions and accounts, updated as views come in."""

calm_pipeline = flow(replace(VIDEOS, update_us=None)).pipeline("videos", processes=2)
"""Told when the watermark has passed, and corrected: for a host where nobody says that wall time passes, as Spark on a feed."""


Totals = dict[tuple[str, int], int]
"""(account, begin of the day) to cents."""


def totals_of(panes: Iterable[tuple[str, Pane]]) -> Totals:
    """Add up what was told of the accounts, less what was taken back, in whichever order: (account, pane) pairs."""
    cents: Counter[tuple[str, int]] = Counter()
    for account, pane in panes:
        cents[account, pane.window.start] += -pane.value if pane.retraction else pane.value
    return {place: total for place, total in sorted(cents.items()) if total}


@dataclass(frozen=True, slots=True)
class Watched:
    """A view, and when it was (event time, microseconds), arrived (wall time), and at which process of the injector."""

    view: AdView
    time: int
    at_us: int
    process: int


def expected_totals(watched: Iterable[Watched], options: VideoOptions = VIDEOS) -> Totals:
    """Compute the accounts at the end from all views at once, by sorting."""
    by_session: dict[str, list[Watched]] = defaultdict(list)
    for one in watched:
        by_session[f"{one.view.viewer} {one.view.video}"].append(one)
    cents: Counter[tuple[str, int]] = Counter()
    for views in by_session.values():
        for session, last in _sessions(sorted(views, key=lambda one: one.time), options):
            ended = last + options.gap_us - 1
            for account, amount in charges(session, options):
                cents[account, ended - ended % options.day_us] += amount
    return {place: total for place, total in sorted(cents.items()) if total}


def _sessions(views: list[Watched], options: VideoOptions) -> Iterator[tuple[Session, int]]:
    """Divide one viewer's views of one video at the silences; yield each session and the time of its last view."""
    session, last = _nothing(), views[0].time
    for view in views:
        if view.time - last > options.gap_us:
            yield session, last
            session = _nothing()
        session, last = _watch(session, view.view), view.time
    yield session, last


VIEWERS = ("ann", "bob", "cem")
CATALOGUE = {"cats": "paws inc", "news": "daily", "opera": "scala"}
ADVERTISERS = ("acme", "brick & co")


def watch(seed: int, views: int = 60) -> list[Watched]:
    """Make views: most are told at once; one viewer is offline for a while, and all that she watched comes late.

    Args:
        seed: of who watches what.
        views: how many.
    """
    random = Random(f"{seed}/videos")
    found = []
    for number in range(views):
        time = SECOND + number * 150 * MILLISECOND + random.randrange(150 * MILLISECOND)
        viewer, video = random.choice(VIEWERS), random.choice(sorted(CATALOGUE))
        view = AdView(viewer, video, CATALOGUE[video], random.choice(ADVERTISERS), random.randint(1, 5))
        offline = viewer == "cem" and 3 * SECOND <= time < 7 * SECOND
        at_us = 8 * SECOND + number * MILLISECOND if offline else time + random.randrange(300 * MILLISECOND)
        found.append(Watched(view, time, at_us, number % 2))
    return found


def feed(seed: int) -> Feed:
    """Make the input that `pipeline` is verified with: the source takes who is offline for silent, so his views are late."""
    return feed_of(watch(seed))


def feed_of(watched: Iterable[Watched]) -> Feed:
    """Make an input of views; the source's watermark is half a second behind what arrives."""
    builder = FeedBuilder(pipeline)
    for one in watched:
        builder.record(at_us=one.at_us, value=one.view, timestamp=one.time, process=one.process)
    for number in range(1, 24):
        at_us = number * 500 * MILLISECOND
        for process in (0, 1):
            builder.watermark(at_us=at_us, low_watermark=at_us - 500 * MILLISECOND, process=process)
    return builder.build()
