"""The keywords of one schema object → the shape of the values that they allow."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from guided.automata.regular import Regular
from guided.errors import LimitExceededError, UnsupportedFeatureError
from guided.frontends.json_schema.formats import (
    ANNOTATED_FORMATS,
    NARROWED_FORMATS,
    format_regular,
    known_formats,
)
from guided.frontends.json_schema.forms import is_number
from guided.frontends.json_schema.keywords import TYPES, Enforcement
from guided.frontends.json_schema.reader import Json, child
from guided.frontends.regex import parse_regex
from guided.grammar.json_grammar import (
    ArrayShape,
    Bound,
    NumberShape,
    ObjectShape,
    Property,
    StringShape,
    ValueShape,
)

__all__ = ["MAX_OWED_MEMBERS", "ValueReader"]

MAX_OWED_MEMBERS = 300
"""Members that an object may owe beyond its named ones: each needs a name of its own."""


class ValueReader:
    """Reads the assertions of one schema object; those for types it excludes hold for free."""

    def __init__(
        self,
        schema: dict[str, Json],
        pointer: str,
        locate: Callable[[str, Json], int],
        remark: Callable[[str], None],
        narrow: Callable[[str, Enforcement, str], None],
    ) -> None:
        self.schema = schema
        self.pointer = pointer
        self.locate = locate
        """Numbers the location of a subschema."""
        self.remark = remark
        """Tells why the shape is emptier than it looks."""
        self.narrow = narrow
        """Refines the verdict on a keyword."""

    def shape(self) -> ValueShape:
        """The values that all assertions together allow."""
        types = self._types()
        if "enum" in self.schema or "const" in self.schema:
            return self._listed(types)
        numeric = {"number", "integer"} & set(types)
        return ValueShape(
            null="null" in types,
            booleans=frozenset((False, True)) if "boolean" in types else frozenset(),
            numbers=self._numbers(integer="number" not in types) if numeric else (),
            strings=self._strings() if "string" in types else (),
            object=self._object() if "object" in types else None,
            array=self._array() if "array" in types else None,
        )

    def _types(self) -> tuple[str, ...]:
        value = self.schema.get("type", list(TYPES))
        return tuple(value) if isinstance(value, list) else (value,)

    # --- enum and const -------------------------------------------------------------------

    def _listed(self, types: tuple[str, ...]) -> ValueShape:
        """Scalars are chosen by value; a listed object or array becomes a shape of its own."""
        values = self.schema["enum"] if "enum" in self.schema else [self.schema["const"]]
        if "enum" in self.schema and "const" in self.schema:
            values = [value for value in values if _equal(value, self.schema["const"])]
        values = [value for value in values if _has_type(value, types)]
        if not values:
            self.remark("no listed value is of an allowed type")
        numbers = tuple(Decimal(v) for v in values if is_number(v))
        strings = tuple(v for v in values if isinstance(v, str))
        containers = [v for v in values if isinstance(v, dict | list)]
        if len(containers) > 1:
            raise UnsupportedFeatureError(
                "more than one listed value is an object or an array",
                pointer=child(self.pointer, "enum"),
            )
        reader = self
        if containers:
            if set(self.schema) & _CONTAINER_KEYWORDS:
                keyword = min(set(self.schema) & _CONTAINER_KEYWORDS)
                raise UnsupportedFeatureError(
                    f"{keyword!r} stands beside a listed object or array",
                    pointer=child(self.pointer, keyword),
                )
            spelled = _container_schema(containers[0])
            keyword = "enum" if "enum" in self.schema else "const"
            at = child(self.pointer, keyword)
            reader = ValueReader(spelled, at, self.locate, self.remark, self.narrow)
        return ValueShape(
            null=any(value is None for value in values),
            booleans=frozenset(value for value in values if isinstance(value, bool)),
            numbers=self._numbers(integer="number" not in types, choices=numbers)
            if numbers
            else (),
            strings=self._strings(choices=strings) if strings else (),
            object=reader._object() if containers and isinstance(containers[0], dict) else None,
            array=reader._array() if containers and isinstance(containers[0], list) else None,
        )

    # --- numbers --------------------------------------------------------------------------

    def _numbers(
        self, *, integer: bool = False, choices: tuple[Decimal, ...] | None = None
    ) -> tuple[NumberShape, ...]:
        low = self._bound("minimum", "exclusiveMinimum", max)
        high = self._bound("maximum", "exclusiveMaximum", min)
        divisor = self._divisor(integer)
        if choices is not None:
            kept = tuple(
                value
                for value in choices
                if (low is None or value > low.value or (value == low.value and not low.strict))
                and (
                    high is None or value < high.value or (value == high.value and not high.strict)
                )
                and (divisor is None or (value == int(value) and int(value) % divisor == 0))
            )
            return (NumberShape(choices=kept),) if kept else ()
        if low is not None and high is not None and low.value > high.value:
            self.remark(f"the least number ({low.value}) is above the greatest ({high.value})")
            return ()
        return (NumberShape(integer, low, high, divisor),)

    def _bound(
        self, keyword: str, strict_keyword: str, tighter: Callable[[Decimal, Decimal], Decimal]
    ) -> Bound | None:
        """The tighter of an inclusive and an exclusive bound; at equal values, the exclusive."""
        bounds = []
        for name, strict in ((strict_keyword, True), (keyword, False)):
            if name in self.schema:
                value = self.schema[name]
                bounds.append(Bound(Decimal(value), strict))
        if len(bounds) < 2:
            return bounds[0] if bounds else None
        exclusive, inclusive = bounds
        if exclusive.value == inclusive.value:
            return exclusive
        value = tighter(exclusive.value, inclusive.value)
        return exclusive if exclusive.value == value else inclusive

    def _divisor(self, integer: bool) -> int | None:
        value = self.schema.get("multipleOf")
        if value is None:
            return None
        at = child(self.pointer, "multipleOf")
        if value != int(value) or not integer:
            raise UnsupportedFeatureError(
                "multipleOf is enforced for whole numbers of type integer only",
                pointer=at,
                hint='say "type": "integer" and a whole divisor',
            )
        return int(value)

    # --- strings --------------------------------------------------------------------------

    def _strings(self, choices: tuple[str, ...] | None = None) -> tuple[StringShape, ...]:
        low = self._count("minLength") or 0
        high = self._count("maxLength")
        if high is not None and low > high:
            self.remark(f"minLength ({low}) is greater than maxLength ({high})")
            return ()
        patterns: list[Regular] = []
        if "pattern" in self.schema:
            at = child(self.pointer, "pattern")
            patterns.append(parse_regex(self.schema["pattern"], pointer=at))
        if "format" in self.schema:
            patterns += self._format(self.schema["format"])
        return (StringShape(tuple(patterns), low, high, choices),)

    def _format(self, name: str) -> list[Regular]:
        at = child(self.pointer, "format")
        regular = format_regular(name)
        if regular is not None:
            if name in NARROWED_FORMATS:
                self.narrow(at, Enforcement.NARROWED, NARROWED_FORMATS[name])
            return [regular]
        if name in ANNOTATED_FORMATS:
            self.narrow(at, Enforcement.ANNOTATION, "a note without a rule for the text")
            return []
        raise UnsupportedFeatureError(
            f"the format {name!r} cannot be enforced yet",
            pointer=at,
            hint="known are " + ", ".join(known_formats()) + "; or write a pattern",
        )

    # --- objects --------------------------------------------------------------------------

    def _object(self) -> ObjectShape | None:
        named: dict[str, Json] = self.schema.get("properties", {})
        required = dict.fromkeys(self.schema.get("required", []))
        extra = self._extra()
        properties = [
            Property(
                name,
                self.locate(child(self.pointer, "properties", name), schema),
                name in required,
            )
            for name, schema in named.items()
        ]
        for name in required:
            if name not in named:
                if extra is None:
                    self.remark(f"the required member {name!r} is not allowed")
                    return None
                properties.append(Property(name, extra, required=True))
        return self._counted(tuple(properties), extra)

    def _extra(self) -> int | None:
        schema = self.schema.get("additionalProperties", True)
        if schema is False:
            return None
        return self.locate(child(self.pointer, "additionalProperties"), schema)

    def _counted(self, properties: tuple[Property, ...], extra: int | None) -> ObjectShape | None:
        """Bounds on the number of members are kept for objects without named ones."""
        low = self._count("minProperties") or 0
        high = self._count("maxProperties")
        if high is not None and low > high:
            self.remark(f"minProperties ({low}) is greater than maxProperties ({high})")
            return None
        required = sum(named.required for named in properties)
        if low > MAX_OWED_MEMBERS:
            raise LimitExceededError(
                f"minProperties ({low}) is above {MAX_OWED_MEMBERS}",
                limit=MAX_OWED_MEMBERS,
                pointer=child(self.pointer, "minProperties"),
            )
        if not properties:
            if extra is None and low > 0:
                self.remark(f"minProperties ({low}) asks for members, and none is allowed")
                return None
            return ObjectShape((), extra, low, high)
        if low <= required and (high is None or (extra is None and high >= len(properties))):
            return ObjectShape(properties, extra)
        keyword = "maxProperties" if low <= required else "minProperties"
        raise UnsupportedFeatureError(
            f"{keyword!r} stands beside named properties",
            pointer=child(self.pointer, keyword),
            hint="say with 'required' and 'additionalProperties' which members there are",
        )

    # --- arrays ---------------------------------------------------------------------------

    def _array(self) -> ArrayShape | None:
        low = self._count("minItems") or 0
        high = self._count("maxItems")
        if high is not None and low > high:
            self.remark(f"minItems ({low}) is greater than maxItems ({high})")
            return None
        prefix: tuple[int, ...] = ()
        if "prefixItems" in self.schema:
            prefix = tuple(
                self.locate(child(self.pointer, "prefixItems", index), schema)
                for index, schema in enumerate(self.schema["prefixItems"])
            )
        items = self.schema.get("items", True)
        at = child(self.pointer, "items")
        if isinstance(items, list):
            raise UnsupportedFeatureError(
                "items is a list", pointer=at, hint="write 'prefixItems' instead"
            )
        rest = None if items is False else self.locate(at, items)
        return ArrayShape(prefix, rest, low, high)

    def _count(self, keyword: str) -> int | None:
        return int(self.schema[keyword]) if keyword in self.schema else None


_CONTAINER_KEYWORDS = frozenset(
    {
        "properties",
        "required",
        "additionalProperties",
        "minProperties",
        "maxProperties",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
    }
)


def _equal(left: Json, right: Json) -> bool:
    """Equality of JSON values: numbers by value, and no boolean is a number."""
    if is_number(left) and is_number(right):
        return bool(left == right)
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_equal(left[k], right[k]) for k in left)
    return bool(left == right)


def _has_type(value: Json, types: tuple[str, ...]) -> bool:
    if value is None:
        return "null" in types
    if isinstance(value, bool):
        return "boolean" in types
    if is_number(value):
        return "number" in types or ("integer" in types and value == int(value))
    if isinstance(value, str):
        return "string" in types
    return ("array" if isinstance(value, list) else "object") in types


def _container_schema(value: Json) -> dict[str, Json]:
    """A schema that only this object or array satisfies, members in its own order."""
    if isinstance(value, dict):
        return {
            "properties": {name: {"const": item} for name, item in value.items()},
            "required": list(value),
            "additionalProperties": False,
        }
    return {
        "prefixItems": [{"const": item} for item in value],
        "items": False,
        "minItems": len(value),
        "maxItems": len(value),
    }
