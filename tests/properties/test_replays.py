"""Files of every format that ever was are read, and show what they showed; only the newest format is written."""

import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from headrace import HistoryFormatError
from headrace_properties.findings import Family, Kind
from headrace_properties.kept_failures import KeptFailures
from headrace_properties.pipeline_trials import shown_again
from headrace_properties.proof.mutants import protocol_named
from headrace_properties.replays import ERROR, REPLAY_FORMAT, ReplayFile, read_replay, to_replay
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import run_plan, violations
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.trials import QueryTrial, SinkTrial
from headrace_properties.target import PipelineSource, SparkSource
from headrace_properties.user_code.code_trial import CodeTrial
from headrace_scenarios import zeitgeist
from tests.properties.replays import programs

RECORDED = Path(__file__).parent / "replays"
ZEITGEIST = PipelineSource("headrace_scenarios.zeitgeist:pipeline", protocol="without sequencers")
PROGRAMS = f"{programs.__name__}:"
PRICES = SparkSource("tests.properties.replays.prices:job", "symbol STRING, price INT")
FILES: dict[str, tuple[PipelineSource | SparkSource, type, dict[Family, list[str]]]] = {
    "format-1-pipeline": (ZEITGEIST, PipelineTrial, {Family.INVARIANT: ["S2", "S4", "S6", "S7", "S8", "L1"]}),
    "format-2-pipeline": (ZEITGEIST, PipelineTrial, {Family.INVARIANT: ["S2", "S4", "L1"]}),
    "format-3-pipeline": (
        ZEITGEIST,
        PipelineTrial,
        {Family.INVARIANT: ["S4", "S6", "S7", "S8", "S9", "S10", "L1"]},
    ),
    "format-4-pipeline": (
        PipelineSource(f"{PROGRAMS}counts", protocol="without sequencers"),
        PipelineTrial,
        {Family.INVARIANT: ["S6"]},
    ),
    "format-4-code": (PipelineSource(f"{PROGRAMS}keeps"), CodeTrial, {Family.CODE: ["keeps-state"]}),
    "spark-1-query": (PRICES, QueryTrial, {Family.OUTCOME: ["chance"]}),
    "spark-1-sink": (PRICES, SinkTrial, {Family.SINK: ["twice"]}),
}


def recorded(name: str) -> ReplayFile:
    return read_replay(RECORDED / f"{name}.json")


@pytest.mark.parametrize("name", FILES)
def test_each_format_is_read_and_the_newest_is_written(name: str, tmp_path: Path) -> None:
    replay, (source, trial, found) = recorded(name), FILES[name]
    assert (replay.source, type(replay.trial)) == (source, trial)
    assert {family: [*messages] for family, messages in replay.found.items()} == found
    assert replay.format == REPLAY_FORMAT
    messages = {kind: replay.found[kind.family][kind.name] for kind in replay.kinds}
    (tmp_path / "now.json").write_bytes(to_replay(source, replay.trial, messages, digest=replay.digest))
    again = read_replay(tmp_path / "now.json")
    assert again == msgspec.structs.replace(replay, code_digest="", input_digest="")


def test_pyspark_is_not_needed_to_read_a_file_of_either_kind() -> None:
    paths = [str(RECORDED / f"{name}.json") for name in ("format-4-pipeline", "spark-1-sink")]
    code = (
        "import sys\nfrom pathlib import Path\nfrom headrace_properties.replays import read_replay\n"
        f"for path in {paths}:\n    read_replay(Path(path))\nassert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_there_is_a_file_of_each_format() -> None:
    assert sorted(FILES) == sorted(path.stem for path in RECORDED.glob("*.json"))


@pytest.mark.parametrize("name", ["format-1-pipeline", "format-3-pipeline", "format-4-pipeline"])
def test_recorded_runs_fail_again(name: str) -> None:
    """The oldest ones were recorded on other versions of the engine, in which the same faults did more."""
    replay = recorded(name)
    assert isinstance(replay.trial, PipelineTrial)
    assert isinstance(replay.source, PipelineSource)
    application = (
        Application(programs.counts, programs.feed)
        if PROGRAMS in replay.source.name
        else Application(zeitgeist.pipeline, zeitgeist.feed)
    )
    history, verdicts, _ = run_plan(application, replay.trial, protocol_named(replay.source.protocol))
    assert any(replay.shows(Kind(Family.INVARIANT, name)) for name in violations(verdicts))
    if replay.code_digest:
        assert history.digest() == replay.digest


@pytest.mark.parametrize("name", FILES)
def test_what_was_kept_in_an_older_format_is_loaded_for_its_target_alone(name: str, tmp_path: Path) -> None:
    source = FILES[name][0]
    kept = KeptFailures(tmp_path, source)
    kept.folder.mkdir(parents=True)
    shutil.copy(RECORDED / f"{name}.json", kept.folder)
    assert [failure.replay for failure in kept.load()] == [recorded(name)]
    assert KeptFailures(tmp_path, msgspec.structs.replace(source, feed="other")).load() == ()


def test_a_recorded_finding_about_code_shows_again() -> None:
    replay = recorded("format-4-code")
    assert isinstance(replay.trial, CodeTrial)
    found = shown_again(Application(programs.keeps, programs.feed), replay.trial, replay.kinds)
    assert [(finding.kind.name, finding.trial.kept) for finding in found.findings] == [
        ("keeps-state", replay.trial.kept)
    ]


def changed(tmp_path: Path, name: str, old: str, new: str) -> Path:
    text = (RECORDED / f"{name}.json").read_text()
    assert old in text
    (tmp_path / "changed.json").write_text(text.replace(old, new))
    return tmp_path / "changed.json"


def test_an_option_that_is_no_more_is_refused_and_not_left_out(tmp_path: Path) -> None:
    path = changed(tmp_path, "format-2-pipeline", '"retry_us"', '"patience_us"')
    with pytest.raises(
        HistoryFormatError, match=r"plan\.options\.engine\.patience_us is no more\. Search again"
    ):
        read_replay(path)


def test_families_tell_errors_promises_and_invariants_apart(tmp_path: Path) -> None:
    path = changed(
        tmp_path, "format-4-pipeline", '"violations": {', '"violations": {"error": "", "exact": "",'
    )
    assert read_replay(path).kinds == (
        ERROR, Kind(Family.PROMISE, "exact"), Kind(Family.INVARIANT, "S6"),
    )  # fmt: skip


def test_a_broken_promise_of_a_spark_job_keeps_its_name(tmp_path: Path) -> None:
    path = changed(tmp_path, "spark-1-query", '"promise": ""', '"promise": "small"')
    path.write_text(path.read_text().replace('"cause": "chance"', '"cause": "promise"'))
    replay = read_replay(path)
    assert replay.kinds == (Kind(Family.PROMISE, "small"),)
    assert isinstance(replay.trial, QueryTrial)
    assert (replay.trial.promise, replay.trial.cause) == ("small", Cause.PROMISE)


@pytest.mark.parametrize(
    ("name", "old", "new", "reason"),
    [
        ("spark-1-query", '"format": 1', '"format": 2', "it has format 2, and this version"),
        (
            "spark-1-query",
            '"cause": "chance"',
            '"cause": null',
            "neither the cause nor the fault of a finding",
        ),
        ("format-4-code", '"format": 4', '"format": 0', "it has format 0, and this version"),
        ("format-3-pipeline", '"workers": 3', '"workers": "3"', r"int is expected, not str, in plan"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    tmp_path: Path, name: str, old: str, new: str, reason: str
) -> None:
    with pytest.raises(HistoryFormatError, match=reason):
        read_replay(changed(tmp_path, name, old, new))
