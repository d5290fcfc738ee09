"""Strings of schemas without the quotes of JSON: between two texts, up to the first end."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from guided.constraint import ConstraintCompiler
from guided.constraint.machine import machine_of
from guided.errors import InvalidConstraintError, UnsatisfiableError
from guided.machine.recognizer import Recognizer
from guided.machine.special_bytes import special_bytes
from guided.masks.mask import tokens_of
from guided.spec import JsonSchema, TokenId
from guided.spec.bare_string import BareString
from guided.spec.composition import AnyOf, Sequence
from guided.spec.special_token import SpecialToken
from tests.kit.tiny_vocabulary import JSON_PIECES, tiny_vocabulary

END = "\n</p>\n"
PIECES = (*JSON_PIECES, b"\n</p>\n", b"</p>", b"\n</p", b"a\n</p>\nb", "äa".encode(), b"aaaa")
VOCABULARY = tiny_vocabulary(PIECES, special=[])
SCHEMAS: dict[str, Any] = {
    "most": {"type": "string", "maxLength": 3},
    "least": {"type": "string", "minLength": 3},
    "both": {"type": "string", "minLength": 2, "maxLength": 4},
    "none": {"type": "string", "maxLength": 0},
    "search": {"type": "string", "pattern": "a{2}|^b"},
    "search within": {"type": "string", "pattern": "[ab]$", "maxLength": 3},
    "pairs": {"type": "string", "pattern": "^(ab)*$", "minLength": 3, "maxLength": 6},
    "listed": {"type": "string", "enum": ["a", "\n", "ab\n</p>", '"', "a\n</p>\nb", "€"]},
    "lists": {"allOf": [{"enum": ["a", "b", 3]}, {"type": "string"}, {"not": {"const": "b"}}]},
    "either": {"anyOf": [{"type": "string", "maxLength": 1}, {"const": "abab"}]},
    "date": {"type": "string", "format": "date"},
    "referred": {"$ref": "#/$defs/x", "$defs": {"x": {"type": "string", "maxLength": 2}}},
    "long": {"type": "string", "maxLength": 50_000, "pattern": "a"},
    "any": {"type": "string"},
    "untyped": {"maxLength": 2},
}


def bare(schema: object) -> Sequence:
    return Sequence(["(", BareString("<", JsonSchema(json.dumps(schema)), END), ")"])


def accepts(machine: Recognizer, text: str) -> bool:
    state = machine.advance(machine.start, text.encode())
    return state is not None and machine.is_accepting(state)


def some_texts(rng: random.Random) -> list[str]:
    """Texts of a few characters, of beginnings of the end, and of pieces close to the schemas."""
    pieces = ["a", "b", "ab", "€", '"', "\n", "</p>", "\n</p", "\n</p>", END, "2026-02-28", "-"]
    texts = ["".join(rng.choices(pieces, k=rng.randrange(5))) for _ in range(300)]
    return [*texts, *pieces, "", "ababab", "a\n</p>\nb", "ab\n</p>", "a" * 50_000, "a" * 50_001]


@pytest.mark.parametrize("name", SCHEMAS)
def test_exactly_the_strings_that_fit_stand_up_to_their_first_end(name: str) -> None:
    machine, is_valid = (
        machine_of(bare(SCHEMAS[name])),
        Draft202012Validator(SCHEMAS[name], validate_formats=True).is_valid,
    )
    seen = set[bool]()
    for text in some_texts(random.Random(1)):
        can_stand = (text + END).index(END) == len(text)
        fits = can_stand and is_valid(text)
        assert accepts(machine, f"(<{text}{END})") == fits, text
        seen.add(fits)
    assert seen == {True, False}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_mask_has_the_tokens_that_may_follow_and_any_text_can_be_ended(name: str) -> None:
    rng, is_valid = random.Random(2), Draft202012Validator(SCHEMAS[name]).is_valid
    matcher = ConstraintCompiler(VOCABULARY).start(bare(SCHEMAS[name]))
    machine, text = machine_of(bare(SCHEMAS[name])), b""
    for _ in range(25):
        allowed = {int(token) for token in tokens_of(matcher.mask())}
        at = machine.advance(machine.start, text)
        assert at is not None
        for token in range(len(VOCABULARY)):
            piece = VOCABULARY.decode([TokenId(token)])
            if piece:
                assert (machine.advance(at, piece) is not None) == (token in allowed), piece
        end = text + machine.shortest_completion(at)
        assert len(end) - len(text) <= machine.bytes_left(at)
        found = re.fullmatch(rf"\(<(.*){END}\)", end.decode(), re.DOTALL)
        assert found
        assert is_valid(found[1])
        choice = sorted(token for token in allowed if VOCABULARY.decode([TokenId(token)]))
        if not choice:
            break
        token = TokenId(rng.choice(choice))
        matcher, text = matcher.advance(token), text + VOCABULARY.decode([token])
    assert text.startswith(b"(<")


def test_a_long_bound_is_counted_and_not_written_out() -> None:
    short, long = machine_of(bare(SCHEMAS["most"])), machine_of(bare({"maxLength": 1_000_000}))
    assert short.parts.table.num_rows == long.parts.table.num_rows


def test_strings_that_begin_alike_may_be_those_of_one_of_several_schemas() -> None:
    machine = machine_of(AnyOf([bare({"maxLength": 2}), bare({"pattern": "^a*$"})]))
    assert all(accepts(machine, f"(<{text}{END})") for text in ("", "a", "bb", "aaaa"))
    assert not accepts(machine, f"(<bbb{END})")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"},
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"type": "string", "pattern": "^aaa", "maxLength": 2},
        {"type": "string", "const": f"a{END}b"},
    ],
)
def test_where_no_string_is_left_there_is_no_constraint(schema: object) -> None:
    with pytest.raises(UnsatisfiableError) as caught:
        machine_of(bare(schema))
    assert str(caught.value) == (
        "in part 2: at the root: no string satisfies the schema and can be written without the "
        "quotes of JSON; look for bounds that cross, and for listed texts with the end of their "
        "own tag"
    )
    # Other parts may do without it.
    machine = machine_of(AnyOf([bare(schema), "x"]))
    assert accepts(machine, "x")
    assert not accepts(machine, f"(<{END})")


def test_what_the_vocabulary_cannot_spell_is_left_out() -> None:
    missing = frozenset(b"b")
    machine = machine_of(bare({"enum": ["a", "b"]}), missing)
    assert accepts(machine, f"(<a{END})")
    assert not accepts(machine, f"(<b{END})")
    for lost, tag in (("<", "<"), ("p", "\\n</p>\\n")):
        with pytest.raises(UnsatisfiableError) as caught:
            machine_of(bare({"type": "string"}), frozenset(lost.encode()))
        assert str(caught.value) == (
            f"in part 2: '{tag}', next to a string without quotes, needs bytes for which the "
            "model has no token; use a model whose tokenizer covers all bytes, or another tag"
        )


@pytest.mark.parametrize("name", SCHEMAS)
def test_between_special_tokens_all_strings_stand_but_those_with_a_text_left_out(name: str) -> None:
    token, schema = SpecialToken("<q>"), JsonSchema(json.dumps(SCHEMAS[name]))
    machine = machine_of(Sequence(["(", BareString(token, schema, token, END), ")"]))
    is_valid = Draft202012Validator(SCHEMAS[name], validate_formats=True).is_valid
    around, seen = special_bytes("<q>"), set[bool]()
    for text in some_texts(random.Random(1)):
        state = machine.advance(machine.start, b"(" + around + text.encode() + around + b")")
        fits = END not in text and is_valid(text)
        assert (state is not None and machine.is_accepting(state)) == fits, text
        seen.add(fits)
        # A text that only spells the token's name is not the token.
        assert not accepts(machine, f"(<q>{text}<q>)")
    assert seen == {True, False}


def test_special_tokens_are_asked_of_the_vocabulary() -> None:
    token = SpecialToken("<q>")
    constraint = Sequence([BareString(token, JsonSchema("{}"), token)])
    with pytest.raises(InvalidConstraintError, match="has no special token '<q>'"):
        ConstraintCompiler(VOCABULARY).start(constraint)
    ConstraintCompiler(tiny_vocabulary(PIECES, special=["<q>"])).start(constraint)


def test_a_string_stands_between_two_texts() -> None:
    schema = JsonSchema("{}")
    for begin, end in (("", "b"), ("a", "")):
        with pytest.raises(InvalidConstraintError, match="stands between two texts"):
            BareString(begin, schema, end)
    different = {
        BareString("a", schema, "b").digest(),
        BareString("b", schema, "b").digest(),
        BareString("a", schema, "c").digest(),
        BareString("a", JsonSchema("true"), "b").digest(),
        BareString(SpecialToken("a"), schema, "b").digest(),
        BareString("a", schema, SpecialToken("b")).digest(),
        BareString("a", schema, "b", "c").digest(),
        schema.digest(),
    }
    assert len(different) == 8
