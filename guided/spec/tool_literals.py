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
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final
from urllib import parse

from guided.errors import InvalidConstraintError, UnsupportedFeatureError
from guided.spec.bare_string import BareString
from guided.spec.closed_objects import are_apart, has_parts_with_ids
from guided.spec.constraints import JsonSchema, Lark
from guided.spec.references import at_pointer, escaped, pointer_of
from guided.spec.said_types import SaidTypes, types_of_value
from guided.spec.schema_shape import NOTES, check_shape
from guided.spec.special_token import SpecialToken
from guided.spec.structure import Structure
from guided.spec.tagged import FreeText
from guided.spec.tools import Tool

__all__ = ["literals_of", "written_literals"]

_NAME: Final = re.compile(r"[\w.$-]{1,256}")
_UNHELD: Final = frozenset(
    {
        *("$dynamicRef", "$recursiveRef", "additionalItems", "contains", "dependencies"),
        *("dependentRequired", "dependentSchemas", "disallow", "else", "extends", "if"),
        *("maxProperties", "minProperties", "not", "patternProperties", "prefixItems"),
        *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties", "uniqueItems"),
    }
)
"""Keywords about objects and arrays that no grammar of ours is held to."""
_SAYING_NOTHING: Final = {"minProperties": 0, "not": False, "uniqueItems": False}
"""Values with which some of them say nothing."""
_INDIRECT: Final = ("$ref", "enum", "const", "anyOf", "oneOf", "allOf")
"""Keywords that say what values there are by way of others."""
_DIRECT: Final = frozenset(
    {
        *("additionalProperties", "exclusiveMaximum", "exclusiveMinimum", "format", "items"),
        *("maximum", "maxItems", "maxLength", "minimum", "minItems", "minLength", "multipleOf"),
        *("pattern", "properties", "required", "type"),
    }
)
_SAYING: Final = _UNHELD | {*_INDIRECT} | _DIRECT
"""All keywords that say something of values."""
_REFERRING: Final = frozenset({"$anchor", "$dynamicRef", "$id", "$recursiveRef", "$ref", "id"})
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


