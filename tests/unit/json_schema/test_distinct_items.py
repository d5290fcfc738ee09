"""Arrays whose items have to differ when few values are left, or have to repeat one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guided.constraint import ConstraintCompiler, Matcher
from guided.errors import LimitExceededError, TokenRejectedError, UnsatisfiableError
from guided.json_schema.formulas.assertions import JsonType, NumberChoices, Types
from guided.json_schema.formulas.formula import Formula, Formulas
from guided.json_schema.formulas.values import read_value
from guided.json_schema.machine.distinct import DistinctTexts
from guided.machine.recognizer import State
from guided.masks.limits import ConstraintLimits
from guided.masks.mask import tokens_of
from guided.runtime.work_budget import limited_work
from guided.spec import JsonOptions, JsonSchema, Spelling, TokenId
from tests.kit.cases import compiled
from tests.kit.tiny_vocabulary import tiny_vocabulary
from tests.kit.walks import BYTES, allows
from tests.unit.json_schema.documents import accepts, machine_of

_FREE = JsonOptions(max_number_digits=None)
_ANY = JsonOptions(spelling=Spelling.ANY)
_ANY_FREE = JsonOptions(spelling=Spelling.ANY, max_number_digits=None)
_HALF = {"type": "number", "minimum": 0.5, "maximum": 0.5}


def _unique(**keywords: Any) -> dict[str, Any]:
    return {"type": "array", "uniqueItems": True, **keywords}


def _listed(*places: Any, **keywords: Any) -> dict[str, Any]:
    return {
        "type": "array",
        "prefixItems": list(places),
        "items": False,
        "minItems": len(places),
        **keywords,
    }


@pytest.mark.parametrize(
    ("schema", "options", "text"),
    [
        (_unique(items=_HALF), _FREE, "[0.5"),
        (_unique(items=_HALF), _FREE, "[0.500"),
        (_unique(items={"enum": [1, 2, 3]}), _ANY, "[1,2,3"),
        (_unique(items={"enum": [1, 2, 3]}), _ANY, "[1.0,2,3.00"),
        (_unique(items={"enum": [1, 2, 3]}), _ANY_FREE, "[1,2,3"),
        (_unique(items={"enum": [0]}), _ANY_FREE, "[-0"),
        (_unique(items={"type": "integer", "minimum": 1, "maximum": 2}), _FREE, "[2,1"),
    ],
)
def test_no_further_item_is_due_where_all_numbers_are_taken(
    schema: Any, options: JsonOptions, text: str
) -> None:
    """Even if each of the few numbers has many spellings."""
    matcher = compiled(schema, options).start()
    for byte in text.encode():
        matcher = matcher.advance(BYTES.byte_ids[byte])
    comma, bracket = (TokenId(byte + 1) for byte in b",]")
    for mask in (matcher.mask(), matcher.mask_within(3)):
        assert not allows(mask, comma)
        assert allows(mask, bracket)


def test_numbers_without_end_are_free_to_differ() -> None:
    machine = machine_of(_unique(items={"type": "number", "minimum": 0, "maximum": 1}), _FREE)
    assert accepts(machine, "[0.5,0.25,0.50001]")
    assert not accepts(machine, "[0.5,0.50]")


_CHAIN = [{"enum": pair} for pair in ([1, 2], [1], [3, 4], [3], [5, 6], [5], [7, 8], [7])]


def test_items_that_differ_are_matched_with_their_places() -> None:
    machine = machine_of(_listed(*_CHAIN, uniqueItems=True))
    assert accepts(machine, "[2,1,4,3,6,5,8,7]")
    assert not machine.parts.num_given_up


def test_an_array_that_needs_a_matching_can_be_written_as_a_member() -> None:
    schema = {"properties": {"a": _listed(*_CHAIN, uniqueItems=True), "b": {"type": "integer"}}}
    assert accepts(machine_of(schema), '{"a":[2,1,4,3,6,5,8,7],"b":1}')


def test_a_long_chain_of_displaced_values() -> None:
    """The last place takes a value whose owner has to move, and so on to the first."""
    count = 40
    places = [{"enum": [number, number + 1]} for number in range(count)] + [{"const": 0}]
    text = json.dumps([*range(1, count + 1), 0], separators=(",", ":"))
    assert accepts(machine_of(_listed(*places, uniqueItems=True)), text)


def test_fewer_values_than_places_are_unsatisfiable() -> None:
    places = [{"enum": [1, 2]}, {"enum": [1, 2, 3]}, {"enum": [1, 3]}, {"enum": [2, 3]}]
    with pytest.raises(UnsatisfiableError):
        machine_of(_listed(*places, uniqueItems=True))


DOCUMENTS: list[tuple[dict[str, Any], set[str]]] = [
    (
        _listed({"type": "integer", "minimum": 0, "maximum": 3}, {"minimum": 3, "maximum": 3,
                "type": "integer"}, uniqueItems=True),
        {"[0,3]", "[1,3]", "[2,3]"},
    ),
    (
        _listed({"type": "string", "pattern": "^a?$"}, {"type": "string", "maxLength": 0},
                uniqueItems=True),
        {'["a",""]'},
    ),
    (
        _listed({"type": "object", "properties": {"a": {"const": 1}},
                 "additionalProperties": False}, {"const": {}}, uniqueItems=True),
        {'[{"a":1},{}]'},
    ),
    (_listed({"type": "boolean"}, {"const": True}, uniqueItems=True), {"[false,true]"}),
    (
        _listed({"enum": [1, 2]}, {"enum": [1, 2, 3]}, {"enum": [1, 2]}, uniqueItems=True),
        {"[1,3,2]", "[2,3,1]"},
    ),
    (
        _listed({"type": "integer", "minimum": 0, "maximum": 9}, {"const": 3},
                **{"not": {"uniqueItems": True}}),
        {"[3,3]"},
    ),
    (
        _listed({"enum": [1, 2]}, {"enum": [2, 3]}, {"enum": [3, 4]},
                **{"not": {"uniqueItems": True}}),
        {"[2,2,3]", "[2,2,4]", "[1,3,3]", "[2,3,3]"},
    ),
    (
        {"type": "array", "items": {"enum": [1, 2]}, "contains": {}, "maxItems": 2,
         "not": {"uniqueItems": True}},
        {"[1,1]", "[2,2]"},
    ),
    (
        _unique(items={"enum": [1, 2, 3]}, contains={"enum": [1, 2]}, minContains=2, maxItems=2),
        {"[1,2]", "[2,1]"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "documents"), DOCUMENTS)
def test_every_document_is_written_and_no_text_is_stuck(schema: Any, documents: set[str]) -> None:
    machine = machine_of(schema)
    found: set[str] = set()
    todo: list[tuple[State, bytes]] = [(machine.start, b"")]
    while todo:
        state, text = todo.pop()
        behind = [(byte, machine.step(state, byte)) for byte in range(32, 127)]
        further = [(reached, text + bytes((byte,))) for byte, reached in behind if reached]
        assert further or machine.table.is_end(state.row), text
        todo += further
        if machine.table.is_end(state.row):
            found.add(text.decode())
    assert found == documents


def test_a_value_beyond_the_first_hundred_may_be_in_the_way() -> None:
    machine = machine_of(_listed({"enum": [*range(150)]}, {"const": 149}, uniqueItems=True))
    assert accepts(machine, "[148,149]")
    assert machine.advance(machine.start, b"[149") is None


_SEVEN = [{"contains": {"enum": [3 * n, 3 * n + 1, 3 * n + 2]}} for n in range(7)]
_CROWDED = _unique(items={"type": "integer", "minimum": 0, "maximum": 20}, maxItems=6, allOf=_SEVEN)
"""Seven items are needed and six are possible: no document, but very many ways to try."""


def test_a_search_that_gave_up_does_not_say_that_nothing_exists() -> None:
    with pytest.raises(LimitExceededError, match="no document was found") as caught:
        machine_of(_CROWDED)
    assert caught.value.hint


def test_a_member_that_the_search_gave_up_on_is_counted() -> None:
    machine = machine_of({"properties": {"a": _CROWDED, "b": {"type": "integer"}}})
    assert accepts(machine, '{"b":1}')
    assert machine.parts.num_given_up


def test_a_member_whose_values_are_all_too_long_is_counted() -> None:
    machine = machine_of({"properties": {"a": {"type": "string", "minLength": 200_000}}})
    assert accepts(machine, "{}")
    assert machine.parts.num_given_up


def test_a_limit_names_the_place_where_the_search_gave_up() -> None:
    tree = {"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#/$defs/a"}}}
    schema = {"$defs": {"a": {"anyOf": [_CROWDED, {"$ref": "#/$defs/b"}]}, "b": tree}, **tree}
    with pytest.raises(LimitExceededError) as caught:
        machine_of(schema)
    assert caught.value.pointer == "/$defs/a"


def _numbers(formulas: Formulas, *values: int) -> Formula:
    numbers = NumberChoices(tuple(read_value(b"%d" % value) for value in values))
    is_number = formulas.leaf(Types(frozenset((JsonType.NUMBER,))))
    return formulas.all_of([is_number, formulas.leaf(numbers)])


def test_dropped_places_leave_their_values_to_others() -> None:
    formulas = Formulas()
    values = machine_of(True).evaluation.values
    distinct = DistinctTexts(formulas, values.text)
    assert distinct.add(_numbers(formulas, 1, 2))
    assert distinct.add(_numbers(formulas, 1))
    assert distinct.texts == [b"2", b"1"]
    assert not distinct.add(_numbers(formulas, 1, 2))
    assert distinct.texts == [b"2", b"1"]
    distinct.drop()
    assert distinct.add(_numbers(formulas, 1, 2))
    assert sorted(distinct.texts) == [b"1", b"2"]


@pytest.mark.parametrize(
    "items", [{"type": "string"}, {"type": "integer"}, {"type": ["string", "number"]}]
)
def test_the_last_item_but_one_may_be_the_one_that_comes_again(items: Any) -> None:
    """A mask that ignores the item would mean that no later one can equal it."""
    schema = {"type": "array", "items": items, "not": {"uniqueItems": True}, "maxItems": 2}
    matcher = compiled(schema, JsonOptions()).start()
    text = b"[12,12]" if "integer" in items["type"] else b'["ab","ab"]'
    for byte in text:
        token = BYTES.byte_ids[byte]
        assert allows(matcher.mask(), token), (chr(byte), text)
        matcher = matcher.advance(token)
    assert matcher.is_accepting


@pytest.mark.parametrize(
    "denied",
    [
        {"uniqueItems": True},
        # The same for numbers, though the schema says more.
        {"uniqueItems": True, "items": {"uniqueItems": True}},
        {"uniqueItems": True, "items": {"type": "integer"}, "contains": {"minimum": 3}},
    ],
)
def test_a_number_that_could_not_come_again_is_not_begun(denied: dict[str, Any]) -> None:
    """After 8 only another 8, or a number that the third place may repeat."""
    schema = {
        "type": "array",
        "prefixItems": [True, True],
        "items": {"maximum": 1},
        "maxItems": 3,
        "allOf": [{"items": {"type": "integer", "minimum": 0}}],
        "not": denied,
    }
    constraint = compiled(schema, JsonOptions())
    matcher = constraint.start()
    for byte in b"[8,":
        matcher = matcher.advance(BYTES.byte_ids[byte])
    digits = {chr(byte) for byte in b"0123456789" if allows(matcher.mask(), BYTES.byte_ids[byte])}
    assert digits == set("018")
    assert not constraint.incomplete


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ({"pattern": "^(x|y+)$"}, '["x'),
        ({"pattern": "^(x|y+)$"}, '["y'),
        ({"pattern": "^(x|y+)$"}, '["y","x'),
        ({"pattern": "^y*x$"}, '["x'),
        ({"pattern": "^y*x$"}, '["yx'),
        ({"pattern": "^y*x$"}, '["yyx","x'),
        ({"pattern": "^(xx?|y+)$"}, '["x'),
        ({"pattern": "^(xx?|y+)$"}, '["xx","x'),
        ({"pattern": "^y+$"}, '["y'),
        ({"pattern": "^x*y*$"}, '["x","y'),
        ({"maxLength": 1}, '["x'),
        ({"maxLength": 2}, '["xx'),
        ({"maxLength": 2}, '["y","yx'),
        ({"maxLength": 7}, '["xx'),
        ({"maxLength": 40}, '["xx'),
        ({"minLength": 2, "maxLength": 2}, '["yx'),
        ({"pattern": "^y[a-z]{9}$"}, '["yxxxxxxxxx'),
        ({"format": "date"}, '["2020-12-31'),
    ],
)
def test_a_token_may_not_begin_an_item_that_could_only_come_again(item: Any, text: str) -> None:
    """A token that ends an item and begins the next one."""
    begun = (b"x", b"y", b"xx", b"yx", b'y","x', b'x","', b"2020-12-31", b"yxxxxxxxxx")
    vocabulary = tiny_vocabulary([b'","' + text for text in begun])
    schema = _unique(items={"type": "string", **item}, minItems=3)
    matcher = ConstraintCompiler(vocabulary).start(JsonSchema(json.dumps(schema)))
    for byte in text.encode():
        matcher = matcher.advance(vocabulary.byte_ids[byte])
    allowed = tokens_of(matcher.mask()).tolist()
    assert allowed == [token for token in range(len(vocabulary)) if _may_come(matcher, token)]


def test_items_that_fit_the_same_formulas_are_counted() -> None:
    """Each formula by itself leaves many strings, both together a single one."""
    vocabulary = tiny_vocabulary([b'","', b'","x', b'","xa'])
    schema = {
        **_unique(items={"type": "string", "pattern": "^xa*$"}),
        "anyOf": [
            {"items": {"type": "string", "pattern": "^xb*$"}},
            {"items": {"type": "string", "pattern": "^xaa"}},
        ],
    }
    matcher = ConstraintCompiler(vocabulary).start(JsonSchema(json.dumps(schema)))
    for byte in b'["x':
        matcher = matcher.advance(vocabulary.byte_ids[byte])
    allowed = tokens_of(matcher.mask()).tolist()
    assert allowed == [token for token in range(len(vocabulary)) if _may_come(matcher, token)]


@pytest.mark.parametrize("bound", [1, 2, 3, 4])
@pytest.mark.parametrize("text", ['["x', '["xx', '["xxx', '["x","xx'])
def test_a_bound_of_the_options_gives_way_within_a_token_too(bound: int, text: str) -> None:
    vocabulary = tiny_vocabulary([b'","' + text for text in (b"x", b"y", b"xx", b"xxx", b"yxx")])
    options = JsonOptions(max_string_length=bound)
    schema = _unique(items={"type": "string"}, minItems=3)
    compiler = ConstraintCompiler(vocabulary)
    matcher = compiler.start(JsonSchema(json.dumps(schema), options=options))
    for byte in text.encode():
        if not matcher.allows(vocabulary.byte_ids[byte]):
            assert len(text.rpartition('"')[2]) > bound
            return
        matcher = matcher.advance(vocabulary.byte_ids[byte])
    allowed = tokens_of(matcher.mask()).tolist()
    assert allowed == [token for token in range(len(vocabulary)) if _may_come(matcher, token)]


@pytest.mark.parametrize(
    ("item", "options", "text"),
    [
        # The bound leaves nothing that goes on as the token begins.
        ({"pattern": "^(ab)*$"}, JsonOptions(max_string_length=4), '["abab'),
        ({"pattern": "^(ab)*$"}, JsonOptions(max_string_length=4), '["abab","ab'),
        ({"pattern": "^([a-z]{8})*$"}, JsonOptions(max_string_length=10), '["abababab'),
        ({"pattern": "^(b{1,9}|ab[ab]?|ab[ab]{8})$"}, JsonOptions(max_string_length=4), '["ab'),
        # Strings that differ from a known one are written in one way alone.
        ({}, _ANY, '["ab'),
        ({"minLength": 2}, _ANY, '["ab'),
        ({"maxLength": 40}, _ANY, '["ab'),
    ],
)
def test_what_the_options_leave_of_strings_counts_within_a_token(
    item: Any, options: JsonOptions, text: str
) -> None:
    begun = (b"a", b"ab", b"aba", b"abab", b"abababab", b"\\/", b"\\u0061")
    vocabulary = tiny_vocabulary([b'","' + text for text in begun])
    schema = _unique(items={"type": "string", **item}, minItems=3)
    compiler = ConstraintCompiler(vocabulary)
    matcher = compiler.start(JsonSchema(json.dumps(schema), options=options))
    for byte in text.encode():
        matcher = matcher.advance(vocabulary.byte_ids[byte])
    allowed = tokens_of(matcher.mask()).tolist()
    assert allowed == [token for token in range(len(vocabulary)) if _may_come(matcher, token)]


def _may_come(matcher: Matcher, token: int) -> bool:
    try:
        matcher.advance(TokenId(token))
    except TokenRejectedError:
        return False
    return True


def test_hundreds_of_different_strings_are_found_within_the_limit_of_a_step() -> None:
    """Each has to differ from all before it, and what is looked at for that is looked at once."""
    machine = machine_of(_unique(items={"type": "string"}, minItems=500))
    with limited_work(ConstraintLimits().step_work):
        state = machine.advance(machine.start, b'["hello"')
    assert state is not None
    items = json.loads(b'["hello"' + machine.shortest_completion(state))
    assert len(set(items)) == len(items) == 500
