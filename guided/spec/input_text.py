"""The input of a custom tool, as a call contains it: in a string of JSON, or as it is."""

from __future__ import annotations

from dataclasses import dataclass

from guided.spec.constraints import Lark, Regex
from guided.spec.structure import Structure, digest_of

__all__ = ["BareText", "EscapedText"]


@dataclass(frozen=True, slots=True)
class EscapedText(Structure):
    """A text of a grammar as JSON writes it inside the quotes of a string.

    Each character has one spelling, that of ``json.dumps(..., ensure_ascii=False)``.
    """

    grammar: Lark | Regex
    field: str
    """The field of the request that the grammar came from, for errors."""

    def digest(self) -> str:
        return digest_of("escaped_text", (self.grammar.digest(), self.field))


@dataclass(frozen=True, slots=True)
class BareText(Structure):
    """A text of a grammar as it is, up to and including the first occurrence of ``end``.

    Texts that contain ``end`` or ``without`` are left out; an empty one of these means none.
    """

    grammar: Lark | Regex
    field: str
    """The field of the request that the grammar came from, for errors."""
    end: str = ""
    without: str = ""

    def digest(self) -> str:
        parts = (self.grammar.digest(), self.field, self.end, self.without)
        return digest_of("bare_text", parts)
