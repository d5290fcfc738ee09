"""Arguments that a format of calls writes with bare names, and texts between special tokens.

::

    {"city": "Oslo", "days": [1, 2]}  →  city:<|"|>Oslo<|"|>,days:[1,2]

Members stand in the order in which templates sort them, by name. What a schema says of texts,
numbers and words (``true``, ``false``, ``null``) is held to, whatever it is: each is a hole of the
grammar that this writes, filled by the schema itself. Of objects and arrays the grammar knows which
members they have, what their values are, and how many items there are; a schema that says more of
them is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib import parse

from guided.errors import UnsupportedFeatureError
from guided.spec.bare_string import BareString
from guided.spec.closed_objects import are_apart
from guided.spec.constraints import JsonSchema, Lark
from guided.spec.references import at_pointer, escaped, pointer_of
from guided.spec.said_types import SaidTypes, types_of_value
from guided.spec.schema_shape import check_shape
from guided.spec.special_token import SpecialToken
from guided.spec.structure import Structure
from guided.spec.tagged import FreeText
from guided.spec.tools import Tool

__all__ = ["literals_of", "written_literals"]

_NAME: Final = re.compile(r"[\w.$-]{1,256}")
_NOTES: Final = frozenset(
    {
        *("$comment", "$defs", "$schema", "default", "definitions", "deprecated", "description"),
        *("discriminator", "examples", "readOnly", "title", "writeOnly"),
    }
)
_OF_TEXTS: Final = frozenset(
    {
        *("contentEncoding", "contentMediaType", "exclusiveMaximum", "exclusiveMinimum", "format"),
        *("maxLength", "maximum", "minLength", "minimum", "multipleOf", "pattern"),
    }
)
"""What is said of texts and numbers, to which those are held."""
_OF_CONTAINERS: Final = frozenset(
    {"additionalProperties", "items", "maxItems", "minItems", "properties", "required"}
)
_QUOTE: Final = "QUOTE"
_TEXT: Final = "TEXT"
"""Names of holes: the special token around texts, and any text."""
_WORDS: Final = frozenset({"boolean", "integer", "null", "number"})
_CONTAINERS: Final = frozenset({"array", "object"})
_TYPE: Final = frozenset({"type"})


def literals_of(tool: Tool, schema: JsonSchema, quote: str, without: str) -> Structure:
    """The constraint of arguments that fit the schema of a tool, but for the braces around them.

    ``quote`` is the special token before and after each text, and no text has ``without`` in it.
    Raises UnsupportedFeatureError for what the format cannot be held to.
    """
    lowering = _Lowering(schema, f"tool:{tool.name}", SpecialToken(quote), without)
    try:
        lowering.rules["start"] = lowering.arguments()
    except RecursionError as error:
        raise _unsupported("what refers to one another that deep is not held to", "") from error
    declared = " ".join(lowering.holes)
    rules = "\n".join(f"{name}: {body}" for name, body in lowering.rules.items())
    return Lark(f"{rules}\n%declare {declared}\n", holes=lowering.holes)


def written_literals(arguments: str, quote: str) -> str:
    """The arguments of a call as chat templates write them, without the braces around them."""
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
    """Names in the order of Jinja's ``dictsort``."""
    return sorted(members, key=str.lower)


