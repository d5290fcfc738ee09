"""Each pass from a grammar to its network, with its results for small grammars."""

from __future__ import annotations

from textwrap import dedent

import pytest

from guided.errors import UnsatisfiableError, UnsupportedFeatureError
from guided.grammar.context_free import Hole
from guided.grammar.dump import dump_network
from guided.grammar.lark import lower_lark
from guided.grammar.network.components import strongly_connected_components
from guided.grammar.network.empty_texts import (
    nullable_rules,
    productive_rules,
    remove_empty_texts,
)
from guided.grammar.network.expanded_rules import choose_expanded_rules, reachable_rules
from guided.grammar.network.first_and_follow import call_order, follow_sets
from guided.grammar.network.grammar_to_network import (
    START,
    automata_from_grammar,
    network_from_grammar,
)
from guided.grammar.network.inlining import LITTLE_GROWTH, inline_calls
from guided.grammar.network.layout import network_from_automata
from guided.grammar.network.lookarounds import remove_assertions
from guided.grammar.network.network import HoleText, Network
from guided.grammar.network.network_kernels import MAX_DISTANCE
from guided.grammar.network.recursion import (
    remove_ending_calls,
    remove_leading_calls,
    remove_left_recursion,
)
from guided.grammar.network.rule_automata import RuleAutomata, first_calls, substitute_calls
from guided.grammar.network.symbols import Kind, class_by_byte, edges_over
from guided.regular.dfa import DEAD
from guided.runtime.work_budget import limited_work
from tests.unit.grammar.printed_automata import dump_automata


def _rules(text: str) -> RuleAutomata:
    """The automata of a grammar's rules; a J in it is hole 0."""
    declared = "%declare J" in text
    rules = automata_from_grammar(lower_lark(text, holes={"J": Hole(0)} if declared else {}))
    return {**rules.automata, **rules.terminals}


def _shows(automata: RuleAutomata, expected: str) -> None:
    assert dump_automata(automata) == dedent(expected).strip("\n")


# --- bodies to automata --------------------------------------------------------------------


def test_moves_are_told_by_what_they_are_over() -> None:
    dfa = _rules('start: "a" start J | "b"\n%declare J')[1]
    assert edges_over(dfa, Kind.CALL) == [(1, 1, 3)]
    assert [hole for _, hole, _ in edges_over(dfa, Kind.HOLE)] == [0]
    assert edges_over(dfa, Kind.ASSERTION) == []
    read = {byte for byte, column in enumerate(class_by_byte(dfa).tolist()) if column >= 0}
    assert read == set(b"ab")


def test_rules_become_automata_over_bytes_and_calls() -> None:
    """Rule 2, of a single use, is expanded in rule 1; rule 3 calls itself."""
    _shows(
        _rules('start: "a" start | b\nb: "b" c\nc: "c" c | "d" start'),
        """
        rule 0:
          0: call 1 -> 1
          1 (end)
        rule 1:
          0: "a" -> 1, "b" -> 2
          1: call 1 -> 3
          2: call 3 -> 3
          3 (end)
        rule 3:
          0: "c" -> 1, "d" -> 2
          1: call 3 -> 3
          2: call 1 -> 3
          3 (end)
        """,
    )


def test_what_is_ignored_stands_before_each_terminal_and_at_the_end() -> None:
    _shows(
        _rules('start: "a" "b"\n%ignore "_"'),
        """
        rule 0:
          0: "_" -> 0, "a" -> 1
          1: "_" -> 1, "b" -> 2
          2 (end): "_" -> 2
        """,
    )


def test_a_list_is_a_loop_over_one_copy_of_its_item() -> None:
    _shows(
        _rules('start: x ("," x)*\nx: "(" start ")" | "1"'),
        """
        rule 0:
          0: call 1 -> 1
          1 (end)
        rule 1:
          0: "(" -> 1, "1" -> 2
          1: call 1 -> 3
          2 (end): "," -> 0
          3: ")" -> 2
        """,
    )


def test_characters_are_spelled_in_bytes() -> None:
    _shows(
        _rules('start: "é" | "ê"'),
        r"""
        rule 0:
          0: "\xc3" -> 1
          1: [\xa9-\xaa] -> 2
          2 (end)
        """,
    )


def test_bytes_that_are_missing_are_not_spelled() -> None:
    rules = automata_from_grammar(lower_lark('start: "é" | "ê" | "a"'), unavailable_bytes=[0xAA])
    _shows(
        rules.automata,
        r"""
        rule 0:
          0: "a" -> 2, "\xc3" -> 1
          1: "\xa9" -> 2
          2 (end)
        """,
    )


