"""EAGLE-3 in the engine: drafts level by level with a head of one layer, in dynamic trees.

``eagle_rows`` explains the rows of a text. In each step::

    learn      the taps of the tokens that stay wait for the next token
    propose    1  the rows that waited are computed and kept        one call for all sequences
               2  a row for each certain token after them           one call for each token
               3  trees grow, a row for each drafted token          one call for each of a run

If the model takes a prompt from its cache there are no taps of it. Then its rows are taken from
the cache of rows, which keeps those of every prompt. If they are not all there, and for sibling
samples, the rows of a text begin where its taps do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, TypeAlias

import torch

from guided.decoding.drafter import DraftContext, DraftRequest, VerifiedStep
from guided.decoding.expansion import Expansion, ProposalRates, assumed_rates
from guided.drafters.heads.eagle_module import EagleHead
from guided.drafters.heads.eagle_rows import EagleRows, Past, TextRows
from guided.drafters.heads.growth import GrowingTree, Logits, Place, grow
from guided.drafters.heads.products import target_logits
from guided.masks.mask import mask_of
from guided.model.device import CPU
from guided.spec import TokenId

__all__ = ["EagleDraftState", "EagleDrafter"]

_WIDTH: Final = 4
"""The most tokens after one node."""
_PLACES: Final = 4
"""Places from which a tree grows in one round."""
_ROUNDS: Final = 8
"""Rounds in which trees grow, and the most tokens drafted one after the other."""
_MAX_RUN: Final = 16
"""The most certain tokens in a row that are read; each takes a call of the head."""
_WAITING: Final = 16
"""The most rows of a text that wait for the joint call; a text with more, such as a part of a
prompt, makes its own."""


class _RowOutput:
    """The head's output for a row, and what the next row needs."""

    __slots__ = ("output", "past", "position")

    def __init__(self, output: torch.Tensor, past: Past, position: int) -> None:
        self.output = output
        """``[hidden]``."""
        self.past = past
        """All rows up to here."""
        self.position = position
        """The index of the row."""


_Place: TypeAlias = Place[_RowOutput]


class EagleDraftState:
    """The rows of one text."""

    def __init__(self, context: DraftContext, rates: ProposalRates, rows: EagleRows) -> None:
        self.expansion: Final = Expansion(context, rates)
        self._rows = rows
        self.blocks = rows.open(context.prompt, context.cache_salt)
        """The rows that are kept; at first those that other texts left of the prompt."""
        self.output: torch.Tensor | None = None
        """The output of the last of them."""
        self._first = 0
        """The index of the first of them."""
        self._features: list[torch.Tensor] = []
        """The features of later positions, ``[positions, hidden]`` each."""
        self._tokens: list[TokenId] = []
        """The tokens at these positions."""

    @property
    def next_row(self) -> int:
        """The index of the row after those that are kept."""
        return self._first + self.blocks.committed

    def learn(self, verified: VerifiedStep) -> None:
        """Keep the taps of the tokens that stay, to wait for the token after them."""
        self.expansion.learn(verified)
        path = list(verified.acceptance.path)
        expected = self.next_row + len(self._tokens)
        if verified.first > expected:
            # The model took more of the prompt from its cache than the cache of rows has.
            self.restart()
            self._first = expected = verified.first
        # The rest is known: a text that starts over is read again from its beginning.
        path = path[expected - verified.first :]
        if path:
            self._features.append(self._rows.fuse(torch.from_numpy(verified.taps[path])))
            self._tokens += [verified.tree.tokens[node] for node in path]
        if len(self._tokens) > _WAITING:
            text = self._make_rows(self._tokens[1:])
            if text is not None:
                _keep(self._rows, [(self, text)])

    def end(self, tokens: Sequence[TokenId]) -> None:  # noqa: ARG002 - whatever they are
        """Release the rows."""
        self.blocks.release()

    def restart(self) -> None:
        """Start again, without rows."""
        self.blocks.release()
        self.blocks = self._rows.open_unshared()
        self.output = None
        self._features, self._tokens = [], []

    def waiting_rows(self, tokens: Sequence[TokenId]) -> TextRows | None:
        """Return the rows that wait, of a text of these ``tokens``; ``None`` if there are none."""
        first = self.next_row + 1
        return self._make_rows(tokens[first : first + len(self._tokens)])

    def record_output(self, text: TextRows, output: torch.Tensor | None) -> None:
        """Take computed rows off those that wait; ``output`` is that of the last of them.

        ``None`` means that there was no room to keep them: then the text starts again.
        """
        if output is None:
            self.restart()
            return
        count = len(text.tokens)
        self.output = output
        self._tokens = self._tokens[count:]
        self._features = [torch.cat(self._features)[count:]] if self._tokens else []

    def _make_rows(self, tokens: Sequence[TokenId]) -> TextRows | None:
        """Return the first rows that wait, which hold these tokens; ``None`` for no tokens.

        Row ``i`` holds token ``i + 1``, so a waiting row has no token until the next one is known.
        """
        if not tokens:
            return None
        features = torch.cat(self._features)[: len(tokens)]
        return TextRows(self.blocks, tokens, features, self.next_row)


def _keep(rows: EagleRows, texts: Sequence[tuple[EagleDraftState, TextRows]]) -> None:
    """Compute the next rows of several texts in one call, and keep them."""
    try:
        outputs = rows.keep([text for _, text in texts])
    except BaseException:
        # Some rows may be stored already. The engine drafts on after a fault, and features that
        # wait must not meet the tokens after these rows: so all begin again.
        for draft_state, _ in texts:
            draft_state.restart()
        raise
    for (draft_state, text), output in zip(texts, outputs, strict=True):
        draft_state.record_output(text, output)


