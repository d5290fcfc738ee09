"""How models write thoughts before an answer, and the constraint on both.

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

__all__ = ["FORMATS", "AfterThoughts", "ReasoningFormat", "split_at_tokens"]


@dataclass(frozen=True, slots=True)
class ReasoningFormat:
    """The texts around thoughts."""

    name: str
    template_marker: str
    """A text that chat templates of this format contain."""
    begin: str
    end: str
    answer: str = ""
    """The beginning of an answer, with or without thoughts before it."""
    is_opt_in: bool = False
    """Whether the model thinks only if its prompt says so."""


FORMATS: Final[tuple[ReasoningFormat, ...]] = (
    ReasoningFormat(
        name="harmony",
        template_marker="<|channel|>analysis<|message|>",
        begin="<|channel|>analysis<|message|>",
        end="<|end|><|start|>assistant",
        answer="<|channel|>final<|message|>",
    ),
    ReasoningFormat(
        name="think", template_marker="</think>", begin="<think>\n", end="</think>\n\n"
    ),
    ReasoningFormat(name="magistral", template_marker="[/THINK]", begin="[THINK]", end="[/THINK]"),
    ReasoningFormat(
        name="command",
        template_marker="<|END_THINKING|>",
        begin="<|START_THINKING|>",
        end="<|END_THINKING|>",
    ),
    ReasoningFormat(
        name="gemma",
        template_marker="<|channel>thought",
        begin="<|channel>thought\n",
        end="<channel|>",
        is_opt_in=True,
    ),
)
"""Of gpt-oss; of Qwen 3, DeepSeek R1, SmolLM 3 and many others; of Magistral; of Command; of Gemma
4."""


@dataclass(frozen=True, slots=True)
class AfterThoughts(Structure):
    """Thoughts followed by a text of a constraint; an engine makes it from a request.

    It counts tokens, which grammars cannot, so it is never part of another constraint.
    """

    end: tuple[Text | SpecialToken, ...]
    """The end of the thoughts; not empty."""
    answer: Constraint
    max_tokens: int
    """Most tokens of the thoughts, without their end."""

    @property
    def thoughts(self) -> Structure:
        """The constraint of the thoughts: any text up to and including the first end.

        Thoughts contain no special token, so an end with a special token is recognised by that
        token, however often the text before it occurs in the thoughts.
        """
        match self.end:
            case (Text(text),):
                return Until(text)
        return Sequence([FreeText(), *self.end])

    def inner(self) -> tuple[Structure, ...]:
        return (self.thoughts,) if self.answer is None else (self.thoughts, self.answer)

    def digest_over(self, inner: list[str]) -> str:
        thoughts, *answer = inner
        answer_digest = answer[0] if answer else ""
        return digest_of("after_thoughts", (thoughts, answer_digest, self.max_tokens))


def split_at_tokens(text: str, named: Mapping[str, object]) -> tuple[Text | SpecialToken, ...]:
    """Split a text at the names of special tokens, which become those tokens."""
    pieces: list[Text | SpecialToken] = []
    # The longest first: one name may begin with another.
    names = sorted((name for name in named if name and name in text), key=len, reverse=True)
    position = start = 0
    while position < len(text):
        name = next((name for name in names if text.startswith(name, position)), None)
        if name is None:
            position += 1
            continue
        if start < position:
            pieces.append(Text(text[start:position]))
        pieces.append(SpecialToken(name))
        position = start = position + len(name)
    if start < position:
        pieces.append(Text(text[start:]))
    return tuple(pieces)
