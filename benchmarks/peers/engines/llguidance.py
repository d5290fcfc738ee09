"""llguidance, by its matchers."""

from __future__ import annotations

import json
from typing import Any

import llguidance
import llguidance.hf

from benchmarks.peers.adapter import Adapter, Matcher, Tokenizer

__all__ = ["Llguidance", "matcher_of"]

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
        return _Matcher(self, matcher_of(self._tokens, schema, compact=self.compact))


def matcher_of(tokens: Any, schema: Any, *, compact: bool) -> Any:
    """Return llguidance's own matcher of a schema; raises ValueError with its complaint."""
    if compact:
        grammar = llguidance.LLMatcher.grammar_from_json_schema(
            json.dumps(schema), overrides=_COMPACT
        )
    else:
        grammar = json.dumps({"grammars": [{"json_schema": schema}]})
    matcher = llguidance.LLMatcher(tokens, grammar, log_level=0)
    if matcher.is_error():
        raise ValueError(matcher.get_error())
    return matcher


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
