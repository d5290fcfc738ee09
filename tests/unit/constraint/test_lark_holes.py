"""Lark grammars with constraints in them: ``%json {…}``, and declared terminals that are filled."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from guided.constraint import ConstraintCompiler
from guided.constraint.structure import structure_of
from guided.errors import (
    ConstraintError,
    InvalidConstraintError,
    RequestError,
    UnsupportedFeatureError,
)
from guided.masks.mask import tokens_of
from guided.spec import Choice, JsonOptions, JsonSchema, Lark, Regex, Structure
from guided.spec.composition import Repeat, Sequence
from tests.kit.walks import BYTES, END, PIECES, accepts, random_walk, tried

_ONE = '{"type": "integer"}'
_NESTED = Lark(
    """
    // A list of calls, nested at will.  %json {
    start: "call" "(" (argument ("," argument)*)? ")"
    argument: start
        | %json {
            "type": "object",
            "properties": {"a": {"enum": [1, 11]}},
            "additionalProperties": false
        }
        | NUMBER | "%json"
    %declare NUMBER
    %ignore " "
    """,
    holes={"NUMBER": JsonSchema(_ONE)},
)


@pytest.mark.parametrize(
    ("constraint", "texts", "others"),
    [
        (
            _NESTED,
            ["call()", 'call( {"a":11} , 12,call(0) )', "call(%json)", " call({})  "],
            ["call(,)", 'call({"a": 1})', "call(1.5)", "call({},)"],
        ),
        # Inside of a rule that calls itself in the middle, and after a number.
        (
            Lark('start: "(" start ")" | ONE "0"\n%declare ONE', holes={"ONE": JsonSchema(_ONE)}),
            ["10", "(00)", "((-120))"],
            ["1", "(10", "01", "((10)"],
        ),
        # A grammar in a grammar, a pattern, one that has the empty text.
        (
            Lark(
                'start: A "," B ","\n%declare A B\n%ignore " "',
                holes=[
                    ("B", Lark('start: "b"? "c"?\n%ignore "_"')),
                    ("A", Sequence([Regex("a*"), Repeat(Choice(["x"]), 0, 1)])),
                ],
            ),
            [",,", "aax,b_c,", " a , bc , ", ",_b__,"],
            ["a x,,", ",b c,", "_,,"],
        ),
        # An imported terminal is filled by its own name also where the import gives it another.
        (
            Lark(
                "%import mine.A -> B\nstart: B",
                imports=(("mine", "%declare A"),),
                holes={"A": Choice(["x"])},
            ),
            ["x"],
            ["A", "B"],
        ),
        # Used in two places, with one schema in common.
        (
            Sequence([Lark(f"start: %json {_ONE}"), ";", Lark(f'start: %json{_ONE} "."')]),
            ["1;2."],
            ["1;2", "a;2."],
        ),
    ],
)
def test_the_texts_are_those_of_the_grammar_with_its_holes_filled(
    constraint: Structure, texts: list[str], others: list[str]
) -> None:
    start = ConstraintCompiler(BYTES).start(constraint)
    for text in texts:
        assert accepts(start, text.encode()), text
    for text in others:
        assert not accepts(start, text.encode()), text


_THING = f"""
thing: "<" (%json {_ONE} | other | FILLED) ">"
other: %json {{"type": "null"}}
spare: %json {{"type": "array"}}
%declare FILLED
"""


@pytest.mark.parametrize(
    "text",
    [
        f"%import mine.thing\nstart: thing | %json {_ONE} | FILLED\n%declare FILLED",
        "%import mine (thing)\nstart: thing | JSON_7 | FILLED\nJSON_7: /[0-9]/\n%declare FILLED",
        "%import yours.thing\nstart: thing | /[0-9]/ | FILLED\n%declare FILLED",
    ],
)
def test_schemas_and_holes_of_imported_grammars(text: str) -> None:
    imports = {"mine": _THING, "yours": "%import mine.thing"}
    lark = Lark(text, imports=tuple(imports.items()), holes={"FILLED": Choice(["x", "y"])})
    start = ConstraintCompiler(BYTES).start(lark)
    for accepted in ("<1>", "<-20>", "<null>", "<x>", "7", "y"):
        assert accepts(start, accepted.encode()), accepted
    for rejected in ("<1.5>", "<>", "null", "<[]>", "z"):
        assert not accepts(start, rejected.encode()), rejected


def test_a_mask_equals_trying_every_token() -> None:
    start = ConstraintCompiler(PIECES).start(_NESTED)
    for seed in range(8):
        for matcher in random_walk(start, random.Random(seed), 25).matchers:
            expected: set[int] = set(tried(matcher, range(1, len(PIECES))))
            if matcher.is_accepting:
                expected.add(END)
            assert set(tokens_of(matcher.mask()).tolist()) == expected


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Lark("start: A\n%declare A"),
            "line 2, column 10: 'A' is declared and has no text, as for a post-lexer",
        ),
        (
            lambda: Lark('start: "a"', holes={"A": Regex("a")}),
            "the grammar declares no terminal 'A' to be filled; write %declare A",
        ),
        (
            lambda: Lark("start: a\n%declare a", holes={"a": Regex("a")}),
            "line 2, column 10: 'a' is declared and has no text",
        ),
        (
            lambda: Lark('start: B\nB: A "b"\n%declare A', holes={"A": Regex("a")}),
            "line 2, column 4: 'A', which is declared only, is a part of a terminal",
        ),
        (
            # Its import has a rule of that name, and declares another one.
            lambda: Lark(
                "%import mine.a\nstart: a",
                imports=(("mine", 'a: A\nA: "a"\n%declare AB'),),
                holes={"A": Regex("a")},
            ),
            "the grammar declares no terminal 'A' to be filled; write %declare A",
        ),
        (
            lambda: Lark('start: "a"\n%declare A\n%ignore A', holes={"A": Regex("a")}),
            "'A', which a constraint fills, cannot be ignored",
        ),
        (
            lambda: Lark(
                "%import mine.a\nstart: a",
                imports=(("mine", 'a: %json {} | %json {"type": "int"}'),),
            ),
            "in %json at line 1, column 15 of 'mine': at /type: ",
        ),
        (
            lambda: Lark('start: "a"\n  | %json {"a": }'),
            "line 2, column 17: no JSON after %json: Expecting value",
        ),
        (
            lambda: Lark('start: %json {"type": "integer"} | %json {"type": "int"}'),
            "in %json at line 1, column 36: at /type: ",
        ),
        (
            lambda: Sequence(["a", Lark("start: A\n%declare A", holes={"A": Regex("(")})]),
            "in part 2, hole 'A': ",
        ),
        (
            lambda: Lark('start: A\nA: "a" %json {}'),
            "line 2, column 8: a schema stands in a terminal, which is text",
        ),
        (
            lambda: Lark('start: "a"\n%ignore %json {}'),
            "line 2, column 9: a schema stands in a terminal, which is text",
        ),
        (
            lambda: Lark("start: %json", json_options=JsonOptions()),
            "line 1, column 13: no JSON after %json: Expecting value",
        ),
        (
            lambda: Lark('start: "a"', json_options=JsonOptions(whitespace=1)),
            "json_options are about schemas in a grammar, and there is none",
        ),
        # After a schema of three lines.
        (lambda: Lark('start: %json {\n"type":\n"null"} b\n'), "line 3, column 9: "),
        (lambda: Lark('start: "a" | %json {"type": "null"} b\n'), "line 1, column 37: "),
        (
            lambda: Lark("start: A", holes={"A": "a"}),  # type: ignore[arg-type]
            "what fills 'A' is str, no constraint",
        ),
        (
            lambda: Lark("start: A", holes=[("A", Regex("a")), ("A", Regex("b"))]),
            "two constraints are given for the name 'A'",
        ),
    ],
)
def test_errors_say_where(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(RequestError) as caught:
        ConstraintCompiler(BYTES).start(make())
    assert message in str(caught.value)
    assert isinstance(caught.value, ConstraintError)


def test_what_only_looks_like_a_schema_stays() -> None:
    text = 'start: "%json {" | /%json {/ // %json {\n# %json {\n'
    start = ConstraintCompiler(BYTES).start(Lark(text))
    assert accepts(start, b"%json {")
    assert not accepts(start, b"{")
    with pytest.raises(InvalidConstraintError, match="no JSON"):
        ConstraintCompiler(BYTES).start(Lark("start: %json x"))


@pytest.mark.parametrize(
    ("grammar", "text", "fits"),
    [
        ('start: /a\n b/x %json {"type": "integer"}', "ab1", True),
        ('start: /a\n b/x %json {"type": "integer"}', "ab", False),
        ("start: A\nA: /a\n %json 1 b/x", "a%json1b", True),
        ("start: A\nA: /a\n %json 1 b/x", "a1b", False),
    ],
)
def test_a_schema_is_told_from_what_a_pattern_of_several_lines_has(
    grammar: str, text: str, fits: bool
) -> None:
    assert accepts(ConstraintCompiler(BYTES).start(Lark(grammar)), text.encode()) == fits


SCHEMAS = """
start: "a" %json {"a": 1} | "b" %json {

"type":
"null"} ";"
  | %json
{"type": "array", "maxItems": 0} UNDEFINED
"""


def test_what_stands_behind_schemas_of_several_lines_is_named_with_its_place() -> None:
    with pytest.raises(InvalidConstraintError, match="line 7, column 34: the terminal 'UNDEF"):
        ConstraintCompiler(BYTES).start(Lark(SCHEMAS))


def test_names_like_those_of_schemas_mean_nothing() -> None:
    lark = Lark('start: JSON_0 %json {"const": 1} %json\n\n{"const": 2} \nJSON_0: "a"')
    start = ConstraintCompiler(BYTES).start(lark)
    assert accepts(start, b"a12")
    assert not accepts(start, b"112")


REFUSE = JsonOptions(unknown_keywords="refuse")


@pytest.mark.parametrize("text", ['start: %json {"maxlength": 1}', "%import mine.start"])
def test_schemas_are_written_and_checked_by_the_options_of_the_grammar(text: str) -> None:
    imports = (("mine", 'start: "" | %json {"maxlength": 1}'),)
    misspelt = Lark(text, imports=imports)
    assert accepts(ConstraintCompiler(BYTES).start(misspelt), b'"ab"')
    with pytest.raises(InvalidConstraintError, match=r"at /maxlength: .*'maxLength'") as caught:
        ConstraintCompiler(BYTES).start(replace(misspelt, json_options=REFUSE))
    assert caught.value.pointer == "/maxlength"
    assert "in %json at line 1, column " in str(caught.value)
    spaced = replace(misspelt, json_options=JsonOptions(whitespace=1))
    for lark, fits in ((misspelt, False), (spaced, True)):
        assert accepts(ConstraintCompiler(BYTES).start(lark), b"[ 1]") == fits
    assert len({misspelt.digest(), spaced.digest()}) == 2


def test_schemas_at_the_same_place_of_modules_with_alike_names_are_two() -> None:
    modules = {"a__b": 'start: %json {"const": 1}', "a.b": 'start: %json {"const": 2}'}
    text = '%import a__b.start -> x\n%import a.b.start -> y\nstart: "X" x | "Y" y'
    start = ConstraintCompiler(BYTES).start(Lark(text, imports=tuple(modules.items())))
    for said, fits in ((b"X1", True), (b"Y2", True), (b"X2", False), (b"Y1", False)):
        assert accepts(start, said) == fits


def test_options_beside_a_grammar_are_those_of_its_schemas() -> None:
    text = 'start: %json {"maxlength": 1}'
    assert structure_of(text, REFUSE) == Lark(text, json_options=REFUSE)
    assert structure_of(Lark(text), JsonOptions()) == Lark(text)
    for taken in (Lark(text, json_options=REFUSE), Lark('start: "a"'), Regex("a")):
        with pytest.raises(RequestError, match="JSON options and documents are for a schema"):
            structure_of(taken, JsonOptions(whitespace=1))


def test_a_hole_fills_no_terminal_whose_name_only_ends_like_its_own() -> None:
    lark = Lark("start: A X__A\n%declare A X__A", holes={"A": Choice(["x"])})
    with pytest.raises(UnsupportedFeatureError, match="'X__A' is declared and has no text"):
        ConstraintCompiler(BYTES).start(lark)
