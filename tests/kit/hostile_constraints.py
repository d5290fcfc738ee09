"""Constraints made to keep a server busy: small to send, but costly to compile or to follow."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from guided.spec import Choice, Ebnf, JsonSchema, Lark, Regex, Structure
from guided.spec.composition import AnyOf, Repeat, Sequence, Template
from guided.spec.tagged import FreeText, Tag, Tagged, Until

__all__ = ["HOSTILE"]


def _schema(schema: Any) -> JsonSchema:
    return JsonSchema(json.dumps(schema))


def _pattern(pattern: str) -> JsonSchema:
    return _schema({"type": "string", "pattern": pattern})


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _overlapping(count: int) -> JsonSchema:
    """An array of objects, each to fit exactly one of many schemas that share their members."""
    options = [
        _object(**{f"p{n}": {"type": "integer"} for n in range(number, number + 6)})
        | {"required": [f"p{number}"]}
        for number in range(count)
    ]
    return _schema({"type": "array", "items": {"oneOf": options}})


def _shared(levels: int) -> JsonSchema:
    """Two alternatives at each level, both of which refer to both at the level below."""
    found: dict[str, Any] = {"a0": {"minLength": 1}, "b0": {"maxLength": 3}}
    for level in range(1, levels + 1):
        a, b = ({"$ref": f"#/$defs/{name}{level - 1}"} for name in "ab")
        found[f"a{level}"] = {"oneOf": [a, b]}
        found[f"b{level}"] = {"anyOf": [a, {"not": b}]}
    return _schema({"type": "string", "$defs": found, "$ref": f"#/$defs/a{levels}"})


def _tree(levels: int) -> JsonSchema:
    found: dict[str, Any] = {"0": {"type": "integer"}}
    for level in range(1, levels + 1):
        below = {"$ref": f"#/$defs/{level - 1}"}
        found[str(level)] = _object(left=below, right=below) | {"required": ["left", "right"]}
    return _schema({"$defs": found, "$ref": f"#/$defs/{levels}"})


def _listed(count: int, form: str) -> JsonSchema:
    return _schema({"enum": [form.format(n) for n in range(count)]})


def _doubling(count: int) -> Lark:
    rules = [f"r{n}: r{n + 1} r{n + 1}" for n in range(count)]
    return Lark("\n".join(["start: r0", *rules, f'r{count}: "z"']))


def _tools(count: int) -> Tagged:
    """Calls of tools in tags of their own, each with arguments of many members."""
    arguments = [
        _schema(_object(**{f"a{n}_{k}": {"type": ["string", "null"]} for k in range(20)}))
        for n in range(count)
    ]
    return Tagged([Tag(f"<tool_{n}>", body, "</tool>") for n, body in enumerate(arguments)])


def _letters(count: int) -> str:
    """Ideographs, each followed by one that is half of the alphabet away."""
    return "".join(chr(0x4E00 + (n * 10_007) % 20_000) for n in range(count))


def _many_closing_rows() -> Ebnf:
    """One rule after which more texts may follow than the search for an outline has room for."""
    letters = [chr(code) for code in (*range(65, 91), *range(97, 119))]
    pairs = [first + second for first in letters for second in letters][:2_047]
    words = [f'"{pair}" x "{n:04d}"' for n, pair in enumerate(pairs)]
    ends = " | ".join(f'"{letter}" x "E{n}"' for n, letter in enumerate(letters))
    return Ebnf(f'root ::= {" | ".join(words)} | "~" ({ends})?\nx ::= "(" x ")" | "."')


HOSTILE: Final[Mapping[str, Callable[[], Structure]]] = {
    "classes repeated 4,000 times": lambda: _pattern(r"(\w|\d|\s|é){1,4000}"),
    "classes repeated 4,000 times, a regex": lambda: Regex(r"(\w|\d|\s|é){1,4000}"),
    "20,000 dots": lambda: _pattern("^.{1,20000}$"),
    "20,000 dots, a regex": lambda: Regex(".{1,20000}"),
    "one of 40 overlapping objects": lambda: _overlapping(40),
    "an enum of 980 KB": lambda: _listed(10_600, "{:08d}" + "x" * 81),
    "an enum of 100,000 short texts": lambda: _listed(99_999, "{:05d}"),
    "a choice of 20,000 texts": lambda: Choice(tuple(f"{n * 7919:x}" for n in range(20_000))),
    "subsets that double": lambda: _pattern("(a|b)*a(a|b){14}"),
    "subsets that double, too many": lambda: Regex("(a|b)*a(a|b){20}"),
    "subsets of rules": lambda: Lark('start: ("a" | "b")* "a" ("a" | "b") ~ 20'),
    "a repeat in a repeat": lambda: _pattern("^((ab?c?){1,60}d){1,60}$"),
    "patterns that all hold": lambda: _schema(
        {"type": "string", "allOf": [{"pattern": f"(a|b){{{n}}}c.*d{{{n}}}"} for n in range(2, 9)]}
    ),
    "look-ahead over a long text": lambda: _pattern("^(?=.*a.{12}b)(?=.*c.{12}d).{1,60}$"),
    "words of any script": lambda: _pattern(r"^(\p{L}|\p{N}|\p{S}){1,2000}$"),
    "300 objects that differ": lambda: _schema(
        {"type": "array", "items": {"type": "object"}, "uniqueItems": True, "minItems": 300}
    ),
    "3,000 alternatives ruled out": lambda: _schema(
        {"type": "object", "allOf": [{"not": _object(x={"const": n})} for n in range(3_000)]}
    ),
    "3,000 objects to choose from": lambda: _schema(
        {"anyOf": [_object(x={"const": n}) | {"required": ["x"]} for n in range(3_000)]}
    ),
    "3,000 listed objects": lambda: _schema(
        {"enum": [{"a": n, "b": str(n)} for n in range(3_000)]}
    ),
    "3,000 required names": lambda: _schema(
        {"type": "object", "required": [f"n{n}" for n in range(3_000)]}
    ),
    "2,000 patterns for names": lambda: _schema(
        {"patternProperties": {f"^x{n}.*{n}$": {"const": n} for n in range(2_000)}}
    ),
    "3,000 items owed": lambda: _schema({"type": "array", "minItems": 3_000}),
    "alternatives that share alternatives": lambda: _shared(20),
    "a tree of objects": lambda: _tree(10),
    "200 types of one value": lambda: _schema(
        {"oneOf": [{"type": "string", "pattern": f"^[a-z]{{{n},{2 * n}}}$"} for n in range(1, 200)]}
    ),
    "numbers of many multiples": lambda: _schema(
        {"type": "integer", "allOf": [{"multipleOf": n} for n in (7, 11, 13, 17, 19, 23)]}
    ),
    "rules that double": lambda: _doubling(60),
    "an ambiguous grammar": lambda: Lark('start: e\ne: e e | e e e | "(" e ")" | /[a-z]+/'),
    "a grammar of 4,000 rules": lambda: Ebnf(
        "root ::= " + " | ".join(f"r{n}" for n in range(4_000)) + "\n"
        + "\n".join(f'r{n} ::= "{n}" r{(n * 7 + 1) % 4_000}? "x"' for n in range(4_000))
    ),
    "60 tools to call": lambda: _tools(60),
    "300 tools to call": lambda: _tools(300),
    "2,000 tags with triggers that share beginnings": lambda: Tagged(
        [Tag(f"<{n:b}", "x") for n in range(2_000)]
    ),
    "10,000 parts in a row": lambda: Sequence([Regex(f"[a-f]{n % 7}?") for n in range(10_000)]),
    "patterns in a repeat in a repeat": lambda: Repeat(
        Repeat(AnyOf([Regex(f"(a|b){{{n}}}c?") for n in range(1, 40)]), 0, 60), 0, 60
    ),
    "a template of 5,000 holes": lambda: Template(
        "".join(f"{{a{n}}}, " for n in range(5_000)),
        {f"a{n}": Regex(r"\w{1,30}") for n in range(5_000)},
    ),
    "free text without 3,000 texts": lambda: Sequence(
        [FreeText([f"{n * 7919:x}" for n in range(3_000)]), "end"]
    ),
    "a text of 20,000 letters beside a pattern": lambda: _schema(
        {"type": "string", "anyOf": [{"enum": [_letters(60_000)]}, {"pattern": "^a+$"}]}
    ),
    "9,000 references to 100,000 schemas, unevaluated": lambda: _schema(
        {
            "unevaluatedProperties": False,
            "$defs": {"w": {"allOf": [True] * 100_000}},
            "anyOf": [{"$ref": "#/$defs/w"}] * 9_000,
        }
    ),
    "512 cases of 60,000 names, unevaluated": lambda: _schema(
        {
            "unevaluatedProperties": False,
            "properties": {f"n{n}": True for n in range(60_000)},
            "anyOf": [
                {"required": [f"z{n}"], "patternProperties": {f"^{n}": {}}} for n in range(9)
            ],
        }
    ),
    "7,000 lists that are each joined to a long one": lambda: _schema(
        {
            "$defs": {"e": {"enum": [f"{n:x}" for n in range(50_000)]}},
            "allOf": [
                {"anyOf": [{"$ref": "#/$defs/e"}, {"const": f"x{n}"}]} for n in range(7_000)
            ],
        }
    ),
    "1,000 references from a long URI": lambda: _schema(
        {
            "$id": "http://x/" + "a/" * 150_000 + "b",
            "$defs": {"q": True},
            "anyOf": [{"$ref": "b#/$defs/q"} for _ in range(1_000)],
        }
    ),
    "a repeated name after 160,000 lists": lambda: JsonSchema(
        '{"' + "n" * 300_000 + '":[' + ",".join(["[]"] * 160_000) + '],"a":1,"a":2}'
    ),
    "8 patterns of 4,900 classes of any case": lambda: _schema(
        {
            "$defs": {
                str(k): {"pattern": "(?i)" + "".join(f"[{a}{a}b]" for a in _letters(4_900))}
                for k in range(8)
            }
        }
    ),
    "30,000 names by 1,000 patterns": lambda: _schema(
        {
            "properties": {f"n{n}": True for n in range(30_000)},
            "patternProperties": {f"^x{n}$": True for n in range(1_000)},
        }
    ),
    "a name of 20,000 letters by a pattern of 1,400": lambda: _schema(
        {
            "unevaluatedProperties": False,
            "properties": {_letters(1_399)[-1] * 20_000: True},
            "patternProperties": {
                "^(" + "|".join(_letters(1_400)[n] + "x?" for n in range(1_400)) + ")*$": True
            },
        }
    ),
    "8,000 rules imported by a long name": lambda: Lark(
        f"%import {'p' * 150_000}.x\nstart: x",
        imports=(
            (
                "p" * 150_000,
                f"x: {' '.join(f'r{n}' for n in range(8_000))}\n"
                + "\n".join(f'r{n}: "a"' for n in range(8_000)),
            ),
        ),
    ),
    "3,000 copies of a choice of 20,000 letters": lambda: Repeat(
        Choice(tuple(chr(0x4E00 + n) for n in range(20_000))), 1, 3_000
    ),
    "300 patterns of one name each, 290 members owed": lambda: _schema(
        {
            "type": "object",
            "patternProperties": {f"^n{n}$": {"type": "null"} for n in range(300)},
            "additionalProperties": False,
            "minProperties": 290,
        }
    ),
    "2,048 texts that may follow a rule": _many_closing_rows,
    "3,000 ends of a text": lambda: Until([f"{n * 7919:x}!" for n in range(3_000)]),
}  # fmt: skip
"""By description; made on demand, because some are large."""
