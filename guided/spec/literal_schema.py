"""A schema of arguments written with bare names, as far as a grammar can enforce it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from guided.errors import InvalidConstraintError, UnsupportedFeatureError
from guided.spec.closed_objects import has_parts_with_ids
from guided.spec.references import at_pointer, pointer_of
from guided.spec.said_types import SaidTypes
from guided.spec.schema_shape import check_shape, old_draft
from guided.spec.telling_members import TellingMembers

__all__ = ["INDIRECT", "SAYING", "TYPE", "LiteralSchema", "unsupported"]

INDIRECT: Final = ("$ref", "enum", "const", "anyOf", "oneOf", "allOf")
"""Keywords that define values through other schemas or lists."""
_DIRECT: Final = frozenset(
    {"additionalProperties", "items", "maxItems", "minItems", "properties", "required"}
)
_HELD: Final[Mapping[str | None, frozenset[str]]] = {
    None: _DIRECT,
    "enum": frozenset({"enum"}),
    "const": frozenset({"const"}),
    **{name: frozenset({name, "required"}) for name in ("anyOf", "oneOf", "allOf")},
}
"""For each keyword that defines which objects and arrays are valid, or ``None``, the keywords about
them that the grammar enforces.
"""
_UNHELD: Final = frozenset(
    {
        *("$dynamicRef", "$recursiveRef", "additionalItems", "contains", "dependencies"),
        *("dependentRequired", "dependentSchemas", "disallow", "else", "extends", "if"),
        *("maxProperties", "minProperties", "not", "patternProperties", "prefixItems"),
        *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties", "uniqueItems"),
    }
)
"""Keywords that the grammar never enforces."""
_OF_CONTAINERS: Final = _DIRECT | _UNHELD | {*INDIRECT}
_SAYING_NOTHING: Final[dict[str, object]] = {
    "minProperties": 0,
    "not": False,
    "properties": {},
    "required": [],
    "uniqueItems": False,
}
"""Values with which some keywords have no effect."""
SAYING: Final = _OF_CONTAINERS | {
    *("exclusiveMaximum", "exclusiveMinimum", "format", "maximum", "maxLength", "minimum"),
    *("minLength", "multipleOf", "pattern", "type"),
}
"""All keywords that restrict values."""
TYPE: Final = frozenset({"type"})
_TYPE_AND_REQUIRED: Final = TYPE | {"required"}


class LiteralSchema:
    """Reads a schema by its pointers; refuses what cannot be enforced, with its place."""

    def __init__(self, text: str) -> None:
        self.root = json.loads(text)
        if has_parts_with_ids(self.root):
            raise unsupported("a part with an $id of its own is not looked into", "")
        self._draft = old_draft(self.root)
        self._types = SaidTypes(self.root)
        self._telling = TellingMembers(self.root)

    def at(self, pointer: str) -> Any:
        """Return the schema of a place: an object, or ``False``; ``True`` becomes empty."""
        found = at_pointer(self.root, pointer)
        if isinstance(found, bool):
            return {} if found else False
        if not isinstance(found, dict):
            raise InvalidConstraintError(f"{found!r:.80} is no schema", pointer=pointer)
        check_shape(found, pointer)
        if "$ref" in found and found.keys() & SAYING != {"$ref"} and self._draft:
            raise unsupported("what stands beside $ref says nothing in this draft", pointer)
        if "const" in found and self._draft in (3, 4):
            raise unsupported("const says nothing in this draft", pointer)
        return found

    def types_at(self, pointer: str) -> frozenset[str]:
        """Return the types that the values of a place may have."""
        types = self._types.of(pointer)
        if self._types.circular:
            place = min(self._types.circular)
            raise unsupported("a schema that stands for itself is not held to", place)
        return types

    def place(self, pointer: str) -> str:
        """Return the place that references and single parts of ``allOf`` lead to from a place."""
        return self._led(pointer, frozenset())[0]

    def container_place(self, pointer: str) -> tuple[str, frozenset[str]]:
        """Return the place that defines a place's containers, and the names of members that its
        objects must have in addition.
        """
        return self._led(pointer, _TYPE_AND_REQUIRED)

    def _led(self, pointer: str, beside: frozenset[str]) -> tuple[str, frozenset[str]]:
        seen, required = set[str](), frozenset[str]()
        while pointer not in seen and (told := self.at(pointer)) is not False:
            seen.add(pointer)
            others = (told.keys() & SAYING) - beside
            if others == {"$ref"}:
                pointer = self._referred(pointer)
            elif others == {"allOf"} and len(told["allOf"]) == 1:
                pointer = f"{pointer}/allOf/0"
            else:
                break
            required |= {*told.get("required", ())}
        return pointer, required

    def _referred(self, pointer: str) -> str:
        reference = self.at(pointer)["$ref"]
        target = pointer_of(reference)
        if target is None or at_pointer(self.root, target) is None:
            raise unsupported(f"{reference!r} leads out of the parameters", f"{pointer}/$ref")
        return target

    def telling(self, pointer: str, types_at: Mapping[str, frozenset[str]]) -> frozenset[str]:
        """Return the members that make an object of a ``oneOf`` fit one alternative only.

        This is the member that the schema names as discriminator, if that one distinguishes them.
        """
        objects = [at_pointer(self.root, at) for at, of in types_at.items() if "object" in of]
        num_arrays = sum("array" in of for of in types_at.values())
        apart = self._telling.of(objects)
        if num_arrays > 1 or (len(objects) > 1 and not apart):
            raise unsupported(
                "nothing tells the alternatives apart", f"{pointer}/oneOf", hint=_TELL_APART
            )
        if len(objects) < 2:
            return frozenset()
        named = self.at(pointer).get("discriminator")
        named = named.get("propertyName") if isinstance(named, dict) else None
        name = max(apart, key=lambda each: (each == named, apart[each]))
        return frozenset() if apart[name] else frozenset({name})

    def check_keywords(self, pointer: str, name: str | None = None) -> None:
        """Raise UnsupportedFeatureError for a keyword about objects and arrays that is not enforced
        beside ``name``."""
        told, beside = self.at(pointer), "" if name is None else f" beside {name!r}"
        for other in sorted((told.keys() & _OF_CONTAINERS) - _HELD[name]):
            if other not in _SAYING_NOTHING or told[other] != _SAYING_NOTHING[other]:
                what = f"the keyword {other!r} is not held to{beside}"
                raise unsupported(what, f"{pointer}/{other}")


_NAME_THEM: Final = "leave it out of the parameters, or say which members and items there are"
_TELL_APART: Final = "write anyOf, or give each of them a member with a value of its own"


def unsupported(what: str, pointer: str, hint: str = _NAME_THEM) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{what} where the model writes arguments without the quotes of JSON",
        pointer=pointer,
        hint=hint,
    )
