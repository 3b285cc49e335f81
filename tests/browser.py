"""A headless Chromium, driven by its own protocol (CDP) through two pipes: needs no further package."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT_S = 60.0
# Chromium reads and writes descriptors 3 and 4, which may have the pipes in another order.
START = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(one), fcntl.F_DUPFD, 10) for one in sys.argv[1:3]]
os.dup2(pipes[0], 3)
os.dup2(pipes[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
           "--no-first-run", "--hide-scrollbars", "--disable-background-networking")  # fmt: skip


def find() -> str | None:
    """The program, if this machine has it."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Refused(Exception):
    """The browser refuses a command, such as one for a page that it has just left."""


class Browser:
    """One page of a browser.

    Attributes:
        complaints: errors of the console and of scripts, and requests that failed.
        origins: values of `Origin` in requests, such as those of forms.
    """

    def __init__(self, program: str, profile: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        start = [sys.executable, "-c", START, str(to_read), str(to_write)]
        command = [*start, program, *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, pass_fds=(to_read, to_write), stdout=quiet, stderr=quiet, start_new_session=True
        )
        os.close(to_read)
        os.close(to_write)
        os.set_blocking(self._read, False)
        self._numbers, self._held = itertools.count(1), b""
        self.complaints: list[str] = []
        self.origins: set[str] = set()
        self._session: str | None = None

    def __enter__(self) -> Browser:
        """Open an empty page."""
        try:
            self._open_page()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _open_page(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __exit__(self, *_: object) -> None:
        """End the browser."""
        with contextlib.suppress(OSError, AssertionError):
            self._session = None
            self.call("Browser.close")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(60)
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a command."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        for answer in self._messages():
            if answer.get("id") == number:
                if "error" in answer:
                    raise Refused(f"{method}: {answer['error']}")
                return answer["result"]
        raise AssertionError("the browser has ended")

    def look(self, width: int, scheme: str, height: int = 900) -> None:
        """Have a window of this width, and a person who prefers `light` or `dark`."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, url: str) -> None:
        """Open a page and wait until it is complete."""
        self.call("Page.navigate", url=url)
        self.until("location.href !== 'about:blank' && document.readyState === 'complete'")

    def ask(self, script: str) -> Any:
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def until(self, script: str) -> Any:
        """The first truthy value of an expression."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            with contextlib.suppress(Refused):  # the page is about to change
                if value := self.ask(script):
                    return value
            assert time.monotonic() < deadline, f"not within the time: {script}"
            time.sleep(0.05)

    def screenshot(self, path: Path) -> None:
        """Write what the window shows as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _messages(self) -> Iterator[dict[str, Any]]:
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            head, end, rest = self._held.partition(b"\0")
            if end:
                self._held = rest
                message = json.loads(head)
                self._note(message)
                yield message
                continue
            try:
                data = os.read(self._read, 1 << 20)
            except BlockingIOError:
                time.sleep(0.005)
                continue
            if not data:
                return
            self._held += data

    def _note(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(str(params["entry"]))
        elif method == "Network.responseReceived" and params["response"]["status"] >= 400:
            self.complaints.append(f"{params['response']['status']} {params['response']['url']}")
        elif method == "Network.requestWillBeSentExtraInfo" and "Origin" in params["headers"]:
            self.origins.add(params["headers"]["Origin"])
