"""How much a request lets the model think before it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from guided.errors import RequestError
from guided.spec.option import Option, at_least, check_rules

__all__ = ["Reasoning"]

_LONGEST: Final = 1024
"""Characters of what thoughts begin or end with."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The model thinks before it answers; its thoughts are no part of the answer."""

    max_tokens: Annotated[
        int | None, Option("Budget of the thoughts, a part of that of the answer.", at_least(0))
    ] = None
    """Tokens, without those of ``begin`` and ``end``; ``None``: half of the request's budget.

    With 0 the model does not think: a chat template that knows both ways is told so, of others the
    thoughts end at once, and one that knows no thoughts is as it is.
    """
    begin: str = ""
    """What the thoughts begin with, as a part of the prompt; empty: as the chat template has it,
    or nothing where it knows no thoughts."""
    end: str = ""
    """What they end with, written by the model or, at the end of their budget, for it; empty: as
    the chat template has it. Names of special tokens in both are those tokens."""

    @property
    def is_off(self) -> bool:
        """Whether the chat template is to let the model answer without thoughts."""
        return self.max_tokens == 0 and not self.begin and not self.end

    def __post_init__(self) -> None:
        check_rules(self, "reasoning.")
        for name, text in (("begin", self.begin), ("end", self.end)):
            if not isinstance(text, str) or len(text) > _LONGEST:
                raise RequestError(
                    f"{name} {text!r:.80} is no text of at most {_LONGEST} characters",
                    field=f"reasoning.{name}",
                )
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise RequestError(
                    f"{name} {text!r:.80} holds a surrogate, which is half of a character",
                    field=f"reasoning.{name}",
                ) from error
        if self.begin and not self.end:
            raise RequestError(
                "begin is given without end, by which thoughts are told from the answer",
                field="reasoning.end",
                hint="give both, or neither",
            )
