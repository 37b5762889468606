"""A Chromium that tests drive: real keys, screens of any size, and what a page writes to its console.

The browser is spoken to over a pipe, in the Chrome DevTools Protocol, so that it needs no driver and no network.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

needs_browser = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine")

_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-extensions",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
_READY = """new Promise((go) => {
  const said = () => document.body?.dataset.ready || document.body?.dataset.at;
  const plain = () => document.readyState === 'complete' && !document.scripts.length && location.protocol !== 'about:';
  const look = () => (said() || plain() ? go() : setTimeout(look, 10));
  look();
})"""
_FIRST_FREE = 10
"""The browser's end of the pipe is at 3 and 4; the ends here are above them."""
_LONGEST_S = 120
_KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36}
_KEYS |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


@dataclass(frozen=True, slots=True)
class Screen:
    """What a page is shown on: width and height in pixels, and how its owner likes pages."""

    width: int = 1500
    height: int = 1000
    is_phone: bool = False
    is_dark: bool = False
    has_reduced_motion: bool = False


PHONE = Screen(390, 844, is_phone=True)


class Browser:
    """A browser with one page, within a ``with`` block.

    Attributes:
        complaints: errors and warnings of the page's console since it was opened.
    """

    def __init__(self, profile: Path) -> None:
        self.complaints: list[str] = []
        self._number, self._session, self._buffer = 0, "", b""
        theirs_in, self._out = map(_above, os.pipe())
        self._in, theirs_out = map(_above, os.pipe())
        command = [str(BROWSER), *_OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
        ends = [(os.POSIX_SPAWN_DUP2, theirs_in, 3), (os.POSIX_SPAWN_DUP2, theirs_out, 4)]
        self._pid = os.posix_spawn(command[0], command, os.environ, file_actions=[*quiet, *ends], setpgroup=0)
        os.close(theirs_in)
        os.close(theirs_out)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        """The browser has started."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, and the processes that it started."""
        os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask for something, and return the answer; what the page complains of meanwhile is kept."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        session = {"sessionId": self._session} if self._session else {}
        os.write(self._out, json.dumps(asked | session).encode() + b"\0")
        while (message := self._next()).get("id") != self._number:
            self._note(message)
        assert "error" not in message, (method, message)
        result: dict[str, Any] = message["result"]
        return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert select.select([self._in], [], [], _LONGEST_S)[0], "the browser does not answer"
            more = os.read(self._in, 1 << 20)
            assert more, "the browser has ended"
            self._buffer += more
        message, _, self._buffer = self._buffer.partition(b"\0")
        read: dict[str, Any] = json.loads(message)
        return read

    def _note(self, message: dict[str, Any]) -> None:
        about = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(str(about["exceptionDetails"].get("exception", about)))
            case "Log.entryAdded" if about["entry"]["level"] in ("error", "warning"):
                self.complaints.append(about["entry"]["text"])
            case "Runtime.consoleAPICalled" if about["type"] in ("error", "warning", "assert"):
                self.complaints.append(str(about["args"]))
            case _:
                pass

    def open(self, address: str, screen: Screen = Screen()) -> None:
        """Show a page on a screen; if it has scripts, wait until it says ``data-ready`` or ``data-at``."""
        size = {"width": screen.width, "height": screen.height, "deviceScaleFactor": 1}
        self.call("Emulation.setDeviceMetricsOverride", **size, mobile=screen.is_phone)
        likes = {
            "prefers-color-scheme": "dark" if screen.is_dark else "light",
            "prefers-reduced-motion": "reduce" if screen.has_reduced_motion else "no-preference",
        }
        features = [{"name": name, "value": value} for name, value in likes.items()]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call(
            "Page.navigate", url="about:blank"
        )  # else another address of the same page does not load it
        self.complaints.clear()
        self.call("Page.navigate", url=address)
        self.run(_READY)

    def run(self, script: str) -> Any:
        """Evaluate an expression in the page, wait for its promise, and return its value."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press keys, one after another."""
        for key in keys:
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            code = {"key": key, "windowsVirtualKeyCode": _KEYS.get(key) or ord(key.upper())}
            self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **code)
            self.call("Input.dispatchKeyEvent", type="keyUp", **code)

    def picture(self) -> bytes:
        """What is on the screen, as a PNG file."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])


def browser_in(folder: Path) -> Iterator[Browser]:
    """The body of a fixture: a browser that keeps its profile in a folder."""
    with Browser(folder / "profile") as browser:
        yield browser


def _above(number: int) -> int:
    moved = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
    os.close(number)
    return moved
