"""The unit of scheduling: texts of a request that run, and give way, together.

::

    waiting ──start──▶ running ──▶ begin_step ─ reserve ─ settle ──▶ finished
       ▲                  │  ▲                              │
       └───── stop ───────┘  └──────────── next step ───────┘

A sampled answer, an answer of contrastive search and all beams of a request are runnables. They
share what is here: block tables, what they need of the cache, and the segments of a model call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from guided.decoding.draft_budget import DraftBudget
from guided.decoding.draft_tree import DraftTree
from guided.decoding.drafter import DraftRequest
from guided.decoding.draw import Draw
from guided.engine.answer_state import AnswerState
from guided.engine.submission import Submission
from guided.kv.block_table import BlockTable
from guided.kv.reservation import SlotCopies
from guided.kv.sequence_blocks import SequenceBlocks
from guided.model.batch import Segment, SegmentOutput
from guided.spec import TokenId

__all__ = ["AnswerRunnable", "Piece", "Runnable", "Settled", "Step", "demand"]


def demand(blocks: SequenceBlocks, count: int, step_tokens: int) -> tuple[int, ...]:
    """Blocks that a text takes, by group of layers, until ``count`` more tokens are in the cache.

    Layers with a window give blocks back as the text moves on, a step at a time.
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

    Subclasses say what their texts are, what a step computes for them, and what its outcome means.
    """

    def __init__(self, submission: Submission) -> None:
        self.submission = submission
        self.request_id = submission.request_id
        self.blocks: list[SequenceBlocks] = []
        """By text; empty while it waits."""
        self.is_paused = False
        """Something takes long to be built for it, so it has no part in steps; see ``Aside``."""
        self.steps_undrafted = 0
        """Steps that it still makes without drafts, as those took too long."""

    # --- what subclasses define -----------------------------------------------------------

    def texts(self) -> list[Sequence[TokenId]]:
        """All tokens that the model has to read, by text."""
        raise NotImplementedError

    @property
    def num_places(self) -> int:
        """Places of a batch that it takes, at the most."""
        raise NotImplementedError

    @property
    def is_finished(self) -> bool:
        """Whether nothing more is to be computed."""
        raise NotImplementedError

    def begin_step(self, count: int, budget: DraftBudget) -> Step:
        """The next step, which computes ``count`` of its pending tokens."""
        raise NotImplementedError

    def settle(self, step: Step, outputs: Sequence[SegmentOutput], judged: object) -> Settled:
        """Continue with the model's output for each segment of a step.

        ``judged`` is what ``judge`` said of it.
        Whatever can go wrong comes before the commit: from the commit on others may find the
        blocks in the prefix index, and their rows have still to be moved.
        """
        raise NotImplementedError

    # --- what subclasses may refine -------------------------------------------------------

    @property
    def judges_apart(self) -> bool:
        """Whether ``judge`` does all that may take long of a step; else ``settle`` does."""
        return False

    def judge(self, step: Step, outputs: Sequence[SegmentOutput]) -> object:  # noqa: ARG002
        """What is chosen by the model's output, and what follows from it; changes nothing."""
        return None

    def to_draw(self, piece: Piece) -> Sequence[Draw | None]:
        """What may be drawn by the logits of each deciding node, where they are.

        May take long, and raise what a constraint raises.
        """
        return [None] * len(piece.deciding)

    @property
    def wants_states(self) -> bool:
        """Whether the model has to give the hidden states of all tokens."""
        return False

    @property
    def is_drafting(self) -> bool:
        """Whether tokens are drafted for it, where there is room and they pay."""
        return False

    @property
    def known_prefix(self) -> Sequence[TokenId]:
        """The tokens that may be taken from the cache, where it knows a beginning of them."""
        return self.texts()[0]

    @property
    def spare_blocks(self) -> int:
        """Blocks of each group that are kept for texts which are still to be forked."""
        return 0

    @property
    def num_tried(self) -> int:
        """Tokens that are tried after the certain ones in each step."""
        return 0

    @property
    def pending(self) -> int:
        """Tokens that are certain but not yet in the cache; at least one while it runs."""
        return self.num_unread

    # --- what all have in common ----------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether it has blocks, as opposed to one that waits or was dropped."""
        return bool(self.blocks)

    @property
    def num_unread(self) -> int:
        """Tokens that are certain but not yet in the cache."""
        held = zip(self.texts(), self.blocks, strict=True)
        return sum([len(text) - blocks.committed for text, blocks in held])

    @property
    def tables(self) -> list[BlockTable]:
        """All block tables that it holds."""
        return [table for blocks in self.blocks for table in blocks.tables]

    def needs(
        self, block_size: int, step_tokens: int, opened: SequenceBlocks | None = None
    ) -> tuple[int, ...]:
        """Blocks, by group of layers, that let it run for some steps without giving way.

        ``opened`` are those that it would start with, for one that waits.
        """
        held = self.blocks if opened is None else [opened]
        # One block more than what is pending, so that nobody gives way right after the start.
        ahead = block_size + self.num_tried
        needs = [
            demand(blocks, len(text) - blocks.committed + ahead, step_tokens)
            for text, blocks in zip(self.texts(), held, strict=True)
        ]
        spare = self.spare_blocks
        return tuple([sum(of_group) + spare for of_group in zip(*needs, strict=True)])

    def start(self, blocks: SequenceBlocks) -> None:
        """Run with the blocks that were opened for ``known_prefix``, and own them from now on."""
        self.blocks = [blocks]
        use = self.submission.cache_use
        if use.reused is None:  # counts once, not when it starts over
            use.reused = blocks.committed

    def stop(self) -> None:
        """Give all blocks back; it can start over from its tokens."""
        for blocks in self.blocks:
            blocks.release()
        self.blocks = []

    def check(self) -> None:
        """Raise unless something is pending and nothing reserved."""
        if self.is_paused:
            return  # the step that it is in was not settled yet
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
        """Whether the answer has come to its end."""
        return self.answer.finish_reason is not None

    def texts(self) -> list[Sequence[TokenId]]:
        """Prompt and answer so far."""
        return [self.answer.tokens]

    @property
    def num_unread(self) -> int:
        """As for all; said for one text, as it is asked for some times in each step."""
        return len(self.answer.tokens) - self.blocks[0].committed


