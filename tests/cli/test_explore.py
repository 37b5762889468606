"""``headrace explore``: the page serves its own person only, and what is found on it by hand is saved, and found again."""

import json
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace_cli.actions import explore_action
from headrace_cli.runs.explorer_server import ExplorerServer
from headrace_cli.targets.loading import load_target
from headrace_properties.explorer.explorer import Explorer
from headrace_properties.proof.mutants import MUTANTS
from headrace_properties.search.moves import ScopedRuns
from headrace_properties.search.scope import Scope
from headrace_sim import SOUND, Protocol
from tests.cli.browser import PHONE, Browser, Screen, browser_in, needs_browser
from tests.cli.rig import Run, environment, save_zombie


@contextmanager
def served(name: str, protocol: Protocol = SOUND) -> Iterator[ExplorerServer]:
    """The page of a pipeline, in this process."""
    target = load_target(name, protocol=protocol)
    explorer = Explorer(target, ScopedRuns(target.application, Scope(), 0).trial())
    with ExplorerServer(
        explorer, lambda kind, position: explore_action._save(explorer, target, kind, position), 0
    ) as server:
        threading.Thread(target=server.serve, daemon=True).start()
        yield server


def ask(address: str, body: dict[str, Any] | None = None, **headers: str) -> tuple[int, Any]:
    """Status and document of an answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, headers)  # noqa: S310  of this process
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  as above
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.usefixtures("folder")
def test_the_same_position_is_the_same_state_and_a_wrong_one_is_refused() -> None:
    with served("views:pipeline") as server:
        first = ask(f"{server.address}state?choices=&at=60")
        assert first == ask(f"{server.address}state?choices=&at=60")
        assert first[0] == 200
        assert {process["address"] for process in first[1]["cluster"]["processes"]} >= {"worker-0", "views/0"}
        status, problem = ask(f"{server.address}state?choices=60.9999&at=61")
        assert (status, "no such choice" in problem["error"]) == (400, True)


@pytest.mark.usefixtures("folder")
def test_other_sites_reach_nothing() -> None:
    """A rebound name, an address without the token, and a form of another site."""
    with served("views:pipeline") as server:
        origin, _, token = server.address.rstrip("/").rpartition("/")
        assert ask(server.address, Host="evil.example")[0] == 403
        assert ask(f"{origin}/state?at=0")[0] == 404
        assert ask(f"{origin}/{token[:-1]}x/state?at=0")[0] == 404
        saved = {"kind": "replay"}
        json_type = {"Content-Type": "application/json"}
        assert ask(f"{server.address}save", saved, Origin="http://evil.example", **json_type)[0] == 403
        assert ask(f"{server.address}save", saved, **json_type)[0] == 403
        assert ask(f"{server.address}save", saved, Origin=origin, **{"Content-Type": "text/plain"})[0] == 403
        assert not list(Path().glob("headrace-explored-*"))
        assert ask(f"{server.address}save", saved, Origin=origin, **json_type)[0] == 200
        assert len(list(Path().glob("headrace-explored-*"))) == 1
        assert ask(f"{server.address}save", {"kind": "x"}, Origin=origin, **json_type)[0] == 400
        assert server._server.server_address[0] == "127.0.0.1"


def test_the_command_prints_the_address_and_ends_with_ctrl_c(folder: Path) -> None:
    """Of a replay file: its plan is shown, and its steps are there."""
    command = [sys.executable, "-m", "headrace_cli", "explore", str(save_zombie(folder))]
    with subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+/\S+/", line)
            assert address, line
            status, state = ask(f"{address[0]}state?at=0")
            assert status == 200
            assert [words for words in state["planned"] if "pause process=worker-0" in words]
            assert {shown["name"] for shown in state["verdicts"] if shown["verdict"] == "breaks"} >= {"S6"}
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0


def test_options_that_a_file_decides_are_refused(folder: Path, run: Run) -> None:
    result = run("explore", str(save_zombie(folder)), "--records", "2")
    assert result.exit_code == 2
    assert "records=2" in result.stderr


DRIVE = """
  const pause = () => new Promise((go) => setTimeout(go, 5));
  const idle = async () => { do await pause(); while (document.body.getAttribute('aria-busy') !== 'false'); };
  const press = async (key) => { dispatchEvent(new KeyboardEvent('keydown', { key })); await idle(); };
  const until = async (words) => {
    do await press('ArrowRight'); while (!$('next').textContent.startsWith(words) && !$('on').disabled);
  };
  const click = async (...words) => {
    const buttons = [...document.querySelectorAll('#possible button')];
    const found = buttons.find((one) => words.every((each) => one.textContent.includes(each)));
    if (!found) throw new Error(`no choice ${words}`);
    found.click();
    await idle();
  };
  const back = () => new Promise((go) => { addEventListener('popstate', go, { once: true }); history.back(); }).then(idle);
  const note = (name) => { document.body.dataset[name] = $('alarm').textContent || 'nothing'; };
  await idle();
  $('kind').value = 'work';
  %s;"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    yield from browser_in(tmp_path_factory.mktemp("browser"))


