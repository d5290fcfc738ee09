"""The unit of scheduling: texts of a request that run, and give way, together.

::

    waiting ──start──▶ running ──▶ begin_step ─ reserve ─ apply_output ──▶ finished
       ▲                  │  ▲                                 │
       └───── stop ───────┘  └──────────── next step ──────────┘

A sampled answer, an answer of contrastive search and all beams of a request are runnables. They
share what is here: block tables, their demands on the cache, and the segments of a model call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from guided.decoding.device_draw import DeviceDraw
from guided.decoding.draft_budget import DraftBudget
from guided.decoding.draft_tree import DraftTree
from guided.decoding.drafter import DraftRequest
from guided.engine.answer_state import AnswerState
from guided.engine.submission import Submission
from guided.kv.block_table import BlockTable
from guided.kv.reservation import SlotCopies
from guided.kv.sequence_blocks import SequenceBlocks
from guided.model.batch import Segment, SegmentOutput
from guided.spec import TokenId

__all__ = ["AnswerRunnable", "Piece", "Runnable", "Step", "StepEffects", "blocks_needed"]


def blocks_needed(blocks: SequenceBlocks, count: int, step_tokens: int) -> tuple[int, ...]:
    """Return the blocks, by group of layers, of a text until the cache has ``count`` more tokens.

    Layers with a window release blocks as the text moves on, a step at a time.
    """
    # A table with a window never holds more than its window and the tokens of one step.
    return tuple(
        [
            table.blocks_needed(
                count if table.window is None else min(count, table.window + step_tokens)
            )
            for table in blocks.tables
        ]
    )


class Runnable:
    """One or more texts of a request, with a block table each while they run.

    Subclasses define its texts, what a step computes for them, and what the outcome means.
    """

    def __init__(self, submission: Submission) -> None:
        self.submission = submission
        self.request_id = submission.request_id
        self.blocks: list[SequenceBlocks] = []
        """One for each text; empty while it waits."""
        self.is_paused = False
        """Whether it waits for long work and takes no part in steps; see ``PausedAnswers``."""
        self.steps_without_drafts = 0
        """Further steps to make without drafts, because those took too long."""

    # --- what subclasses define -----------------------------------------------------------

    def texts(self) -> list[Sequence[TokenId]]:
        """All tokens that the model has to read, one sequence for each text."""
        raise NotImplementedError

    @property
    def batch_slots(self) -> int:
        """The most sequences of a batch that it may come to."""
        raise NotImplementedError

    @property
    def is_finished(self) -> bool:
        """Whether nothing more is to be computed."""
        raise NotImplementedError

    def begin_step(self, count: int, budget: DraftBudget) -> Step:
        """Begin the next step, which computes ``count`` of its pending tokens."""
        raise NotImplementedError

    def apply_output(
        self, step: Step, outputs: Sequence[SegmentOutput], verified: object
    ) -> StepEffects:
        """Extend the texts by the model's output for each segment of a step, and commit its slots.

        ``verified`` is the result of ``verify``. Everything that can fail comes before the commit:
        after it other requests may find the blocks in the prefix index, while the copies that are
        returned still have to be made.
        """
        raise NotImplementedError

    # --- what subclasses may refine -------------------------------------------------------

    @property
    def verifies_first(self) -> bool:
        """Whether ``verify`` does all the long work of a step; else ``apply_output`` does."""
        return False

    def verify(self, step: Step, outputs: Sequence[SegmentOutput]) -> object:  # noqa: ARG002
        """Verify the step by the model's output, and find what is forced after it; changes nothing.

        The result is passed to ``apply_output``.
        """
        return None

    def device_draws(self, piece: Piece) -> Sequence[DeviceDraw | None]:
        """Return what the device may draw from the logits of each node that needs them.

        May take long, and raise what a constraint raises.
        """
        return [None] * len(piece.nodes_needing_logits)

    @property
    def wants_hidden_states(self) -> bool:
        """Whether the model has to return the hidden states of all tokens."""
        return False

    @property
    def is_drafting(self) -> bool:
        """Whether tokens are drafted for it, where there is room and they pay."""
        return False

    @property
    def reusable_prefix(self) -> Sequence[TokenId]:
        """The tokens that may be taken from the cache, where it knows a beginning of them."""
        return self.texts()[0]

    @property
    def spare_blocks(self) -> int:
        """Blocks of each group that are kept for texts still to be forked."""
        return 0

    @property
    def num_candidate_tokens(self) -> int:
        """The number of tokens that are tried after the certain ones in each step."""
        return 0

    @property
    def pending(self) -> int:
        """The number of certain tokens not yet in the cache; at least one while it runs."""
        return self.num_unread

    # --- what all runnables share ----------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether it has blocks; one that waits or was dropped has none."""
        return bool(self.blocks)

    @property
    def num_unread(self) -> int:
        """The number of certain tokens not yet in the cache."""
        held = zip(self.texts(), self.blocks, strict=True)
        return sum([len(text) - blocks.committed for text, blocks in held])

    @property
    def tables(self) -> list[BlockTable]:
        """All block tables that it holds."""
        return [table for blocks in self.blocks for table in blocks.tables]

    def needs(
        self, block_size: int, step_tokens: int, opened: SequenceBlocks | None = None
    ) -> tuple[int, ...]:
        """Return the blocks, by group of layers, that let it run for some steps without giving way.

        ``opened`` are the blocks that it would start with, if it waits.
        """
        held = self.blocks if opened is None else [opened]
        # One block more than is pending, so that nothing gives way right after its start.
        ahead = block_size + self.num_candidate_tokens
        needs = [
            blocks_needed(blocks, len(text) - blocks.committed + ahead, step_tokens)
            for text, blocks in zip(self.texts(), held, strict=True)
        ]
        spare = self.spare_blocks
        return tuple([sum(of_group) + spare for of_group in zip(*needs, strict=True)])

    def start(self, blocks: SequenceBlocks) -> None:
        """Run with the blocks opened for ``reusable_prefix``, and own them from now on."""
        self.blocks = [blocks]
        use = self.submission.cache_use
        if use.reused is None:  # counts once, not when it starts over
            # What is forced right after the prompt may be known too.
            use.reused = min(blocks.committed, len(self.submission.prompt))

    def stop(self) -> None:
        """Release all blocks; it can start over from its tokens."""
        for blocks in self.blocks:
            blocks.release()
        self.blocks = []

    def check(self) -> None:
        """Raise unless something is pending and nothing reserved."""
        if self.is_paused:
            return  # the output of its current step was not applied yet
        assert self.pending > 0, f"{self.request_id!r} has nothing pending"
        reserved = sum([blocks.reserved for blocks in self.blocks])
        assert reserved == 0, f"{self.request_id!r} holds {reserved} rows"


