"""Drafts that are drawn leave the exact law of answers as it is, for the rules that say so.

Drafters with logits of their own draw, look-ups propose what they found, and there is room for few
of their tokens, so that many draws become no nodes. A chi-square test on fixed seeds; the long form
takes each drafter with each rule and each sampler. Rules that are wrong fail it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

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
from guided.spec import Sampling, TokenId, Verification
from tests.engine.exact_law import (
    LEAST_P,
    PROMPT,
    ROOT,
    exact_law,
    filtered,
    logits_behind,
    p_value,
)
from tests.engine.finite_language import END_IDS, make_vocabulary, spell_bytes
from tests.engine.speculation import Guesser, Speculation, choice_of
from tests.engine.test_sampling_law import ALONE, EDGE, TOGETHER
from tests.kit.effort import is_long

DRAWS = 20_000 if is_long() else 1_500
FIRST_SEED = 40_000_000
VOCABULARY = make_vocabulary()
STEEP = CostCurve(((1, 0.010), (2, 0.012), (4, 0.018), (64, 0.300)))
"""Seconds where every token costs, so that what is drafted depends on how likely it is."""

DRAFTERS: dict[str, Callable[[], list[Drafter]]] = {
    "chain": lambda: [Guesser(1, 3)],
    "tree": lambda: [Guesser(3, 2)],
    "lookup": lambda: [LookupDrafter(VOCABULARY)],
    "union": lambda: [Guesser(2, 2), LookupDrafter(VOCABULARY), Guesser(1, 3)],
    "lookup first": lambda: [LookupDrafter(VOCABULARY), Guesser(3, 2)],
}
SAMPLERS = {
    "temperature": ALONE["temperature"],
    "filters": TOGETHER["filters"],
    "penalties": TOGETHER["penalties"],
    "top_k": ALONE["top_k"],
    "top_p": ALONE["top_p"],
    "min_p": ALONE["min_p"],
    "typical_p": ALONE["typical_p"],
}
ALL = [(drafters, sampler) for drafters in DRAFTERS for sampler in SAMPLERS]
FEW = [
    ("chain", "temperature"),
    ("tree", "filters"),
    ("union", "temperature"),
    ("lookup first", "penalties"),
]
EXACT = (Verification.COUPLED, Verification.REJECTION)


def speculation(drafters: str, sampling: Sampling, **options: Any) -> Speculation:
    options = {"verification": Verification.REJECTION} | options
    return Speculation(DRAFTERS[drafters](), sampling, **options)


@pytest.mark.parametrize("verification", EXACT if is_long() else EXACT[1:])
@pytest.mark.parametrize(("drafters", "sampler"), ALL if is_long() else FEW)
def test_answers_have_the_exact_law(
    drafters: str, sampler: str, verification: Verification
) -> None:
    drawn = speculation(drafters, SAMPLERS[sampler], verification=verification)
    counts = drawn.counts(FIRST_SEED, DRAWS)
    assert drawn.accepted > DRAWS / 4
    if verification is Verification.REJECTION and drafters != "lookup":
        assert drawn.nodeless > DRAWS / 10
    assert p_value(counts, exact_law(SAMPLERS[sampler])) > LEAST_P


@pytest.mark.parametrize("drafters", DRAFTERS)
def test_coupled_answers_are_those_without_drafts(drafters: str) -> None:
    sampling = SAMPLERS["filters"]
    plain = Speculation([Guesser(0, 0)], sampling, Verification.COUPLED)
    drawn = speculation(drafters, sampling, verification=Verification.COUPLED)
    for seed in range(300):
        assert drawn.draw(seed) == plain.draw(seed)
    assert drawn.accepted > 100
    assert plain.drafted == 0


def test_the_law_holds_where_what_pays_depends_on_what_was_drawn() -> None:
    sampling = SAMPLERS["temperature"]
    drawn = speculation("tree", sampling, room=20, costs=STEEP)
    counts = drawn.counts(FIRST_SEED, DRAWS)
    assert drawn.nodeless > DRAWS / 10
    assert drawn.accepted > DRAWS / 10
    assert p_value(counts, exact_law(sampling)) > LEAST_P


def test_the_law_holds_at_the_edge_of_the_budget() -> None:
    sampling = SAMPLERS["temperature"]
    drawn = speculation("union", sampling, max_tokens=3)
    counts = drawn.counts(FIRST_SEED, DRAWS)
    assert drawn.narrowed > DRAWS / 100
    assert p_value(counts, exact_law(sampling, 3)) > LEAST_P
    filters = TOGETHER["filters"]
    drawn = speculation("tree", filters, max_tokens=2, root=EDGE)
    counts = drawn.counts(FIRST_SEED, DRAWS)
    assert drawn.narrowed > DRAWS / 100
    assert p_value(counts, exact_law(filters, 2, EDGE)) > LEAST_P


# --- what the test catches


Given = Any
"""What a verifier is given after the tree: logits, chooser, position, history."""


def forget_draws_without_nodes(tree: DraftTree, *given: Given) -> Acceptance:
    """A draw for which there was no room is left out, though that depends on what was drawn."""
    children = tree.children()
    draws = {
        node: tuple(one for one in each if one.token in {tree.tokens[c] for c in children[node]})
        for node, each in tree.draws.items()
    }
    return verify(replace(tree, draws=draws), *given)


def forget_large_trees(tree: DraftTree, *given: Given) -> Acceptance:
    """A tree that is too large is given up, and with it what was drawn at its root."""
    bare = DraftTree.chain(tree.tokens[: tree.trunk], tree.matchers[tree.trunk - 1])
    return verify(bare if len(tree) > tree.trunk + 1 else tree, *given)


def draw_from_all_again(
    tree: DraftTree,
    logits: dict[int, NDArray[np.float32]],
    chooser: Chooser,
    position: int,
    history: History,
) -> Acceptance:
    """Where the first proposal is refused a token is drawn from the law, not from what is left."""
    node = tree.trunk - 1
    matcher: Any = tree.matchers[node]
    law = chooser.law(logits[node], matcher, position, history)
    chances = random.Random(f"{chooser.seed} {position}")
    for token, drawn_from in tree.proposals(node, tree.children()[node])[:1]:
        proposed = 1.0 if drawn_from is None else drawn_from.share(token)
        if chances.random() * proposed < law.share(token):
            return Acceptance((*range(tree.trunk),), choice_of(token, matcher), narrowed=False)
    token = law.draw(chances.random())
    return Acceptance((*range(tree.trunk),), choice_of(token, matcher), narrowed=False)


WRONG = (
    forget_draws_without_nodes,
    forget_large_trees,
    draw_from_all_again,
)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_rule_is_caught(wrong: Callable[..., Acceptance]) -> None:
    sampling = SAMPLERS["temperature"]
    counts = speculation("chain", sampling, accept=wrong).counts(FIRST_SEED, DRAWS)
    assert p_value(counts, exact_law(sampling)) < LEAST_P / 1000


def test_typical_acceptance_accepts_more_and_has_another_law() -> None:
    sampling = SAMPLERS["temperature"]
    exact = speculation("tree", sampling)
    drawn = speculation("tree", sampling, verification=Verification.TYPICAL)
    counts = drawn.counts(FIRST_SEED, 1_000)
    exact.counts(FIRST_SEED, 1_000)
    assert drawn.calls < exact.calls
    assert p_value(counts, exact_law(sampling)) < LEAST_P / 1000


# --- the law at one place


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
        law = chooser.law(logits_behind(answer), matcher, len(answer), history)
        expected = filtered(answer, allowed, sampling)
        found = {TokenId(int(token)): law.share(TokenId(int(token))) for token in law.tokens}
        assert found == pytest.approx(expected)
