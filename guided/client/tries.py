"""Tries at one answer, the reason of each refusal told to the model before the next.

::

    user: Invent a person.              the request
    assistant: {"age": -1}              an answer of its schema
    user: … age: negative …             what the type says of it, in the request that follows
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
"""Characters of a request's name that the names of its later tries begin with."""


class Tries(Generic[T]):
    """What is asked for until the answer's type takes it, or no try is left."""

    def __init__(self, request: Request[T]) -> None:
        self.request = request
        """What is to be asked now."""
        self._spent: list[Usage] = []

    def read(self, plain: Answer[str]) -> Answer[T] | None:
        """The answer, with what all tries cost; ``None`` where ``request`` has to be asked next.

        Raises AnswerValidationError, with that cost too, for a refused answer to the last try.
        """
        self._spent.append(plain.usage)
        usage, tries = Usage.total(self._spent), len(self._spent)
        try:
            answer = self.request.read(plain)
        except AnswerValidationError as refusal:
            if not self.request.max_retries:
                refusal.usage, refusal.tries = usage, tries
                raise
            self.request = _after(self.request, refusal)
            return None
        return replace(answer, usage=usage, tries=tries)

    def name(self, first: str) -> str:
        """The name of the request to be asked now, by that of the first."""
        return f"{first[:_MOST_NAME]}/{len(self._spent) + 1}" if self._spent else first


def _after(request: Request[T], refusal: AnswerValidationError) -> Request[T]:
    """The request again, with the answer that was refused and the reason."""
    asked = request.specification.prompt
    assert not isinstance(asked, str), "a request that may be tried again has messages"
    told = f"This answer is refused: {refusal.reason}\nAnswer again, with that put right."
    prompt = (*asked, Message("assistant", refusal.text), Message("user", told))
    # Options are fields that checkers do not see.
    changes: dict[str, Any] = {"prompt": prompt, "max_retries": request.max_retries - 1}
    return replace(request, **changes)
