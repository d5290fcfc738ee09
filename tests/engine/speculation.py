"""Answers drawn through drafters, without an engine: the tiny model's logits are kept by prefix."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from guided.decoding import (
    Acceptance,
    Choice,
    Chooser,
    Closing,
    CostCurve,
    DraftBudget,
    DraftBuilder,
    DraftContext,
    Drafter,
    DraftRequest,
    DraftTree,
    Expansion,
    History,
    ProposalRates,
    Verified,
    assumed_rates,
    verify,
)
from guided.drafters import DrafterUnion
from guided.spec import Forcing, Sampling, TokenId, Verification
from tests.engine.exact_law import PROMPT, ROOT, Answer, logits_behind
from tests.engine.finite_language import END_IDS, WordMatcher

Verifier = Callable[..., Acceptance]
Logits = Callable[[tuple[TokenId, ...]], NDArray[np.float32]]
_NO_STATES: NDArray[np.float32] = np.empty((0, 0), np.float32)


@cache
def other_logits(answer: Answer) -> NDArray[np.float32]:
    """Those of a model that agrees with the tiny one now and then."""
    seed = zlib.crc32(np.array(answer, dtype=np.int64).tobytes())
    logits = logits_behind(answer)
    noise = np.random.default_rng(seed).normal(0, 4, len(logits))
    return (logits + noise).astype(np.float32)


def _behind_prompt(tokens: tuple[TokenId, ...]) -> NDArray[np.float32]:
    return other_logits(tokens[len(PROMPT) :])


class Guesser:
    """A drafter with logits of its own: ``width`` tokens after a node, so many levels deep."""

    wants_states = False

    def __init__(self, width: int, depth: int, logits: Logits | None = None) -> None:
        """``logits`` are those after some tokens, prompt included; else ``other_logits``."""
        self.name = f"guesser {width}"
        self.width = width
        self.depth = depth
        self.logits = logits or _behind_prompt
        self.rates = ProposalRates(assumed_rates())

    def open(self, context: DraftContext) -> GuesserMemory:
        return GuesserMemory(Expansion(context, self.rates))

    def propose(self, drafts: Sequence[DraftRequest]) -> None:
        for draft in drafts:
            assert isinstance(draft.memory, GuesserMemory)
            builder, expansion = draft.builder, draft.memory.expansion
            expansion.begin()
            before = tuple(draft.tokens)
            level = [(builder.root, 1.0)]
            for _ in range(self.depth):
                found = []
                for node, chance in level:
                    logits = self.logits((*before, *builder.path(builder.root, node)))
                    found += expansion.expand(builder, node, logits, chance, self.width)
                level = found


class GuesserMemory:
    def __init__(self, expansion: Expansion) -> None:
        self.expansion = expansion

    def learn(self, verified: Verified) -> None:
        self.expansion.learn(verified)

    def end(self, tokens: Sequence[TokenId]) -> None:
        """Nothing is held."""


class Speculation:
    """Draws answers as the engine does, with some drafters; counts what became of drafts."""

    def __init__(
        self,
        drafters: Sequence[Drafter],
        sampling: Sampling,
        verification: Verification,
        *,
        accept: Verifier = verify,
        max_tokens: int = 20,
        room: int = 5,
        costs: CostCurve | None = None,
        root: WordMatcher = ROOT,
    ) -> None:
        self.drafter = DrafterUnion(drafters)
        self.sampling = sampling
        self.verification = verification
        self.accept = accept
        self.max_tokens = max_tokens
        self.room = room
        self.costs = costs
        self.root = root
        self.calls = 0
        self.drafted = 0
        self.accepted = 0
        self.nodeless = 0
        """Draws that became no nodes."""
        self.narrowed = 0

    def draw(self, seed: int) -> Answer:
        chooser = Chooser(
            self.sampling,
            seed,
            max_tokens=self.max_tokens,
            end_ids=END_IDS,
            verification=self.verification,
        )
        context = DraftContext(Forcing.STRICT, chooser, None, "", (), len(PROMPT))
        memory = self.drafter.open(context)
        assert memory is not None
        answer: Answer = ()
        matcher: Any = self.root
        while not matcher.is_complete and chooser.remaining(len(answer)):
            tree = self._tree(answer, matcher, memory)
            accepted = self.accept(
                tree, self._rows(tree, answer), chooser, len(answer), _history(answer)
            )
            self._count(tree, accepted)
            memory.learn(Verified(tree, accepted, _NO_STATES, _NO_STATES, 0))
            answer = (*answer, *(tree.tokens[node] for node in accepted.path[1:]))
            matcher = tree.matchers[accepted.path[-1]]
            choice = accepted.choice
            if isinstance(choice, Closing):
                return (*answer, *choice.tokens)
            if choice is None:
                continue
            if choice.matcher is None:
                break
            answer, matcher = _forced((*answer, choice.token), choice.matcher)
        return answer

    def counts(self, first_seed: int, draws: int) -> Counter[Answer]:
        return Counter(self.draw(seed) for seed in range(first_seed, first_seed + draws))

    def _tree(self, answer: Answer, matcher: Any, memory: Any) -> DraftTree:
        tokens = (*PROMPT, *answer)
        builder = DraftBuilder(
            DraftTree.chain(tokens[-1:], matcher),
            Forcing.STRICT,
            budget=DraftBudget(self.room, self.costs),
            longest=self.max_tokens - len(answer),
            end_ids=END_IDS,
        )
        self.drafter.propose([DraftRequest(tokens, memory, builder)])
        return builder.tree()

    def _rows(self, tree: DraftTree, answer: Answer) -> dict[int, NDArray[np.float32]]:
        lines = [answer]
        for token, parent in zip(tree.tokens[1:], tree.parents[1:], strict=True):
            assert parent is not None
            lines.append((*lines[parent], token))
        return {node: logits_behind(lines[node]) for node in tree.deciding}

    def _count(self, tree: DraftTree, accepted: Acceptance) -> None:
        self.calls += 1
        self.drafted += sum(not sure for sure in tree.certain)
        self.accepted += sum(not tree.certain[node] for node in accepted.path)
        self.narrowed += accepted.narrowed
        nodes = {(tree.parents[node], tree.tokens[node]) for node in range(len(tree))}
        drawn = {(node, one.token) for node, each in tree.draws.items() for one in each}
        self.nodeless += len(drawn - nodes)


def _history(answer: Answer) -> History:
    return History(np.array([*PROMPT, *answer]), len(PROMPT), END_IDS)


def _forced(answer: Answer, matcher: Any) -> tuple[Answer, Any]:
    run = matcher.forced_run(Forcing.STRICT)
    for token in run:
        matcher = matcher.advance(token)
    return (*answer, *run), matcher


def choice_of(token: TokenId, matcher: Any) -> Choice:
    """A choice that did not look at the budget."""
    return Choice(token, None if token in END_IDS else matcher.advance(token), narrowed=False)
