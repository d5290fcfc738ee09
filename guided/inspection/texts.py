"""Tokens as text that can be shown: whole characters, and nothing that a terminal would obey."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence

from guided.inspection.origins import TracedToken

__all__ = ["pieces", "printable", "shown"]


def printable(text: str) -> str:
    """The text with control characters other than line breaks written as escapes."""
    return "".join(
        character if character.isprintable() or character == "\n" else _escaped(character)
        for character in text
    )


def shown(text: bytes) -> str:
    """The bytes of tokens in one line, in which spaces and line breaks can be seen."""
    decoded = text.decode("utf-8", "backslashreplace").replace(" ", "␣")
    return printable(decoded).replace("\n", _escaped("\n"))


def pieces(tokens: Sequence[TracedToken]) -> Iterator[tuple[str, tuple[TracedToken, ...]]]:
    """The answer in whole characters, each piece with the tokens that end in it.

    A character may be spelled by several tokens; it is shown as the first of them is. All pieces
    together are the text of the answer.
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
