"""The HTML file of an answer: golden, self-contained, and with everything escaped."""

from __future__ import annotations

import math
from html.parser import HTMLParser
from pathlib import Path

from guided.inspection import (
    Branch,
    Fate,
    Origin,
    TracedToken,
    branch_tree,
    legend_of,
    page,
    step_summary,
    summary,
)
from guided.spec import TokenId
from tests.unit.inspection.test_terminal import EXAMPLE, VOCABULARY

GOLDEN = Path(__file__).with_name("answer.html")
EMPTY = {"meta"}
"""Elements without an end."""


class Reader(HTMLParser):
    """Checks that elements are nested, and keeps names, attributes and the text of each."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.titles: list[str] = []
        self.texts: dict[str, str] = {}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.titles += [value or "" for name, value in attrs if name == "title"]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in self.open:
            self.texts[tag] = self.texts.get(tag, "") + data


def written() -> str:
    step = EXAMPLE.trace.steps[3]
    return page(
        "An answer",
        summary(EXAMPLE.result),
        EXAMPLE.tokens,
        legend_of(EXAMPLE.tokens),
        {f"step 4: {step_summary(step)}": branch_tree(step, VOCABULARY, EXAMPLE.tokens)},
    )


def test_the_page_is_the_golden_one() -> None:
    assert written() == GOLDEN.read_text(encoding="utf-8")


def test_the_page_is_sound_and_fetches_nothing() -> None:
    text = written()
    read = Reader(text)
    assert read.texts["pre"] == EXAMPLE.result.text
    assert not read.names & {"script", "link", "img", "iframe", "object", "base"}
    assert read.attributes <= {"lang", "charset", "name", "content", "class", "title"}
    assert not [word for word in ("http", "url(", "@import") if word in text]


def test_a_token_tells_of_itself_under_the_pointer() -> None:
    titles = Reader(written()).titles
    red = VOCABULARY.spell("red")[0]
    # Of five allowed tokens the model gives one a logit of 2, and the others 0.
    likely = math.exp(2) / (math.exp(2) + 4)
    title = f"red  token {red}, step 1\ncopied (copy after 2 bytes)\nprobability {likely:.3f}"
    assert title in titles
    # Both bytes of the character are tokens.
    assert any("\\xc3  token" in title and "\\xa9  token" in title for title in titles)


def test_what_a_model_writes_is_never_markup() -> None:
    evil = '</pre><script>"&\x1b'
    tokens = [TracedToken(TokenId(3), evil.encode(), Origin.DRAFTED, 1, "<d>", "<k>")]
    tree = Branch(Fate.TRUNK, evil, evil, evil, (Branch(Fate.TAKEN, evil),))
    text = page(evil, evil, tokens, legend_of(tokens), {evil: tree})
    read = Reader(text)
    assert "script" not in read.names
    assert read.texts["pre"] == '</pre><script>"&\\x1b'
    assert read.titles == ['</pre><script>"&\\x1b  token 3, step 1\ndrafted by <d> (<k>)']
