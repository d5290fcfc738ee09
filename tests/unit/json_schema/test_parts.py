"""The parts that work with formulas: restriction, inlining, scalars, names and values."""
# ruff: noqa: E501 (a table has one case a line)

from __future__ import annotations

import itertools
import json
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from guided.json_schema.formulas.assertions import (
    Booleans,
    Contains,
    HasMember,
    Items,
    JsonType,
    Length,
    Matches,
    Members,
    NumberChoices,
    Numbers,
    StringChoices,
    Types,
)
from guided.json_schema.formulas.formula import (
    FALSE,
    TRUE,
    Formula,
    Formulas,
    Leaf,
    SchemaNode,
    leaves_of,
)
from guided.json_schema.formulas.values import read_value
from guided.json_schema.machine.containers import derive_value_formulas
from guided.json_schema.machine.evaluation import Evaluation
from guided.json_schema.machine.name_classes import NameSpace
from guided.json_schema.machine.restriction import MAX_INLINED_NODES, Inliner, Restriction
from guided.json_schema.machine.scalar_blocks import pattern_dfa
from guided.json_schema.machine.scalars import Scalars
from guided.json_schema.machine.string_automata import choices_dfa
from guided.json_schema.reader import lower_json_schema
from guided.machine.block import CODE_POINT_END, START
from guided.machine.parts import RecognizerLimits
from guided.regular.patterns import parse_regex
from guided.spec import JsonOptions, JsonSchema
from tests.kit.evaluate import exactly_one

_F = Formulas()
_REQUIRED = frozenset((1,))


def _scalars(**options: Any) -> Scalars:
    return Scalars(
        _F,
        JsonOptions(**options),
        frozenset(),
        4,
    )


def _nodes(*formulas: Formula) -> list[SchemaNode]:
    return [SchemaNode(number, "", partial(_same, f)) for number, f in enumerate(formulas)]


def _same(formula: Formula) -> Formula:
    return formula


def _types(*kinds: str) -> Leaf:
    return _F.leaf(Types(frozenset(map(JsonType, kinds))))


def _pattern(text: str) -> Leaf:
    return _F.leaf(Matches(parse_regex(text)))


def _length(low: int, high: int | None) -> Leaf:
    return _F.leaf(Length(low, high))


_SHORT = _F.leaf(Length(0, 2))
_LISTED = _F.leaf(StringChoices(("a", "bcd", "e")))
_WHOLE = _F.leaf(Numbers(integer=True))

# --- restriction --------------------------------------------------------------------------


def test_what_speaks_about_other_types_falls_away() -> None:
    restriction = Restriction(_F)
    formula = _F.all_of([_types("string", "null"), _SHORT, _WHOLE, _F.negate(_LISTED)])
    assert restriction.to_type(JsonType.STRING, formula) is _F.all_of([_SHORT, _F.negate(_LISTED)])
    assert restriction.to_type(JsonType.NUMBER, formula) is FALSE
    assert restriction.fits_null(formula) is False, (
        "not(a list of strings) fails of what is no string"
    )
    assert restriction.fits_null(_F.all_of([_types("string", "null"), _SHORT])) is True


def test_nodes_are_looked_into() -> None:
    restriction = Restriction(_F)
    inner = SchemaNode(1, "/x", lambda: _F.any_of([_SHORT, _types("null")]))
    outer = SchemaNode(0, "", lambda: inner)
    assert restriction.to_type(JsonType.STRING, outer) is _SHORT
    assert restriction.to_type(JsonType.OBJECT, outer) is TRUE


def test_booleans_are_told_apart() -> None:
    restriction = Restriction(_F)
    only_true = _F.leaf(Booleans(frozenset((True,))))
    assert [restriction.fits_boolean(only_true, value) for value in (True, False)] == [True, False]
    assert restriction.fits_boolean(_F.negate(only_true), False)
    assert not restriction.fits_boolean(_types("null"), True)


# --- inlining ------------------------------------------------------------------------------


