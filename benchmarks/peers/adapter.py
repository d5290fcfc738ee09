"""What an engine brings to be measured: an adapter, and the matchers of its schemas."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar, Protocol

import numpy as np

__all__ = ["Adapter", "Matcher", "Tokenizer", "serialise"]


class Tokenizer(Protocol):
    """A tokenizer that knows the bytes of its tokens."""

    hf: Any
    """The tokenizer as transformers has it."""
    vocab_size: int
    """Tokens, those that were added included."""
    eos_id: int

    def encode(self, text: str) -> list[int]: ...
    def decode_bytes(self, ids: Sequence[int]) -> bytes: ...


class Matcher(ABC):
    """A position in a document, moved in place."""

    @abstractmethod
    def reset(self) -> None:
        """Go back to the beginning."""

    @abstractmethod
    def mask(self) -> None:
        """Write the mask of the next token into the adapter's ``words``."""

    @abstractmethod
    def accept(self, token: int) -> bool:
        """Move past a token; false where it is refused."""

    @abstractmethod
    def is_accepting(self) -> bool:
        """Say whether the document may end here."""

    def forced(self) -> list[int]:
        """Return the tokens that the schema forces from here, as far as the engine knows."""
        return []

    def error(self) -> str | None:
        """Return why the matcher is of no use any more; looked up outside of all clocks."""
        return None


class Adapter(ABC):
    """An engine with one tokenizer.

    ``compact`` requests JSON without white space between tokens; it is free otherwise.
    """

    name: ClassVar[str]
    package: ClassVar[str]
    """The distribution whose version is reported."""

    def __init__(self, compact: bool = False) -> None:
        self.compact = compact

    def version(self) -> str:
        """Return the version of the engine's package."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return "?"

    def build(self, tokenizer: Tokenizer) -> None:
        """Prepare for a tokenizer, once; no threads may be started, as workers are forked then."""
        self.tokenizer = tokenizer
        # [ceil(vocabulary / 32)]: bit t % 32 of word t // 32 is set if token t is allowed.
        self.words = np.zeros((tokenizer.vocab_size + 31) // 32, dtype=np.uint32)

    def attach(self) -> None:  # noqa: B027 - most engines have nothing to do
        """Prepare in each worker, after the fork."""

    @abstractmethod
    def compile(self, schema: Any) -> Matcher:
        """Return the matcher of a parsed schema, or raise where the schema is refused."""

    def allows(self, token: int) -> bool:
        """Say whether the mask that was written last has this token."""
        return bool(int(self.words[token >> 5]) >> (token & 31) & 1)


def serialise(value: Any, compact: bool = False) -> str:
    """Return a document as it is walked: with a blank after commas and colons, or compact."""
    separators = (",", ":") if compact else (", ", ": ")
    text = json.dumps(value, ensure_ascii=False, separators=separators)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(value, separators=separators)
    return text
