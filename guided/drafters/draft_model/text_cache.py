"""The texts that a draft model has read, as many as its cache holds.

A sequence holds pages of the cache from its first draft on. If pages are short, the sequences that
drafted longest ago release theirs, and are read again when they draft next, except for what the
prefix index still knows of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from guided.drafters.draft_model.read_text import ReadText
from guided.kv.block_cache import BlockCache
from guided.kv.reservation import SlotCopies
from guided.model.runner import ModelRunner
from guided.spec import TokenId

__all__ = ["TextCache"]


class TextCache:
    """Finds the text that was read of each sequence; any object may name a sequence."""

    def __init__(self, runner: ModelRunner, cache: BlockCache) -> None:
        """The runner has storages for the slots of the cache."""
        self._runner = runner
        self._cache = cache
        self._texts: OrderedDict[object, ReadText] = OrderedDict()
        """The one used longest ago comes first."""
        self._in_step: list[ReadText] = []

    @property
    def block_size(self) -> int:
        """Slots of a block."""
        return self._cache.block_size

    @property
    def reuses_prefixes(self) -> bool:
        """Whether it knows beginnings that were read before."""
        return self._cache.index is not None

    @property
    def num_texts(self) -> int:
        """The number of sequences that hold pages."""
        return len(self._texts)

    @property
    def num_blocks_held(self) -> int:
        """The number of blocks that sequences hold, in all groups of layers."""
        return sum(pool.num_held for pool in self._cache.pools)

    def begin_step(self) -> None:
        """Keep texts that are found or opened from now on, until the next step begins."""
        self._in_step = []

    def find(self, key: object, tokens: Sequence[TokenId]) -> ReadText | None:
        """Return what was read of a sequence that has these tokens now, or ``None``."""
        text = self._texts.get(key)
        if text is None:
            return None
        if not text.is_prefix_of(tokens):
            # Another text than the one that was read, so it starts again.
            self.release(key)
            return None
        self._copy(text.commit_taken(tokens))
        self._use(key, text)
        return text

    def open(self, key: object, tokens: Sequence[TokenId], salt: str) -> ReadText:
        """Begin to read a sequence, with what the cache knows of its beginning."""
        blocks = self._cache.open(tokens, salt=salt)
        text = ReadText(blocks, tokens[: blocks.committed])
        self._texts[key] = text
        self._use(key, text)
        return text

    def reserve(self, text: ReadText, count: int) -> bool:
        """Reserve rows for a text; False if there is no room.

        To make room, it drops texts that were used longest ago, but none of this step.
        """
        while not text.blocks.can_reserve(count):
            key, oldest = next(iter(self._texts.items()))
            if oldest in self._in_step:
                return False
            self.release(key)
        self._copy(text.reserve(count))
        return True

    def forget_step(self) -> None:
        """Release the rows of a step that failed."""
        for text in self._in_step:
            text.forget_step()

    def end(self, key: object, tokens: Sequence[TokenId]) -> None:
        """Release what a sequence holds that ended with these tokens."""
        text = self._texts.get(key)
        if text is not None:
            # The next request may begin with this text, so it is committed first to be known.
            if text.is_prefix_of(tokens):
                self._copy(text.commit_taken(tokens))
            self.release(key)

    def release(self, key: object) -> None:
        """Release what a sequence holds."""
        text = self._texts.pop(key)
        text.blocks.release()
        if text in self._in_step:
            self._in_step.remove(text)

    def check(self) -> None:
        """Raise unless texts, tables and pools agree."""
        self._cache.check()
        assert self._cache.num_open == len(self._texts), (
            f"{self._cache.num_open} sequences are open for {len(self._texts)} texts"
        )
        for text in self._texts.values():
            text.check()

    def _use(self, key: object, text: ReadText) -> None:
        self._texts.move_to_end(key)
        self._in_step.append(text)

    def _copy(self, copies: Sequence[SlotCopies]) -> None:
        if any(len(of_group) for of_group in copies):
            self._runner.copy(copies)
