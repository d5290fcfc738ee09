"""Watches an answer as it comes about: reports after each step what was added."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from guided.decoding.trace import Trace
from guided.inspection.branches import Branch, about, tree_of
from guided.inspection.origins import OriginReader, TracedToken
from guided.inspection.texts import printable
from guided.masks.vocabulary import Vocabulary

__all__ = ["DrawnStep", "News", "Watcher"]


@dataclass(frozen=True, slots=True)
class DrawnStep:
    """A model call with its draft tree."""

    number: int
    """From 1."""
    about: str
    tree: Branch


@dataclass(frozen=True, slots=True)
class News:
    """What was added since the last report."""

    tokens: tuple[tuple[TracedToken, str], ...]
    """Each token with the characters that it completes; together they are the answer's text."""
    steps: tuple[DrawnStep, ...]


class Watcher:
    """Follows the trace of one request; its work is little compared with a step."""

    def __init__(self, trace: Trace, vocabulary: Vocabulary) -> None:
        self._trace = trace
        self._vocabulary = vocabulary
        self._origins = OriginReader(trace, vocabulary.token_bytes)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._tokens: list[TracedToken] = []
        self._steps = 0

    def news(self, *, is_ended: bool = False) -> News | None:
        """Return what was added since the last call, if anything; ``is_ended`` on the last."""
        answer, told = self._trace.answer, len(self._tokens)
        if answer is None:
            return None
        tokens = answer.answer_since(told)
        self._tokens += self._origins.read(tokens, answer.token_logprobs(self._vocabulary, told))
        steps = tuple(self._drawn(number) for number in range(self._steps, len(self._trace.steps)))
        self._steps += len(steps)
        if not tokens and not steps:
            return None
        added = self._tokens[told:]
        texts = [self._decoder.decode(token.text) for token in added]
        if is_ended and texts:
            texts[-1] += self._decoder.decode(b"", final=True)
        return News(tuple(zip(added, map(printable, texts), strict=True)), steps)

    def _drawn(self, index: int) -> DrawnStep:
        step = self._trace.steps[index]
        return DrawnStep(index + 1, about(step), tree_of(step, self._vocabulary, self._tokens))
