"""The drafts of the engine's drafter, and its reaction to right and wrong ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, SupportsIndex, overload

import numpy as np

from guided.decoding import (
    NO_HISTORY,
    Chooser,
    CostCurve,
    DraftBudget,
    DraftBuilder,
    DraftRequest,
    DraftTree,
    verify,
)
from guided.drafters import LookupDrafter
from guided.drafters.lookup import LookupDraftState
from guided.spec import Forcing, Sampling, TokenId
from tests.engine.finite_language import (
    END_IDS,
    TOKEN_BYTES,
    AnythingMatcher,
    WordMatcher,
    make_vocabulary,
    spell_bytes,
)
from tests.kit.draft_context import draft_context, verified

DRAFTER = LookupDrafter(make_vocabulary())
COSTS = CostCurve(((1, 1.0), (8, 1.1), (64, 4.0)))


def opened() -> LookupDraftState:
    return DRAFTER.open(draft_context())


def draft(
    draft_state: LookupDraftState,
    tokens: tuple[TokenId, ...],
    matcher: Any,
    *,
    room: int = 16,
    costs: CostCurve | None = None,
    longest: int = 100,
) -> DraftTree:
    """The tree after the last of some tokens."""
    builder = DraftBuilder(
        DraftTree.chain(tokens[-1:], matcher),
        Forcing.CANONICAL,
        budget=DraftBudget(room, costs),
        tokens_left=longest,
        end_ids=END_IDS,
    )
    DRAFTER.propose([DraftRequest(tokens, draft_state, builder)])
    tree = builder.tree()
    tree.check()
    return tree


def lines(tree: DraftTree) -> set[bytes]:
    """The text of each path through the drafts to a leaf."""
    found = set()
    for node, children in enumerate(tree.children()):
        if not children:
            tokens = [tree.tokens[at] for at in np.flatnonzero(tree.ancestors()[node])[1:]]
            found.add(b"".join(TOKEN_BYTES[token] or b"" for token in tokens))
    return found - {b""}


def calls_to_say(text: bytes, *, after: bytes, costs: CostCurve | None = COSTS) -> int:
    """The number of model calls until a model that writes ``text`` is done, with drafts."""
    draft_state = opened()
    chooser = Chooser(Sampling(), seed=0, max_tokens=1000, end_ids=END_IDS)
    prompt, answer = spell_bytes(after), (*spell_bytes(text), min(END_IDS))
    matcher: Any = AnythingMatcher()
    done = calls = 0
    while done < len(answer):
        tree = draft(draft_state, (*prompt, *answer[:done]), matcher, costs=costs)
        wanted = {
            node: np.eye(len(TOKEN_BYTES), dtype=np.float32)[answer[done + depth]]
            for node, depth in enumerate(tree.depths())
            if done + depth < len(answer)
        }
        for node in tree.nodes_needing_logits:
            wanted.setdefault(node, np.zeros(len(TOKEN_BYTES), dtype=np.float32))
        acceptance = verify(tree, wanted, chooser, done, NO_HISTORY)
        draft_state.learn(verified(tree, acceptance))
        done += len(acceptance.path)
        calls += 1
    return calls


def test_what_is_copied_costs_few_calls() -> None:
    text = b"the quick brown fox jumps over the lazy dog, they said"
    assert calls_to_say(text, after=b"zy") > len(text) * 0.8
    assert calls_to_say(text, after=b"> " + text + b" > t") < len(text) / 4


def test_a_text_that_is_never_right_is_given_up_and_tried_again() -> None:
    draft_state = opened()
    chooser = Chooser(Sampling(), seed=0, max_tokens=1000, end_ids=END_IDS)
    steep = CostCurve(((1, 1.0), (2, 1.3)))
    tokens = spell_bytes(b"abcde abcd")
    matcher: Any = AnythingMatcher()
    sizes = []
    for _ in range(100):
        tree = draft(draft_state, tokens, matcher, costs=steep)
        wrong = np.eye(len(TOKEN_BYTES), dtype=np.float32)[spell_bytes(b"z")[0]]
        says = dict.fromkeys(tree.nodes_needing_logits, wrong)
        draft_state.learn(verified(tree, verify(tree, says, chooser, 0, NO_HISTORY)))
        sizes.append(len(tree) - 1)
    assert sizes[0] > 0
    assert 0 in sizes[:10]
    assert sum(sizes[:50]) < 25
    assert sum(sizes[50:]) > 0


def test_few_choices_are_all_drafted_each_with_the_run_after_it() -> None:
    matcher: Any = WordMatcher.of(["~x1;more", "~y22;more", "~z;more"]).advance(
        spell_bytes(b"~")[0]
    )
    tree = draft(opened(), spell_bytes(b"~"), matcher, room=40)
    assert lines(tree) == {b"x1;more", b"y22;more", b"z;more"}


def test_certain_bytes_are_drafted_as_the_tokenizer_spells_them() -> None:
    """ "na" gives way to "name" where "m" may follow, so it is not forced."""
    matcher: Any = WordMatcher.of(["name", "nab"])
    assert matcher.forced_run(Forcing.CANONICAL) == ()
    tree = draft(opened(), spell_bytes(b"~"), matcher, room=2)
    assert lines(tree) == {b"na", b"name"}


def test_no_draft_is_deeper_than_the_answer_may_become() -> None:
    tokens = spell_bytes(b"0123456789 01234")
    matcher: Any = AnythingMatcher()
    deep, shallow = (max(draft(opened(), tokens, matcher, longest=n).depths()) for n in (9, 3))
    assert (deep, shallow) == (9, 3)


def test_the_likeliest_drafts_are_taken_first() -> None:
    """x follows ten equal bytes, y three of them: there is room for one."""
    tokens = spell_bytes(b"0123456789x 789y 0123456789")
    matcher: Any = AnythingMatcher()
    assert lines(draft(opened(), tokens, matcher, room=1)) == {b"x"}
    assert lines(draft(opened(), tokens, matcher, room=3)) >= {b"x 7"}


def test_the_same_tokens_give_the_same_tree() -> None:
    tokens = spell_bytes(b"0123456789x 789y 0123456789")
    matcher: Any = AnythingMatcher()
    trees = [draft(opened(), tokens, matcher, costs=COSTS) for _ in range(2)]
    assert trees[0].tokens == trees[1].tokens
    assert trees[0].parents == trees[1].parents


def test_tokens_may_come_at_once_or_one_by_one() -> None:
    tokens = spell_bytes(b"0123456789x 789y 0123456789")
    matcher: Any = AnythingMatcher()
    draft_state = opened()
    for count in range(1, len(tokens)):
        draft(draft_state, tokens[:count], matcher)
    at_once = draft(opened(), tokens, matcher)
    assert draft(draft_state, tokens, matcher).tokens == at_once.tokens


class CountedTexts(tuple[bytes | None, ...]):
    """The texts of a vocabulary; counts how often one is looked up."""

    looked_up = 0

    @overload
    def __getitem__(self, at: SupportsIndex) -> bytes | None: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[bytes | None, ...]: ...
    def __getitem__(self, at: Any) -> Any:
        self.looked_up += 1
        return super().__getitem__(at)


def test_the_answers_to_a_request_index_its_prompt_once() -> None:
    texts = CountedTexts(TOKEN_BYTES)
    drafter = LookupDrafter(replace(make_vocabulary(), token_bytes=texts))
    prompt = spell_bytes(b"0123456789x 789y " * 50)
    context = draft_context(prompt=prompt, prompt_length=len(prompt))
    matcher: Any = AnythingMatcher()
    looked_up, trees = [], []
    for end in (b"0123", b"789", b"x 7"):
        before = texts.looked_up
        trees.append(draft(drafter.open(context), (*prompt, *spell_bytes(end)), matcher).tokens)
        looked_up.append(texts.looked_up - before)
        # What is drafted is the same as of one text without a known prompt.
        alone = draft(opened(), (*prompt, *spell_bytes(end)), matcher)
        assert trees[-1] == alone.tokens
    assert looked_up[0] >= len(prompt)
    assert max(looked_up[1:]) < 100


def test_what_no_model_call_judged_teaches_nothing() -> None:
    """A tree given up for lack of room, and one drafted before the sequence had to start over."""
    draft_state = opened()
    chooser = Chooser(Sampling(), seed=0, max_tokens=1000, end_ids=END_IDS)
    matcher: Any = AnythingMatcher()
    tokens = spell_bytes(b"0123456789x 0123456789")
    assert len(draft(draft_state, tokens, matcher)) > 1
    judged = dict(draft_state.rates.judged)
    trunk = DraftTree.chain(tokens[-1:], matcher)
    says_x = np.eye(len(TOKEN_BYTES), dtype=np.float32)[spell_bytes(b"x")[0]]
    draft_state.learn(verified(trunk, verify(trunk, {0: says_x}, chooser, 0, NO_HISTORY)))
    prompt = DraftTree.chain(tokens[:4], None)
    draft_state.learn(verified(prompt, verify(prompt, {}, chooser, 0, NO_HISTORY)))
    assert dict(draft_state.rates.judged) == judged
