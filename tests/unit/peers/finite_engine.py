"""An engine whose schemas list the texts that they accept, and the ways in which it fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.peers.adapter import Adapter, Matcher

__all__ = ["Bytes", "FiniteEngine", "Panic"]

_END = 256


class Panic(BaseException):
    """As Rust's panics are in Python."""


class Bytes:
    """A token for each byte but the question mark, which is spelt wrong, and one for the end."""

    hf = None
    vocab_size = 257
    eos_id = _END

    def encode(self, text: str) -> list[int]:
        return [*text.encode()]

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        return bytes(ids).replace(b"?", b"!")


class FiniteEngine(Adapter):
    """Its schema is ``{"texts": [...]}``; other members name what fails, where it does."""

    name = "finite"
    package = "no-such-package"

    def compile(self, schema: Any) -> Matcher:
        if "refused" in schema:
            raise schema["refused"]
        return _Matcher(self, schema)


class _Matcher(Matcher):
    def __init__(self, adapter: FiniteEngine, schema: dict[str, Any]) -> None:
        self._words = adapter.words
        self._schema = schema
        self._texts = [text.encode() for text in schema.get("texts", ())]
        self._at = b""

    def reset(self) -> None:
        self._at = b""

    def mask(self) -> None:
        if self._at.decode() in self._schema.get("fails_at", ()):
            raise Panic("index out of bounds")
        self._words[:] = 0
        for token in self._next():
            self._words[token // 32] |= 1 << token % 32

    def accept(self, token: int) -> bool:
        self._at += bytes([token])
        return self._at.decode() not in self._schema.get("lies_at", ())

    def is_accepting(self) -> bool:
        return self._at in self._texts

    def forced(self) -> list[int]:
        if "forced" in self._schema and not self._at:
            return [*self._schema["forced"].encode()]
        return []

    def error(self) -> str | None:
        at = self._at.decode()
        return "out of fuel" if at in self._schema.get("out_of_fuel_at", ()) else None

    def _next(self) -> Iterator[int]:
        for text in self._texts:
            if text == self._at:
                yield _END
            elif text.startswith(self._at):
                yield text[len(self._at)]
