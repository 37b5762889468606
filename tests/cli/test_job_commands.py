"""``headrace job serve``: restarts, endpoints, and how it ends. The job is a stand-in that fails on demand."""

import configparser
import os
import signal
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest

pytest.importorskip("pyspark")

from pyspark import SparkContext

from headrace import MINUTE, SECOND, ComputationProgress, OptionsError
from headrace.spark import DriverReplacedError, JobStoppedError, QueryFailedError
from headrace.spark.jobs.supervision import RestartPolicy, Status, Supervisor, SupervisorPhase
from headrace_cli.runs.endpoints import answer, endpoints, metrics_text
from tests.cli.rig import Run

FAILED = QueryFailedError("counts", "a disk was slow")
PROGRESS = (ComputationProgress('the "counter"', 1_234, 3, 55, 1_500_000, 2_000_000, 17, 48, 3_120),)
QUICK = RestartPolicy(most=3, first_delay_us=0)
DEPLOY = Path(__file__).parents[2] / "docs" / "how-to" / "deploy"

Ending = Exception | Literal["stopped"] | None


class Job:
    """Ends as told: with an error, or stopped from outside; ``None``: it keeps running."""

    def __init__(self, ending: Ending) -> None:
        self.ending, self.stops = ending, 0

    def progress(self) -> tuple[ComputationProgress, ...]:
        return PROGRESS

    def await_termination(self, timeout_s: float | None = None) -> bool:
        if isinstance(self.ending, Exception):
            raise self.ending
        return self.ending is not None

    def stop(self) -> None:
        self.stops += 1


class Story:
    """A supervisor whose job ends in each of these ways in turn, and is then told to stop."""

    def __init__(self, *endings: Ending, policy: RestartPolicy = QUICK) -> None:
        self.jobs: list[Job] = []
        self.phases: list[SupervisorPhase] = []
        self._endings = iter(endings)
        self._stop = False
        self.supervisor = Supervisor(
            self._start, policy, should_stop=lambda: self._stop, on_change=self._note
        )

    def _start(self) -> Job:
        ending = next(self._endings, None)
        self._stop = ending is None
        self.jobs.append(Job(ending))
        return self.jobs[-1]

    def _note(self, status: Status, _wait_s: float) -> None:
        self.phases.append(status.phase)


def test_a_failing_job_is_restarted_until_told_to_stop() -> None:
    story = Story(FAILED, OSError("Java is gone"), "stopped")
    ended = story.supervisor.run()
    assert (ended.phase, ended.restarts, ended.progress) == (SupervisorPhase.STOPPED, 3, PROGRESS)
    assert story.phases == [
        *[SupervisorPhase.RUNNING, SupervisorPhase.WAITING, SupervisorPhase.STARTING] * 3,
        SupervisorPhase.RUNNING,
        SupervisorPhase.STOPPED,
    ]
    assert all(job.stops for job in story.jobs)


def test_it_gives_up_after_too_many_failures_in_a_row() -> None:
    story = Story(*[FAILED] * 9)
    ended = story.supervisor.run()
    assert (ended.phase, ended.restarts, ended.error) == (SupervisorPhase.FAILED, 3, FAILED)
    well = RestartPolicy(most=3, first_delay_us=0, well_after_us=0)  # a job that has run at all was healthy
    assert Story(*[FAILED] * 9, policy=well).supervisor.run().restarts == 9


@pytest.mark.parametrize(
    "error",
    [
        DriverReplacedError("checkpoint", "another driver runs this query", "Leave it running"),
        JobStoppedError("counter", "anna", "mail/0:17", 3, "ZeroDivisionError", "{}", "jobs/counts"),
        OptionsError("intervals", 0, "at least 1"),
    ],
)
def test_an_error_that_a_restart_would_repeat_is_final(error: Exception) -> None:
    ended = Story(error).supervisor.run()
    assert (ended.phase, ended.restarts, ended.error) == (SupervisorPhase.FAILED, 0, error)


