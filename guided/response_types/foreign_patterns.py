"""Translates patterns in the dialects of Rust and Python into patterns of JSON Schema (ECMA-262).

The meaning is that of pydantic's engine: ``\\w``, ``\\s`` and ``\\b`` are those of Unicode, the dot
excludes only ``\\n`` and flags are expanded. Nothing matches in ECMA-262 that might not match in
the engine, whose version of Unicode may differ; and although digits are those of all scripts,
``\\d`` allows 0 to 9.
"""

from __future__ import annotations

import re
import sys
from typing import Final

from guided.response_types.character_sets import CharacterSet, escape_in_brackets
from guided.response_types.pattern_reader import PatternReader
from guided.response_types.pattern_text import literal

__all__ = ["ecma_pattern"]

_FLAGS: Final = {
    re.IGNORECASE: "i",
    re.MULTILINE: "m",
    re.DOTALL: "s",
    re.VERBOSE: "x",
    re.ASCII: "a",
}
_LOOK_AROUNDS: Final = {"(?=": False, "(?!": True, "(?<=": False, "(?<!": True}
"""Look-arounds by their opening, each with whether its content must not match."""
_WORD_BOUNDARIES: Final = {
    "start": "(?<!{no})(?={yes})",
    "end": "(?<={yes})(?!{no})",
    "start-half": "(?<!{no})",
    "end-half": "(?!{no})",
}
_BOUNDS: Final = re.compile(r"\{(\d*)(?:(,)(\d*))?\}")
_GROUP_NAME: Final = re.compile(r"\(\?P?<([^>!=]+)>")
_INLINE_FLAGS: Final = re.compile(r"\(\?([A-Za-z]*)(?:-([A-Za-z]+))?([:)])")
_EMPTY_IS_NO_B: Final = sys.version_info < (3, 14)
"""Whether ``\\B`` of Python's engine does not match in the empty text."""


def ecma_pattern(pattern: str, *, is_python: bool = False, flags: int = 0) -> str:
    """Return the counterpart of a pattern; raises ``ForeignPatternError`` if there is none.

    ``flags`` are those of Python's ``re``. ``\\A(?i)k\\z`` -> ``^[kK\\u212a]$``
    """
    found = frozenset(letter for flag, letter in _FLAGS.items() if flags & flag)
    return _Translation(pattern, is_python=is_python).translate(found)


