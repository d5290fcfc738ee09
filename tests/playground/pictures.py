"""Takes the pictures of the docs again, from the current page.

`python -m tests.playground.pictures [FOLDER]`

Needs the default model, Chromium and its driver.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.playground.chromium import Browser, browsing, until
from tests.service.http_server import serving_http
from tests.service.server_process import REAL_SERVER

_DOCS = Path(__file__).parents[2] / "docs/pictures"
_LOADING_SECONDS = 300.0


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else _DOCS
    with (
        TemporaryDirectory() as own,
        serving_http(REAL_SERVER, Path(own, "log"), timeout=_LOADING_SECONDS) as server,
        browsing(Path(own, "profile")) as page,
    ):
        page.open(f"{server.url}/playground/")
        until(lambda: "tokens" in page.one("#model").text)
        page.resize(1440, 1220)
        _answer(page, "a support ticket")
        _choose(page, "network")
        until(lambda: page.all("#panel-token details[open] code"))
        page.picture(folder / "playground-token.png")
        page.prefer("dark")
        _answer(page, "a support ticket")
        _choose(page, "network")
        page.one("#tab-tree").click()
        page.picture(folder / "playground-tree.png")
        page.prefer("light")
        page.resize(1440, 1000)
        _answer(page, "a date")
        page.one("#tab-automaton").click()
        until(lambda: page.all("#panel-automaton svg"))
        page.picture(folder / "playground-automaton.png")


def _answer(page: Browser, example: str) -> None:
    """Generate the answer of an example."""
    page.one("#example").type(example)
    page.run("document.querySelector('#cost').replaceChildren()")
    page.one("#run").click()
    until(lambda: page.all("#cost table"))


def _choose(page: Browser, text: str) -> None:
    """Select the last token with this text."""
    chosen = [each for each in page.all("#answer [role=option]") if each.text == text]
    chosen[-1].click()
    until(lambda: page.all("#panel-token tr.chosen"))


if __name__ == "__main__":
    main()
