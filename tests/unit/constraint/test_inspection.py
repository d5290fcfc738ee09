"""The report on a grammar, for grammars small enough to count by hand."""

from __future__ import annotations

import pytest

from guided.constraint.compiler import ConstraintCompiler
from guided.constraint.inspection import inspect_grammar
from guided.errors import TokenRejectedError
from guided.spec import Ebnf, Lark, TokenId
from tests.kit.walks import BYTES

_COMPILER = ConstraintCompiler(BYTES)


def _tokens(text: bytes) -> list[TokenId]:
    return [TokenId(byte + 1) for byte in text]


def test_what_is_allowed_and_forced_is_counted_along_a_text() -> None:
    found = inspect_grammar(Lark('start: "ab" ("c" | "dd")'), _COMPILER, [_tokens(b"abdd")])
    (trace,) = found.traces
    # a, b, c or d, d, the end
    assert trace.allowed == (1, 1, 2, 1, 1)
    assert (trace.forced, trace.tokens, found.forced_share) == (3, 4, 0.75)
    assert trace.num_states_at_once == (1, 1, 1, 1, 1)
    assert (found.called_rules, found.states) == (1, 5)


def test_readings_that_a_text_leaves_open_are_counted() -> None:
    rules = 'root ::= "(" root "x)" | "(" other ")" | "a"\nother ::= "(" other "y)" | "a"'
    (trace,) = inspect_grammar(Ebnf(rules), _COMPILER, [_tokens(b"((ax)x)")]).traces
    # After the brackets it may be either rule; the text after the letter decides.
    assert trace.num_states_at_once[0] == trace.num_states_at_once[-1] == 1
    assert trace.num_states_at_once[1] == trace.num_states_at_once[2] == 2


def test_a_grammar_with_schemas_in_it_is_followed_through_them() -> None:
    rules = Lark('start: "a" (%json {"enum": [1, 10]} "0" | %json {"const": "x"})')
    one, text = inspect_grammar(rules, _COMPILER, [_tokens(b"a100"), _tokens(b'a"x"')]).traces
    # The second digit may belong to the number or come after it, and so may the third.
    assert one.num_states_at_once == (1, 2, 2, 2, 1)
    assert text.num_states_at_once == (1, 2, 1, 1, 1)


def test_random_texts_end_and_are_the_same_each_time() -> None:
    rules = Lark('start: "(" start* ")" | "abc"')
    first, again = (inspect_grammar(rules, _COMPILER, walks=5) for _ in range(2))
    assert [trace.allowed for trace in first.traces] == [trace.allowed for trace in again.traces]
    assert len(first.traces) == 5
    assert 0 < first.forced_share < 1


def test_a_text_of_another_grammar_is_rejected() -> None:
    with pytest.raises(TokenRejectedError):
        inspect_grammar(Lark('start: "ab"'), _COMPILER, [_tokens(b"ac")])
