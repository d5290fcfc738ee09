"""A headless Chromium, driven over the protocol that its driver speaks (W3C WebDriver)."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx2

__all__ = ["CHROMIUM", "DRIVER", "Browser", "Element", "browsing", "until"]

T = TypeVar("T")

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
_ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-device-scale-factor=1",
)
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key under which the protocol gives the id of an element."""
_SECONDS = 60.0


def until(found: Callable[[], T], seconds: float = _SECONDS) -> T:
    """The result of a call once it is true; fails if it does not become true."""
    end = time.monotonic() + seconds
    while not (told := found()):
        assert time.monotonic() < end, f"waited {seconds:g} s in vain"
        time.sleep(0.05)
    return told


@dataclass(frozen=True)
class Element:
    """An element of the page."""

    browser: Browser
    path: str

    @property
    def text(self) -> str:
        return str(self.browser.get(f"{self.path}/text"))

    def attribute(self, name: str) -> str | None:
        """An attribute, or a property such as ``value``."""
        told = self.browser.get(f"{self.path}/attribute/{name}")
        return None if told is None else str(told)

    def style(self, name: str) -> str:
        return str(self.browser.get(f"{self.path}/css/{name}"))

    def click(self) -> None:
        self.browser.post(f"{self.path}/click")

    def type(self, text: str) -> None:
        self.browser.post(f"{self.path}/value", text=text)

    def clear(self) -> None:
        self.browser.post(f"{self.path}/clear")


class Browser:
    """One window."""

    def __init__(self, session: str) -> None:
        self._session = session

    def open(self, url: str) -> None:
        self.post("url", url=url)

    def all(self, selector: str) -> list[Element]:
        """The elements that match a CSS selector now."""
        found = self.post("elements", using="css selector", value=selector)
        return [Element(self, f"element/{each[_ELEMENT]}") for each in found]

    def one(self, selector: str) -> Element:
        """The first matching element, once there is one."""
        return until(lambda: self.all(selector))[0]

    def focused(self) -> Element:
        return Element(self, f"element/{self.get('element/active')[_ELEMENT]}")

    def run(self, script: str) -> Any:
        """The result of a script of the test."""
        return self.post("execute/sync", script=script, args=[])

    def resize(self, width: int, height: int) -> None:
        self.post("window/rect", width=width, height=height)

    def prefer(self, scheme: str) -> None:
        """Show the page with a colour scheme, ``light`` or ``dark``."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.post(
            "goog/cdp/execute", cmd="Emulation.setEmulatedMedia", params={"features": features}
        )

    def picture(self, file: Path) -> None:
        """The visible page as a PNG."""
        file.write_bytes(base64.b64decode(self.get("screenshot")))

    def log(self) -> list[str]:
        """The complaints of the browser: faults of scripts, and content blocked by a policy."""
        return [each["message"] for each in self.post("se/log", type="browser")]

    def get(self, path: str) -> Any:
        return _value(httpx2.get(f"{self._session}/{path}", timeout=_SECONDS))

    def post(self, path: str, **body: Any) -> Any:
        return _value(httpx2.post(f"{self._session}/{path}", json=body, timeout=_SECONDS))


def _value(response: httpx2.Response) -> Any:
    told = response.json()["value"]
    assert response.status_code == 200, told
    return told


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """A browser with an empty profile, kept in ``folder``."""
    assert CHROMIUM is not None, "there is no Chromium"
    assert DRIVER is not None, "there is no driver for Chromium"
    options = {"binary": CHROMIUM, "args": [*_ARGUMENTS, f"--user-data-dir={folder}"]}
    wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
    with subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            port = next(
                found[1]
                for line in lines
                if (found := re.search(r"successfully on port (\d+)", line))
            )
            base = f"http://127.0.0.1:{port}/session"
            body = {"capabilities": {"alwaysMatch": wanted}}
            session = _value(httpx2.post(base, json=body, timeout=_SECONDS))["sessionId"]
            try:
                yield Browser(f"{base}/{session}")
            finally:
                httpx2.delete(f"{base}/{session}", timeout=_SECONDS)
        finally:
            process.kill()
