"""Sets of characters of a foreign pattern, as expressions of ECMA-262 that match one character.

ECMA-262 has neither complements nor intersections inside of brackets. What they cannot hold is
written beside them, with look-ahead: ``[a-z&&[^x]]`` -> ``(?:(?=[a-z])[^x])``.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CharacterSet", "escaped"]

_NOTHING = r"[^\s\S]"
_ANYTHING = r"[\s\S]"
_ESCAPED_IN_CLASS = frozenset("\\]^-")
_SPELLED_IN_CLASS = frozenset("[&~")


def escaped(code_point: int) -> str:
    """A character inside of brackets; operators of other dialects are spelled by their number."""
    character = chr(code_point)
    if character in _ESCAPED_IN_CLASS:
        return "\\" + character
    if code_point < 0x20 or character in _SPELLED_IN_CLASS or 0x7F <= code_point < 0xA0:
        return f"\\u{code_point:04x}"
    return character


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """What is surely in a set and what may be: the contents of brackets, and units beside them."""

    sure: str = ""
    maybe: str = ""
    sure_units: tuple[str, ...] = ()
    maybe_units: tuple[str, ...] = ()

    @classmethod
    def of(cls, content: str) -> CharacterSet:
        """The set of what stands inside brackets of ECMA-262."""
        return cls(content, content)

    def unit(self, *, sure: bool) -> str:
        """An expression that matches one character: of those that are surely in it, or may be."""
        content, units = (self.sure, self.sure_units) if sure else (self.maybe, self.maybe_units)
        options = [f"[{content}]", *units] if content else [*units]
        if not options:
            return _NOTHING
        return options[0] if len(options) == 1 else f"(?:{'|'.join(options)})"

    def __or__(self, other: CharacterSet) -> CharacterSet:
        if other == ~self:
            return CharacterSet(sure_units=(_ANYTHING,), maybe_units=(_ANYTHING,))
        return CharacterSet(
            self.sure + other.sure,
            self.maybe + other.maybe,
            self.sure_units + other.sure_units,
            self.maybe_units + other.maybe_units,
        )

    def __invert__(self) -> CharacterSet:
        return CharacterSet(
            sure_units=(_outside(self.maybe, self.unit(sure=False), self.maybe_units),),
            maybe_units=(_outside(self.sure, self.unit(sure=True), self.sure_units),),
        )

    def __and__(self, other: CharacterSet) -> CharacterSet:
        return _paired(
            f"(?:(?={self.unit(sure=True)}){other.unit(sure=True)})",
            f"(?:(?={self.unit(sure=False)}){other.unit(sure=False)})",
        )

    def __sub__(self, other: CharacterSet) -> CharacterSet:
        return _paired(
            f"(?:(?!{other.unit(sure=False)}){self.unit(sure=True)})",
            f"(?:(?!{other.unit(sure=True)}){self.unit(sure=False)})",
        )


def _outside(content: str, unit: str, units: tuple[str, ...]) -> str:
    if units:
        return f"(?:(?!{unit}){_ANYTHING})"
    return f"[^{content}]" if content else _ANYTHING


def _paired(sure: str, maybe: str) -> CharacterSet:
    return CharacterSet(sure_units=(sure,), maybe_units=(maybe,))