def test_small_nodes_that_say_the_same_become_one_formula() -> None:
    one, two = _nodes(_SHORT, _SHORT)
    item, same = _nodes(_F.leaf(Items((), one)), _F.leaf(Items((), two)))
    inliner = Inliner(_F)
    assert inliner.inline(item) is inliner.inline(same) is _F.leaf(Items((), _SHORT))
    assert inliner.inline(one) is _SHORT
    assert inliner.inline(_WHOLE) is _WHOLE


def test_nodes_that_lead_into_themselves_or_are_many_stay_nodes() -> None:
    itself: SchemaNode = SchemaNode(0, "", lambda: _F.leaf(Items((), itself)))
    chain = _nodes(_SHORT)
    for _ in range(MAX_INLINED_NODES + 1):
        chain += _nodes(_F.leaf(Items((), chain[-1])))
    inliner = Inliner(_F)
    assert inliner.inline(itself) is itself
    assert inliner.inline(chain[-1]) is chain[-1]
    assert inliner.inline(chain[1]) is _F.leaf(Items((), _SHORT))


# --- scalars ------------------------------------------------------------------------------

_TEXTS = ["".join(letters) for n in range(4) for letters in itertools.product("abe", repeat=n)]

STRINGS: list[Formula] = [
    TRUE,
    _SHORT,
    _LISTED,
    _pattern("^a"),
    _F.negate(_LISTED),
    _F.negate(_pattern("^a")),
    _F.all_of([_SHORT, _pattern("b$")]),
    _F.any_of([_F.negate(_SHORT), _pattern("^b")]),
    exactly_one(_F, [_SHORT, _pattern("a"), _LISTED]),
    _F.all_of([_F.leaf(Length(2, None)), _F.negate(_F.leaf(StringChoices(("ab",))))]),
    _F.all_of([_F.leaf(Length(1, None)), _F.leaf(Length(0, 2)), _pattern("^[ab]*$")]),
]


@pytest.mark.parametrize("formula", STRINGS, ids=range(len(STRINGS)))
def test_a_block_of_strings_holds_those_that_fit(formula: Formula) -> None:
    scalars = _scalars()
    block = scalars.strings.block((formula,), _REQUIRED)
    assert block is not None
    block.dfa.check()
    for text in _TEXTS:
        found = block.dfa.run(json.dumps(text).encode()) is not None
        if found and block.bounds is not None:
            low, high = block.bounds
            found = low <= len(text) and (high is None or len(text) <= high)
        assert found == scalars.strings.fits(formula, text), text
    shortest = scalars.shortest_strings.shortest(formula)
    assert shortest is not None
    assert scalars.strings.fits(formula, json.loads(shortest))
    least = min(len(text) for text in _TEXTS if scalars.strings.fits(formula, text))
    assert len(json.loads(shortest)) == least


@pytest.mark.parametrize("pair", list(itertools.combinations(STRINGS[1:8], 2)), ids=range(21))
def test_a_block_tells_which_of_several_formulas_a_string_fits(pair: tuple[Formula, ...]) -> None:
    scalars = _scalars(max_string_length=None)
    every = frozenset(range(4))
    block = scalars.strings.block(pair, every)
    assert block is not None
    for text in _TEXTS:
        label = block.dfa.run(json.dumps(text).encode())
        assert label is not None
        verdict = sum(scalars.strings.fits(formula, text) << i for i, formula in enumerate(pair))
        assert block.truth_vectors[label] == verdict
        assert verdict in scalars.strings.possible_vectors(pair)
    some = scalars.strings.block(pair, frozenset((1, 2)))
    assert some is None or set(some.truth_vectors) <= {1, 2}


