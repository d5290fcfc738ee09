"""The playground: a page in the browser, and the calls it makes besides those of OpenAI's API.

Its calls are admitted like all others; see docs/playground.md.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp

from guided_service.http.call import Answers, Face
from guided_service.http.findings import Findings, describe_mask, read_drawing
from guided_service.http.page_files import PageFile, Redirect, page_files
from guided_service.http.watched import read_watched

__all__ = ["playground_gets", "playground_posts"]

_PATH: Final = "/playground"


def playground_gets(face: Face) -> dict[str, ASGIApp]:
    """Return the page and its files, by path."""
    pages = {
        f"{_PATH}/{name}": PageFile(face, name or ".html", text) for name, text in page_files()
    }
    # Relative, so that the page finds its files below the path.
    return {_PATH: Redirect(face, f"{_PATH[1:]}/"), **pages}


def playground_posts(face: Face) -> dict[str, ASGIApp]:
    """Return the playground's calls, by path."""
    return {
        f"{_PATH}/answer": Answers(
            face, "playground.answer", "watched-", read_watched, is_watched=True
        ),
        f"{_PATH}/mask": Findings(face, "playground.mask", describe_mask),
        f"{_PATH}/automaton": Findings(face, "playground.automaton", read_drawing),
    }
