"""``headrace paper report``: what it writes, and how it reports tampering."""

import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace_benchmarks.section8.experiment import FULL
from headrace_benchmarks.section8.experiments import EXPERIMENTS
from headrace_benchmarks.section8.markdown import DATA
from headrace_cli.main import app
from tests.cli.rig import Run

pytest.importorskip("matplotlib")


SIZES = ("20 CPUs", "50 CPUs")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small report, of one run at each of two small sizes."""
    output = tmp_path_factory.mktemp("report") / "REPORT.md"
    arguments = [
        "paper",
        "report",
        "--quick",
        "--only",
        "figure-14",
        "--seeds",
        "1",
        "--jobs",
        "1",
        "--output",
        str(output),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EXPERIMENTS, "figure-14", dataclasses.replace(EXPERIMENTS["figure-14"], quick=SIZES))
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        yield output


@pytest.fixture
def report(written: Path, tmp_path: Path) -> Path:
    """A copy to tamper with."""
    shutil.copytree(written.parent, tmp_path / "copy")
    return tmp_path / "copy" / "REPORT.md"


def data_of(report: Path) -> Path:
    return report.parent / DATA


def test_it_writes_the_page_its_data_and_its_pictures(report: Path) -> None:
    text = report.read_text()
    assert text.startswith(
        "<!-- Written by `headrace paper report --quick --only figure-14 --seeds 1`. Do not edit:"
    )
    (measured,) = json.loads(data_of(report).read_text())["measured"]
    assert (measured["name"], measured["seeds"]) == ("figure-14", 1)
    assert [point["point"] for point in measured["points"]] == list(SIZES)
    picture = report.parent / "docs/report/figure-14.svg"
    assert "docs/report/figure-14.svg" in text
    assert picture.read_bytes().startswith(b"<?xml")
    assert b"<dc:date>" not in picture.read_bytes()


def test_the_report_it_wrote_holds_when_rerun(report: Path, run: Run) -> None:
    result = run("paper", "report", "--check", "--output", str(report))
    assert result.exit_code == 0
    assert "no differences from what the code computes" in result.stdout


def test_a_doctored_number_on_the_page_is_noticed(report: Path, run: Run) -> None:
    text = report.read_text()
    line = next(line for line in text.splitlines() if line.startswith("| 20 CPUs | median |"))
    cells = line.split(" | ")
    cells[3] = "3.6"
    report.write_text(text.replace(line, " | ".join(cells)))
    result = run("paper", "report", "--check", "--again", "0", "--output", str(report), "--json")
    assert result.exit_code == 1
    (problem,) = json.loads(result.stdout)["problems"]
    assert "contradicts the report's data: | 20 CPUs | median | roughly constant | 3.6 |" in problem


def test_a_doctored_number_in_the_data_is_noticed(report: Path, run: Run) -> None:
    path = data_of(report)
    document = json.loads(path.read_text())
    document["measured"][0]["points"][0]["figures"][0][2] = [3.6]
    path.write_text(json.dumps(document))
    result = run("paper", "report", "--check", "--output", str(report), "--json")
    assert result.exit_code == 1
    digest, page, again = json.loads(result.stdout)["problems"]
    assert "sha256" in digest
    assert "contradicts the report's data: | 20 CPUs | median | roughly constant |" in page
    assert again == "figure-14: 20 CPUs, seed 0: a repeated run gives different figures"


def test_a_changed_picture_is_noticed(report: Path, run: Run) -> None:
    (report.parent / "docs/report/figure-14.svg").write_text("<svg/>")
    result = run("paper", "report", "--check", "--again", "0", "--output", str(report))
    assert result.exit_code == 1
    assert "the picture of figure-14 was changed" in result.stdout


def test_updating_renews_one_experiment_and_keeps_the_others(report: Path, run: Run) -> None:
    """A second, foreign experiment stands in the report; renewing the first mends its doctored figure and leaves the second."""
    path = data_of(report)
    sound = path.read_bytes()
    document = json.loads(sound)
    document["measured"].append({**document["measured"][0], "name": "hot-key"})
    document["measured"][0]["points"][0]["figures"][0][2] = [3.6]
    path.write_text(json.dumps(document))
    result = run(
        "paper",
        "report",
        "--quick",
        "--update",
        "--only",
        "figure-14",
        "--seeds",
        "1",
        "--jobs",
        "1",
        "--output",
        str(report),
    )
    assert result.exit_code == 0, result.output
    found = json.loads(path.read_text())
    assert [experiment["name"] for experiment in found["measured"]] == ["figure-14", "hot-key"]
    assert found["measured"][0] == json.loads(sound)["measured"][0]
    assert found["measured"][1]["points"] == document["measured"][1]["points"]


@pytest.mark.parametrize("spoil", [{"quick": False}, {"calibration": {}}, {"versions": {"python": "2.7"}}])
def test_a_report_made_in_another_setup_is_not_updated(
    report: Path, run: Run, spoil: dict[str, object]
) -> None:
    path = data_of(report)
    document = json.loads(path.read_text())
    document["provenance"].update({key: value for key, value in spoil.items() if key == "versions"})
    document.update({key: value for key, value in spoil.items() if key != "versions"})
    path.write_text(json.dumps(document))
    before = path.read_bytes()
    result = run("paper", "report", "--quick", "--update", "--only", "figure-14", "--output", str(report))
    assert result.exit_code == 2
    assert "it was made with other" in " ".join(result.stderr.split())
    assert path.read_bytes() == before


def test_wrong_use_lists_the_valid_names(run: Run, tmp_path: Path) -> None:
    result = run("paper", "report", "--only", "figure-99")
    assert result.exit_code == 2
    assert "figure-13" in result.stderr
    result = run("paper", "report", "--check", "--output", str(tmp_path / "none.md"))
    assert result.exit_code == 2
    assert "Write it with headrace paper report" in result.stderr


# The one in the repository

COMMITTED = Path(__file__).parents[2] / "REPORT.md"


def test_the_repositorys_report_matches_its_runs(run: Run) -> None:
    result = run("paper", "report", "--check", "--again", "0", "--output", str(COMMITTED))
    assert result.exit_code == 0, result.stdout
    assert data_of(COMMITTED).stat().st_size < 150_000
    document = json.loads(data_of(COMMITTED).read_text())
    names = [name for name, experiment in EXPERIMENTS.items() if experiment.quick or not document["quick"]]
    assert [experiment["name"] for experiment in document["measured"]] == names
    text = COMMITTED.read_text()
    for argument in document["measured"]:
        if argument["seeds"] < FULL.seeds and not EXPERIMENTS[argument["name"]].wall:
            assert f"**Only {argument['seeds']} seeds** at each point" in text


def test_a_run_of_the_repositorys_report_is_reproducible(run: Run) -> None:
    """A change of the engine's traces shows in all experiments; the night repeats a run of each."""
    result = run(
        "paper", "report", "--check", "--only", "recovery", "--again", "1", "--output", str(COMMITTED)
    )
    assert result.exit_code == 0, result.stdout


@pytest.mark.nightly
def test_a_run_of_each_experiment_of_the_repositorys_report_is_reproducible(run: Run) -> None:
    result = run("paper", "report", "--check", "--again", "1", "--output", str(COMMITTED))
    assert result.exit_code == 0, result.stdout
