"""The schema of arguments that are written with bare names, as far as a grammar can enforce it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from guided.errors import InvalidConstraintError, UnsupportedFeatureError
from guided.spec.closed_objects import has_parts_with_ids
from guided.spec.declared_types import DeclaredTypes
from guided.spec.discriminators import Discriminators
from guided.spec.exact_json import read_exact, write_exact
from guided.spec.references import at_pointer, pointer_of
from guided.spec.schema_shape import check_shape, old_draft

__all__ = ["INDIRECT", "RESTRICTING", "TYPE", "LiteralSchema", "unsupported"]

INDIRECT: Final = ("$ref", "enum", "const", "anyOf", "oneOf", "allOf")
"""Keywords that define values through other schemas or lists."""
_DIRECT: Final = frozenset(
    {"additionalProperties", "items", "maxItems", "minItems", "properties", "required"}
)
_ENFORCED: Final[Mapping[str | None, frozenset[str]]] = {
    None: _DIRECT,
    "enum": frozenset({"enum"}),
    "const": frozenset({"const"}),
    **{name: frozenset({name, "required"}) for name in ("anyOf", "oneOf", "allOf")},
}
"""For each keyword that defines which objects and arrays are valid (``None``: for none of these),
the keywords about objects and arrays that the grammar enforces next to it."""
_NEVER_ENFORCED: Final = frozenset(
    {
        *("$dynamicRef", "$recursiveRef", "additionalItems", "contains", "dependencies"),
        *("dependentRequired", "dependentSchemas", "disallow", "else", "extends", "if"),
        *("maxProperties", "minProperties", "not", "patternProperties", "prefixItems"),
        *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties", "uniqueItems"),
    }
)
"""Keywords that the grammar never enforces."""
_CONTAINER_KEYWORDS: Final = _DIRECT | _NEVER_ENFORCED | {*INDIRECT}
_NO_EFFECT: Final[dict[str, object]] = {
    "additionalProperties": True,
    "items": True,
    "minItems": 0,
    "minProperties": 0,
    "not": False,
    "properties": {},
    "required": [],
    "uniqueItems": False,
}
"""Values with which some keywords have no effect."""
RESTRICTING: Final = _CONTAINER_KEYWORDS | {
    *("exclusiveMaximum", "exclusiveMinimum", "format", "maximum", "maxLength", "minimum"),
    *("minLength", "multipleOf", "pattern", "type"),
}
"""All keywords that restrict values."""
TYPE: Final = frozenset({"type"})
_BESIDE_CONTAINERS: Final = (RESTRICTING - _CONTAINER_KEYWORDS) | {"required"}
"""Keywords that say nothing about objects and arrays, and ``required``, which is collected."""


class LiteralSchema:
    """Gives access to a schema by JSON pointers; raises an error for what cannot be enforced."""

    def __init__(self, text: str) -> None:
        self.root = read_exact(text)
        if has_parts_with_ids(self.root):
            raise unsupported("a part with an $id of its own is not looked into", "")
        self._draft = old_draft(self.root)
        self._types = DeclaredTypes(self.root)
        self._discriminators = Discriminators(self.root)

    def schema_at(self, pointer: str) -> Any:
        """Return the schema at a pointer, an object or ``False``; ``True`` becomes an empty object.

        Raises InvalidConstraintError for anything else, and UnsupportedFeatureError for keywords
        that old drafts ignore.
        """
        found = at_pointer(self.root, pointer)
        if isinstance(found, bool):
            return {} if found else False
        if not isinstance(found, dict):
            raise InvalidConstraintError(f"{write_exact(found):.80} is no schema", pointer=pointer)
        check_shape(found, pointer)
        if "$ref" in found and found.keys() & RESTRICTING != {"$ref"} and self._draft:
            raise unsupported("what stands beside $ref says nothing in this draft", pointer)
        if "const" in found and self._draft in (3, 4):
            raise unsupported("const says nothing in this draft", pointer)
        return found

    def types_at(self, pointer: str) -> frozenset[str]:
        """Return the types that values at a pointer may have."""
        types = self._types.of(pointer)
        if self._types.circular:
            pointer = min(self._types.circular)
            raise unsupported("a schema that stands for itself is not held to", pointer)
        return types

    def resolve(self, pointer: str) -> str:
        """Return the pointer reached through references and single parts of ``allOf``."""
        return self._follow(pointer, frozenset())[0]

    def resolve_container(self, pointer: str) -> tuple[str, frozenset[str]]:
        """Return the pointer of the schema that defines the objects and arrays at a pointer.

        The walk stops at the first schema with any other keyword that restricts them, where
        ``check_keywords`` refuses what is not enforced. That schema may be ``False``. Also returns
        the names of members that are required on the way to it, beside those that it requires
        itself. What is said of other values on the way is passed over, and so is ``type``, as
        ``types_at`` says which types are left at ``pointer``.
        """
        return self._follow(pointer, _BESIDE_CONTAINERS)

    def _follow(self, pointer: str, beside: frozenset[str]) -> tuple[str, frozenset[str]]:
        """Follow references and single parts of ``allOf`` that have only ``beside`` next to them.

        Returns the pointer reached, and the names of the members required on the way.
        """
        seen, required = set[str](), frozenset[str]()
        while pointer not in seen and (schema := self.schema_at(pointer)) is not False:
            seen.add(pointer)
            others = {key for key in schema.keys() & RESTRICTING if _has_effect(schema, key)}
            others -= beside
            if others == {"$ref"}:
                pointer = self._target(pointer)
            elif others == {"allOf"} and len(schema["allOf"]) == 1:
                pointer = f"{pointer}/allOf/0"
            else:
                break
            required |= {*schema.get("required", ())}
        return pointer, required

    def _target(self, pointer: str) -> str:
        reference = self.schema_at(pointer)["$ref"]
        target = pointer_of(reference)
        if target is None or at_pointer(self.root, target) is None:
            what = f"{reference!r} names no part of the parameters by a JSON pointer"
            raise unsupported(what, f"{pointer}/$ref")
        return target

    def discriminators(
        self, pointer: str, types_at: Mapping[str, frozenset[str]]
    ) -> frozenset[str]:
        """Return the members by which an object fits only one branch of a ``oneOf`` if it has them.

        ``types_at`` are the types of the branches by pointer. The result is one member or none: the
        ``discriminator`` of the schema, if that distinguishes them. Raises UnsupportedFeatureError
        if nothing does.
        """
        objects = [at_pointer(self.root, at) for at, of in types_at.items() if "object" in of]
        num_arrays = sum("array" in of for of in types_at.values())
        distinguishing = self._discriminators.of(objects)
        if num_arrays > 1 or (len(objects) > 1 and not distinguishing):
            raise unsupported(
                "nothing tells the alternatives apart", f"{pointer}/oneOf", hint=_DISCRIMINATE_HINT
            )
        if len(objects) < 2:
            return frozenset()
        named = self.schema_at(pointer).get("discriminator")
        named = named.get("propertyName") if isinstance(named, dict) else None
        name = max(distinguishing, key=lambda each: (each == named, distinguishing[each]))
        return frozenset() if distinguishing[name] else frozenset({name})

    def check_keywords(self, pointer: str, name: str | None = None) -> None:
        """Check that all keywords about objects and arrays are enforced.

        ``name`` is the one among them that defines which objects and arrays are valid. Raises
        UnsupportedFeatureError for a keyword that is not enforced next to it.
        """
        schema, beside = self.schema_at(pointer), "" if name is None else f" beside {name!r}"
        for other in sorted((schema.keys() & _CONTAINER_KEYWORDS) - _ENFORCED[name]):
            if _has_effect(schema, other):
                what = f"the keyword {other!r} is not held to{beside}"
                raise unsupported(what, f"{pointer}/{other}")


def _has_effect(schema: Mapping[str, Any], keyword: str) -> bool:
    return keyword not in _NO_EFFECT or bool(schema[keyword] != _NO_EFFECT[keyword])


_LEAVE_OUT_HINT: Final = "leave it out of the parameters, or say which members and items there are"
_DISCRIMINATE_HINT: Final = "write anyOf, or give each of them a member with a value of its own"


def unsupported(what: str, pointer: str, hint: str = _LEAVE_OUT_HINT) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"{what} where the model writes arguments without the quotes of JSON",
        pointer=pointer,
        hint=hint,
    )