class EagleDrafter:
    """Drafts for all sequences of one target."""

    name: Final = "eagle"
    wants_hidden_states: Final = True
    widths: Final = ()

    def __init__(
        self,
        head: EagleHead,
        *,
        vocabulary_size: int,
        cache_tokens: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device = CPU,
        width: int = _WIDTH,
        reuse_prefixes: bool = True,
    ) -> None:
        """See ``EagleRows``; at most ``width`` tokens are drafted after one node.

        The runner has to tap ``taps``.
        """
        self.taps: Final = head.shape.taps
        """Layers of the target whose input is read."""
        self._rows = EagleRows(
            head,
            cache_tokens=cache_tokens,
            dtype=dtype,
            device=device,
            reuse_prefixes=reuse_prefixes,
        )
        self._rates = ProposalRates(assumed_rates())
        self._vocabulary_size = vocabulary_size
        self._width = width
        # The target's tokens that the head predicts, as ids and as a packed mask; ``None`` for all.
        self._ids = self._covered = None
        if head.has_reduced_vocabulary:
            self._ids = head.draft_ids().cpu().numpy()
            self._covered = mask_of(vocabulary_size, self._ids[self._ids < vocabulary_size])

    @property
    def num_open(self) -> int:
        """The number of texts that hold rows, or may."""
        return self._rows.cache.num_open

    def check(self) -> None:
        """Raise unless the cache of rows adds up."""
        self._rows.cache.check()

    def open(self, context: DraftContext) -> EagleDraftState:
        """Begin a sequence."""
        return EagleDraftState(context, self._rates, self._rows)

    def propose(self, drafts: Sequence[DraftRequest]) -> None:
        """Grow the trees of all sequences with rows and at most ``_MAX_RUN`` tokens after them."""
        self._compute_waiting(drafts)
        trees = []
        for draft in drafts:
            draft_state = _eagle_state(draft)
            # Here and not below: a call that failed may have left proposals.
            draft_state.expansion.begin()
            # The tokens after the last row are certain, but the model has not computed them.
            ahead = draft.tokens[draft_state.next_row + 1 :]
            if draft_state.output is None or len(ahead) > _MAX_RUN:
                continue
            tree: GrowingTree[_RowOutput] = GrowingTree(
                draft.builder, partial(_expansion, draft_state), self._width_at, _ROUNDS
            )
            # One for each text: places of a tree are grouped by the object.
            past = self._rows.past(draft_state.blocks)
            tree.root.kept = _RowOutput(draft_state.output, past, draft_state.next_row - 1)
            trees.append((tree, ahead))
        self._continue_places([(tree.root, ahead) for tree, ahead in trees])
        grow(
            [tree for tree, _ in trees],
            self._logits,
            most_places=_PLACES,
            rounds=_ROUNDS,
            covered=self._covered,
        )

    def _width_at(self, depth: int) -> int:  # noqa: ARG002 - the same everywhere
        """Return the most tokens after a node of this depth."""
        return self._width

    def _compute_waiting(self, drafts: Sequence[DraftRequest]) -> None:
        """Compute and keep the rows that wait, of all texts: their last token is known now.

        A text without room for them starts again.
        """
        texts = []
        for draft in drafts:
            draft_state = _eagle_state(draft)
            text = draft_state.waiting_rows(draft.tokens)
            if text is not None:
                texts.append((draft_state, text))
        if texts:
            _keep(self._rows, texts)

    def _logits(self, places: Sequence[_Place]) -> list[Logits | None]:
        """Return the logits at each place, ``None`` after a forced run too long to compute.

        Rows of new places are computed first, each continuing what its parent has kept.
        """
        new = [place for place in places if place.before is not None]
        for place in new:
            assert place.before is not None
            place.kept = place.before.kept
        self._continue_places(
            [(place, place.tokens) for place in new if len(place.tokens) <= _MAX_RUN]
        )
        computed = [p for p in places if p.before is None or len(p.tokens) <= _MAX_RUN]
        if not computed:
            return [None] * len(places)
        logits = target_logits(
            self._rows.logits([_output_at(place).output for place in computed]),
            self._vocabulary_size,
            self._ids,
        )
        found: dict[int, Logits] = {id(p): row for p, row in zip(computed, logits, strict=True)}
        return [found.get(id(place)) for place in places]

    def _continue_places(self, places: Sequence[tuple[_Place, Sequence[TokenId]]]) -> None:
        """Compute the rows of the tokens after each place, which then ``kept`` that of the last.

        Each place has its tokens beside it. All places are computed together, a call for each
        token in a row.
        """
        step = 0
        while unfinished := [(place, tokens) for place, tokens in places if len(tokens) > step]:
            before = [_output_at(place) for place, _ in unfinished]
            outputs, pasts = self._rows.continue_rows(
                [tokens[step] for _, tokens in unfinished],
                [self._rows.feature(known.output) for known in before],
                [known.position + 1 for known in before],
                [known.past for known in before],
            )
            rows = zip(unfinished, before, outputs, pasts, strict=True)
            for (place, _), known, output, past in rows:
                place.kept = _RowOutput(output, past, known.position + 1)
            step += 1


def _eagle_state(draft: DraftRequest) -> EagleDraftState:
    """Return the draft state of a request, which this drafter has opened."""
    draft_state = draft.draft_state
    assert isinstance(draft_state, EagleDraftState), f"{draft_state!r} is of another drafter"
    return draft_state


def _output_at(place: _Place) -> _RowOutput:
    """Return the output of the last row up to a place, which was computed."""
    assert place.kept is not None, f"nothing was read at node {place.node}"
    return place.kept


def _expansion(draft_state: EagleDraftState, depth: int) -> Expansion:  # noqa: ARG001 - the same everywhere
    """Return what drafts after the places of this depth."""
    return draft_state.expansion
