"""Links between pages of the documentation lead to existing files and headings."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.kit.pages import PAGES, ROOT

FILES = [ROOT / page for page in PAGES]
PARSER = MarkdownIt().enable("table")


@cache
def inline(page: Path) -> list[tuple[Token, bool]]:
    """The texts of a page, each with whether it is a heading."""
    tokens = PARSER.parse(page.read_text("utf-8"))
    before = [None, *tokens[:-1]]
    return [
        (token, last is not None and last.type == "heading_open")
        for last, token in zip(before, tokens, strict=True)
        if token.type == "inline"
    ]


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: list[str] = []
    for token, is_heading in inline(page):
        if is_heading:
            text = "".join(child.content for child in token.children or ())
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            count = sum(
                re.fullmatch(rf"{re.escape(slug)}(-\d+)?", known) is not None for known in found
            )
            found.append(f"{slug}-{count}" if count else slug)
    return set(found)


def links(page: Path) -> list[str]:
    children = [child for token, _ in inline(page) for child in token.children or ()]
    told = [child.attrGet("href") or child.attrGet("src") for child in children]
    return [str(link) for link in told if link and "://" not in str(link)]


@pytest.mark.parametrize("page", FILES, ids=PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        to, _, anchor = link.partition("#")
        target = (page.parent / to).resolve() if to else page
        assert target.exists(), link
        assert not anchor or target.suffix != ".md" or anchor in anchors(target), link


def test_links_are_found() -> None:
    assert sum(len(links(page)) for page in FILES) > 200
