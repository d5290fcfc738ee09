"""The parser that grammars are compared with: its verdicts on prefixes, checked by hand."""

from __future__ import annotations

import pytest

from guided.grammar.context_free import Alternation, Body, Call, Concatenation, Repetition, Terminal
from guided.regular.expression import literal
from tests.kit.earley import Earley
from tests.kit.grammars import spelled

_A, _B = Terminal(literal("a")), Terminal(literal("b"))
_PALINDROMES = Alternation(
    (Concatenation((_A, Call("s"), _A)), Concatenation((_B, Call("s"), _B)), Concatenation(()))
)


@pytest.mark.parametrize(
    ("rules", "text", "verdicts"),
    [
        ({"s": _A}, "ab", ".+-"),
        ({"s": Alternation((Concatenation((Call("s"), _A)), _B))}, "baab", ".+++-"),
        ({"s": _PALINDROMES}, "abba", "+...+"),
        ({"s": Alternation((Call("s"), _A))}, "a", ".+"),
        ({"s": Concatenation((Call("t"), Call("t"), _A)), "t": Concatenation(())}, "a", ".+"),
        ({"s": Alternation((Concatenation((_A, Call("t"))), _B)), "t": Call("t")}, "a", ".-"),
        ({"s": Call("s")}, "a", "--"),
        ({"s": Repetition(_A, 1, 2)}, "aaa", ".++-"),
        ({"s": Repetition(_A, 2, None)}, "aaa", "..++"),
    ],
)
def test_every_prefix_is_a_text_or_the_beginning_of_one_or_of_none(
    rules: dict[str, Body], text: str, verdicts: str
) -> None:
    assert Earley(rules, lambda terminal: spelled(terminal.regular)).verdicts(text) == verdicts


def test_terminals_are_patterns_and_ignored_text_stands_before_them_and_at_the_end() -> None:
    earley = Earley({"s": Concatenation((_A, _B))}, lambda _: "x(?:yz)?", "_")
    assert earley.verdicts("_xy") == "...."
    assert earley.verdicts("_xyz_x__") == "......+++"
    assert earley.verdicts("x_yz") == "...--"
