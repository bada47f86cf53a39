"""A headless Chromium over a pipe, in the words of its DevTools protocol: no package is needed.

`Browser` starts it, `Tab` opens any address or file, clicks, types, looks, and keeps a list
of what went wrong and of what was asked for.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # root has none
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)


def find_chromium() -> str | None:
    """Return the browser on PATH, if there is one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """A running browser. It is asked in turn: one command, one answer."""

    def __init__(self, program: str, folder: Path) -> None:
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        line = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'
        flags = [*_FLAGS, f"--user-data-dir={folder}", "about:blank"]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", line, program, *flags], pass_fds=(commands, answers), **quiet
        )
        os.close(commands)
        os.close(answers)
        self._number, self._rest = 0, b""
        self._tabs: dict[str, Tab] = {}

    def ask(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command and return its result; events that come first go to their tabs."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        message |= {"sessionId": session} if session else {}
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            found = self.read(PATIENCE)
            if found.get("id") == self._number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']['message']}")
                answer: dict[str, Any] = found["result"]
                return answer

    def read(self, seconds: float) -> dict[str, Any]:
        """Return the next message; an event is handed to its tab."""
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], seconds)
            if not ready:
                raise TimeoutError(f"the browser said nothing for {seconds} s")
            part = os.read(self._answers, 1 << 20)
            if not part:
                raise RuntimeError("the browser has gone")
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message and message.get("sessionId") in self._tabs:
            self._tabs[message["sessionId"]].hear(message["method"], message["params"])
        return message

    def open(self) -> Tab:
        """Return a new tab."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._tabs[session] = Tab(self, session, target)
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._tabs[session].ask(f"{domain}.enable")
        return self._tabs[session]

    def close(self) -> None:
        """End it."""
        try:
            self.ask("Browser.close")
        except (RuntimeError, TimeoutError, OSError):
            self._process.kill()
        self._process.wait(PATIENCE)
        os.close(self._commands)
        os.close(self._answers)


class Tab:
    """A page in a browser.

    Attributes
    ----------
    errors : list of str
        What the console said: errors, warnings, exceptions, what a policy refused.
    requests : list of str
        Addresses that were asked for, those of the page itself among them.
    """

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser, self._session, self._target = browser, session, target
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._loaded = False

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command to this tab."""
        return self._browser.ask(method, self._session, **params)

    def hear(self, method: str, params: dict[str, Any]) -> None:
        """Note an event."""
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(params["args"])[:500])

    def goto(self, place: str | Path, *, dark: bool = False, width: int = 1200, offline: bool = True) -> Tab:
        """Open a file or an address, and wait until it is there and still.

        Parameters
        ----------
        place
            A file, or an address.
        dark
            Whether the reader's system is dark.
        width
            Of the window.
        offline
            Whether there is no network.
        """
        self.set_dark(dark)
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        limits = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.ask("Network.emulateNetworkConditions", offline=offline, **limits)
        self._loaded = False
        address = place.resolve().as_uri() if isinstance(place, Path) else place
        self.ask("Page.navigate", url=address)
        end = time.monotonic() + PATIENCE
        while not self._loaded:
            self._browser.read(end - time.monotonic())
        return self.settle()

    def set_dark(self, dark: bool) -> Tab:
        """Say what the reader's system prefers."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[feature])
        return self

    def evaluate(self, script: str) -> Any:
        """Return what an expression is; a promise is awaited."""
        found = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"])[:800])
        return found["result"].get("value")

    def settle(self) -> Tab:
        """Wait until what was begun is drawn."""
        self.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
        )
        return self

    def click(self, selector: str, at: int = 0) -> Tab:
        """Click the middle of an element, with the mouse."""
        box = self.evaluate(
            f"(() => {{ const e = document.querySelectorAll({json.dumps(selector)})[{at}];"
            "e.scrollIntoView({block: 'center', behavior: 'instant'}); const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        where = {"x": box[0], "y": box[1], "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, **where)
        return self.settle()

    def press(self, key: str, code: int) -> Tab:
        """Press a key: its name, and its number as Windows has it."""
        text = {"Enter": "\r", " ": " "}.get(key)
        more = {} if text is None else {"text": text}
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more)
        return self.settle()

    def picture(self, path: Path) -> Path:
        """Write the whole page as a PNG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        data = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))
        return path

    def close(self) -> None:
        """Close the tab."""
        self._browser.ask("Target.closeTarget", targetId=self._target)
