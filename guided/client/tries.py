"""Repeats a request whose answer its type refuses, giving the model the reason each time.

::

    user: Invent a person.              the request
    assistant: {"age": -1}              an answer of its schema
    user: … age: negative …             what the type says of it, in the request that follows

A call whose arguments are refused is told so as its result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Generic, TypeVar

from guided.client.answer import Answer
from guided.client.request import Request
from guided.errors import AnswerValidationError
from guided.spec import Message, Usage

__all__ = ["Tries"]

T = TypeVar("T")

_MOST_NAME = 120
"""Length of the part of a request's name that the names of its later tries begin with."""


class Tries(Generic[T]):
    """The tries at one answer, until its type accepts it or no try is left."""

    def __init__(self, request: Request[T]) -> None:
        self.request = request
        """The next request to send."""
        self._spent: list[Usage] = []

    def read(self, plain: Answer[str]) -> Answer[T] | None:
        """Return the answer with the cost of all tries; ``None`` if ``request`` is to be sent next.

        Raises AnswerValidationError, also with that cost, if the last try is refused.
        """
        self._spent.append(plain.usage)
        usage, tries = Usage.total(self._spent), len(self._spent)
        try:
            answer = self.request.read(plain)
        except AnswerValidationError as refusal:
            if not self.request.max_retries:
                refusal.usage, refusal.tries = usage, tries
                raise
            self.request = _after(self.request, plain, refusal)
            return None
        return replace(answer, usage=usage, tries=tries)

    def name(self, first: str) -> str:
        """Return the name of the next request, given that of the first."""
        return f"{first[:_MOST_NAME]}/{len(self._spent) + 1}" if self._spent else first


def _after(request: Request[T], plain: Answer[str], refusal: AnswerValidationError) -> Request[T]:
    """Return the request again, with the refused answer and the reason."""
    asked = request.specification.prompt
    assert isinstance(asked, tuple), "a request that may be tried again has messages"
    again = _told(plain, refusal)
    # The refused answer has the whole of a message that was continued, which is begun once more.
    is_begun = bool(request.specification.begun)
    prompt = (*asked[:-1], *again, asked[-1]) if is_begun else (*asked, *again)
    # Options are fields that checkers do not see.
    changes: dict[str, Any] = {"prompt": prompt, "max_retries": request.max_retries - 1}
    return replace(request, **changes)


def _told(plain: Answer[str], refusal: AnswerValidationError) -> tuple[Message, ...]:
    """Return the turns that tell the model of its refused answer; calls get it as their result."""
    if not plain.tool_calls:
        told = f"This answer is refused: {refusal.reason}\nAnswer again, with that put right."
        return Message("assistant", refusal.text), Message("user", told)
    told = f"Nothing was called: {refusal.reason}\nCall again, with that put right."
    results = [Message("tool", told, tool_call_id=call.id) for call in plain.tool_calls]
    return plain.message, *results