def test_rules_are_expanded_where_they_are_small_or_used_once_and_in_no_circle() -> None:
    used_once = " ".join(f'"{number}"' for number in range(20))
    grammar = lower_lark(f'start: a b b\na: {used_once} c\nb: "(" d ")"\nc: "y"\nd: b | "1"')
    reached = reachable_rules(grammar)
    assert [*reached] == ["start", "a", "b", "c", "d"]
    assert reached["start"].calls == ["a", "b", "b"]
    expanded = choose_expanded_rules(grammar, reached)
    assert {"a", "c"} < expanded.keys()
    assert not {"b", "d"} <= expanded.keys(), "they call each other"


def test_large_terminals_are_called_like_rules() -> None:
    rules = automata_from_grammar(lower_lark("start: NAME NAME\nNAME: /[a-z]([a-z-]{0,40}[a-z])?/"))
    assert len(rules.terminals) == 1
    (number,) = rules.terminals
    assert [rule for _, rule, _ in edges_over(rules.automata[0], Kind.CALL)] == [number, number]


# --- lookarounds ---------------------------------------------------------------------------


def _without_assertions(text: str, holes: tuple[HoleText, ...] = ()) -> RuleAutomata:
    declared = {"J": Hole(0)} if holes else {}
    rules = automata_from_grammar(lower_lark(text, holes=declared))
    return remove_assertions({**rules.automata, **rules.terminals}, rules.assertions, holes)


def test_an_assertion_is_a_symbol_at_the_edge_of_its_terminal() -> None:
    _shows(
        _rules('start: A start | "b" | "c"\nA: /a(?!b)/'),
        """
        rule 0:
          0: call 1 -> 1
          1 (end)
        rule 1:
          0: "a" -> 1, [b-c] -> 2
          1: assert 0 -> 3
          2 (end)
          3: call 1 -> 2
        """,
    )


def test_a_look_behind_is_decided_where_it_stands() -> None:
    _shows(
        _without_assertions('start: "a" B | "c" B\nB: /(?<=a)b/'),
        """
        rule 0:
          0: "a" -> 1
          1: "b" -> 2
          2 (end)
        """,
    )


def test_a_look_ahead_parts_a_rule_by_how_it_is_left() -> None:
    """Rule 1 ends while the look-ahead is open, rule 2 after a bracket decided it."""
    _shows(
        _without_assertions('start: x "!" | x "b"\nx: "(" x ")" | A\nA: /a(?!b)/'),
        """
        rule 0:
          0: call 1 -> 1, call 2 -> 2
          1: "!" -> 3
          2: "!" -> 3, "b" -> 3
          3 (end)
        rule 1:
          0: "a" -> 1
          1 (end)
        rule 2:
          0: "(" -> 1
          1: call 1 -> 2, call 2 -> 2
          2: ")" -> 3
          3 (end)
        """,
    )


@pytest.mark.parametrize(
    ("terminal", "direction"), [("A: /a(?!\\{a)/", "ahead"), ("B: /(?<!a)b/", "behind")]
)
def test_a_lookaround_does_not_see_into_a_hole(terminal: str, direction: str) -> None:
    text = {"ahead": "start: A J", "behind": "start: J B"}[direction]
    holes = (HoleText(frozenset(b"{"), 2),)
    with pytest.raises(UnsupportedFeatureError, match=f"look-{direction} .* into a JSON value"):
        _without_assertions(f"{text}\n%declare J\n{terminal}", holes)


def test_a_look_ahead_that_the_first_byte_of_a_hole_decides_is_worked_in() -> None:
    text = "start: A J\n%declare J\nA: /a(?![0-9])/"
    _shows(
        _without_assertions(text, (HoleText(frozenset(b"{["), 2),)),
        """
        rule 0:
          0: "a" -> 1
          1: hole 0 -> 2
          2 (end)
        """,
    )
    _shows(_without_assertions(text, (HoleText(frozenset(b"1"), 1),)), "rule 0:")


# --- the empty text ------------------------------------------------------------------------


