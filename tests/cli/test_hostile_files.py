"""Files that are not what they should be: each is refused with exit code 2, its place and the reason, and never a verdict."""

import json
from pathlib import Path

import pytest

from headrace.api.json_text import repeated_name
from tests.cli.rig import Run, plain, save_zombie

DEEP = b"[" * 100_000 + b"]" * 100_000
BOM = b"\xef\xbb\xbf"
HEADER = (
    b'{"format":"headrace-history","version":1,"tells":"records","pipeline":"one","graphs":'
    b'[{"sources":[{"name":"topic","outputs":["events"]}],"stages":[]}]}\n'
)
OUT = b'{"type":"out","process":"p","stage":"topic","id":"1","key":"k","timestamp":1,"at":1}\n'
READERS = {
    "replay": ("replay", "FILE"),
    "check": ("check", "FILE"),
    "recheck": ("recheck", "FILE", "views:pipeline"),
    "run": ("run", "views:pipeline", "--on", "reference", "--input", "FILE"),
    "compare": ("run", "views:pipeline", "--on", "reference", "--compare", "FILE"),
    "resume": ("verify", "views:pipeline", "--search", "exhaustive", "--resume", "FILE"),
}


def refused(run: Run, path: Path, data: bytes, command: tuple[str, ...]) -> str:
    path.write_bytes(data)
    result = run(*(path.name if word == "FILE" else word for word in command))
    assert (result.exit_code, "Traceback" in result.stderr) == (2, False), result.stderr
    return plain(result.stderr)


def suffix_of(command: tuple[str, ...]) -> str:
    """Return what the name of its files ends in: a recorded run is sent to another command by its name alone."""
    return ".json" if command[0] == "replay" else ".jsonl"


@pytest.mark.parametrize("command", READERS.values(), ids=list(READERS))
@pytest.mark.parametrize("data", [b'{"x":' + DEEP + b"}\n", DEEP + b"\n"], ids=["object", "array"])
def test_json_that_is_nested_too_deeply_is_refused_by_every_command(
    folder: Path, run: Run, command: tuple[str, ...], data: bytes
) -> None:
    refused(run, folder / f"deep{suffix_of(command)}", data, command)


@pytest.mark.parametrize("command", READERS.values(), ids=list(READERS))
@pytest.mark.parametrize(("mark", "said"), [(BOM, "byte order mark (BOM)"), (b"\xff\xfe", "it is UTF-16")])
def test_another_encoding_is_called_by_its_name(
    folder: Path, run: Run, command: tuple[str, ...], mark: bytes, said: str
) -> None:
    assert said in refused(run, folder / f"marked{suffix_of(command)}", mark + b'{"value":1}\n', command)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (HEADER.replace(b"one", b"o\xffe"), "line 1: malformed header: it is not UTF-8"),
        (
            HEADER + OUT.replace(b'"k"', b'"\xff"'),
            "line 2: it is not UTF-8: the text b'\\xff' has the byte 0xff",
        ),
        (HEADER + OUT[:-2] + b',"x":' + DEEP + b"}\n", "line 2: "),
        (HEADER + OUT.replace(b'"k"', b'"k","key":"z"'), "line 2: it has 'key' twice"),
        (HEADER.replace(b'"one"', b'"one","pipeline":"two"'), "line 1: it has 'pipeline' twice"),
    ],
    ids=["header", "line", "deep", "twice", "header twice"],
)
def test_a_malformed_line_of_a_history_is_named(folder: Path, run: Run, data: bytes, said: str) -> None:
    assert said in refused(run, folder / "history.jsonl", data, ("check", "FILE"))


def test_a_history_whose_line_ends_were_converted_is_told_so(folder: Path, run: Run) -> None:
    assert run("run", "views:pipeline", "--history", "held.jsonl").exit_code == 0
    converted = (folder / "held.jsonl").read_bytes().replace(b"\n", b"\r\n")
    said = refused(run, folder / "converted.jsonl", converted, ("check", "FILE"))
    assert "its lines end in CR LF" in said
    assert "-text in .gitattributes" in said


