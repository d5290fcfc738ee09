"""Whether the text of a grammar is EBNF or Lark's format."""

from __future__ import annotations

import pytest

from guided.spec import Ebnf, Lark
from guided.spec.grammar_format import grammar_of


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('root ::= "a"', Ebnf),
        ('# %llguidance\nroot ::= "a"', Ebnf),
        ('start: "a"', Lark),
        ('%llguidance {}\nstart: "a"', Lark),
        ('\n %llguidance {}\nstart: "::="', Lark),
        ("", Lark),
    ],
)
def test_a_grammar_is_read_by_its_signs(text: str, kind: type[Ebnf | Lark]) -> None:
    assert grammar_of(text) == kind(text)
