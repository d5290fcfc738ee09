"""The distribution of an answer drawn with drafts is the exact distribution of the masked model.

The words of a small language are all its answers. The probability of each is the product of the
probabilities that model, mask and the samplers of transformers give its tokens, one at a time;
answers drawn through trees of drafts have to follow this distribution. A chi-square test on fixed
seeds; the short form draws often enough to catch wrong rules, the long form four times as often.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from guided.decoding import (
    Acceptance,
    Chooser,
    ChosenToken,
    DraftBudget,
    DraftBuilder,
    DraftTree,
    History,
    verify,
)
from guided.spec import Forcing, Sampling, TokenId
from tests.engine.exact_law import (
    LEAST_P,
    PROMPT,
    ROOT,
    WORDS,
    Answer,
    exact_law,
    logits_behind,
    p_value,
)
from tests.engine.finite_language import END_IDS, TOKEN_BYTES, WordMatcher, spell_bytes
from tests.kit.effort import is_long

CATCHING = 5_000
"""The number of draws that reveals a wrong rule."""
MANY = 20_000
DRAWS = MANY if is_long() else CATCHING
Verifier = Callable[..., Acceptance]

ALONE = {
    "temperature": Sampling(temperature=3.0),
    "top_k": Sampling(temperature=3.0, top_k=3),
    "top_p": Sampling(temperature=3.0, top_p=0.8),
    "min_p": Sampling(temperature=3.0, min_p=0.2),
    "typical_p": Sampling(temperature=3.0, typical_p=0.7),
    "epsilon_cutoff": Sampling(temperature=3.0, epsilon_cutoff=0.08),
    "eta_cutoff": Sampling(temperature=3.0, eta_cutoff=0.3),
    "repetition_penalty": Sampling(temperature=3.0, repetition_penalty=2.5),
    "presence_penalty": Sampling(temperature=3.0, presence_penalty=2.0),
    "frequency_penalty": Sampling(temperature=3.0, frequency_penalty=-2.0),
    "no_repeat_ngram_size": Sampling(temperature=3.0, no_repeat_ngram_size=1),
    "logit_bias": Sampling(temperature=3.0, logit_bias=((0, 4.0), (int(spell_bytes(b"b")[0]), 9))),
}
TOGETHER = {
    "penalties": Sampling(
        temperature=4.0,
        repetition_penalty=1.5,
        presence_penalty=-1.0,
        frequency_penalty=1.0,
        no_repeat_ngram_size=2,
        logit_bias=((1, 3.0),),
    ),
    "filters": Sampling(
        temperature=4.0,
        top_k=5,
        top_p=0.95,
        min_p=0.05,
        typical_p=0.9,
        epsilon_cutoff=0.01,
        eta_cutoff=0.05,
    ),
}
TRIED = (TOGETHER | ALONE) if is_long() else ({"temperature": ALONE["temperature"]} | TOGETHER)


# --- drawing with drafts


class Draws:
    """Answers of one sampling, drawn through trees; results for a prefix are cached."""

    def __init__(
        self,
        sampling: Sampling,
        forcing: Forcing,
        accept: Verifier = verify,
        max_tokens: int = 20,
        root: WordMatcher = ROOT,
    ) -> None:
        self.sampling = sampling
        self.forcing = forcing
        self.accept = accept
        self.max_tokens = max_tokens
        self.root = root
        self.drafted = 0
        self.budget_limited = 0
        self._trees: dict[Answer, tuple[DraftTree, dict[int, NDArray[np.float32]], History]] = {}

    def draw(self, seed: int) -> Answer:
        chooser = Chooser(self.sampling, seed, max_tokens=self.max_tokens, end_ids=END_IDS)
        answer: Answer = ()
        matcher: Any = self.root
        while not matcher.is_complete and chooser.remaining(len(answer)):
            tree, rows, past = self._tree(answer, matcher)
            accepted = self.accept(tree, rows, chooser, len(answer), past)
            self.drafted += len(accepted.path) - 1
            self.budget_limited += accepted.budget_limited
            answer = (*answer, *(tree.tokens[node] for node in accepted.path[1:]))
            matcher = tree.matchers[accepted.path[-1]]
            choice = accepted.choice
            if choice is None:
                continue
            assert isinstance(choice, ChosenToken)
            if choice.matcher is None:
                break
            answer, matcher = self._forced((*answer, choice.token), choice.matcher)
        return answer

    def _tree(
        self, answer: Answer, matcher: Any
    ) -> tuple[DraftTree, dict[int, NDArray[np.float32]], History]:
        if answer not in self._trees:
            trunk = DraftTree.chain([TokenId(40)], matcher)
            left = self.max_tokens - len(answer)
            builder = DraftBuilder(
                trunk, self.forcing, budget=DraftBudget(6), tokens_left=left, end_ids=END_IDS
            )
            draft_some(answer, builder)
            tree = builder.tree()
            tree.check()
            lines = [answer]
            for token, parent in zip(tree.tokens[1:], tree.parents[1:], strict=True):
                assert parent is not None
                lines.append((*lines[parent], token))
            rows = {node: logits_behind(lines[node]) for node in tree.nodes_needing_logits}
            past = History(np.array([*PROMPT, *answer]), len(PROMPT), END_IDS)
            self._trees[answer] = tree, rows, past
        return self._trees[answer]

    def _forced(self, answer: Answer, matcher: Any) -> tuple[Answer, Any]:
        run = matcher.forced_run(self.forcing)
        for token in run:
            matcher = matcher.advance(token)
        return (*answer, *run), matcher


def draft_some(answer: Answer, builder: DraftBuilder) -> None:
    """A tree of legal drafts, the same for the same prefix."""
    draws = random.Random(repr(answer))
    tips = [builder.last_node]
    for _ in range(4):
        node = draws.choice(tips)
        here: Any = builder.matcher(node)
        legal = here.legal()
        tip = builder.add(node, draws.choice(legal)) if legal else None
        if tip is not None:
            tips.append(tip)


def drawn(draws: Draws, first_seed: int, count: int) -> Counter[Answer]:
    return Counter(draws.draw(seed) for seed in range(first_seed, first_seed + count))


@pytest.mark.parametrize("name", TRIED)
def test_answers_drawn_through_trees_follow_the_exact_law(name: str) -> None:
    # Single tokens are as likely when forced as when chosen, so strict runs keep the distribution.
    draws = Draws(TRIED[name], Forcing.STRICT)
    counts = drawn(draws, 10_000_000, DRAWS)
    assert draws.drafted > DRAWS / 4
    assert p_value(counts, exact_law(TRIED[name])) > LEAST_P


@pytest.mark.parametrize("max_tokens", [2, 3])
def test_at_the_edge_of_the_budget_the_law_is_that_of_what_still_fits(max_tokens: int) -> None:
    sampling = ALONE["temperature"]
    draws = Draws(sampling, Forcing.STRICT, max_tokens=max_tokens)
    counts = drawn(draws, 20_000_000, MANY)
    assert draws.drafted > MANY / 4
    assert draws.budget_limited > MANY / 50
    assert p_value(counts, exact_law(sampling, max_tokens)) > LEAST_P
    # It differs from the distribution where there is room, and narrowing takes part in it.
    assert p_value(counts, exact_law(sampling)) < LEAST_P / 1000


EDGE = WordMatcher.of(
    (*("ab", "cd", "12", "na", "b1", "d2", "21", "ca"), *(f"{first}~~~" for first in "uvwxyz"))
)
"""With two tokens none of the long words fits, but filters look at these as well."""
AT_THE_EDGE = {
    "top_k": Sampling(temperature=3.0, top_k=6),
    "top_p": Sampling(temperature=3.0, top_p=0.85),
    "filters": TOGETHER["filters"],
}


@pytest.mark.parametrize("name", AT_THE_EDGE)
def test_at_the_edge_of_the_budget_filters_look_at_the_whole_mask(name: str) -> None:
    """Then the tokens that are too long drop out of those that the filters leave."""
    sampling = AT_THE_EDGE[name]
    draws = Draws(sampling, Forcing.STRICT, max_tokens=2, root=EDGE)
    counts = drawn(draws, 30_000_000, DRAWS)
    assert draws.drafted > DRAWS / 50
    assert draws.budget_limited > DRAWS / 50
    assert p_value(counts, exact_law(sampling, 2, EDGE)) > LEAST_P


def verify_wrongly(
    tree: DraftTree,
    logits: dict[int, NDArray[np.float32]],
    chooser: Chooser,
    position: int,
    history: History,
) -> Acceptance:
    """The classical mistake: a draft that was refused is not taken out of the second draw.

    The first draft g is accepted with its probability p(g), and if it is not, the token is drawn
    from p, not from p without g, which makes g too likely: p(g) + (1 - p(g)) p(g).
    """
    node = tree.trunk_length - 1
    children = tree.children()[node]
    matcher: Any = tree.matchers[node]
    first = chooser.choose(logits[node], matcher, position, history)
    assert isinstance(first, ChosenToken)
    if children and first.token != tree.tokens[children[0]]:
        again = Chooser(chooser.sampling, chooser.seed ^ (1 << 40), 20, chooser.end_ids)
        second = again.choose(logits[node], matcher, position, history)
        assert isinstance(second, ChosenToken)
        return Acceptance((*range(tree.trunk_length),), second, budget_limited=False)
    return Acceptance((*range(tree.trunk_length),), first, budget_limited=False)


def test_a_wrong_acceptance_rule_is_caught() -> None:
    sampling = ALONE["temperature"]
    counts = drawn(Draws(sampling, Forcing.STRICT, verify_wrongly), 10_000_000, CATCHING)
    assert p_value(counts, exact_law(sampling)) < LEAST_P / 1000


def test_a_wrong_history_is_caught() -> None:
    """Drafts chosen by the history of the trunk instead of their own."""

    def verify_forgetfully(
        tree: DraftTree, rows: Any, chooser: Chooser, position: int, history: History
    ) -> Acceptance:
        class Stuck(History):
            def after(self, path: Sequence[TokenId]) -> History:  # noqa: ARG002
                return self

        stuck = Stuck(history.tokens, history.prompt_length, history.end_ids)
        return verify(tree, rows, chooser, position, stuck)

    sampling = TOGETHER["penalties"]
    counts = drawn(Draws(sampling, Forcing.STRICT, verify_forgetfully), 10_000_000, CATCHING)
    assert p_value(counts, exact_law(sampling)) < LEAST_P / 1000


def test_the_law_is_a_law_of_words() -> None:
    distribution = exact_law(ALONE["temperature"])
    texts = {
        b"".join(TOKEN_BYTES[token] or b"" for token in answer).decode() for answer in distribution
    }
    assert texts == set(WORDS)
    assert len(distribution) > len(WORDS)  # several spellings
    assert math.isclose(sum(distribution.values()), 1.0)
