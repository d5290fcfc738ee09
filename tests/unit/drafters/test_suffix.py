"""Drafts from earlier answers: their content, who shares them, and their bounds."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from guided.decoding import (
    NO_HISTORY,
    Acceptance,
    Chooser,
    CostCurve,
    DraftBudget,
    DraftBuilder,
    DraftRequest,
    DraftTree,
    verify,
)
from guided.drafters.suffix import SuffixDrafter, SuffixDraftState
from guided.drafters.suffix_pools import PoolKey
from guided.spec import Choice as OneOf
from guided.spec import Forcing, Sampling, TokenId
from tests.engine.finite_language import (
    END_IDS,
    TOKEN_BYTES,
    AnythingMatcher,
    WordMatcher,
    spell_bytes,
)
from tests.kit.draft_context import draft_context, verified

ANYTHING: Any = AnythingMatcher()
CHOOSER = Chooser(Sampling(), seed=0, max_tokens=1000, end_ids=END_IDS)


def say(
    drafter: SuffixDrafter, answer: bytes, *, prompt: bytes = b"", cut: bytes = b"", **context: Any
) -> None:
    """A request answered with ``answer``, closed by ``cut``, which the model did not choose."""
    asked, said = spell_bytes(prompt), spell_bytes(answer)
    draft_state = drafter.open(draft_context(prompt_length=len(asked), **context))
    tokens = (*asked, *said)
    if tokens:
        tree = DraftTree.chain(tokens, ANYTHING)
        path = tuple(range(len(tokens)))
        draft_state.learn(verified(tree, Acceptance(path, None, budget_limited=False)))
    draft_state.end([*tokens, *spell_bytes(cut)])


def draft(
    drafter: SuffixDrafter,
    draft_state: SuffixDraftState,
    text: bytes,
    *,
    matcher: Any = ANYTHING,
    room: int = 8,
    costs: CostCurve | None = None,
) -> DraftTree:
    tokens = spell_bytes(text)
    builder = DraftBuilder(
        DraftTree.chain(tokens[-1:], matcher),
        Forcing.CANONICAL,
        budget=DraftBudget(room, costs),
        tokens_left=100,
        end_ids=END_IDS,
    )
    drafter.propose([DraftRequest(tokens, draft_state, builder)])
    tree = builder.tree()
    tree.check()
    return tree


def drafted(drafter: SuffixDrafter, text: bytes, **options: Any) -> list[bytes]:
    """The texts that end at each drafted node, in the order in which they were drafted."""
    context = {key: options.pop(key) for key in ("constraint", "cache_salt") if key in options}
    tree = draft(drafter, drafter.open(draft_context(**context)), text, **options)
    ways = [np.flatnonzero(tree.ancestors()[node])[1:] for node in range(1, len(tree))]
    return [b"".join(TOKEN_BYTES[tree.tokens[at]] or b"" for at in way) for way in ways]


@pytest.mark.parametrize(
    ("answers", "text", "room", "expected"),
    [
        ([b"xyz!"], b"xy", 8, [b"z", b"z!"]),
        # By their counts, and equal counts by id.
        ([b"x1", b"x3", b"x2", b"x3"], b"x", 8, [b"3", b"1", b"2"]),
        ([b"x1", b"x3", b"x2", b"x3"], b"x", 1, [b"3"]),
        # The likeliest first: what follows the likely one comes before the unlikely one.
        ([b"tuvxpqr"] * 3 + [b"tuvxk"], b"tuvx", 4, [b"p", b"pq", b"k", b"pqr"]),
        # The longer context counts more than the frequent one, and both contribute.
        ([b"ty3", b"qy4", b"qy4", b"qy4"], b"ty", 2, [b"3", b"4"]),
        ([b"ty3", b"qy4", b"qy4", b"qy4"], b"vy", 1, [b"4"]),
        # A text that never occurred, and one that was never followed by anything.
        ([b"xyz"], b"v", 8, []),
        ([b"xyz"], b"xyz", 8, []),
        ([], b"x", 8, []),
    ],
)
def test_what_followed_before_is_drafted(
    answers: Sequence[bytes], text: bytes, room: int, expected: list[bytes]
) -> None:
    drafter = SuffixDrafter()
    for answer in answers:
        say(drafter, answer)
    assert drafted(drafter, text, room=room) == expected


def test_the_constraint_prunes_and_its_runs_come_along() -> None:
    matcher: Any = WordMatcher.of(["~x1;more", "~y22;more"]).advance(spell_bytes(b"~")[0])
    drafter = SuffixDrafter()
    say(drafter, b"~x2;other")
    say(drafter, b"~z3")
    assert drafted(drafter, b"~", matcher=matcher, room=40)[-1] == b"x1;more"


def test_how_an_answer_begins_is_known_by_the_end_of_the_prompt() -> None:
    drafter = SuffixDrafter()
    say(drafter, b"Dear", prompt=b"write a letter>")
    assert drafted(drafter, b"write a poem>")[:2] == [b"D", b"De"]


def test_the_tokens_that_close_an_answer_are_not_remembered() -> None:
    drafter = SuffixDrafter()
    say(drafter, b"xy", cut=b"!!")
    assert drafted(drafter, b"x") == [b"y"]


def test_a_request_that_ends_before_its_answer_leaves_nothing() -> None:
    drafter = SuffixDrafter()
    say(drafter, b"", prompt=b"xyz")
    assert len(drafter.pools) == 0


SAME: dict[str, Any] = {"constraint": OneOf(("a", "b")), "cache_salt": "me"}


@pytest.mark.parametrize(
    ("context", "shares"),
    [
        (SAME, True),
        (SAME | {"constraint": OneOf(("a", "b"))}, True),
        (SAME | {"constraint": OneOf(("a", "c"))}, False),
        (SAME | {"constraint": None}, False),
        (SAME | {"cache_salt": "you"}, False),
        (SAME | {"cache_salt": ""}, False),
    ],
)
def test_answers_are_shared_by_salt_and_constraint(context: dict[str, Any], shares: bool) -> None:
    drafter = SuffixDrafter()
    say(drafter, b"xyz", **SAME)
    assert drafted(drafter, b"x", **context) == ([b"y", b"yz"] if shares else [])


def test_contexts_that_are_wrong_are_given_up_alone() -> None:
    """After a misleading context nothing is drafted; another length of context still drafts."""
    drafter = SuffixDrafter()
    say(drafter, b"abcdefgh1")
    say(drafter, b"k5k5k5")
    steep = CostCurve(((1, 1.0), (2, 1.3)))
    wrong = np.eye(len(TOKEN_BYTES), dtype=np.float32)[spell_bytes(b"z")[0]]
    draft_state = drafter.open(draft_context())
    sizes = []
    for _ in range(12):
        tree = draft(drafter, draft_state, b"abcdefgh", costs=steep)
        says = dict.fromkeys(tree.nodes_needing_logits, wrong)
        draft_state.learn(verified(tree, verify(tree, says, CHOOSER, 0, NO_HISTORY)))
        sizes.append(len(tree) - 1)
    assert sizes[0] > 0
    assert sizes[-1] == 0
    assert drafted(drafter, b"k5k", costs=steep) == [b"5"]


def test_a_thousand_answers_stay_within_the_bounds() -> None:
    draws = random.Random(0)
    drafter = SuffixDrafter(400_000)
    most = 0
    for number in range(1000):
        # Some constraints have many answers, most have few, one answer is very long.
        constraint = OneOf((str(draws.randrange(4) if draws.random() < 0.7 else number),))
        length = 5000 if number == 500 else draws.randrange(1, 60)
        answer = bytes(draws.randrange(97, 101 + number % 20) for _ in range(length))
        say(drafter, answer, constraint=constraint, cache_salt=str(number % 3))
        drafter.pools.check()
        most = max(most, drafter.pools.nbytes)
    assert 200_000 < most <= 400_000
    assert len(drafter.pools) > 10


def test_of_a_constraint_the_oldest_answers_go_first() -> None:
    drafter = SuffixDrafter(80_000)
    for first in range(0x21, 0x7E):
        say(drafter, bytes([first, *b"=lkjhgfdsaq"]))
    assert drafted(drafter, b"!", room=1) == []
    assert drafted(drafter, b"}", room=1) == [b"="]


def test_of_constraints_the_one_goes_that_was_not_used_longest() -> None:
    drafter = SuffixDrafter(60_000)
    for number in range(30):
        say(drafter, b"abcdefghijklmnopqrstuvwxyz", constraint=OneOf((str(number),)))
        drafter.open(draft_context(constraint=OneOf(("0",))))
    kept = [
        number
        for number in range(30)
        if drafter.pools.find(PoolKey("", OneOf((str(number),)).digest())) is not None
    ]
    assert kept == [0, *range(31 - len(kept), 30)]
    assert 2 < len(kept) < 20


def test_an_answer_that_is_too_large_alone_is_not_kept() -> None:
    drafter = SuffixDrafter(20_000)
    say(drafter, bytes(range(32, 127)))
    assert len(drafter.pools) == drafter.pools.nbytes == 0


def test_tokens_without_a_text_are_remembered_as_that_is_needed() -> None:

    drafter = SuffixDrafter()
    draft_state = drafter.open(draft_context())
    tokens = [TokenId(3), TokenId(0), TokenId(5)]
    tree = DraftTree.chain(tokens, ANYTHING)
    draft_state.learn(verified(tree, Acceptance((0, 1, 2), None, budget_limited=False)))
    draft_state.end(tokens)
    pool = drafter.pools.find(PoolKey("", ""))
    assert pool is not None
    assert pool.trie.contexts(tokens[:2])[0].followers() == [(5, 1)]
