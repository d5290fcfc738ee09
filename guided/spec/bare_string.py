"""A string of JSON Schema without the quotes of JSON."""

from __future__ import annotations

from dataclasses import dataclass

from guided.errors import InvalidConstraintError
from guided.spec.composition import Text
from guided.spec.constraints import JsonSchema
from guided.spec.structure import Structure, digest_of

__all__ = ["BareString"]


@dataclass(frozen=True, slots=True)
class BareString(Structure):
    """A string that fits a schema, as it is, between two texts, which are included.

    It has neither quotes nor escapes, and goes up to the first end of ``end``: a string with an
    earlier end is left out. So is what the schema allows beside strings.

    >>> BareString("<city>", JsonSchema('{"type": "string", "maxLength": 3}'), "</city>")
    """

    begin: str
    schema: JsonSchema
    end: str

    def __post_init__(self) -> None:
        for text in (self.begin, self.end):
            Text(text)
            if not text:
                raise InvalidConstraintError("a string without quotes stands between two texts")

    def digest(self) -> str:
        return digest_of("bare_string", (self.begin, self.schema.digest(), self.end))
