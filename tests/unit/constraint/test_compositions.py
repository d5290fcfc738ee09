"""Constraints made of constraints: their texts, their forced tokens, their errors."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from guided.constraint import ConstraintCompiler, ConstraintLimits, Matcher
from guided.errors import LimitExceededError, RequestError, UnsatisfiableError
from guided.grammar.machine.composite_machine import CompositeMachine
from guided.machine.parts import Pool, RecognizerLimits
from guided.masks.mask import tokens_of
from guided.spec import (
    Choice,
    Ebnf,
    Forcing,
    JsonOptions,
    JsonSchema,
    Lark,
    Regex,
    Structure,
    TokenId,
)
from guided.spec.composition import AnyOf, JsonObject, Repeat, Sequence, Template, Text
from guided.spec.tagged import Tag, Tagged
from tests.kit.walks import BYTES, PIECES, accepts, random_walk

_COMPILER = ConstraintCompiler(BYTES)
_AGE = JsonSchema('{"type": "integer", "minimum": 0}')
_FORM = Template("Name: {name}\nAge: {age}\n", name=Regex("[A-Z][a-z]+"), age=_AGE)
_FLAG = JsonSchema(
    '{"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"],'
    ' "additionalProperties": false}'
)
_SPACED = Lark('start: "a" "b"\n%ignore " "')
_NO_SCHEMA = JsonSchema('{"type": "number", "minimum": 2, "maximum": 1}')
_LOOKS = Lark('start: A "c"?\nA: /(?<!b)a(?!b)/')
_TWO = AnyOf(
    [
        JsonSchema('{"properties": {"a": {"type": "string"}}, "required": ["a"]}'),
        JsonSchema('{"properties": {"b": {"type": "string", "minLength": 2}}, "required": ["b"]}'),
    ]
)


@pytest.mark.parametrize(
    ("constraint", "texts", "others"),
    [
        (Text(""), [""], ["a"]),
        (Sequence([]), [""], ["a"]),
        (JsonObject(), ["{}", '{"a":[1]}'], ["", "[]", "{", "{}{}"]),
        (_FORM, ["Name: Ada\nAge: 36\n"], ["Name: Ada\nAge: 36", "Name: Ada\nAge: 3.5\n"]),
        # A number and what follows it, which may be more of the number.
        (Sequence([_AGE, "0"]), ["00", "10", "100"], ["0", "1", "01", "12"]),
        (Sequence([_AGE, _AGE]), ["00", "12", "123", "10", "100"], ["0", "", "-10"]),
        (Sequence([_AGE, ".5", Regex("0*")]), ["1.5", "0.500"], ["1", "1.4", ".5"]),
        (Sequence([JsonSchema('{"type": "number"}'), "e"]), ["1e", "1.5e"], ["1", "1e1", "e"]),
        (Repeat(JsonObject(), 1, 2), ["{}", '{}{"a":1}'], ["", "{}{}{}"]),
        (Repeat(_AGE, 2, None), ["00", "10", "123"], ["0", "1"]),
        # Ignored terminals belong to their own part.
        (Sequence([_SPACED, "c"]), ["abc", " a b c"], ["ab", "abc ", "a bc d"]),
        (Sequence(["c", _SPACED]), ["cab", "c a b "], [" cab"]),
        (Repeat(_SPACED, 2, 2), ["abab", "a b  ab"], ["ab"]),
        # Terminals do not see the text around their own part, but see the texts of its holes.
        (Sequence(["b", _LOOKS, "b"]), ["bab", "bacb"], ["babb", "bab" * 2]),
        (Repeat(_LOOKS, 2, 3), ["aa", "aaca", "acac"], ["a", "ca"]),
        (
            Lark('start: A N "!"\nA: /a(?!1)/\n%declare N', holes={"N": _LOOKS}),
            ["aa!", "aac!"],
            ["a!", "a"],
        ),
        (
            Lark("start: A N\nA: /a(?!a)/\n%declare N", holes={"N": Choice(["a", "b"])}),
            ["ab"],
            ["aa", "a"],
        ),
        (Lark('start: A %json {"type": "object"}\nA: /a(?!b)/'), ["a{}", 'a{"b":1}'], ["a", "ab"]),
        # After a document a look-behind sees only the text from there on.
        (
            Lark('start: (IF ";")? %json {"type": "integer"} ";" IF?\nIF: /\\bif\\b/'),
            ["1;if", "if;-20;"],
            ["1;ifx", "if1;"],
        ),
        (
            Lark('start: %json {"type": "integer"} E "x" A\nA: /(?<!éx)a/\nE: "é" | "ê"'),
            ["1êxa"],
            ["1éxa"],
        ),
        # A part without any text is no choice, whatever its form.
        (AnyOf(["a", _NO_SCHEMA, Regex("(?!)"), _AGE]), ["a", "12"], ["", "1.5"]),
        (Sequence(["a", Repeat(_NO_SCHEMA), Repeat(Regex("(?!)"))]), ["a"], [""]),
        (
            Lark("start: A | B\n%declare A B", holes={"A": _NO_SCHEMA, "B": JsonObject()}),
            ["{}"],
            ["1"],
        ),
        (
            Sequence([Ebnf('root ::= "(" root ")" | "x"'), AnyOf([Choice(["y", ""]), _AGE])]),
            ["x", "(x)y", "((x))12"],
            ["((x)", "(x)y1"],
        ),
        # A document ends with the byte that ends a rule, after which another one begins.
        (
            Sequence([Ebnf('root ::= "[" root "]" | ""'), JsonSchema('{"type": "array"}')]),
            ["[]", "[1]", "[][]", "[[]][1]"],
            ["", "[", "[[]", "[1][1]"],
        ),
        # Several schemas that begin alike, and differ further in.
        (_TWO, ['{"a":"x"}', '{"b":"xy"}', '{"a":"x","b":1}'], ['{"b":"x"}', "{}", '{"c":1}']),
        (
            Sequence([Regex('[{}":a]*'), JsonObject()]),
            ["{}", '{"a":{}', '{}{"a":"{}"}'],
            ["{", '{"a":1', "}"],
        ),
    ],
)
def test_the_texts_are_those_of_the_parts(
    constraint: Structure, texts: list[str], others: list[str]
) -> None:
    start = _COMPILER.start(constraint)
    for text in texts:
        assert accepts(start, text.encode()), text
    for text in others:
        assert not accepts(start, text.encode()), text
    for seed in range(5):
        random_walk(start, random.Random(seed), 12)


def _trace(constraint: Structure, answer: str) -> str:
    """The tokens of the answer, forced runs in brackets."""
    matcher = ConstraintCompiler(PIECES).start(constraint)
    trace, left = [], answer.encode()
    while not matcher.is_complete:
        run = matcher.forced_run(Forcing.CANONICAL)
        tokens = run or (TokenId(PIECES.spell(left.decode())[0]),)
        for token in tokens:
            matcher = matcher.advance(token)
        spelled = PIECES.decode(tokens)
        assert left.startswith(spelled), (left, spelled)
        left = left[len(spelled) :]
        trace.append(f"[{spelled.decode()}]" if run else spelled.decode())
    assert not left
    return "|".join(trace)


@pytest.mark.parametrize(
    ("constraint", "answer", "trace"),
    [
        (Text("Hello"), "Hello", "[Hello]"),
        (
            Template("Name: {name}\nAge: {age}\n", name=Regex("[A-Z][a-z]"), age=_AGE),
            "Name: Al\nAge: 36\n",
            "[Name: ]|A|l|[\nAge: ]|3|6|\n",
        ),
        (Sequence(["<", _FLAG, ">"]), '<{"ok":true}>', '[<{"ok":]|true|[}>]'),
        (AnyOf([JsonSchema('{"const": [1]}'), "[1}"]), "[1]", "[[1]|]"),
        (Sequence([JsonSchema('{"enum": [1, 15]}'), "5"]), "155", "[15]|5"),
    ],
)  # fmt: skip
def test_traces(constraint: Structure, answer: str, trace: str) -> None:
    assert _trace(constraint, answer) == trace


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (
            Template("{a}", a=Sequence(["x", Regex("(")])),
            "in hole 'a', part 2: ",
        ),
        (
            AnyOf(["x", Lark('start: "a" b')]),
            "in alternative 2: line 1, column 12: ",
        ),
        (
            Repeat(JsonSchema('{"type": "text"}')),
            "in the repeated part: at /type: ",
        ),
        (
            Sequence([JsonSchema('{"minimum": 2, "maximum": 1, "type": "number"}')]),
            "in part 1: at the root: no document satisfies the schema",
        ),
        (AnyOf([Sequence(["a", _NO_SCHEMA]), Regex("(?!)")]), "in alternative 1, part 2: at the r"),
        (
            Lark("start: %json {} A\nA: /(?<!a)b/"),
            "look-behind at the edge of a terminal that would",
        ),
        (
            Lark("start: A %json {}\nA: /a(?!\\[)/"),
            "look-ahead at the edge of a terminal that would ",
        ),
    ],
)
def test_errors_name_the_part(constraint: Structure, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        _COMPILER.start(constraint)
    assert str(caught.value).startswith(message)
    if isinstance(caught.value, UnsatisfiableError):
        assert caught.value.pointer == ""


def test_options_of_a_part_are_its_own() -> None:
    loose = JsonSchema('{"type": "object"}', JsonOptions(whitespace="free"))
    start = _COMPILER.start(Sequence([loose, JsonObject()]))
    assert accepts(start, b'{ "a": 1 }{"a":1}')
    assert not accepts(start, b'{ "a": 1 }{ "a": 1 }')


def test_many_repeats_of_a_schema_are_taken_or_refused() -> None:
    start = _COMPILER.start(Repeat(JsonObject(), 0, 1000))
    assert accepts(start, b"{}" * 1000)
    assert not accepts(start, b"{}" * 1001)
    with pytest.raises(LimitExceededError):
        _COMPILER.start(Repeat(JsonObject(), 0, 1_000_000))


def test_readings_without_number_end_in_a_limit() -> None:
    limits = ConstraintLimits(recognizer=RecognizerLimits(max_stacks=400))
    start = ConstraintCompiler(BYTES, limits).start(Sequence([Regex("(?s).*"), JsonObject()]))
    text = b"".join(b'{"%d' % number for number in range(200))
    with pytest.raises(LimitExceededError):
        accepts(start, text)


class _Counted(list[None]):
    """Things of a pool, which count the look-ups of their number."""

    asked = 0

    def __len__(self) -> int:
        self.asked += 1
        return 0


def test_a_mask_asks_once_whether_there_is_room() -> None:
    many = [
        f'{{"type": "object", "properties": {{"{name}": {{"type": "string"}}}}}}' for name in "abcd"
    ]
    compiled = ConstraintCompiler(PIECES).compile(AnyOf(list(map(JsonSchema, many))))
    counted = _Counted()
    parts: Any = compiled.machine.parts
    parts._pools = (Pool("things", counted, 1),)
    matcher = compiled.start()
    for byte in b'{"a':
        counted.asked = 0
        matcher = matcher.advance(PIECES.byte_ids[byte])
        matcher.mask()
        assert counted.asked == 1


def test_the_parts_agree_behind_many_texts() -> None:
    compiled = ConstraintCompiler(PIECES).compile(Sequence([_TWO, "0", _AGE, "0"]))
    for seed in range(5):
        random_walk(compiled.start(), random.Random(seed), 30)
    assert isinstance(compiled.machine, CompositeMachine)
    compiled.machine.check()


def test_what_was_counted_and_written_is_known_where_one_reading_is_left() -> None:
    """After a token that ends all readings but one, in the middle of a string or of a name."""
    short = JsonSchema('{"type": "string", "maxLength": 3}')
    start = ConstraintCompiler(PIECES).start(AnyOf([short, '"a#']))
    inside = start.advance(PIECES.byte_ids[ord('"')])
    assert _allowed(inside) >= {b"a", b"ab", b"abc"}
    assert b"name" not in _allowed(inside)
    assert _allowed(inside.advance(_token(b"abc"))) == {b'"'}
    assert {b"a", b'"'} <= _allowed(inside.advance(_token(b"ab")))
    assert b"ab" not in _allowed(inside.advance(_token(b"ab")))
    # A name that was written already.
    start = ConstraintCompiler(PIECES).start(AnyOf([JsonObject(), '{"ab":0,"a#']))
    for byte in b'{"ab":0,"':
        start = start.advance(PIECES.byte_ids[byte])
    inside = start.advance(_token(b"ab"))
    assert b"c" in _allowed(inside)
    assert not any(text.startswith(b'"') for text in _allowed(inside))


_SHORT = {"type": "string", "minLength": 2, "maxLength": 3}


def _objects(*schemas: dict[str, object]) -> AnyOf:
    return AnyOf([JsonSchema(json.dumps({"type": "object", **schema})) for schema in schemas])


_SAME = _objects(
    {"properties": {"a": _SHORT, "b": {"type": "integer"}}, "required": ["a"]},
    {"properties": {"a": _SHORT, "b": {"type": "boolean"}}, "required": ["a", "b"]},
)
_BEGUN = Sequence(
    [AnyOf(["", '"\\']), JsonSchema('{"type": "string", "minLength": 2, "maxLength": 3}')]
)
_OTHER = _objects(
    {"properties": {"a": _SHORT, "b": True}, "required": ["a", "b"]},
    {"properties": {"a": {"type": "string", "maxLength": 9}}, "additionalProperties": False},
)
_OPEN = _objects(
    {"properties": {"a": {"const": 1}}, "required": ["a"]},
    {"properties": {"a": {"const": 1}, "b": {"const": 1}}, "required": ["a", "b"]},
)
_SET = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
_UNIQUE = _objects(
    {"properties": {"a": _SET}, "required": ["a"]},
    {"properties": {"a": _SET, "b": True}, "required": ["a", "b"]},
)
_ITEMS = _objects(
    {"properties": {"a": _SET}},
    {"properties": {"a": {"enum": [["ab", "ab"]]}}, "additionalProperties": False},
)


@pytest.mark.parametrize(
    ("constraint", "begun", "allowed", "forbidden"),
    [
        # The same strings, of the same bounds, in two schemas.
        (_SAME, b'{"a":"', [b"ab", b"abc", b"a"], [b"name", b'"']),
        (_SAME, b'{"a":"ab', [b'"', b"a", b'"}', b'","'], [b"ab"]),
        (_SAME, b'{"a":"abc', [b'"', b'"}', b'","'], [b"a"]),
        (_SAME, b'{"a":"abc","b":', [b"true", b"1"], [b"null"]),
        # One string in which another one began, with fewer characters so far.
        (_BEGUN, b'"\\"ab', [b'"', b"a"], [b"ab", b"abc"]),
        (_BEGUN, b'"\\"a', [b'"', b"a", b"ab"], [b"abc"]),
        (_BEGUN, b'"\\"aba', [b'"'], [b"a"]),
        # Bounds that differ.
        (_OTHER, b'{"a":"abc', [b'"', b"a", b"abc", b'"}', b'","'], [b"\xa9"]),
        (_OTHER, b'{"a":"abcde', [b'"', b"a", b'"}'], [b"\xa9", b'","']),
        # A name that must differ from all earlier ones, in parallel with one that is due.
        (_OPEN, b'{"a":1,"', [b"b", b"ab", b"name"], [b'a":0,"']),
        (_OPEN, b'{"a":1,"b', [b'"', b"ab", b'":'], [b'","']),
        # Items that are to differ, in both and in one alone.
        (_UNIQUE, b'{"a":["ab","ab', [b"c", b"a"], [b'"']),
        (_UNIQUE, b'{"a":["ab","abc"', [b",", b"]", b"],"], [b"}"]),
        (_ITEMS, b'{"a":["ab","', [b"ab", b"abc", b"a"], [b'"}']),
        (_ITEMS, b'{"a":["ab","ab', [b"c", b"a", b'"'], [b'"}']),
        (_ITEMS, b'{"a":["ab","ab"', [b"]", b"]}"], [b","]),
    ],
)
def test_masks_of_schemas_that_begin_alike(
    constraint: Structure, begun: bytes, allowed: list[bytes], forbidden: list[bytes]
) -> None:
    start = ConstraintCompiler(PIECES).start(constraint)
    for byte in begun:
        start = start.advance(PIECES.byte_ids[byte])
    assert {*allowed, *forbidden} <= {*PIECES.token_bytes}, "what is no token says nothing"
    found = _allowed(start)
    assert found >= {*allowed}
    assert found.isdisjoint(forbidden)


def _token(text: bytes) -> TokenId:
    return TokenId(PIECES.token_bytes.index(text))


def _allowed(matcher: Matcher) -> set[bytes]:
    texts = [PIECES.token_bytes[token] for token in tokens_of(matcher.mask())]
    return {text for text in texts if text is not None}


def test_calls_of_tools_stand_in_a_text() -> None:
    schemas = {
        "weather": '{"type": "object", "properties": {"city": {"type": "string"}}}',
        "convert": '{"type": "object", "properties": {"amount": {}, "to": {"enum": ["EUR"]}}}',
    }
    tags = [
        Tag(
            f'<tool_call>\n{{"name": "{name}", "arguments": ', JsonSchema(schema), "}\n</tool_call>"
        )
        for name, schema in schemas.items()
    ]
    start = _COMPILER.start(Tagged(tags, triggers="<tool_call>", calls="required"))
    call = '<tool_call>\n{"name": "convert", "arguments": {"amount":20,"to":"EUR"}}\n</tool_call>'
    assert accepts(start, f"Well, 3 < 4. {call}\nAnd {call}".encode())
    assert not accepts(start, b"No calls.")
    assert not accepts(start, call.replace("convert", "other").encode())
    assert not accepts(start, f"{call} <tool_call>".encode())


def test_a_run_that_many_alternatives_share_takes_little_work() -> None:
    closed = {"type": "object", "additionalProperties": False}
    functions = AnyOf(
        [
            JsonSchema(
                json.dumps({**closed, "properties": {name: {"const": 1}}, "required": [name]})
            )
            for name in (f"function{number}" for number in range(40))
        ]
    )
    start = ConstraintCompiler(BYTES, ConstraintLimits(step_work=60_000)).start(functions)
    assert BYTES.decode(start.forced_run(Forcing.CANONICAL)) == b'{"function'


def test_names_that_parses_remember_count_as_memory_of_the_machine() -> None:
    """Each byte of a name that is read in parallel keeps all that was read of it."""
    schema = '{"type": "object", "additionalProperties": {"type": "integer"}}'
    constraint = AnyOf([JsonSchema(schema), Regex(r'\{"[a-z]*"!')])
    compiler = ConstraintCompiler(
        BYTES, ConstraintLimits(recognizer=RecognizerLimits(max_cells=400_000))
    )
    reached: Matcher = compiler.start(constraint)
    for byte in b'{"' + b"a" * 1_300:
        reached = reached.advance(BYTES.byte_ids[byte])
    with pytest.raises(LimitExceededError, match=r"[89]\d\d KB of names"):
        _read_on(reached, 500)


def _read_on(reached: Matcher, count: int) -> None:
    """Make a mask, as for an answer, after each of ``count`` letters."""
    for _ in range(count):
        reached = reached.advance(BYTES.byte_ids[ord("a")])
        reached.mask()
