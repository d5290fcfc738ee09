"""Schemas in several documents: references between them, and metaschemas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guided.errors import (
    GuidedError,
    InvalidConstraintError,
    LimitExceededError,
    UnsupportedFeatureError,
)
from guided.json_schema.reader import lower_json_schema
from guided.spec import JsonSchema
from tests.kit.evaluate import holds

_CORE = "https://json-schema.org/draft/2020-12/vocab/core"
_VALIDATION = "https://json-schema.org/draft/2020-12/vocab/validation"
_FORMAT = "https://json-schema.org/draft/2020-12/vocab/format-assertion"


def _fits(schema: Any, value: Any, **documents: Any) -> bool:
    """Whether the value fits; ``a_b`` stands for the document http://x.org/a/b."""
    given = tuple(
        ("http://x.org/" + name.replace("_", "/"), json.dumps(document))
        for name, document in documents.items()
    )
    grammar = lower_json_schema(JsonSchema(json.dumps(schema), documents=given)).grammar
    return holds(grammar.root, value)


def test_a_reference_may_lead_to_a_document_and_back() -> None:
    node = {"properties": {"tree": {"$ref": "http://x.org/tree"}}, "required": ["v"]}
    tree = {"type": "array", "items": {"$ref": "node"}}
    assert _fits(
        {"$ref": "http://x.org/tree"}, [{"v": 1, "tree": [{"v": 2}]}], tree=tree, node=node
    )
    assert not _fits({"$ref": "http://x.org/tree"}, [{"v": 1, "tree": [{}]}], tree=tree, node=node)


def test_a_document_may_be_named_by_its_own_id() -> None:
    schema = {"$ref": "http://y.org/z#/$defs/a"}
    document = {"$id": "http://y.org/z", "$defs": {"a": {"const": 1}}}
    assert _fits(schema, 1, elsewhere=document)
    assert not _fits(schema, 2, elsewhere=document)


@pytest.mark.parametrize(
    "other",
    [{"$id": "http://y.org/z", "const": 2}, {"$defs": {"a": {"$id": "http://y.org/z"}}}],
    ids=["of a document", "inside of one"],
)
def test_an_id_that_two_documents_claim_names_neither(other: Any) -> None:
    first = {"$id": "http://y.org/z", "const": 1}
    for documents in ({"a": first, "b": other}, {"a": other, "b": first}):
        with pytest.raises(InvalidConstraintError, match="names several schemas"):
            _fits({"$ref": "http://y.org/z"}, 1, **documents)
    assert _fits({"$ref": "http://x.org/a"}, 1, a=first, b=other)


def test_a_document_is_read_though_another_gives_itself_its_address() -> None:
    """Whichever comes first, ``b`` has the schema ``c``."""
    documents = {"a": {"$id": "http://x.org/b"}, "b": {"$id": "http://x.org/c", "const": 1}}
    for order in (documents, dict(reversed(documents.items()))):
        assert _fits({"$ref": "http://x.org/c"}, 1, **order)
        assert not _fits({"$ref": "http://x.org/c"}, 2, **order)


def test_what_a_name_means_does_not_depend_on_the_order_of_references() -> None:
    documents: dict[str, Any] = {
        "d": {"$defs": {"e": {"$id": "http://x.org/a", "type": "string"}}},
        "a": {"type": "integer"},
    }
    references = {"p": {"$ref": "http://x.org/d"}, "q": {"$ref": "http://x.org/a"}}
    for order in (references, dict(reversed(references.items()))):
        schema = {"properties": order, "allOf": [{"$ref": "http://x.org/d#/$defs/e"}]}
        with pytest.raises(InvalidConstraintError, match="names several schemas"):
            _fits(schema | {"items": {"$ref": "http://x.org/a"}}, {}, **documents)
    # A copy of the document inside another is no other schema.
    documents["d"]["$defs"] = {"e": {"$id": "http://x.org/a", "type": "integer"}}
    documents["a"] = documents["d"]["$defs"]["e"]
    assert _fits({"properties": references}, {"q": 1}, **documents)
    # In JSON ``true`` is not 1.
    documents["d"]["$defs"] = {"e": {"$id": "http://x.org/a", "const": 1}}
    documents["a"] = {"$id": "http://x.org/a", "const": True}
    with pytest.raises(InvalidConstraintError, match="names several schemas"):
        _fits({"properties": references}, {"q": 1}, **documents)


def test_dynamic_anchors_of_schemas_whose_name_another_one_has_are_followed() -> None:
    schema = {
        "$id": "http://x.org/r",
        "$ref": "#/$defs/two",
        "$defs": {
            "one": {"$id": "http://x.org/d", "type": "null"},
            "two": {"$id": "http://x.org/d", "$dynamicAnchor": "n", "$ref": "http://x.org/base"},
            "base": {
                "$id": "http://x.org/base",
                "$dynamicRef": "#n",
                "$defs": {"d": {"$dynamicAnchor": "n", "type": "string"}},
            },
        },
    }
    with pytest.raises(InvalidConstraintError, match="refers to nothing but itself"):
        lower_json_schema(JsonSchema(json.dumps(schema)))


def test_a_document_without_a_draft_is_read_as_the_schema_that_names_it() -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "http://x.org/d"}
    assert _fits(schema, [3], d={"items": {"$ref": "#/x", "maximum": 2}, "x": {"minimum": 1}})


