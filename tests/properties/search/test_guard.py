"""Code under a guard neither leaves its process nor ends it; reading, and files of its own, are left alone."""

import atexit
import logging
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace_properties.search.guard import (
    EffectRefusedError,
    EndsProcessError,
    effects_let_through,
    effects_watched,
    guarded,
    refusal_in,
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("kept")


def left() -> list[str]:
    return [path.name for path in Path().iterdir()]


def _binds() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))


EFFECTS: dict[str, Callable[[], object]] = {
    "write": lambda: Path("new").write_text("x"),
    "os.open": lambda: os.close(os.open("new", os.O_CREAT | os.O_WRONLY)),
    "rename": lambda: Path("there").rename("new"),
    "unlink": lambda: Path("there").unlink(),
    "sqlite": lambda: sqlite3.connect("new"),
    "run": lambda: subprocess.run(["/bin/touch", "new"], check=True),
    "signal": lambda: os.kill(os.getppid(), 0),
    "connect": lambda: socket.create_connection(("127.0.0.1", 9)),
    "getaddrinfo": lambda: socket.getaddrinfo("example.com", 80),
    "gethostbyname": lambda: socket.gethostbyname("example.com"),
    "bind": _binds,
}


def test_a_request_that_a_library_s_stand_in_sends_is_refused() -> None:
    rows = pytest.importorskip("headrace_sim.spark.stores.http_calls", exc_type=ImportError).http_rows
    with guarded() as guard, pytest.raises(EffectRefusedError, match=r"test_guard\.py"):
        rows("requests")["get"]("http://127.0.0.1:9/")
    assert len(guard.refused) == 1


@pytest.mark.parametrize("effect", EFFECTS)
def test_an_effect_outside_the_process_is_refused_with_its_line(effect: str) -> None:
    with guarded() as guard, pytest.raises(EffectRefusedError, match=r"test_guard\.py") as refused:
        EFFECTS[effect]()
    assert isinstance(refused.value, OSError)  # which programs expect of a disk
    assert guard.refused == [(refused.value.effect, refused.value.place)]
    assert left() == ["there"]


@pytest.mark.parametrize("effect", ["write", "os.open"])
def test_an_effect_that_is_allowed_happens(effect: str) -> None:
    with guarded(allows_effects=True):
        EFFECTS[effect]()
    assert Path("new").exists()


def test_a_folder_is_not_made_and_that_is_noted() -> None:
    """A job that makes the folder of its checkpoint is not stopped by it; where calls are watched, it is an effect."""
    with guarded() as guard:
        os.makedirs("new/deep", exist_ok=True)  # noqa: PTH103  as jobs do
        Path("new").mkdir(exist_ok=True)
    assert left() == ["there"]
    assert {effect for effect, _ in guard.refused} == {"calls os.mkdir('new')", "calls os.mkdir('new/deep')"}
    with guarded(), effects_watched(lambda *_: None), pytest.raises(EffectRefusedError):
        Path("new").mkdir()


def test_a_guard_may_leave_effects_to_another_one_for_a_while() -> None:
    with guarded():
        with effects_let_through():
            Path("new").touch()
        with pytest.raises(EffectRefusedError):
            Path("newer").touch()


def _logs_to_a_file() -> None:
    handler = logging.FileHandler("log")
    handler.emit(logging.makeLogRecord({"msg": "x"}))
    handler.close()


