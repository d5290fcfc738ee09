"""The engine's drafter: tokens that followed the same text before, or that the constraint suggests.

It drafts tokens of several kinds, the likeliest first, into one tree. Best first is also best for a
given number of nodes: a node's chance is its parent's times its own, so no node is ever likelier
than the one before it. It runs no model. See docs/tree-verify.md.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from guided.decoding.allowed_tokens import few_tokens
from guided.decoding.draft_budget import AcceptanceRates
from guided.decoding.drafter import DraftBuilder, DraftContext, DraftRequest, VerifiedStep
from guided.decoding.judged_proposals import JudgedProposals
from guided.drafters.text_index import MATCH_LENGTHS, PromptIndex, TextIndex, TokenTable
from guided.errors import LimitExceededError
from guided.masks.mask import Mask
from guided.masks.vocabulary import Vocabulary
from guided.spec import TokenId

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["ASSUMED_RATES", "COPIES", "DraftKind", "LookupDraftState", "LookupDrafter"]

_TAIL: Final = MATCH_LENGTHS[0]
_FEW_TOKENS: Final = 256
"""The most allowed tokens that are searched for choices."""
_FEW_CHOICES: Final = 16
"""The most choices that are all drafted."""


class DraftKind(StrEnum):
    """The origin of a drafted token; acceptance rates are kept for each kind."""

    COPY_16 = "copy after 16 bytes"
    """The token that followed the same 16 bytes or more before, in the prompt or the answer."""
    COPY_8 = "copy after 8 bytes"
    COPY_5 = "copy after 5 bytes"
    COPY_3 = "copy after 3 bytes"
    COPY_2 = "copy after 2 bytes"
    SPELLING = "spelling"
    """The tokenizer's token for bytes that must come, where later text could still change it."""
    SHORTER_SPELLING = "shorter spelling"
    """The longest token that this token begins with, without being it."""
    CHOICE = "choice"
    """One of few allowed tokens."""


_COPIES: Final = {
    16: DraftKind.COPY_16,
    8: DraftKind.COPY_8,
    5: DraftKind.COPY_5,
    3: DraftKind.COPY_3,
    2: DraftKind.COPY_2,
}
COPIES: Final = frozenset(_COPIES.values())
"""The kinds whose tokens occurred in the text before."""
ASSUMED_RATES: Final[Mapping[DraftKind, float]] = MappingProxyType(
    {
        DraftKind.COPY_16: 0.9,
        DraftKind.COPY_8: 0.75,
        DraftKind.COPY_5: 0.6,
        DraftKind.COPY_3: 0.4,
        DraftKind.COPY_2: 0.3,
        DraftKind.SPELLING: 0.6,
        DraftKind.SHORTER_SPELLING: 0.3,
        DraftKind.CHOICE: 0.65,
    }
)
"""A sequence's initial rates; ``benchmarks/model_calls.py`` prints measured ones."""


class DraftToken:
    """One token that may come next."""

    __slots__ = ("kind", "token", "weight")

    def __init__(self, token: TokenId, kind: DraftKind, weight: float = 1.0) -> None:
        self.token = token
        self.kind = kind
        self.weight = weight
        """Its part of the kind's chance, among several tokens that exclude each other."""


_Entry: TypeAlias = tuple[float, int, int, DraftToken]
"""A token that may still be added: 1 less the chance that the answer takes this path, its age, and
the node that it follows. So entries sort by falling chance, then by age."""


class LookupDraftState:
    """The text of one sequence, and how often its drafts were right.

    It knows no other sequence; only the index of the prompt is that of all answers to a request.
    """

    def __init__(self, table: TokenTable, context: DraftContext) -> None:
        self._table = table
        self._context = context
        self._index: TextIndex | None = None
        """Made when it is first needed: not all sequences are drafted for."""
        self.rates = AcceptanceRates[DraftKind](ASSUMED_RATES)
        """How often its drafted tokens were right, by kind."""
        self.drafted = JudgedProposals[DraftKind](self.rates)
        """The tokens of the latest tree."""

    @property
    def index(self) -> TextIndex:
        """The index of the text that was read."""
        assert self._index is not None, "nothing was read yet"
        return self._index

    def read(self, tokens: Sequence[TokenId]) -> None:
        """Index what is new of the text, of which ``tokens`` are all tokens so far."""
        if self._index is None:
            self._index = TextIndex(self._table, self._prompt_index())
        # A sequence that starts over keeps its tokens, so those read before are still the first.
        self._index.extend(tokens[len(self._index) :])

    def _prompt_index(self) -> PromptIndex:
        """Return the index of the prompt, which the first of several answers makes."""
        shared = self._context.shared
        found = shared.get(LookupDrafter.name)
        if found is None:
            found = shared[LookupDrafter.name] = PromptIndex(self._table, self._context.prompt)
        assert isinstance(found, PromptIndex), f"{found!r} is of another drafter"
        return found

    def learn(self, verified: VerifiedStep) -> None:
        """Record which tokens of the latest tree the model agreed with."""
        self.rates.decay()
        self.drafted.learn(verified)

    def end(self, tokens: Sequence[TokenId]) -> None:
        """Do nothing: nothing is held."""


