"""Whatever a tree drafts, the path and the choice after it are those of one-token decoding."""

from __future__ import annotations

import random
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from guided.decoding import (
    NO_HISTORY,
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
from tests.engine.finite_language import END_IDS, TOKEN_BYTES, WordMatcher, spell_bytes

PROMPT = spell_bytes(b"name 12ab")

SAMPLINGS = (
    Sampling(),
    Sampling(temperature=1.0),
    Sampling(no_repeat_ngram_size=1),
    Sampling(repetition_penalty=9.0, no_repeat_ngram_size=2),
    Sampling(temperature=1.5, presence_penalty=1.5, frequency_penalty=0.7, typical_p=0.9),
    Sampling(temperature=2.0, repetition_penalty=0.6, min_p=0.02, logit_bias=((40, 3.0),)),
)

LANGUAGES = (
    ("ab", "abc", "abcd", "bcd", "b"),
    ('{"name":"abc"}', '{"name":"ab"}', '{"name":"12"}', '{"me":12}'),
    ("12", "121", "1212", "12121212"),
    ("name", "na", "mena"),
    ("aaaa", "aab", "aba", "abab", "ba", "bbb", "bab", "cdcdcd"),
    ("~abcdna", "~abcdna~~", "yabcdna", "xabcdna"),
)


def logits_after(prefix: tuple[TokenId, ...]) -> NDArray[np.float32]:
    """A model in miniature: logits that depend on every token before."""
    seed = zlib.crc32(np.array(prefix, dtype=np.int64).tobytes())
    return np.random.default_rng(seed).normal(0, 2, len(TOKEN_BYTES)).astype(np.float32)


def history_of(answer: list[TokenId]) -> History:
    tokens = np.array([*PROMPT, *answer], dtype=np.int64)
    return History(tokens, len(PROMPT), END_IDS)


def chooser_for(sampling: Sampling = Sampling(), max_tokens: int = 100) -> Chooser:  # noqa: B008
    return Chooser(sampling=sampling, seed=11, max_tokens=max_tokens, end_ids=END_IDS)


def one_at_a_time(
    matcher: WordMatcher, chooser: Chooser, forcing: Forcing
) -> tuple[list[TokenId], bool]:
    """The reference: tokens until the end or until a run does not fit, and whether it ended."""
    tokens: list[TokenId] = []
    while not matcher.is_complete and chooser.remaining(len(tokens)) > 0:
        here: Any = matcher
        choice = chooser.choose(logits_after(tuple(tokens)), here, len(tokens), history_of(tokens))
        assert isinstance(choice, ChosenToken)
        if choice.matcher is None:
            return [*tokens, choice.token], True
        tokens.append(choice.token)
        after: Any = choice.matcher
        run = after.forced_run(forcing)
        position = after
        for token in run:
            position = position.advance(token)
        if len(tokens) + len(run) + len(position.shortest_completion()) > chooser.max_tokens:
            return tokens, False
        tokens += run
        matcher = position
    return tokens, True


def growth_from(start: Any, forcing: Forcing, *, room: int, longest: int = 1000) -> DraftBuilder:
    """A builder after a trunk of one token."""
    return DraftBuilder(
        DraftTree.chain([TokenId(40)], start),
        forcing,
        budget=DraftBudget(room),
        tokens_left=longest,
        end_ids=END_IDS,
    )


def grow(matcher: WordMatcher, forcing: Forcing, drafts: int, draws: random.Random) -> DraftTree:
    """A tree of random legal drafts after a trunk of one token, many of them wrong."""
    start: Any = matcher
    builder = growth_from(start, forcing, room=40)
    tips = [0]
    for _ in range(drafts):
        node = draws.choice(tips)
        here: Any = builder.matcher(node)
        legal = here.legal()
        tip = builder.add(node, draws.choice(legal)) if legal else None
        if tip is not None:
            tips.append(tip)
    return builder.tree()


def outcome(tree: DraftTree, acceptance: Acceptance) -> list[TokenId]:
    tokens = [tree.tokens[node] for node in acceptance.path[1:]]
    if acceptance.choice is None:
        return tokens
    assert isinstance(acceptance.choice, ChosenToken)
    return [*tokens, acceptance.choice.token]


def run(tree: DraftTree, chooser: Chooser) -> Acceptance:
    """Verify with logits for exactly the nodes that the tree asks for."""
    prefixes: list[tuple[TokenId, ...]] = []
    for node, parent in enumerate(tree.parents):
        prefixes.append(() if parent is None else (*prefixes[parent], tree.tokens[node]))
    rows = {node: logits_after(prefixes[node]) for node in tree.nodes_needing_logits}
    return verify(tree, rows, chooser, 0, history_of([]))


@given(
    language=st.sampled_from(LANGUAGES),
    forcing=st.sampled_from(Forcing),
    sampling=st.sampled_from(SAMPLINGS),
    drafts=st.integers(0, 14),
    extra=st.sampled_from([0, 1, 3, 100]),
    draws=st.randoms(use_true_random=False),
)
@settings(max_examples=400, deadline=None)
def test_a_verified_tree_walks_the_way_of_one_token_decoding(
    language: tuple[str, ...],
    forcing: Forcing,
    sampling: Sampling,
    drafts: int,
    extra: int,
    draws: random.Random,
) -> None:
    matcher = WordMatcher.of(language)
    chooser = chooser_for(sampling, max_tokens=len(matcher.shortest_completion()) + extra)
    tree = grow(matcher, forcing, drafts, draws)
    tree.check()
    acceptance = run(tree, chooser)
    expected, _ = one_at_a_time(matcher, chooser, forcing)
    found = outcome(tree, acceptance)
    assert found == expected[: len(found)]
    assert len(found) >= min(1, len(expected))
    # It stops only where the tree has no node for the next token.
    drafted = {tree.tokens[child] for child in tree.children()[acceptance.path[-1]]}
    if isinstance(acceptance.choice, ChosenToken):
        assert acceptance.choice.token not in drafted


def greedy_tree(matcher: WordMatcher, forcing: Forcing) -> tuple[DraftTree, list[TokenId]]:
    """A tree that drafts everything right, and has a wrong branch at every node."""
    chooser = chooser_for()
    expected, ended = one_at_a_time(matcher, chooser, forcing)
    assert ended
    start: Any = matcher
    builder = growth_from(start, forcing, room=200)
    node, done = 0, 0
    while done < len(expected) and expected[done] not in END_IDS:
        here: Any = builder.matcher(node)
        for wrong in here.legal():
            if wrong != expected[done]:
                builder.add(node, wrong)
        tip = builder.add(node, expected[done])
        assert tip is not None
        before = builder.tree().depths()
        done += before[tip] - before[node]
        node = tip
    return builder.tree(), expected


@pytest.mark.parametrize("forcing", Forcing)
@pytest.mark.parametrize("language", LANGUAGES)
def test_right_drafts_are_all_accepted_in_one_call(
    language: tuple[str, ...], forcing: Forcing
) -> None:
    tree, expected = greedy_tree(WordMatcher.of(language), forcing)
    tree.check()
    assert not tree.is_chain
    assert outcome(tree, run(tree, chooser_for())) == expected


def test_wrong_drafts_cost_nothing_but_their_rows() -> None:
    start: Any = WordMatcher.of(["ab", "cd"])
    legal = start.legal()
    first = chooser_for().choose(logits_after(()), start, 0, NO_HISTORY)
    assert isinstance(first, ChosenToken)
    right = first.token
    builder = growth_from(start, Forcing.OFF, room=9)
    for token in legal:
        if token != right:
            assert builder.add(0, token) is not None
    acceptance = run(builder.tree(), chooser_for())
    assert acceptance.path == (0,)
    assert acceptance.choice == first


def test_a_trunk_whose_successor_is_known_chooses_nothing() -> None:
    trunk = DraftTree.chain([TokenId(40), TokenId(41)], None)
    assert verify(trunk, {}, chooser_for(), 0, NO_HISTORY) == Acceptance(
        (0, 1), None, budget_limited=False
    )


def test_an_illegal_a_repeated_an_ending_or_a_too_long_draft_is_not_taken() -> None:
    start: Any = WordMatcher.of(["", "ab", "cname"])
    a, b, c, ab = (spell_bytes(text)[0] for text in (b"a", b"b", b"c", b"ab"))
    builder = growth_from(start, Forcing.CANONICAL, room=2)
    assert builder.add(0, b) is None
    assert builder.add(0, min(END_IDS)) is None
    assert builder.add(0, ab) == 1
    assert builder.add(0, ab) is None
    assert builder.add(0, c) is None  # it forces "name" as well: 2 nodes, and 1 is left
    assert builder.add(0, a) is None  # it forces "b" as well
    assert len(builder.tree()) == 2


def test_no_draft_goes_deeper_than_the_answer_may_become() -> None:
    """A row beyond the budget would stand at a position that the model may not have."""
    start: Any = WordMatcher.of(["abab", "b", "cname"])
    a, b, c = (spell_bytes(text)[0] for text in (b"a", b"b", b"c"))
    builder = growth_from(start, Forcing.CANONICAL, room=9, longest=2)
    assert builder.add(0, c) == 2  # and "name" after it
    assert builder.add(0, b) == 3
    assert builder.add(0, a) is None  # it forces "b", "ab" after it
    assert max(builder.tree().depths()) == 2


def test_a_run_behind_a_right_draft_is_left_out_where_it_does_not_fit() -> None:
    """ "abcdna" takes two tokens at least, three as the tokenizer spells it, and two are left."""
    start: Any = WordMatcher.of(["~abcdna", "yabcdna"])
    builder = growth_from(start, Forcing.CANONICAL, room=9)
    for token in start.legal():
        assert builder.add(0, token) is not None
    tree = builder.tree()
    roomy, tight = (run(tree, chooser_for(max_tokens=budget)) for budget in (4, 3))
    assert len(roomy.path) == 5
    assert tight == Acceptance(roomy.path[:2], None, budget_limited=False)
