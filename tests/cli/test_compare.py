"""``headrace compare``: what each way to run a pipeline loses and costs, for people and as JSON."""

import json
from pathlib import Path

from tests.cli.rig import Run


def test_every_way_is_printed_with_its_losses_and_costs(folder: Path, run: Run) -> None:
    result = run("compare", "views:pipeline", "--runs", "2", "--faults", "4")
    assert result.exit_code == 0
    assert result.stdout.startswith("views:pipeline, seed 0: the same 2 runs each way, 4 faults in each\n")
    for heading in (
        "Output compared with the sequential reference",
        "Cost of the faults",
        "Cost without faults, in simulated time",
    ):
        assert f"\n{heading}\n" in result.stdout
    assert result.stdout.count("\n  weak, no straggler checkpoints ") == 3
    assert result.stderr == ""


def test_json_has_the_same_numbers_each_time(folder: Path, run: Run) -> None:
    arguments = ("compare", "views:pipeline", "--runs", "2", "--faults", "4", "--json")
    first, again = run(*arguments).stdout, run(*arguments).stdout
    assert first == again
    document = json.loads(first)
    assert [way["name"] for way in document["ways"]][:2] == ["strong", "weak"]
    strong = document["ways"][0]
    assert (strong["runs"], strong["lost"], strong["violated"], strong["errors"]) == (2, 0, {}, [])
    assert strong["with_faults"]["executions"] > strong["without_faults"]["executions"] > 0
    assert strong["without_faults"]["simulated_latency_median_us"] > 0


def test_no_pipeline_is_wrong_use(folder: Path, run: Run) -> None:
    result = run("compare", "nowhere:pipeline")
    assert result.exit_code == 2
    assert "nowhere" in result.stderr