def test_documents_that_nothing_refers_to_are_not_even_read() -> None:
    schema = JsonSchema("true", documents=(("http://x.org/a", "no JSON"),))
    assert lower_json_schema(schema).grammar.nodes() == []


def test_a_fault_in_a_document_is_told_with_its_address() -> None:
    with pytest.raises(InvalidConstraintError) as caught:
        _fits({"$ref": "http://x.org/a"}, 1, a={"items": {"minimum": "1"}})
    assert caught.value.pointer == "http://x.org/a#/items/minimum"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": [1,', "at http://x.org/a#/a/1: the document is not JSON: Expecting value, line 1"),
        ('{"maximum": 1e999}', "at http://x.org/a#/maximum: the number 1e999 has more digits"),
        ("[1]", "at http://x.org/a#: a schema is an object or a boolean, not [1]"),
        ('{"$schema": "http://y.org/"}', "at http://x.org/a#/$schema: the dialect 'http://y.org/'"),
    ],
)
def test_text_that_is_no_schema_is_told_with_the_address_of_its_document(
    text: str, message: str
) -> None:
    schema = JsonSchema('{"$ref": "http://x.org/a"}', documents=(("http://x.org/a", text),))
    with pytest.raises(GuidedError) as caught:
        lower_json_schema(schema)
    assert str(caught.value).startswith(message)


def test_a_metaschema_may_leave_out_vocabularies() -> None:
    schema = {"$schema": "http://x.org/meta", "minimum": 3, "allOf": [False]}
    assert _fits(schema, 1, meta={"$vocabulary": {_CORE: True}})
    assert _fits({"$schema": "http://x.org/meta", "minimum": 3}, 5, meta={})
    assert not _fits({"$schema": "http://x.org/meta", "minimum": 3}, 1, meta={})
    with_minimum = {"$vocabulary": {_CORE: True, _VALIDATION: False}}
    assert not _fits(schema, 1, meta=with_minimum)


def test_a_metaschema_takes_over_no_vocabularies_from_the_one_that_it_is_written_in() -> None:
    schema = {"$schema": "http://x.org/meta", "minimum": 3}
    bare = {"$vocabulary": {_CORE: True, _FORMAT: True}}
    meta = {"$schema": "http://x.org/bare", "$vocabulary": {_CORE: True, _VALIDATION: True}}
    assert not _fits(schema, 1, meta=meta, bare=bare)
    formatted = {"$schema": "http://x.org/meta", "format": "mine"}
    assert _fits(formatted, "x", meta=meta, bare=bare)
    with pytest.raises(UnsupportedFeatureError, match="'mine' cannot be enforced"):
        _fits(formatted, "x", meta={"$schema": "http://x.org/bare"}, bare=bare)


def test_a_vocabulary_that_is_not_known_is_refused_where_it_is_required() -> None:
    schema = {"$schema": "http://x.org/meta", "minimum": 3}
    mine = "http://x.org/vocabulary"
    assert _fits(schema, 1, meta={"$vocabulary": {_CORE: True, mine: False}})
    with pytest.raises(UnsupportedFeatureError, match=r"the vocabulary 'http://x\.org/vocabulary'"):
        _fits(schema, 1, meta={"$vocabulary": {_CORE: True, mine: True}})


def test_a_metaschema_that_requires_formats_allows_none_that_is_unknown() -> None:
    meta = {"$vocabulary": {_CORE: True, _FORMAT: True}}
    schema = {"$schema": "http://x.org/meta", "format": "date"}
    assert not _fits(schema, "x", meta=meta)
    with pytest.raises(UnsupportedFeatureError, match="'mine' cannot be enforced"):
        _fits(schema | {"format": "mine"}, "x", meta=meta)


def test_a_metaschema_that_is_its_own_draft_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"the metaschema .* leads back to"):
        _fits({"$schema": "http://x.org/meta"}, 1, meta={"$schema": "http://x.org/meta"})


def test_a_dynamic_reference_is_bound_by_the_outermost_document() -> None:
    base = {
        "type": "array",
        "items": {"$dynamicRef": "#item"},
        "$defs": {"any": {"$dynamicAnchor": "item"}},
    }
    numbers = {
        "$id": "http://x.org/numbers",
        "$ref": "base",
        "$defs": {"number": {"$dynamicAnchor": "item", "type": "number"}},
    }
    assert _fits(numbers, [1, 2], base=base)
    assert not _fits(numbers, [1, "a"], base=base)
    both = {"prefixItems": [{"$ref": "http://x.org/base"}, {"$ref": "http://x.org/numbers"}]}
    assert _fits(both, [["a"], [1]], base=base, numbers=numbers)
    assert not _fits(both, [["a"], ["a"]], base=base, numbers=numbers)


def test_a_long_chain_of_metaschemas_is_refused() -> None:
    def chain(length: int) -> dict[str, Any]:
        return {
            f"m{number}": {"$schema": f"http://x.org/m{number + 1}"} for number in range(length)
        } | {f"m{length}": {"type": "object"}}

    assert _fits({"$schema": "http://x.org/m0", "type": "null"}, None, **chain(40))
    with pytest.raises(LimitExceededError, match="names more than 50 metaschemas"):
        _fits({"$schema": "http://x.org/m0"}, None, **chain(20_000))
