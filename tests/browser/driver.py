"""A real headless Chromium, driven over its own debugging pipe: no package and no port is needed.

``with Browser() as browser: page = browser.open(html_or_path)``, then ``page.evaluate("…")``, ``page.click(x, y)``,
``page.wheel(x, y, dy)``, ``page.key("Enter")``, ``page.screenshot(path)``. ``page.console`` holds what the page
complained about: errors, warnings, uncaught exceptions, requests that left the machine. ``chromium()`` skips the test
where there is no browser.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--mute-audio",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
KEYS = {
    "Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "ArrowLeft": (37, ""), "ArrowUp": (38, ""),
    "ArrowRight": (39, ""), "ArrowDown": (40, ""), "Home": (36, ""), "End": (35, ""), " ": (32, " "),
}  # fmt: skip
SHIFT, CTRL = 8, 2
WIRED = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3), os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads commands from descriptor 3 and answers on 4."""


def chromium() -> str:
    """Path of a Chromium or Chrome; skips the test when there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = os.environ.get("UNSTALL_TEST_BROWSER") or next((p for n in names if (p := shutil.which(n))), None)
    if found is None:
        pytest.skip("no Chromium on this machine")
    return found


class Browser:
    """One browser process; leaves nothing behind."""

    def __init__(self) -> None:
        self._room = tempfile.mkdtemp(prefix="unstall-browser-")
        commands, self._out = os.pipe()
        self._in, answers = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", WIRED, str(commands), str(answers), chromium(), *FLAGS,
             f"--user-data-dir={self._room}", "about:blank"],
            pass_fds=(commands, answers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(commands)
        os.close(answers)
        self._buffer, self._number, self._pages = b"", 0, dict[str, Page]()

    def open(self, source: str | os.PathLike[str], width: int = 1280, height: int = 800, **options: Any) -> Page:
        """A page of its own from a file, or from HTML text; waits until it has loaded."""
        text = os.fspath(source)
        if text.lstrip().startswith("<"):
            file = Path(self._room) / f"page{self._number}.html"
            file.write_text(text, encoding="utf-8")
            text = os.fspath(file)
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        page = Page(self, self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        self._pages[page.session] = page
        page.prepare(width, height, **options)
        page.navigate(Path(text).resolve().as_uri())
        return page

    def send(self, method: str, session: str | None = None, timeout: float = 60, **params: Any) -> Any:
        """One command, and its answer; events that come meanwhile go to their pages."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        raw = json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0"
        while raw:
            raw = raw[os.write(self._out, raw) :]
        wanted, until = self._number, time.monotonic() + timeout
        while True:
            answer = self._read(until)
            if answer.get("id") == wanted:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def forget(self, page: Page) -> None:
        """Take no more events for a page."""
        self._pages.pop(page.session, None)

    def wait(self, until: float) -> None:
        """Take one event, or let the time pass."""
        self._read(until)

    def _read(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise RuntimeError("the browser has ended")
            self._buffer += piece
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        page = self._pages.get(message.get("sessionId", ""))
        if page is not None and "method" in message:
            page.event(message["method"], message["params"])
        return message

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        for fd in (self._in, self._out):
            os.close(fd)
        shutil.rmtree(self._room, ignore_errors=True)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Page:
    """One tab. Coordinates are CSS pixels of the window."""

    def __init__(self, browser: Browser, session: str) -> None:
        self.browser, self.session = browser, session
        self.console: list[str] = []
        self._loaded = False

    def send(self, method: str, timeout: float = 60, **params: Any) -> Any:
        return self.browser.send(method, self.session, timeout, **params)

    def prepare(self, width: int, height: int, mobile: bool = False, dark: bool | None = None, scale: int = 1) -> None:
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setDeviceMetricsOverride",
                  width=width, height=height, deviceScaleFactor=scale, mobile=mobile)  # fmt: skip
        if mobile:
            self.send("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
        if dark is not None:
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            self.send("Emulation.setEmulatedMedia", features=[scheme])

    def navigate(self, url: str, timeout: float = 60) -> None:
        self._loaded = False
        self.send("Page.navigate", url=url)
        until = time.monotonic() + timeout
        while not self._loaded:
            self.browser.wait(until)

    def event(self, method: str, params: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.console.append(str(details.get("exception", {}).get("description") or details.get("text")))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.console.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.console.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent" and params["request"]["url"].startswith(("http", "ws", "//")):
            self.console.append(f"request to {params['request']['url']}")

    def evaluate(self, expression: str, timeout: float = 60) -> Any:
        """The value of a JavaScript expression, promises awaited; a thrown error is raised here."""
        answer = self.send("Runtime.evaluate", timeout=timeout, expression=expression, awaitPromise=True,
                           returnByValue=True)  # fmt: skip
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def until(self, expression: str, timeout: float = 10) -> Any:
        """Waits for an expression to become true; its value."""
        end = time.monotonic() + timeout
        while not (value := self.evaluate(expression)):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {expression}")
            time.sleep(0.03)
        return value

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, width and height of an element."""
        code = f"(r => [r.left, r.top, r.width, r.height])(document.querySelector({json.dumps(selector)})"
        left, top, width, height = self.evaluate(code + ".getBoundingClientRect())")
        return left, top, width, height

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def move(self, x: float, y: float) -> None:
        self.mouse("mouseMoved", x, y)

    def click(self, x: float, y: float, count: int = 1) -> None:
        self.move(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=count)

    def click_on(self, selector: str) -> None:
        self.evaluate(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'nearest'}})")
        left, top, width, height = self.box(selector)
        self.click(left + width / 2, top + height / 2)

    def drag(self, x: float, y: float, to_x: float, to_y: float, steps: int = 8) -> None:
        self.move(x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        for i in range(1, steps + 1):
            self.mouse("mouseMoved", x + (to_x - x) * i / steps, y + (to_y - y) * i / steps, button="left", buttons=1)
        self.mouse("mouseReleased", to_x, to_y, button="left", clickCount=1)

    def wheel(self, x: float, y: float, dy: float, dx: float = 0, ctrl: bool = False) -> None:
        self.mouse("mouseWheel", x, y, deltaX=dx, deltaY=dy, modifiers=CTRL if ctrl else 0)

    def key(self, key: str, shift: bool = False) -> None:
        """One key: a character, or a name of :data:`KEYS`."""
        code, text = KEYS.get(key, (ord(key[0].upper()), key))
        common: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": code, "modifiers": SHIFT if shift else 0}
        self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        self.send("Input.insertText", text=text)

    def touch(self, kind: str, *points: tuple[float, float]) -> None:
        """``touchStart``, ``touchMove`` or ``touchEnd`` with that many fingers."""
        self.send("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y} for x, y in points])

    def screenshot(self, path: str | os.PathLike[str], full: bool = False) -> Path:
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        Path(path).write_bytes(base64.b64decode(shot["data"]))
        return Path(path)

    def close(self) -> None:
        """Close the tab."""
        self.send("Page.close")
        self.browser.forget(self)
