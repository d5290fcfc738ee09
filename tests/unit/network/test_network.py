"""What is left of a grammar's recursion once it is a network."""

from __future__ import annotations

from typing import Any

import pytest

from guided.automata.dfa import Dfa
from guided.frontends.lark import lower_lark
from guided.library import read_grammar
from guided.network import Network, inlining, network_from_grammar, recursion
from guided.network.callers import reached_rules
from guided.network.components import components
from guided.network.first_bytes import call_order


def _network(text: str) -> Network:
    network = network_from_grammar(lower_lark(text))
    network.check()
    return network


@pytest.mark.parametrize(
    "text",
    [
        'start: "a" start | "b"',
        'start: start "a" | "b"',
        'start: start start | "a"',
        'start: start "+" start | start "*" start | "-" start | "a"',
        'start: a "x" | "1"\na: start "y" | "2"',
        'start: (a ",")* a\na: b | c\nb: "b"\nc: "c" b',
        'start: a start | a\na: "x" | "y" a',
    ],
)
def test_what_is_regular_at_heart_is_one_automaton(text: str) -> None:
    assert len(_network(text).starts) == 1


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ('start: "(" start ")" |', 2),
        ('start: e\ne: e "+" p | p\np: p "*" a | a\na: "1" | "(" e ")"', 2),
        ('start: v\nv: o | l\no: "{" [m] "}"\nm: "k" ":" v ["," m]\nl: "[" [v ("," v)*] "]"', 2),
    ],
)  # fmt: skip
def test_few_rules_are_called(text: str, rules: int) -> None:
    assert len(_network(text).starts) == rules


@pytest.mark.parametrize(("name", "rules"), [("json", 2), ("sql_select", 4), ("xml_fragment", 2)])
def test_rules_of_the_library_are_written_out_once(
    name: str, rules: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Dfa | None] = []

    def substituted(*given: Any) -> Dfa | None:
        written.append(recursion.substituted(*given))
        return written[-1]

    monkeypatch.setattr(inlining, "substituted", substituted)
    text = read_grammar(name).text
    network = _network(text)
    assert len(network.starts) == rules
    assert len(written) <= len(reached_rules(lower_lark(text))) / 2


def test_copies_stay_small() -> None:
    """Rules that use the next one twice are called where they would double again and again."""
    rules = [f'r{n}: r{n + 1} "x" | r{n + 1} "y" r{n + 1}' for n in range(30)]
    network = _network("\n".join(["start: r0", *rules, 'r30: "z"']))
    assert len(network) < 2_000


def test_no_rule_calls_itself_before_a_byte() -> None:
    rules = [f'r{n}: r{(n + 1) % 5} "x{n}" | r{(n + 2) % 5} r{n} | "y{n}" |' for n in range(5)]
    order = call_order(_network("\n".join(["start: r0", *rules])))
    assert sorted(order) == list(range(len(order)))


def test_components_come_behind_what_they_lead_to() -> None:
    found = components({0: [1], 1: [2, 3], 2: [0], 3: [4], 4: [3], 5: [5]})
    assert [sorted(component) for component in found] == [[3, 4], [0, 1, 2], [5]]
