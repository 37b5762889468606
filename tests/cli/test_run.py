"""``headrace run``: hosts, inputs from files, outputs to files, comparison, and its error messages."""

import base64
import json
import signal
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from headrace import BytesCodec, Computation, Context, Pipeline, Record
from headrace_cli.options.run_options import HostName, InputOptions
from headrace_cli.runs.hosts import HOSTS
from headrace_cli.runs.input_file import InputError, read_input
from headrace_cli.runs.output_file import read_outputs, write_outputs
from headrace_cli.terminal.files import OutputFiles
from headrace_properties.reference import run_reference
from headrace_scenarios.zeitgeist import flights
from headrace_scenarios.zeitgeist.flight_findings import find
from headrace_scenarios.zeitgeist.flight_log import LogOptions, flight_log
from headrace_scenarios.zeitgeist.flights_report import FlightsReport
from tests.cli.rig import Run, plain, run_process

SECOND = 1_000_000

CLICKS = [
    {"value": {"page": "home"}, "timestamp": 1 * SECOND, "key": "a"},
    {"value": {"page": "news"}, "timestamp": 3 * SECOND, "key": "b"},
    {"value": {"page": "home"}, "timestamp": 1 * SECOND + 1, "key": "a"},
]
"""The third is out of order."""


def write_lines(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(line) if not isinstance(line, str) else line}\n" for line in lines))
    return path


def printed(stdout: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(stdout)
    return document


# Hosts


@pytest.mark.parametrize("host", ["sim", "reference"])
def test_a_pipeline_runs_over_its_own_feed(folder: Path, run: Run, host: str) -> None:
    result = run("run", "views:pipeline", "--on", host)
    assert result.exit_code == 0
    assert f"views:pipeline on {host}: 15 records in, 8 out" in result.stdout
    assert "counts 8" in plain(result.stdout)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_reference_run_prints_its_output_so_far(
    folder: Path, run: Run, number: signal.Signals, code: int
) -> None:
    (folder / "stopping.py").write_text(STOPPING.format(number))
    whole = json.loads(run("run", "views:pipeline", "--on", "reference", "--json").stdout)
    result = run("run", "stopping:pipeline", "--on", "reference", "--json", "--output", "out.jsonl")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["result"]) == (code, "interrupted" if code == 130 else "terminated")
    assert f"Stopped by {number.name} before the end: the output is what went outside until then" in str(
        document
    )
    assert 0 < len(Path("out.jsonl").read_text().splitlines()) < sum(whole["outputs"].values())


STOPPING = """
import os
import views

class Stopping(views.CountViews):
    told = False

    def process_timer(self, context, timer):
        super().process_timer(context, timer)
        if not self.told:  # a second signal would end it at once
            self.told = True
            os.kill(os.getpid(), {:d})

pipeline = views.build(Stopping())

def feed(seed):
    return views.feed(seed)
"""


def test_two_hosts_give_the_same_output_under_faults(folder: Path, run: Run) -> None:
    result = run("run", "views:pipeline", "--faults", "6", "--seed", "3", "--compare", "reference")
    assert result.exit_code == 0
    assert "SAME OUTPUT: sim and reference agree on each of 8 records" in result.stdout
    assert "faults that struck: none" not in result.stdout
    assert "none is violated" in result.stdout


def test_faults_also_strike_a_cluster_that_is_compared_with(folder: Path, run: Run) -> None:
    result = run(
        "run", "views:pipeline", "--on", "reference", "--compare", "sim", "--faults", "6", "--seed", "3"
    )
    assert result.exit_code == 0
    first, second = result.stdout.split("views:pipeline on sim")
    assert "faults that struck" not in first
    assert "faults that struck: 1 crash" in second
    assert "SAME OUTPUT: reference and sim agree on each of 8 records" in second