class _Lowering:
    """Writes a grammar; a place in the schema has one rule, so places may refer to each other."""

    def __init__(self, schema: JsonSchema, uri: str, quote: SpecialToken, without: str) -> None:
        self._schema = schema
        self._uri = uri
        self._quote = quote
        self._without = without
        self._root = json.loads(schema.text)
        if has_parts_with_ids(self._root):
            raise _unsupported("a part with an $id of its own is not looked into", "")
        self._types = SaidTypes(self._root)
        self.rules: dict[str, str] = {}
        """By name the body of each."""
        self.holes: dict[str, Structure] = {_QUOTE: quote, _TEXT: FreeText(without)}
        self._filled: dict[str, str] = {}
        """By the digest of what fills a hole its name."""
        self._values_at: dict[str, str] = {}
        """By pointer the rule of a place; empty where no value fits."""
        self._containers_at: dict[tuple[str, frozenset[str]], str] = {}
        """By pointer and types the rule of a place's containers; empty where it has none."""

    def arguments(self) -> str:
        """The members of the whole."""
        pointer = self._place("", _TYPE)
        if "object" not in self._types_at("") or self._at(pointer) is False:
            raise _unsupported("no object fits", "")
        self._check_keywords(pointer, ())
        return self._members(pointer)

    def _value(self, pointer: str) -> str:
        """The name of the rule of all values of a place; empty where there is none."""
        pointer = self._place(pointer)
        if pointer not in self._values_at:
            name = self._values_at[pointer] = self._rule("")
            self._values_at[pointer] = self._filled_in(name, self._values(pointer))
        return self._values_at[pointer]

    def _values(self, pointer: str) -> Iterator[str]:
        """What a value of a place is written as: texts, words, and containers."""
        told = self._at(pointer)
        if told is False:
            return
        types = self._types_at(pointer)
        if "string" in types:
            if told.get("type") == "string" and told.keys() & _SAYING == _TYPE:
                yield f"{_QUOTE} {_TEXT} {_QUOTE}"
            else:
                schema = self._narrowed(pointer, ["string"])
                text = BareString(self._quote, schema, self._quote, self._without)
                yield self._hole(text, pointer)
        if words := sorted(types & _WORDS):
            yield self._hole(self._narrowed(pointer, words), pointer)
        if containers := self._containers(pointer, types & _CONTAINERS):
            yield containers

    def _containers(self, pointer: str, types: frozenset[str]) -> str:
        """The rule of a place's objects and arrays of some types; empty where there are none."""
        pointer = self._place(pointer, _TYPE)
        key = (pointer, types)
        if not types or self._at(pointer) is False:
            return ""
        if key not in self._containers_at:
            # It has its name before it is written, as members and items may be such a value again.
            name = self._containers_at[key] = self._rule("")
            found = self._each_container(pointer, types)
            self._containers_at[key] = self._filled_in(name, found)
        return self._containers_at[key]

    def _each_container(self, pointer: str, types: frozenset[str]) -> Iterator[str]:
        told = self._at(pointer)
        name = next((each for each in _INDIRECT[1:] if each in told), None)
        self._check_keywords(pointer, () if name is None else (name,))
        if name in ("enum", "const"):
            for value in told["enum"] if name == "enum" else [told["const"]]:
                if types & types_of_value(value) and self._without not in _written(value, ""):
                    yield self._listed(value, f"{pointer}/{name}")
        elif name is not None:
            self._check_alone(pointer, name)
            yield from self._branches(pointer, name, types)
        else:
            if "object" in types:
                yield f'"{{" {self._rule(self._members(pointer))} "}}"'
            if "array" in types and (array := self._array(pointer)):
                yield array

    def _branches(self, pointer: str, name: str, types: frozenset[str]) -> Iterator[str]:
        """The containers of the alternatives of a place."""
        branches = self._at(pointer)[name]
        places = [f"{pointer}/{name}/{number}" for number in range(len(branches))]
        types_at = {at: types & self._types_at(at) for at in places}
        kinds = [kind for of in types_at.values() for kind in of]
        if name == "allOf" and len(places) > 1:
            raise _unsupported("several schemas say what a container is", f"{pointer}/allOf")
        if name == "oneOf" and len(kinds) > len({*kinds}) and not are_apart(branches, self._root):
            raise _unsupported(
                "nothing tells the alternatives apart", f"{pointer}/oneOf", hint=_TELL_APART
            )
        yield from filter(None, (self._containers(at, of) for at, of in types_at.items()))

    def _members(self, pointer: str) -> str:
        """The members of an object, between commas; no more of them than are named."""
        told = self._at(pointer)
        properties, required = told.get("properties", {}), told.get("required", [])
        if missing := [name for name in required if name not in properties]:
            raise _unsupported(f"no property says what {missing[0]!r} is", f"{pointer}/required")
        if not properties and told.get("additionalProperties", True) is not False and pointer:
            raise _unsupported("an object is not held to names of its members", pointer)
        listed: list[tuple[str, bool]] = []
        for name in _sorted(properties):
            at, is_required = f"{pointer}/properties/{escaped(name)}", name in required
            if not _NAME.fullmatch(name):
                raise _unsupported(f"the name {name[:80]!r} cannot stand without quotes", at)
            if value := self._value(at):
                listed.append((f'"{name}:" {value}', is_required))
            elif is_required:
                raise _unsupported("no value fits", at)
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

    def _array(self, pointer: str) -> str:
        """An array between its brackets; empty where none fits."""
        told = self._at(pointer)
        least, most = int(told.get("minItems", 0)), told.get("maxItems")
        most = None if most is None else int(most)
        if most is not None and most < least:
            raise _unsupported(f"no array has {least} to {most} items", f"{pointer}/minItems")
        if most == 0:
            return '"[]"'
        if not isinstance(told.get("items"), dict | bool) or told["items"] is True:
            raise _unsupported("nothing says what the items are", f"{pointer}/items")
        item = self._value(f"{pointer}/items")
        if not item:
            return "" if least else '"[]"'
        bounds = f"~{max(least - 1, 0)}..{most - 1}" if most is not None else "*"
        if most is None and least > 1:
            bounds = f'~{least - 1} ("," {item})*'
        items = self._rule(f'{item} ("," {item}){bounds}')
        return f'"[" {items if least else f"[{items}]"} "]"'

    def _listed(self, value: object, pointer: str) -> str:
        """A value that a schema lists, as it is written."""
        for name in _keywords_in(value):
            if not _NAME.fullmatch(name):
                raise _unsupported(f"the name {name[:80]!r} cannot stand without quotes", pointer)
        texts, mark = [], self._without
        for number, piece in enumerate(_written(value, mark).split(mark)):
            texts += [_QUOTE] if number else []
            texts += [json.dumps(piece, ensure_ascii=False)] if piece else []
        return " ".join(texts)

    def _types_at(self, pointer: str) -> frozenset[str]:
        types = self._types.of(pointer)
        if self._types.circular:
            place = min(self._types.circular)
            raise _unsupported("a schema that stands for itself is not held to", place)
        return types

    def _place(self, pointer: str, beside: frozenset[str] = frozenset()) -> str:
        """Where references and lone parts of ``allOf`` lead that say all there is of a place, but
        for what the keywords ``beside`` say.
        """
        seen = set[str]()
        while pointer not in seen and (told := self._at(pointer)) is not False:
            seen.add(pointer)
            others = (told.keys() & _SAYING) - beside
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
        """The schema of a place: an object, or ``False``; ``True`` is the one that says nothing."""
        found = at_pointer(self._root, pointer)
        if isinstance(found, bool):
            return {} if found else False
        if not isinstance(found, dict):
            raise InvalidConstraintError(f"{found!r:.80} is no schema", pointer=pointer)
        check_shape(found, pointer)
        if "$ref" in found and found.keys() & _SAYING != {"$ref"} and self._is_of_an_old_draft:
            raise _unsupported("what stands beside $ref says nothing in this draft", pointer)
        return found

    @property
    def _is_of_an_old_draft(self) -> bool:
        return re.search(r"draft-0[3-7]", str(self._root.get("$schema"))) is not None

    def _narrowed(self, pointer: str, types: list[str]) -> JsonSchema:
        """A place's values of some types.

        One that refers to no other is taken out of the whole, so that equal ones of all tools are
        one; of the others errors say where they are.
        """
        told: dict[str, Any] = self._at(pointer)
        if _REFERRING.isdisjoint(_keywords_in(told)):
            told = {name: value for name, value in told.items() if name not in NOTES}
            if "$schema" in self._root:
                told["$schema"] = self._root["$schema"]
            return JsonSchema(json.dumps(told | {"type": types}, sort_keys=True))
        told = {"$ref": f"{self._uri}#{parse.quote(pointer)}", "type": types}
        return JsonSchema(json.dumps(told), documents=((self._uri, self._schema.text),))

    def _rule(self, body: str) -> str:
        """The name of a rule of its own with this body."""
        name = f"part_{len(self.rules)}"
        self.rules[name] = body
        return name

    def _filled_in(self, name: str, options: Iterator[str]) -> str:
        """The name of a rule, with these alternatives; empty where there are none."""
        self.rules[name] = " | ".join(dict.fromkeys(options))
        return name if self.rules[name] else ""

    def _hole(self, filling: Structure, pointer: str) -> str:
        """The name of a hole, which errors tell; it is made of where it first stands."""
        digest = filling.digest()
        if digest not in self._filled:
            names = [name for name in pointer.split("/") if name not in ("properties", "$defs")]
            told = re.sub(r"[^A-Z0-9]+", "_", "_".join(names).upper()).strip("_")
            self._filled[digest] = f"HOLE_{len(self.holes)}_{told[:60]}".rstrip("_")
            self.holes[self._filled[digest]] = filling
        return self._filled[digest]

    def _check_keywords(self, pointer: str, allowed: Collection[str]) -> None:
        """Raise UnsupportedFeatureError for a keyword that says more of an object or array."""
        told = self._at(pointer)
        for name in (*_INDIRECT, *sorted(_UNHELD)):
            if name not in told or name in allowed:
                continue
            if name not in _SAYING_NOTHING or told[name] != _SAYING_NOTHING[name]:
                raise _unsupported(f"the keyword {name!r} is not held to", f"{pointer}/{name}")

    def _check_alone(self, pointer: str, name: str) -> None:
        """Raise UnsupportedFeatureError where something stands beside alternatives."""
        for other in ("additionalProperties", "items", "maxItems", "minItems"):
            if other in self._at(pointer):
                raise _unsupported(f"{other!r} is not held to beside {name!r}", pointer)
        for other in ("properties", "required"):
            if self._at(pointer).get(other):
                raise _unsupported(f"{other!r} is not held to beside {name!r}", pointer)


def _keywords_in(value: object) -> Iterator[str]:
    """The names of all members, in whatever stands inside."""
    if isinstance(value, dict):
        yield from value
        for each in value.values():
            yield from _keywords_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _keywords_in(each)


_NAME_THEM: Final = "leave it out of the parameters, or say which members and items there are"
_TELL_APART: Final = "write anyOf, or require a member that has another value in each of them"


def _unsupported(what: str, pointer: str, hint: str = _NAME_THEM) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{what} where the model writes arguments without the quotes of JSON",
        pointer=pointer,
        hint=hint,
    )
