"""The streaming video provider of the Dataflow paper's introduction (Dataflow 1): view sessions, and what they cost and earn.

    views -> sessions by viewer and video -> bills by advertiser, payments by provider, each day

Bills depend on whole sessions: an ad that was watched for less than five seconds in a session is free. So a late view, from a
phone that was offline, may join two cheap sessions into an expensive one, or move a session to the next day. Each session
retracts its earlier result, so the totals, a second grouping on other keys, are right (2.3: "retractions are necessary in
pipelines with multiple serial groupings").
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
from headrace_properties.promises import Moment, at_end, sometimes
from headrace_sim import Feed, FeedBuilder


class AdView(msgspec.Struct, frozen=True):
    """A heartbeat of a player: what was watched since the last one.

    Attributes:
        viewer: name of the viewer.
        video: name of the video.
        provider: the video's maker, who is paid.
        advertiser: who shows an ad with it, and pays.
        ad_seconds: seconds of the ad watched.
    """

    viewer: str
    video: str
    provider: str
    advertiser: str
    ad_seconds: int


@dataclass(frozen=True, slots=True)
class VideoOptions:
    """Terms of business; a day lasts seconds, so that a simulation has several.

    Attributes:
        gap_us: a session ends after a longer gap between views, microseconds.
        day_us: length of a billing day, microseconds.
        update_us: period of updates of incomplete totals, wall time in microseconds; ``None``: no updates.
        least_seconds: an ad watched for less than this in a session is free.
        cents_per_second: price of a second of any other ad.
        provider_percent: the provider's share of the price.
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
"""Combines views into a session."""


@dataclass(frozen=True, slots=True)
class Charge:
    """Turns a session into entries of accounts (a ``DoFn``): what each advertiser owes and the provider earns, in cents."""

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
    """Return the key of a view's session: viewer and video."""
    return f"{record.value.viewer} {record.value.video}"


def soon_and_again(options: VideoOptions) -> Trigger:
    """Return the trigger of Figures 13 and 14: updates until the watermark has passed, then each correction at once."""
    if options.update_us is None:
        return Repeat(AtWatermark())
    return SequenceOf(RepeatUntil(AtPeriod(options.update_us), AtWatermark()), Repeat(AtWatermark()))


def flow(options: VideoOptions = VIDEOS) -> Flow:
    """Build the flow of sessions and accounts.

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
"""Sessions and accounts, updated as views arrive."""

calm_pipeline = flow(replace(VIDEOS, update_us=None)).pipeline("videos", processes=2)
"""The same without updates before the watermark: for hosts without wall time, such as Spark on a feed."""


Totals = dict[tuple[str, int], int]
"""(account, start of the day) to cents."""


def totals_of(panes: Iterable[tuple[str, Pane]]) -> Totals:
    """Add up the accounts' panes, less their retractions; (account, pane) pairs in any order."""
    cents: Counter[tuple[str, int]] = Counter()
    for account, pane in panes:
        cents[account, pane.window.start] += -pane.value if pane.retraction else pane.value
    return {place: total for place, total in sorted(cents.items()) if total}


@dataclass(frozen=True, slots=True)
class TimedView:
    """A view with its event time and arrival (wall time), both in microseconds, and the injector process that it reaches."""

    view: AdView
    time: int
    at_us: int
    process: int


def expected_totals(watched: Iterable[TimedView], options: VideoOptions = VIDEOS) -> Totals:
    """Compute the final accounts from all views at once, by sorting."""
    by_session: dict[str, list[TimedView]] = defaultdict(list)
    for view in watched:
        by_session[f"{view.view.viewer} {view.view.video}"].append(view)
    cents: Counter[tuple[str, int]] = Counter()
    for views in by_session.values():
        for session, last in _sessions(sorted(views, key=lambda view: view.time), options):
            ended = last + options.gap_us - 1
            for account, amount in charges(session, options):
                cents[account, ended - ended % options.day_us] += amount
    return {place: total for place, total in sorted(cents.items()) if total}


def _sessions(views: list[TimedView], options: VideoOptions) -> Iterator[tuple[Session, int]]:
    """Split one viewer's views of one video into sessions; yield each session and the time of its last view."""
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


def watch(seed: int, views: int = 60) -> list[TimedView]:
    """Make views. Most arrive at once; one viewer is offline for a while, and her views arrive late.

    Args:
        seed: determines who watches what.
        views: number of views.
    """
    random = Random(f"{seed}/videos")
    timed_views = []
    for number in range(views):
        time = SECOND + number * 150 * MILLISECOND + random.randrange(150 * MILLISECOND)
        viewer, video = random.choice(VIEWERS), random.choice(sorted(CATALOGUE))
        view = AdView(viewer, video, CATALOGUE[video], random.choice(ADVERTISERS), random.randint(1, 5))
        offline = viewer == "cem" and 3 * SECOND <= time < 7 * SECOND
        at_us = 8 * SECOND + number * MILLISECOND if offline else time + random.randrange(300 * MILLISECOND)
        timed_views.append(TimedView(view, time, at_us, number % 2))
    return timed_views


def feed(seed: int) -> Feed:
    """Make the input for verifying `pipeline`. The source does not wait for the viewer who is offline, so her views are late."""
    return feed_of(watch(seed))


def feed_of(watched: Iterable[TimedView]) -> Feed:
    """Make an input of views; the source's watermark is half a second behind wall time."""
    builder = FeedBuilder(pipeline)
    for view in watched:
        builder.record(at_us=view.at_us, value=view.view, timestamp=view.time, process=view.process)
    for number in range(1, 24):
        at_us = number * 500 * MILLISECOND
        for process in (0, 1):
            builder.watermark(at_us=at_us, low_watermark=at_us - 500 * MILLISECOND, process=process)
    return builder.build()


@at_end
def bills_are_right(moment: Moment) -> None:
    """What accounts come to in the end is what sorting all views would give."""
    watched = [TimedView(view.value, view.timestamp, view.at_us, 0) for view in moment.inputs("views")]
    billed = totals_of((record.key, record.value) for record in moment.outputs("accounts"))
    assert billed == expected_totals(watched), f"billed {billed}, expected {expected_totals(watched)}"


@sometimes(stream="accounts")
def some_bill_is_corrected(moment: Moment) -> bool:
    """A late view changes what was billed."""
    return bool(moment.changed.value.retraction)


promises = [bills_are_right, some_bill_is_corrected]