def test_for_inputs_of_different_length_the_common_part_is_compared(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The reference is given three days of flights, the cluster the first two.
    monkeypatch.setattr("headrace_scenarios.shipped.YEAR", (date(2013, 1, 1), date(2013, 1, 4)))
    monkeypatch.setattr("headrace_scenarios.shipped.SIMULATED_UNTIL", date(2013, 1, 3))
    result = run("run", "zeitgeist", "--on", "reference", "--compare", "sim")
    assert result.exit_code == 0
    assert "SAME OUTPUT: reference and sim agree on each of" in result.stdout
    assert "until 2013-01-03 05:00 UTC, as far as both had their input" in plain(result.stdout)


def test_every_host_can_be_named() -> None:
    assert list(HOSTS) == list(HostName)


def test_faults_are_for_the_simulated_cluster_only(folder: Path, run: Run) -> None:
    result = run("run", "views:pipeline", "--on", "reference", "--faults", "1")
    assert result.exit_code == 2
    assert "--on reference: faults can be made in the simulated cluster only" in plain(result.stderr)


def test_failing_user_code_is_reported_with_exit_code_1(folder: Path, run: Run) -> None:
    result = run("run", "failing:pipeline")
    assert result.exit_code == 1
    assert "this window is cursed" in result.stderr


# Input and output


def test_records_from_a_file_reach_an_output_file(folder: Path, run: Run) -> None:
    clicks = write_lines(folder / "clicks.jsonl", CLICKS)
    result = run("run", "views:pipeline", "--input", str(clicks), "--output", "counts.jsonl")
    assert result.exit_code == 0
    lines = [json.loads(line) for line in (folder / "counts.jsonl").read_text().splitlines()]
    assert lines == [
        {"stream": "counts", "key": "a", "timestamp": 2 * SECOND, "value": 2},
        {"stream": "counts", "key": "b", "timestamp": 4 * SECOND, "value": 1},
    ]


def test_output_to_stdout_leaves_nothing_else_there(folder: Path) -> None:
    write_lines(folder / "clicks.jsonl", CLICKS)
    done = run_process("run", "views:pipeline", "--input", "clicks.jsonl", "--output", "-", cwd=folder)
    assert done.returncode == 0
    assert [json.loads(line)["key"] for line in done.stdout.splitlines()] == ["a", "b"]
    assert "views:pipeline on sim: 3 records in, 2 out" in done.stderr


def test_fields_of_the_lines_can_be_key_and_timestamp(folder: Path, run: Run) -> None:
    lines = [{"at": "1970-01-01T00:00:01Z", "user": 7}, {"at": "1970-01-01T01:00:01+01:00", "user": 7}]
    write_lines(folder / "raw.jsonl", [*lines, ""])
    result = run("run", "views:pipeline", "--input", "raw.jsonl", "--timestamp", "at", "--key", "user",
                 "--output", "out")  # fmt: skip
    assert result.exit_code == 0
    assert json.loads((folder / "out" / "counts.jsonl").read_text()) == {
        "stream": "counts", "key": "7", "timestamp": 2 * SECOND, "value": 2,
    }  # fmt: skip


def test_records_further_behind_than_the_slack_are_late(folder: Path, run: Run) -> None:
    clicks = str(write_lines(folder / "clicks.jsonl", CLICKS))
    on = ("run", "views:pipeline", "--on", "reference", "--input", clicks, "--output", "out", "--force")
    counts = folder / "out" / "counts.jsonl"
    for slack, expected in (("2", 2), ("1", 1)):
        assert run(*on, "--slack", slack).exit_code == 0
        assert json.loads(counts.read_text().splitlines()[0])["value"] == expected


def test_lines_with_arrival_times_arrive_in_that_order(folder: Path, run: Run) -> None:
    orders = (1, 3, 2)
    lines = [{**line, "arrived": order} for line, order in zip(CLICKS, orders, strict=True)]
    write_lines(folder / "clicks.jsonl", lines)
    run(
        "run",
        "views:pipeline",
        "--on",
        "reference",
        "--input",
        "clicks.jsonl",
        "--slack",
        "1",
        "--output",
        "out",
    )
    assert json.loads((folder / "out" / "counts.jsonl").read_text().splitlines()[0])["value"] == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: this is not JSON: "),
        ("[1]", "line 2: a JSON object is expected, not an array"),
        ({"timestamp": 1}, 'line 2: it has no "value"; write {"value": ..., "timestamp": ...}, or name the field'),
        ({"value": 1}, "line 2: it has no field 'timestamp'; its fields are: value"),
        ({"value": 1, "timestamp": 1.5}, "line 2: timestamp 1.5 is neither microseconds since 1970"),
        ({"value": 1, "timestamp": True}, "line 2: timestamp True is neither"),
        ({"value": 1, "timestamp": "noon"}, "line 2: timestamp 'noon' is not ISO 8601"),
        ({"value": 1, "timestamp": 1, "key": None}, "line 2: the key is null, not a string"),
        ({"value": 1, "timestamp": 1, "stream": "clicks"}, "no injector has a stream 'clicks'; the streams are: views"),
        ({"value": 1, "timestamp": 1, "arrived": 5}, 'line 1: it has no "arrived", and other lines have'),
        ({"value_base64": "?", "timestamp": 1}, "line 2: value_base64 is not base64"),
    ],
)  # fmt: skip
def test_a_malformed_line_is_named(folder: Path, run: Run, line: Any, message: str) -> None:
    write_lines(folder / "bad.jsonl", [CLICKS[0], line])
    result = run("run", "views:pipeline", "--input", "bad.jsonl")
    assert result.exit_code == 2
    assert f"bad.jsonl, {message}" in plain(result.stderr) or message in plain(result.stderr)
    assert "Traceback" not in result.stderr