def test_strings_are_listed_where_an_assertion_lists_them() -> None:
    scalars = _scalars()
    assert scalars.strings.list_with_vectors((_LISTED,), _REQUIRED) == [
        ("a", 1),
        ("bcd", 1),
        ("e", 1),
    ]
    assert scalars.strings.list_with_vectors((_F.all_of([_LISTED, _SHORT]),), _REQUIRED) == [
        ("a", 1),
        ("e", 1),
    ]
    assert scalars.strings.list_with_vectors((_SHORT,), _REQUIRED) is None
    assert scalars.strings.list_with_vectors((_F.negate(_LISTED),), _REQUIRED) is None
    assert scalars.strings.list_with_vectors((_LISTED, _SHORT), frozenset((1, 3))) == [
        ("a", 3),
        ("bcd", 1),
        ("e", 3),
    ]
    assert scalars.strings.list_with_vectors((_LISTED, _SHORT), frozenset((2, 3))) is None


def test_long_lengths_are_counted_beside_the_automaton() -> None:
    block = _scalars().strings.block((_F.leaf(Length(50, 5_000)),), _REQUIRED)
    assert block is not None
    assert block.count_event is not None
    assert len(block) < 50
    assert block.bounds == (50, 5_000)
    assert {START, CODE_POINT_END} <= set(block.count_event.tolist())
    assert int(block.distance[0]) == 52
    free = _scalars(max_string_length=None).strings.block((TRUE,), _REQUIRED)
    assert free is not None
    assert free.bounds is None


def test_blocks_are_shared_by_schemas_that_ask_for_the_same() -> None:
    other = Formulas()
    mine = _scalars().strings.block((_pattern("^x+$"),), _REQUIRED)
    theirs = Scalars(other, JsonOptions(), frozenset(), 4).strings.block(
        (other.leaf(Matches(parse_regex("^x+$"))),), _REQUIRED
    )
    assert mine is theirs
    assert mine is not _scalars(max_string_length=5).strings.block((_pattern("^x+$"),), _REQUIRED)


NUMBERS: list[tuple[Formula, bytes | None]] = [
    (TRUE, b"0"),
    (FALSE, None),
    (_F.leaf(Numbers(multiple_of=Decimal(7))), b"0"),
    (_F.leaf(NumberChoices((Decimal(250), Decimal(31)))), b"31"),
    (_F.negate(_WHOLE), b"0.1"),
    (_F.all_of([_WHOLE, _F.negate(_F.leaf(NumberChoices((Decimal(0),))))]), b"1"),
    (_F.all_of([_WHOLE, _F.negate(_WHOLE)]), None),
]


@pytest.mark.parametrize(("formula", "shortest"), NUMBERS, ids=range(len(NUMBERS)))
def test_the_shortest_number(formula: Formula, shortest: bytes | None) -> None:
    found = _scalars().numbers.shortest(formula)
    assert (found is None) == (shortest is None)
    if found is not None and shortest is not None:
        assert len(found) == len(shortest)
        assert _scalars().numbers.fits(formula, Decimal(found.decode()))


def test_a_list_of_strings_is_a_trie() -> None:
    dfa = choices_dfa(dict.fromkeys(["ab", "a", "é", ""], 0))
    assert [dfa.accepts(text) for text in ("ab", "a", "é", "")] == [True] * 4
    assert not any(dfa.accepts(text) for text in ("b", "abc", "e"))


@pytest.mark.parametrize(
    ("formula", "left"),
    [
        (TRUE, 1e6),
        (FALSE, 0),
        # Up to 300 characters are counted.
        (_pattern("^a+$"), 297),
        (_pattern("^(x|a+)$"), 1),
        (_pattern("^a+b$"), 1),
        # Four bytes, as many as a token has here, do not get to the last character, or do.
        (_pattern("^[a-z]{4,}!$"), 1e6),
        (_pattern("^[a-z]{3,}!$"), 1),
        (_pattern("^a{1,3}$"), 1),
        (_LISTED, 0),
        # A bound on the length leaves many strings, if it is not near.
        (_length(0, 30), 1e6),
        (_length(8, 8), 1e6),
        (_length(0, 5), 96),
        (_length(0, 4), 1),
        (_length(6, 5), 0),
        (_F.all_of([_pattern("^a*$"), _length(0, 1000)]), 297),
        (_F.all_of([_pattern("^[ab]*$"), _length(0, 30)]), 1e6),
        (_F.all_of([_pattern("^[ab]*$"), _length(0, 14)]), 2**11 - 1),
        (_F.all_of([_pattern("^[ab]*$"), _length(14, 14)]), 2**10),
        (_pattern("^[0-9]{4}-[0-9]{3}$"), 1_000),
        (_F.all_of([_pattern("^[0-9]{4}-[0-9]{3}$"), _length(0, 100)]), 1_000),
        (_F.all_of([_pattern("^[0-9]{4}-[0-9]{3}$"), _length(0, 7)]), 0),
        (_F.all_of([_pattern("^a+$"), _F.negate(_LISTED)]), 294),
        (_F.all_of([_length(0, 5), _F.negate(_LISTED)]), 93),
    ],
)
def test_how_many_strings_are_left_however_they_begin(formula: Formula, left: float) -> None:
    assert _scalars().strings.num_left(formula) == left


