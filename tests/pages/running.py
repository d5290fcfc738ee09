"""Runs the Python of a page on a server without a model: ``python -m tests.pages.running PAGE``."""

from __future__ import annotations

import contextlib
import io
import sys

import guided
from guided import testing
from tests.kit.pages import run_blocks
from tests.pages.stages import STAGES, Stage

__all__ = ["run_page"]


def run_page(page: str) -> None:
    """Run the blocks of a page in the current folder, which is empty, and check their results."""
    stage = STAGES.get(page, Stage())
    printed = io.StringIO()
    with (
        testing.Server(*stage.replies, http=True) as server,
        guided.Client(server.address) as client,
    ):
        given = {"__name__": "page", "guided": guided, "client": client, **stage.given()}
        here = {
            "localhost:50051": server.address,
            "http://127.0.0.1:8000/v1": server.http_url,
            "SmolLM2-135M-Instruct": "no model",
        }
        with contextlib.redirect_stdout(printed):
            names = run_blocks(page, given, here)
        stage.ends(names, server)
    assert stage.shows in printed.getvalue(), printed.getvalue()


if __name__ == "__main__":
    run_page(sys.argv[1])