def test_a_line_without_the_named_field_is_named(folder: Path, run: Run) -> None:
    write_lines(folder / "raw.jsonl", [{"at": 1, "user": "x"}, {"time": 1, "user": "x"}])
    result = run("run", "views:pipeline", "--input", "raw.jsonl", "--timestamp", "at")
    assert "raw.jsonl, line 2: it has no field 'at'; its fields are: time, user" in plain(result.stderr)
    result = run("run", "views:pipeline", "--input", "raw.jsonl", "--timestamp", "user")
    assert "line 1: user 'x' is not ISO 8601" in plain(result.stderr)


TABLE = "at,user,price\n1970-01-01T00:00:01Z,007,1.5\n1970-01-01T01:00:01+01:00,x,2\n"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_is_read_row_by_row(folder: Path, run: Run, kind: str) -> None:
    pytest.importorskip("pyarrow")
    (folder / "clicks.csv").write_text(TABLE)
    if kind == "parquet":
        pandas = pytest.importorskip("pandas")
        pandas.read_csv(folder / "clicks.csv", parse_dates=["at"]).to_parquet(folder / "clicks.parquet")
    result = run("run", "views:pipeline", "--input", f"clicks.{kind}", "--timestamp", "at", "--key", "user",
                 "--output", "out.jsonl")  # fmt: skip
    assert result.exit_code == 0, result.stderr
    lines = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert [(line["key"], line["timestamp"]) for line in lines] == [("007", 2 * SECOND), ("x", 2 * SECOND)]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "bad.csv",
            "at,user\n1970-01-01T00:00:01Z,a\nnoon,b\n",
            "bad.csv, line 3: at 'noon' is not ISO 8601",
        ),
        ("bad.csv", "at,user\n1,a\n2\n", "bad.csv: this is not CSV: "),
        ("bad.parquet", "at,user\n", "bad.parquet: this is not Parquet: "),
        ("bad.csv", "at,user\n1970-01-01T00:00:01Z,J\xf6rg\n", "line 2: user b'J\\xf6rg' is not UTF-8"),
        ("bad.csv", "time,user\n1,a\n", "line 2: it has no field 'at'; its fields are: time, user"),
    ],
)
def test_a_malformed_table_is_named(folder: Path, run: Run, name: str, text: str, message: str) -> None:
    pytest.importorskip("pyarrow")
    (folder / name).write_text(text, encoding="latin-1")
    result = run("run", "views:pipeline", "--input", name, "--timestamp", "at")
    assert result.exit_code == 2
    assert message in plain(result.stderr)


