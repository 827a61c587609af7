"""A headless Chromium, spoken to over its own pipe (`--remote-debugging-pipe`): no port, no driver."""

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

DESK, PHONE = (1280, 900), (390, 844)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --remote-debugging-pipe "
    "--disable-ipc-flooding-protection"  # a test changes the address more often than a reader can
)


def find_chrome() -> str | None:
    """Return the path of a Chromium or Chrome."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chrome:
    """One page in a browser; use it as a context manager. `events` holds what the browser reported."""

    def __init__(self, executable: str, profile: Path) -> None:
        from_us, self._out = os.pipe()
        self._in, to_us = os.pipe()
        # The browser reads its descriptor 3 and writes to 4.
        command = f'exec "$0" {FLAGS} --user-data-dir="$1" about:blank 3<&{from_us} 4>&{to_us}'
        self.process = subprocess.Popen(
            ["bash", "-c", command, executable, str(profile)],
            pass_fds=(from_us, to_us),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(from_us)
        os.close(to_us)
        self.events: list[dict[str, Any]] = []
        self._rest, self._number, self._session = b"", 0, ""

    def __enter__(self) -> "Chrome":
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._out)
        os.close(self._in)
        self.process.kill()
        self.process.wait()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._in, 1 << 20)
            assert part, "the browser has gone"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def screen(self, width: int, height: int, *, mobile: bool = False, scale: float = 1) -> None:
        """Look through a screen of this size in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=mobile,
        )

    def open(self, file: Path, fragment: str = "") -> None:
        """Load a page, at a `#fragment` if given, and wait until its images have been decoded."""
        address = file.resolve().as_uri()
        for url in ["about:blank"] * bool(fragment) + [address + fragment]:  # else it would only move on the page
            self.events.clear()
            self.call("Page.navigate", url=url)
            while not any(event["method"] == "Page.loadEventFired" for event in self.events):
                self.events.append(self._read())
        self.run("Promise.all([...document.images].map(image => image.decode().catch(() => null))).then(() => 0)")

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression."""
        out = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in out, out
        return out["result"].get("value")

    def wait_until(self, script: str, seconds: float = 60) -> None:
        """Wait until a JavaScript expression is true."""
        end = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < end, f"not true after {seconds:g} s: {script}"
            time.sleep(0.05)

    def press(self, key: str) -> None:
        """Press and release a key."""
        code, text = {"Tab": (9, ""), "Enter": (13, "\r"), "ArrowRight": (39, ""), "PageDown": (34, "")}[key]
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def click(self, x: float, y: float) -> None:
        """Click at a place of the screen, in CSS pixels."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def complaints(self) -> list[dict[str, Any]]:
        """Return errors and warnings since the page was opened."""
        quiet = ("info", "debug")
        noisy = {"Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"}
        found = [event for event in self.events if event["method"] in noisy]
        return [event for event in found if event["params"].get("type") not in quiet]

    def fetched(self) -> list[str]:
        """Return the addresses that the page has asked for, but for those that it holds itself."""
        asked = [event["params"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
        urls = [params["request"]["url"] for params in asked]
        return [url for url in urls if not url.startswith(("data:", "blob:"))]

    def screenshot(self, file: Path, *, whole: bool = False) -> None:
        """Write what is seen, or the `whole` page, as PNG."""
        out = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(out["data"]))

    def pdf(self) -> bytes:
        """Return the page as printed on A4."""
        out = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=False)
        return base64.b64decode(out["data"])
