"""xgrammar, by its compiled grammars."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch
import xgrammar

from benchmarks.peers.adapter import Adapter, Matcher, Tokenizer

__all__ = ["Xgrammar"]


class Xgrammar(Adapter):
    """xgrammar without its strict mode, which refuses members and items that no keyword names."""

    name = "xgrammar"
    package = "xgrammar"

    def build(self, tokenizer: Tokenizer) -> None:
        super().build(tokenizer)
        torch.set_num_threads(1)
        self._tokens = xgrammar.TokenizerInfo.from_huggingface(
            tokenizer.hf, vocab_size=tokenizer.vocab_size
        )
        self.bits = torch.from_numpy(self.words.view(np.int32).reshape(1, -1))

    def attach(self) -> None:
        self._compiler = xgrammar.GrammarCompiler(self._tokens, max_threads=1)

    def compile(self, schema: Any) -> Matcher:
        space: dict[str, Any] = {"any_whitespace": True}
        if self.compact:
            space = {"any_whitespace": False, "separators": (",", ":")}
        compiled = self._compiler.compile_json_schema(
            json.dumps(schema), strict_mode=False, **space
        )
        return _Matcher(self, compiled)


class _Matcher(Matcher):
    def __init__(self, adapter: Xgrammar, compiled: Any) -> None:
        self._encode, self._bits = adapter.tokenizer.encode, adapter.bits
        self._compiled = compiled
        self.reset()

    def reset(self) -> None:
        self._at = xgrammar.GrammarMatcher(self._compiled)

    def mask(self) -> None:
        # Always written, also where the engine says that it need not be applied.
        self._at.fill_next_token_bitmask(self._bits)

    def accept(self, token: int) -> bool:
        return bool(self._at.accept_token(token))

    def is_accepting(self) -> bool:
        return bool(self._at.is_completed())

    def forced(self) -> list[int]:
        text = self._at.find_jump_forward_string()
        return self._encode(text) if text else []
