"""Drafters run where they pay, are tried again now and then, and never cost an answer much.

The clock is simulated: each drafter states the time it takes. The model's choices are given for
each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.decoding import (
    Acceptance,
    CostCurve,
    DraftBudget,
    DraftBuilder,
    DraftRequest,
    DraftState,
    DraftTree,
)
from guided.drafters import DrafterUnion
from guided.drafters.union import UnionDraftState
from guided.spec import Forcing, TokenId
from tests.engine.drafters import OneByOne
from tests.engine.finite_language import END_IDS, AnythingMatcher, spell_bytes
from tests.kit.draft_context import draft_context, verified

STEP = 0.010
FLAT = CostCurve(((1, STEP), (512, STEP)))
"""Calls of any width take equal time, so only the time of drafters counts."""
STEEP = CostCurve(((1, STEP), (2, 2 * STEP)))
BAD, GOOD = b".", b"aaaa."


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


class Costly(OneByOne):
    """Drafts a text, or its first letter again, and takes time for each call and sequence."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        *,
        call: float = 0.0,
        each: float = 0.0,
        length: int = 4,
        text: bytes = b"",
    ) -> None:
        self.name = name
        self.clock = clock
        self.call, self.each = call, each
        self.text = spell_bytes(text or name[:1].encode() * length)
        self.asked = 0

    def propose(self, drafts: Sequence[DraftRequest]) -> None:
        self.asked += len(drafts)
        self.clock.now += round(1e9 * (self.call + self.each * len(drafts)))
        super().propose(drafts)

    def draft(self, tokens: Sequence[TokenId], builder: DraftBuilder) -> None:  # noqa: ARG002
        node: int | None = builder.root
        for token in self.text:
            if node is not None:
                added = builder.add(node, token)
                node = builder.find(node, token) if added is None else added


class Answers:
    """Answers with drafts in one batch, without an engine."""

    def __init__(
        self,
        union: DrafterUnion,
        count: int = 1,
        costs: CostCurve | None = FLAT,
        rooms: Sequence[int] | None = None,
        **context: Any,
    ) -> None:
        self.union, self.costs = union, costs
        self.rooms = [32] * count if rooms is None else rooms
        self.draft_states: list[DraftState] = []
        for _ in range(count):
            draft_state = union.open(draft_context(**context))
            assert draft_state is not None
            self.draft_states.append(draft_state)

    def step(self, *texts: bytes) -> list[tuple[DraftTree, list[str]]]:
        """Draft, and let the model choose the texts; returns trees, and the drafters left out."""
        matcher: Any = AnythingMatcher()
        drafts = []
        count = len(texts)
        for draft_state, room in zip(self.draft_states, self.rooms, strict=True):
            budget = DraftBudget(room, self.costs, certain=count, sequences=count)
            trunk = DraftTree.chain(spell_bytes(b">"), matcher)
            builder = DraftBuilder(
                trunk, Forcing.CANONICAL, budget=budget, tokens_left=99, end_ids=END_IDS
            )
            drafts.append(DraftRequest(spell_bytes(b">"), draft_state, builder))
        self.union.propose(drafts)
        for draft, text in zip(drafts, texts, strict=True):
            tree = draft.builder.tree()
            acceptance = Acceptance(_path(tree, spell_bytes(text)), None, budget_limited=False)
            draft.draft_state.learn(verified(tree, acceptance))
        return [(draft.builder.tree(), draft.skipped) for draft in drafts]

    def run(self, text: bytes, steps: int, name: str = "a") -> list[int]:
        """In which of a number of steps a drafter ran for the first answer."""
        asked = []
        for number in range(steps):
            _, skipped = self.step(*[text] * len(self.draft_states))[0]
            if name not in skipped:
                asked.append(number)
        return asked


def _path(tree: DraftTree, tokens: Sequence[TokenId]) -> tuple[int, ...]:
    path, children = [0], tree.children()
    for token in tokens:
        following = [child for child in children[path[-1]] if tree.tokens[child] == token]
        if not following:
            break
        path += following
    return tuple(path)


def lone(**cost: Any) -> tuple[Costly, DrafterUnion]:
    clock = Clock()
    drafter = Costly("a", clock, **cost)
    return drafter, DrafterUnion([drafter], clock)


def test_a_drafter_that_never_pays_is_left_alone_and_seldom_tried_again() -> None:
    drafter, union = lone(call=0.5 * STEP)
    asked = Answers(union).run(BAD, 1000)
    # The worth of a step at first, and the very first run, whose time does not count.
    assert asked[:3] == [0, 1, 2]
    assert not [number for number in asked if 3 <= number < 20]
    tries = [number for number in asked if number >= 20]
    assert len(tries) * 0.5 <= 0.011 * 1000
    assert len(tries) >= 10, "it is tried again all the same"
    assert drafter.asked == len(asked)


