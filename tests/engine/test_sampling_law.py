"""The law of an answer drawn with drafts is the exact law of the masked model.

The words of a small language are all its answers. The law of each is the product of what the
model, the mask and the samplers of transformers give its tokens, one at a time; answers drawn
through trees of drafts have to follow it. A chi-square test of 20,000 draws, seeds fixed.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import (
    EpsilonLogitsWarper,
    EtaLogitsWarper,
    LogitsProcessorList,
    MinPLogitsWarper,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from guided.decoding import (
    Acceptance,
    Choice,
    Chooser,
    DraftBudget,
    DraftBuilder,
    DraftTree,
    History,
    verify,
)
from guided.spec import Forcing, Sampling, TokenId
from tests.engine.finite_language import END_IDS, TOKEN_BYTES, WordMatcher, spell_bytes
from tests.engine.tiny_models import make_model
from tests.kit.effort import is_long

DRAWS = 20_000
LEAST_P = 0.001
PROMPT = spell_bytes(b"abc name 12")
WORDS = ("ab", "abc", "abab", "abcd", "bcd", "b", "12", "121", "1212", "na12", "name")
ROOT = WordMatcher.of(WORDS)
MODEL = make_model()

Answer = tuple[TokenId, ...]
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


@cache
def logits_behind(answer: Answer) -> NDArray[np.float32]:
    """The tiny model's logits; few prefixes occur, so many draws cost few model calls."""
    with torch.inference_mode():
        output = MODEL(input_ids=torch.tensor([[*PROMPT, *answer]]))
    row: NDArray[np.float32] = output.logits[0, -1, : len(TOKEN_BYTES)].float().numpy()
    return row


# --- the exact law


def exact_law(
    sampling: Sampling, max_tokens: int = 20, root: WordMatcher = ROOT
) -> dict[Answer, float]:
    """The probability of every answer."""
    law: defaultdict[Answer, float] = defaultdict(float)
    pending: list[tuple[Answer, WordMatcher, float]] = [((), root, 1.0)]
    while pending:
        answer, matcher, probability = pending.pop()
        for token, share in choice_law(answer, matcher, sampling, max_tokens).items():
            if token in END_IDS:
                law[answer] += probability * share
                continue
            after = matcher.advance(token)
            if after.is_complete or len(answer) + 1 == max_tokens:
                law[*answer, token] += probability * share
            else:
                pending.append(((*answer, token), after, probability * share))
    assert sum(law.values()) == pytest.approx(1.0)
    return law


def choice_law(
    answer: Answer, matcher: WordMatcher, sampling: Sampling, max_tokens: int
) -> dict[TokenId, float]:
    """The law of one token: transformers' steps on what the mask leaves, without what is too long.

    Where the filters leave nothing that fits the budget, they look at that alone.
    """
    left = max_tokens - len(answer) - 1
    ends = sorted(END_IDS) if matcher.is_accepting else []
    fitting = [*ends, *(token for token in matcher.legal() if matcher.advance(token).fits(left))]
    of_all = filtered(answer, [*ends, *matcher.legal()], sampling)
    law = {token: of_all[token] for token in fitting if token in of_all}
    law = law or filtered(answer, fitting, sampling)
    return {token: share / sum(law.values()) for token, share in law.items()}


def filtered(answer: Answer, allowed: list[TokenId], sampling: Sampling) -> dict[TokenId, float]:
    """What the steps of transformers leave of tokens."""
    row = torch.full((1, len(TOKEN_BYTES)), -torch.inf, dtype=torch.float64)
    row[0, allowed] = torch.from_numpy(logits_behind(answer)).double()[allowed]
    for token, bias in sampling.logit_bias:
        row[0, token] += bias
    past: Any = torch.tensor([[*PROMPT, *answer]])
    row = RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty)(past, row)
    for token, count in Counter(answer).items():
        row[0, token] -= sampling.presence_penalty + count * sampling.frequency_penalty
    if sampling.no_repeat_ngram_size is not None:
        banned = NoRepeatNGramLogitsProcessor(sampling.no_repeat_ngram_size)(past, row)
        row = banned if torch.isfinite(banned).any() else row
    shares = LogitsProcessorList(filters(sampling))(past, row)[0].softmax(0)
    return {token: float(shares[token]) for token in allowed if shares[token] > 0}


def filters(sampling: Sampling) -> Iterator[Any]:
    yield TemperatureLogitsWarper(sampling.temperature)
    steps: tuple[tuple[Any, float | None], ...] = (
        (TopKLogitsWarper, sampling.top_k),
        (TopPLogitsWarper, sampling.top_p),
        (MinPLogitsWarper, sampling.min_p),
        (TypicalLogitsWarper, sampling.typical_p),
        (EpsilonLogitsWarper, sampling.epsilon_cutoff),
        (EtaLogitsWarper, sampling.eta_cutoff),
    )
    for kind, parameter in steps:
        if parameter is not None:
            yield kind(parameter)


# --- drawing with drafts