class AnswerRunnable(Runnable):
    """One answer of a request."""

    def __init__(self, submission: Submission, answer: AnswerState) -> None:
        super().__init__(submission)
        self.answer = answer

    @property
    def is_finished(self) -> bool:
        """Whether the answer has ended."""
        return self.answer.finish_reason is not None

    def texts(self) -> list[Sequence[TokenId]]:
        """Prompt and answer so far."""
        return [self.answer.tokens]

    @property
    def num_unread(self) -> int:
        """The number of certain tokens not yet in the cache; a fast form for one text."""
        return len(self.answer.tokens) - self.blocks[0].committed


class Piece:
    """The new tokens of one text in one step: a segment of the model call."""

    __slots__ = ("blocks", "nodes_needing_logits", "text", "tree")

    def __init__(
        self,
        blocks: SequenceBlocks,
        tree: DraftTree,
        nodes_needing_logits: tuple[int, ...] | None = None,
        text: int = 0,
    ) -> None:
        self.blocks = blocks
        self.tree = tree
        self.nodes_needing_logits = (
            tree.nodes_needing_logits if nodes_needing_logits is None else nodes_needing_logits
        )
        """The nodes whose logits are needed."""
        self.text = text
        """The index of the text in the runnable."""


class Step:
    """The part of a model call that is computed for one runnable."""

    __slots__ = ("_min_slots", "_required", "draft", "pieces", "runnable")

    def __init__(
        self,
        runnable: Runnable,
        pieces: list[Piece],
        *,
        required: list[Piece] | None = None,
        draft: DraftRequest | None = None,
    ) -> None:
        """``required`` are the pieces without what may be left out; by default all ``pieces``."""
        self.runnable = runnable
        self.pieces = pieces
        self.draft = draft
        """The request for proposals, which are added to the only piece."""
        self._required = pieces if required is None else required
        self._min_slots = 0
        """Slots to demand even if it needs fewer."""

    def take_draft(self) -> None:
        """Replace the trunk by the drafted tree, if something was drafted."""
        if self.draft is not None and self.draft.builder.has_proposals:
            tree = self.draft.builder.tree()
            self.pieces = [Piece(self.pieces[0].blocks, tree)]
            # The size of a tree depends on what was drawn for it. Giving it up for its size would
            # leave out draws because of their values, which would change the distribution of
            # answers.
            if tree.draws:
                self._min_slots = self.draft.builder.max_nodes

    def drop_draft(self) -> None:
        """Compute only what cannot be left out."""
        self.pieces = self._required
        self._min_slots = 0

    @property
    def num_tokens(self) -> int:
        """The number of tokens that it computes."""
        return sum([len(piece.tree) for piece in self.pieces])

    def demand(self) -> tuple[int, ...]:
        """Return the most new blocks that ``reserve`` may take, by group of layers."""
        # All nodes of a tree take slots, even those that are released after the step.
        demands = []
        for piece in self.pieces:
            count = max(len(piece.tree), self._min_slots)
            demands.append(tuple([table.blocks_needed(count) for table in piece.blocks.tables]))
        if len(demands) == 1:
            return demands[0]
        return tuple([sum(of_group) for of_group in zip(*demands, strict=True)])

    def reserve(self) -> Iterator[Segment]:
        """Yield the segments of the model call; each reserves its cache slots when requested.

        Their copies have to be made in this order, before the model call. Raises OutOfMemoryError
        between two segments; those before it stay reserved.
        """
        for piece in self.pieces:
            tree, committed = piece.tree, piece.blocks.committed
            reservations = piece.blocks.reserve(len(tree))
            # In the first group of layers alone, so that no token counts twice.
            self.runnable.submission.cache_use.copied += len(reservations[0].copies)
            yield Segment(
                reservations=reservations,
                num_committed=committed,
                tokens=tree.tokens,
                depths=tree.depths(),
                ancestors=None if tree.is_chain else tree.ancestors(),
                nodes_needing_logits=piece.nodes_needing_logits,
                wants_hidden_states=self.runnable.wants_hidden_states,
                adapter=self.runnable.submission.adapter,
                recurrence=piece.blocks.recurrence,
                trunk_length=tree.trunk_length,
                checkpoint=piece.blocks.checkpoint(tree.trunk_length),
            )


class StepEffects:
    """What the engine has to do after the output of a step was applied."""

    __slots__ = ("copies", "forks")

    def __init__(self, copies: Sequence[SlotCopies] = (), forks: Sequence[Runnable] = ()) -> None:
        self.copies = copies
        """Copies to make in the cache, by group of layers."""
        self.forks = forks
        """Runnables that this step started."""