def test_each_start_finds_no_spark_even_if_the_previous_one_cannot_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Java was killed: to stop Spark fails as well. A session of somebody else's is left alone."""

    class Context:
        def stop(self) -> None:
            raise ConnectionRefusedError

    found: list[object] = []
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)

    def start() -> Job:
        found.append(SparkContext._active_spark_context)
        monkeypatch.setattr(SparkContext, "_active_spark_context", Context())
        return Job(ConnectionRefusedError())

    policy = RestartPolicy(most=1, first_delay_us=0)
    assert Supervisor(start, policy, should_stop=lambda: False).run().phase is SupervisorPhase.FAILED
    assert found == [None, None]
    others = Context()
    monkeypatch.setattr(SparkContext, "_active_spark_context", others)
    Story(FAILED).supervisor.run()
    assert SparkContext._active_spark_context is others


def test_a_stop_ends_the_wait_for_a_restart() -> None:
    asked = threading.Event()
    supervisor = Supervisor(
        lambda: Job(FAILED),
        RestartPolicy(first_delay_us=60 * MINUTE, longest_delay_us=60 * MINUTE),
        should_stop=asked.is_set,
        on_change=lambda status, _: asked.set() if status.phase is SupervisorPhase.WAITING else None,
    )
    assert supervisor.run().phase is SupervisorPhase.STOPPED


def test_a_policy_with_a_negative_time_is_refused() -> None:
    with pytest.raises(OptionsError, match="first_delay_us"):
        RestartPolicy(first_delay_us=-1)


