"""Begins an answer in the middle of a text of its constraint."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from guided.errors import LimitExceededError, RequestError
from guided.masks.binding import TokenBinding
from guided.masks.compiled import CompiledConstraint, ConstraintMatcher
from guided.masks.healing import HealingMatcher
from guided.masks.matcher import Matcher
from guided.masks.respelling import Respelling
from guided.spec.continued import Continued

__all__ = ["start_continued", "start_free"]

_SHOWN: Final = 20
"""Characters of a text that an error shows on either side of a place."""
_MOST_NAMED: Final = 8
"""Characters that an error names of those that may follow."""


def start_continued(continued: Continued, compiled: CompiledConstraint) -> Matcher:
    """Return the matcher before the first token of an answer that continues a text.

    ``compiled`` is the whole text's constraint. Raises RequestError, with the place, for a
    beginning that does not fit it.
    """
    text = continued.begun + continued.respelled
    after, fitting = compiled.start_after(text)
    if fitting < len(text.encode()):
        raise _misfit(text, fitting, after)
    if not continued.respelled:
        return after
    before, _ = compiled.start_after(continued.begun)
    return _healing(continued.respelled, compiled.binding, before, after)


def start_free(continued: Continued, binding: TokenBinding, free_text: Matcher) -> Matcher:
    """Return the matcher before the first token of an answer that continues any text."""
    if not continued.respelled:
        return free_text
    return _healing(continued.respelled, binding, free_text, free_text)


def _healing(
    respelled: str, binding: TokenBinding, before: Matcher, after: Matcher
) -> HealingMatcher:
    texts = binding.vocabulary.read_as
    return HealingMatcher(Respelling(respelled.encode(), binding.trie, texts), 0, before, after)


def _misfit(text: str, fitting: int, reached: ConstraintMatcher) -> RequestError:
    """Return the error for a text of which only so many bytes fit, up to a position."""
    data = text.encode()
    place = len(data[:fitting].decode(errors="ignore"))
    before = text[max(0, place - _SHOWN) : place]
    where = f"after {before!r}" if before else "at the beginning"
    possible: list[str] = []
    with suppress(LimitExceededError):  # the place alone tells enough
        possible = reached.constraint.ascii_after(reached.state)
    named = " ".join(possible[:_MOST_NAMED]) + (" …" if len(possible) > _MOST_NAMED else "")
    if possible:
        hint = (
            f"continue there with one of {named}" if len(possible) > 1 else f"write {named} there"
        )
    else:
        hint = "end the message there" if reached.is_accepting else "change it there"
    return RequestError(
        f"the last message does not fit the constraint: {text[place : place + _SHOWN]!r} at "
        f"character {place} (byte {fitting}) may not come {where}",
        field="messages",
        hint=hint,
    )
