"""The recogniser of random schemas, compared with jsonschema."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from guided.errors import UnsatisfiableError, UnsupportedFeatureError
from guided.json_schema.machine.json_machine import JsonMachine
from guided.machine.recognizer import State
from tests.kit.schemas import accepts, compact, machine_of, schemas

_STRUCTURE = b'",:{}[]-0123456789ab.\\'
_settings = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])


def _machine(schema: Any) -> JsonMachine:
    try:
        return machine_of(schema)
    except (UnsatisfiableError, UnsupportedFeatureError):
        assume(False)
        raise


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), f"a key stands twice: {pairs}"
    return dict(pairs)


def _choose(rng: random.Random, allowed: list[int]) -> int:
    structural = [byte for byte in allowed if byte in _STRUCTURE]
    return rng.choice(structural if structural and rng.random() < 0.8 else allowed)


@_settings
@given(schemas(), st.integers(0, 2**32), st.integers(1, 60))
def test_every_walk_can_end_and_what_it_wrote_is_valid(schema: Any, seed: int, steps: int) -> None:
    """Sound and alive: no byte leads to a dead end, and the shortest end makes a valid document."""
    machine = _machine(schema)
    rng = random.Random(seed)
    state, text = machine.start, bytearray()
    for _ in range(steps):
        allowed = [byte for byte in range(256) if machine.step(state, byte) is not None]
        only = machine.only_byte(state)
        assert only is None or allowed == [only]
        assert machine.table.is_end(state.row) == (not allowed)
        if not allowed:
            break
        byte = _choose(rng, allowed)
        text.append(byte)
        reached = machine.step(state, byte)
        assert reached is not None
        state = reached
        assert len(machine.shortest_completion(state)) <= machine.bytes_left(state)
    text += machine.shortest_completion(state)
    document = json.loads(text, object_pairs_hook=_without_duplicates)
    jsonschema.validate(document, schema)
    assert accepts(machine, bytes(text))
    machine.check()


_DOCUMENTS = st.recursive(
    st.sampled_from([None, True, False, 0, 1, -1, 12, -1.5, 0.5, "", "a", "ab", "abc", "é", "red"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "ab", "abc", "b", "é", "z", ""]), inner, max_size=3)
    ),
    max_leaves=6,
)


def _ordered(value: Any, schema: Any) -> Any:
    """The document with members in the order of the schema, others last."""
    if isinstance(schema, dict) and "anyOf" in schema:
        schema = schema["anyOf"][0]
    if isinstance(schema, dict) and isinstance(schema.get("const"), dict):
        names = list(schema["const"])
        if isinstance(value, dict) and set(value) == set(names):
            return {name: value[name] for name in names}
    if isinstance(value, dict):
        named = schema.get("properties", {}) if isinstance(schema, dict) else {}
        extra = schema.get("additionalProperties", True) if isinstance(schema, dict) else True
        names = [name for name in named if name in value]
        names += [name for name in value if name not in named]
        return {name: _ordered(value[name], named.get(name, extra)) for name in names}
    if isinstance(value, list):
        prefix = schema.get("prefixItems", []) if isinstance(schema, dict) else []
        rest = schema.get("items", True) if isinstance(schema, dict) else True
        places = [*prefix, *[rest] * len(value)]
        return [_ordered(item, place) for item, place in zip(value, places, strict=False)]
    return value


@_settings
@given(schemas(), st.lists(_DOCUMENTS, min_size=20, max_size=20))
def test_a_document_is_accepted_exactly_when_it_is_valid(schema: Any, documents: list[Any]) -> None:
    """Sound and complete, in the order of the schema and in canonical spelling."""
    machine = _machine(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for document in documents:
        text = compact(_ordered(document, schema))
        assert accepts(machine, text) == validator.is_valid(document), text


def _walk(machine: JsonMachine, text: bytes) -> State | None:
    return machine.advance(machine.start, text)


@pytest.mark.parametrize("keys", [["a", "b", "a"], ["", ""], ["é", "é"], ["x", "xy", "x"]])
def test_a_free_key_is_never_written_twice(keys: list[str]) -> None:
    """The closing quote of a key that is taken is not allowed; every one before it is."""
    machine = machine_of({"additionalProperties": {"type": "integer"}, "type": "object"})
    members = [compact(key) + b":1" for key in keys]
    assert _walk(machine, b"{" + b",".join(members[:-1])) is not None
    closing = b"{" + b",".join(members[:-1]) + b"," + compact(keys[-1])
    assert _walk(machine, closing[:-1]) is not None
    assert _walk(machine, closing) is None