class _Translation(PatternReader):
    """Translates a pattern by recursive descent; a flag set in a group applies up to its end."""

    def translate(self, flags: frozenset[str]) -> str:
        """Return the translation of the whole pattern, read with these flags."""
        self.flags = flags
        text = self._alternatives()
        if self.position < len(self.pattern):
            self.refuse("a ')' too many")
        return text

    def _alternatives(self) -> str:
        parts: list[str] = []
        is_unit = False  # whether a quantifier can follow the last part directly
        while self.position < len(self.pattern) and self.peek() != ")":
            if "x" in self.flags and self.skip_space():
                continue
            if (quantifier := self._quantifier()) is not None:
                if not parts or parts[-1] == "|":
                    self.refuse("nothing to repeat")
                parts[-1] = (parts[-1] if is_unit else f"(?:{parts[-1]})") + quantifier
                is_unit = False
                continue
            part = self._term()
            if part:
                parts.append(part)
                is_unit = part[0] in "[\\" or part.startswith("(?:") or len(part) == 1
                is_unit = is_unit and part not in ("^", "$", "|")
        return "".join(parts)

    def _quantifier(self) -> str | None:
        if self.peek() in ("*", "+", "?"):
            quantifier = self.take()
        else:
            found = _BOUNDS.match(self.pattern, self.position)
            if found is None or not (found[1] or found[2]):
                return None
            self.position = found.end()
            quantifier = f"{{{found[1] or 0}{found[2] or ''}{found[3] or ''}}}"
        if self.is_python and self.peek() == "+":
            self.refuse("a possessive quantifier")
        self.take_if("?")  # which match is found first does not matter
        return quantifier

    def _term(self) -> str:
        if self.peek() == "(":
            return self._group()
        character = self.take()
        match character:
            case "|":
                return "|"
            case ".":
                return r"[\s\S]" if "s" in self.flags else r"[^\n]"
            case "^":
                return r"(?<![^\n])" if "m" in self.flags else "^"
            case "$":
                return self._end()
            case "[":
                return self._unit(self.read_bracket())
            case "\\":
                return self._escape()
        return self._character(ord(character))

    def _end(self) -> str:
        if "m" in self.flags:
            return r"(?![^\n])"
        # Python's also matches before a final line end, which is never meant.
        return r"(?=\n?$)" if self.is_python and not self.sure else "$"

    def _character(self, code_point: int) -> str:
        variants = self.dialect.case_variants(code_point) if "i" in self.flags else ()
        if variants:
            return f"[{''.join(map(escape_in_brackets, (code_point, *variants)))}]"
        return (
            f"[{escape_in_brackets(code_point)}]" if code_point < 0x20 else literal(chr(code_point))
        )

    def _unit(self, characters: CharacterSet) -> str:
        return characters.unit(sure=self.sure)

    # Groups

    def _group(self) -> str:
        for opening, is_negative in _LOOK_AROUNDS.items():
            if self.take_if(opening):
                return self._group_content(opening, negative=is_negative)
        if self.take_if("(?#"):
            self.until(")")
            return ""
        if found := _GROUP_NAME.match(self.pattern, self.position):
            self.position = found.end()
        elif found := _INLINE_FLAGS.match(self.pattern, self.position):
            self.position = found.end()
            before = self.flags
            self._set_flags(found[1], found[2] or "")
            if found[3] == ")":
                return ""
            return self._group_content("(?:", flags_after=before)
        elif self.pattern.startswith("(?", self.position):
            self.refuse(repr(self.pattern[self.position : self.position + 3]))
        else:
            self.position += 1
        return self._group_content("(?:")

    def _group_content(
        self, opening: str, *, negative: bool = False, flags_after: frozenset[str] | None = None
    ) -> str:
        flags = self.flags if flags_after is None else flags_after
        self.sure ^= negative
        text = self._alternatives()
        self.sure ^= negative
        self.flags = flags
        if not self.take_if(")"):
            self.refuse("an unfinished group")
        return f"{opening}{text})"

    def _set_flags(self, on: str, off: str) -> None:
        known = "imsxaLu" if self.is_python else "imsxUu"
        for letter in on + off:
            if letter not in known or letter == "L" or (letter == "u" and letter in off):
                self.refuse(f"the flag {letter!r}")
        self.flags = (self.flags | {*on}) - {*off}
        if "u" in on:
            self.flags -= {"a"}

    # Escapes

    def _escape(self) -> str:
        character = self.peek()
        if character in (*"bBAzZ", *("" if self.is_python else "<>")):
            self.position += 1
            return self._assertion(character)
        if character.isdigit() and not (self.is_python and self.is_octal()):
            self.refuse("a back reference")
        found = self.read_escape()
        return self._character(found) if isinstance(found, int) else self._unit(found)

    def _assertion(self, character: str) -> str:
        if character in "AzZ":
            return "^" if character == "A" else "$"
        yes, no = (self.dialect.sets["w"].unit(sure=sure) for sure in (self.sure, not self.sure))
        if character in "<>" or (not self.is_python and self.take_if("{")):
            kind = {"<": "start", ">": "end"}.get(character) or self.until("}")
            if kind not in _WORD_BOUNDARIES:
                self.refuse(f"'\\{character}'")
            return f"(?:{_WORD_BOUNDARIES[kind].format(yes=yes, no=no)})"
        if character == "b":
            return f"(?:(?<={yes})(?!{no})|(?<!{no})(?={yes}))"
        some = r"(?:(?<=[\s\S])|(?=[\s\S]))" if self.is_python and _EMPTY_IS_NO_B else ""
        return f"(?:(?<={yes})(?={yes})|(?<!{no})(?!{no}){some})"
