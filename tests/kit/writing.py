"""Ways of writing JSON that tests ask for."""

from __future__ import annotations

from typing import Final

from guided.spec import FormatMode, JsonOptions, KeyOrder, Spelling

__all__ = ["ANY_WAY", "ANY_WAY_WITH_FORMATS", "SCHEMA_ORDER"]

ANY_WAY: Final = JsonOptions(
    whitespace=None,
    key_order=KeyOrder.ANY,
    format=FormatMode.ANNOTATE,
    spelling=Spelling.ANY,
    max_string_length=None,
    max_number_digits=None,
)
"""Whatever JSON allows: a text is accepted exactly when its value is valid."""

ANY_WAY_WITH_FORMATS: Final = JsonOptions(
    whitespace=None,
    key_order=KeyOrder.ANY,
    format=FormatMode.ASSERT,
    spelling=Spelling.ANY,
    max_string_length=None,
    max_number_digits=None,
)
"""The same, where a string has to be of its format."""

SCHEMA_ORDER: Final = JsonOptions(
    whitespace=0,
    key_order=KeyOrder.SCHEMA,
    format=FormatMode.ANNOTATE,
    spelling=Spelling.CANONICAL,
    max_string_length=None,
    max_number_digits=None,
)
"""Compact and canonical, members in the order of the schema."""
