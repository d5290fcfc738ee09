"""Beam search in the engine: a fork of block tables for each beam."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from guided.decoding.beam_search import BeamSearch
from guided.decoding.draft_budget import DraftBudget
from guided.decoding.drafting import OpenDrafter
from guided.engine.completeness import checked
from guided.engine.preparation import Preparation
from guided.engine.room import demand
from guided.engine.work import Settled
from guided.kv.block_table import BlockTable
from guided.kv.sequence_blocks import SequenceBlocks
from guided.masks.vocabulary import Vocabulary
from guided.model.batch import Segment, SegmentOutput
from guided.spec import (
    Beams,
    CandidateResult,
    FinishReason,
    GenerationResult,
    TokenId,
    Usage,
)

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["BeamGroup"]


class BeamGroup:
    """The beams of one request while they have no room in the cache, and what they found.

    They start, and start over, from a *stem*: the tokens before they part, which are computed once.
    """

    def __init__(
        self,
        asked: Preparation,
        beams: Beams,
        matcher: Matcher,
        end_ids: frozenset[TokenId],
    ) -> None:
        request = asked.request
        self.request_id = asked.request_id
        self.urgency = asked.urgency
        self.cache_salt = asked.request.cache_salt
        self.clock = asked.clock
        self.prompt = asked.prompt
        self.search = BeamSearch(
            beams,
            matcher,
            max_tokens=request.max_tokens,
            forcing=request.forcing,
            end_ids=end_ids,
            is_constrained=request.constraint is not None,
        )
        self.num_places = beams.width
        self.model_calls = 0
        self.shared_tokens = 0
        self.copied_tokens = 0
        self._request = request
        self._n = request.n
        self._is_constrained = request.constraint is not None
        self._reused: int | None = None

    @property
    def first(self) -> BeamGroup:
        """All beams at once."""
        return self

    @property
    def is_finished(self) -> bool:
        """Whether the best answers are found."""
        return self.search.is_over

    @property
    def tokens(self) -> tuple[TokenId, ...]:
        """Prompt and stem, without what the model has still to be asked about."""
        return self.prompt + self.search.live[0].tokens[: self.search.stem]

    def text(self, beam: int) -> tuple[TokenId, ...]:
        """Prompt and answer of a beam, as far as the model has to read them."""
        hypothesis = self.search.live[beam]
        return self.prompt + hypothesis.tokens[: hypothesis.num_fed]

    def needs(self, blocks: SequenceBlocks, block_size: int, step_tokens: int) -> tuple[int, ...]:
        """Blocks for the stem, and for each beam a copy of its last block and one behind it."""
        count = len(self.tokens) - blocks.committed + block_size
        return tuple(n + 2 * self.num_places for n in demand(blocks, count, step_tokens))

    @property
    def num_chosen(self) -> int:
        """Rounds made: tokens of the longest answer."""
        return self.search.length

    def new_text(self) -> str:
        """Nothing: which beam is the answer shows at the end."""
        return ""

    def close_for_deadline(self) -> None:
        """End all beams along their ways out."""
        is_constrained = self._is_constrained
        self.search.close(FinishReason.DEADLINE_CLOSED if is_constrained else FinishReason.DEADLINE)

    def run(self, blocks: SequenceBlocks, open_drafter: OpenDrafter) -> RunningBeams:  # noqa: ARG002 - nothing is guessed
        """Start with the blocks that were opened for ``tokens``."""
        if self._reused is None:
            self._reused = blocks.committed
        return RunningBeams(self, blocks)

    def result(self, vocabulary: Vocabulary) -> GenerationResult:
        """The best answers, best first; raises as for drawn ones."""
        errors = "strict" if self._is_constrained else "replace"
        best = self.search.found[: self._n]
        candidates = tuple(
            CandidateResult(
                index=index,
                text=vocabulary.decode(found.tokens).decode("utf-8", errors),
                tokens=found.tokens,
                finish_reason=found.finish_reason,
                score=found.score,
            )
            for index, found in enumerate(best)
        )
        result = GenerationResult(
            text=candidates[0].text,
            tokens=candidates[0].tokens,
            finish_reason=candidates[0].finish_reason,
            usage=self.usage(),
            seconds=self.clock.seconds,
            timing=self.clock.timing(len(candidates[0].tokens)),
            candidates=candidates,
        )
        return checked(result, self._request)

    def usage(self) -> Usage:
        """What the search cost so far, and the tokens of its answers once it is over.

        Until then a better answer of fewer chosen tokens may come, and counts never fall.
        """
        best = self.search.found[: self._n] if self.is_finished else []
        num_forced = sum(found.num_forced for found in best)
        return Usage(
            prompt_tokens=len(self.prompt),
            reused_tokens=self._reused or 0,
            sampled_tokens=sum(len(found.tokens) for found in best) - num_forced,
            forced_tokens=num_forced,
            model_calls=self.model_calls,
            shared_tokens=self.shared_tokens,
            copied_tokens=self.copied_tokens,
        )


class RunningBeams:
    """Beams with their blocks: one table for the stem, or one for each beam."""

    def __init__(self, group: BeamGroup, stem: SequenceBlocks) -> None:
        self.group = group
        self._stem: SequenceBlocks | None = stem
        self._tables: list[SequenceBlocks] = [stem]
        self._part()

    @property
    def request_id(self) -> str:
        """That of the request."""
        return self.group.request_id

    @property
    def num_places(self) -> int:
        """Places of a batch that the beams take when there are as many as there may be."""
        return self.group.num_places

    @property
    def pending(self) -> int:
        """Tokens of all beams that are certain but not yet in the cache."""
        return sum(len(text) - table.committed for text, table in self._texts())

    @property
    def is_finished(self) -> bool:
        """Whether the best answers are found."""
        return self.group.is_finished

    @property
    def tables(self) -> list[BlockTable]:
        """Those of all beams."""
        return [table for blocks in self._tables for table in blocks.tables]

    def needs(self, block_size: int, step_tokens: int) -> tuple[int, ...]:
        """Blocks for what is pending, and one more for each beam there may be."""
        needs = [
            demand(table, len(text) - table.committed + block_size, step_tokens)
            for text, table in self._texts()
        ]
        unborn = 2 * (self.num_places - len(self._tables))
        return tuple(sum(of_group) + unborn for of_group in zip(*needs, strict=True))

    def draft(self, count: int, budget: DraftBudget) -> BeamStep:  # noqa: ARG002 - nothing is guessed
        """The next ``count`` pending tokens, those of the likeliest beams first."""
        pieces = []
        for beam, (text, table) in enumerate(self._texts()):
            tokens = text[table.committed : table.committed + count]
            count -= len(tokens)
            if tokens:
                pieces.append(_Piece(beam, table, tokens, self._deciding(beam, table, tokens)))
        return BeamStep(self, tuple(pieces))

    def take(self, piece: _Piece, logits: NDArray[np.float32]) -> None:
        """Commit a piece, and read what the model said (``[deciding, vocabulary]``)."""
        place = piece.table.committed + 1 - len(self.group.prompt)
        piece.table.commit(range(len(piece.tokens)), piece.tokens)
        for node, row in zip(piece.deciding, logits, strict=True):
            self.group.search.read(piece.beam, place + node, row)

    def advance(self) -> None:
        """Make all rounds that need no more model calls."""
        self._part()
        search = self.group.search
        while self._stem is None and not search.is_over and search.is_ready:
            self._follow(search.advance())

    def stop(self) -> BeamGroup:
        """Give all blocks back; beams that start over ask the model again how they may go on."""
        for table in self._tables:
            table.release()
        self._tables = []
        self.group.search.forget_ways()
        return self.group

    def check(self) -> None:
        """Raise unless something is pending and nothing reserved."""
        assert self.pending > 0, f"{self.request_id!r} has nothing pending"
        assert all(table.reserved == 0 for table in self._tables), f"{self.request_id!r} holds rows"

    def _texts(self) -> list[tuple[tuple[TokenId, ...], SequenceBlocks]]:
        """What has to be in the cache, with the table for it."""
        if self._stem is not None:
            return [(self.group.tokens, self._stem)]
        return [(self.group.text(beam), table) for beam, table in enumerate(self._tables)]

    def _part(self) -> None:
        """Give each beam a table of its own once the stem is computed."""
        count = len(self.group.search.live)
        stem = self._stem
        if stem is None or (count > 1 and stem.committed < len(self.group.tokens)):
            return
        self._stem = None
        self._follow([0] * count)

    def _follow(self, parents: list[int]) -> None:
        """Let every beam go on from the table of its parent; the first child takes it over."""
        former, self._tables = self._tables, []
        for place, parent in enumerate(parents):
            table = former[parent]
            if parent in parents[:place]:
                table = table.fork()
                self.group.shared_tokens += table.committed
            self._tables.append(table)
        for parent, table in enumerate(former):
            if parent not in parents:
                table.release()

    def _deciding(
        self, beam: int, table: SequenceBlocks, tokens: tuple[TokenId, ...]
    ) -> tuple[int, ...]:
        """The tokens whose logits tell something new about the beam."""
        if self._stem is not None:
            return ()
        place = table.committed + 1 - len(self.group.prompt)
        hypothesis = self.group.search.live[beam]
        return tuple(
            node
            for node in range(len(tokens))
            if place + node >= 0 and hypothesis.wants(place + node)
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """The next tokens of one beam, or of the stem."""

    beam: int
    table: SequenceBlocks
    tokens: tuple[TokenId, ...]
    deciding: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class BeamStep:
    """What one step computes for all beams of a request."""

    running: RunningBeams
    pieces: tuple[_Piece, ...]

    def without_guesses(self) -> BeamStep:
        """Itself: nothing is guessed."""
        return self

    def demand(self) -> tuple[int, ...]:
        """Blocks for the tokens of all pieces, by group of layers."""
        demands = [demand(p.table, len(p.tokens), len(p.tokens)) for p in self.pieces]
        return tuple(map(sum, zip(*demands, strict=True)))

    def reserve(self) -> Iterator[Segment]:
        """Set rows aside for the pieces, one after the other."""
        for piece in self.pieces:
            committed, count = piece.table.committed, len(piece.tokens)
            rows = piece.table.reserve(count)
            self.running.group.copied_tokens += len(rows[0].copies)
            yield Segment(
                rows=rows,
                committed=committed,
                tokens=piece.tokens,
                depths=tuple(range(count)),
                ancestors=None,
                deciding=piece.deciding,
            )

    def settle(self, outputs: Items[SegmentOutput]) -> Settled:
        """Read what the model said about each beam, and go on as far as that tells."""
        for piece, output in zip(self.pieces, outputs, strict=True):
            self.running.take(piece, output.logits)
        self.running.advance()
        return Settled()
