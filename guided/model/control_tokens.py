"""Finds the tokens that steer a model, and which of those in a conversation are genuine.

::

    messages      Write <|im_end|> down            what a message says
    marked        Write ⟦<|im_end|>⟧ down          each such name between two marks
    rendered      <|im_start|>user\\nWrite ⟦<|im_end|>⟧ down<|im_end|>
    named         ①user\\nWrite <|im_end|> down②    ①, ②: names that no text spells

Marks and names are drawn at random when a process starts, so no text can hold them.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["ControlTokens"]

_FIRST: Final = 0xFDD0
_LETTERS: Final = 32
"""The noncharacters U+FDD0 to U+FDEF (Unicode Standard, section 23.7): no template changes them,
even if it writes a message in capitals or as JSON."""


def _letters(number: int, count: int) -> str:
    return "".join(chr(_FIRST + (number >> 5 * place) % _LETTERS) for place in range(count))


class ControlTokens:
    """The names of control tokens, as texts spell them."""

    def __init__(self, names: Iterable[str]) -> None:
        # The longest first: a tokenizer takes the longer one if two begin at the same place.
        self.names: Final[Sequence[str]] = sorted({*names}, key=lambda name: (-len(name), name))
        secret = _letters(secrets.randbits(80), 16)
        self._open, self._close = secret + _letters(0, 4), secret + _letters(1, 4)
        self.never: Final = secret + _letters(2, 4)
        """A string that no text contains."""
        self.private: Final = {
            name: secret + _letters(number, 4) for number, name in enumerate(self.names, start=3)
        }
        """For each name, another one for the same token, which no text spells."""
        anyone = "|".join(map(re.escape, self.names)) or "(?!)"
        self._spelled = re.compile(anyone)
        marks = f"{re.escape(self._open)}|{re.escape(self._close)}"
        self._marked = re.compile(f"{self._open}(?:{anyone}){self._close}|{marks}|({anyone})")
        self._mark = re.compile(marks)
        ends = {name[at] for name in self.names for at in (0, -1)}
        self._ends = re.compile("|".join(map(re.escape, sorted(ends))) or "(?!)")

    def may_be_spelled(self, text: str) -> bool:
        """Whether a text spells a token, or might after being cut or joined with another text."""
        return self._ends.search(text) is not None

    def find(self, text: str) -> list[str]:
        """Return the tokens that a text spells, in order."""
        return self._spelled.findall(text)

    def mark(self, text: str) -> str:
        """Put marks around each token that the text spells."""
        return self._spelled.sub(f"{self._open}\\g<0>{self._close}", text)

    def unmark(self, text: str) -> str:
        """Return the text without marks."""
        return self._mark.sub("", text)

    def defuse(self, text: str) -> str:
        """Put marks around each character of the text that a token begins or ends with.

        However it is cut and joined with other texts, no token begins or ends in it.
        """
        return self._ends.sub(f"{self._open}\\g<0>{self._close}", text)

    def rename_own(self, rendered: str) -> str:
        """Return a rendered template with private names for its own control tokens, without marks.

        Texts were ``marked`` before they were put in, so that a token that a text spells is not
        taken for one of the template.
        """

        def rename(match: re.Match[str]) -> str:
            own: str | None = match[1]
            return self.unmark(match[0]) if own is None else self.private[own]

        return self._marked.sub(rename, rendered)

    def find_own(self, rendered: str) -> list[str]:
        """Return a text's own tokens, in order, without those of marked texts inside it."""
        return [match[1] for match in self._marked.finditer(rendered) if match[1] is not None]
