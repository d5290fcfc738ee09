"""Builds the grammar of call arguments with bare names, and texts between special tokens.

::

    {"city": "Oslo", "days": [1, 2]}  →  city:<|"|>Oslo<|"|>,days:[1,2]

Members are in the order in which templates sort them, by name. Whatever a schema says of texts,
numbers and the words ``true``, ``false`` and ``null`` is enforced: each is a hole of this grammar,
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
from guided.spec.declared_types import types_of_value
from guided.spec.exact_json import write_exact
from guided.spec.literal_schema import INDIRECT, RESTRICTING, TYPE, LiteralSchema, unsupported
from guided.spec.references import escape_token
from guided.spec.schema_shape import NOTES
from guided.spec.special_token import SpecialToken
from guided.spec.structure import Structure
from guided.spec.tagged import FreeText
from guided.spec.tools import Tool
from guided.spec.whole_schema import WholeSchema

__all__ = ["literals_of", "write_literals"]

_NAME: Final = re.compile(r"[\w.$-]{1,256}")
_REFERENCE_KEYWORDS: Final = frozenset(
    {"$anchor", "$dynamicRef", "$id", "$recursiveRef", "$ref", "id"}
)
_QUOTE: Final = "QUOTE"
_TEXT: Final = "TEXT"
"""Names of holes: the special token around texts, and any text."""
_WORDS: Final = frozenset({"boolean", "integer", "null", "number"})
_CONTAINERS: Final = frozenset({"array", "object"})
_MAX_COMBINATIONS: Final = 64
"""The most combinations of types and required members for one schema, each of which has a rule."""


def literals_of(tool: Tool, schema: JsonSchema, quote: str, without: str) -> Structure:
    """Return the constraint of arguments that fit a tool's schema, without their outer braces.

    ``quote`` is the special token before and after each text; no text contains ``without``. Raises
    UnsupportedFeatureError for what the format cannot enforce.
    """
    lowering = _GrammarWriter(schema, f"tool:{tool.name}", SpecialToken(quote), without)
    try:
        lowering.rules["start"] = lowering.arguments()
    except RecursionError as error:
        raise unsupported("what refers to one another that deep is not held to", "") from error
    declared = " ".join(lowering.holes)
    rules = "\n".join(f"{name}: {body}" for name, body in lowering.rules.items())
    return Lark(f"{rules}\n%declare {declared}\n", holes=lowering.holes)


def write_literals(arguments: str, quote: str) -> str:
    """Return the arguments of a call as chat templates write them, without the outer braces."""
    return _write(json.loads(arguments), quote)[1:-1]


def _write(value: object, quote: str) -> str:
    match value:
        case str():
            return f"{quote}{value}{quote}"
        case dict():
            members = (f"{name}:{_write(value[name], quote)}" for name in _sorted(value))
            return f"{{{','.join(members)}}}"
        case list():
            return f"[{','.join(_write(item, quote) for item in value)}]"
    return write_exact(value)


def _sorted(members: Mapping[str, object]) -> list[str]:
    """Return names in the order of Jinja's ``dictsort``."""
    return sorted(members, key=str.lower)


