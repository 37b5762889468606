"""stdout and stderr that are closed, full or a terminal, and signals at any moment."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.rig import environment, run_process

VERIFY = ("verify", "views:pipeline", "--examples", "3")


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", command.replace("headrace", f'"{sys.executable}" -m headrace_cli')],
        cwd=folder, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_full_stdout_exits_2_and_the_report_is_on_stderr(folder: Path) -> None:
    done = shell("headrace verify views:pipeline --examples 3 > /dev/full", folder)
    assert done.returncode == 2
    assert re.search("^HOLDS: ", done.stderr, re.MULTILINE)  # on a slow machine, after lines of progress
    assert done.stderr.endswith("\nError: cannot write to stdout: No space left on device\n")


def test_a_closed_stdout_exits_2_before_any_work(folder: Path) -> None:
    done = shell("headrace verify nowhere:pipeline >&-", folder)
    assert (done.returncode, done.stderr) == (2, "Error: stdout is closed\n")


@pytest.mark.parametrize("command", ["headrace --help", "headrace paper scenario list --json"])
def test_what_needs_no_work_exits_2_if_stdout_is_full(folder: Path, command: str) -> None:
    full = shell(f"{command} > /dev/full", folder)
    assert (full.returncode, "Traceback" in full.stderr) == (2, False)


@pytest.mark.parametrize("arguments", [("--help",), ("paper", "scenario", "list", "--json"), VERIFY])
def test_a_reader_that_wants_no_more_is_no_error(folder: Path, arguments: tuple[str, ...]) -> None:
    unread, stdout = os.pipe()
    os.close(unread)
    command = [sys.executable, "-m", "headrace_cli", *arguments]
    with os.fdopen(stdout, "wb") as pipe:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment(),
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, "rror" in done.stderr) == (0, False), done.stderr


@pytest.mark.parametrize("where", ["2> /dev/full", "2>&-"])
def test_errors_that_cannot_be_printed_do_not_change_the_exit_code(folder: Path, where: str) -> None:
    assert shell(f"headrace verify nowhere:pipeline {where}", folder).returncode == 2


def test_a_stdout_of_another_encoding_shows_what_it_can(folder: Path) -> None:
    done = shell("PYTHONIOENCODING=ascii headrace paper scenario list", folder)
    assert (done.returncode, done.stderr) == (0, "")


STEERING = """
import views
from headrace import Computation

NAUGHTY = "\\x1b[2J\\x1b]0;owned\\x07\\x9b31m\\u202e"


class Steering(Computation):
    def process_record(self, context, record):
        raise ValueError(f"{record.value} {NAUGHTY}")


pipeline = views.build(Steering(), "steering" )


def feed(seed):
    builder = views.FeedBuilder(pipeline)
    builder.record(at_us=0, value=NAUGHTY, timestamp=0, key=NAUGHTY)
    return builder.build()
"""


def test_no_escape_code_of_user_data_reaches_the_terminal(folder: Path) -> None:
    (folder / "steering.py").write_text(STEERING)
    said = ""
    for command in (
        "verify steering:pipeline --examples 1 --save f.json",
        "replay f.json --explain",
        "run steering:pipeline --on reference",
    ):
        done = run_process(*command.split(), cwd=folder)
        assert done.returncode == 1, done.stderr
        said += done.stdout + done.stderr
    assert not set(said) & set("\x1b\x07\x9b\u202e")
    assert "\\x1b[2J" in said


SLOW = """
import time
import views
from headrace import Computation


class Slow(Computation):
    def process_record(self, context, record):
        if not READY.exists():
            READY.touch()
        time.sleep(0.01)
        context.produce("counts", record.value)


from pathlib import Path
READY = Path("ready")
pipeline = views.build(Slow())
feed = views.feed
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_search_with_what_it_found_and_the_shells_exit_code(
    folder: Path, number: signal.Signals
) -> None:
    (folder / "slow.py").write_text(SLOW)
    with subprocess.Popen(
        [sys.executable, "-m", "headrace_cli", "verify", "slow:pipeline", "--allow", "effect"],
        cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509  whoever started us may ignore it
    ) as process:  # fmt: skip
        while not (folder / "ready").exists() and process.poll() is None:
            os.sched_yield()
        process.send_signal(number)
        out, err = process.communicate()
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err
    assert out.split()[0] in ("INTERRUPTED", "TERMINATED", "HUNG"), out
