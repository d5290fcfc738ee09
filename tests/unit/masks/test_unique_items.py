"""Masks inside arrays whose items differ, compared with trying every token byte by byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guided.constraint import ConstraintCompiler
from guided.masks.mask import tokens_of
from guided.spec import JsonOptions, JsonSchema, KeyOrder, Spelling, TokenId
from tests.kit.tiny_vocabulary import JSON_PIECES, tiny_vocabulary

_PIECES = (
    *(b'a","a"', b'ab","ab', b'","a', b'"]', b'a"]', b'"],"', b'a"],"b":', b'","b":', b'a",1'),
    *(b'b","a","', b'b","ab",', b'"]}', b'b"]}', b'"],"b":1', b'"],"b":"a', b'"},"', b'",{"a":"'),
    *(b"\\u0061", b'\\u0061","', b'","\\u', b"1,", b'1,"a', b'null,"', b"1.0", b'"],["a', b'"]]'),
    *(b'a","a","b","b', b'a","a","abc"', b'a","a","\\u0061', b'a","a",{"a":1,"b":1}'),
    *(b'a","a"],"b":"a', b'a","b"],"b":"a', b'","\\u0061', b'b","\\u0061"'),
)
_VOCABULARY = tiny_vocabulary([*JSON_PIECES, *_PIECES])
_COMPILER = ConstraintCompiler(_VOCABULARY)
_FREE = JsonOptions(
    key_order=KeyOrder.ANY,
    whitespace=None,
    spelling=Spelling.ANY,
    max_string_length=None,
    max_number_digits=None,
)
_OPTIONS = {
    "compact": JsonOptions(key_order=KeyOrder.ANY),
    "few items": JsonOptions(key_order=KeyOrder.ANY, max_array_items=3),
    "short": JsonOptions(key_order=KeyOrder.ANY, max_string_length=2, max_additional_members=1),
    "free": _FREE,
}
_STRINGS = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
_OPEN = {"type": "array", "uniqueItems": True}


def _beside(array: dict[str, Any]) -> dict[str, Any]:
    """An object whose member ``a`` is such an array, or whose member ``b`` is an integer."""
    other = {"properties": {"b": {"type": "integer"}}}
    return {"type": "object", "anyOf": [other, {"properties": {"a": array}, "required": ["a"]}]}


_SCHEMAS: dict[str, Any] = {
    "strings": _STRINGS,
    "anything": _OPEN,
    "integers": {**_OPEN, "items": {"type": "integer"}},
    "few integers": {**_OPEN, "items": {"type": "integer", "minimum": 0, "maximum": 12}},
    "few integers, three at least": {
        **_OPEN,
        "items": {"type": "integer", "minimum": 9, "maximum": 11},
        "minItems": 3,
    },
    "choices": {**_OPEN, "items": {"enum": ["a", "ab", "b", None, 1, 10]}},
    "lists of integers": {**_OPEN, "items": {**_OPEN, "items": {"type": "integer"}}},
    "strings and integers": {**_OPEN, "items": {"type": ["string", "integer"]}},
    "strings and null, three at least": {
        **_OPEN,
        "items": {"type": ["string", "null"]},
        "minItems": 3,
    },
    "short strings and numbers": {
        **_OPEN,
        "items": {"type": ["string", "number"], "maxLength": 1},
        "maxItems": 4,
    },
    "strings and lists of them": {**_OPEN, "items": {"anyOf": [{"type": "string"}, _STRINGS]}},
    "alike in one alternative": {"anyOf": [_STRINGS, {"type": "array", "items": {"minimum": 0}}]},
    "alike, or short": {"anyOf": [_STRINGS, {"type": "array", "maxItems": 2}]},
    "alike, or a closed list": {"anyOf": [_STRINGS, {"type": "array", "contains": {"const": 1}}]},
    "some are alike": {"type": "array", "not": _OPEN},
    "alike beside another member": _beside(_STRINGS),
    "at most nine beside another member": _beside({**_STRINGS, "maxItems": 9}),
    "a prefix beside another member": _beside(
        {**_STRINGS, "prefixItems": [{"type": "string"}] * 5}
    ),
    "objects beside another member": _beside(
        {**_OPEN, "items": {"properties": {"b": {}, "a": {}}}}
    ),
    "not a long string beside another member": _beside(
        {**_OPEN, "items": {"not": {"enum": ["x" * 6]}}}
    ),
    "the empty string alone": {**_OPEN, "items": {"type": ["string", "integer"], "pattern": "^$"}},
    "exactly one of two": {"oneOf": [_STRINGS, {"type": "array", "maxItems": 2}]},
}
_ITEMS = ('"a"', '"ab"', '"a","b"', '"ab","a","ab"', '1,"a"', '"a",1,"a"', 'null,"a","b"')
_TEXTS = [
    *(f"[{items}]" for items in _ITEMS),
    *(f'{{"a":[{items}],"b":1}}' for items in _ITEMS),
    *(f'{{"b":"x","a":[{items}]}}' for items in _ITEMS),
    '["a",["a","b"],["b","a"]]',
    *("[1,2,10]", "[0,10,100]", "[12,1,0]", "[10,9,11]", "[1,null,10]", "[[1,10],[10,1],[],[0]]"),
    '["a",{"a":"a"},"b"]',
]


@pytest.mark.parametrize("options", _OPTIONS.values(), ids=_OPTIONS)
@pytest.mark.parametrize("schema", _SCHEMAS.values(), ids=_SCHEMAS)
def test_masks_equal_trying_every_token(schema: Any, options: JsonOptions) -> None:
    compiled = _COMPILER.compile(JsonSchema(json.dumps(schema), options))
    num_compared = 0
    for text in _TEXTS:
        matcher = compiled.start()
        for byte in text.encode():
            expected = {0} if matcher.is_accepting else set()
            expected |= {
                token
                for token, spelled in enumerate(_VOCABULARY.token_bytes)
                if spelled is not None and compiled.machine.advance(matcher.state, spelled)
            }
            assert set(tokens_of(matcher.mask()).tolist()) == expected, (text, matcher.state.texts)
            num_compared += 1
            if byte + 1 not in expected:
                break
            matcher = matcher.advance(TokenId(byte + 1))
    assert num_compared > 50


_LONG = [f"path/to/file{number}" for number in range(6)]


@pytest.mark.parametrize("options", [JsonOptions(), _FREE], ids=["compact", "free"])
@pytest.mark.parametrize(
    ("schema", "document"),
    [
        (_SCHEMAS["anything"], _LONG),
        (_SCHEMAS["strings and integers"], _LONG),
        (_beside(_STRINGS), {"a": _LONG}),
    ],
)
def test_no_stack_is_made_for_each_token_that_ends_an_item(
    schema: Any, document: Any, options: JsonOptions
) -> None:
    num_stacks = []
    for num_tokens in (1, 60):
        pieces = [
            b'%c%c","' % (97 + number % 26, 97 + number // 26) for number in range(num_tokens)
        ]
        compiler = ConstraintCompiler(tiny_vocabulary(pieces))
        compiled = compiler.compile(JsonSchema(json.dumps(schema), options))
        matcher = compiled.start()
        for byte in json.dumps(document, separators=(",", ":")).encode():
            matcher.mask()
            matcher = matcher.advance(TokenId(byte + 1))
        num_stacks.append(len(compiled.machine.parts.stacks.frames))
    assert num_stacks[1] <= num_stacks[0] + 10
