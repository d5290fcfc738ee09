"""A draft model: a smaller model that drafts tokens for the target to confirm.

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

import numpy as np
from numpy.typing import NDArray

from guided.decoding.drafter import (
    DraftBuilder,
    DraftContext,
    DraftRequest,
    DraftState,
    VerifiedStep,
)
from guided.decoding.expansion import Expansion, ProposalRates, assumed_rates
from guided.drafters.draft_model.read_text import ReadText, as_chain
from guided.drafters.draft_model.respelling import RespelledText, Respelling
from guided.drafters.draft_model.text_cache import TextCache
from guided.drafters.draft_model.tree_growth import TreeGrowth
from guided.kv.block_cache import BlockCache
from guided.model.batch import Segment, StepBatch
from guided.model.runner import ModelRunner
from guided.spec import TokenId

__all__ = ["CHAIN", "DraftModel", "ModelDraftState"]

CHAIN: Final = (1, 1, 1, 1)
"""Expansion widths of a chain of four tokens."""
_ROWS_OF_RESPELLED: Final = 2
"""Rows reserved for a respelled node; nodes without rows are not read."""


class ModelDraftState:
    """What a draft model keeps of one sequence, besides the text that it has read."""

    def __init__(
        self,
        context: DraftContext,
        widths: tuple[int, ...],
        rates: ProposalRates,
        texts: TextCache,
        respelling: Respelling | None,
    ) -> None:
        self.salt = context.cache_salt
        self.widths = context.limit_widths(widths)
        """How many tokens are drafted after a node, level by level."""
        self.expansion = Expansion(context, rates)
        self._texts = texts
        self._respelled = None if respelling is None else RespelledText(respelling)

    def respell(self, tokens: Sequence[TokenId]) -> Sequence[TokenId]:
        """Return these tokens, of prompt and answer, in tokens of the draft model."""
        return tokens if self._respelled is None else self._respelled.update(tokens)

    def learn(self, verified: VerifiedStep) -> None:
        """Record which of its proposals the target agreed with."""
        self.expansion.learn(verified)
        # A step in which it is skipped has none of them.
        self.expansion.begin()

    def end(self, tokens: Sequence[TokenId]) -> None:
        """Release the pages of a sequence that ended with these tokens."""
        self._texts.end(self, self.respell(tokens))


class DraftModel:
    """Drafts with another model than the target."""

    wants_hidden_states: Final = False

    def __init__(
        self,
        name: str,
        runner: ModelRunner,
        cache: BlockCache,
        *,
        context_window: int,
        widths: Sequence[int] = CHAIN,
        step_tokens: int = 512,
        respelling: Respelling | None = None,
    ) -> None:
        """``widths`` are how many tokens are drafted after a node, level by level.

        The runner's logits are as wide as the target's vocabulary, or as the ``respelling`` needs,
        and it has storages for the slots of the cache. Texts that leave the ``context_window`` are
        not drafted for any more. ``step_tokens`` is the most unread tokens that one call computes.
        """
        assert widths and min(widths) > 0, f"expansion widths {widths!r}"
        self.name: Final = name
        self.widths: Final = tuple(widths)
        self.texts: Final = TextCache(runner, cache)
        """The texts that it has read."""
        self.rates: Final = ProposalRates(assumed_rates())
        """How often its proposals were right, over all sequences."""
        self.num_calls = 0
        """Model calls so far."""
        self.num_tokens = 0
        """Tokens that those calls computed."""
        self._runner = runner
        self._context_window = runner.context_window(context_window)
        self._step_tokens = step_tokens
        self._respelling = respelling
        self._spell = _spell_as_itself if respelling is None else respelling.spell

    def open(self, context: DraftContext) -> DraftState:
        """Begin a sequence, which holds no pages until it drafts."""
        return ModelDraftState(context, self.widths, self.rates, self.texts, self._respelling)

    def propose(self, drafts: Sequence[DraftRequest]) -> None:
        """Grow the tree of each request, level by level, as long as that pays."""
        self.texts.begin_step()
        try:
            self._grow(drafts)
        except BaseException:
            self.texts.forget_step()
            raise

    def _grow(self, drafts: Sequence[DraftRequest]) -> None:
        """Grow the trees of all sequences together, with one call for each level."""
        segments, growing = self._begin(drafts)
        # The part of a long prompt that later calls continue is read without a tree.
        outputs = self._call([*segments, *[growth.first_segment() for growth in growing]])
        outputs = outputs[len(segments) :]
        while growing:
            for growth, logits in zip(growing, outputs, strict=True):
                growth.expand_level(logits)
            following = [(growth, growth.next_segment()) for growth in growing]
            growing = [growth for growth, segment in following if segment is not None]
            outputs = self._call([segment for _, segment in following if segment is not None])

    def _begin(self, drafts: Sequence[DraftRequest]) -> tuple[list[Segment], list[TreeGrowth]]:
        """Return parts of texts that are too long for one call, and trees that can grow."""
        segments: list[Segment] = []
        growing: list[TreeGrowth] = []
        left = self._step_tokens
        for reading in self._readings(drafts):
            text = reading.text
            assert text is not None
            unread = reading.tokens[len(text) :][:left]
            is_whole = len(text) + len(unread) == len(reading.tokens)
            count = len(unread) + (self._rows_for_nodes(reading.draft.builder) if is_whole else 0)
            if not unread:
                continue  # others take all tokens of this step
            if not self.texts.reserve(text, count):
                # It starts again when there is room; others may grow until then.
                self.texts.release(reading.draft_state)
                continue
            left -= len(unread)
            if is_whole:
                growing.append(
                    TreeGrowth(
                        reading.draft.builder,
                        reading.draft_state.expansion,
                        text,
                        unread,
                        reading.draft_state.widths,
                        self._spell,
                    )
                )
            else:
                segments.append(text.make_segment(as_chain(unread), ()))
        return segments, growing

    def _readings(self, drafts: Sequence[DraftRequest]) -> list[_Reading]:
        """Return the sequences to draft for, with what was read of them, the shortest first."""
        found: list[_Reading] = []
        for draft in drafts:
            reading = _Reading(draft)
            reading.draft_state.expansion.begin()
            if self._can_draft(reading):
                reading.text = self.texts.find(reading.draft_state, reading.tokens)
                found.append(reading)
        # Opened last: they may begin with what the others have committed.
        self._open([reading for reading in found if reading.text is None])
        # So an answer under way does not wait for a long prompt.
        return sorted([each for each in found if each.text is not None], key=_num_unread)

    def _open(self, readings: Sequence[_Reading]) -> None:
        """Begin to read sequences; of those with a common beginning only one, the others wait."""
        opened: set[tuple[str, tuple[TokenId, ...]]] = set()
        for reading in readings:
            draft_state, tokens = reading.draft_state, reading.tokens
            text = self.texts.open(draft_state, tokens, draft_state.salt)
            ahead = (draft_state.salt, tuple(tokens[len(text) :][: self.texts.block_size]))
            # In the next step the prefix index knows what the first of them has read.
            if self.texts.reuses_prefixes and ahead in opened:
                self.texts.release(draft_state)
                continue
            opened.add(ahead)
            reading.text = text

    def _can_draft(self, reading: _Reading) -> bool:
        """Whether a draft may pay at all, and stays in the context window."""
        builder = reading.draft.builder
        if not builder.pays(1, 1.0):
            return False
        deepest = len(reading.tokens) + self._rows_for_nodes(builder)
        return deepest <= self._context_window

    def _rows_for_nodes(self, builder: DraftBuilder) -> int:
        """Return the most rows that a tree takes; respelled tokens may take several."""
        nodes = builder.last_node - builder.root + builder.room
        return nodes if self._respelling is None else _ROWS_OF_RESPELLED * nodes

    def _call(self, segments: Sequence[Segment]) -> list[NDArray[np.float32]]:
        """Return the logits that each segment requests, ``[its nodes, target's vocabulary]``."""
        if not segments:
            return []
        self.num_calls += 1
        self.num_tokens += sum([len(segment.tokens) for segment in segments])
        outputs = self._runner.forward(StepBatch(tuple(segments))).split(segments)
        return [self._to_target_logits(output.logits) for output in outputs]

    def _to_target_logits(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return logits ``[rows, runner's vocabulary]`` as ``[rows, target's vocabulary]``."""
        return logits if self._respelling is None else self._respelling.logits(logits)


class _Reading:
    """One sequence of a step."""

    def __init__(self, draft: DraftRequest) -> None:
        draft_state = draft.draft_state
        assert isinstance(draft_state, ModelDraftState), f"{draft_state!r} is of another drafter"
        self.draft = draft
        self.draft_state = draft_state
        self.tokens = draft_state.respell(draft.tokens)
        """Prompt and answer so far, as the draft model reads them."""
        self.text: ReadText | None = None
        """What was read of it; ``None`` if nothing was, and while it has to wait."""


def _num_unread(reading: _Reading) -> int:
    return len(reading.tokens) - (0 if reading.text is None else len(reading.text))


def _spell_as_itself(token: TokenId) -> tuple[TokenId, ...]:
    """Return the spelling of a token by a model that has it."""
    return (token,)
