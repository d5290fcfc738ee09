"""Schemas built around a document that fits them, so that finding one takes a search.

They have arrays of distinct items from overlapping lists, alternatives that exclude each other, and
members that are counted: a search has to take choices back for these.
"""

from __future__ import annotations

import json
import random
from typing import Any, Final, TypeAlias

from tests.kit.hard_schemas import hard_document, hard_schema
from tests.kit.oracles import JUDGES, Validator

__all__ = ["schema_around", "some_document"]

Schema: TypeAlias = Any

_DEPTH: Final = 3
_NAMES: Final = ("a", "b", "ab", "c", "d")


def some_document(rng: random.Random) -> Any:
    """A document, most often with an array of distinct items somewhere."""
    chance = rng.random()
    if chance < 0.4:
        return _different(rng)
    if chance < 0.7:
        names = rng.sample(_NAMES, rng.choice([1, 2, 3, 4]))
        return {name: some_document(rng) for name in names[:2]} | {
            name: hard_document(rng, 2) for name in names[2:]
        }
    return hard_document(rng)


def _different(rng: random.Random) -> list[Any]:
    count = rng.choice([2, 3, 4, 5, 6, 8, 10])
    pools: list[list[Any]] = [
        list(range(count + rng.choice([0, 1, 3]))),
        [None, True, False, 0, 1, "a", "b", "", 0.5, [], {}, [1], {"a": 1}],
        [{"a": x, "b": y} for x in range(4) for y in range(3)],
    ]
    pool = rng.choice([pools[0], pools[0], pools[1], pools[2]])
    return rng.sample(pool, min(count, len(pool)))


def schema_around(rng: random.Random, document: Any, depth: int = 0) -> Schema:
    """A schema that the document most likely fits; the caller has it judged."""
    schema = _plain(rng, document, depth)
    if depth < _DEPTH:
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            schema = _joined(rng, schema, document, depth + 1)
    return schema


def _plain(rng: random.Random, document: Any, depth: int) -> Schema:
    if rng.random() < 0.15 or depth > _DEPTH:
        return rng.choice([{"const": document}, {"enum": _hidden(rng, document)}])
    if isinstance(document, list):
        return _array(rng, document, depth + 1)
    if isinstance(document, dict):
        return _object(rng, document, depth + 1)
    return _scalar(rng, document)


def _hidden(rng: random.Random, value: Any) -> list[Any]:
    """A list of the value among others."""
    others = [hard_document(rng, 3) for _ in range(rng.choice([0, 1, 2, 3]))]
    values = [other for other in others if _key(other) != _key(value)] + [value]
    rng.shuffle(values)
    return values


