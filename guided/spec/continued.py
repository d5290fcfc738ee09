"""The constraint on an answer that continues a text.

::

    prompt ....... {"na | me":"Ada"}          the whole fits the constraint
                  begun   | answer

    prompt ....... {" | na me":"Ada"}         healed: the answer's tokens begin with ``respelled``,
                  begun | respelled, answer   which its text leaves out
"""

from __future__ import annotations

from dataclasses import dataclass

from guided.spec.structure import Constraint, Structure, digest_of
from guided.spec.thoughts import AfterThoughts

__all__ = ["Continued", "answer_constraint"]


@dataclass(frozen=True, slots=True)
class Continued(Structure):
    """The rest of a text of a constraint; an engine makes it from a request.

    It depends on how a vocabulary spells the text, so it is never part of another constraint.
    """

    whole: Constraint
    """The constraint of the text with its beginning; ``None`` allows every text."""
    begun: str
    """The beginning, which stands in the prompt."""
    respelled: str
    """What the tokens of the answer spell first; the text of tokens taken off the prompt."""

    def inner(self) -> tuple[Structure, ...]:
        return () if self.whole is None else (self.whole,)

    def digest_over(self, inner: list[str]) -> str:
        return digest_of("continued", (inner, self.respelled), self.begun)


def answer_constraint(constraint: Constraint) -> Constraint:
    """Return the constraint on the text of an answer, ``None`` where that is free."""
    match constraint:
        case AfterThoughts():
            return constraint.answer
        case Continued():
            return constraint.whole
    return constraint
