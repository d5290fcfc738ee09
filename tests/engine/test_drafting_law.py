"""Drawn drafts do not change the exact distribution of answers, with the rules that promise this.

Drafters with logits of their own draw, look-ups propose what they found, and there is room for few
of their tokens, so that many draws become no nodes. A chi-square test on fixed seeds; the long form
takes each drafter with each rule and each sampler. Rules that are wrong fail it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from guided.decoding import (
    Acceptance,
    Chooser,
    CostCurve,
    Drafter,
    DraftTree,
    History,
    verify,
)
from guided.drafters import LookupDrafter
from guided.drafters.lookahead import LookaheadDrafter
from guided.drafters.suffix import SuffixDrafter
from guided.spec import Sampling, TokenId, Verification
from guided.spec.sampling import SamplingOptions
from tests.engine.architectures import LOGITS_WIDTH
from tests.engine.draft_models import make_draft
from tests.engine.exact_law import (
    LEAST_P,
    MODEL,
    PROMPT,
    ROOT,
    exact_law,
    filtered,
    logits_behind,
    p_value,
)
from tests.engine.finite_language import (
    END_IDS,
    WordMatcher,
    make_vocabulary,
    spell_bytes,
)
from tests.engine.random_heads import random_eagle_drafter, random_medusa
from tests.engine.right_heads import circling_model
from tests.engine.speculation import Speculation, choice_of
from tests.engine.test_sampling_law import ALONE, EDGE, TOGETHER
from tests.engine.tiny_models import make_model
from tests.kit.effort import is_long

CATCHING = 1_500
"""The number of draws that reveals a wrong rule."""
DRAWS = 20_000 if is_long() else 1_000
FIRST_SEED = 40_000_000
VOCABULARY = make_vocabulary()
STEEP = CostCurve(((1, 0.010), (2, 0.012), (4, 0.018), (64, 0.300)))
"""Seconds of calls in which every token costs, so that drafts depend on their likelihood."""


def make_eagle() -> Drafter:
    """A head that knows some tokens, with room for all texts that are drawn side by side."""
    return random_eagle_drafter(cache_tokens=20_000, draft_vocabulary_size=220)


def make_draft_model(widths: Sequence[int] = (2, 1)) -> Drafter:
    # Of texts with a common beginning only one would be read in a step.
    return make_draft(make_model(seed=1), widths=widths, num_blocks=4_000, reuse_prefixes=False)


@torch.no_grad()
def alternating() -> tuple[WordMatcher, PreTrainedModel]:
    """A model that prefers 1 after anything and 2 after 1, and a language that allows this.

    Its choice after a token is the same at every position, so its guesses ahead are often right.
    """
    model, (one, two) = circling_model(), spell_bytes(b"1~2")[::2]
    likes = 2 * torch.randn(LOGITS_WIDTH, LOGITS_WIDTH, generator=torch.Generator().manual_seed(0))
    likes[one] += 6
    likes[two, one] += 8
    # Its last norm scales a single number of a state to the root of their count.
    dict(model.named_parameters())["lm_head.weight"].copy_(likes / LOGITS_WIDTH**0.5)
    words = {("12" * 4)[:length] for length in range(1, 9)}
    return WordMatcher.of((*words, *(word + "~" for word in words))), model


DRAFTERS: dict[str, Callable[[], list[Drafter]]] = {
    "lookup": lambda: [LookupDrafter(VOCABULARY)],
    "suffix": lambda: [SuffixDrafter()],
    "lookahead": lambda: [LookaheadDrafter(ngram=2)],
    "draft": lambda: [make_draft_model()],
    "medusa": lambda: [random_medusa()],
    "eagle": lambda: [make_eagle()],
}
"""Every drafter, with tiny models of its own."""
UNIONS: dict[str, Callable[[], list[Drafter]]] = {
    "draft in a chain": lambda: [make_draft_model((1, 1, 1))],
    "heads": lambda: [random_medusa(), make_eagle()],
    "lookup first": lambda: [LookupDrafter(VOCABULARY), make_draft_model()],
    "all": lambda: [each for make in DRAFTERS.values() for each in make()],
}
FINDING = {"lookup", "suffix", "lookahead"}
"""The drafters that draw nothing."""
ROOM = {"lookahead": 12, "all": 12}
LANGUAGES = {"lookahead": alternating()}
"""Guessing ahead needs a model whose choice after a token is the same at every position."""
SAMPLERS = ALONE | TOGETHER
FEW = [
    ("draft", "temperature"),
    ("medusa", "filters"),
    ("eagle", "penalties"),
    ("suffix", "top_p"),
    ("lookahead", "temperature"),
    ("all", "logit_bias"),
]
MANY = list(dict.fromkeys([*product(DRAFTERS, SAMPLERS), *product(UNIONS, TOGETHER), *FEW]))
EXACT = (Verification.COUPLED, Verification.REJECTION)


def speculation(drafters: str, sampling: Sampling, **options: Any) -> Speculation:
    root, model = LANGUAGES.get(drafters, (ROOT, MODEL))
    usual: dict[str, Any] = {"room": ROOM.get(drafters, 5), "root": root, "model": model}
    options = {"verification": Verification.REJECTION} | usual | options
    return Speculation((DRAFTERS | UNIONS)[drafters](), sampling, **options)


@pytest.mark.parametrize("verification", EXACT if is_long() else EXACT[1:])
@pytest.mark.parametrize(("drafters", "sampler"), MANY if is_long() else FEW)
def test_answers_have_the_exact_law(
    drafters: str,
    sampler: str,
    verification: Verification,
    record_property: Callable[[str, object], None],
) -> None:
    drawn = speculation(drafters, SAMPLERS[sampler], verification=verification)
    counts = drawn.counts(FIRST_SEED, DRAWS)
    p = p_value(counts, exact_law(SAMPLERS[sampler], root=drawn.root, model=drawn.model))
    record_property("p", p)
    record_property("accepted", drawn.accepted)
    record_property("nodeless", drawn.nodeless)
    assert p > LEAST_P
    # If no token comes twice, earlier text is never a right draft.
    if SAMPLERS[sampler].no_repeat_ngram_size != 1:
        assert drawn.drafted > DRAWS / 20
        assert drawn.accepted > DRAWS / 50
    # Filters may leave too few tokens to draw one without a node.
    is_wide = drafters not in FINDING and not SAMPLERS[sampler].filters
    if verification is Verification.REJECTION and is_wide:
        assert drawn.nodeless > DRAWS / 10


def test_every_sampler_has_a_row() -> None:
    """All options but the seed, and contrastive search, which draws nothing and is not drafted."""
    names = SamplingOptions.__annotations__.keys() - {"seed", "penalty_alpha"}
    assert ALONE.keys() == names
    for name, sampling in ALONE.items():
        assert getattr(sampling, name) != getattr(Sampling(), name)


@pytest.mark.parametrize("drafters", DRAFTERS | UNIONS)
def test_coupled_answers_are_those_without_drafts(drafters: str) -> None:
    sampling = SAMPLERS["filters"]
    plain = speculation(drafters, sampling, verification=Verification.COUPLED, room=0)
    drawn = speculation(drafters, sampling, verification=Verification.COUPLED)
    for first in range(0, 240, 60):
        seeds = range(first, first + 60)
        assert drawn.draw_all(seeds) == plain.draw_all(seeds)
    assert drawn.accepted > 20
    assert plain.drafted == 0


def test_the_law_holds_where_what_pays_depends_on_what_was_drawn() -> None:
    sampling = SAMPLERS["temperature"]
    drawn = speculation("draft", sampling, room=20, costs=STEEP)
    counts = drawn.counts(FIRST_SEED, DRAWS)
    assert drawn.nodeless > DRAWS / 10
    assert drawn.accepted > DRAWS / 10
    assert p_value(counts, exact_law(sampling)) > LEAST_P


def test_the_law_holds_at_the_edge_of_the_budget() -> None:
    sampling = SAMPLERS["temperature"]
    drawn = speculation("draft", sampling, max_tokens=3)
    counts = drawn.counts(FIRST_SEED, DRAWS)
    assert drawn.budget_limited > DRAWS / 100
    assert p_value(counts, exact_law(sampling, 3)) > LEAST_P
    filters = TOGETHER["filters"]
    drawn = speculation("draft", filters, max_tokens=2, root=EDGE)
    counts = drawn.counts(FIRST_SEED, DRAWS)
    assert drawn.budget_limited > DRAWS / 100
    assert p_value(counts, exact_law(filters, 2, EDGE)) > LEAST_P


# --- mistakes that the test catches


Given = Any
"""The arguments of a verifier after the tree: logits, chooser, position, history."""


def forget_draws_without_nodes(tree: DraftTree, *given: Given) -> Acceptance:
    """Forget a draw for which there was no room, though this depends on the drawn token."""
    children = tree.children()
    draws = {
        node: tuple(one for one in each if one.token in {tree.tokens[c] for c in children[node]})
        for node, each in tree.draws.items()
    }
    columns = (tree.tokens, tree.parents, tree.certain, tree.matchers, tree.sources)
    return verify(DraftTree(*columns, draws, tree.scouts), *given)


def forget_large_trees(tree: DraftTree, *given: Given) -> Acceptance:
    """Give up a tree that is too large, and with it the draws at its root."""
    bare = DraftTree.chain(tree.tokens[: tree.trunk_length], tree.matchers[tree.trunk_length - 1])
    return verify(bare if len(tree) > tree.trunk_length + 1 else tree, *given)


def draw_from_all_again(
    tree: DraftTree,
    logits: dict[int, NDArray[np.float32]],
    chooser: Chooser,
    position: int,
    history: History,
) -> Acceptance:
    """After a rejected first proposal, draw a token from all of it, not from the residual."""
    node = tree.trunk_length - 1
    matcher: Any = tree.matchers[node]
    distribution = chooser.distribution(logits[node], matcher, position, history)
    chances = random.Random(f"{chooser.seed} {position}")
    for token, drawn_from in tree.proposals(node, tree.children()[node])[:1]:
        proposed = 1.0 if drawn_from is None else drawn_from.probability(token)
        if chances.random() * proposed < distribution.probability(token):
            return Acceptance(
                (*range(tree.trunk_length),), choice_of(token, matcher), budget_limited=False
            )
    token = distribution.draw(chances.random())
    return Acceptance((*range(tree.trunk_length),), choice_of(token, matcher), budget_limited=False)


WRONG = (
    forget_draws_without_nodes,
    forget_large_trees,
    draw_from_all_again,
)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_rule_is_caught(wrong: Callable[..., Acceptance]) -> None:
    sampling = SAMPLERS["temperature"]
    counts = speculation("draft in a chain", sampling, accept=wrong).counts(FIRST_SEED, CATCHING)
    assert p_value(counts, exact_law(sampling)) < LEAST_P / 1000


def test_typical_acceptance_accepts_more_and_has_another_law() -> None:
    sampling = SAMPLERS["temperature"]
    exact = speculation("medusa", sampling)
    drawn = speculation("medusa", sampling, verification=Verification.TYPICAL)
    counts = drawn.counts(FIRST_SEED, 1_000)
    exact.counts(FIRST_SEED, 1_000)
    assert drawn.calls < exact.calls
    assert p_value(counts, exact_law(sampling)) < LEAST_P / 1000


# --- the distribution at one place


@pytest.mark.parametrize("name", ALONE | TOGETHER)
def test_the_law_of_a_choice_is_that_of_the_samplers_of_transformers(name: str) -> None:
    sampling = (ALONE | TOGETHER)[name]
    chooser = Chooser(sampling, seed=0, max_tokens=20, end_ids=END_IDS)
    for answer in ((), spell_bytes(b"b"), spell_bytes(b"ab"), spell_bytes(b"12")):
        matcher: Any = ROOT
        for token in answer:
            matcher = matcher.advance(token)
        if matcher.is_complete:
            continue
        allowed = [*(sorted(END_IDS) if matcher.is_accepting else ()), *matcher.legal()]
        history = History(np.array([*PROMPT, *answer]), len(PROMPT), END_IDS)
        distribution = chooser.distribution(logits_behind(answer), matcher, len(answer), history)
        expected = filtered(answer, allowed, sampling)
        found = {
            TokenId(int(token)): distribution.probability(TokenId(int(token)))
            for token in distribution.tokens
        }
        assert found == pytest.approx(expected)
