"""Contrastive search in the engine: all candidate tokens are tried in one call.

The call that tries the candidates also gives the logits after each, so the one that is taken has
its own candidates at once: one call a token, and one for the prompt. See
docs/contrastive-search.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from guided.decoding.choice import FinalCompletion, advance
from guided.decoding.contrastive_search import (
    CandidateToken,
    SeenStates,
    find_candidate_tokens,
    pick_candidate_token,
)
from guided.decoding.draft_budget import DraftBudget
from guided.decoding.draft_tree import DraftTree
from guided.engine.answer_state import AnswerState
from guided.engine.runnable import AnswerRunnable, Piece, Step, StepEffects
from guided.engine.submission import Submission
from guided.errors import LimitExceededError
from guided.kv.sequence_blocks import SequenceBlocks
from guided.model.batch import SegmentOutput
from guided.spec import TokenId

__all__ = ["ContrastiveRunnable"]


class ContrastiveRunnable(AnswerRunnable):
    """An answer of contrastive search, with the hidden states of its tokens.

    It reads what is certain, then has candidates for the next token until one of them is taken::

        tokens  p p p p | c c c     all in the cache: 3 candidates
        tokens  p p p p c | r r     one was taken, and two tokens are forced after it: to be read
    """

    @property
    def wants_hidden_states(self) -> bool:
        """Whether the model has to return the hidden states of all tokens: they are compared."""
        return True

    def __init__(self, submission: Submission, answer: AnswerState) -> None:
        super().__init__(submission, answer)
        self._seen = SeenStates()
        self._candidates: tuple[CandidateToken, ...] = ()

    @property
    def batch_slots(self) -> int:
        """One for each candidate, because all of them are computed at once."""
        return self.answer.chooser.sampling.num_candidate_tokens

    @property
    def num_candidate_tokens(self) -> int:
        """All candidates."""
        return self.batch_slots

    @property
    def reusable_prefix(self) -> Sequence[TokenId]:
        """None: the cache may know a beginning, but not the hidden states of its tokens."""
        return ()

    @property
    def pending(self) -> int:
        """The number of certain tokens not yet in the cache, or 1 for the one to be chosen."""
        return self.num_unread or 1

    def start(self, blocks: SequenceBlocks) -> None:
        """Run from the first token, because hidden states are lost with the blocks."""
        assert blocks.committed == 0, f"{blocks.committed} tokens without hidden states"
        super().start(blocks)
        # Candidates are lost too: the call that reads the last token finds them again.
        self._seen = SeenStates()
        self._candidates = ()

    @property
    def is_drafting(self) -> bool:
        """Whether candidates are tried with the runs that they force, where these pay."""
        return True

    def begin_step(self, count: int, budget: DraftBudget) -> Step:
        """Take the next ``count`` pending tokens, or all candidates with the runs they force."""
        blocks = self.blocks[0]
        if not self._candidates:
            return Step(self, [Piece(blocks, self.answer.make_trunk(blocks.committed, count))])
        # A run saves the call that would read it if its candidate is taken; else it is wasted.
        branches = [self._make_branch(candidate, budget) for candidate in self._candidates]
        without_runs = [
            one if len(one.tokens) == 1 else _Branch(one.tokens[:1], needs_logits=False)
            for one in branches
        ]
        return Step(
            self, [_make_piece(blocks, branches)], required=[_make_piece(blocks, without_runs)]
        )

    def apply_output(
        self,
        step: Step,
        outputs: Sequence[SegmentOutput],
        verified: object = None,  # noqa: ARG002 - the next candidates depend on the one taken
    ) -> StepEffects:
        """Take one of the candidates, if there are any, and look for the next ones."""
        piece, output = step.pieces[0], outputs[0]
        tree, blocks = piece.tree, piece.blocks
        # A branch is a chain, so the nodes of the taken branch are consecutive.
        path = range(len(tree))
        candidates, self._candidates = self._candidates, ()
        if candidates:
            roots = [node for node, parent in enumerate(tree.parents) if parent is None]
            taken = self._pick_best(candidates, output.states[roots])
            self.answer.append_choice(candidates[taken].choice)
            path = range(roots[taken], [*roots[1:], len(tree)][taken])
        # A taken token may have ended the answer, or closed it in another way than its run.
        certain = self.answer.tokens[blocks.committed :]
        length = 0
        while length < min(len(path), len(certain)):
            if tree.tokens[path[length]] != certain[length]:
                break
            length += 1
        kept = path[:length]
        # While certain tokens are unread, the next step reads them before anything is chosen.
        if (
            not self.is_finished
            and length == len(certain)
            and path[-1] in piece.nodes_needing_logits
        ):
            self._find_candidates(output.logits[piece.nodes_needing_logits.index(path[-1])])
        copies = blocks.commit(kept, [tree.tokens[node] for node in kept])
        self._seen.append(output.states[kept.start : kept.stop])
        return StepEffects(copies)

    def check(self) -> None:
        """Raise unless it has something to compute, no reservation, and a state for each token."""
        super().check()
        unread, candidates = self.num_unread, len(self._candidates)
        assert bool(unread) != bool(candidates), (
            f"{self.request_id!r} has {unread} tokens to read and {candidates} candidates"
        )
        assert len(self._seen) == self.blocks[0].committed, f"{self.request_id!r} lacks states"

    def _make_branch(self, candidate: CandidateToken, budget: DraftBudget) -> _Branch:
        """Return a candidate token, with the run that it forces if computing that pays.

        The logits after a branch are needed if the next candidates would be found there.
        """
        choice, answer = candidate.choice, self.answer
        # A token that ends the answer is followed by nothing.
        if choice.matcher is None:
            return _Branch((choice.token,), needs_logits=False)
        try:
            run = choice.matcher.forced_run(answer.forcing)
            # Without a run the next candidates follow the token itself.
            if not run:
                return _Branch((choice.token,), needs_logits=not choice.matcher.is_complete)
            fits = len(run) < answer.chooser.remaining(answer.answer_length)
            # Nothing is drafted after a run.
            if fits and budget.pays(len(run), candidate.probability, max_following=0):
                is_complete = advance(choice.matcher, run).is_complete
                budget.spend(len(run), candidate.probability)
                return _Branch((choice.token, *run), needs_logits=not is_complete)
        except LimitExceededError:
            # If the candidate is taken, appending it meets the same limit and closes the answer.
            # With logits the search could also go on, should the limit not come again.
            return _Branch((choice.token,), needs_logits=True)
        # The next step reads the run, and gets the logits after it.
        return _Branch((choice.token,), needs_logits=False)

    def _pick_best(self, candidates: Sequence[CandidateToken], states: NDArray[np.float32]) -> int:
        alpha = self.answer.chooser.sampling.penalty_alpha
        assert alpha is not None, f"{self.request_id!r} has no penalty_alpha"
        return pick_candidate_token(candidates, self._seen.max_similarity(states), alpha)

    def _find_candidates(self, logits: NDArray[np.float32]) -> None:
        """Find the candidates after all tokens, by the ``logits`` there (``[vocab]``)."""
        answer = self.answer
        found = find_candidate_tokens(
            logits, answer.matcher, answer.answer_length, answer.history(), answer.chooser
        )
        if isinstance(found, FinalCompletion):
            answer.append_choice(found)
        else:
            self._candidates = found


@dataclass(frozen=True, slots=True)
class _Branch:
    """A candidate token and the run that it forces."""

    tokens: tuple[TokenId, ...]
    needs_logits: bool
    """Whether something is to be chosen after the last one."""


def _make_piece(blocks: SequenceBlocks, branches: Sequence[_Branch]) -> Piece:
    """Make one piece of several branches, each a root with a chain, so that none sees another."""
    tokens: list[TokenId] = []
    parents: list[int | None] = []
    nodes_needing_logits: list[int] = []
    for branch in branches:
        parents += [None, *range(len(tokens), len(tokens) + len(branch.tokens) - 1)]
        tokens += branch.tokens
        if branch.needs_logits:
            nodes_needing_logits.append(len(tokens) - 1)
    # Nothing is verified along this tree, so it needs no positions, and every node is tried.
    count = len(tokens)
    tree = DraftTree(
        tuple(tokens), tuple(parents), (False,) * count, (None,) * count, ("",) * count
    )
    return Piece(blocks, tree, tuple(nodes_needing_logits))
