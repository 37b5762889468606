"""One run of the explorer: made as a replay makes it, with every protocol step noted, and the cluster looked at before one.

Rules of this file:

* A run is a function of its trial. A prefix of it is not kept alive: going back and going on make the run anew.
* Watching the steps changes nothing: the run has the digest of its replay.
"""

from typing import Any

import msgspec

from headrace.history import History
from headrace_properties.explain.causality import numbers_of
from headrace_properties.explorer.cluster_view import ClusterView, view_of
from headrace_properties.promises import PromiseError
from headrace_properties.promises.steadiness import judge_steadily
from headrace_properties.search.agreement import check_agreement
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import arrivals_of, most_events, violations
from headrace_properties.search.limits import OverrunError
from headrace_properties.search.moves import ROUTINE_EVENTS
from headrace_properties.search.run_error import RunError
from headrace_properties.verdict import Verdict, Violated
from headrace_sim import Arrivals, Cluster, Does, Protocol, Step, start
from headrace_sim.arrivals import Routine
from headrace_sim.kernel import collect_run, seldom_collected


class SentMessage(msgspec.Struct):
    """A message that a process sends at a step."""

    step: Step
    message: Any
    to: str


class ExploredStep(msgspec.Struct):
    """A step at which a process receives something: the run can be stopped before it.

    Attributes:
        step: the step.
        event: what the process receives.
        at_us: when, true time.
        events: how many events the History has before it.
        quiet: it is routine, and so is all that the process sends at it.
        sent: what the process sends at it.
    """

    step: Step
    event: Any
    at_us: int
    events: int
    quiet: bool
    sent: list[SentMessage]


class ExploredRun:
    """A run, made to its end.

    Args:
        application: what is run.
        protocol: the state machines to host.
        trial: the run.
        look_at: number of the step before which to look at the cluster; beyond the last: at the end.

    Attributes:
        steps: at which processes receive something, in order.
        history: what happened.
        arrivals: in their order; ``None``: latencies are drawn.
        view: of the cluster before step ``look_at``.
        verdicts: by invariant or promise; none if the run stopped with an error.
        error: that stopped the run.

    Raises:
        PromiseError: a promise is wrong in itself.
    """

    def __init__(
        self, application: Application, protocol: Protocol, trial: PipelineTrial, look_at: int
    ) -> None:
        self.steps: list[ExploredStep] = []
        self.history = History()
        self.arrivals: Arrivals | None = arrivals_of(trial.plan)
        self.verdicts: dict[str, Verdict] = {}
        self.error: RunError | None = None
        self.view = ClusterView()
        self._routine, self._deployed = Routine(), application.deployed
        self._wrong: list[AssertionError] = []
        try:
            with seldom_collected():
                self._run(application, protocol, trial, look_at)
            engine = trial.plan.options.engine
            self.verdicts = judge_steadily(self.history, application.promises, self._deployed, engine)
        except PromiseError:
            raise
        except (Exception, SystemExit, OverrunError) as error:  # noqa: BLE001  as in `try_plan`: it is an outcome
            self.error = RunError.of(error)
        if self._wrong and not violations(self.verdicts):
            self.error = self.error or RunError.of(self._wrong[0])

    def _run(self, application: Application, protocol: Protocol, trial: PipelineTrial, look_at: int) -> None:
        plan, feed = trial.plan, application.input_of(trial)
        cluster = start(
            application.versions, feed, options=plan.options, faults=plan.faults, seed=plan.seed, protocol=protocol,
            history=self.history, arrivals=self.arrivals,
        )  # fmt: skip
        cluster.kernel.most_events = most_events(feed)

        def take(step: Step, event: object, to: str) -> None:
            self._take(cluster, step, event, to, look_at)

        cluster.tell_steps(take)
        try:
            cluster.run_until(plan.faults.heals_at_us)
            self._check(cluster, trial)
            cluster.heal(plan.faults.lasting)
            cluster.run_to_the_end()
            self._check(cluster, trial)
        finally:
            if look_at >= len(self.steps):
                self.view = view_of(cluster, self._deployed)
            if self.arrivals is not None:
                self.arrivals.detach()
            collect_run()

    def _check(self, cluster: Cluster, trial: PipelineTrial) -> None:
        try:
            cluster.check_invariants()
            check_agreement(cluster, trial.plan.faults, trial.plan.options.engine)
        except AssertionError as error:
            self._wrong.append(error)

    def _take(self, cluster: Cluster, step: Step, event: object, to: str, look_at: int) -> None:
        is_routine = type(event).__name__ in ROUTINE_EVENTS or self._routine.takes(step.process, to, event)
        if step.does is Does.SENDS:
            last = self.steps[-1]
            last.sent.append(SentMessage(step, event, to))
            last.quiet = last.quiet and is_routine
            return
        if len(self.steps) == look_at:
            self.view = view_of(cluster, self._deployed)
        self.steps.append(ExploredStep(step, event, cluster.kernel.now, len(self.history), is_routine, []))

    def events_before(self, number: int) -> int:
        """Return how many events the History has before a step; beyond the last: at the end."""
        return self.steps[number].events if number < len(self.steps) else len(self.history)

    def broken_at(self, violated: Violated) -> int:
        """Return the number of the event that completes a violation; of one that awaits something, the last event."""
        numbers = [] if violated.awaited else numbers_of(self.history, violated.witness)
        return max(numbers, default=len(self.history) - 1)