# --- names --------------------------------------------------------------------------------


def _space(*patterns: str, formulas: tuple[Formula, ...] = ()) -> NameSpace:
    parsed = tuple(map(parse_regex, patterns))
    return NameSpace(parsed, formulas, pattern_dfa, _scalars().strings.formula_dfa, frozenset())


def test_names_are_told_apart_by_the_patterns_that_are_found_in_them() -> None:
    space = _space("^a", "b$")
    classes = {
        text: space.classes[label]
        for text in ("ab", "ax", "xb", "x", "")
        if (label := _class_of(space, text)) is not None
    }
    found = {text: len(each.patterns) for text, each in classes.items()}
    assert found == {"ab": 2, "ax": 1, "xb": 1, "x": 0, "": 0}
    assert classes["ax"] != classes["xb"]
    assert classes["x"] == classes[""]
    assert len(space.classes) == 4


def _class_of(space: NameSpace, text: str) -> int | None:
    block = space.block(frozenset(range(len(space.classes))))
    assert block is not None
    return block.dfa.run(json.dumps(text)[1:-1].encode())


def test_names_are_told_apart_by_formulas() -> None:
    space = _space(formulas=(_SHORT,))
    inside, outside = (_class_of(space, text) for text in ("ab", "abc"))
    assert inside is not None
    assert outside is not None
    assert space.classes[inside].formulas == {_SHORT}
    assert not space.classes[outside].formulas
    assert [space.is_infinite(number) for number in (inside, outside)] == [False, True]


def test_fresh_names_are_the_shortest_that_are_not_taken() -> None:
    space = _space("^a?b?$")
    number = _class_of(space, "ab")
    assert number is not None
    assert sorted(space.unused_names(number, ())) == [b"", b"a", b"ab", b"b"]
    assert list(space.unused_names(number, {b"", b"a", b"b"})) == [b"ab"]
    assert list(space.unused_names(number, {b"", b"a", b"b", b"ab"})) == []
    lengths = [len(text) for text in itertools.islice(_space().unused_names(0, ()), 30)]
    assert lengths == sorted(lengths)


def test_all_names_of_a_class_are_found() -> None:
    space = _space("^[a-z]$")
    number = _class_of(space, "q")
    assert number is not None
    assert len(set(space.unused_names(number, ()))) == 26


def test_the_search_for_names_takes_little_memory_and_counts_it() -> None:
    held = []
    for pattern, least in (("", 2_000), ("^x{2000}", 1000 * 2_000)):
        space = _space(pattern)
        number = _class_of(space, "x" * 2_000)
        assert number is not None
        for _ in itertools.islice(space.unused_names(number, ()), 1000):
            pass
        held.append(space.nbytes)
        assert space.nbytes > least
    assert held[0] < 4 * 2**20


# --- values -------------------------------------------------------------------------------


def _evaluation(schema: Any) -> tuple[Evaluation, Formula]:
    constraint = JsonSchema(json.dumps(schema))
    grammar = lower_json_schema(constraint).grammar
    return Evaluation(grammar, constraint.options, frozenset(), RecognizerLimits()), grammar.root


