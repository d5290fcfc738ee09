"""A translated pattern matches nothing that pydantic's engines would not match."""

from __future__ import annotations

import sys
import unicodedata
from typing import Annotated, Any

import jsonschema_rs
import pytest
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from guided.response_types.foreign_patterns import ForeignPatternError, ecma_pattern

# One or two characters of each category and everything that is white space to somebody.
CHARACTERS = sorted(
    {
        chr(code)
        for category in {unicodedata.category(chr(c)) for c in range(0x3000)}
        for code in [c for c in range(0x3000) if unicodedata.category(chr(c)) == category][:40:7]
        if category != "Cs"
    }
    | {chr(c) for c in range(sys.maxunicode) if chr(c).isspace()}
    | set("\ufeff\u0085\u180e\u24b6\U0001f130\u200c\u200d_-][&~^0aZé٣中")
)

PATTERNS = [
    r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", ".", r"[\d_]", r"[^\d]", r"[\D]", r"[^\D]", r"[\w-]",
    r"[^\w]", r"[\W_]", r"[^\W]", r"[\s,]", r"[^\s]", r"[\S]", r"[^\S]", r"\A.\z", r"[\]a]",
    r"[^]]", r"[]a]", r"\x41", r"\u00e9", r"\x{e9}", r"\U000000e9", r"\pL", r"[^\pN]", r"(?P<a>\d)",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("engine", ["rust-regex", "python-re"])
def test_what_the_translation_matches_pydantic_matches(pattern: str, engine: Any) -> None:
    config = ConfigDict(regex_engine=engine)
    try:
        adapter = TypeAdapter(Annotated[str, Field(pattern=f"^(?:{pattern})$")], config=config)
    except Exception:
        pytest.skip("the engine does not know the pattern")
    translated = ecma_pattern(f"^(?:{pattern})$").replace("(?P<", "(?<")
    validator = jsonschema_rs.Draft202012Validator({"pattern": translated})
    matched = 0
    for character in CHARACTERS:
        if validator.is_valid(character):
            matched += 1
            try:
                adapter.validate_python(character)
            except ValidationError:
                pytest.fail(f"{character!r} matches {translated!r} only")
    assert matched


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("[a&&b]", "'&&' inside a class"),
        ("[a--b]", "'--' inside a class"),
        ("[[:alpha:]]", "'[' inside a class"),
        (r"\<a", r"'\<'"),
        ("[a", "an unfinished expression"),
        ("a\\", "an unfinished expression"),
    ],
)
def test_what_has_no_counterpart_is_refused(pattern: str, what: str) -> None:
    with pytest.raises(ForeignPatternError) as caught:
        ecma_pattern(pattern)
    assert what in str(caught.value)
