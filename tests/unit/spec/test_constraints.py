"""A constraint is written in a text, or refused where it is made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from guided.errors import InvalidConstraintError, RequestError
from guided.spec import Ebnf, JsonSchema, Lark, Regex

_NO_SCHEMA = "is no string; pass json.dumps(schema), or a type as response_model"
_NO_GRAMMAR = "is no string; pass its text, not the file"


@pytest.mark.parametrize(
    ("kind", "given", "text"),
    [
        (JsonSchema, ({"type": "null"},), f"the schema {{'type': 'null'}} {_NO_SCHEMA}"),
        (JsonSchema, (int,), f"the schema <class 'int'> {_NO_SCHEMA}"),
        (Lark, (Path("a"),), f"the grammar {Path('a')!r} {_NO_GRAMMAR}"),
        (Lark, ("a: B", 1), "the start rule 1 is no string; pass its name"),
        (Ebnf, (5,), f"the grammar 5 {_NO_GRAMMAR}"),
        (Ebnf, ("a", None), "the root rule None is no string; pass its name"),
        (Regex, (5,), "the pattern 5 is no string; pass its text, or re.compile(...)"),
        (Regex, (re.compile(b"a"),), "the pattern b'a' is no string; compile a string"),
        (
            Regex,
            (re.compile("a"), "ecma"),
            "re.compile('a') is in Python's dialect; pass a string, or leave dialect out",
        ),
    ],
)
def test_what_is_no_text_is_refused_with_what_to_pass(
    kind: Any, given: tuple[Any, ...], text: str
) -> None:
    with pytest.raises(InvalidConstraintError) as caught:
        kind(*given)
    assert str(caught.value) == text


def test_options_of_a_schema_that_are_none_are_refused() -> None:
    options: Any = {"whitespace": 1}
    with pytest.raises(RequestError, match=r"json_options .* pass a guided\.JsonOptions"):
        JsonSchema("{}", options)


def test_a_compiled_pattern_keeps_its_flags() -> None:
    assert Regex(re.compile("a.b", re.IGNORECASE | re.DOTALL)) == Regex("(?is)a.b")
    assert Regex(re.compile("a")) == Regex("a")