def _uses_temporary_files() -> str:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as file:
        file.write("x")
        inside = Path(folder, "x")
        inside.write_text("mine")
        read = inside.read_text()
        shutil.rmtree(folder)
        Path(folder).mkdir()
        return read


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda: Path("there").read_text(), id="read"),
        pytest.param(socket.gethostname, id="hostname"),
        pytest.param(lambda: sqlite3.connect(":memory:").execute("CREATE TABLE t (n)"), id="memory"),
        pytest.param(lambda: Path(os.devnull).write_text("x"), id="null"),
        pytest.param(_logs_to_a_file, id="log"),
        pytest.param(_uses_temporary_files, id="temporary"),
    ],
)
def test_reading_and_files_of_its_own_are_left_alone(use: Callable[[], object]) -> None:
    with guarded() as guard:
        use()
    assert (guard.refused, left()) == ([], ["there"])


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda: os._exit(0), id="exit"),
        pytest.param(lambda: os.abort(), id="abort"),  # noqa: PLW0108  it is replaced later
        pytest.param(lambda: os.kill(os.getpid(), signal.SIGKILL), id="kill"),
        pytest.param(lambda: os.kill(0, signal.SIGKILL), id="group"),
        pytest.param(lambda: signal.raise_signal(signal.SIGKILL), id="raise"),
    ],
)
def test_what_would_end_the_process_is_an_exit_with_a_line(end: Callable[[], object]) -> None:
    with guarded(), pytest.raises(EndsProcessError, match=r"test_guard\.py") as ended:
        end()
    assert ended.value.code  # an exit code of 0 would be a verdict


def _starts_a_thread() -> None:
    thread = threading.Thread(target=threading.Event().wait)
    thread.start()
    assert thread.daemon


@pytest.mark.parametrize(
    "cripple",
    [
        pytest.param(lambda: sys.stdout.close(), id="stdout"),  # noqa: PLW0108  it is replaced later
        pytest.param(lambda: sys.stderr.close(), id="stderr"),  # noqa: PLW0108  it is replaced later
        pytest.param(lambda: os.closerange(0, 100), id="closerange"),
        pytest.param(lambda: os.close(1), id="close"),
        pytest.param(lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), 2), id="dup2"),
        pytest.param(lambda: signal.signal(signal.SIGALRM, signal.SIG_IGN), id="handler"),
        pytest.param(lambda: signal.alarm(1), id="alarm"),
        pytest.param(lambda: sys.setrecursionlimit(50), id="recursion"),
        pytest.param(lambda: atexit.register(os._exit, 0), id="atexit"),
        pytest.param(lambda: os.chdir("/"), id="chdir"),
        pytest.param(_starts_a_thread, id="thread"),
    ],
)
def test_what_would_cripple_the_process_does_nothing(cripple: Callable[[], object]) -> None:
    before = Path.cwd(), sys.getrecursionlimit(), signal.getsignal(signal.SIGALRM), os.fstat(1), os.fstat(2)
    with guarded():
        cripple()
    after = Path.cwd(), sys.getrecursionlimit(), signal.getsignal(signal.SIGALRM), os.fstat(1), os.fstat(2)
    assert after == before
    assert not sys.stdout.closed
    assert not signal.alarm(0)


def test_the_standard_input_is_empty() -> None:
    with guarded():
        assert sys.stdin.read() == ""
        assert os.read(0, 1) == b""
        with pytest.raises(EOFError):
            input()


def test_prints_are_collected_and_others_pass(capfd: pytest.CaptureFixture[str]) -> None:
    with guarded() as guard:
        sys.stdout.write("one\n")
        sys.stderr.write("two\n")
        os.write(2, b"three\n")
        sys.stdout.buffer.write(b"four\n")
        for _ in range(10_000):
            sys.stdout.write("more\n")
    sys.stdout.write("after\n")
    assert capfd.readouterr() == ("after\n", "")
    assert guard.printed.startswith("one\ntwo\nthree\nfour\n")
    assert len(guard.printed) < 10_000


def test_an_error_that_comes_of_a_refusal_is_known_by_it() -> None:
    def send() -> None:
        try:
            socket.getaddrinfo("example.com", 80)
        except OSError as error:
            raise RuntimeError("no answer") from error

    with guarded(), pytest.raises(RuntimeError) as raised:
        send()
    assert isinstance(refusal_in(raised.value), EffectRefusedError)
    assert refusal_in(ValueError()) is None


def test_an_effect_that_is_watched_is_reported_to_who_watches() -> None:
    seen: list[str] = []
    watched = effects_watched(lambda effect, _: seen.append(effect))
    with guarded() as guard, watched, pytest.raises(EffectRefusedError):
        Path("new").write_text("x")
    assert (seen, guard.refused) == (["writes the file 'new'"], [])