@pytest.mark.parametrize("price", [0.02, 0.1, 0.5, 1.0])
def test_no_long_answer_loses_three_in_a_hundred(price: float) -> None:
    """Once the drafter has shown that it does not pay, at all prices that a trial may have."""
    drafter, union = lone(call=price * STEP)
    for _ in range(9):
        drafter.asked = 0
        Answers(union).run(BAD, 100)
    assert drafter.asked * price < 0.03 * 100


def test_a_drafter_that_pays_is_always_asked_though_it_takes_longer_than_a_step() -> None:
    """Half of its drafts are wrong, but it still gains half a step each time."""
    _, union = lone(call=1.5 * STEP)
    answers = Answers(union)
    for _ in range(100):
        for text in (GOOD, BAD):
            ((_, skipped),) = answers.step(text)
            assert not skipped


def test_it_comes_back_in_an_answer_that_begins_to_repeat_itself() -> None:
    _, union = lone(call=0.2 * STEP)
    answers = Answers(union)
    answers.run(BAD, 200)
    asked = answers.run(GOOD, 150)
    assert len(asked) >= 150 - 40
    assert asked[-50:] == list(range(100, 150))


def test_each_answer_is_judged_by_itself() -> None:
    """Of two answers that run together, a drafter pays for only one."""
    _, union = lone(each=0.4 * STEP / 2)
    answers = Answers(union, 2)
    skipped = [[names for _, names in answers.step(GOOD, BAD)] for _ in range(100)]
    first, second = zip(*skipped, strict=True)
    assert not any(first)
    assert sum(map(bool, second)) > 80


def test_an_answer_begins_with_what_others_have_shown() -> None:
    _, union = lone(call=0.5 * STEP)

    def begin(text: bytes) -> int:
        """How often the drafter runs in the first 20 steps of a new answer."""
        return len(Answers(union).run(text, 20))

    assert begin(BAD) == 3, "it has credit at first"
    for _ in range(12):
        begin(BAD)
    assert begin(BAD) == 0, "it has lost too much elsewhere"
    assert begin(GOOD) == 0, "an answer cannot tell what it was not shown"
    # Long answers make trials, and their results help the answers after them.
    Answers(union).run(GOOD, 150)
    assert begin(GOOD) == 20
    assert begin(BAD) == 4


def test_who_has_lost_rests_and_then_gets_a_trial() -> None:
    _, union = lone(call=0.1 * STEP)
    policy = union.policies["a"]
    begun = 0
    while policy.balance >= 0.0:
        assert Answers(union).run(BAD, 10), "a trial costs less than an answer may lose"
        begun += 1
        assert begun < 100
    assert Answers(union).run(BAD, 10) == []
    while policy.balance < 0.0:
        Answers(union).run(BAD, 10)
    assert Answers(union).run(BAD, 10) == [0, 1, 2]


def test_a_call_for_several_sequences_is_shared_by_them() -> None:
    """A tenth of a step for each, which pays for two tries in a row every twenty steps."""
    _, union = lone(call=0.1 * STEP)
    answers = Answers(union, 4)
    answers.run(BAD, 100)
    asked = answers.run(BAD, 100)
    assert 8 <= len(asked) <= 12
    assert all(third - first > 5 for first, third in zip(asked, asked[2:], strict=False))


def test_a_token_is_worth_less_where_others_bring_many() -> None:
    """A fifth token saves a fifth of a step beside four of a cheap drafter, alone a whole one."""
    clock = Clock()
    cheap = Costly("a", clock)
    dear = Costly("b", clock, call=0.5 * STEP, text=b"aaaab")
    answers = Answers(DrafterUnion([cheap, dear], clock))
    answers.run(b"aaaab.", 300)
    assert dear.asked < 30
    alone = Costly("b", clock, call=0.5 * STEP, text=b"b")
    assert len(Answers(DrafterUnion([alone], clock)).run(b"b.", 300, "b")) == 300


def test_drafters_that_a_request_names_are_asked_whatever_they_cost() -> None:
    _, union = lone(call=5 * STEP)
    assert len(Answers(union, drafters=("a",)).run(BAD, 50)) == 50


def test_without_a_cost_curve_all_are_asked() -> None:
    _, union = lone(call=5 * STEP)
    assert len(Answers(union, costs=None).run(BAD, 50)) == 50


def test_a_drafter_is_charged_with_what_its_nodes_add_to_the_call() -> None:
    """It takes no time itself, but a node costs a step on this curve and is never right."""
    drafter, union = lone(length=1)
    ramp = CostCurve(((1, STEP), (2, 1.4 * STEP), (3, 4 * STEP)))
    assert len(Answers(union, costs=ramp).run(b"a", 50)) == 50
    drafter.asked = 0
    assert len(Answers(union, costs=ramp).run(BAD, 100)) < 60