def test_a_table_without_its_reader_says_what_to_install(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "clicks.csv").write_text(TABLE)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = run("run", "views:pipeline", "--input", "clicks.csv", "--timestamp", "at")
    assert result.exit_code == 2
    assert "tables need pyarrow: pip install 'headrace[spark]'" in plain(result.stderr)


def test_values_of_another_codec_travel_as_base64(tmp_path: Path) -> None:
    class Forward(Computation):
        def process_record(self, context: Context, record: Record) -> None:
            context.produce("out", record.value)

    pipeline = Pipeline("bytes")
    pipeline.injector("in")
    pipeline.stream("in", BytesCodec())
    pipeline.stream("out", BytesCodec())
    pipeline.add(Forward(), name="forward", inputs=["in"], outputs=["out"])
    data = base64.b64encode(b"\xff\x00").decode()
    path = write_lines(tmp_path / "in.jsonl", [{"value_base64": data, "timestamp": 1, "key": "k"}])
    outputs = run_reference(pipeline, read_input(path, pipeline, InputOptions())).outputs
    write_outputs(tmp_path / "out.jsonl", outputs, pipeline, OutputFiles())
    assert json.loads((tmp_path / "out.jsonl").read_text())["value_base64"] == data
    assert read_outputs(tmp_path / "out.jsonl") == outputs
    write_lines(path, [{"value": "text", "timestamp": 1}])
    with pytest.raises(
        InputError, match=r"in.jsonl, line 1: BytesCodec\(\) of stream 'in' does not take this value"
    ):
        read_input(path, pipeline, InputOptions())


# Comparison


def test_an_earlier_output_is_compared_record_by_record(folder: Path, run: Run) -> None:
    write_lines(folder / "clicks.jsonl", CLICKS)
    on = ("run", "views:pipeline", "--on", "reference", "--input", "clicks.jsonl")
    assert run(*on, "--output", "before").exit_code == 0
    same = run(*on, "--compare", "before")
    assert same.exit_code == 0
    assert "SAME OUTPUT: reference and before agree on each of 2 records" in same.stdout
    write_lines(folder / "clicks.jsonl", CLICKS[:2])
    differs = run(*on, "--compare", "before")
    assert differs.exit_code == 1
    assert "DIFFERENT OUTPUT: reference and before differ in 2 records and agree on 1" in plain(
        differs.stdout
    )
    assert "only here: counts 'a' at 2000000 us: 1" in differs.stdout
    assert "only there: counts 'a' at 2000000 us: 2" in differs.stdout
    examples = printed(run(*on, "--compare", "before", "--json").stdout)["comparison"]["examples"]
    assert examples[0] == {
        "side": "only here",
        "stream": "counts",
        "key": "a",
        "timestamp": 2 * SECOND,
        "value": 1,
    }


def test_json_has_the_run_and_the_comparison(folder: Path, run: Run) -> None:
    result = run("run", "views:pipeline", "--faults", "3", "--compare", "reference", "--json")
    document = printed(result.stdout)
    assert (document["result"], document["records"], document["outputs"]) == ("done", 15, {"counts": 8})
    comparison = document["comparison"]
    assert (comparison["with"], comparison["same"], comparison["common"]) == ("reference", True, 8)
    assert (comparison["only_here"], comparison["only_there"], comparison["examples"]) == (0, 0, [])
    assert (comparison["other"]["host"], comparison["other"]["outputs"]) == ("reference", {"counts": 8})
    assert {invariant["verdict"] for invariant in document["invariants"].values()} <= {"holds", "unknown"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("views:pipeline", "--compare", "nowhere"), "there is no 'nowhere'. Name a host (sim, spark, reference)"),
        (("views:pipeline", "--input", "nothing.jsonl"), "nothing.jsonl: cannot be read: No such file"),
        (("views:pipeline", "--slack", "1"), "say how to read a file. Name the file with --input"),
        (("views:pipeline", "--input", "x", "--feed", "feed"), "two inputs, --input and --feed"),
        (("views:pipeline", "--until", "2013-02-01"), "--until is for zeitgeist only"),
        (("views:pipeline", "--judge", "0.5"), "--judge: it needs --on spark. Add --on spark"),
        (("views:pipeline", "--chart", "x.svg", "--on", "reference"), "--chart: --on reference does not tell when what happened"),
        (("views:pipeline", "--chart", "x.jpg"), "its name must end with one of .svg, .png, .html"),
        (("views:pipeline", "--json", "--output", "-"), "writes to stdout, too"),
        (("views:pipeline", "--output", "views.py/x"), "cannot write views.py/x"),
        (("zeitgeist", "--input", "x"), "its input is the flights of 2013"),
        (("nowhere:pipeline",), "there is no module 'nowhere'"),
        (("views:pipeline", "--compare", "views.py"), "views.py, line 1: not a record of an output"),
        (("views:pipeline", "--on", "spark", "--faults", "3"), "--on spark: faults can be made in the simulated cluster only"),
    ],
)  # fmt: skip
def test_wrong_use_is_exit_code_2_and_one_message(
    folder: Path, run: Run, arguments: tuple[str, ...], message: str
) -> None:
    result = run("run", *arguments)
    assert result.exit_code == 2, result.stdout
    assert message in plain(result.stderr)
    assert "Traceback" not in result.stderr


