"""Constraints in llama-cpp-python.

>>> person = Compiler(tokenizer, num_logits=llama.n_vocab()).compile(Person)
>>> only = LogitsProcessorList([ConstrainedLogits(person, max_tokens=80)])
>>> llama.create_completion("Make up a person.", logits_processor=only, max_tokens=80)

See docs/hosts/llama-cpp-python.md.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.compiler import Compiled
from guided.integrations.one_answer import OneAnswer

__all__ = ["ConstrainedLogits"]


class ConstrainedLogits:
    """Sets the logits of tokens that a constraint does not allow to minus infinity.

    Use one object per answer. Raises the errors of ``OneAnswer``.
    """

    def __init__(self, constraint: Compiled, *, max_tokens: int | None = None) -> None:
        """With ``max_tokens``, the value of the call, an answer ends before it would be cut off."""
        self._answer: Final = OneAnswer(constraint, max_tokens)

    def __call__(
        self, input_ids: NDArray[np.intc], scores: NDArray[np.single]
    ) -> NDArray[np.single]:
        """Return the scores ``[logits]`` of what follows the tokens ``[tokens]``, masked."""
        masked = scores.copy()
        masked[self._answer.forbidden(input_ids, len(scores))] = -np.inf
        return masked
