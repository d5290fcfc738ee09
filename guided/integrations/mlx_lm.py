"""Constraints in mlx-lm.

>>> person = Compiler(tokenizer._tokenizer, num_logits=model.args.vocab_size).compile(Person)
>>> only = ConstrainedLogits(person, max_tokens=80)
>>> generate(model, tokenizer, "Make up a person.", logits_processors=[only], max_tokens=80)

See docs/hosts/mlx-lm.md.
"""

from __future__ import annotations

from typing import Any, Final

import mlx.core as mx
import numpy as np

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

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """Return mlx's logits ``[1, logits]`` of what follows the tokens ``[tokens]``, masked."""
        forbidden = self._answer.forbidden(np.array(tokens), logits.shape[-1])
        return mx.where(mx.array(forbidden), -mx.inf, logits)