class Draws:
    """Answers of one sampling, drawn through trees; what depends on the prefix alone is kept."""

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
        self.narrowed = 0
        self._trees: dict[Answer, tuple[DraftTree, dict[int, NDArray[np.float32]], History]] = {}

    def draw(self, seed: int) -> Answer:
        chooser = Chooser(self.sampling, seed, max_tokens=self.max_tokens, end_ids=END_IDS)
        answer: Answer = ()
        matcher: Any = self.root
        while not matcher.is_complete and chooser.remaining(len(answer)):
            tree, rows, past = self._tree(answer, matcher)
            accepted = self.accept(tree, rows, chooser, len(answer), past)
            self.drafted += len(accepted.path) - 1
            self.narrowed += accepted.narrowed
            answer = (*answer, *(tree.tokens[node] for node in accepted.path[1:]))
            matcher = tree.matchers[accepted.path[-1]]
            choice = accepted.choice
            if choice is None:
                continue
            assert isinstance(choice, Choice)
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
                trunk, self.forcing, budget=DraftBudget(6), longest=left, end_ids=END_IDS
            )
            draft_some(answer, builder)
            tree = builder.tree()
            tree.check()
            lines = [answer]
            for token, parent in zip(tree.tokens[1:], tree.parents[1:], strict=True):
                assert parent is not None
                lines.append((*lines[parent], token))
            rows = {node: logits_behind(lines[node]) for node in tree.deciding}
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
    tips = [builder.tip]
    for _ in range(4):
        node = draws.choice(tips)
        here: Any = builder.matcher(node)
        legal = here.legal()
        tip = builder.add(node, draws.choice(legal)) if legal else None
        if tip is not None:
            tips.append(tip)


def p_value(counts: Counter[Answer], law: dict[Answer, float]) -> float:
    """How likely draws of this law are to lie as far from it; the rarest answers count as one."""
    if not counts.keys() <= law.keys():
        return 0.0  # an answer that cannot be
    draws = counts.total()
    cells: list[tuple[float, float]] = []  # drawn, expected
    rare_drawn, rare_expected = 0.0, 0.0
    for answer, probability in law.items():
        if probability * draws < 10:
            rare_drawn += counts[answer]
            rare_expected += probability * draws
        else:
            cells.append((counts[answer], probability * draws))
    if rare_expected >= 1:
        cells.append((rare_drawn, rare_expected))
    assert len(cells) > 2, "a law that a test could not miss"
    chi_square = sum((drawn - expected) ** 2 / expected for drawn, expected in cells)
    degrees = torch.tensor((len(cells) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(degrees, torch.tensor(chi_square / 2).double()))


def drawn(draws: Draws, first_seed: int, count: int) -> Counter[Answer]:
    return Counter(draws.draw(seed) for seed in range(first_seed, first_seed + count))


@pytest.mark.parametrize("name", TRIED)
def test_answers_drawn_through_trees_follow_the_exact_law(name: str) -> None:
    # Single tokens are as likely taken as chosen, so strict runs leave the law as it is.
    draws = Draws(TRIED[name], Forcing.STRICT)
    counts = drawn(draws, 10_000_000, DRAWS)
    assert draws.drafted > DRAWS / 4
    assert p_value(counts, exact_law(TRIED[name])) > LEAST_P


@pytest.mark.parametrize("max_tokens", [2, 3])
def test_at_the_edge_of_the_budget_the_law_is_that_of_what_still_fits(max_tokens: int) -> None:
    sampling = ALONE["temperature"]
    draws = Draws(sampling, Forcing.STRICT, max_tokens=max_tokens)
    counts = drawn(draws, 20_000_000, DRAWS)
    assert draws.drafted > DRAWS / 4
    assert draws.narrowed > DRAWS / 50
    assert p_value(counts, exact_law(sampling, max_tokens)) > LEAST_P
    # It is another than where there is room, and one in which narrowing has a part.
    assert p_value(counts, exact_law(sampling)) < LEAST_P / 1000


EDGE = WordMatcher.of(
    (*("ab", "cd", "12", "na", "b1", "d2", "21", "ca"), *(f"{first}~~~" for first in "uvwxyz"))
)
"""With two tokens none of the long ones fits, and filters look at those as well."""
AT_THE_EDGE = {
    "top_k": Sampling(temperature=3.0, top_k=6),
    "top_p": Sampling(temperature=3.0, top_p=0.85),
    "filters": TOGETHER["filters"],
}


@pytest.mark.parametrize("name", AT_THE_EDGE)
def test_at_the_edge_of_the_budget_filters_look_at_the_whole_mask(name: str) -> None:
    """What is too long then drops out of what they leave."""
    sampling = AT_THE_EDGE[name]
    draws = Draws(sampling, Forcing.STRICT, max_tokens=2, root=EDGE)
    counts = drawn(draws, 30_000_000, DRAWS)
    assert draws.drafted > DRAWS / 50
    assert draws.narrowed > DRAWS / 50
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
    node = tree.trunk - 1
    children = tree.children()[node]
    matcher: Any = tree.matchers[node]
    first = chooser.choose(logits[node], matcher, position, history)
    assert isinstance(first, Choice)
    if children and first.token != tree.tokens[children[0]]:
        again = Chooser(chooser.sampling, chooser.seed ^ (1 << 40), 20, chooser.end_ids)
        second = again.choose(logits[node], matcher, position, history)
        assert isinstance(second, Choice)
        return Acceptance((*range(tree.trunk),), second, narrowed=False)
    return Acceptance((*range(tree.trunk),), first, narrowed=False)


def test_a_wrong_acceptance_rule_is_caught() -> None:
    sampling = ALONE["temperature"]
    counts = drawn(Draws(sampling, Forcing.STRICT, verify_wrongly), 10_000_000, DRAWS // 4)
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
    counts = drawn(Draws(sampling, Forcing.STRICT, verify_forgetfully), 10_000_000, DRAWS // 4)
    assert p_value(counts, exact_law(sampling)) < LEAST_P / 1000


def test_the_law_is_a_law_of_words() -> None:
    law = exact_law(ALONE["temperature"])
    texts = {b"".join(TOKEN_BYTES[token] or b"" for token in answer).decode() for answer in law}
    assert texts == set(WORDS)
    assert len(law) > len(WORDS)  # several spellings
    assert math.isclose(sum(law.values()), 1.0)
