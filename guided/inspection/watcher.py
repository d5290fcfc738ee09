"""Follows an answer while it is generated: returns after each step what was added."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from guided.decoding.trace import Trace
from guided.inspection.branches import Branch, branch_tree, step_summary
from guided.inspection.origins import OriginReader, TracedToken
from guided.inspection.texts import escape_controls
from guided.masks.vocabulary import Vocabulary

__all__ = ["StepDrawing", "Update", "Watcher"]


@dataclass(frozen=True, slots=True)
class StepDrawing:
    """A model call and its draft tree, for display."""

    number: int
    """From 1."""
    summary: str
    tree: Branch


@dataclass(frozen=True, slots=True)
class Update:
    """What was added to an answer since the last update."""

    tokens: tuple[tuple[TracedToken, str], ...]
    """Each token with the characters that it completes; together they are the answer's text."""
    steps: tuple[StepDrawing, ...]


class Watcher:
    """Reads the trace of one request as it grows; cheap compared with a step."""

    def __init__(self, trace: Trace, vocabulary: Vocabulary) -> None:
        self._trace = trace
        self._vocabulary = vocabulary
        self._origins = OriginReader(trace, vocabulary.token_bytes)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._tokens: list[TracedToken] = []
        self._num_steps = 0

    def read_update(self, *, is_ended: bool = False) -> Update | None:
        """Return what was added since the last call, if anything; ``is_ended`` on the last."""
        answer, num_reported = self._trace.answer, len(self._tokens)
        if answer is None:
            return None
        tokens = answer.answer_since(num_reported)
        logprobs = answer.token_logprobs(self._vocabulary, num_reported)
        self._tokens += self._origins.read(tokens, logprobs)
        new = range(self._num_steps, len(self._trace.steps))
        steps = tuple(map(self._draw_step, new))
        self._num_steps += len(steps)
        if not tokens and not steps:
            return None
        added = self._tokens[num_reported:]
        texts = [self._decoder.decode(token.text) for token in added]
        if is_ended and texts:
            texts[-1] += self._decoder.decode(b"", final=True)
        return Update(tuple(zip(added, map(escape_controls, texts), strict=True)), steps)

    def _draw_step(self, index: int) -> StepDrawing:
        step = self._trace.steps[index]
        tree = branch_tree(step, self._vocabulary, self._tokens)
        return StepDrawing(index + 1, step_summary(step), tree)