@dataclass
class _Lowering:
    """Writes a grammar; a place in the schema has one rule, so places may refer to each other."""

    schema: JsonSchema
    uri: str
    quote: SpecialToken
    without: str
    rules: dict[str, str] = field(default_factory=dict)
    """By name the body of each."""

    def __post_init__(self) -> None:
        self._root = json.loads(self.schema.text)
        self._names: dict[str, str] = {}
        """By pointer the rule of a place."""
        self._of_containers: dict[tuple[str, frozenset[str]], str] = {}
        """By pointer and types the rule of a place's containers; empty where it has none."""
        self._types = SaidTypes(self._root)
        self.holes = {_QUOTE: self.quote, _TEXT: FreeText(self.without)}

    def arguments(self) -> str:
        """The members of the whole."""
        pointer = self._place("", _TYPE)
        self._check_keywords(pointer, _OF_CONTAINERS)
        return self._members(pointer)

    def _value(self, pointer: str) -> str:
        """The name of the rule of all values of a place."""
        pointer = self._place(pointer)
        if pointer not in self._names:
            name = self._names[pointer] = self._rule("")
            if not (options := [*self._values(pointer)]):
                raise _unsupported("no value fits", pointer)
            self.rules[name] = " | ".join(options)
        return self._names[pointer]

    def _members(self, pointer: str) -> str:
        """The members of an object, between commas; no more of them than are named."""
        told = self._at(pointer)
        properties = told.get("properties", {})
        required = told.get("required", [])
        if missing := [name for name in required if name not in properties]:
            raise _unsupported(f"no property says what {missing[0]!r} is", f"{pointer}/required")
        if not properties and told.get("additionalProperties", True) is not False and pointer:
            raise _unsupported("an object is not held to names of its members", pointer)
        listed: list[tuple[str, bool]] = []
        for name in _sorted(properties):
            at = f"{pointer}/properties/{escaped(name)}"
            if properties[name] is False and name not in required:
                continue
            if not _NAME.fullmatch(name):
                raise _unsupported(f"the name {name[:80]!r} cannot stand without quotes", at)
            listed.append((f'"{name}:" {self._value(at)}', name in required))
        return self._between_commas(listed)

    def _between_commas(self, members: list[tuple[str, bool]]) -> str:
        """Members in their order, each with whether it must be there."""
        first = next((at for at, (_, is_required) in enumerate(members) if is_required), None)
        if first is not None:
            before = [f'({member} ",")?' for member, _ in members[:first]]
            behind = [
                f'"," {member}' if is_required else f'("," {member})?'
                for member, is_required in members[first + 1 :]
            ]
            return " ".join([*before, members[first][0], *behind])
        # Each may be the first; what may follow it is the rule of the next one.
        options, follows = [""], ""
        for member, _ in reversed(members):
            options.append(f"{member} {follows}")
            follows = self._rule(f'("," {member})? {follows}')
        return " | ".join(reversed(options))

    def _values(self, pointer: str) -> Iterator[str]:
        """What a value of a place is written as: texts, words, and containers."""
        types, told = self._types.of(pointer), self._at(pointer)
        if isinstance(told, dict):
            check_shape(told, pointer)
        if "string" in types:
            if told.get("type") == "string" and told.keys() <= _NOTES | {"type"}:
                yield f"{_QUOTE} {_TEXT} {_QUOTE}"
            else:
                schema = self._narrowed(pointer, ["string"])
                yield self._hole(BareString(self.quote, schema, self.quote, self.without))
        if words := sorted(types & _WORDS):
            yield self._hole(self._narrowed(pointer, words))
        if (of := types & _CONTAINERS) and (containers := self._containers(pointer, of)):
            yield containers

    def _containers(self, pointer: str, types: frozenset[str]) -> str:
        """The rule of a place's objects and arrays, as far as they are of some types."""
        pointer = self._place(pointer, _TYPE)
        if (pointer, types) not in self._of_containers:
            self._of_containers[pointer, types] = ""
            if options := [*self._each_container(pointer, types)]:
                self._of_containers[pointer, types] = self._rule(" | ".join(options))
        return self._of_containers[pointer, types]

    def _each_container(self, pointer: str, types: frozenset[str]) -> Iterator[str]:
        told = self._at(pointer)
        for name in ("enum", "const"):
            if name in told:
                self._check_keywords(pointer, {name})
                values = told["enum"] if name == "enum" else [told["const"]]
                for value in values:
                    if types & types_of_value(value) and self.without not in _written(value, ""):
                        yield self._listed(value, f"{pointer}/{name}")
                return
        for name in ("anyOf", "oneOf", "allOf"):
            if name in told:
                self._check_keywords(pointer, {name})
                yield from self._branches(pointer, name, types)
                return
        self._check_keywords(pointer, _OF_TEXTS | _OF_CONTAINERS)
        if "object" in types:
            yield f'"{{" {self._rule(self._members(pointer))} "}}"'
        if "array" in types:
            yield self._array(pointer)

    def _branches(self, pointer: str, name: str, types: frozenset[str]) -> Iterator[str]:
        places = [f"{pointer}/{name}/{number}" for number in range(len(self._at(pointer)[name]))]
        held = [(at, types & self._types.of(at)) for at in places]
        held = [(at, of) for at, of in held if of]
        is_apart = len(held) == len(frozenset().union(*(of for _, of in held)))
        if name == "allOf" and len(places) > 1:
            raise _unsupported("several schemas say what a container is", f"{pointer}/allOf")
        if name == "oneOf" and not (is_apart or are_apart(self._at(pointer)[name], self._root)):
            raise _unsupported("nothing tells the alternatives apart", f"{pointer}/oneOf")
        yield from filter(None, (self._containers(at, of) for at, of in held))

    def _array(self, pointer: str) -> str:
        told = self._at(pointer)
        least, most = int(told.get("minItems", 0)), told.get("maxItems")
        most = None if most is None else int(most)
        if most is not None and most < least:
            raise _unsupported(f"no array has {least} to {most} items", f"{pointer}/minItems")
        if most == 0:
            return '"[]"'
        if not isinstance(told.get("items"), dict):
            raise _unsupported("nothing says what the items are", f"{pointer}/items")
        item = self._value(f"{pointer}/items")
        bounds = f"~{max(least - 1, 0)}..{most - 1}" if most is not None else "*"
        if most is None and least > 1:
            bounds = f'~{least - 1} ("," {item})*'
        items = self._rule(f'{item} ("," {item}){bounds}')
        return f'"[" {items if least else f"[{items}]"} "]"'

    def _listed(self, value: object, pointer: str) -> str:
        """A value that a schema lists, as it is written."""
        for name in _names_in(value):
            if not _NAME.fullmatch(name):
                raise _unsupported(f"the name {name[:80]!r} cannot stand without quotes", pointer)
        texts, mark = [], self.without
        for number, piece in enumerate(_written(value, mark).split(mark)):
            texts += [_QUOTE] if number else []
            texts += [json.dumps(piece, ensure_ascii=False)] if piece else []
        return " ".join(texts)

    def _place(self, pointer: str, beside: frozenset[str] = frozenset()) -> str:
        """Where references and lone parts of ``allOf`` lead that say all there is of a place, but
        for what the keywords ``beside`` say.
        """
        seen = set[str]()
        while pointer not in seen and isinstance(told := self._at(pointer), dict):
            seen.add(pointer)
            others = told.keys() - _NOTES - beside
            if others == {"$ref"}:
                pointer = self._referred(pointer)
            elif others == {"allOf"} and len(told["allOf"]) == 1:
                pointer = f"{pointer}/allOf/0"
        return pointer

    def _referred(self, pointer: str) -> str:
        reference = self._at(pointer)["$ref"]
        target = pointer_of(reference)
        if target is None or at_pointer(self._root, target) is None:
            raise _unsupported(f"{reference!r} leads out of the parameters", f"{pointer}/$ref")
        return target

    def _at(self, pointer: str) -> Any:
        """The schema of a place; ``true`` as the one that says nothing."""
        found = at_pointer(self._root, pointer)
        return {} if found is True else found

    def _narrowed(self, pointer: str, types: list[str]) -> JsonSchema:
        """A place's values of some types; by reference, so errors say where the place is."""
        told = {"$ref": f"{self.uri}#{parse.quote(pointer)}", "type": types}
        return JsonSchema(json.dumps(told), documents=((self.uri, self.schema.text),))

    def _rule(self, body: str) -> str:
        """The name of a rule of its own with this body."""
        name = f"part_{len(self.rules)}"
        self.rules[name] = body
        return name

    def _hole(self, filling: Structure) -> str:
        for name, known in self.holes.items():
            if known == filling:
                return name
        name = f"HOLE_{len(self.holes)}"
        self.holes[name] = filling
        return name

    def _check_keywords(self, pointer: str, allowed: set[str] | frozenset[str]) -> None:
        told = self._at(pointer)
        check_shape(told, pointer)
        for name in told:
            if name not in _NOTES | {"type"} | allowed:
                raise _unsupported(f"the keyword {name!r} is not held to", f"{pointer}/{name}")


def _names_in(value: object) -> Iterator[str]:
    inner: Iterable[object] = ()
    if isinstance(value, dict):
        yield from value
        inner = value.values()
    elif isinstance(value, list):
        inner = value
    for each in inner:
        yield from _names_in(each)


def _unsupported(what: str, pointer: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{what} where the model writes arguments without the quotes of JSON",
        pointer=pointer,
        hint="leave it out of the parameters, or say which members and items there are",
    )