def test_a_name_within_a_value_may_be_there_again() -> None:
    """Also as text: only names of the outermost object are its own."""
    line = rb'{"key": "a \"key\": \"b\"", "value": {"key": 1, "x": {"key": 2}}, "list": [{"key": 3}]}'
    assert repeated_name(line) is None
    assert repeated_name(line[:-1] + rb', "key" : 0}') == "key"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"value": 1, "timestamp": 1, "stream": ["x"]}', "line 1: no injector has a stream ['x']"),
        ('{"value": 1, "timestamp": 1, "stream": {}}', "line 1: no injector has a stream {}"),
        ('{"value": 1, "timestamp": 1, "key": "a", "key": "b"}', "line 1: it has the field 'key' twice"),
        ('{"value": 1, "timestamp": 1, "key": "\\ud800"}', "line 1: this is not JSON"),
        ('{"value": "\udcff", "timestamp": 1}', "line 1: this is not JSON: it is not UTF-8"),
    ],
)
def test_a_hostile_record_is_named(folder: Path, run: Run, line: str, said: str) -> None:
    data = line.encode(errors="surrogateescape")
    assert said in refused(run, folder / "in.jsonl", data, READERS["run"])


def read_table(folder: Path, run: Run, text: str, *options: str) -> list[tuple[str, dict[str, object]]]:
    pytest.importorskip("pyarrow")
    (folder / "echo.py").write_text(
        "import views\n"
        "class Echo(views.Computation):\n"
        "    def process_record(self, context, record):\n"
        "        context.produce('counts', record.value)\n"
        "pipeline = views.build(Echo(), 'echo')\n"
    )
    (folder / "in.csv").write_text(text)
    command = ("run", "echo:pipeline", "--on", "reference", "--input", "in.csv", "--timestamp", "ts")
    result = run(*command, *options, "--output", "out.jsonl", "--force")
    assert result.exit_code == 0, result.stderr
    lines = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    return [(line["key"], line["value"]) for line in lines]


def test_a_key_of_a_table_is_the_text_that_is_written(folder: Path, run: Run) -> None:
    keys = read_table(folder, run, "key,ts\n007,1\n7,2\n07,3\n1e3,4\ntrue,5\n", "--key", "key")
    assert [key for key, _ in keys] == ["007", "7", "07", "1e3", "true"]
    dates = read_table(folder, run, "day,ts\n2013-02-08,1\n20130208,2\n", "--key", "day")
    assert [key for key, _ in dates] == ["2013-02-08", "20130208"]
    assert [key for key, _ in read_table(folder, run, "n,ts\n7,1\n10,2\n", "--key", "n")] == ["7", "10"]


