"""Builds the grammar of call arguments with bare names, and texts between special tokens.

::

    {"city": "Oslo", "days": [1, 2]}  →  city:<|"|>Oslo<|"|>,days:[1,2]

Members are in the order in which templates sort them, by name. Whatever a schema says of texts,
numbers and words (``true``, ``false``, ``null``) is enforced: each is a hole of this grammar,
filled by the schema itself. For objects and arrays the grammar enforces which members they have,
what their values are, and how many items there are; a schema that says more of them is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib import parse

from guided.spec.bare_string import BareString
from guided.spec.constraints import JsonSchema, Lark
from guided.spec.literal_schema import INDIRECT, SAYING, TYPE, LiteralSchema, unsupported
from guided.spec.references import escaped
from guided.spec.said_types import types_of_value
from guided.spec.schema_shape import NOTES
from guided.spec.special_token import SpecialToken
from guided.spec.structure import Structure
from guided.spec.tagged import FreeText
from guided.spec.tools import Tool

__all__ = ["literals_of", "written_literals"]

_NAME: Final = re.compile(r"[\w.$-]{1,256}")
_REFERRING: Final = frozenset({"$anchor", "$dynamicRef", "$id", "$recursiveRef", "$ref", "id"})
_QUOTE: Final = "QUOTE"
_TEXT: Final = "TEXT"
"""Names of holes: the special token around texts, and any text."""
_WORDS: Final = frozenset({"boolean", "integer", "null", "number"})
_CONTAINERS: Final = frozenset({"array", "object"})
_MOST_UNIONS: Final = 64
"""Most combinations of types and required members in which one place is written."""


def literals_of(tool: Tool, schema: JsonSchema, quote: str, without: str) -> Structure:
    """Return the constraint of arguments that fit a tool's schema, without their outer braces.

    ``quote`` is the special token before and after each text; no text contains ``without``. Raises
    UnsupportedFeatureError for what the format cannot enforce.
    """
    lowering = _Lowering(schema, f"tool:{tool.name}", SpecialToken(quote), without)
    try:
        lowering.rules["start"] = lowering.arguments()
    except RecursionError as error:
        raise unsupported("what refers to one another that deep is not held to", "") from error
    declared = " ".join(lowering.holes)
    rules = "\n".join(f"{name}: {body}" for name, body in lowering.rules.items())
    return Lark(f"{rules}\n%declare {declared}\n", holes=lowering.holes)


def written_literals(arguments: str, quote: str) -> str:
    """Return the arguments of a call as chat templates write them, without the outer braces."""
    return _written(json.loads(arguments), quote)[1:-1]


def _written(value: object, quote: str) -> str:
    match value:
        case str():
            return f"{quote}{value}{quote}"
        case dict():
            members = (f"{name}:{_written(value[name], quote)}" for name in _sorted(value))
            return f"{{{','.join(members)}}}"
        case list():
            return f"[{','.join(_written(item, quote) for item in value)}]"
    return json.dumps(value)


def _sorted(members: Mapping[str, object]) -> list[str]:
    """Return names in the order of Jinja's ``dictsort``."""
    return sorted(members, key=str.lower)