class Piece:
    """The new tokens of one text in one step: a segment of the model call."""

    __slots__ = ("blocks", "deciding", "text", "tree")

    def __init__(
        self,
        blocks: SequenceBlocks,
        tree: DraftTree,
        deciding: tuple[int, ...] | None = None,
        text: int = 0,
    ) -> None:
        self.blocks = blocks
        self.tree = tree
        self.deciding = tree.deciding if deciding is None else deciding
        """The nodes whose logits are wanted."""
        self.text = text
        """Which text of the runnable it is."""


class Step:
    """The part of a model call that is computed for one runnable."""

    __slots__ = ("_certain", "_claimed", "draft", "pieces", "runnable")

    def __init__(
        self,
        runnable: Runnable,
        pieces: list[Piece],
        *,
        certain: list[Piece] | None = None,
        draft: DraftRequest | None = None,
    ) -> None:
        self.runnable = runnable
        self.pieces = pieces
        self.draft = draft
        """The request for proposals, which are added to the only piece."""
        self._certain = pieces if certain is None else certain
        self._claimed = 0
        """Rows that it demands where it needs fewer."""

    def take_draft(self) -> None:
        """Let the step compute the drafted tree in place of its trunk, if something was drafted."""
        if self.draft is not None and self.draft.builder.has_proposals:
            tree = self.draft.builder.tree()
            self.pieces = [Piece(self.pieces[0].blocks, tree)]
            # How large a tree is depends on what was drawn for it. If it were given up for its
            # size, draws would be left out for what they are, and that changes the law of answers.
            if tree.draws:
                self._claimed = self.draft.builder.most

    def drop_draft(self) -> None:
        """Compute only what cannot be left out."""
        self.pieces = self._certain
        self._claimed = 0

    @property
    def num_tokens(self) -> int:
        """Tokens that it computes."""
        return sum([len(piece.tree) for piece in self.pieces])

    def demand(self) -> tuple[int, ...]:
        """Blocks that it takes, by group of layers."""
        # All nodes of a tree take rows, even those that are given back after the step.
        demands = []
        for piece in self.pieces:
            rows = max(len(piece.tree), self._claimed)
            demands.append(demand(piece.blocks, rows, rows))
        if len(demands) == 1:
            return demands[0]
        return tuple([sum(of_group) for of_group in zip(*demands, strict=True)])

    def reserve(self) -> Iterator[Segment]:
        """Set rows aside; the copies of a segment are to be made before the next is asked for."""
        for piece in self.pieces:
            tree, committed = piece.tree, piece.blocks.committed
            rows, certain = piece.blocks.reserve(len(tree)), tree.trunk
            self.runnable.submission.cache_use.copied += len(rows[0].copies)
            # A generator: copies of this segment must be made before the next one reserves rows,
            # as that may write to a block which is copied from.
            yield Segment(
                rows=rows,
                committed=committed,
                tokens=tree.tokens,
                depths=tree.depths(),
                ancestors=None if tree.is_chain else tree.ancestors(),
                deciding=piece.deciding,
                wants_states=self.runnable.wants_states,
                adapter=self.runnable.submission.adapter,
                recurrence=piece.blocks.recurrence,
                certain=certain,
                checkpoint=piece.blocks.checkpoint(certain),
            )


class Settled:
    """The consequences of a step that the engine has to carry out."""

    __slots__ = ("copies", "forks")

    def __init__(self, copies: Sequence[SlotCopies] = (), forks: Sequence[Runnable] = ()) -> None:
        self.copies = copies
        """To be made in the cache, by group of layers."""
        self.forks = forks
        """Runnables that were started by this step."""
