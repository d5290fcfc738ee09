"""Answers drawn through drafters, without an engine: the tiny model's logits are kept by prefix."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedModel

from guided.decoding import (
    Acceptance,
    Chooser,
    ChosenToken,
    CostCurve,
    DraftBudget,
    DraftBuilder,
    DraftContext,
    Drafter,
    DraftRequest,
    DraftTree,
    Expansion,
    FinalCompletion,
    History,
    ProposalRates,
    VerifiedStep,
    assumed_rates,
    verify,
)
from guided.drafters.union import DrafterUnion, UnionDraftState
from guided.spec import Forcing, Sampling, TokenId, Verification
from tests.engine.exact_law import MODEL, PROMPT, ROOT, Answer, computed, logits_behind
from tests.engine.finite_language import END_IDS, WordMatcher

Verifier = Callable[..., Acceptance]
Logits = Callable[[tuple[TokenId, ...]], NDArray[np.float32]]
_NO_STATES: NDArray[np.float32] = np.empty((0, 0), np.float32)
_AT_ONCE = 250


@cache
def other_logits(answer: Answer) -> NDArray[np.float32]:
    """Logits of a model that agrees with the tiny one now and then."""
    seed = zlib.crc32(np.array(answer, dtype=np.int64).tobytes())
    logits = logits_behind(answer)
    noise = np.random.default_rng(seed).normal(0, 4, len(logits))
    return (logits + noise).astype(np.float32)


def _behind_prompt(tokens: tuple[TokenId, ...]) -> NDArray[np.float32]:
    return other_logits(tokens[len(PROMPT) :])


class Guesser:
    """A drafter with logits of its own: ``width`` tokens after a node, ``depth`` levels deep."""

    wants_hidden_states = False
    widths = ()

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
            assert isinstance(draft.draft_state, GuesserMemory)
            builder, expansion = draft.builder, draft.draft_state.expansion
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

    def learn(self, verified: VerifiedStep) -> None:
        self.expansion.learn(verified)

    def end(self, tokens: Sequence[TokenId]) -> None:
        """Nothing is held."""


class Text:
    """One answer that is being drawn."""

    def __init__(self, chooser: Chooser, matcher: Any, draft_state: UnionDraftState) -> None:
        self.chooser = chooser
        self.matcher = matcher
        self.draft_state = draft_state
        self.tokens = list(PROMPT)
        self.computed = 0
        """Tokens that the model has read."""
        self.is_done = False

    @property
    def answer(self) -> Answer:
        return tuple(self.tokens[len(PROMPT) :])

    def extend(self, tree: DraftTree, accepted: Acceptance) -> None:
        """Append the accepted and chosen tokens, and those that they force."""
        self.computed += len(accepted.path)
        self.tokens += [tree.tokens[node] for node in accepted.path[tree.trunk_length :]]
        self.matcher = tree.matchers[accepted.path[-1]]
        choice = accepted.choice
        if isinstance(choice, FinalCompletion):
            self.tokens += choice.tokens
            self.is_done = True
        elif choice is not None and choice.matcher is None:
            self.is_done = True
        else:
            if choice is not None:
                self._force(choice.token, choice.matcher)
            left = self.chooser.remaining(len(self.answer))
            self.is_done = self.matcher.is_complete or not left

    def _force(self, token: TokenId, matcher: Any) -> None:
        run = matcher.forced_run(Forcing.STRICT)
        for forced in run:
            matcher = matcher.advance(forced)
        self.tokens += [token, *run]
        self.matcher = matcher


class Speculation:
    """Draws answers as the engine does, with some drafters; counts the outcomes of drafts."""

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
        model: PreTrainedModel = MODEL,
    ) -> None:
        self.drafters, self.drafter = drafters, DrafterUnion(drafters)
        self.sampling = sampling
        self.verification = verification
        self.accept = accept
        self.max_tokens = max_tokens
        self.room = room
        self.costs = costs
        self.root = root
        self.model = model
        self.calls = 0
        self.drafted = 0
        self.accepted = 0
        self.nodeless = 0
        """Draws that became no nodes."""
        self.budget_limited = 0

    def draw(self, seed: int) -> Answer:
        return self.draw_all([seed])[0]

    def counts(self, first_seed: int, draws: int) -> Counter[Answer]:
        found = Counter[Answer]()
        for done in range(0, draws, _AT_ONCE):
            seeds = range(first_seed + done, first_seed + min(done + _AT_ONCE, draws))
            found.update(self.draw_all(seeds))
        return found

    def draw_all(self, seeds: Sequence[int]) -> list[Answer]:
        """The answers of these seeds, side by side as in a batch."""
        texts = [self._begin(seed) for seed in seeds]
        drawing = texts
        while drawing:
            self._step(drawing)
            drawing = [text for text in drawing if not text.is_done]
        for text in texts:
            text.draft_state.end(text.tokens)
        return [text.answer for text in texts]

    def _begin(self, seed: int) -> Text:
        """A text whose prompt was read, except its last token, in a separate step."""
        chooser = Chooser(
            self.sampling,
            seed,
            max_tokens=self.max_tokens,
            end_ids=END_IDS,
            verification=self.verification,
        )
        context = DraftContext(Forcing.STRICT, chooser, None, "", (), len(PROMPT), PROMPT)
        draft_state = self.drafter.open(context)
        assert draft_state is not None
        text = Text(chooser, self.root, draft_state)
        prompt = DraftTree.chain(PROMPT[:-1], None)
        read = Acceptance((*range(len(prompt)),), None, budget_limited=False)
        self._learn(text, prompt, read, _lines(prompt, ()))
        text.computed = len(prompt)
        return text

    def _step(self, texts: Sequence[Text]) -> None:
        builders = [self._builder(text) for text in texts]
        self.drafter.propose(
            [
                DraftRequest(text.tokens, text.draft_state, builder)
                for text, builder in zip(texts, builders, strict=True)
            ]
        )
        for text, builder in zip(texts, builders, strict=True):
            tree = builder.tree()
            lines = _lines(tree, tuple(text.tokens[: text.computed]))
            rows = {
                node: computed(lines[node], self.model).logits for node in tree.nodes_needing_logits
            }
            answer = text.answer
            accepted = self.accept(tree, rows, text.chooser, len(answer), _history(answer))
            self._count(tree, accepted)
            self._learn(text, tree, accepted, lines)
            text.extend(tree, accepted)

    def _builder(self, text: Text) -> DraftBuilder:
        return DraftBuilder(
            DraftTree.chain(text.tokens[text.computed :], text.matcher),
            Forcing.STRICT,
            budget=DraftBudget(self.room, self.costs),
            tokens_left=self.max_tokens - len(text.answer),
            end_ids=END_IDS,
        )

    def _learn(
        self, text: Text, tree: DraftTree, accepted: Acceptance, lines: Sequence[Answer]
    ) -> None:
        states = taps = _NO_STATES
        if any(each.wants_hidden_states for each in self.drafters):
            rows = [computed(line, self.model) for line in lines]
            states, taps = (np.stack(each) for each in zip(*[row[1:] for row in rows], strict=True))
        scouted = {
            node: computed(lines[node], self.model).logits
            for node, asks in tree.scouts.items()
            if asks
        }
        text.draft_state.learn(VerifiedStep(tree, accepted, states, taps, text.computed, scouted))

    def _count(self, tree: DraftTree, accepted: Acceptance) -> None:
        self.calls += 1
        self.drafted += len(tree.drafted)
        self.accepted += sum(not tree.certain[node] for node in accepted.path)
        self.budget_limited += accepted.budget_limited
        nodes = {(tree.parents[node], tree.tokens[node]) for node in range(len(tree))}
        drawn = {(node, one.token) for node, each in tree.draws.items() for one in each}
        self.nodeless += len(drawn - nodes)


def _lines(tree: DraftTree, before: Answer) -> list[Answer]:
    """The text up to each node of a tree."""
    lines: list[Answer] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        lines.append((*(before if parent is None else lines[parent]), token))
    return lines


def _history(answer: Answer) -> History:
    return History(np.array([*PROMPT, *answer]), len(PROMPT), END_IDS)


def choice_of(token: TokenId, matcher: Any) -> ChosenToken:
    """A choice that ignored the budget."""
    return ChosenToken(
        token, None if token in END_IDS else matcher.advance(token), budget_limited=False
    )
