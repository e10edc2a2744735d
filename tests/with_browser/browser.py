"""Debian's Chromium without a window, driven by its DevTools protocol over two pipes."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = "/usr/bin/chromium"
OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
)
TIMEOUT_S = 60.0


class Page:
    """One page of a browser. Everything that is asked is answered within TIMEOUT_S, or the test fails."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._buffer = b""
        self._number = 0
        self._session = ""
        # What the page and the browser have complained of.
        self.complaints: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def _read(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise AssertionError(f"the browser did not answer within {TIMEOUT_S:.0f} s; it said {self.complaints}")
            part = os.read(self._from, 1 << 20)
            assert part, f"the browser has ended; it said {self.complaints}"
            self._buffer += part
        line, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(line)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._read(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        found = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = found["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description") or details["text"])
        elif event.get("method") == "Log.entryAdded" and found["entry"]["level"] == "error":
            self.complaints.append(f"{found['entry']['text']} {found['entry'].get('url', '')}")

    def go(self, url: str) -> None:
        """Begins to load a page."""
        failed = self._call("Page.navigate", url=url).get("errorText")
        assert not failed, failed

    def ask(self, expression: str) -> Any:
        """The value of an expression of JavaScript, which may be a promise."""
        options = {"returnByValue": True, "awaitPromise": True}
        answer = self._call("Runtime.evaluate", expression=expression, **options)
        details = answer.get("exceptionDetails")
        assert details is None, details.get("exception", {}).get("description", details)
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        """What a reader sees in one element; empty if it is hidden."""
        return self.ask(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def wait_for(self, expression: str, timeout_s: float = 30.0) -> Any:
        """Asks until the value is a true one, and returns it."""
        deadline = time.monotonic() + timeout_s
        while not (value := self.ask(expression)):
            seen = self.ask("document.body?.innerText.slice(0, 3000)")
            assert time.monotonic() < deadline, f"not within {timeout_s} s: {expression}\n{seen}\n{self.complaints}"
            self.ask("new Promise((done) => setTimeout(done, 50))")
        return value

    def wait_for_text(self, selector: str, part: str, timeout_s: float = 30.0) -> None:
        """Until an element that is visible has this text in it."""
        look = f"(document.querySelector({json.dumps(selector)})?.innerText ?? '').includes({json.dumps(part)})"
        self.wait_for(look, timeout_s)

    def press(self, key: str) -> None:
        """A key, with its name as in KeyboardEvent.key."""
        for kind in ("rawKeyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEY_CODES[key])

    def resize(self, width: int, height: int) -> None:
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, name: str) -> None:
        """ "light" or "dark"."""
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def downloads_go_to(self, folder: Path) -> None:
        self._call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def picture(self, path: Path, **options: Any) -> None:
        """Writes what the window shows; WebP or PNG by the name."""
        shot = self._call("Page.captureScreenshot", format=path.suffix[1:], **options)
        path.write_bytes(base64.b64decode(shot["data"]))


KEY_CODES = {"Tab": 9, "ArrowRight": 39, "ArrowDown": 40, "End": 35, "Enter": 13}


@contextmanager
def browser() -> Iterator[Page]:
    """A new browser with one page; nothing of it is left at the end."""
    folder = tempfile.mkdtemp(prefix="farandole-browser-")
    # The browser reads from descriptor 3 and writes to 4.
    (its_in, to_browser), (from_browser, its_out) = os.pipe(), os.pipe()
    # Chromium's sandbox refuses to work for root.
    options = [*OPTIONS, f"--user-data-dir={folder}", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    shell = f'exec 3<&{its_in} 4>&{its_out}; exec {PROGRAM} "$@"'
    process = subprocess.Popen(
        ["bash", "-c", shell, "chromium", *options, "about:blank"],
        pass_fds=(its_in, its_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": folder},
        start_new_session=True,
    )
    os.close(its_in)
    os.close(its_out)
    try:
        yield Page(to_browser, from_browser)
    finally:
        # It ends when nobody drives it any more.
        os.close(to_browser)
        os.close(from_browser)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)
