"""Beam search in the engine: each beam has a fork of the block tables."""

from __future__ import annotations

from collections.abc import Sequence

from guided.decoding.beam_search import BeamSearch
from guided.decoding.draft_budget import DraftBudget
from guided.decoding.draft_tree import DraftTree
from guided.engine.group import Group
from guided.engine.runnable import Piece, Runnable, Step, StepEffects
from guided.engine.submission import Submission
from guided.kv.sequence_blocks import SequenceBlocks
from guided.model.batch import SegmentOutput
from guided.spec import CandidateResult, TokenId, Usage
from guided.spec.continued import answer_constraint

__all__ = ["BeamGroup"]


class BeamGroup(Group):
    """All beams of one request, which run together."""

    def __init__(
        self, submission: Submission, search: BeamSearch, texts: Sequence[bytes | None], skip: int
    ) -> None:
        """``texts`` has by token its text in an answer; ``None`` for none. The text of an answer
        begins after ``skip`` bytes of its tokens.
        """
        super().__init__(submission)
        self._search = search
        self._texts = texts
        self._skip = skip
        self._beams = BeamsRunnable(submission, search)

    @property
    def first(self) -> Runnable:
        """All beams at once."""
        return self._beams

    @property
    def is_finished(self) -> bool:
        """Whether the best answers are found."""
        return self._search.is_over

    @property
    def num_chosen(self) -> int:
        """Rounds in which the model chose a token of some beam."""
        return self._search.num_chosen

    def close_for_deadline(self) -> None:
        """End all beams along their shortest completions."""
        self._search.close_for_deadline()

    def candidates(self) -> list[CandidateResult]:
        """Return the best answers found, best first."""
        is_free = answer_constraint(self.submission.request.constraint) is None
        errors = "replace" if is_free else "strict"
        return [
            CandidateResult(
                index=index,
                text=self._text(found.tokens, errors),
                tokens=found.tokens,
                finish_reason=found.finish_reason,
                score=found.score,
            )
            for index, found in enumerate(self._search.answers[: self.submission.request.n])
        ]

    def _text(self, tokens: Sequence[TokenId], errors: str) -> str:
        text = b"".join([self._texts[token] or b"" for token in tokens])
        return text[self._skip :].decode("utf-8", errors)

    def own_usage(self) -> Usage:
        """The tokens of the answers that are returned, once the search is over; none before.

        Until then a better answer with fewer tokens may come, and the counts that ``Engine.stats``
        adds up over open requests must never fall. Tokens of given-up beams are never counted.
        """
        # A forced token counts once in each answer that has it.
        best = self._search.answers[: self.submission.request.n] if self.is_finished else []
        num_forced = sum([found.num_forced for found in best])
        num_tokens = sum([len(found.tokens) for found in best])
        return Usage(sampled_tokens=num_tokens - num_forced, forced_tokens=num_forced)


class BeamsRunnable(Runnable):
    """Beams with their blocks: one table for the shared prefix, or one for each beam.

    They start, and start over, from their *shared prefix*: the prompt and the tokens up to where
    the beams part, which are computed once. Nothing is drafted for beams.
    """

    def __init__(self, submission: Submission, search: BeamSearch) -> None:
        super().__init__(submission)
        self._search = search
        self._has_split = False

    @property
    def batch_slots(self) -> int:
        """One for each possible beam."""
        return self._search.width

    @property
    def spare_blocks(self) -> int:
        """For each beam still to come, a copy of the last block and the block after it."""
        return 2 * (self.batch_slots - len(self.blocks))

    @property
    def is_finished(self) -> bool:
        """Whether the best answers are found."""
        return self._search.is_over

    def texts(self) -> list[Sequence[TokenId]]:
        """The shared prefix, or prompt and answer of each beam up to the last token to read."""
        # The last token of an ended beam is not fed: nothing is chosen after it.
        prompt, live = self.submission.prompt, self._search.live
        if not self._has_split:
            return [prompt + live[0].tokens[: self._search.num_shared]]
        return [prompt + beam.tokens[: beam.num_fed] for beam in live]

    def start(self, blocks: SequenceBlocks) -> None:
        """Run from the shared prefix."""
        super().start(blocks)
        self._split_tables()

    def stop(self) -> None:
        """Release all blocks; beams that start over ask the model again how they may continue."""
        super().stop()
        # The shared prefix may have grown meanwhile, and is computed again.
        self._has_split = False
        self._search.forget_continuations()

    def begin_step(self, count: int, budget: DraftBudget) -> Step:  # noqa: ARG002 - no drafts
        """Take the next ``count`` pending tokens, those of the likeliest beams first."""
        pieces = []
        for beam, (text, blocks) in enumerate(zip(self.texts(), self.blocks, strict=True)):
            tokens = text[blocks.committed : blocks.committed + count]
            # Less likely beams may get no tokens in this step, so their runs take several steps.
            count -= len(tokens)
            # A beam that is read to its end waits for the others: a round takes all beams at once.
            if tokens:
                nodes_needing_logits = self._find_nodes_needing_logits(
                    beam, blocks.committed, len(tokens)
                )
                pieces.append(
                    Piece(blocks, DraftTree.chain(tokens, None), nodes_needing_logits, beam)
                )
        return Step(self, pieces)

    def apply_output(
        self,
        step: Step,
        outputs: Sequence[SegmentOutput],
        verified: object = None,  # noqa: ARG002 - beams are verified one after the other
    ) -> StepEffects:
        """Read the model's output for each beam, then make all rounds that need no call."""
        for piece, output in zip(step.pieces, outputs, strict=True):
            position = piece.blocks.committed + 1 - len(self.submission.prompt)
            # Nothing is drafted, so every row stays and nothing is copied.
            piece.blocks.commit(range(len(piece.tree)), piece.tree.tokens)
            for node, logits in zip(piece.nodes_needing_logits, output.logits, strict=True):
                self._search.read_logits(piece.text, position + node, logits)
        self._split_tables()
        # Rounds that only count forced tokens follow each other without a call in between.
        search = self._search
        while self._has_split and not search.is_over and search.is_ready:
            self._reorder_tables(search.advance())
        return StepEffects()

    def _split_tables(self) -> None:
        """Give each beam a table of its own once the shared prefix is computed."""
        # A single beam has nothing to share, so it takes over the table at once.
        count = len(self._search.live)
        if self._has_split or (count > 1 and self.num_unread):
            return
        self._has_split = True
        self._reorder_tables([0] * count)

    def _reorder_tables(self, parents: list[int]) -> None:
        """Give each beam the table of its parent; all but the parent's first child get a fork."""
        former, self.blocks = self.blocks, []
        # A fork shares all blocks, and copies the last one when it first writes there.
        for index, parent in enumerate(parents):
            blocks = former[parent]
            if parent in parents[:index]:
                blocks = blocks.fork()
                self.submission.cache_use.shared += blocks.committed
            self.blocks.append(blocks)
        for parent, blocks in enumerate(former):
            if parent not in parents:
                blocks.release()

    def _find_nodes_needing_logits(self, beam: int, committed: int, count: int) -> tuple[int, ...]:
        """Return which of the next tokens have logits that tell something new about the beam."""
        # The scores of the shared prefix are known already.
        if not self._has_split:
            return ()
        position = committed + 1 - len(self.submission.prompt)
        hypothesis = self._search.live[beam]
        return tuple(
            node
            for node in range(count)
            if position + node >= 0 and hypothesis.needs_logits(position + node)
        )
