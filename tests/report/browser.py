"""Headless Chromium by its DevTools protocol over a pipe: no driver and no package is needed."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

EXECUTABLE = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--force-color-profile=srgb", "--remote-debugging-pipe",
]  # fmt: skip


class Browser:
    """One browser with one page in it."""

    def __init__(self, profile: Path, timeout: float = 60.0) -> None:
        assert EXECUTABLE is not None
        self._timeout, self._last, self._buffer = timeout, 0, b""
        self.problems: list[str] = []
        """console errors, exceptions and requests that left the page"""
        to_read, self._to_write = os.pipe()
        self._to_hear, to_say = os.pipe()

        def place() -> None:
            """Give the browser its ends: it reads from descriptor 3 and writes to descriptor 4."""
            high = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_read, to_say)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        command = [EXECUTABLE, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            command, preexec_fn=place, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_say)
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the page's protocol."""
        return self._call(method, self._session, **parameters)

    def open(self, page: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> float:
        """Open a page and return the seconds until it was drawn."""
        self.resize(width, height)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)
        started = time.perf_counter()
        self.call("Page.navigate", url=page.resolve().as_uri())
        ready = "document.documentElement && document.documentElement.dataset.ready === 'true'"
        while not self.evaluate(f"!!({ready}) && location.protocol === 'file:'"):
            if time.perf_counter() - started > self._timeout:
                raise TimeoutError(f"the page is not ready after {self._timeout} s: {self.problems}")
            time.sleep(0.02)
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
        return time.perf_counter() - started

    def resize(self, width: int, height: int) -> None:
        """Set the size of the window."""
        mobile = width < 500
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise AssertionError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def text(self, selector: str) -> str:
        """Return the text of the first element that a selector finds."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).textContent"))

    def count(self, selector: str) -> int:
        """Return how many elements a selector finds."""
        return int(self.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length"))

    def click(self, selector: str, place: int = 0) -> None:
        """Click an element that a selector finds, by default the first."""
        self.evaluate(f"document.querySelectorAll({json.dumps(selector)})[{place}].click()")

    def style(self, selector: str, name: str) -> str:
        """Return a computed style of the first element that a selector finds."""
        return str(self.evaluate(f"getComputedStyle(document.querySelector({json.dumps(selector)})).{name}"))

    def press(self, key: str) -> None:
        """Press a key on what has the focus."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def screenshot(self, file: Path, *, whole: bool = True) -> None:
        """Save a picture of the page."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        file.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(OSError, TimeoutError, EOFError):
            self._call("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._to_write)
        os.close(self._to_hear)

    def _call(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to_write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self._notice(answer.get("method", ""), answer.get("params", {}))

    def _notice(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(parameters["args"])[:500])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if not url.startswith(("file:", "data:", "about:")):
                self.problems.append(f"request to {url}")

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + self._timeout
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._to_hear], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            piece = os.read(self._to_hear, 1 << 20)
            if not piece:
                raise EOFError("the browser has ended")
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer
