"""Patterns in the dialects of Rust and Python as patterns of JSON Schema (ECMA-262).

What the dialects read differently is written such that nothing matches in ECMA-262 which would not
match in both others. ``\\d`` and ``\\w`` are ASCII in ECMA-262 and Unicode in the others, and
they disagree about white space.
"""

from __future__ import annotations

__all__ = ["ForeignPatternError", "ecma_pattern"]

# Where all three agree on white space, and what one of them takes for it.
_SPACE = r"\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_ANY_SPACE = r"\s\u001c-\u001f\u0085\ufeff"
_ANY_DIGIT = r"\p{Nd}"
# Alphabetic, marks, numbers, connectors, joiners (UTS 18, annex C); the ranges are the circled and
# squared letters, which are alphabetic symbols.
_ANY_WORD = (
    r"\p{L}\p{M}\p{N}\p{Pc}\u200c\u200d\u24b6-\u24e9"
    r"\u{1f130}-\u{1f149}\u{1f150}-\u{1f169}\u{1f170}-\u{1f189}"
)

_OUTSIDE = {
    "A": "^",
    "z": "$",
    "Z": "$",
    "a": r"\u0007",
    "s": f"[{_SPACE}]",
    "S": f"[^{_ANY_SPACE}]",
    "D": f"[^{_ANY_DIGIT}]",
    "W": f"[^{_ANY_WORD}]",
}
_IN_CLASS = {"s": _SPACE, "D": r"\P{Nd}", "a": r"\u0007"}
_IN_NEGATED_CLASS = {
    "d": _ANY_DIGIT,
    "w": _ANY_WORD,
    "s": _ANY_SPACE,
    "S": r"\S\ufeff",
    "a": r"\u0007",
}
_NEGATIONS = {"S": _ANY_SPACE, "W": _ANY_WORD}


class ForeignPatternError(ValueError):
    """A pattern that has no counterpart."""


def ecma_pattern(pattern: str) -> str:
    """The counterpart of a pattern; ``ForeignPatternError`` where there is none.

    ``\\A[\\W_]\\z`` -> ``^(?:[^\\p{L}…]|[_])$``
    """
    return _Translation(pattern).all()


class _Translation:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0

    def all(self) -> str:
        parts = []
        while self.position < len(self.pattern):
            character = self._take()
            if character == "\\":
                parts.append(self._escape(_OUTSIDE))
            elif character == "[":
                parts.append(self._bracket())
            else:
                parts.append(character)
        return "".join(parts)

    def _bracket(self) -> str:
        negated = self._take_if("^")
        meanings = _IN_NEGATED_CLASS if negated else _IN_CLASS
        parts: list[str] = []
        apart: list[str] = []
        is_first = True
        while is_first or not self._take_if("]"):
            is_first = False
            for operator in ("&&", "--", "~~", "["):
                if self.pattern.startswith(operator, self.position):
                    raise self._refused(f"{operator!r} inside a class")
            character = self._take()
            if character != "\\":
                parts.append(r"\]" if character == "]" else character)
            elif not negated and self._peek() in _NEGATIONS:
                apart.append(f"[^{_NEGATIONS[self._take()]}]")
            else:
                parts.append(self._escape(meanings))
        inside = f"[{'^' if negated else ''}{''.join(parts)}]"
        if not apart:
            return inside
        return f"(?:{'|'.join([*apart, *([inside] if parts else [])])})"

    def _escape(self, meanings: dict[str, str]) -> str:
        character = self._take()
        if character in meanings:
            return meanings[character]
        if character in "xuU" and self._take_if("{"):
            return rf"\u{{{self._until('}')}}}"
        if character == "U":
            return rf"\u{{{''.join(self._take() for _ in range(8)).lstrip('0') or '0'}}}"
        if character in "pP" and self._peek() != "{":
            return rf"\{character}{{{self._take()}}}"
        if character in "<>":
            raise self._refused(f"'\\{character}'")
        return "\\" + character

    def _until(self, end: str) -> str:
        start = self.position
        while self._take() != end:
            pass
        return self.pattern[start : self.position - 1]

    def _peek(self) -> str:
        return self.pattern[self.position : self.position + 1]

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise self._refused("an unfinished expression")
        self.position += 1
        return character

    def _take_if(self, character: str) -> bool:
        taken = self._peek() == character
        self.position += taken
        return taken

    def _refused(self, what: str) -> ForeignPatternError:
        return ForeignPatternError(
            f"the pattern {self.pattern!r} has {what}, which JSON Schema's patterns cannot say"
        )
