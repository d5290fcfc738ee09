"""Constraints for ``generate`` in transformers.

>>> prompt = tokenizer("Make up a person.", return_tensors="pt")
>>> person = Compiler(tokenizer).compile(Person)
>>> only = ConstrainedLogits(person, prompt_length=prompt["input_ids"].shape[1])
>>> model.generate(**prompt, logits_processor=[only])

See docs/hosts/transformers.md.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LogitsProcessor

from guided.compiler import Compiled
from guided.compiler.batch import fill_masks
from guided.compiler.matcher import try_advance
from guided.errors import RequestError, UnsupportedFeatureError
from guided.integrations.compiled_constraint import compiled_constraint
from guided.masks.compiled import ConstraintMatcher
from guided.masks.mask_delta import MaskDelta

__all__ = ["ConstrainedLogits"]

_KEPT_A_ROW: Final = 32
"""Answers remembered per row; drafts are processed twice, by the drafter and by the model."""


class ConstrainedLogits(LogitsProcessor):
    """Sets the logits of tokens that a constraint does not allow to minus infinity.

    The mask of a row depends only on the tokens of that row. So rows may be reordered, duplicated
    and cut, as beam search and assisted generation do. A row that has ended, or that other code
    made leave the constraint, may only end.
    """

    def __init__(
        self,
        constraints: Compiled | Sequence[Compiled],
        *,
        prompt_length: int,
        max_new_tokens: int | None = None,
    ) -> None:
        """One constraint for all prompts, or one for each.

        ``prompt_length`` is the length of the rows given to ``generate``, including padding, which
        must be on the left; it is 1 for a decoder after an encoder. The first call refuses other
        rows (RequestError). With ``max_new_tokens``, the value given to ``generate``, answers end
        before they would be cut off; a constraint without an answer that short is refused
        (LimitExceededError), and so is one that is not compiled (RequestError).
        """
        # Types may be iterable, too, and a schema's text is a sequence.
        if isinstance(constraints, Sequence) and not isinstance(constraints, str):
            compiled = [compiled_constraint(each) for each in constraints]
        else:
            compiled = [compiled_constraint(constraints)]
        if len({id(each.vocabulary) for each in compiled}) != 1:
            raise RequestError(
                f"{len(compiled)} constraints are given, not all of one compiler",
                field="constraints",
                hint="give one or more, compiled by the same Compiler",
            )
        matchers = [each.matcher() for each in compiled]
        for matcher in matchers:
            matcher._mask(max_new_tokens)  # raises here, not during generation
        self._starts = [matcher._position for matcher in matchers]
        self._ends: Final = matchers[0]._end_mask
        self._num_tokens: Final = len(compiled[0].vocabulary)
        self._prompt_length = prompt_length
        self._max_new_tokens = max_new_tokens
        self._known: OrderedDict[_Answer, ConstraintMatcher | None] = OrderedDict()
        self._has_begun = False

    @property
    def supports_continuous_batching(self) -> bool:  # type: ignore[override]
        """Raises UnsupportedFeatureError: a processor that returned False would be dropped, and
        answers would be unconstrained."""
        raise UnsupportedFeatureError(
            "continuous batching of transformers shows a processor no row from its beginning",
            hint="call generate(), or let `guided serve` batch requests",
        )

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the masked scores ``[rows, logits]`` of what follows ``[rows, tokens]``."""
        num_rows, logits = scores.shape
        self._check(num_rows, input_ids.shape[1], logits)
        answers = input_ids[:, self._prompt_length :].tolist()
        masks = [
            self._mask((row * len(self._starts) // num_rows, tuple(answer)))
            for row, answer in enumerate(answers)
        ]
        while len(self._known) > _KEPT_A_ROW * num_rows:
            self._known.popitem(last=False)
        bitmask = np.zeros((num_rows, (logits + 31) // 32), dtype=np.int32)
        fill_masks(masks, bitmask, np.arange(num_rows))
        forbidden = ~_bits(bitmask, logits, scores.device)
        return scores.masked_fill(forbidden, -torch.inf)

    def _check(self, num_rows: int, length: int, logits: int) -> None:
        """Raise RequestError for rows that belong to no prompts, and for too few logits."""
        # The first call must see only the prompts: longer rows would be taken for answers that have
        # left the constraint, and those may only end.
        is_short = length < self._prompt_length
        is_long = not self._has_begun and length > self._prompt_length
        if is_short or is_long or num_rows % len(self._starts):
            raise RequestError(
                f"{num_rows} rows of {length} tokens do not go with {len(self._starts)} "
                f"constraints and prompts of {self._prompt_length} tokens",
                field="prompt_length",
                hint="make a ConstrainedLogits for each call of generate",
            )
        if logits < self._num_tokens:
            raise RequestError(
                f"the model has {logits} logits, and the vocabulary {self._num_tokens} tokens",
                field="constraints",
                hint=f"make the Compiler with num_logits={logits}",
            )
        self._has_begun = True

    def _mask(self, answer: _Answer) -> MaskDelta:
        at = self._position(answer)
        if at is None:
            return self._ends
        if self._max_new_tokens is None:
            return at.constraint.mask(at.position)
        within = at.mask_within(max(self._max_new_tokens - len(answer[1]), 0))
        return MaskDelta(within, np.empty((0, 2), dtype=np.int32))

    def _position(self, answer: _Answer) -> ConstraintMatcher | None:
        """Return and remember the position of an answer, ``None`` after its end."""
        number, tokens = answer
        if answer in self._known:
            self._known.move_to_end(answer)
            return self._known[answer]
        # Usually only the last token is new; otherwise all are processed again.
        before = number, tokens[:-1]
        known = before in self._known
        at = self._known[before] if known else self._starts[number]
        for token in tokens[-1:] if known else tokens:
            if at is None:
                break
            at = try_advance(at, token)
        self._known[answer] = at
        return at


_Answer = tuple[int, tuple[int, ...]]
"""The number of the constraint, and the tokens after the prompt."""


def _bits(bitmask: NDArray[np.int32], logits: int, device: torch.device) -> torch.Tensor:
    """Unpack masks to bool ``[rows, logits]``; they are packed while they are moved."""
    packed = torch.from_numpy(bitmask.view(np.uint8)).to(device)
    places = torch.arange(8, device=device, dtype=torch.uint8)
    return ((packed[:, :, None] >> places) & 1).bool().flatten(1)[:, :logits]