class _Lowering:
    """Writes a grammar with one rule per place of the schema, so that places may be recursive."""

    def __init__(self, schema: JsonSchema, uri: str, quote: SpecialToken, without: str) -> None:
        self._text = schema.text
        self._uri = uri
        self._quote = quote
        self._without = without
        self._schema = LiteralSchema(schema.text)
        self.rules: dict[str, str] = {}
        """Bodies of rules by name."""
        self.holes: dict[str, Structure] = {_QUOTE: quote, _TEXT: FreeText(without)}
        self._filled: dict[str, str] = {}
        """Names of holes by the digest of what fills them."""
        self._values_at: dict[str, str] = {}
        """Rules of places by pointer; empty if no value fits."""
        self._containers_at: dict[str, dict[tuple[frozenset[str], frozenset[str]], str]] = {}
        """Rules of places' containers by pointer, types and required members; empty if there are
        none."""

    def arguments(self) -> str:
        """Return the rule body of the whole arguments' members."""
        pointer, always = self._schema.container_place("")
        if "object" not in self._schema.types_at("") or self._schema.at(pointer) is False:
            raise unsupported("no object fits", "")
        self._schema.check_keywords(pointer)
        return self._members(pointer, always)

    def _value(self, pointer: str) -> str:
        """Return the name of the rule of a place's values; empty if no value fits."""
        pointer = self._schema.place(pointer)
        if pointer not in self._values_at:
            name = self._values_at[pointer] = self._rule("")
            self._values_at[pointer] = self._filled_in(name, self._values(pointer))
        return self._values_at[pointer]

    def _values(self, pointer: str) -> Iterator[str]:
        """Yield the ways to write a place's values: texts, words, and containers."""
        told = self._schema.at(pointer)
        if told is False:
            return
        types = self._schema.types_at(pointer)
        if "string" in types:
            if told.get("type") == "string" and told.keys() & SAYING == TYPE:
                yield f"{_QUOTE} {_TEXT} {_QUOTE}"
            else:
                schema = self._narrowed(pointer, ["string"])
                text = BareString(self._quote, schema, self._quote, self._without)
                yield self._hole(text, pointer)
        if words := sorted(types & _WORDS):
            yield self._hole(self._narrowed(pointer, words), pointer)
        if containers := self._containers(pointer, types & _CONTAINERS):
            yield containers

    def _containers(
        self, pointer: str, types: frozenset[str], always: frozenset[str] = frozenset()
    ) -> str:
        """Return the rule of a place's objects and arrays of some types; empty if there are none.

        Its objects always have the members ``always``, even if they are not required there.
        """
        pointer, required = self._schema.container_place(pointer)
        always |= required
        if not types or self._schema.at(pointer) is False:
            return ""
        rules = self._containers_at.setdefault(pointer, {})
        if (key := (types, always)) not in rules:
            if len(rules) == _MOST_UNIONS:
                raise unsupported("what stands in that many unions is not held to", pointer)
            # The rule is named before it is written, as members and items may be such a value
            # again.
            name = rules[key] = self._rule("")
            rules[key] = self._filled_in(name, self._each_container(pointer, types, always))
        return rules[key]

    def _each_container(
        self, pointer: str, types: frozenset[str], always: frozenset[str]
    ) -> Iterator[str]:
        told = self._schema.at(pointer)
        name = next((each for each in INDIRECT[1:] if each in told), None)
        self._schema.check_keywords(pointer, name)
        if name in ("enum", "const"):
            for value in told["enum"] if name == "enum" else [told["const"]]:
                has_all = not isinstance(value, dict) or always <= value.keys()
                if has_all and types & types_of_value(value):
                    yield from self._listed(value, f"{pointer}/{name}")
        elif name is not None:
            yield from self._branches(pointer, name, types, always)
        else:
            if "object" in types:
                yield f'"{{" {self._rule(self._members(pointer, always))} "}}"'
            if "array" in types and (array := self._array(pointer)):
                yield array

    def _branches(
        self, pointer: str, name: str, types: frozenset[str], always: frozenset[str]
    ) -> Iterator[str]:
        """Yield the rules of the containers of a place's alternatives."""
        told = self._schema.at(pointer)
        always |= {*told.get("required", ())}
        places = [f"{pointer}/{name}/{number}" for number in range(len(told[name]))]
        types_at = {at: types & self._schema.types_at(at) for at in places}
        if name == "allOf" and len(places) > 1:
            raise unsupported("several schemas say what a container is", f"{pointer}/allOf")
        if name == "oneOf":
            always |= self._schema.telling(pointer, types_at)
        yield from filter(None, (self._containers(at, of, always) for at, of in types_at.items()))

    def _members(self, pointer: str, always: frozenset[str]) -> str:
        """Return the members of an object, separated by commas; only named ones."""
        told = self._schema.at(pointer)
        properties, required = told.get("properties", {}), always | {*told.get("required", ())}
        if missing := sorted(name for name in required if name not in properties):
            raise unsupported(f"no property says what {missing[0]!r} is", f"{pointer}/required")
        if not properties and told.get("additionalProperties", True) is not False and pointer:
            raise unsupported("an object is not held to names of its members", pointer)
        listed: list[tuple[str, bool]] = []
        for name in _sorted(properties):
            at, is_required = f"{pointer}/properties/{escaped(name)}", name in required
            if not _NAME.fullmatch(name):
                raise unsupported(f"the name {name[:80]!r} cannot stand without quotes", at)
            if value := self._value(at):
                listed.append((f'"{name}:" {value}', is_required))
            elif is_required:
                raise unsupported("no value fits", at)
        return self._between_commas(listed)

    def _between_commas(self, members: list[tuple[str, bool]]) -> str:
        """Return members in order, separated by commas, each with whether it is required."""
        first = next((at for at, (_, is_required) in enumerate(members) if is_required), None)
        if first is not None:
            before = [f'({member} ",")?' for member, _ in members[:first]]
            after = [
                f'"," {member}' if is_required else f'("," {member})?'
                for member, is_required in members[first + 1 :]
            ]
            return " ".join([*before, members[first][0], *after])
        # Each may be the first; the rule of the next one is what may follow it.
        options, follows = [""], ""
        for member, _ in reversed(members):
            options.append(f"{member} {follows}")
            follows = self._rule(f'("," {member})? {follows}')
        return " | ".join(reversed(options))

    def _array(self, pointer: str) -> str:
        """Return an array between its brackets; empty if none fits."""
        told = self._schema.at(pointer)
        least, most = int(told.get("minItems", 0)), told.get("maxItems")
        most = None if most is None else int(most)
        if most is not None and most < least:
            raise unsupported(f"no array has {least} to {most} items", f"{pointer}/minItems")
        if most == 0:
            return '"[]"'
        if not isinstance(told.get("items"), dict | bool) or told["items"] is True:
            raise unsupported("nothing says what the items are", f"{pointer}/items")
        item = self._value(f"{pointer}/items")
        if not item:
            return "" if least else '"[]"'
        bounds = f"~{max(least - 1, 0)}..{most - 1}" if most is not None else "*"
        if most is None and least > 1:
            bounds = f'~{least - 1} ("," {item})*'
        items = self._rule(f'{item} ("," {item}){bounds}')
        return f'"[" {items if least else f"[{items}]"} "]"'

    def _listed(self, value: object, pointer: str) -> Iterator[str]:
        """Yield a value that a schema lists, as written; none if it could not be read back."""
        for name in _keywords_in(value):
            if not _NAME.fullmatch(name):
                raise unsupported(f"the name {name[:80]!r} cannot stand without quotes", pointer)
        mark = self._without
        if mark in _written(value, ""):
            return
        texts = list[str]()
        for number, piece in enumerate(_written(value, mark).split(mark)):
            texts += [_QUOTE] if number else []
            texts += [json.dumps(piece, ensure_ascii=False)] if piece else []
        yield " ".join(texts)

    def _narrowed(self, pointer: str, types: list[str]) -> JsonSchema:
        """Return the schema of a place's values of some types.

        A schema without references is extracted, so that equal ones of all tools are one; for
        others, errors name their place.
        """
        told: dict[str, Any] = self._schema.at(pointer)
        if _REFERRING.isdisjoint(_keywords_in(told)):
            told = {name: value for name, value in told.items() if name not in NOTES}
            if "$schema" in self._schema.root:
                told["$schema"] = self._schema.root["$schema"]
            return JsonSchema(json.dumps(told | {"type": types}, sort_keys=True))
        told = {"$ref": f"{self._uri}#{parse.quote(pointer)}", "type": types}
        return JsonSchema(json.dumps(told), documents=((self._uri, self._text),))

    def _rule(self, body: str) -> str:
        """Add a rule with this body, and return its name."""
        name = f"part_{len(self.rules)}"
        self.rules[name] = body
        return name

    def _filled_in(self, name: str, options: Iterator[str]) -> str:
        """Give a rule these alternatives, and return its name; empty if there are none."""
        self.rules[name] = " | ".join(dict.fromkeys(options))
        return name if self.rules[name] else ""

    def _hole(self, filling: Structure, pointer: str) -> str:
        """Return the name of a hole, made from its first place, as errors show it."""
        digest = filling.digest()
        if digest not in self._filled:
            names = [name for name in pointer.split("/") if name not in ("properties", "$defs")]
            told = re.sub(r"[^A-Z0-9]+", "_", "_".join(names).upper()).strip("_")
            self._filled[digest] = f"HOLE_{len(self.holes)}_{told[:60]}".rstrip("_")
            self.holes[self._filled[digest]] = filling
        return self._filled[digest]


def _keywords_in(value: object) -> Iterator[str]:
    """Yield the names of all members, on all levels."""
    if isinstance(value, dict):
        yield from value
        for each in value.values():
            yield from _keywords_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _keywords_in(each)