VALUES: list[tuple[Any, bytes | None]] = [
    (True, b"0"),
    (False, None),
    ({"type": "null"}, b"null"),
    ({"enum": ["abcdef", [], 7777777]}, b"[]"),
    ({"type": ["object", "string"], "minLength": 5}, b"{}"),
    ({"type": "object", "required": ["a"]}, b'{"a":0}'),
    ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, None),
    ({"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}, "minItems": 1}]}, b"null"),
    ({"$defs": {"x": {"type": "array", "minItems": 1, "items": {"anyOf": [{"$ref": "#/$defs/x"}, {"const": 5}]}}}, "$ref": "#/$defs/x"}, b"[5]"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "shortest"), VALUES, ids=repr)
def test_a_short_value_for_every_formula(schema: Any, shortest: bytes | None) -> None:
    evaluation, root = _evaluation(schema)
    assert evaluation.values.text(root) == shortest


def test_values_that_are_too_long_count_as_none() -> None:
    evaluation, root = _evaluation({"type": "string", "minLength": 100_000})
    assert evaluation.values.text(root) is None
    assert evaluation.values.exceeded == (100_000, "bytes")


def test_numbers_are_read_exactly() -> None:
    assert read_value(b'[1,0.1,{"a":1e2}]') == [Decimal(1), Decimal("0.1"), {"a": Decimal(100)}]
    assert isinstance(read_value(b"1"), Decimal)


# --- formulas of the next value ------------------------------------------------------

_ONE = _F.leaf(NumberChoices((Decimal(1),)))


def test_what_has_to_hold_in_any_case_is_asked_for_as_one() -> None:
    first, second = (_F.leaf(Items((), rest)) for rest in (_SHORT, _ONE))
    goal = _F.all_of([first, second])
    value, failed = derive_value_formulas(
        (goal,), [(first, _SHORT), (second, _ONE)], [], _F, required=True
    )
    assert value.formulas == (_F.all_of([_SHORT, _ONE]),)
    assert (value.required, value.dependent_assertions, failed) == (True, (), [])


def test_what_need_not_hold_is_linked_to_its_verdict() -> None:
    certain, first, second = (_F.leaf(Items((), rest)) for rest in (_WHOLE, _SHORT, _ONE))
    goal = _F.all_of([certain, _F.any_of([first, second])])
    universal: list[tuple[Leaf, Formula]] = [(certain, _WHOLE), (first, _SHORT), (second, _ONE)]
    value, failed = derive_value_formulas((goal,), universal, [], _F, required=True)
    assert value.formulas == (_WHOLE, _SHORT, _ONE)
    assert value.dependent_assertions == ((first, 1), (second, 2))
    assert not failed


def test_what_no_value_fits_has_failed() -> None:
    first, second = (_F.leaf(Members((), (), rest)) for rest in (FALSE, _ONE))
    goal = _F.any_of([first, second])
    value, failed = derive_value_formulas(
        (goal,), [(first, FALSE), (second, _ONE)], [], _F, required=True
    )
    assert failed == [first]
    assert value.dependent_assertions == ((second, 1),)


def test_what_only_counts_is_asked_for_as_well() -> None:
    counted = _F.leaf(Contains(_ONE, 1, None))
    value, _ = derive_value_formulas((counted,), [], [(counted, _ONE)], _F, required=True)
    assert value.formulas == (TRUE, _ONE)
    assert value.dependent_assertions == ((counted, 1),)


def test_nothing_is_asked_where_nothing_depends_on_it() -> None:
    goal = _F.leaf(HasMember("a"))
    value, _ = derive_value_formulas((goal, goal), [], [], _F, required=False)
    assert (value.formulas, value.required, value.dependent_assertions) == ((TRUE,), True, ())


def test_leaves_come_in_the_order_in_which_they_are_written() -> None:
    formula = _F.all_of([_WHOLE, _F.any_of([_F.negate(_SHORT), _ONE]), _SHORT])
    assert leaves_of((formula, _LISTED)) == [_WHOLE, _SHORT, _ONE, _LISTED]
