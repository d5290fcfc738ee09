"""A draft model: a smaller model that drafts what the target is asked to confirm.

It reads the same tokens as the target, keeps them in pages of its own, and grows the draft trees of
all sequences of a step together: one call of the draft model for each level of the trees
(``tree_growth``). Its logits go through ``Expansion``, so they are masked by the grammar before
anything is drawn from them. See docs/draft-models.md.

Leviathan et al., *Fast inference from transformers via speculative decoding*, 2023; Miao et al.,
*SpecInfer*, 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from guided.decoding.drafter import DraftContext, DraftMemory, DraftRequest, Verified
from guided.decoding.expansion import Expansion, ProposalRates, assumed_rates
from guided.drafters.draft_model.read_text import ReadText, in_a_row
from guided.drafters.draft_model.text_cache import TextCache
from guided.drafters.draft_model.tree_growth import TreeGrowth
from guided.kv.block_cache import BlockCache
from guided.model.batch import Segment, SegmentOutput, StepBatch
from guided.model.runner import ModelRunner
from guided.spec import TokenId

__all__ = ["CHAIN", "DraftModel", "DraftModelMemory"]

CHAIN: Final = (1, 1, 1, 1)
"""Expansion widths of a chain of four tokens."""


class DraftModelMemory:
    """What a draft model keeps of one sequence, besides what it has read of it."""

    def __init__(self, context: DraftContext, rates: ProposalRates, texts: TextCache) -> None:
        self.salt = context.cache_salt
        self.expansion = Expansion(context, rates)
        self._texts = texts

    def learn(self, verified: Verified) -> None:
        """Note which of its proposals the target agreed with."""
        self.expansion.learn(verified)
        # A step in which it is not asked has none of them.
        self.expansion.begin()

    def end(self, tokens: Sequence[TokenId]) -> None:
        """Give the pages back."""
        self._texts.end(self, tokens)


class DraftModel:
    """Drafts with a model of the target's vocabulary."""

    wants_states: Final = False

    def __init__(
        self,
        name: str,
        runner: ModelRunner,
        cache: BlockCache,
        *,
        context_window: int,
        widths: Sequence[int] = CHAIN,
        step_tokens: int = 512,
    ) -> None:
        """``widths`` say how many tokens are drafted after a node, level by level.

        The runner gives logits as wide as the target's vocabulary, and has storages for the slots
        of the cache. Texts that leave the ``context_window`` are not drafted for any more.
        ``step_tokens`` are the most unread ones that one call computes.
        """
        assert widths and min(widths) > 0, f"expansion widths {widths!r}"
        self.name: Final = name
        self.texts: Final = TextCache(runner, cache)
        """What it has read."""
        self.rates: Final = ProposalRates(assumed_rates())
        """How often its proposals were right, of all sequences together."""
        self.num_calls = 0
        """Model calls so far."""
        self.num_tokens = 0
        """Tokens that they computed."""
        self._runner = runner
        self._context_window = runner.context_window(context_window)
        self._widths = tuple(widths)
        self._step_tokens = step_tokens

    def open(self, context: DraftContext) -> DraftMemory:
        """Begin a sequence, which holds no pages until it drafts."""
        return DraftModelMemory(context, self.rates, self.texts)

    def propose(self, drafts: Sequence[DraftRequest]) -> None:
        """Grow the tree of each request, level by level, as long as that pays."""
        self.texts.begin_step()
        try:
            self._grow(drafts)
        except BaseException:
            self.texts.forget_step()
            raise

    def _grow(self, drafts: Sequence[DraftRequest]) -> None:
        segments, growing = self._begin(drafts)
        # What a long prompt leaves for later calls is read without a tree.
        outputs = self._call([*segments, *[growth.first_segment() for growth in growing]])
        outputs = outputs[len(segments) :]
        while growing:
            for growth, output in zip(growing, outputs, strict=True):
                growth.take(output.logits)
            following = [(growth, growth.next_segment()) for growth in growing]
            growing = [growth for growth, segment in following if segment is not None]
            outputs = self._call([segment for _, segment in following if segment is not None])

    def _begin(self, drafts: Sequence[DraftRequest]) -> tuple[list[Segment], list[TreeGrowth]]:
        """Parts of texts that are too long for one call, and trees that can grow."""
        segments: list[Segment] = []
        growing: list[TreeGrowth] = []
        left = self._step_tokens
        for draft, text in self._texts_of(drafts):
            unread = draft.tokens[len(text) :][:left]
            is_whole = len(text) + len(unread) == len(draft.tokens)
            count = len(unread)
            if is_whole:
                count = TreeGrowth.rows_needed(draft.builder, len(unread))
            if not unread or not self.texts.reserve(text, count):
                # It begins anew when there is room; others may grow until then.
                self.texts.release(draft.memory)
                continue
            left -= len(unread)
            if is_whole:
                expansion = _memory_of(draft).expansion
                growing.append(TreeGrowth(draft.builder, expansion, text, unread, self._widths))
            else:
                segments.append(text.read(in_a_row(unread), ()))
        return segments, growing

    def _texts_of(self, drafts: Sequence[DraftRequest]) -> list[tuple[DraftRequest, ReadText]]:
        """The sequences that can be drafted for, with what was read of them, the shortest first."""
        found: list[tuple[DraftRequest, ReadText]] = []
        new: list[DraftRequest] = []
        for draft in drafts:
            memory = _memory_of(draft)
            memory.expansion.begin()
            if not self._can_draft(draft):
                continue
            text = self.texts.find(memory, draft.tokens)
            if text is None:
                new.append(draft)
            else:
                found.append((draft, text))
        # Opened last: what the others have committed may be what these begin with.
        found += self._opened(new)
        # So an answer under way does not wait for a long prompt.
        found.sort(key=lambda each: len(each[0].tokens) - len(each[1]))
        return found

    def _opened(self, drafts: Sequence[DraftRequest]) -> list[tuple[DraftRequest, ReadText]]:
        """Begin to read sequences; of those that begin alike only one, so the others wait."""
        found = []
        begun: set[tuple[str, tuple[TokenId, ...]]] = set()
        for draft in drafts:
            memory, tokens = _memory_of(draft), draft.tokens
            text = self.texts.open(memory, tokens, memory.salt)
            ahead = (memory.salt, tuple(tokens[len(text) :][: self.texts.block_size]))
            # In the next step the prefix index knows what the first of them has read.
            if self.texts.reuses_prefixes and ahead in begun:
                self.texts.release(memory)
                continue
            begun.add(ahead)
            found.append((draft, text))
        return found

    def _can_draft(self, draft: DraftRequest) -> bool:
        """Whether a draft may pay at all, and stays in the context window."""
        builder = draft.builder
        if not builder.pays(1, 1.0):
            return False
        drafted = builder.tip - builder.root + builder.room
        deepest = len(draft.tokens) + min(drafted, builder.left(builder.root))
        return deepest <= self._context_window

    def _call(self, segments: Sequence[Segment]) -> list[SegmentOutput]:
        if not segments:
            return []
        self.num_calls += 1
        self.num_tokens += sum([len(segment.tokens) for segment in segments])
        return self._runner.forward(StepBatch(tuple(segments))).split(segments)


def _memory_of(draft: DraftRequest) -> DraftModelMemory:
    assert isinstance(draft.memory, DraftModelMemory), f"{draft.memory!r} is of another drafter"
    return draft.memory
