"""Turns tokens into text that is safe to show: whole characters, and no terminal controls."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence

from guided.inspection.origins import TracedToken

__all__ = ["escape_controls", "show_bytes", "split_into_characters"]


def escape_controls(text: str) -> str:
    """Return the text with control characters other than line breaks written as escapes."""
    return "".join(
        character if character.isprintable() or character == "\n" else _escape(character)
        for character in text
    )


def show_bytes(text: bytes) -> str:
    """Return the bytes of tokens in one line, with spaces and line breaks made visible."""
    decoded = text.decode("utf-8", "backslashreplace").replace(" ", "␣")
    return escape_controls(decoded).replace("\n", _escape("\n"))


def split_into_characters(
    tokens: Sequence[TracedToken],
) -> Iterator[tuple[str, tuple[TracedToken, ...]]]:
    """Yield the answer in whole characters, each piece with the tokens that end in it.

    A character may take several tokens; it is shown like the first of them. The pieces together are
    the text of the answer.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pending: list[TracedToken] = []
    for index, token in enumerate(tokens, start=1):
        pending.append(token)
        text = decoder.decode(token.text, final=index == len(tokens))
        if text:
            yield text, tuple(pending)
            pending = []


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
