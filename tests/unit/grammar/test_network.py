"""The recursion that is left of a grammar in its network."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from guided.errors import LimitExceededError
from guided.grammar.context_free import Body, Call, Concatenation, Repetition
from guided.grammar.lark import lower_lark
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network import Network, network_from_grammar
from guided.grammar.network.first_and_follow import call_order
from guided.grammar.network.rule_automata import determinize_if_small
from guided.grammar.network.rule_expressions import SeparatedRepetition, merge_separated
from guided.grammar.network.symbols import Kind, symbol_set
from guided.regular.nfa import Nfa
from guided.runtime.work_budget import limited_work
from guided.spec.library import read_grammar


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


@pytest.mark.parametrize(
    ("rule", "calls"),
    [
        ('item ("," item)*', 1),
        ('"(" sign item (op sign item)* ")"', 3),
        ('item ("," item)+', 2),
        ('item ("," item)* item', 2),
        ("item (item)*", 1),
        ("item sign (sign item)*", 4),
    ],
)
def test_lists_hold_one_copy_of_their_items(rule: str, calls: int) -> None:
    grammar = lower_lark(f'start: {rule}\nitem: "i"\nsign: "+"\nop: "*"')
    body = grammar.rules["start"]
    assert isinstance(body, Concatenation)
    assert calls == sum(1 for part in _all_parts(body) if isinstance(part, Call))


def _all_parts(body: Body) -> Iterator[Body]:
    match body:
        case Concatenation(parts):
            for part in merge_separated(parts):
                if isinstance(part, SeparatedRepetition):
                    yield from _all_parts(part.item)
                    yield from _all_parts(part.between)
                else:
                    yield from _all_parts(part)
        case Repetition(item):
            yield from _all_parts(item)
        case _:
            yield body


def test_small_rules_that_call_each_other_are_not_written_out_in_a_circle() -> None:
    _network('start: a a\na: "(" b ")" | "1"\nb: a ["," c] | c c\nc: "[" b "]" | a')
    _network('start: a b a b\na: "x" b | "u"\nb: "y" a | "v"')


@pytest.mark.parametrize(
    ("name", "rules", "work"),
    [("json", 2, 2_800), ("sql_select", 5, 58_000), ("xml_fragment", 2, 7_000)],
)
def test_rules_of_the_library_are_written_out_once(name: str, rules: int, work: int) -> None:
    """And nothing is worked out on copies of large terminals, which would take more work."""
    grammar = lower_lark(read_grammar(name).text)
    with limited_work(work):
        network = network_from_grammar(grammar)
    network.check()
    assert len(network.starts) == rules


def test_copies_stay_small() -> None:
    """Rules that use the next one twice are called if they would double again and again."""
    rules = [f'r{n}: r{n + 1} "x" | r{n + 1} "y" r{n + 1}' for n in range(30)]
    network = _network("\n".join(["start: r0", *rules, 'r30: "z"']))
    assert len(network) < 2_000


def test_a_terminal_that_cannot_be_written_out_everywhere_is_called_there() -> None:
    """Telling where one name ends and the next begins takes exponentially many states."""
    network = _network("start: NAME NAME NAME\nNAME: /[a-z]([a-z-]{0,61}[a-z])?/")
    assert len(network.starts) == 2
    machine = GrammarMachine(network)
    behind = machine.advance(machine.start, b"a-b" + b"c" * 100)
    assert behind is not None
    assert machine.is_accepting(behind)
    assert machine.advance(machine.start, b"a" * (3 * 63)) is not None
    assert machine.advance(machine.start, b"a" * (3 * 63 + 1)) is None


def test_a_terminal_is_written_out_where_few_of_its_states_are_copied() -> None:
    """Python's names are expanded in lists of expressions, and called inside of expressions."""
    network = network_from_grammar(lower_lark(read_grammar("python_expression").text))
    network.check()
    _, expression, _, _, name = range(len(network.starts))
    callers = {
        network.rule_of(state)
        for state, edges in enumerate(network.calls)
        for edge in edges
        if edge.rule == name
    }
    assert callers == {expression}


def test_what_would_take_a_table_of_very_many_cells_is_left_as_it_is() -> None:
    nfa = Nfa()
    nfa.add_states(4_002)
    for rule in range(4_001):
        nfa.add_move(rule, symbol_set(Kind.CALL, [rule]), rule + 1)
    nfa.final = 4_001
    assert determinize_if_small(nfa) is None
    with (
        pytest.raises(LimitExceededError, match="more than 1000 units of work"),
        limited_work(1_000),
    ):
        determinize_if_small(nfa)


def test_no_rule_calls_itself_before_a_byte() -> None:
    rules = [f'r{n}: r{(n + 1) % 5} "x{n}" | r{(n + 2) % 5} r{n} | "y{n}" |' for n in range(5)]
    order = call_order(_network("\n".join(["start: r0", *rules])))
    assert sorted(order) == list(range(len(order)))
