"""Runs an answer that is sampled token by token, with drafts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.decoding.choice import ForcedContinuation
from guided.decoding.device_draw import DeviceDraw
from guided.decoding.draft_budget import DraftBudget
from guided.decoding.draft_tree import DraftTree
from guided.decoding.drafter import (
    DraftBuilder,
    DraftContext,
    DraftRequest,
    VerifiedStep,
)
from guided.decoding.trace import TracedBuilder
from guided.decoding.verify import Acceptance, verify
from guided.drafters.union import DrafterUnion, UnionDraftState
from guided.engine.answer_state import AnswerState
from guided.engine.node_logits import NodeLogits
from guided.engine.runnable import AnswerRunnable, Piece, Step, StepEffects
from guided.engine.submission import Submission
from guided.model.batch import SegmentOutput
from guided.spec import TokenId
from guided.spec.continued import answer_constraint

__all__ = ["SampledRunnable"]

_VerifiedAnswer: TypeAlias = tuple[Acceptance, ForcedContinuation | None]

_NOTHING_DRAWN: Final[Mapping[int, TokenId]] = MappingProxyType({})
_BLOCKS_OF_A_SIBLING: Final = 2
"""A copy of the last block of the prompt, and the block after it."""


class SampledRunnable(AnswerRunnable):
    """One sampled answer.

    The first of several *sibling samples* computes the prompt for all of them. Until then the
    others have no tokens of their own; then each is forked off as a separate runnable.
    """

    def __init__(
        self,
        submission: Submission,
        answer: AnswerState,
        drafter: DrafterUnion | None,
        siblings: Sequence[AnswerState] = (),
    ) -> None:
        super().__init__(submission, answer)
        self._drafter = drafter
        # Opened here and not in ``start``, so it is kept when the answer starts over.
        self._draft_state = (
            None if drafter is None else _open_draft_state(drafter, submission, answer)
        )
        self._siblings = tuple(siblings)
        self._trace = submission.trace
        if self._trace is not None:
            self._trace.answer = answer

    @property
    def wants_hidden_states(self) -> bool:
        """Whether one of its drafters learns from the hidden states."""
        return self._draft_state is not None and self._draft_state.wants_hidden_states

    @property
    def is_drafting(self) -> bool:
        """Whether it drafts; not while it has siblings, because each continues differently."""
        return self._draft_state is not None and not self._siblings

    @property
    def batch_slots(self) -> int:
        """One for itself and each of its siblings."""
        return 1 + len(self._siblings)

    @property
    def spare_blocks(self) -> int:
        """Blocks for the siblings, which take them when they are forked off."""
        return _BLOCKS_OF_A_SIBLING * len(self._siblings)

    def begin_step(self, count: int, budget: DraftBudget) -> Step:
        """Take the next ``count`` pending tokens; drafted tokens follow only the last of all."""
        answer, blocks = self.answer, self.blocks[0]
        trunk = answer.make_trunk(blocks.committed, count)
        draft, is_whole = None, count == self.pending
        # If more certain tokens follow this step, a draft could only repeat or miss them.
        if self._draft_state is not None and self.is_drafting and budget.room and is_whole:
            draft = DraftRequest(
                answer.tokens, self._draft_state, self._make_builder(trunk, budget)
            )
        return Step(self, [Piece(blocks, trunk)], draft=draft)

    def _make_builder(self, trunk: DraftTree, budget: DraftBudget) -> DraftBuilder:
        """Return what drafters add tokens to after the trunk; a traced one notes who proposed."""
        answer = self.answer
        kind = DraftBuilder if self._trace is None else TracedBuilder
        return kind(
            trunk,
            answer.forcing,
            budget=budget,
            tokens_left=answer.chooser.remaining(answer.answer_length),
            end_ids=answer.chooser.end_ids,
        )

    @property
    def verifies_first(self) -> bool:
        """True: a step is verified before anything in the answer changes."""
        return True

    def verify(self, step: Step, outputs: Sequence[SegmentOutput]) -> list[_VerifiedAnswer]:
        """Verify the tree against its logits; at the end of the prompt, for each sibling too."""
        piece, output = step.pieces[0], outputs[0]
        logits = NodeLogits(piece.nodes_needing_logits, output)
        siblings = self._siblings if piece.nodes_needing_logits else ()
        others = [_verify_answer(piece.tree, logits, answer) for answer in siblings]
        pairs = zip(piece.nodes_needing_logits, output.drawn, strict=True)
        drawn = {node: token for node, token in pairs if token is not None}
        return [_verify_answer(piece.tree, logits, self.answer, drawn), *others]

    def device_draws(self, piece: Piece) -> list[DeviceDraw | None]:
        """Return what to draw after each node that needs logits.

        A drafted token is accepted where the draw gives the same token. ``None`` where nothing is
        to be chosen, or where the device cannot draw as the request asks.
        """
        answer, tree = self.answer, piece.tree
        depths, trunk = tree.depths(), tree.trunk_length
        draws: list[DeviceDraw | None] = []
        for node in piece.nodes_needing_logits:
            matcher = tree.matchers[node]
            position = answer.answer_length + depths[node] - (trunk - 1)
            if matcher is None or answer.chooser.remaining(position) == 0:
                draws.append(None)
            else:
                draws.append(answer.chooser.device_draw(matcher, position))
        return draws

    def apply_output(
        self, step: Step, outputs: Sequence[SegmentOutput], verified: object
    ) -> StepEffects:
        """Extend the answer by the verified tokens, and commit the slots of the path.

        At the end of the prompt, siblings continue from there, each with its own choice.
        """
        piece = step.pieces[0]
        tree, blocks = piece.tree, piece.blocks
        assert isinstance(verified, list), verified
        (acceptance, continuation), *of_siblings = verified
        if self._trace is not None:
            builder = None if step.draft is None else step.draft.builder
            self._trace.record(self.answer.answer_length, tree, acceptance, builder)
        self.answer.extend(tree, acceptance, continuation)
        if step.draft is not None:
            self.answer.drafts.add_proposal_time(step.draft.nanoseconds, step.draft.skipped)
        forks = self._extend_siblings(tree, of_siblings)
        if self._draft_state is not None:
            self._draft_state.learn(_make_verified(step, outputs[0], acceptance))
        # Siblings fork what is committed, so the commit comes before they start.
        copies = blocks.commit(acceptance.path, [tree.tokens[node] for node in acceptance.path])
        for fork in forks:
            self.submission.cache_use.shared += blocks.committed
            fork.start(blocks.fork())
        if forks:
            self._siblings = ()
        return StepEffects(copies, forks)

    def _extend_siblings(
        self, tree: DraftTree, verified: Sequence[_VerifiedAnswer]
    ) -> list[SampledRunnable]:
        """Extend each sibling by its own choice after the prompt; return their runnables.

        ``verified`` has one entry for each sibling, and none before the end of the prompt.
        """
        forks = []
        siblings = self._siblings if verified else ()
        for sibling, (acceptance, continuation) in zip(siblings, verified, strict=True):
            sibling.extend(tree, acceptance, continuation)
            forks.append(SampledRunnable(self.submission, sibling, self._drafter))
        return forks


def _make_verified(step: Step, output: SegmentOutput, acceptance: Acceptance) -> VerifiedStep:
    """Return what drafters learn from a step of one piece, even from one without drafts.

    They count steps, and read the hidden states of the prompt. To be called before the commit,
    while the piece has the blocks as they were in the step.
    """
    piece, was_drafted = step.pieces[0], step.draft is not None
    tree = piece.tree
    scout_logits: dict[int, NDArray[np.float32]] = {}
    if tree.scouts:
        logits = NodeLogits(piece.nodes_needing_logits, output)
        scout_logits = {node: logits[node] for node, wants in tree.scouts.items() if wants}
    first = piece.blocks.committed  # the tree follows what is committed
    return VerifiedStep(
        *(tree, acceptance, output.states, output.taps, first, scout_logits), was_drafted
    )


def _open_draft_state(
    drafter: DrafterUnion, submission: Submission, answer: AnswerState
) -> UnionDraftState | None:
    """Open the drafter's state for one answer; it is closed when the request ends.

    ``None`` if the request lets no drafter propose.
    """
    request = submission.request
    draft_state = drafter.open(
        DraftContext(
            forcing=answer.forcing,
            chooser=answer.chooser,
            constraint=answer_constraint(request.constraint),
            cache_salt=submission.salt,
            drafters=request.drafters,
            prompt_length=answer.prompt_length,
            prompt=submission.prompt,
            shared=submission.kept_by_drafters,
            widths=request.draft_widths,
            max_drafted=request.max_drafted,
        )
    )
    if draft_state is not None:
        submission.at_end.callback(lambda: draft_state.end(answer.tokens))
    return draft_state


def _verify_answer(
    tree: DraftTree,
    logits: Mapping[int, NDArray[np.float32]],
    answer: AnswerState,
    drawn: Mapping[int, TokenId] = _NOTHING_DRAWN,
) -> _VerifiedAnswer:
    """Verify a draft tree by the logits of its nodes, and find what is forced after that.

    Changes nothing in the answer. ``drawn`` are tokens drawn on the device, by node.
    """
    acceptance = verify(
        *(tree, logits, answer.chooser, answer.answer_length, answer.history()), drawn
    )
    return acceptance, answer.find_continuation(tree, acceptance)
