"""llguidance, by its matchers."""

from __future__ import annotations

import json
from typing import Any

import llguidance
import llguidance.hf

from benchmarks.peers.adapter import Adapter, Matcher, Tokenizer

__all__ = ["Llguidance"]

_COMPACT = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}


class Llguidance(Adapter):
    """llguidance with its settings for plain JSON Schema."""

    name = "llguidance"
    package = "llguidance"

    def build(self, tokenizer: Tokenizer) -> None:
        super().build(tokenizer)
        self._tokens = llguidance.hf.from_tokenizer(tokenizer.hf, n_vocab=tokenizer.vocab_size)

    def compile(self, schema: Any) -> Matcher:
        """Return the matcher of a schema; raises ValueError with the engine's complaint."""
        if self.compact:
            grammar = llguidance.LLMatcher.grammar_from_json_schema(
                json.dumps(schema), overrides=_COMPACT
            )
        else:
            grammar = json.dumps({"grammars": [{"json_schema": schema}]})
        first = llguidance.LLMatcher(self._tokens, grammar, log_level=0)
        if first.is_error():
            raise ValueError(first.get_error())
        return _Matcher(self, first)


class _Matcher(Matcher):
    def __init__(self, adapter: Adapter, first: Any) -> None:
        self._place, self._size = adapter.words.ctypes.data, adapter.words.nbytes
        self._first = first
        self.reset()

    def reset(self) -> None:
        self._at = self._first.deep_copy()

    def mask(self) -> None:
        self._at.unsafe_compute_mask_ptr(self._place, self._size)

    def accept(self, token: int) -> bool:
        return bool(self._at.consume_token(token))

    def is_accepting(self) -> bool:
        return bool(self._at.is_accepting())

    def forced(self) -> list[int]:
        return list(self._at.compute_ff_tokens())

    def error(self) -> str | None:
        return str(self._at.get_error()) if self._at.is_error() else None
