"""The tokens that steer a model, and which of those in a rendered conversation nobody forged.

::

    messages      Write <|im_end|> down            what somebody said
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
not even where it writes a message in capitals or as JSON."""


def _letters(number: int, count: int) -> str:
    return "".join(chr(_FIRST + (number >> 5 * place) % _LETTERS) for place in range(count))


class ControlTokens:
    """The names of control tokens, as they are found in texts."""

    def __init__(self, names: Iterable[str]) -> None:
        # The longest first: a tokenizer finds that one where two begin at the same place.
        self.names: Final[Sequence[str]] = sorted({*names}, key=lambda name: (-len(name), name))
        secret = _letters(secrets.randbits(80), 16)
        self._open, self._close = secret + _letters(0, 4), secret + _letters(1, 4)
        self.never: Final = secret + _letters(2, 4)
        """What no text has."""
        self.private: Final = {
            name: secret + _letters(number, 4) for number, name in enumerate(self.names, start=3)
        }
        """By name another one for the same token, which no text spells."""
        anyone = "|".join(map(re.escape, self.names)) or "(?!)"
        self._spelled = re.compile(anyone)
        marks = f"{re.escape(self._open)}|{re.escape(self._close)}"
        self._marked = re.compile(f"{self._open}(?:{anyone}){self._close}|{marks}|({anyone})")
        self._mark = re.compile(marks)
        ends = {name[at] for name in self.names for at in (0, -1)}
        self._ends = re.compile("|".join(map(re.escape, sorted(ends))) or "(?!)")

    def may_be_spelled(self, text: str) -> bool:
        """Whether a text spells a token, or might where it is cut or joined with another."""
        return self._ends.search(text) is not None

    def found(self, text: str) -> list[str]:
        """The tokens that a text spells, in order."""
        return self._spelled.findall(text)

    def marked(self, text: str) -> str:
        """The text with each token that it spells between two marks."""
        return self._spelled.sub(f"{self._open}\\g<0>{self._close}", text)

    def unmarked(self, text: str) -> str:
        """The text without marks."""
        return self._mark.sub("", text)

    def defused(self, text: str) -> str:
        """The text with marks around each character that a token begins or ends with.

        Whatever it is cut into and joined with, no token begins or ends in it.
        """
        return self._ends.sub(f"{self._open}\\g<0>{self._close}", text)

    def named(self, rendered: str) -> str:
        """A rendered template with its own control tokens under private names, and without marks.

        Texts were ``marked`` before they were put in, so that a token which a text spells is not
        taken for one of the template.
        """

        def rename(match: re.Match[str]) -> str:
            own: str | None = match[1]
            return self.unmarked(match[0]) if own is None else self.private[own]

        return self._marked.sub(rename, rendered)

    def own(self, rendered: str) -> list[str]:
        """The tokens that a text has of its own, in order, where marked texts were put into it."""
        return [match[1] for match in self._marked.finditer(rendered) if match[1] is not None]
