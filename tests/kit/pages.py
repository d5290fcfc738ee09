"""The pages of the documentation, and the blocks of code in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from markdown_it import MarkdownIt

__all__ = ["PAGES", "ROOT", "Block", "blocks", "run_blocks"]

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted(
    page.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/**/*.md", "examples/**/*.md")
    for page in ROOT.glob(pattern)
)
"""The pages, as paths in the repository."""


@dataclass(frozen=True)
class Block:
    page: str
    language: str
    text: str
    line: int
    """The line of the page where the text begins, from 0."""


def blocks(page: str, *languages: str) -> Sequence[Block]:
    """The blocks of some languages, in order."""
    tokens = MarkdownIt().parse((ROOT / page).read_text("utf-8"))
    return [
        Block(page, token.info, token.content, token.map[0] + 1)
        for token in tokens
        if token.type == "fence" and token.info in languages and token.map
    ]


def run_blocks(
    page: str, given: Mapping[str, Any], replaced: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run the Python of a page in its order, as one module; returns the names that it leaves.

    ``given`` has the names that the page takes for granted. ``replaced`` has texts that mean
    something else here, such as the address of a server. An error names the line of the page.
    """
    names = dict(given)
    for block in blocks(page, "python"):
        text = block.text
        for written, meant in (replaced or {}).items():
            text = text.replace(written, meant)
        # Future features are the page's: this file's "from __future__" must not reach the block.
        code = compile("\n" * block.line + text, page, "exec", dont_inherit=True)
        exec(code, names)  # noqa: S102 - our own page
    return names
