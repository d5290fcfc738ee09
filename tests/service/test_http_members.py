"""Bodies that name a member twice, where a parser would silently keep the last one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.errors import RequestError
from guided_service.http.body import read_json
from tests.service.test_http_fields import refusal


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"a": 1, "a": 1}', "a"),
        (b'{"x": [{"a": {}, "b": 0, "a": {}}]}', "a"),
        (b'{"a": {"b": 1}, "a": 2}', "a"),
        (b'{"a": 1, "\\u0061": 2}', "a"),
        # As many colons in the members read as in the text.
        (b'{"a": 1, "a": "\\u003a"}', "a"),
        (b'{"a": ":", "a": "\\u003A\\u003a"}', "a"),
        (b'{"": 1, "": 2}', ""),
    ],
)
def test_a_member_that_is_named_twice_is_an_error(body: bytes, name: str) -> None:
    with pytest.raises(RequestError, match="an object in the body of the call has") as caught:
        read_json(body, 100)
    assert caught.value.field == name
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}',
        b'{"a:": ":\\u003a", "\\u003a": "\\\\u003a", "::": "\\": \\"a\\":"}',
        b'{"a": 123456789012345678901234567890, "b": 1e308, "c": 1E-400, "d": -0.0}',
    ],
)
def test_members_that_are_named_once_are_taken(body: bytes) -> None:
    assert read_json(body, 100) == json.loads(body)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"guided_json": '{"type": "object", "type": "array"}'}, "guided_json"),
        (
            {
                "structured_outputs": {
                    "structural_tag": '{"type": "structural_tag", "format": {"type": "any_text"}, '
                    '"format": {"type": "regex", "pattern": "a"}}'
                }
            },
            "structured_outputs.structural_tag",
        ),
    ],
)
def test_texts_of_json_in_a_body_name_members_once_too(fields: dict[str, Any], field: str) -> None:
    assert "twice" in str(error := refusal("chat", **fields))
    assert error.field == field


NAMES = [
    rf'"{name}"' for name in ("a", "b", ":", r"\u003a", r"\u003A", r"\u0061", r"\\u003a", r"\":")
]
"""Names of members as written; some of them are equal."""
WRITTEN = st.recursive(
    st.sampled_from(["1", "null", "[]", *NAMES]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(st.tuples(st.sampled_from(NAMES), inner), max_size=3).map(
            lambda members: f"{{{', '.join(f'{name} : {value}' for name, value in members)}}}"
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=500)
@given(WRITTEN)
def test_members_that_are_named_twice_are_found_wherever_they_stand(text: str) -> None:
    twice = False

    def look(members: list[tuple[str, object]]) -> None:
        nonlocal twice
        twice |= len(dict(members)) < len(members)

    body = f'{{"x": {text}}}'
    json.loads(body, object_pairs_hook=look)
    if twice:
        with pytest.raises(RequestError, match="twice"):
            read_json(body.encode(), 1000)
    else:
        assert read_json(body.encode(), 1000) == json.loads(body)
