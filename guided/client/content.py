"""Reads the content of a message, in the forms in which a caller may give it."""

from __future__ import annotations

from guided.errors import RequestError

__all__ = ["said_text"]

_FIELD = "messages.content"


def said_text(content: object, number: int) -> str:
    """Return the text of a message, which is given as a text or as parts of text, like those of
    OpenAI's clients.

    ``number`` is the message's number, for errors.
    """
    match content:
        case str():
            return content
        case list() | tuple():
            return "".join(_part(part, at, number) for at, part in enumerate(content))
    raise RequestError(
        f"the content of message {number} is {content!r:.200}, which is neither a string nor a "
        "list of parts",
        field=_FIELD,
        hint="pass it as text",
    )


def _part(part: object, at: int, number: int) -> str:
    where = f"part {at} of message {number}"
    match part:
        case {"type": "text", "text": str(text), **more} if all(v is None for v in more.values()):
            return text
        case {"type": str(kind)} if kind != "text":
            raise RequestError(
                f"{where} is of type {kind[:80]!r}, but models take only text",
                field=_FIELD,
                hint="leave it out",
            )
    raise RequestError(
        f"{where} is {part!r:.200}, which is not a part of type text",
        field=_FIELD,
        hint='write {"type": "text", "text": ...} and nothing else',
    )
