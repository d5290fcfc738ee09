"""Thoughts before an answer: how models write them, and what becomes of them and the answer.

::

    prompt ......... <think>⏎ | thoughts ......... </think>⏎⏎ | answer ........
                      begin   |  at most so many     end      |  what the constraint says
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from guided.spec.composition import Sequence, Text
from guided.spec.special_token import SpecialToken
from guided.spec.structure import Constraint, Structure, digest_of
from guided.spec.tagged import FreeText, Until

__all__ = ["FORMATS", "AfterThoughts", "ReasoningFormat", "pieces_of"]


@dataclass(frozen=True, slots=True)
class ReasoningFormat:
    """What stands around thoughts."""

    name: str
    sign: str
    """What chat templates have in them that know the format."""
    begin: str
    end: str
    answer: str = ""
    """What an answer begins with, after thoughts and without them."""
    is_asked_for: bool = False
    """Whether the model thinks only where its prompt says so."""


FORMATS: Final[tuple[ReasoningFormat, ...]] = (
    ReasoningFormat(
        name="harmony",
        sign="<|channel|>analysis<|message|>",
        begin="<|channel|>analysis<|message|>",
        end="<|end|><|start|>assistant",
        answer="<|channel|>final<|message|>",
    ),
    ReasoningFormat(name="think", sign="</think>", begin="<think>\n", end="</think>\n\n"),
    ReasoningFormat(name="magistral", sign="[/THINK]", begin="[THINK]", end="[/THINK]"),
    ReasoningFormat(
        name="command",
        sign="<|END_THINKING|>",
        begin="<|START_THINKING|>",
        end="<|END_THINKING|>",
    ),
    ReasoningFormat(
        name="gemma",
        sign="<|channel>thought",
        begin="<|channel>thought\n",
        end="<channel|>",
        is_asked_for=True,
    ),
)
"""Of gpt-oss; of Qwen 3, DeepSeek R1, SmolLM 3 and many others; of Magistral; of Command; of Gemma
4."""


@dataclass(frozen=True, slots=True)
class AfterThoughts(Structure):
    """Thoughts, and after them a text of a constraint; what an engine makes of a request.

    It counts tokens, which grammars know nothing of, so it stands in no other constraint.
    """

    end: tuple[Text | SpecialToken, ...]
    """What ends the thoughts; not empty."""
    answer: Constraint
    max_tokens: int
    """Of the thoughts, without what ends them."""

    @property
    def thoughts(self) -> Structure:
        """Any text up to the first that ends it, and with that.

        No thought has a special token in it, so an end that has one is told by that token, however
        often the text before the token stands in the thoughts.
        """
        match self.end:
            case (Text(text),):
                return Until(text)
        return Sequence([FreeText(), *self.end])

    def inner(self) -> tuple[Structure, ...]:
        return (self.thoughts,) if self.answer is None else (self.thoughts, self.answer)

    def digest_over(self, inner: list[str]) -> str:
        thoughts, *answer = inner
        held = answer[0] if answer else ""
        return digest_of("after_thoughts", (thoughts, held, self.max_tokens))


def pieces_of(text: str, named: Mapping[str, object]) -> tuple[Text | SpecialToken, ...]:
    """A text cut at the names of special tokens, which are those tokens."""
    pieces: list[Text | SpecialToken] = []
    # The longest first: one name may begin with another.
    names = sorted((name for name in named if name and name in text), key=len, reverse=True)
    at = begun = 0
    while at < len(text):
        name = next((name for name in names if text.startswith(name, at)), None)
        if name is None:
            at += 1
            continue
        if begun < at:
            pieces.append(Text(text[begun:at]))
        pieces.append(SpecialToken(name))
        at = begun = at + len(name)
    if begun < at:
        pieces.append(Text(text[begun:]))
    return tuple(pieces)
