"""What a version of a pipeline makes of the states and timers that the version before has left (MillWheel 3).

The first version takes some of the input, the later one the rest. What comes out of the rest is then what the later one alone
gives out for it, unless it takes what it finds for something else. Where both versions alone give out the same, that is wrong
whatever the author means; otherwise it is told.
"""

from collections import Counter
from dataclasses import dataclass

from headrace import HeadraceError, Pipeline
from headrace_properties.reference import Emitted, RunResult, run_reference
from headrace_properties.search.limits import CodeOverrunError
from headrace_properties.user_code.comparison import OutputComparison, leveled, same_output, without_ids
from headrace_properties.user_code.hosting import with_fresh_code
from headrace_sim import Feed

_PARTS = 4
"""Choice: the later version is deployed behind each of these parts of the input but the last."""


@dataclass(frozen=True, slots=True)
class Misread:
    """How a later version goes on otherwise than alone.

    Attributes:
        computation: whose output it is.
        detail: what comes out.
        is_wrong: whether both versions alone give out the same.
    """

    computation: str
    detail: str
    is_wrong: bool


@dataclass(frozen=True, slots=True)
class Succession:
    """A version of a pipeline, and a later one, which has the same injectors.

    Attributes:
        first: the version before.
        later: the one that takes its place.
        name: what the later one is called.
    """

    first: Pipeline
    later: Pipeline
    name: str

    def misread(self, feed: Feed) -> Misread | None:
        """Return what the later version makes different of an input; None: nothing, or a run stops, which others tell."""
        entries = len(feed.entries)
        places = sorted({entries * part // _PARTS for part in range(1, _PARTS)} - {0})
        try:
            for place in places:
                comparison = same_output(
                    self._behind(place, feed, self.later), self._behind(place, feed, self.first)
                )
                if not comparison.same:
                    is_wrong = self._behind(0, feed, self.first, place=entries) == self._behind(
                        0, feed, self.later
                    )
                    return self._misread(comparison, place, is_wrong=is_wrong)
        except (HeadraceError, SystemExit, CodeOverrunError):
            return None
        return None

    def is_wrong(self, feed: Feed, kept: tuple[int, ...]) -> bool:
        """Return whether these records of an input are enough to show that it is wrong."""
        misread = self.misread(feed.only(kept))
        return misread is not None and misread.is_wrong

    def _behind(self, since: int, feed: Feed, first: Pipeline, place: int | None = None) -> Counter[Emitted]:
        """Return what comes out behind some entries of an input, at the place of which the later version is deployed."""
        first, later = with_fresh_code(first), with_fresh_code(self.later)
        before = run_reference(first, feed, lambda done: done == since).outputs
        whole = run_reference(first, feed, deployed=later, after=since if place is None else place).outputs
        return leveled(without_ids(RunResult(whole - before, {}), self.later), self.later).outputs

    def _misread(self, difference: OutputComparison, place: int, *, is_wrong: bool) -> Misread:
        shown = dict(reversed(difference.examples()))
        record = next(iter(shown.values()))
        senders = (name for name, spec in self.later.computations.items() if record.stream in spec.outputs)
        parts = [
            f"{what} {shown[side].value.decode(errors='backslashreplace'):.80} for key {shown[side].key!r}"
            for side, what in (("second", "gives"), ("first", "on its own gives"))
            if side in shown
        ]
        alone = "on their own, both versions agree" if is_wrong else "on their own, the versions differ, too"
        detail = (
            f"{self.name}, deployed after {place} of the input's entries, {', and '.join(parts)}; {alone}"
        )
        return Misread(next(senders, ""), detail, is_wrong)
