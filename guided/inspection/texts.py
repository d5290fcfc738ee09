"""Turns tokens into text that is safe to show: whole characters, and no terminal controls."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence

from guided.inspection.origins import TracedToken

__all__ = ["pieces", "printable", "shown"]


def printable(text: str) -> str:
    """Return the text with control characters other than line breaks written as escapes."""
    return "".join(
        character if character.isprintable() or character == "\n" else _escaped(character)
        for character in text
    )


def shown(text: bytes) -> str:
    """Return the bytes of tokens in one line, with spaces and line breaks made visible."""
    decoded = text.decode("utf-8", "backslashreplace").replace(" ", "␣")
    return printable(decoded).replace("\n", _escaped("\n"))


def pieces(tokens: Sequence[TracedToken]) -> Iterator[tuple[str, tuple[TracedToken, ...]]]:
    """Yield the answer in whole characters, each piece with the tokens that end in it.

    A character may take several tokens; it is shown like the first of them. The pieces together are
    the text of the answer.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    waiting: list[TracedToken] = []
    for index, token in enumerate(tokens, start=1):
        waiting.append(token)
        text = decoder.decode(token.text, final=index == len(tokens))
        if text:
            yield text, tuple(waiting)
            waiting = []


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
