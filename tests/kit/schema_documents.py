"""Documents drawn at random from a JSON Schema, as text.

For schemas that the SDK emits: unions, references, strings with patterns, numbers with bounds. An
independent validator checks every document before it is returned.
"""

from __future__ import annotations

import json
import math
import random
from decimal import Decimal
from functools import cache
from typing import Any

import jsonschema_rs
import numpy as np

from guided.regular.dfa import DEAD, Dfa, combine, dfa_from_regular, length_dfa
from guided.regular.patterns import parse_regex

__all__ = ["NothingDrawnError", "draw_document"]

_ATTEMPTS = 30
_DEEPEST = 6


class NothingDrawnError(Exception):
    """No document was found; there may be none."""


def draw_document(schema: dict[str, Any], seed: int) -> str:
    """A document that fits the schema."""
    draw = _Draw(schema, random.Random(seed))
    validator = _validator(json.dumps(schema))
    for _ in range(_ATTEMPTS):
        try:
            text = draw.value(schema, 0)
        except NothingDrawnError:
            continue
        if validator.is_valid(json.loads(text)):
            return text
    raise NothingDrawnError(f"no document fits {json.dumps(schema)}")


@cache
def _validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(json.loads(schema), validate_formats=True)


class _Draw:
    def __init__(self, root: dict[str, Any], chance: random.Random) -> None:
        self.root = root
        self.chance = chance

    def value(self, schema: Any, depth: int) -> str:
        if schema is True or schema == {}:
            schema = {"type": self.chance.choice(["null", "boolean", "integer", "string"])}
        if schema is False or depth > 40:
            raise NothingDrawnError
        schema = self._resolved(schema, depth)
        if "enum" in schema:
            return json.dumps(self.chance.choice(schema["enum"]))
        if "const" in schema:
            return json.dumps(schema["const"])
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self.chance.choice(kind)
        match kind:
            case "null":
                return "null"
            case "boolean":
                return self.chance.choice(["true", "false"])
            case "integer" | "number":
                return self._number(schema, kind)
            case "string" | None:
                return json.dumps(self._string(schema), ensure_ascii=False)
            case "array":
                return self._array(schema, depth)
            case _:
                return self._object(schema, depth)

    def _resolved(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        """The schema with one choice of every union, and with references resolved."""
        while True:
            joint = next((key for key in ("$ref", "anyOf", "oneOf") if key in schema), None)
            if joint is None:
                return schema
            rest = {key: value for key, value in schema.items() if key != joint}
            if joint == "$ref":
                chosen = self._lookup(schema["$ref"])
            else:
                chosen = schema[joint][0 if depth > _DEEPEST else self._index(schema[joint])]
                if depth > _DEEPEST:
                    chosen = min(schema[joint], key=_size)
            schema = _merged(rest, chosen)

    def _lookup(self, reference: str) -> dict[str, Any]:
        node: Any = self.root
        for part in reference.removeprefix("#").split("/")[1:]:
            node = node[part.replace("~1", "/").replace("~0", "~")]
        found: dict[str, Any] = node
        return found

    def _index(self, choices: list[Any]) -> int:
        return self.chance.randrange(len(choices))

    def _number(self, schema: dict[str, Any], kind: str) -> str:
        step = Decimal(str(schema.get("multipleOf", 1)))
        low, high = (_exact(schema.get(key)) for key in ("minimum", "maximum"))
        ends = [end for end in (low, high) if end is not None]
        if kind == "number" and "multipleOf" not in schema:
            step = Decimal(10) ** -self.chance.choice([0, 1, 3, 6, 17, 40])
        if ends and self.chance.random() < 0.3:
            base = self.chance.choice(ends)
        else:
            size = self.chance.choice([1, 10, 10**6, 10**14, 10**30])
            low = -Decimal(size) if low is None else low
            high = low + 2 * size if high is None else high
            base = low + (high - low) * Decimal(self.chance.random())
        base += step * self.chance.choice([0, 0, 1, -1])
        count = (base / step).to_integral_value() if base.is_finite() else Decimal(0)
        value = count * step
        if kind == "integer":
            value = value.to_integral_value()
        text = f"{value:f}"
        return "0" if not value else text

    def _string(self, schema: dict[str, Any]) -> str:
        patterns = [schema["pattern"]] if "pattern" in schema else []
        patterns += [part["pattern"] for part in schema.get("allOf", []) if "pattern" in part]
        bounds = (schema.get("minLength", 0), schema.get("maxLength"))
        return _sample(_automaton(tuple(patterns), bounds), self.chance)

    def _array(self, schema: dict[str, Any], depth: int) -> str:
        prefix = schema.get("prefixItems", [])
        rest = schema.get("items", True)
        least = schema.get("minItems", 0)
        most = schema.get("maxItems", max(least, len(prefix)) + (0 if depth > _DEEPEST else 3))
        items: list[str] = []
        for index in range(self.chance.randint(least, min(most, least + 4))):
            item = self.value(prefix[index] if index < len(prefix) else rest, depth + 1)
            if not schema.get("uniqueItems") or item not in items:
                items.append(item)
        return f"[{','.join(items)}]"

    def _object(self, schema: dict[str, Any], depth: int) -> str:
        members: dict[str, str] = {}
        required = schema.get("required", [])
        for name, value in schema.get("properties", {}).items():
            if name in required or (depth <= _DEEPEST and self.chance.random() < 0.6):
                members[name] = self.value(value, depth + 1)
        extra = schema.get("additionalProperties", True)
        wanted = max(0, schema.get("minProperties", 0) - len(members))
        if extra is not False and schema.get("propertyNames") is not False and depth <= _DEEPEST:
            wanted = max(wanted, min(self.chance.randint(0, 2), schema.get("maxProperties", 9)))
        for _ in range(wanted):
            name = json.loads(self.value({"type": "string", **_names(schema)}, depth + 1))
            if name not in schema.get("properties", {}):
                members[name] = self.value(extra, depth + 1)
        spelled = [f"{json.dumps(name)}:{value}" for name, value in members.items()]
        return "{" + ",".join(spelled) + "}"


def _names(schema: dict[str, Any]) -> dict[str, Any]:
    names: dict[str, Any] = schema.get("propertyNames", {"pattern": "^[a-z_]{0,5}$"})
    return names


def _merged(left: dict[str, Any], right: Any) -> dict[str, Any]:
    if right is True or right is False:
        return left if right else {"enum": []}
    merged = {**left, **right}
    for key in left.keys() & right.keys():
        if key == "required":
            merged[key] = [*left[key], *right[key]]
        elif key in ("minimum", "minLength", "minItems"):
            merged[key] = max(left[key], right[key])
        elif key in ("maximum", "maxLength", "maxItems"):
            merged[key] = min(left[key], right[key])
        elif key == "allOf":
            merged[key] = [*left[key], *right[key]]
    return merged


def _size(choice: Any) -> int:
    return len(json.dumps(choice))


def _exact(value: float | None) -> Decimal | None:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return Decimal(str(value))


@cache
def _automaton(patterns: tuple[str, ...], lengths: tuple[int, int | None]) -> Dfa:
    least, most = lengths
    parts = [dfa_from_regular(parse_regex(pattern), search=True) for pattern in patterns]
    if not patterns or lengths != (0, None):
        parts.append(length_dfa(least, least + 300 if most is None else most))
    return combine(parts, lambda labels: DEAD if DEAD in labels else 0)


def _sample(automaton: Dfa, chance: random.Random) -> str:
    """A text of the automaton; all moves, and an end where one is allowed, are equally likely."""
    if not len(automaton):
        raise NothingDrawnError
    text: list[str] = []
    state = 0
    stop = chance.choice([0.5, 0.1, 0.02])
    while not (automaton.accepting[state] and chance.random() < stop):
        moves = np.flatnonzero(automaton.next[state] != DEAD)
        if not len(moves):
            break
        index = int(chance.choice(list(moves)))
        text.append(_character(automaton, index, chance))
        state = int(automaton.next[state, index])
    return "".join(text)


def _character(automaton: Dfa, index: int, chance: random.Random) -> str:
    ranges = automaton.classes[index].ranges
    low, high = chance.choice(list(ranges)[:3] if chance.random() < 0.7 else list(ranges))
    return chr(chance.randint(low, high))