class _GrammarWriter:
    """Writes a grammar with one rule per schema, by pointer, so that schemas may be recursive."""

    def __init__(self, schema: JsonSchema, uri: str, quote: SpecialToken, without: str) -> None:
        self._whole = WholeSchema(uri, schema)
        self._options = schema.options
        self._quote = quote
        self._without = without
        self._schema = LiteralSchema(schema.text)
        self.rules: dict[str, str] = {}
        """Bodies of rules by name."""
        self.holes: dict[str, Structure] = {_QUOTE: quote, _TEXT: FreeText(without)}
        """What fills each hole, by its name."""
        self._hole_by_digest: dict[str, str] = {}
        """Names of holes by the digest of the constraint that fills them."""
        self._value_rule: dict[str, str] = {}
        """Rules of the values of schemas by pointer; empty if no value fits."""
        self._container_rules: dict[str, dict[tuple[frozenset[str], frozenset[str]], str]] = {}
        """Rules of the objects and arrays of schemas, by pointer, types and required members; empty
        if there are none."""

    def arguments(self) -> str:
        """Return the body of the rule of all arguments."""
        pointer, always = self._schema.resolve_container("")
        if "object" not in self._schema.types_at("") or self._schema.schema_at(pointer) is False:
            raise unsupported("no object fits", "")
        self._schema.check_keywords(pointer)
        return self._members(pointer, always, may_be_open=True)

    def _value(self, pointer: str) -> str:
        """Return the rule of the values of the schema at a pointer; empty if no value fits."""
        pointer = self._schema.resolve(pointer)
        if pointer not in self._value_rule:
            name = self._value_rule[pointer] = self._add_rule("")
            self._value_rule[pointer] = self._set_alternatives(name, self._values(pointer))
        return self._value_rule[pointer]

    def _values(self, pointer: str) -> Iterator[str]:
        """Yield the alternatives of the values of a schema."""
        schema = self._schema.schema_at(pointer)
        if schema is False:
            return
        types = self._schema.types_at(pointer)
        if "string" in types:
            if schema.get("type") == "string" and schema.keys() & RESTRICTING == TYPE:
                yield f"{_QUOTE} {_TEXT} {_QUOTE}"
            else:
                text_schema = self._schema_of_types(pointer, ["string"])
                text = BareString(self._quote, text_schema, self._quote, self._without)
                yield self._add_hole(text, pointer)
        if words := sorted(types & _WORDS):
            yield self._add_hole(self._schema_of_types(pointer, words), pointer)
        if containers := self._containers(pointer, types & _CONTAINERS):
            yield containers

    def _containers(
        self, pointer: str, types: frozenset[str], always: frozenset[str] = frozenset()
    ) -> str:
        """Return the rule of the objects and arrays of a schema that have one of ``types``.

        Empty if there are none. Objects always have the members ``always``, even if the schema does
        not require them.
        """
        pointer, required = self._schema.resolve_container(pointer)
        always |= required
        if not types or self._schema.schema_at(pointer) is False:
            return ""
        rules = self._container_rules.setdefault(pointer, {})
        if (key := (types, always)) not in rules:
            if len(rules) == _MAX_COMBINATIONS:
                raise unsupported("what stands in that many unions is not held to", pointer)
            # The rule is named before its body is written, which may refer to it.
            name = rules[key] = self._add_rule("")
            rules[key] = self._set_alternatives(name, self._each_container(pointer, types, always))
        return rules[key]

    def _each_container(
        self, pointer: str, types: frozenset[str], always: frozenset[str]
    ) -> Iterator[str]:
        schema = self._schema.schema_at(pointer)
        name = next((each for each in INDIRECT[1:] if each in schema), None)
        self._schema.check_keywords(pointer, name)
        if name in ("enum", "const"):
            for value in schema["enum"] if name == "enum" else [schema["const"]]:
                has_all = not isinstance(value, dict) or always <= value.keys()
                if has_all and types & types_of_value(value):
                    yield from self._write_listed(value, f"{pointer}/{name}")
        elif name is not None:
            yield from self._branches(pointer, name, types, always)
        else:
            if "object" in types:
                yield f'"{{" {self._add_rule(self._members(pointer, always))} "}}"'
            if "array" in types and (array := self._array(pointer)):
                yield array

    def _branches(
        self, pointer: str, name: str, types: frozenset[str], always: frozenset[str]
    ) -> Iterator[str]:
        """Yield the rules of the objects and arrays of the branches of a schema."""
        schema = self._schema.schema_at(pointer)
        always |= {*schema.get("required", ())}
        pointers = [f"{pointer}/{name}/{index}" for index in range(len(schema[name]))]
        types_at = {at: types & self._schema.types_at(at) for at in pointers}
        if name == "allOf" and len(pointers) > 1:
            raise unsupported("several schemas say what a container is", f"{pointer}/allOf")
        if name == "oneOf":
            always |= self._schema.discriminators(pointer, types_at)
        yield from filter(None, (self._containers(at, of, always) for at, of in types_at.items()))

    def _members(self, pointer: str, always: frozenset[str], *, may_be_open: bool = False) -> str:
        """Return the body of the members of an object, separated by commas.

        An object that names no members and allows others is refused, or has none if it
        ``may_be_open``: so a tool says that it takes no arguments.
        """
        schema = self._schema.schema_at(pointer)
        properties, required = schema.get("properties", {}), always | {*schema.get("required", ())}
        if missing := sorted(name for name in required if name not in properties):
            raise unsupported(f"no property says what {missing[0]!r} is", f"{pointer}/required")
        is_open = not properties and schema.get("additionalProperties", True) is not False
        if is_open and not may_be_open:
            raise unsupported("an object is not held to names of its members", pointer)
        listed: list[tuple[str, bool]] = []
        for name in _sorted(properties):
            at, is_required = f"{pointer}/properties/{escape_token(name)}", name in required
            if not _NAME.fullmatch(name):
                raise unsupported(f"the name {name[:80]!r} cannot stand without quotes", at)
            if value := self._value(at):
                listed.append((f'"{name}:" {value}', is_required))
            elif is_required:
                raise unsupported("no value fits", at)
        return self._join_members(listed)

    def _join_members(self, members: list[tuple[str, bool]]) -> str:
        """Return the body of members in order, separated by commas.

        ``members`` are the body of each and whether it is required.
        """
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
            follows = self._add_rule(f'("," {member})? {follows}')
        return " | ".join(reversed(options))

    def _array(self, pointer: str) -> str:
        """Return the body of an array; empty if none fits."""
        schema = self._schema.schema_at(pointer)
        least, most = int(schema.get("minItems", 0)), schema.get("maxItems")
        most = None if most is None else int(most)
        if most is not None and most < least:
            raise unsupported(f"no array has {least} to {most} items", f"{pointer}/minItems")
        if most == 0:
            return '"[]"'
        if not isinstance(schema.get("items"), dict | bool) or schema["items"] is True:
            raise unsupported("nothing says what the items are", f"{pointer}/items")
        item = self._value(f"{pointer}/items")
        if not item:
            return "" if least else '"[]"'
        bounds = f"~{max(least - 1, 0)}..{most - 1}" if most is not None else "*"
        if most is None and least > 1:
            bounds = f'~{least - 1} ("," {item})*'
        items = self._add_rule(f'{item} ("," {item}){bounds}')
        return f'"[" {items if least else f"[{items}]"} "]"'

    def _write_listed(self, value: object, pointer: str) -> Iterator[str]:
        """Yield the body of a listed value; nothing if it contains ``without``."""
        for name in _keywords_in(value):
            if not _NAME.fullmatch(name):
                raise unsupported(f"the name {name[:80]!r} cannot stand without quotes", pointer)
        mark = self._without
        if mark in _write(value, ""):
            return
        texts = list[str]()
        for index, piece in enumerate(_write(value, mark).split(mark)):
            texts += [_QUOTE] if index else []
            texts += [json.dumps(piece, ensure_ascii=False)] if piece else []
        yield " ".join(texts)

    def _schema_of_types(self, pointer: str, types: list[str]) -> JsonSchema:
        """Return the schema of those values of the schema at a pointer that have one of ``types``.

        A schema without references is copied out, so that equal ones of all tools are one. Others
        refer to their place in the whole, so that errors show it.
        """
        schema: dict[str, Any] = self._schema.schema_at(pointer)
        if _REFERENCE_KEYWORDS.isdisjoint(_keywords_in(schema)):
            schema = {name: value for name, value in schema.items() if name not in NOTES}
            if "$schema" in self._schema.root:
                schema["$schema"] = self._schema.root["$schema"]
            typed = schema | {"type": types}
            text = write_exact({name: typed[name] for name in sorted(typed)})
            return JsonSchema(text, self._options)
        return self._whole.at(parse.quote(pointer), type=types)

    def _add_rule(self, body: str) -> str:
        """Add a rule with this body, and return its name."""
        name = f"part_{len(self.rules)}"
        self.rules[name] = body
        return name

    def _set_alternatives(self, name: str, options: Iterator[str]) -> str:
        """Set the alternatives of a rule, and return its name; empty if there are none."""
        self.rules[name] = " | ".join(dict.fromkeys(options))
        return name if self.rules[name] else ""

    def _add_hole(self, filling: Structure, pointer: str) -> str:
        """Return the name of a constraint's hole, made from the first pointer with it."""
        digest = filling.digest()
        if digest not in self._hole_by_digest:
            names = [name for name in pointer.split("/") if name not in ("properties", "$defs")]
            label = re.sub(r"[^A-Z0-9]+", "_", "_".join(names).upper()).strip("_")
            self._hole_by_digest[digest] = f"HOLE_{len(self.holes)}_{label[:60]}".rstrip("_")
            self.holes[self._hole_by_digest[digest]] = filling
        return self._hole_by_digest[digest]


def _keywords_in(value: object) -> Iterator[str]:
    """Yield the names of all members, on all levels."""
    if isinstance(value, dict):
        yield from value
        for each in value.values():
            yield from _keywords_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _keywords_in(each)
