"""One answer of a host that passes a processor all tokens at each step, including the prompt.

llama-cpp-python, mlx-lm and transformers call processors in this way. In transformers rows may come
in any order (``transformers.py``); here each call continues where the last one ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.compiler import Compiled
from guided.errors import RequestError
from guided.integrations.compiled_constraint import compiled_constraint
from guided.integrations.hosted_matcher import HostedMatcher

__all__ = ["OneAnswer"]


class OneAnswer:
    """Decides what may come next; the tokens of its first call are the prompt."""

    def __init__(self, constraint: Compiled, max_tokens: int | None = None) -> None:
        """With ``max_tokens``, end included, an answer ends before it would be cut off.

        Raises RequestError for a constraint that is not compiled.
        """
        constraint = compiled_constraint(constraint)
        self._ends: Final = sorted(constraint.vocabulary.end_ids)
        self._num_tokens: Final = len(constraint.vocabulary)
        self._matcher: Final = HostedMatcher(constraint.matcher(), self._ends)
        if max_tokens is not None:
            self._matcher.end_within(max_tokens)
        self._num_seen: int | None = None

    def forbidden(
        self, tokens: Sequence[int] | NDArray[np.integer], num_logits: int
    ) -> NDArray[np.bool_]:
        """Return which tokens may not come next, bool ``[num_logits]``.

        ``tokens`` are the prompt and the answer so far; each call's begin with those of the last.
        Raises RequestError if they do not, for a token that the constraint did not allow, and for
        fewer logits than tokens.
        """
        if num_logits < self._num_tokens:
            raise RequestError(
                f"the model has {num_logits} logits, and the vocabulary {self._num_tokens} tokens",
                field="constraint",
                hint=f"make the Compiler with num_logits={num_logits}",
            )
        self._follow(tokens)
        words = np.zeros((1, (num_logits + 31) // 32), dtype=np.int32)
        if self._matcher.is_terminated:
            forbidden = np.ones(num_logits, dtype=np.bool_)
            forbidden[self._ends] = False
            return forbidden
        self._matcher.fill(words, 0)
        allowed = np.unpackbits(words.view(np.uint8), bitorder="little")[:num_logits]
        return ~allowed.astype(np.bool_)

    def _follow(self, tokens: Sequence[int] | NDArray[np.integer]) -> None:
        """Move over the new tokens."""
        if self._num_seen is not None:
            new = [int(token) for token in tokens[self._num_seen :]]
            if len(tokens) < self._num_seen or not self._matcher.accept(new):
                raise RequestError(
                    f"{len(tokens)} tokens do not go on from the {self._num_seen} before within the"
                    " constraint",
                    field="tokens",
                    hint="make a processor for each answer, and let it be the last of all",
                )
        self._num_seen = len(tokens)