@pytest.mark.parametrize(
    ("written", "values"),
    [
        (["7", "-1"], [7, -1]),
        (["7", "1.50"], [7, 1.5]),
        (["7", ""], [7, None]),
        (["0", "0.5"], [0, 0.5]),
        (["7", "007"], ["7", "007"]),
        (["-07", "1"], ["-07", "1"]),
        (["+7", "1"], ["+7", "1"]),
        (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
        (["1e400", "1"], ["1e400", "1"]),
        (["inf", "1"], ["inf", "1"]),
        (["true", "false"], [True, False]),
        (["a", "7"], ["a", "7"]),
    ],
)
def test_a_column_of_a_table_is_of_numbers_only_if_nothing_is_lost(
    folder: Path, run: Run, written: list[str], values: list[object]
) -> None:
    rows = read_table(
        folder, run, "".join(["v,ts\n", *(f"{value},{ts}\n" for ts, value in enumerate(written))])
    )
    assert [row["v"] for _, row in rows] == values


def test_leading_zeros_of_a_timestamp_are_no_text(folder: Path, run: Run) -> None:
    assert [row["ts"] for _, row in read_table(folder, run, "ts,v\n01,a\n10,b\n")] == [1, 10]


def test_two_columns_of_one_name_are_refused_and_marks_of_an_encoding_are_no_part_of_a_name(
    folder: Path, run: Run
) -> None:
    pytest.importorskip("pyarrow")
    command = (*READERS["run"], "--timestamp", "ts")
    said = refused(run, folder / "in.csv", b"key,ts,key\na,1,b\n", command)
    assert "in.csv, line 1: two columns are called 'key'. Rename one" in said
    assert read_table(folder, run, "\ufeffkey,ts\r\na,1\r\n", "--key", "key")[0][0] == "a"
    said = refused(run, folder / "in.csv", "key,ts\na,1\n".encode("utf-16"), command)
    assert "this is not CSV: it is UTF-16. Save it as UTF-8" in said


@pytest.mark.parametrize("value", ["inf", "nan", "-inf", "-1", "1e300"])
@pytest.mark.parametrize(
    "command",
    [
        ("run", "views:pipeline", "--slack"),
        ("verify", "views:pipeline", "--code-timeout"),
        ("verify", "views:pipeline", "--until-quiet"),
        ("replay", "zombie.json", "--code-timeout"),
        ("chaos", "views:pipeline", "--patience"),
        ("job", "serve", "views:pipeline", "--first-delay"),
        ("job", "serve", "views:pipeline", "--longest-delay"),
        ("run", "views:pipeline", "--judge"),
    ],
    ids=lambda command: " ".join((command[0], command[-1])),
)
def test_a_number_that_cannot_be_meant_is_a_usage_error(
    folder: Path, run: Run, command: tuple[str, ...], value: str
) -> None:
    if command[0] == "chaos":
        pytest.importorskip("pyspark")
    result = run(*command, value)
    assert (result.exit_code, f"Invalid value for '{command[-1]}'" in plain(result.stderr)) == (2, True)


def test_a_long_name_of_a_stream_is_shortened_in_the_name_of_its_file(folder: Path, run: Run) -> None:
    (folder / "long.py").write_text(
        "from views import *\n"
        "class Forward(Computation):\n"
        "    def process_record(self, context, record):\n"
        "        for name in NAMES: context.produce(name, 1)\n"
        "NAMES = ['é' * 300 + end for end in 'ab']\n"
        "pipeline = Pipeline('long')\n"
        "pipeline.injector('views')\n"
        "pipeline.add(Forward(), name='forward', inputs=['views'], outputs=NAMES)\n"
    )
    assert run("run", "long:pipeline", "--on", "reference", "--output", "out").exit_code == 0
    assert len(list((folder / "out").glob("*.jsonl"))) == 2
    again = run("run", "long:pipeline", "--on", "reference", "--compare", "out")
    assert again.exit_code == 0, again.stdout


def test_no_damaged_replay_file_is_an_internal_error(folder: Path, run: Run) -> None:
    """Cut anywhere, or with a byte changed."""
    data = save_zombie(folder).read_bytes()
    for place in range(0, len(data), len(data) // 20):
        refused(run, folder / "cut.json", data[:place], ("replay", "FILE"))


@pytest.mark.parametrize(
    "command", [("job", "state", "job"), ("job", "skip", "job", "counter", "mail/0:1")], ids=["state", "skip"]
)
@pytest.mark.parametrize("data", [b'{"layout": ', b'{"x":' + DEEP + b"}", b"{}", b"\xff", None])
def test_a_broken_deployment_of_a_job_is_named(
    folder: Path, run: Run, command: tuple[str, ...], data: bytes | None
) -> None:
    """None: a directory has its name."""
    pytest.importorskip("pyspark")
    path = folder / "job" / "deployment.json"
    path.parent.mkdir()
    if data is None:
        path.mkdir()
    else:
        path.write_bytes(data)
    result = run(*command)
    assert (result.exit_code, "Traceback" in result.stderr) == (2, False), result.stderr
    assert f"{str(path)!r} cannot be read: " in result.stderr
    assert "from a backup" in result.stderr


SURROGATES = """
from views import *
from headrace import DeadLetter

BAD = "\\ud800"

class Raises(CountViews):
    def process_record(self, context, record):
        raise ValueError(BAD)

class Deep(CountViews):
    def process_record(self, context, record):
        value = []
        for _ in range(100_000):
            value = [value]
        context.produce("counts", value)

raises, deep = build(Raises()), build(Deep())
letters = Pipeline("letters")
letters.injector("views")
letters.add(Raises(), name="counter", inputs=["views"], outputs=["counts"], on_failure=DeadLetter("letters"))

def hostile(seed):
    builder = FeedBuilder(pipeline)
    builder.record(at_us=0, value=1, timestamp=0, key=BAD)
    return builder.build()
"""


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (("verify", "bad:pipeline", "--feed", "hostile"), 2, r"key '\ud800' cannot be written as UTF-8"),
        (("run", "bad:pipeline", "--feed", "hostile"), 2, r"key '\ud800' cannot be written as UTF-8"),
        (("verify", "bad:raises", "--examples", "1"), 1, r"ValueError: \ud800"),
        (("verify", "bad:raises", "--examples", "1", "--json"), 1, r"ValueError: \\ud800"),
        (("verify", "bad:letters", "--examples", "1"), 3, "UNKNOWN"),
        (("run", "bad:deep", "--on", "reference"), 2, "cannot write this value: RecursionError"),
    ],
    ids=["key", "key of a run", "error", "error in JSON", "dead letter", "depth"],
)
def test_what_is_no_unicode_or_too_deep_is_told_and_breaks_nothing(
    folder: Path, run: Run, command: tuple[str, ...], code: int, said: str
) -> None:
    (folder / "bad.py").write_text(SURROGATES)
    result = run(*command)
    assert (result.exit_code, said in plain(result.stdout + result.stderr)) == (code, True), (
        result.stdout + result.stderr
    )
    assert "Traceback (most recent call last)" not in result.stderr
