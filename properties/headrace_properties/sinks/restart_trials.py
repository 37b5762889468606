"""The restarts of a sink, tried: with a new checkpoint, an older one, or a target that goes back without its checkpoint."""

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from headrace_properties.sinks.baseline import Batches
from headrace_properties.sinks.lost_rows import RowsOf
from headrace_properties.sinks.new_checkpoints import (
    AfterRestart,
    differences,
    restarts,
    restored_note,
    restored_target,
)
from headrace_sim.spark.sink_faults import SinkFault
from headrace_sim.spark.sinks.processes import Sink
from headrace_sim.spark.sinks.sink_runs import Restart, Trial, UnfollowableSinkError, restarted, stuck_at
from headrace_sim.spark.sinks.trial_contents import ExpectedContents

_OF_A_SOURCE = {RowsOf.SOURCE, RowsOf.UNKNOWN}
"""Where rows come from that are not the results of a state, which a new checkpoint forgets."""


@dataclass(frozen=True, slots=True)
class RestartTrials:
    """The restarts of a sink, compared with its undisturbed run."""

    sink: Sink
    usual: ExpectedContents  # what the undisturbed run leaves
    rows_of: RowsOf
    ignore: Collection[str]  # destinations that need not be the same
    run: Callable[
        [Batches], Trial | None
    ]  # runs the sink undisturbed on other batches; it returns None if the sink fails
    with_other_ids: Callable[[], ExpectedContents | None]  # the same, whatever the ids of its batches are

    @property
    def why_not(self) -> str:
        """Why the checkpoint cannot be replaced, or ""."""
        if self.sink.begins is not None:
            return "the query goes on from its own"
        if self.rows_of not in _OF_A_SOURCE:
            return "it forgets the query's state"
        return "" if restarts(self.sink.batches) else "fewer than two batches have rows"

    def differing(self, only: SinkFault | None = None) -> list[AfterRestart]:
        """Replace the checkpoint; return what that makes different, what lacks rows first: it says more than what adds them up.

        What a first look shows is looked at whatever ids batches have. ``only``: the restart to try. Raise
        `UnfollowableSinkError` if it cannot be tried.
        """
        lives = restarts(self.sink.batches)
        if not self._after(lives[0], self.usual):
            return []
        other = self.with_other_ids()
        if other is None:
            raise UnfollowableSinkError("the sink fails if its batches have other ids")
        tried = (life for life in lives if only in {None, life.fault})
        differing = [after for life in tried for after in self._after(life, other)]
        return sorted(differing, key=lambda after: " instead of " in after.what)

    def restored(self) -> Iterator[str]:
        """Yield what is missing if the target is restored from a backup, and the checkpoint is not; state is then as it was.

        Nothing on the real Spark, whose checkpoint counts the batches.
        """
        life = restored_target(self.sink.batches)
        if life is not None and not self.sink.host.shares_java:
            with contextlib.suppress(UnfollowableSinkError):
                yield from map(restored_note, self._after(life, self.usual)[:1])

    def _after(self, life: Restart, usual: ExpectedContents) -> list[AfterRestart]:
        """Return what a restart makes different, in destinations where the cut of the rows alone does not."""
        compared = set(usual.contents) - {*usual.unsteady, *self.ignore}
        if [*map(tuple, life.cut)] != [tuple(batch) for batch in self.sink.batches if batch]:
            cut = self.run(life.cut)
            same = {} if cut is None else usual.read(cut.contents, cut.effects)
            compared = {name for name in compared if same.get(name) == usual.contents[name]}
        trial = restarted(replace(self.sink, in_order=True), life)
        failure = stuck_at(trial.entries)
        if failure is not None:
            error = f"the sink raises {failure.error}: {failure.message}"
            return [AfterRestart(life, error, f"{error}, as it will each time", is_refused=True)]
        left = usual.read(trial.contents, trial.effects)
        return [*differences(life, usual.contents, left, compared)]