def _array(rng: random.Random, document: list[Any], depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array"}
    count = len(document)
    different = len({_key(item) for item in document}) == count
    if different and rng.random() < 0.8:
        schema["uniqueItems"] = True
    if rng.random() < 0.8:
        schema["minItems"] = count
    style = rng.random()
    if style < 0.6 and document:
        # Items by position, each among the values of other positions.
        schema["prefixItems"] = [_listed(rng, item, document, depth) for item in document]
        schema["items"] = rng.choice([False, True, {"type": "null"}])
    elif style < 0.8 and document:
        schema["items"] = {"enum": _distinct([*document, *_decoys(rng, document)])}
        schema["maxItems"] = count + rng.choice([0, 0, 1])
    for _ in range(rng.choice([0, 0, 1, 2, 3])):
        if document:
            wanted = _distinct(rng.sample(document, rng.randrange(1, count + 1)))
            found = sum(_key(item) in {_key(each) for each in wanted} for item in document)
            contains: dict[str, Any] = {"contains": {"enum": wanted}}
            if rng.random() < 0.6:
                contains["minContains"] = rng.choice([found, max(found - 1, 0)])
            if rng.random() < 0.4:
                contains["maxContains"] = found
            schema.setdefault("allOf", []).append(contains)
    return schema


def _listed(rng: random.Random, item: Any, document: list[Any], depth: int) -> Schema:
    if rng.random() < 0.2:
        return schema_around(rng, item, depth)
    others = rng.sample(document, min(len(document), rng.choice([0, 1, 1, 2, 3])))
    values = _distinct([item, *others])
    rng.shuffle(values)
    return {"enum": values}


def _decoys(rng: random.Random, document: list[Any]) -> list[Any]:
    return [hard_document(rng, 3) for _ in range(rng.choice([0, 0, 1, 2]))] if document else []


def _object(rng: random.Random, document: dict[str, Any], depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    names = [name for name in document if rng.random() < 0.8]
    if names:
        schema["properties"] = {n: schema_around(rng, document[n], depth) for n in names}
    if rng.random() < 0.7 and document:
        schema["required"] = rng.sample([*document], rng.randrange(1, len(document) + 1))
    if rng.random() < 0.4:
        schema["minProperties"] = len(document)
    if rng.random() < 0.4:
        schema["maxProperties"] = len(document) + rng.choice([0, 0, 1])
    if rng.random() < 0.3:
        schema["additionalProperties"] = len(names) < len(document) and {
            "enum": _distinct([*[document[n] for n in document if n not in names], 7])
        }
    if rng.random() < 0.2 and document:
        schema["propertyNames"] = {"enum": _distinct([*document, "z"])}
    if rng.random() < 0.2 and document:
        schema["dependentRequired"] = {rng.choice(_NAMES): [rng.choice([*document])]}
    return schema


def _scalar(rng: random.Random, document: Any) -> Schema:
    choices: list[Schema] = [{"const": document}, {"enum": _hidden(rng, document)}, {}]
    if isinstance(document, str):
        choices += [{"minLength": len(document), "maxLength": len(document)}, {"type": "string"}]
        choices += [{"pattern": "^[ab]*$"}, {"type": ["string", "null"], "maxLength": 3}]
    elif isinstance(document, int | float) and not isinstance(document, bool):
        low, high = document - rng.choice([0, 0, 1]), document + rng.choice([0, 0, 1])
        choices += [{"minimum": low, "maximum": high}, {"type": "number", "minimum": low}]
        choices += [{"multipleOf": 0.5, "maximum": high}, {"type": "integer", "maximum": high}]
    chosen: Schema = rng.choice(choices)
    return chosen


def _joined(rng: random.Random, schema: Schema, document: Any, depth: int) -> Schema:
    """The schema joined with others so that the document keeps fitting."""
    other = hard_schema(rng) if rng.random() < 0.5 else schema_around(rng, document, depth)
    if isinstance(other, dict):
        other = {name: said for name, said in other.items() if name != "$defs"}
    if "$ref" in json.dumps(other):
        other = {"type": rng.choice(["array", "object", "number", "string"])}
    fits = _fits(other, document)
    more = schema_around(rng, document, depth) if rng.random() < 0.5 else True
    joined: list[Schema] = [
        {"anyOf": [other, schema]},
        {"oneOf": [schema, {"not": schema}, False]},
        {"oneOf": [schema, {"allOf": [other, {"not": schema}]}]},
        {"if": other, "then" if fits else "else": more, "allOf": [schema]},
        {"allOf": [schema, other if fits else {"not": other}]},
        {"allOf": [schema, {"oneOf": [other, {"not": other}]}]},
        {"allOf": [schema, {"not": {"allOf": [more, {"not": schema}]}}]},
    ]
    if not fits:
        joined.append({"oneOf": [schema, other]})
    chosen: Schema = rng.choice(joined)
    return chosen


def _fits(schema: Schema, document: Any) -> bool:
    judge = JUDGES[Validator.JSONSCHEMA_RS](json.dumps(schema))
    return bool(judge(json.dumps(document)))


def _distinct(values: list[Any]) -> list[Any]:
    return list({_key(value): value for value in values}.values())


def _key(value: Any) -> str:
    """A key that is equal for equal values."""
    whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if whole else value, sort_keys=True)
