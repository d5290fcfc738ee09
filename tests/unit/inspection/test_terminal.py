"""The printed form of an answer: the example of docs/inspect.md."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from guided.inspection import (
    Origin,
    TracedToken,
    answer_view,
    branch_tree,
    legend_of,
    legend_view,
    step_summary,
    summary,
    tree_view,
)
from guided.spec import TokenId
from tests.kit.tiny_vocabulary import tiny_vocabulary
from tests.unit.inspection.scripted_answer import Scripted, scripted_answer

PAGE = Path(__file__).parents[3] / "docs" / "inspect.md"
PIECES = (b'{"', b'":', b'":"', b'","', b'"}', b"color", b"dark", b"true", b"fal", b"se", b"note")
VOCABULARY = tiny_vocabulary((*PIECES, b"blue", b"black", b"red", b"sky", b" is", b"deep"))
SCHEMA = """{"type": "object", "additionalProperties": false, "required": ["color", "dark", "note"],
 "properties": {"color": {"enum": ["red", "blue", "black"]}, "dark": {"type": "boolean"},
 "note": {"type": "string", "maxLength": 12}}}"""
EXAMPLE = scripted_answer(
    VOCABULARY, SCHEMA, 'sky:"red" is deep', '{"color":"red","dark":false,"note":"sky is é"}'
)


CYAN, YELLOW, BOLD_RED = "color(6)", "color(3)", "bold color(1)"


def printed(example: Scripted, steps: tuple[int, ...] = (), **options: Any) -> str:
    out = io.StringIO()
    console = Console(file=out, width=100, _environ={}, **options)
    legend = legend_of(example.tokens)
    console.print(answer_view(example.tokens, legend))
    console.print(legend_view(legend))
    console.print(summary(example.result), soft_wrap=True)
    for number in steps:
        step = example.trace.steps[number - 1]
        console.print(f"\nstep {number}: {step_summary(step)}", soft_wrap=True)
        console.print(tree_view(branch_tree(step, VOCABULARY, example.tokens)))
    return out.getvalue()


def test_the_example_of_the_page_is_printed_by_the_code() -> None:
    assert printed(EXAMPLE, (1, 4)).rstrip() in PAGE.read_text(encoding="utf-8")


def test_in_colours_the_answer_stands_there_as_it_is() -> None:
    first, *_ = printed(EXAMPLE, force_terminal=True, color_system="standard").splitlines()
    plain = Text.from_ansi(first)
    assert plain.plain == EXAMPLE.result.text
    styles = {plain.plain[span.start : span.end]: str(span.style) for span in plain.spans}
    assert styles["red"] == CYAN
    assert styles["fal"] == YELLOW
    assert styles["sky"] == BOLD_RED


def token(text: bytes, origin: Origin, **more: Any) -> TracedToken:
    return TracedToken(TokenId(7), text, origin, 1, **more)


def lines(tokens: list[TracedToken], width: int) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, _environ={})
    console.print(answer_view(tokens, legend_of(tokens)))
    return out.getvalue().splitlines()


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([b"abc", b"de"], ["abcd", "f--s", "e", "-"]),
        ([b"a\nb", b"\n"], ["a", "f", "b", "-", "", ""]),
        (["語a".encode(), b"b"], ["語ab", "f--s"]),
        (["語".encode()[:2], "語".encode()[2:]], ["語", "f-"]),
        ([b"\x1b[m", b"\tb"], ["\\x1b", "f---", "[m\\t", "--s-", "b", "-"]),
        ([b"[b]"], ["[b]", "f--"]),
    ],
    ids=["folded", "line breaks", "wide", "split character", "control characters", "no markup"],
)
def test_every_token_has_its_mark_below_its_first_cell(
    texts: list[bytes], expected: list[str]
) -> None:
    origins = (Origin.FORCED, Origin.SAMPLED)
    tokens = [token(text, origin) for text, origin in zip(texts, origins, strict=False)]
    assert [line.rstrip() for line in lines(tokens, 4)] == expected


def test_each_drafter_has_a_number_and_its_kinds() -> None:
    tokens = [
        token(b"a", Origin.DRAFTED, drafter="heads", kind="head 1"),
        token(b"b", Origin.SAMPLED),
        token(b"c", Origin.DRAFTED, drafter="draft"),
        token(b"d", Origin.DRAFTED, drafter="heads", kind="head 2"),
        token(b"e", Origin.DRAFTED, drafter="heads", kind="head 2"),
    ]
    legend = legend_of(tokens)
    assert [(entry.mark, entry.source, entry.num_tokens) for entry in legend.values()] == [
        ("1", "drafted by heads", 3),
        ("2", "drafted by draft", 1),
        ("s", "sampled", 1),
    ]
    assert legend["drafted by heads"].kinds == (("head 2", 2), ("head 1", 1))
    assert lines(tokens, 10) == ["abcde", "1s211"]
