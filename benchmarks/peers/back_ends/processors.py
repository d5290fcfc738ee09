"""The masks of xgrammar and llguidance as logits processors of transformers."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

__all__ = ["LlguidanceMasks", "Masks", "XgrammarMasks"]


class Masks(ABC):
    """An engine that masks logits, built for a tokenizer and a number of logits."""

    @abstractmethod
    def compile(self, schema: dict[str, Any]) -> Any:
        """Return what the engine makes of a schema, for one answer in compact JSON."""

    @abstractmethod
    def processor(self, compiled: Sequence[Any]) -> Any:
        """Return the logits processor of a batch, with what was compiled for each row."""


class XgrammarMasks(Masks):
    """xgrammar's own processor, with its default settings but for white space."""

    def __init__(self, tokenizer: Any, width: int, threads: int) -> None:
        import xgrammar

        tokens = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=width)
        self._compiler = xgrammar.GrammarCompiler(tokens, max_threads=threads)

    def compile(self, schema: dict[str, Any]) -> Any:
        return self._compiler.compile_json_schema(
            json.dumps(schema), strict_mode=True, any_whitespace=False, separators=(",", ":")
        )

    def processor(self, compiled: Sequence[Any]) -> Any:
        from xgrammar.contrib.hf import LogitsProcessor

        return LogitsProcessor([*compiled])


class LlguidanceMasks(Masks):
    """llguidance's matchers, one for each row of a batch."""

    def __init__(self, tokenizer: Any, width: int) -> None:
        import llguidance.hf

        self.width = width
        self.tokens = llguidance.hf.from_tokenizer(tokenizer, n_vocab=width)

    def compile(self, schema: dict[str, Any]) -> Any:
        from benchmarks.peers.engines.llguidance import matcher_of

        return matcher_of(self.tokens, schema, compact=True)

    def processor(self, compiled: Sequence[Any]) -> Any:
        return _LlguidanceProcessor(self, compiled)


class _LlguidanceProcessor:
    def __init__(self, masks: LlguidanceMasks, matchers: Sequence[Any]) -> None:
        import llguidance.numpy

        self._of = llguidance.numpy
        self._matchers = matchers
        self._mask = self._of.allocate_token_bitmask(len(matchers), masks.width)
        self._end = masks.tokens.eos_token
        self._is_first = True
        self._is_done = [False] * len(matchers)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Move each row past its last token and mask its scores, ``[rows, width]``."""
        if not self._is_first:
            for row, token in enumerate(input_ids[:, -1].tolist()):
                if self._is_done[row]:
                    continue
                if token == self._end:
                    self._is_done[row] = True
                elif not self._matchers[row].consume_token(token):
                    raise RuntimeError(self._matchers[row].get_error())
        self._is_first = False
        for row, matcher in enumerate(self._matchers):
            if not self._is_done[row]:
                self._of.fill_next_token_bitmask(matcher, self._mask, row)
        self._of.apply_token_bitmask_inplace(scores.numpy(), self._mask)
        return scores
