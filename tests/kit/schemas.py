"""Schemas for tests, and hypothesis strategies that make them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from guided.json_schema.machine.json_machine import JsonMachine
from guided.json_schema.reader import lower_json_schema
from guided.spec import JsonOptions, JsonSchema

__all__ = ["accepts", "compact", "machine_of", "schemas"]

Schema = dict[str, Any]


def compact(value: object) -> bytes:
    """The canonical JSON of a value, as answers are spelled."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def machine_of(
    schema: Schema, options: JsonOptions | None = None, missing: frozenset[int] = frozenset()
) -> JsonMachine:
    """The recogniser of a schema."""
    constraint = JsonSchema(json.dumps(schema), options or JsonOptions())
    return JsonMachine(lower_json_schema(constraint).grammar, constraint.options, missing)


def accepts(machine: JsonMachine, text: bytes) -> bool:
    """Whether the recogniser accepts the whole text as a document."""
    state = machine.advance(machine.start, text)
    return state is not None and machine.is_accepting(state)


_NAMES = st.sampled_from(["a", "ab", "abc", "b", "name", "é", 'q"q', ""])
_SMALL = st.integers(-12, 12)


def _bounded(draw: st.DrawFn, low: str, high: str, values: st.SearchStrategy[int]) -> Schema:
    bounds = sorted([draw(values), draw(values)])
    chosen = {}
    if draw(st.booleans()):
        chosen[low] = bounds[0]
    if draw(st.booleans()):
        chosen[high] = bounds[1]
    return chosen


@st.composite
def _scalars(draw: st.DrawFn) -> Schema:
    kind = draw(st.sampled_from(["integer", "number", "string", "pattern", "enum", "const"]))
    match kind:
        case "integer":
            multiple = {"multipleOf": draw(st.sampled_from([1, 2, 3, 7]))}
            return {
                "type": "integer",
                **_bounded(draw, "minimum", "maximum", _SMALL),
                **(multiple if draw(st.booleans()) else {}),
            }
        case "number":
            return {"type": "number", **_bounded(draw, "exclusiveMinimum", "maximum", _SMALL)}
        case "string":
            lengths = _bounded(draw, "minLength", "maxLength", st.integers(0, 4))
            return {"type": "string", **lengths}
        case "pattern":
            patterns = ["^[ab]+$", "a", "^(ab|c){1,2}$", "^a?b?$", "x|^y"]
            return {"type": "string", "pattern": draw(st.sampled_from(patterns))}
        case "enum":
            values = ["a", "abc", "red", None, True, 0, 12, -1.5]
            return {"enum": draw(st.lists(st.sampled_from(values), min_size=1, unique_by=repr))}
        case _:
            return {"const": draw(st.sampled_from(["é", 1, None, [1, "a"], {"b": 1, "a": []}]))}


def _optional_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


@st.composite
def _objects(draw: st.DrawFn, values: st.SearchStrategy[Schema]) -> Schema:
    properties = draw(st.dictionaries(_NAMES, values, max_size=4))
    required = [name for name in properties if draw(st.booleans())]
    extra = draw(st.sampled_from([False, False, True, {"type": "integer"}]))
    schema: Schema = {"type": "object", "additionalProperties": extra}
    if properties:
        schema |= {"properties": properties, "required": required}
    elif extra is not False:
        schema |= _bounded(draw, "minProperties", "maxProperties", st.integers(0, 3))
    return schema


@st.composite
def _arrays(draw: st.DrawFn, values: st.SearchStrategy[Schema]) -> Schema:
    bounds = _bounded(draw, "minItems", "maxItems", st.integers(0, 3))
    schema: Schema = {"type": "array", "items": draw(values), **bounds}
    if draw(st.booleans()):
        schema["prefixItems"] = draw(st.lists(values, min_size=1, max_size=2))
    return schema


def schemas() -> st.SearchStrategy[Schema]:
    """Schemas that nest all that the compiler supports; some of them have no document."""
    return st.recursive(
        _scalars(),
        lambda inner: st.one_of(_objects(inner), _arrays(inner), inner.map(_optional_null)),
        max_leaves=6,
    )
