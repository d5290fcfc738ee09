"""The shortest end: of whole documents, and after a written beginning."""
# ruff: noqa: E501 (a table has one case a line)

from __future__ import annotations

import itertools
from typing import Any

import pytest
from cachetools import LRUCache

from guided.json_schema.machine import container_completions
from guided.spec import JsonOptions, KeyOrder, Spelling
from tests.unit.json_schema.documents import Schema, accepts, machine_of, reached


def _object(**keywords: Any) -> Schema:
    return {"type": "object", **keywords}


ROWS: list[tuple[Schema, str, str]] = [
    (True, "", "0"),
    ({"type": "string"}, "", '""'),
    ({"type": "string"}, '"ab', '"'),
    ({"type": "string"}, '"\\', '""'),
    ({"type": "string", "minLength": 3}, "", '"aaa"'),
    ({"type": "string", "minLength": 3}, '"xy', 'a"'),
    ({"type": "string", "minLength": 60}, '"' + "x" * 50, "a" * 10 + '"'),
    ({"type": "string", "pattern": "^ab+c$"}, "", '"abc"'),
    ({"type": "string", "pattern": "^ab+c$"}, '"abb', 'c"'),
    # All characters of one byte are banned: the shortest string in bytes would have two.
    ({"type": "string", "maxLength": 1, "not": {"enum": ["", *map(chr, range(32, 128))]}}, "", '"\\b"'),
    # The shortest in bytes has too many characters.
    ({"type": "string", "pattern": "^(aaa|€€)$", "maxLength": 2}, "", '"€€"'),
    ({"type": "string", "pattern": "^(aaa|€€)$", "maxLength": 2}, '"€', '€"'),
    ({"type": "string", "pattern": "^[b-z]*(aaaa|€€)$", "maxLength": 3}, '"b', '€€"'),
    ({"type": "string", "pattern": "^(aaaa|€)$"}, "", '"€"'),
    ({"type": "string", "pattern": "^(aa|😀)$"}, "", '"aa"'),
    # If "ab" is banned, texts that begin with it get too long.
    ({"type": "string", "pattern": "^(ab(ccc)*|x{4})$", "maxLength": 4, "not": {"enum": ["ab"]}}, "", '"xxxx"'),
    ({"type": "null"}, "n", "ull"),
    ({"type": "boolean"}, "", "true"),
    ({"type": "boolean"}, "f", "alse"),
    ({"type": "integer"}, "", "0"),
    ({"type": "integer"}, "-", "1"),
    ({"type": "integer"}, "12", ""),
    ({"type": "integer", "minimum": 100}, "", "100"),
    ({"type": "integer", "minimum": 100}, "9", "00"),
    ({"enum": ["long", "b", "lo"]}, "", '"b"'),
    ({"enum": ["long", "b", "lo"]}, '"lo', '"'),
    ({"enum": ["long", "b", "lo"]}, '"lon', 'g"'),
    ({"type": "array"}, "", "[]"),
    ({"type": "array"}, "[1,", "0]"),
    ({"type": "array", "minItems": 2}, "", "[0,0]"),
    ({"type": "array", "minItems": 2}, "[[", "],0]"),
    ({"type": "array", "contains": {"const": "x"}}, "[1", ',"x"]'),
    ({"type": "array", "contains": {"const": 5}, "minContains": 2}, "[5", ",5]"),
    ({"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True, "minItems": 2}, "", "[1,2]"),
    ({"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True, "minItems": 2}, "[2", ",1]"),
    (_object(), "", "{}"),
    (_object(), '{"a', '":0}'),
    (_object(), '{"a":1', "}"),
    (_object(), '{"a":1,"', '":0}'),
    (_object(), '{"":1,"', 'b":0}'),
    (_object(required=["a"]), "", '{"a":0}'),
    (_object(required=["a", "b"]), '{"a":[', '],"b":0}'),
    (_object(properties={"a": {"type": "string"}}, required=["a"]), '{"a"', ':""}'),
    # The floats next to exclusive bounds, as they come from Python's types.
    (_object(properties={"a": {"type": "number", "minimum": 5e-324, "maximum": 0.9999999999999999}}, required=["a"]), "", '{"a":0.9}'),
    (_object(properties={"a": {"type": "number", "minimum": 0.5000000000000001, "maximum": 2.2}}, required=["a"]), "", '{"a":1}'),
    (_object(properties={"a": {"type": "number", "minimum": -0.0512, "maximum": -0.0388}}, required=["a"]), "", '{"a":-0.05}'),
    (_object(minProperties=1), "", '{"":0}'),
    (_object(minProperties=2), '{"":1', ',"0":0}'),
    (_object(properties={"a": {}, "b": {}}, additionalProperties=False, minProperties=2), "", '{"a":0,"b":0}'),
    (_object(dependentRequired={"a": ["b"]}), '{"a":1', ',"b":0}'),
    (_object(**{"not": {"required": ["a"]}}), "", "{}"),
    (_object(properties={"a": _object(required=["x"])}), '{"a":{', '"x":0}}'),
    ({"anyOf": [{"type": "array", "minItems": 9}, {"const": "ab"}]}, "", '"ab"'),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "", "0.5"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "prefix", "completion"), ROWS, ids=repr)
def test_shortest_completion(schema: Schema, prefix: str, completion: str) -> None:
    machine = machine_of(schema, JsonOptions(key_order="any"))
    found = machine.shortest_completion(reached(machine, prefix)).decode()
    assert len(found) == len(completion), f"{found!r} instead of {completion!r}"
    assert accepts(machine, prefix + found)


def test_a_document_that_is_complete_needs_nothing() -> None:
    machine = machine_of({"type": "array"})
    behind = reached(machine, "[]")
    assert machine.table.is_end(behind.row)
    assert machine.bytes_left(behind) == 0
    assert machine.shortest_completion(behind) == b""
    assert all(machine.step(behind, byte) is None for byte in range(256))


def test_a_number_may_end_or_go_on() -> None:
    machine = machine_of({"type": "integer"})
    behind = reached(machine, "1")
    assert machine.is_accepting(behind)
    assert not machine.table.is_end(behind.row)
    assert machine.bytes_left(behind) == 0


def test_recursion_ends_at_once() -> None:
    tree = {"type": "object", "properties": {"t": {"$ref": "#"}}, "required": ["t"]}
    schema = {"anyOf": [{"type": "null"}, {**tree, "properties": {"t": {"$ref": "#"}}}]}
    machine = machine_of(schema)
    assert machine.shortest_completion(machine.start) == b"null"
    assert machine.shortest_completion(reached(machine, '{"t":{"t":')) == b"null}}"


def test_what_a_long_string_owes_is_not_read_letter_by_letter() -> None:
    size = 5_000
    text = {"type": "string", "minLength": size}
    machine = machine_of({"type": "array", "items": text})
    state = reached(machine, '["')
    completion = machine.shortest_completion(state)
    assert completion == b"a" * size + b'"]'
    assert len(machine._completions._suffixes) < 100  # states passed on the way
    for place in (1, 2, size - 2, size - 1, size):
        written = reached(machine, '["' + "x" * place)
        assert machine.shortest_completion(written) == completion[place:]
        assert machine.bytes_left(written) == len(completion) - place


@pytest.mark.parametrize("size", [0, 1, 7, 90_000])
@pytest.mark.parametrize("others", [{}, {"maxLength": 300_000}, {"type": ["string", "null"]}])
def test_what_a_string_owes_counts_once_where_it_begins(
    size: int, others: dict[str, object]
) -> None:
    machine = machine_of({"type": "string", "minLength": size, **others})
    state = reached(machine, '"')
    assert machine.bytes_left(state) == len(machine.shortest_completion(state)) == size + 1


def test_no_end_is_longer_than_the_bound_on_it() -> None:
    """Also after a number, which ends without a byte of its own: budgets rely on this."""
    schema = {"oneOf": [{}, {"items": {"maxItems": 1}}]}
    machine = machine_of(schema, JsonOptions(spelling=Spelling.ANY))
    state = machine.start
    for byte in b'["i!",7,[8],[0,0]]':
        reached_state = machine.step(state, byte)
        assert reached_state is not None
        state = reached_state
        bound = machine.bytes_left(state)
        assert len(machine.shortest_completion(state)) <= bound, (chr(byte), bound)


def test_a_value_is_found_where_the_search_for_any_of_all_its_verdicts_gives_up() -> None:
    """Its end is then searched for verdict by verdict."""
    items: Schema = {
        "type": "array",
        "uniqueItems": True,
        "prefixItems": [{}, {}, {"enum": [{}]}, {}, {"enum": [0]}],
        "allOf": [
            {"contains": {"enum": [{}, 0, 1]}, "minContains": 3},
            {"contains": {"enum": [[1]]}},
            {"contains": {}, "minContains": 5},
        ],
    }
    listed = {"enum": [10, [1.5, "ab"], ["b", "", "ab"]]}
    other: Schema = {
        "type": "object",
        "properties": {
            "d": {
                "oneOf": [listed, {"allOf": [{"type": "integer", "maximum": 10}, {"not": listed}]}]
            }
        },
        "additionalProperties": {"enum": [[1, [1], {}, False, 0, True], 7]},
    }
    schema: Schema = {
        "allOf": [
            {"properties": {"c": items}},
            {"oneOf": [{"propertyNames": {"enum": ["d", "c"]}}, {"not": other}]},
        ]
    }
    machine = machine_of(schema, JsonOptions(spelling=Spelling.ANY, key_order=KeyOrder.ANY))
    assert accepts(machine, '{"d":10}')
    state = machine.advance(machine.start, b'{"d":10,"c":')
    assert state is not None
    assert machine.advance(state, machine.shortest_completion(state)) is not None


def test_an_item_of_the_way_out_is_offered_where_the_search_misses_the_way_after_others() -> None:
    """After other items with the same conditions: which of them was written matters later."""

    def pairs(*values: str) -> Schema:
        return {"enum": [{"a": int(value[0]), "b": int(value[1])} for value in values]}

    def pair(a: Schema, b: Schema, **more: object) -> Schema:
        return {"type": "object", "properties": {"a": a, "b": b}, **more}

    closed = {"additionalProperties": False}
    two = pair({"enum": [["", 3], 2]}, {"enum": [1, "", {"a": False}]}, required=["b"], **closed)
    small = pair({"type": "integer", "maximum": 3}, {"minimum": 0, "maximum": 1}, **closed)
    owed = pair({"type": "integer", "maximum": 2}, {}, required=["b"], minProperties=2)
    schema: Schema = {
        "allOf": [
            {
                "contains": pairs("31", "00", "10", "21", "01", "22", "30", "12"),
                "minContains": 8,
            },
            {
                "uniqueItems": True,
                "minItems": 10,
                "prefixItems": [
                    {"a": 1, "b": 0},
                    pairs("30", "00", "11"),
                    pairs("10", "00"),
                    pairs("21", "30"),
                    pair({"const": 0}, {"minimum": 0, "maximum": 0}, minProperties=2, **closed),
                    pairs("31", "21", "01"),
                    {"allOf": [small, {"oneOf": [two, {"not": two}]}]},
                    pairs("12", "32"),
                    {"allOf": [owed, {"multipleOf": 2, "exclusiveMaximum": 0}]},
                    pairs("01"),
                ],
                "allOf": [
                    {
                        "contains": pairs("31", "00", "10", "21", "01", "32", "30", "12"),
                        "minContains": 8,
                    }
                ],
            },
        ]
    }
    machine = machine_of(schema, JsonOptions(spelling=Spelling.ANY, key_order=KeyOrder.ANY))
    state = machine.advance(machine.start, b"[")
    assert state is not None
    assert machine.advance(state, machine.shortest_completion(state)) is not None


@pytest.mark.parametrize("kept_bytes", [None, 24])
def test_an_item_of_the_way_out_is_no_trap(
    kept_bytes: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the search for its continuation gives up, and if little of what is found is kept."""
    if kept_bytes is not None:
        monkeypatch.setattr(
            container_completions,
            "LRUCache",
            lambda size, of: LRUCache(kept_bytes if of is len else size, of),
        )
    listed: Schema = {
        "type": "array",
        "uniqueItems": True,
        "minItems": 4,
        "prefixItems": [
            {"enum": [4]},
            {"enum": [4, 2, 1]},
            {"enum": [0, [], "ab", 10]},
            {"enum": [0, 2]},
        ],
        "allOf": [
            {"contains": {"enum": [1, 2, 4, 0]}, "minContains": 3},
            {"contains": {"enum": [1, 4]}, "minContains": 1, "maxContains": 2},
            {"contains": {"enum": [2, 1, 0]}},
        ],
    }
    both = {
        "allOf": [
            {"contains": {"enum": [1, 4]}, "maxContains": 2},
            {"contains": {"enum": [2, 1, 0]}},
        ]
    }
    places = [{"enum": [4]}, {"enum": [1, 2]}, {"enum": [0]}]
    texts = {"enum": [[4, 1, 0, 2], {"c": True, "a": -1, "b": 10}, [True, "a", 3], ""]}
    schema: Schema = {
        "allOf": [
            {"uniqueItems": True, "minItems": 2, "prefixItems": places},
            {"oneOf": [both, {"not": listed}]},
            {"oneOf": [texts, {"not": texts}]},
        ]
    }
    machine = machine_of(schema, JsonOptions(spelling=Spelling.ANY))
    assert accepts(machine, "[4,1,0,2]")


def test_a_name_is_found_however_many_shorter_ones_are_taken() -> None:
    names = ["".join(name) for size in range(1, 8) for name in itertools.product("ab", repeat=size)]
    machine = machine_of(_object(patternProperties={"^[ab]{1,8}$": {}}, additionalProperties=False))
    prefix = "{" + "".join(f'"{name}":0,' for name in names) + '"'
    assert machine.shortest_completion(reached(machine, prefix)) == b'aaaaaaaa":0}'


def test_a_name_prefix_is_not_completed_to_a_name_that_others_had_to_come_before() -> None:
    """The shortest object has "b" and "c"; after "c" there is no return to "b"."""
    lacks_c = {"dependencies": {"c": {"enum": []}}, "minProperties": 1}
    machine = machine_of({"oneOf": [{"required": ["b"]}, lacks_c]}, JsonOptions())
    state = reached(machine, '{"c')
    found = machine.shortest_completion(state)
    assert not found.startswith(b'"')
    assert accepts(machine, '{"c' + found.decode())


def test_an_array_that_may_close_does_although_a_longer_end_was_found_elsewhere() -> None:
    long: dict[str, Any] = {"type": "array", "prefixItems": [{}, {"const": "x" * 30}]}
    three: Schema = {**long, "anyOf": [{"minItems": 3}, {"contains": {"type": "number"}}]}
    schema = _object(properties={"a": long, "b": three})
    machine = machine_of(schema, JsonOptions(key_order=KeyOrder.ANY))
    machine.shortest_completion(reached(machine, '{"b":['))
    assert machine.shortest_completion(reached(machine, '{"a":[{}')) == b"]}"
    assert machine.bytes_left(reached(machine, '{"a":[{}')) == 2
