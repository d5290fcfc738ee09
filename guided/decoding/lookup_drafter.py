"""The drafter of the engine: guesses of several kinds, the likeliest first, in one tree.

Best first is also best for a given number of nodes: a node's chance is its parent's times its own,
so no node is ever likelier than the one before it. See docs/tree-verify.md.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final, TypeAlias

from guided.decoding.acceptance_rates import AcceptanceRates
from guided.decoding.draft_tree import DraftTree
from guided.decoding.drafting import Drafter, NoDrafter, OpenDrafter
from guided.decoding.guess import ASSUMED_RATES, Guess, GuessKind
from guided.decoding.guesser import Guesser
from guided.decoding.text_index import MATCH_LENGTHS, TextIndex
from guided.decoding.token_table import TokenTable
from guided.decoding.tree_growth import TreeGrowth
from guided.decoding.verify import Acceptance
from guided.errors import LimitExceededError
from guided.masks.vocabulary import Vocabulary
from guided.spec import Forcing, TokenId

__all__ = ["LookupDrafter", "lookup_drafters"]

_TAIL: Final = MATCH_LENGTHS[0]


_Candidate: TypeAlias = tuple[float, int, int, Guess]
"""A guess that may still be added: 1 less the chance that the answer goes this way, its age, the
node behind which it is made. So they sort by falling chance, then by age."""


class LookupDrafter:
    """Drafts for one sequence; what it knows, it knows from this sequence alone."""

    def __init__(self, table: TokenTable, guesser: Guesser) -> None:
        self._table = table
        self._guesser = guesser
        self._index = TextIndex(table)
        self.rates = AcceptanceRates[GuessKind](ASSUMED_RATES)
        """What became of its guesses, by kind."""
        self._guessed: dict[tuple[int, TokenId], Guess] = {}
        """The guesses of the latest tree, by the node behind which they are made."""

    def draft(self, tokens: Sequence[TokenId], growth: TreeGrowth) -> None:
        """Grow guesses as long as they pay."""
        self._index.extend(tokens[len(self._index) :])
        self._guessed.clear()
        root = growth.tip
        tails = {root: self._index.tail()}
        heap = self._candidates(growth, root, tails[root], 1.0, 0)
        made = len(heap)
        while heap:
            loss, _, node, guess = heapq.heappop(heap)
            tip = growth.guess(node, guess.token, 1.0 - loss)
            if tip is None:
                continue
            self._guessed[node, guess.token] = guess
            tails[tip] = (tails[node] + self._text(growth.line(node, tip)))[-_TAIL:]
            for candidate in self._candidates(growth, tip, tails[tip], 1.0 - loss, made):
                heapq.heappush(heap, candidate)
                made += 1

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """Note which guesses of the latest tree the model agreed with.

        A tree that ends with its trunk holds none of them: they were given up for want of room.
        """
        self.rates.pass_step()
        if tree.trunk == len(tree):
            return
        path = acceptance.path
        taken = {(tree.parents[node], tree.tokens[node]) for node in path}
        # Nothing was chosen behind the last node of a path that ends without a choice.
        judged = set(path if acceptance.choice is not None else path[:-1])
        for place, guess in self._guessed.items():
            if place[0] in judged:
                self.rates.add(guess.kind, guess.share, is_hit=place in taken)

    def _candidates(
        self, growth: TreeGrowth, node: int, tail: bytes, chance: float, made: int
    ) -> list[_Candidate]:
        """What may be guessed behind a node and pays; sorted, so a heap.

        ``made`` counts the candidates so far.
        """
        matcher = growth.matcher(node)
        if matcher.is_complete or not growth.pays(1, chance):
            return []
        try:
            guesses = self._guesser.guesses(matcher, self._index, tail)
        except LimitExceededError:
            return []  # it is for the choice at this node to close the answer
        found: list[_Candidate] = []
        for guess in guesses:
            likely = chance * self.rates.rate(guess.kind) * guess.share
            if growth.pays(1, likely):
                found.append((1.0 - likely, made + len(found), node, guess))
        found.sort()
        return found

    def _text(self, tokens: Sequence[TokenId]) -> bytes:
        return b"".join([self._table.bytes[token] or b"" for token in tokens])


def lookup_drafters(vocabulary: Vocabulary) -> OpenDrafter:
    """Drafters for the sequences of one vocabulary.

    Without forcing nothing is drafted either: that is the reference in which every token costs a
    model call.
    """
    table = TokenTable(vocabulary.token_bytes)
    guesser = Guesser(table)

    def open_drafter(forcing: Forcing) -> Drafter:
        return NoDrafter() if forcing is Forcing.OFF else LookupDrafter(table, guesser)

    return open_drafter
