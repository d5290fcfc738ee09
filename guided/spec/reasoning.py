"""How much the model thinks before it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from guided.errors import RequestError
from guided.spec.option import Option, at_least, check_characters, check_kind, check_rules

__all__ = ["Reasoning"]

_LONGEST: Final = 1024
"""Most characters of the texts that begin and end thoughts."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The model thinks before it answers; its thoughts are no part of the answer."""

    max_tokens: Annotated[
        int | None, Option("Budget of the thoughts, part of the answer's budget.", at_least(0))
    ] = None
    """In tokens, without those of ``begin`` and ``end``; ``None``: half of the request's budget.

    With 0 the model does not think: a chat template that supports both modes is set so; with other
    thinking templates the thoughts end at once, and a template without thoughts stays as it is.
    """
    begin: str = ""
    """The text that begins the thoughts, a part of the prompt; empty: that of the chat template, or
    none if it has no thoughts."""
    end: str = ""
    """The text that ends the thoughts, written by the model or, when their budget ends, inserted
    for it; empty: that of the chat template. Names of special tokens in both mean those tokens."""

    @property
    def is_off(self) -> bool:
        """Whether the chat template should let the model answer without thoughts."""
        return self.max_tokens == 0 and not self.begin and not self.end

    def __post_init__(self) -> None:
        if self.max_tokens is not None:
            check_kind(self.max_tokens, int, "reasoning.max_tokens")
        check_rules(self, "reasoning.")
        for name, text in (("begin", self.begin), ("end", self.end)):
            if not isinstance(text, str) or len(text) > _LONGEST:
                raise RequestError(
                    f"{name} {text!r:.80} is no text of at most {_LONGEST} characters",
                    field=f"reasoning.{name}",
                )
            check_characters(text, name, f"reasoning.{name}")
        if self.begin and not self.end:
            raise RequestError(
                "begin is given without end, by which thoughts are told from the answer",
                field="reasoning.end",
                hint="give both, or neither",
            )
