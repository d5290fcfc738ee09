"""Ways of writing JSON that tests use."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

from guided.spec import FormatMode, JsonOptions, KeyOrder, Spelling

__all__ = ["ANY_WAY", "ANY_WAY_WITH_FORMATS", "SCHEMA_ORDER", "in_every_order"]

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
"""The same, but strings have to match their format."""

SCHEMA_ORDER: Final = JsonOptions(
    whitespace=0,
    key_order=KeyOrder.SCHEMA,
    format=FormatMode.ANNOTATE,
    spelling=Spelling.CANONICAL,
    max_string_length=None,
    max_number_digits=None,
)
"""Compact and canonical, members in the order of the schema."""


def in_every_order(value: Any) -> Iterator[Any]:
    """The value with the members of its objects in every order, numbers without needless zeros."""
    if isinstance(value, dict):
        for names in itertools.permutations(value):
            for values in itertools.product(*(list(in_every_order(value[name])) for name in names)):
                yield dict(zip(names, values, strict=True))
    elif isinstance(value, list):
        yield from map(list, itertools.product(*(list(in_every_order(item)) for item in value)))
    elif isinstance(value, float) and value.is_integer():
        yield int(value)
    else:
        yield value
