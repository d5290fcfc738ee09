"""Automata as drawn: goldens, and every path through them is a text of the constraint."""

from __future__ import annotations

import json
import re
from itertools import product

import pytest

from guided.constraint.automaton import automaton_of, label_of
from guided.constraint.character_graph import ESCAPE, MAX_STATES, NON_ASCII
from guided.spec import Choice, JsonSchema, Lark, Regex, Structure
from guided.spec.findings import Automaton

COLOURS = JsonSchema(
    json.dumps(
        {
            "type": "object",
            "properties": {"colour": {"enum": ["red", "green"]}, "dark": {"type": "boolean"}},
            "required": ["colour", "dark"],
            "additionalProperties": False,
        }
    )
)


def written(automaton: Automaton) -> str:
    """A line for each arrow; a state where texts may end has a star, an open one three dots."""

    def state(number: int) -> str:
        return (
            f"{number}{'*' * (number in automaton.accepting)}{'...' * (number in automaton.open)}"
        )

    return "\n".join(
        f"{state(arrow.source)} {arrow.label!r} {state(arrow.target)}" for arrow in automaton.arrows
    )


@pytest.mark.parametrize(
    ("constraint", "drawn"),
    [
        (Regex("(a|b)*abb"), "0 'b' 0|0 'a' 1|1 'a' 1|1 'b' 2|2 'a' 1|2 'b' 3*|3* 'b' 0|3* 'a' 1"),
        (Regex("never|ever"), "0 'e' 1|0 'ne' 1|1 'ver' 2*"),
        (Regex("[0-9a-f]é?"), "0 '[0-9a-f]' 1*|1* 'beyond ASCII' 2*"),
        (Choice(["yes", "no"]), "0 'no' 1*|0 'yes' 1*"),
        (Lark('start: "a" ("," "a")*'), "0 'a' 1*|1* ',' 0"),
        (
            COLOURS,
            "0 '{\"colour\":\"' 1|1 'green' 2|1 'red' 2|2 '\",\"dark\":' 3|3 'fals' 4|3 'tru' 4"
            "|4 'e}' 5*",
        ),
        # Of the bounds of a string only "not empty" is left.
        *(
            (
                JsonSchema(f'{{"type": "string", "minLength": {least}, "maxLength": 90}}'),
                "0 '\"' 1|1 'any but [\"\\\\]' 2|2 'any but [\"\\\\]' 2|2 '\"' 3*",
            )
            for least in (1, 80)
        ),
    ],
)
def test_small_automata_are_drawn_whole(constraint: Structure, drawn: str) -> None:
    assert written(automaton_of(constraint)) == drawn.replace("|", "\n")


@pytest.mark.parametrize(
    "constraint",
    [
        Lark('start: "a" start "b" | "c"'),
        # Names that must not occur twice, and values of all kinds.
        JsonSchema("{}"),
        JsonSchema('{"properties": {"a": {"type": "integer"}}}'),
    ],
)
def test_of_a_large_automaton_the_first_states_are_drawn(constraint: Structure) -> None:
    drawn = automaton_of(constraint)
    assert 0 < drawn.states <= MAX_STATES
    assert drawn.open
    assert all(arrow.target < drawn.states for arrow in drawn.arrows)


def accepts(drawn: Automaton, text: str, state: int = 0) -> bool:
    """Whether a way from a state to an end is spelled by a text."""
    return (not text and state in drawn.accepting) or any(
        accepts(drawn, text[found.end() :], arrow.target)
        for arrow in drawn.arrows
        if arrow.source == state
        and (found := re.match(re.escape(arrow.label) if arrow.is_text else arrow.label, text))
    )


@pytest.mark.parametrize(
    ("pattern", "letters"),
    [("(ab|a)*c?", "abc"), ("x?(yz){2,3}|x", "xyz"), ("(1|20)[0-3]{2}|12", "0123")],
)
def test_ways_to_an_end_are_the_texts(pattern: str, letters: str) -> None:
    drawn = automaton_of(Regex(pattern))
    texts = ["".join(text) for n in range(7) for text in product(letters, repeat=n)]
    taken = [text for text in texts if accepts(drawn, text)]
    assert taken == [text for text in texts if re.fullmatch(pattern, text)]
    assert len(taken) > 2


@pytest.mark.parametrize(
    ("characters", "label"),
    [
        ({*b"a"}, "a"),
        ({*b"ab"}, "[ab]"),
        ({*b"abcx"}, "[a-cx]"),
        ({*range(128), NON_ASCII}, "any"),
        ({*range(128)} - {*b'"\\'}, 'any of ASCII but ["\\]'),
        ({*b"0"} | {NON_ASCII, ESCAPE}, "[0] or beyond ASCII or escape"),
        ({*b"\n"}, "\\n"),
    ],
)
def test_classes_have_names(characters: set[int], label: str) -> None:
    assert label_of(frozenset(characters)) == label