def test_calls_of_rules_with_the_empty_text_may_be_passed_over() -> None:
    automata = _rules('start: a "x"\na: "y" a "z" |')
    assert nullable_rules(automata) == {2}
    assert productive_rules(automata) == {0, 2}
    productive = remove_empty_texts(automata, START)
    assert not productive.accepts_empty
    _shows(
        productive.automata,
        """
        rule 0:
          0: "x" -> 2, call 2 -> 1
          1: "x" -> 2
          2 (end)
        rule 2:
          0: "y" -> 1
          1: "z" -> 3, call 2 -> 2
          2: "z" -> 3
          3 (end)
        """,
    )


def test_rules_without_text_go_with_the_calls_of_them() -> None:
    automata = _rules('start: "x" | dead\ndead: dead "y"')
    assert productive_rules(automata) == {0}
    _shows(
        remove_empty_texts(automata, START).automata,
        """
        rule 0:
          0: "x" -> 1
          1 (end)
        """,
    )


def test_only_rules_that_call_those_without_text_are_changed() -> None:
    automata = _rules('start: "z" b "w" | dead\nb: "y" b "z" | "q"\ndead: dead "y"')
    left = remove_empty_texts(automata, START).automata
    assert [rule for rule in left if left[rule] is not automata[rule]] == [START]


def test_a_rule_is_examined_again_after_many_of_its_callees_at_once() -> None:
    """The work grows with the rules; once for each callee, it grew with their square."""
    rules = "".join(f'\nr{n}: "(" r{n} ")" | "x"' for n in range(400))
    automata = _rules("start: " + " ".join(f"r{n}" for n in range(400)) + rules)
    with limited_work(50_000):
        assert len(productive_rules(automata)) == len(automata)


def test_of_what_has_but_the_empty_text_no_rule_is_left() -> None:
    productive = remove_empty_texts(_rules("start: a a\na: b |\nb: a"), START)
    assert productive.accepts_empty
    assert not productive.automata


def test_a_start_that_its_own_texts_lead_back_to_loses_the_empty_text_alone() -> None:
    productive = remove_empty_texts(_rules('start: ("a" "b")*'), START)
    assert productive.accepts_empty
    _shows(
        productive.automata,
        """
        rule 0:
          0: "a" -> 2
          1 (end): "a" -> 2
          2: "b" -> 1
        """,
    )


def test_a_grammar_without_any_text_is_refused() -> None:
    with pytest.raises(UnsatisfiableError, match="no text satisfies the grammar"):
        remove_empty_texts(_rules('start: "a" start'), START)


# --- inlining and recursion ----------------------------------------------------------------


def test_only_recursion_in_the_middle_of_a_text_stays_a_call() -> None:
    automata = _rules('start: e\ne: e "+" p | p\np: "(" e ")" | "1"')
    _shows(
        inline_calls(automata, START),
        """
        rule 0:
          0: call 3 -> 1
          1 (end): "+" -> 0
        rule 3:
          0: "(" -> 1, "1" -> 2
          1: call 3 -> 3
          2 (end)
          3: ")" -> 2, "+" -> 1
        """,
    )


def test_with_little_growth_large_rules_stay_calls() -> None:
    text = 'start: "a" x | "b" x | "c" x "d"\nx: ' + " ".join(
        f'"{n % 7}" "{n % 5}"' for n in range(40)
    )
    automata = _rules(text)
    assert len(inline_calls(automata, START)) == 1
    assert len(inline_calls(automata, START, growth=LITTLE_GROWTH)) == 2


def test_calls_are_replaced_by_copies_of_what_they_call() -> None:
    automata = _rules('start: "a" x "c" | x\nx: "x" | "(" x ")"')
    replaced = substitute_calls(automata[0], {2}, automata)
    assert replaced is not None
    _shows(
        {0: replaced},
        """
        rule 0:
          0: "(" -> 2, "a" -> 1, "x" -> 3
          1: "(" -> 4, "x" -> 5
          2: call 2 -> 6
          3 (end)
          4: call 2 -> 7
          5: "c" -> 3
          6: ")" -> 3
          7: ")" -> 5
        """,
    )


def test_a_rule_that_begins_with_itself_becomes_a_loop() -> None:
    automata = _rules('start: start "+" "1" | "1"')
    assert first_calls(automata[1]) == {1}
    _shows(
        {1: remove_leading_calls(1, [1], automata)},
        """
        rule 1:
          0: "1" -> 1
          1 (end): "+" -> 0
        """,
    )


