"""A string of JSON Schema without the quotes of JSON."""

from __future__ import annotations

from dataclasses import dataclass

from guided.errors import InvalidConstraintError
from guided.spec.composition import Text
from guided.spec.constraints import JsonSchema
from guided.spec.special_token import SpecialToken
from guided.spec.structure import Structure, digest_of

__all__ = ["BareString"]


@dataclass(frozen=True, slots=True)
class BareString(Structure):
    """A string that fits a schema, written plainly between two texts or special tokens.

    It has neither quotes nor escapes, and extends to the first occurrence of ``end``: strings that
    contain ``end`` are left out. So are strings that contain the text ``without``, and whatever the
    schema allows besides strings.

    >>> BareString("<city>", JsonSchema('{"type": "string", "maxLength": 3}'), "</city>")
    """

    begin: str | SpecialToken
    schema: JsonSchema
    end: str | SpecialToken
    without: str = ""

    def __post_init__(self) -> None:
        for text in (self.begin, self.end, self.without):
            if isinstance(text, str):
                Text(text)
        if not (self.begin and self.end):
            raise InvalidConstraintError("a string without quotes stands between two texts")

    def digest(self) -> str:
        ends = [end if isinstance(end, str) else (end.name,) for end in (self.begin, self.end)]
        return digest_of("bare_string", (ends, self.schema.digest(), self.without))