def test_a_run_is_drawn_and_an_existing_picture_stays(folder: Path, run: Run) -> None:
    pytest.importorskip("matplotlib")
    assert run("run", "views:pipeline", "--chart", "views.html").exit_code == 0
    page = Path("views.html").read_text()
    assert "views: counter of " in page
    assert page.count("<title>counts: ") == page.count("<tr><td>") > 1
    again = run("run", "views:pipeline", "--chart", "views.html")
    assert again.exit_code == 2
    assert "--force" in plain(again.stderr)
    assert not Path("history.jsonl").exists()


# Zeitgeist


def test_zeitgeist_reports_the_blizzard() -> None:
    # Six weeks of two airlines: the model knows their hours, and the storm is over.
    options = LogOptions(until=date(2013, 2, 12), carriers=("B6", "DL"))
    log = flight_log(options)
    report = FlightsReport(
        find(run_reference(flights.pipeline, log.feed(flights.pipeline)).outputs, options), log
    )
    text = "\n".join([*report.about(), *report.lines()])
    assert "10,954 flights from New York, 2013-01-01 to 2013-02-11" in plain(text)
    assert "The blizzard of 8-9 February 2013" in text
    assert "B6 JetBlue Airways Fri 17:00 Sat 14:00" in plain(text)
    rows = {line.split()[0]: line[10:] for line in text.splitlines() if line.startswith(("dep", "dips"))}
    assert rows["departed"][18:24].strip() == ""  # Friday evening
    assert rows["dips"][13:30] == "1111" + "2" * 13
    document = report.document()
    assert [row["key"] for row in document["blizzard"]] == ["DL", "B6"]
    assert document["blizzard"][0]["start"] == "2013-02-08T13:00:00-05:00"


def test_zeitgeist_writes_its_output_and_draws_it(folder: Path, run: Run) -> None:
    result = run("run", "zeitgeist", "--on", "reference", "--until", "2013-01-03", "--output", "found")
    assert result.exit_code == 0
    assert "1,785 flights from New York, 2013-01-01 to 2013-01-02" in plain(result.stdout)
    assert {file.name for file in (folder / "found").iterdir()} == {
        "anomalies.jsonl", "comparisons.jsonl", "late.jsonl", "dips.svg", "dips.png",
    }  # fmt: skip
    assert f"{read_outputs(folder / 'found').total():,} out" in plain(result.stdout)


def test_zeitgeist_on_the_cluster_agrees_with_the_reference(folder: Path, run: Run) -> None:
    result = run(
        "run", "zeitgeist", "--until", "2013-01-03", "--faults", "4", "--compare", "reference", "--json"
    )
    assert result.exit_code == 0
    document = printed(result.stdout)
    assert document["comparison"]["same"] is True
    assert document["findings"]["departures"] == document["records"]
    assert document["findings"]["late"] == document["outputs"]["late"]
