"""Medusa in the engine: drafts several tokens from the last hidden state of a text.

The state belongs to the last token that the model has computed. Which head predicts a token depends
on how far it is from there, whatever comes in between::

    computed ... p │ certain, not yet computed   │ drafted
                   │ p+1   the token chosen last │ p+4  head 2
                   │ p+2   and the run after it  │ p+5  head 3
                   │ p+3                         │ ...

So runs skip heads, and if a run is longer than there are heads nothing is drafted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import torch

from guided.decoding.drafter import DraftContext, DraftRequest, VerifiedStep
from guided.decoding.expansion import Expansion, ProposalRates, assumed_rates
from guided.drafters.heads.growth import GrowingTree, Logits, Place, grow
from guided.drafters.heads.medusa_module import MedusaHeads
from guided.drafters.heads.products import pack_linears, rows_dtype, target_logits
from guided.model.device import CPU
from guided.spec import TokenId

__all__ = ["MedusaDraftState", "MedusaDrafter"]

_WIDTH: Final = 4
"""The most tokens after one node, if a head has no width of its own."""
_PLACES: Final = 8
"""Places from which a tree grows in one round."""


class MedusaDraftState:
    """The last hidden state of one sequence, and what its heads proposed."""

    def __init__(self, context: DraftContext, rates: Sequence[ProposalRates]) -> None:
        self.expansions: Final = [Expansion(context, of_head) for of_head in rates]
        """One for each head: how often a rank is right depends on how far ahead a head looks."""
        self.hidden_state: torch.Tensor | None = None
        """``[hidden]``; ``None`` until something was computed."""
        self.position = 0
        """The position of the state."""

    def learn(self, verified: VerifiedStep) -> None:
        """Keep the state of the last token that stays."""
        for expansion in self.expansions:
            expansion.learn(verified)
        path = verified.acceptance.path
        # A copy, because the array has the states of all sequences of the step.
        self.hidden_state = torch.from_numpy(verified.states[path[-1]].copy())
        self.position = verified.first + len(path) - 1

    def end(self, tokens: Sequence[TokenId]) -> None:
        """Do nothing: nothing is held."""

    def first_head(self, tokens: Sequence[TokenId]) -> int:
        """Return the head that predicts the token after these."""
        return len(tokens) - 2 - self.position


class _TreeLogits:
    """The logits of one tree's heads, by head, computed when they are needed."""

    __slots__ = ("first", "logits", "state")

    def __init__(self, state: torch.Tensor, first: int) -> None:
        self.state = state
        self.first = first
        """The head that predicts the token after the root."""
        self.logits: dict[int, Logits] = {}


class MedusaDrafter:
    """Drafts for all sequences of one target."""

    name: Final = "medusa"
    wants_hidden_states: Final = True
    widths: Final = ()

    def __init__(
        self,
        module: MedusaHeads,
        *,
        vocabulary_size: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device = CPU,
        widths: Sequence[int] = (),
    ) -> None:
        """``module`` is moved to a type and a device for good.

        ``widths`` are the most tokens after one node, by head; the last is for all further heads.

        So ``(3, 2)`` drafts the cartesian product of the three likeliest tokens of the first head
        and the two likeliest of every other, as far as its nodes pay.
        """
        heads = module.shape.heads
        self._heads = heads
        padding = [widths[-1] if widths else _WIDTH] * heads
        self._widths = [*widths, *padding][:heads]
        self._rates = [ProposalRates(assumed_rates()) for _ in range(heads)]
        self._vocabulary_size = vocabulary_size
        self._device, self._dtype = device, rows_dtype(dtype, device)
        module.share_matrices()
        pack_linears(module, dtype, device)
        self._parts = [module.parts(head) for head in range(heads)]
        """The residual blocks of each head, and its matrix over the vocabulary."""
        self._is_shared = len({id(matrix) for _, matrix in self._parts}) == 1
        """Whether all heads have the same matrix."""

    def open(self, context: DraftContext) -> MedusaDraftState:
        """Begin a sequence."""
        return MedusaDraftState(context, self._rates)

    def propose(self, drafts: Sequence[DraftRequest]) -> None:
        """Grow the trees of all sequences whose next token some head predicts."""
        logits_by_tree: dict[GrowingTree[None], _TreeLogits] = {}
        for draft in drafts:
            draft_state = draft.draft_state
            assert isinstance(draft_state, MedusaDraftState), (
                f"{draft_state!r} is of another drafter"
            )
            for expansion in draft_state.expansions:
                expansion.begin()
            first = draft_state.first_head(draft.tokens)
            if draft_state.hidden_state is None or not 0 <= first < self._heads:
                continue
            tree: GrowingTree[None] = GrowingTree(
                draft.builder,
                partial(_expansion, draft_state, first),
                partial(self._width, first),
                self._heads - first,
            )
            logits_by_tree[tree] = _TreeLogits(draft_state.hidden_state, first)
        logits_at = partial(self._logits, logits_by_tree)
        grow([*logits_by_tree], logits_at, most_places=_PLACES, rounds=self._heads)

    def _width(self, first: int, depth: int) -> int:
        """Return the most tokens after a node of this depth, where ``first`` is the root's head."""
        head = first + depth
        return self._widths[head] if head < self._heads else 0

    def _logits(
        self, logits_by_tree: dict[GrowingTree[None], _TreeLogits], places: Sequence[Place[None]]
    ) -> list[Logits]:
        """Return the logits at each place, by the head that predicts the place's depth.

        A head's logits are computed once for each tree: all places of one depth have the same.
        """
        wanted: dict[tuple[int, int], _TreeLogits] = {}
        for place in places:
            of_tree = logits_by_tree[place.tree]
            head = of_tree.first + place.depth
            if head not in of_tree.logits:
                # If heads share their matrix it is read once for all that may be needed.
                heads = range(of_tree.first, self._heads) if self._is_shared else (head,)
                wanted |= {(id(of_tree), head): of_tree for head in heads}
        self._compute([(of_tree, head) for (_, head), of_tree in wanted.items()])
        return [
            logits_by_tree[p.tree].logits[logits_by_tree[p.tree].first + p.depth] for p in places
        ]

    @torch.inference_mode()
    def _compute(self, wanted: Iterable[tuple[_TreeLogits, int]]) -> None:
        """Compute the logits of some heads of some trees, one product for each matrix."""
        by_product: dict[int, list[tuple[_TreeLogits, int]]] = {}
        for of_tree, head in wanted:
            by_product.setdefault(id(self._parts[head][1]), []).append((of_tree, head))
        for group in by_product.values():
            rows = torch.stack(
                [
                    self._parts[head][0](of_tree.state.to(self._device, self._dtype))
                    for of_tree, head in group
                ]
            )  # [group, hidden]
            _, matrix = self._parts[group[0][1]]
            logits = target_logits(matrix(rows), self._vocabulary_size, None)
            for (of_tree, head), row in zip(group, logits, strict=True):
                of_tree.logits[head] = row


def _expansion(draft_state: MedusaDraftState, first: int, depth: int) -> Expansion:
    """Return what drafts after a node of this depth, where ``first`` is the root's head."""
    return draft_state.expansions[first + depth]