def get(port: int, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    response = connection.getresponse()
    return response.status, response.read().decode()


@pytest.mark.parametrize(
    ("phase", "healthz", "readyz"),
    [
        (SupervisorPhase.STARTING, 200, 503),
        (SupervisorPhase.RUNNING, 200, 200),
        (SupervisorPhase.WAITING, 200, 503),
        (SupervisorPhase.STOPPED, 503, 503),
        (SupervisorPhase.FAILED, 503, 503),
    ],
)
def test_probes(phase: SupervisorPhase, healthz: int, readyz: int) -> None:
    status = Status(phase, 1, FAILED)
    assert [answer(path, status)[0] for path in ("/healthz", "/readyz")] == [healthz, readyz]
    assert "a disk was slow" in answer("/readyz", status)[2]


def test_endpoints_answer_over_http() -> None:
    with endpoints("127.0.0.1", 0, lambda: Status(SupervisorPhase.RUNNING)) as port:
        assert get(port, "/readyz?verbose") == (200, "running\n")
        assert get(port, "/metrics")[0] == 200
        assert get(port, "/other")[0] == 404


def test_metrics_are_in_prometheus_format() -> None:
    text = metrics_text(Status(SupervisorPhase.RUNNING, 2, FAILED, PROGRESS))
    assert text.startswith(
        "# HELP headrace_up Whether the job runs\n# TYPE headrace_up gauge\nheadrace_up 1\n"
    )
    assert "\nheadrace_restarts_total 2\n" in text
    assert '\nheadrace_records_total{computation="the \\"counter\\""} 1234\n' in text
    assert '\nheadrace_low_watermark_seconds{computation="the \\"counter\\""} 1.5\n' in text
    assert text.endswith("\n")


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Write a module with a function that returns a job, and name it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(body: str) -> str:
        name = f"served_{time.time_ns()}"
        (tmp_path / f"{name}.py").write_text(
            f"from tests.cli.test_job_commands import *\n\ndef deployment():\n    {body}\n"
        )
        return f"{name}:deployment"

    return write


def test_sigterm_stops_the_job_and_exits_with_0(run: Run, served: Callable[[str], str]) -> None:
    result = run("job", "serve", served("return Terminated(None)"), "--port", "0")
    assert result.exit_code == 0, result.output
    assert "has /healthz, /readyz and /metrics" in result.stderr
    assert result.stderr.endswith("The job is stopped\n")


class Terminated(Job):
    """Once it runs, stop the process."""

    def await_termination(self, timeout_s: float | None = None) -> bool:
        os.kill(os.getpid(), signal.SIGTERM)
        return False


@pytest.mark.parametrize(
    ("body", "code", "told"),
    [
        (
            "return Job(OptionsError('intervals', 0, 'at least 1'))",
            1,
            "The job failed for good: option intervals=0",
        ),
        ("return Job(FAILED)", 1, "restart in 0.0 s: query 'counts' ended: a disk was slow"),
        ("return 5", 1, "returned 5. Return what deploy(...) returns"),
    ],
)
def test_a_job_that_fails_for_good_exits_with_1(
    run: Run, served: Callable[[str], str], body: str, code: int, told: str
) -> None:
    result = run("job", "serve", served(body), "--port", "0", "--restarts", "1", "--first-delay", "0")
    assert result.exit_code == code
    assert told in result.stderr
    assert "Traceback" not in result.stderr


def test_wrong_use(run: Run, served: Callable[[str], str]) -> None:
    target = served("return Job(None)")
    result = run("job", "serve", target.replace("deployment", "SECOND"))
    assert result.exit_code == 2
    assert "this is not a function without arguments" in result.stderr
    result = run("job", "serve", target, "--host", "256.0.0.1")
    assert result.exit_code == 2
    assert "cannot listen on 256.0.0.1:8080" in result.stderr


class _Strict(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    pass


class _Get(_Strict):
    path: Literal["/healthz", "/readyz"]
    port: str


class _Probe(_Strict):
    httpGet: _Get  # noqa: N815  Kubernetes' name
    periodSeconds: Annotated[int, msgspec.Meta(ge=1)]  # noqa: N815


class _Port(_Strict):
    name: Annotated[str, msgspec.Meta(pattern="^[a-z0-9-]{1,15}$")]
    containerPort: Annotated[int, msgspec.Meta(ge=1, le=65535)]  # noqa: N815


class _Mount(_Strict):
    name: str
    mountPath: str  # noqa: N815


class _Container(_Strict):
    name: str
    image: str
    args: list[str]
    ports: list[_Port]
    livenessProbe: _Probe  # noqa: N815
    readinessProbe: _Probe  # noqa: N815
    resources: dict[Literal["requests", "limits"], dict[Literal["cpu", "memory"], str]]
    volumeMounts: list[_Mount]  # noqa: N815


class _Claim(_Strict):
    claimName: str  # noqa: N815


class _Volume(_Strict):
    name: str
    persistentVolumeClaim: _Claim  # noqa: N815


class _PodSpec(_Strict):
    terminationGracePeriodSeconds: Annotated[int, msgspec.Meta(ge=120)]  # noqa: N815
    containers: Annotated[list[_Container], msgspec.Meta(min_length=1, max_length=1)]
    volumes: list[_Volume]


class _Meta(_Strict):
    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Template(_Strict):
    metadata: _Meta
    spec: _PodSpec


class _Selector(_Strict):
    matchLabels: dict[str, str]  # noqa: N815


class _Strategy(_Strict):
    type: Literal["Recreate"]


class _Spec(_Strict):
    replicas: Literal[1]
    strategy: _Strategy
    selector: _Selector
    template: _Template


class _Manifest(_Strict):
    apiVersion: Literal["apps/v1"]  # noqa: N815
    kind: Literal["Deployment"]
    metadata: _Meta
    spec: _Spec


def test_the_kubernetes_manifest_is_valid_and_runs_the_command() -> None:
    pytest.importorskip("yaml")
    found = msgspec.yaml.decode((DEPLOY / "headrace.yaml").read_bytes(), type=_Manifest)
    (container,) = found.spec.template.spec.containers
    assert found.spec.selector.matchLabels == found.spec.template.metadata.labels
    assert container.args[:3] == ["headrace", "job", "serve"]
    assert [container.livenessProbe.httpGet.path, container.readinessProbe.httpGet.path] == [
        "/healthz",
        "/readyz",
    ]
    assert {mount.name for mount in container.volumeMounts} == {
        volume.name for volume in found.spec.template.spec.volumes
    }
    (port,) = container.ports
    assert container.args[container.args.index("--port") + 1] == str(port.containerPort)
    assert {probe.httpGet.port for probe in (container.livenessProbe, container.readinessProbe)} == {
        port.name
    }


def test_the_systemd_unit_does_not_restart_a_job_that_has_given_up() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "headrace.service")
    service = unit["Service"]
    assert "headrace job serve my_job:deployment" in service["ExecStart"]
    assert (service["Restart"], service["RestartPreventExitStatus"]) == ("on-failure", "1 2")
    assert service["KillMode"] == "mixed"


__all__ = ["FAILED", "SECOND", "Job", "OptionsError", "Terminated"]
