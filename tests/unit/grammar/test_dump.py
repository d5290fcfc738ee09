"""Printed grammars and networks: one golden text for each kind of grammar."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from guided.cli.grammars import dump_stages
from guided.grammar.dump import dump_grammar
from guided.grammar.lark import lower_lark

_GOLDENS = {
    "left recursion": (
        'start: start "+" N | N\nN: /[0-9]+/',
        """
        start: start "+" /[0-9]+/ | /[0-9]+/

        rule 0, at least 1 byte:
          0: [0-9] -> 1
          1 (end): "+" -> 0, [0-9] -> 1
        """,
    ),
    "ambiguity": (
        'start: start start | "a" | "(" start ")"',
        """
        start: start start | "a" | "(" start ")"

        rule 0, at least 1 byte:
          0: call 1 -> 1
          1 (end)
        rule 1, at least 1 byte:
          2: "(" -> 3, "a" -> 4
          3: call 1 -> 5
          4 (end): "(" -> 3, "a" -> 4
          5: ")" -> 4
        """,
    ),
    "lookaround": (
        'start: (OP | A)+\nOP: /[?](?![a-z])/\nA: /[a-z]/\n%ignore " "',
        """
        start: ("?"(?![a-z]) | [a-z])+
        %ignore " "

        rule 0, at least 1 byte:
          0: " " -> 0, "?" -> 1, [a-z] -> 2
          1 (end): " " -> 2, "?" -> 1
          2 (end): [ a-z] -> 2, "?" -> 1
        """,
    ),
    "hole": (
        'start: "<" %json {"type": "boolean"} ">" | "(" start ")" start?',
        """
        whole: 0:start
        0:%json 0: hole 0
        0:start: "<" 0:%json 0 ">" | "(" 0:start ")" 0:start?

        rule 0, at least 6 bytes:
          0: call 1 -> 1
          1 (end)
        rule 1, at least 6 bytes:
          2: "(" -> 3, "<" -> 4
          3: call 1 -> 5
          4: call 2 -> 6
          5: ")" -> 7
          6: ">" -> 8
          7 (end): "(" -> 3, "<" -> 4
          8 (end)
        rule 2: hole 0, begins with [ft], at least 4 bytes
        """,
    ),
}


@pytest.mark.parametrize("name", _GOLDENS)
def test_both_stages_of_a_grammar_are_printed(name: str, tmp_path: Path) -> None:
    text, expected = _GOLDENS[name]
    file = tmp_path / "a.lark"
    file.write_text(text)
    assert dump_stages(file) == dedent(expected).strip("\n")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('"a" ("b" | "c" "d")*', '"a" ("b" | "c" "d")*'),
        ('"a" ~ 2..3 ["b"]', '"a" ~ 2..3 "b"?'),
        (r"/\// /[^\n\"]/ /\\/", r'"/" [^\n\"] "\\"'),
        (r"/(ab|c){2,}d?/", "/(ab|c){2,}d?/"),
        (r'"\n\"é"', r'"\n\"\xe9"'),
        (r"/(?<!a)b(?=c)/", '(?<!a)"b"(?=c)'),
        ("", "()"),
    ],
)
def test_bodies_are_printed_as_they_could_be_written(written: str, expected: str) -> None:
    assert dump_grammar(lower_lark(f"start: {written}")) == f"start: {expected}"


def test_large_classes_and_word_lists_are_cut_short() -> None:
    shown = dump_grammar(lower_lark(r"start: /\w/"))
    assert shown.startswith("start: [0-9A-Z_a-z")
    assert shown.endswith("…]")
    assert len(shown) < 200