def test_of_two_with_the_same_proposals_only_the_first_is_paid() -> None:
    clock = Clock()
    cheap, dear = (Costly(name, clock, call=c * STEP) for name, c in (("a", 0.02), ("also", 0.3)))
    answers = Answers(DrafterUnion([cheap, dear], clock))
    answers.run(GOOD, 200)
    assert cheap.asked == 200
    assert dear.asked < 20


def test_under_load_what_takes_long_for_each_sequence_is_left_out_and_what_is_cheap_stays() -> None:
    """One token of ``b`` saves a step, an eighth for each of eight sequences."""
    clock = Clock()
    cheap = Costly("a", clock, each=0.002 * STEP, length=1)
    dear = Costly("b", clock, each=0.3 * STEP, length=1)
    union = DrafterUnion([dear, cheap], clock)
    alone = Answers(union)
    skipped = [alone.step(b"b" if number % 2 else b"a")[0][1] for number in range(60)]
    assert not any(skipped), "alone, both pay"
    busy = Answers(union, 8)
    for number in range(60):
        text = b"b" if number % 2 else b"a"
        skipped = [names for _, names in busy.step(*[text] * 8)]
        if number >= 20:
            assert skipped == [["b"]] * 8
    assert Answers(union).run(b"b", 1, "a") == [0]


def test_a_tree_shrinks_to_nothing_under_load_on_a_steep_curve() -> None:
    def drafted(count: int, costs: CostCurve) -> int:
        _, union = lone()
        trees = Answers(union, count, costs).step(*[GOOD] * count)
        return max(len(tree) - tree.trunk_length for tree, _ in trees)

    ramp = CostCurve(((1, STEP), (8, STEP), (16, 4 * STEP)))
    assert [drafted(count, ramp) for count in (1, 2, 4, 8)] == [4, 3, 1, 0]
    assert drafted(1, STEEP) == 0


def test_a_pause_of_the_machine_is_not_held_against_a_drafter() -> None:
    clock = Clock()
    drafter = Costly("a", clock, call=0.1 * STEP)
    answers = Answers(DrafterUnion([drafter], clock))
    answers.run(GOOD, 20)
    drafter.call = 100 * STEP
    answers.run(GOOD, 1)
    drafter.call = 0.1 * STEP
    assert len(answers.run(GOOD, 50)) == 50


@settings(max_examples=60, deadline=None)
@given(
    price=st.floats(0.01, 3.0),
    right=st.lists(st.integers(0, 4), min_size=1, max_size=120),
    before=st.integers(0, 3),
)
def test_no_answer_loses_more_than_it_was_opened_with_and_a_hundredth(
    price: float, right: list[int], before: int
) -> None:
    drafter, union = lone(call=price * STEP)
    Answers(union, drafters=("a",)).run(BAD, 2)  # the time is known from here on
    for _ in range(before):
        Answers(union).run(BAD, 30)
    answers = Answers(union)
    opened = union.policies["a"].open_account(price).balance
    drafter.asked = won = 0
    for accepted in right:
        ((tree, _),) = answers.step(b"a" * accepted + b".")
        won += min(accepted, len(tree) - tree.trunk_length)
    assert drafter.asked * price - won <= opened + 0.01 * len(right) + 1e-6


def test_what_was_drafted_but_never_verified_is_not_charged() -> None:
    """If a call fails, drafting is repeated for each sequence, one by one."""
    _, union = lone(call=STEP)
    answers = Answers(union)
    answers.run(BAD, 2)
    (draft_state,) = answers.draft_states
    assert isinstance(draft_state, UnionDraftState)
    balance = draft_state.accounts["a"].balance
    draft_state.begin()
    draft_state.charge("a", 100.0)
    answers.step(GOOD)
    assert draft_state.accounts["a"].balance > balance


def test_what_was_drafted_before_a_sequence_lost_its_place_is_not_charged() -> None:
    """It begins again, and steps that read a long prompt once more have no drafts."""
    _, union = lone(call=STEP)
    answers = Answers(union)
    answers.run(BAD, 2)
    (draft_state,) = answers.draft_states
    assert isinstance(draft_state, UnionDraftState)
    before = draft_state.accounts["a"].balance, union.policies["a"].balance
    draft_state.begin()
    draft_state.charge("a", 100.0)
    matcher: Any = AnythingMatcher()
    prompt = DraftTree.chain(spell_bytes(b"abcd"), matcher)
    read = Acceptance((0, 1, 2, 3), None, budget_limited=False)
    for _ in range(2):
        draft_state.learn(verified(prompt, read, was_drafted=False))
    assert (draft_state.accounts["a"].balance, union.policies["a"].balance) == before