def test_rules_that_begin_with_each_other_are_turned_inside_out() -> None:
    """Each begins with the one part that calls none of them, and each finished one is a hub."""
    automata = _rules('start: a "x" "s" start "e" | "1"\na: start "y" "t" a "e" | "2"')
    _shows(
        remove_left_recursion({0: automata[1], 1: automata[1], 2: automata[2]}, 1),
        """
        rule 1:
          0: "1" -> 1, "2" -> 2
          1 (end): "y" -> 3
          2: "x" -> 4
          3: "t" -> 5
          4: "s" -> 6
          5: call 2 -> 7
          6: call 1 -> 8
          7: "e" -> 2
          8: "e" -> 1
        rule 2:
          0: "1" -> 1, "2" -> 2
          1: "y" -> 3
          2 (end): "x" -> 4
          3: "t" -> 5
          4: "s" -> 6
          5: call 2 -> 7
          6: call 1 -> 8
          7: "e" -> 2
          8: "e" -> 1
        """,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('start: "x" start | "y"', '  0: "x" -> 0, "y" -> 1\n  1 (end)'),
        ('start: start start | "a"', '  0: "a" -> 1\n  1 (end): "a" -> 1'),
    ],
)
def test_a_rule_that_ends_with_itself_leads_back_to_its_start(text: str, expected: str) -> None:
    automata = _rules(text)
    dfa = remove_leading_calls(1, [1], automata)
    assert dump_automata({1: remove_ending_calls(1, dfa)}) == f"rule 1:\n{expected}"


def test_a_call_that_ends_its_rule_stays_where_a_loop_would_add_texts() -> None:
    """After ``a(`` and a text comes a ``)``, which a loop would not count."""
    automata = _rules('start: "(" start ")" | "a" start | "a"')
    dfa = remove_ending_calls(1, automata[1])
    assert [rule for _, rule, _ in edges_over(dfa, Kind.CALL)] == [1]


# --- the network ---------------------------------------------------------------------------


def _network(text: str, holes: tuple[HoleText, ...] = ()) -> Network:
    network = network_from_grammar(
        lower_lark(text, holes={"J": Hole(0)} if holes else {}), (), holes
    )
    network.check()
    return network


def test_states_of_all_rules_are_numbered_through_and_holes_come_last() -> None:
    network = _network('start: "(" start ")" | J\n%declare J', (HoleText(frozenset(b"{"), 2),))
    assert network.starts == (0, 2, 6)
    assert network.first_hole == 6
    assert [network.rule_of(state) for state in (0, 1, 2, 5, 6)] == [0, 0, 1, 1, 2]
    assert network.distance == (2, 0, 2, 3, 0, 1, 2)


def test_paths_to_the_end_are_shortest_and_prefer_what_can_be_read() -> None:
    network = _network('start: /[\\x00-\\xff]/ "bcd" | "(" start | "xy"')
    byte, rule, _ = network.shortest_moves[0].tolist()
    assert (byte, rule) == (ord("x"), DEAD)
    assert network.distance[0] == 2


def test_lengths_that_double_at_each_rule_stop_at_a_limit() -> None:
    rules = [f'r{n}: r{n + 1} r{n + 1} | "(" r{n} ")"' for n in range(80)]
    network = _network("\n".join(["start: r0", *rules, 'r80: "z" | "(" r80 ")"']))
    assert max(network.distance) == MAX_DISTANCE


def test_an_empty_network_has_the_empty_text_alone() -> None:
    network = network_from_automata({}, True, ())
    network.check()
    assert len(network) == 0
    assert dump_network(network) == "the empty text is one, too"


def test_bytes_that_may_follow_a_rule_are_those_of_all_places_that_call_it() -> None:
    network = _network('start: "(" start ")" | "[" start "]" | "a" start? "z"')
    follow = follow_sets(network)
    rule = len(network.starts) - 1
    found = {byte for byte in range(256) if follow[rule, network.byte_class[byte]]}
    assert found == set(b")]z")


def test_rules_come_before_those_that_they_call_first() -> None:
    network = _network(
        'start: a "x" | "1" start "2"\na: "(" start ")" a | "[" a "]" | "{" a a "}" | "0"'
    )
    order = call_order(network)
    assert sorted(order) == [*range(len(network.starts))]
    for rule, start in enumerate(network.starts):
        for edge in network.calls[start]:
            assert order.index(rule) < order.index(edge.rule)


def test_components_come_after_what_they_lead_to() -> None:
    found = strongly_connected_components({0: [1], 1: [2, 3], 2: [0], 3: [4], 4: [3], 5: [5]})
    assert [sorted(component) for component in found] == [[3, 4], [0, 1, 2], [5]]