def driven(
    browser: Browser, server: ExplorerServer, script: str, screen: Screen | None = None
) -> dict[str, str]:
    """What a script notes in the page."""
    browser.open(server.address, screen or Screen())
    browser.run(f"(async () => {{ {DRIVE % script} }})()")
    assert not browser.complaints
    notes: dict[str, str] = browser.run("({ ...document.body.dataset })")
    return notes


@needs_browser
def test_zombie_write_is_found_by_hand_undone_and_saved(folder: Path, run: Run, browser: Browser) -> None:
    """Hold a write, move its keys, and let the write go: with no sequencers it is applied (Figure 12)."""
    script = """
      await until('worker-0 receives: Deliver');
      await click('Write of', 'is held');
      await click('move the keys', 'from worker-0 to worker-1');
      note('before');
      await until('worker-1 receives: Written');
      await press('ArrowRight');
      await click('Write', 'is let go');
      await press('End');
      note('after');
      await press('ArrowLeft');
      while (document.querySelectorAll('#choices li').length > 2) await press('ArrowLeft');
      await press('End');
      note('undone');
      await back(); await back();
      $('choices').querySelectorAll('button')[1].click(); await idle();
      document.body.dataset.left = document.querySelectorAll('#choices li').length;
      await click('move the keys', 'from worker-0 to worker-1');
      await until('worker-1 receives: Written');
      await press('ArrowRight');
      await click('Write', 'is let go');
      const got = await save('replay');
      document.body.dataset.saved = got.path;
      document.body.dataset.shows = got.shows;"""
    with served("views:pipeline", MUTANTS["without sequencers"]) as server:
        notes = driven(browser, server, script)
    assert notes["before"] == notes["undone"] == "nothing"
    assert "S6 broken: only the latest owner writes" in notes["after"]
    assert notes["left"] == "1"
    assert "S6" in notes["shows"]
    again = run("replay", notes["saved"])
    assert again.exit_code == 1
    assert "The run is the recorded one, byte for byte" in again.stdout


@needs_browser
@pytest.mark.usefixtures("folder")
def test_keyboard_stays_where_it_was_after_a_choice(browser: Browser) -> None:
    """The button that was pressed is gone: what comes next has the focus, and Tab goes on to the choices."""
    with served("views:pipeline") as server:
        driven(
            browser,
            server,
            "await until('worker-0 receives: Deliver'); $('possible').querySelector('button').focus()",
        )
        browser.press("Enter")
        browser.run(
            "new Promise((go) => { const look = () => state.choices.length ? go() : setTimeout(look, 5); look(); })"
        )
        assert browser.run("document.activeElement.id") == "next"
        browser.press("Tab")
        assert browser.run("document.activeElement.closest('#possible') !== null")


@needs_browser
@pytest.mark.usefixtures("folder")
def test_users_cursed_hook_is_shown_on_a_phone(browser: Browser) -> None:
    script = """
      document.body.dataset.cursed = $('error').textContent.includes('this window is cursed');
      document.body.dataset.wide = document.documentElement.scrollWidth > innerWidth;
      await until('worker-0 receives: Deliver');
      $('diagram').open = true;
      while (!$('diagram').querySelector('iframe')?.contentDocument?.querySelector('[data-event]')) await pause();
      const drawn = $('diagram').querySelector('iframe').contentDocument.querySelectorAll('[data-event]');
      document.body.dataset.drawn = drawn.length > 5;"""
    with served("failing:pipeline") as server:
        notes = driven(browser, server, script, PHONE)
    assert (notes["cursed"], notes["wide"], notes["drawn"]) == ("true", "false", "true")
