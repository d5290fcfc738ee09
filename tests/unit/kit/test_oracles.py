"""The oracles themselves: the specification where validators differ, and no verdict on a guess."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kit.oracles import Oracle, read_document


@pytest.mark.parametrize(
    ("schema", "document", "valid"),
    [
        ({"multipleOf": 0.01}, "4.35", True),
        ({"multipleOf": 0.01}, "4.351", False),
        ({"multipleOf": 0.5, "maximum": 1e9}, "12345678901.5", False),
        ({"type": "integer"}, "1.0", True),
        ({"type": "integer"}, "10e-1", True),
        ({"type": "integer"}, "642931195982525819787454281.1", False),
        ({"enum": [1]}, "1.0", True),
        ({"enum": [1]}, "true", False),
        ({"pattern": "^a$"}, '"a\\n"', False),
        ({"pattern": "^\\d$"}, '"\u0967"', False),
        ({"pattern": "^\\p{Letter}$"}, '"\u00e9"', True),
        ({"uniqueItems": True}, "[[1], [true], [1]]", False),
        ({"uniqueItems": True}, "[1, true]", True),
        ({"maximum": 1}, "1e999999999999", None),
    ],
)
def test_the_specification_decides(schema: Any, document: str, valid: bool | None) -> None:
    assert Oracle(json.dumps(schema)).is_valid(document) is valid


def test_an_object_that_names_a_member_twice_is_no_document() -> None:
    with pytest.raises(AssertionError, match="a name stands twice"):
        read_document('{"a": 1, "\\u0061": 2}')