class LookupDrafter:
    """Drafts for all sequences of one vocabulary; their draft states hold what it knows of each."""

    name: Final = "lookup"
    wants_hidden_states: Final = False
    widths: Final = ()

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._table = TokenTable(vocabulary.token_bytes)

    def open(self, context: DraftContext) -> LookupDraftState:
        """Begin a sequence."""
        return LookupDraftState(self._table, context)

    def propose(self, drafts: Sequence[DraftRequest]) -> None:
        """Add tokens to each tree as long as they pay."""
        for draft in drafts:
            draft_state = draft.draft_state
            assert isinstance(draft_state, LookupDraftState), (
                f"{draft_state!r} is of another drafter"
            )
            self._grow(draft_state, draft.tokens, draft.builder)

    def _grow(
        self, draft_state: LookupDraftState, tokens: Sequence[TokenId], builder: DraftBuilder
    ) -> None:
        """Grow the tree of one sequence best first: the likeliest path of all comes next."""
        draft_state.read(tokens)
        draft_state.drafted.clear()
        root = builder.root
        tails = {root: draft_state.index.tail()}
        # Best first. The age breaks ties, so the same tokens always give the same tree.
        heap = self._entries(draft_state, builder, root, tails[root], 1.0, 0)
        made = len(heap)
        while heap:
            loss, _, node, drafted = heapq.heappop(heap)
            builder.kind = drafted.kind
            continuation = builder.add(node, drafted.token, 1.0 - loss)
            if continuation is None:
                # Another drafter may have been first; else it is not allowed or not worth it.
                continuation = builder.find(node, drafted.token)
            if continuation is None or continuation in tails:
                continue
            draft_state.drafted.record(node, drafted.token, drafted.kind, drafted.weight)
            # A node is added with the run that it forces, so the text may grow by several tokens.
            tails[continuation] = (tails[node] + self._decode(builder.path(node, continuation)))[
                -_TAIL:
            ]
            for entry in self._entries(
                draft_state, builder, continuation, tails[continuation], 1.0 - loss, made
            ):
                heapq.heappush(heap, entry)
                made += 1

    def _entries(
        self,
        draft_state: LookupDraftState,
        builder: DraftBuilder,
        node: int,
        tail: bytes,
        chance: float,
        made: int,
    ) -> list[_Entry]:
        """Return what may be drafted after a node and pays; sorted, so a heap.

        ``tail`` is the end of the text there, ``made`` counts the entries so far.
        """
        matcher = builder.matcher(node)
        # No token after the node is likelier than the node, so if that does not pay none does.
        if matcher.is_complete or not builder.pays(1, chance):
            return []
        try:
            tokens = self._tokens(matcher, draft_state.index, tail)
        except LimitExceededError:
            return []  # the choice at this node closes the answer
        found: list[_Entry] = []
        for drafted in tokens:
            likely = chance * draft_state.rates.rate(drafted.kind) * drafted.weight
            # Checked again when it is added: by then the tree has grown, and nodes may cost more.
            if builder.pays(1, likely):
                found.append((1.0 - likely, made + len(found), node, drafted))
        found.sort()
        return found

    def _tokens(self, matcher: Matcher, index: TextIndex, tail: bytes) -> list[DraftToken]:
        """Return tokens that may follow the text that ends in ``tail``; not all need be allowed."""
        choices = self._choices(matcher.mask())
        tokens = self._spellings(matcher)
        match = index.match(tail)
        if match is not None:
            tokens.append(DraftToken(match.token, _COPIES[match.length]))
        tokens += [DraftToken(token, DraftKind.CHOICE, 1 / len(choices)) for token in choices]
        return tokens

    def _spellings(self, matcher: Matcher) -> list[DraftToken]:
        """Return how the bytes that must come next may begin, likeliest first; maybe nothing.

        That is the token which the tokenizer would take, and the longest one that it begins with.
        """
        # Only the first token: the rest is considered again once it is in the tree.
        run = matcher.likely_run()
        if not run:
            return []
        tokens = [DraftToken(run[0], DraftKind.SPELLING)]
        shorter = self._table.shorter(run[0])
        if shorter is not None:
            tokens.append(DraftToken(shorter, DraftKind.SHORTER_SPELLING))
        return tokens

    def _choices(self, mask: Mask) -> list[TokenId]:
        """Return the allowed tokens if few: listed values, ``true`` and ``false``, digits.

        A value may begin with several tokens that begin with each other: ``l``, ``le``,
        ``leather``. The longest stands for it, as it does for most tokenizers.
        """
        # 16 values may have many more tokens, because each of their beginnings may be one.
        allowed = few_tokens(mask, _FEW_TOKENS)
        if allowed is None:
            return []
        longest = self._table.longest(allowed)
        return longest if len(longest) <= _FEW_CHOICES else []

    def _decode(self, tokens: Sequence[TokenId]) -> bytes:
        return b"".join([self._table.bytes[token] or b"" for token in tokens])
