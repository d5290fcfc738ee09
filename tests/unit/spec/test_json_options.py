"""JSON options are checked when they are made, and equal constraints have equal digests."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from typing import Any

import pytest

from guided.errors import InvalidConstraintError, RequestError
from guided.spec import (
    FREE_WHITESPACE,
    FormatMode,
    JsonOptions,
    JsonSchema,
    KeyOrder,
    Spelling,
)


def test_words_stand_for_values() -> None:
    words = JsonOptions("free", "any", "annotate", "any")
    assert words == JsonOptions(FREE_WHITESPACE, KeyOrder.ANY, FormatMode.ANNOTATE, Spelling.ANY)
    assert words.key_order is KeyOrder.ANY
    assert JsonOptions(whitespace="compact") == JsonOptions()


@pytest.mark.parametrize(
    ("arguments", "field", "text"),
    [
        (
            {"whitespace": "wide"},
            "whitespace",
            'whitespace \'wide\' is not an integer; pass "compact", "free", an integer or None',
        ),
        ({"whitespace": -1}, "whitespace", "whitespace -1 is below 0"),
        (
            {"whitespace": True},
            "whitespace",
            'whitespace True is not an integer; pass "compact", "free", an integer or None',
        ),
        ({"max_string_length": 0}, "max_string_length", "max_string_length 0 is below 1"),
        (
            {"max_number_digits": 2.5},
            "max_number_digits",
            "max_number_digits 2.5 is not an integer; pass an integer or None",
        ),
        *(
            (
                {"max_number_digits": digits},
                "max_number_digits",
                f"max_number_digits {digits} is not between 1 and 2000",
            )
            for digits in (0, 2001, 2**31 - 1)
        ),
        ({"key_order": "abc"}, "key_order", "key_order 'abc' is none of 'schema', 'any'"),
        ({"format": None}, "format", "format None is none of 'assert', 'annotate'"),
        ({"spelling": 1}, "spelling", "spelling 1 is none of 'canonical', 'any'"),
    ],
)
def test_a_wrong_option_is_named(arguments: dict[str, Any], field: str, text: str) -> None:
    with pytest.raises(RequestError) as caught:
        JsonOptions(**arguments)
    assert (str(caught.value), caught.value.field) == (text, f"json_options.{field}")


def test_bounds_may_be_lifted() -> None:
    options = JsonOptions(whitespace=None, max_string_length=None, max_number_digits=None)
    assert (options.whitespace, options.max_string_length, options.max_number_digits) == (
        None,
        None,
        None,
    )


def test_the_signature_that_type_checkers_see_has_the_fields_in_their_order() -> None:
    tree = ast.parse(inspect.getsource(JsonOptions))
    (signature,) = (
        [argument.arg for argument in node.args.args[1:]]
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    assert signature == [field.name for field in fields(JsonOptions)]


def test_the_order_of_documents_parts_no_constraints() -> None:
    one = JsonSchema("{}", documents=(("urn:b", "{}"), ("urn:a", "true")))
    other = JsonSchema("{}", documents=(("urn:a", "true"), ("urn:b", "{}")))
    assert one == other
    assert one.digest() == other.digest()


@pytest.mark.parametrize(
    "other",
    [
        JsonSchema("{}", JsonOptions(whitespace=1)),
        JsonSchema("{}", JsonOptions(max_number_digits=None)),
        JsonSchema("{}", documents=(("urn:a", "{}"),)),
        JsonSchema("{ }"),
    ],
)
def test_what_differs_has_another_digest(other: JsonSchema) -> None:
    assert other.digest() != JsonSchema("{}").digest()


def test_two_documents_of_one_uri_are_refused() -> None:
    with pytest.raises(InvalidConstraintError, match="two documents are given for the URI 'urn:a'"):
        JsonSchema("{}", documents=(("urn:a", "{}"), ("urn:a", "true")))
