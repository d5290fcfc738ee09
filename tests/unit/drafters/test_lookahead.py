"""The window of lookahead decoding: its scouts, the n-grams learned, and the drafts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from guided.decoding import (
    NO_HISTORY,
    Chooser,
    CostCurve,
    DraftBudget,
    DraftBuilder,
    DraftRequest,
    DraftTree,
    VerifiedStep,
    verify,
)
from guided.drafters.lookahead import LookaheadDrafter, NgramPool
from guided.spec import Forcing, Sampling, TokenId
from tests.engine.finite_language import (
    END_IDS,
    TOKEN_BYTES,
    AnythingMatcher,
    WordMatcher,
    spell_bytes,
)
from tests.kit.draft_context import draft_context

PAGE = Path(__file__).parents[3] / "docs" / "lookahead.md"
ANYTHING: Any = AnythingMatcher()
CHOOSER = Chooser(Sampling(), seed=0, max_tokens=1000, end_ids=END_IDS)

_Text = tuple[TokenId, ...]
_Model = Callable[[_Text], TokenId]
"""A model's choice after a text."""


def one(text: bytes) -> TokenId:
    (token,) = spell_bytes(text)
    return token


def scattered(text: _Text) -> TokenId:
    """A choice of few tokens, which depends on the last three."""
    return one(b"klmnop"[hash(text[-3:]) % 6 :][:1])


def chain(word: bytes) -> _Model:
    """The letter that follows the last one in a word, otherwise a dash."""
    after = {one(word[at : at + 1]): one(word[at + 1 : at + 2]) for at in range(len(word) - 1)}
    return lambda text: after.get(text[-1], one(b"-"))


class Run:
    """A text that a model continues, with lookahead."""

    def __init__(self, model: _Model, prompt: bytes, columns: int, ngram: int) -> None:
        self.model = model
        self.drafter = LookaheadDrafter(columns, ngram)
        self.draft_state = self.drafter.open(draft_context())
        self.tokens: _Text = spell_bytes(prompt)
        self.calls = 0

    def draft(
        self,
        *,
        room: int = 40,
        costs: CostCurve | None = None,
        longest: int = 100,
        matcher: Any = ANYTHING,
    ) -> DraftTree:
        """The tree after the last token."""
        builder = DraftBuilder(
            DraftTree.chain(self.tokens[-1:], matcher),
            Forcing.CANONICAL,
            budget=DraftBudget(room, costs),
            tokens_left=longest,
            end_ids=END_IDS,
        )
        self.drafter.propose([DraftRequest(self.tokens, self.draft_state, builder)])
        tree = builder.tree()
        tree.check()
        return tree

    def before(self, tree: DraftTree, node: int) -> _Text:
        """All tokens that a node sees."""
        seen = [tree.tokens[at] for at in np.flatnonzero(tree.ancestors()[node])]
        return (*self.tokens[:-1], *seen)

    def logits(self, tree: DraftTree) -> dict[int, NDArray[np.float32]]:
        says = {node: self.model(self.before(tree, node)) for node in tree.nodes_needing_logits}
        return {n: np.eye(len(TOKEN_BYTES), dtype=np.float32)[t] for n, t in says.items()}

    def step(self, tree: DraftTree) -> None:
        """One model call."""
        logits = self.logits(tree)
        acceptance = verify(tree, logits, CHOOSER, len(self.tokens), NO_HISTORY)
        scouted = {node: logits[node] for node, asks in tree.scouts.items() if asks}
        none, first = np.empty((0, 0), np.float32), len(self.tokens) - 1
        self.draft_state.learn(VerifiedStep(tree, acceptance, none, none, first, scouted))
        assert acceptance.choice is not None
        assert hasattr(acceptance.choice, "token")
        path = [tree.tokens[node] for node in acceptance.path[1:]]
        self.tokens = (*self.tokens, *path, acceptance.choice.token)
        self.calls += 1


def window(tree: DraftTree, columns: int) -> list[list[int]]:
    """The scouts of a whole window, by level."""
    scouts = list(tree.scouts)
    return [scouts[at : at + columns] for at in range(0, len(scouts), columns)]


@pytest.mark.parametrize(("columns", "ngram"), [(1, 2), (4, 2), (3, 3), (5, 3), (2, 5), (4, 4)])
def test_the_text_is_the_one_that_the_model_says_alone(columns: int, ngram: int) -> None:
    run = Run(scattered, b"hello", columns, ngram)
    alone = run.tokens
    while run.calls < 40 and len(run.tokens) < 200:
        run.step(run.draft(room=24))
    while len(alone) < len(run.tokens):
        alone = (*alone, scattered(alone))
    assert run.tokens == alone
    assert len(run.tokens) > 5 + run.calls  # some of them were predicted


@pytest.mark.parametrize(("columns", "ngram"), [(1, 2), (4, 2), (3, 3), (5, 3), (2, 5), (4, 4)])
def test_the_window_moves_as_jacobi_iteration_does(columns: int, ngram: int) -> None:
    """Every level becomes the one above, the choices become the last; columns are pooled."""
    run = Run(scattered, b"hello", columns, ngram)
    for _ in range(ngram - 2):
        run.step(run.draft())
    pooled: dict[TokenId, list[_Text]] = {}
    expected: list[list[TokenId]] | None = None
    for _ in range(20):
        tree = run.draft()
        levels = window(tree, columns)
        assert len(levels) == ngram - 1
        tokens = [[tree.tokens[node] for node in level] for level in levels]
        assert expected is None or tokens == expected
        depths = tree.depths()
        for number, level in enumerate(levels):
            for column, node in enumerate(level):
                # It sees the oldest guesses up to its column, and its own column above itself.
                above = [levels[0][at] for at in range(column + 1)]
                above += [levels[at][column] for at in range(1, number + 1)]
                assert list(np.flatnonzero(tree.ancestors()[node])) == sorted([0, *above])
                assert depths[node] == 1 + column + number
        assert [node for node, asks in tree.scouts.items() if asks] == levels[-1]
        said = [run.model(run.before(tree, node)) for node in levels[-1]]
        for column, token in enumerate(said):
            first, *rest = [level[column] for level in tokens]
            others = [each for each in pooled.get(first, []) if each != (*rest, token)]
            pooled[first] = [(*rest, token), *others[:3]]
        expected = [*tokens[1:], said]
        run.step(tree)
        assert {token: run.draft_state.pool.after(token) for token in pooled} == pooled


def test_what_the_window_foresees_costs_fewer_calls() -> None:
    """A model that knows a text by heart can continue it at any place."""
    text = spell_bytes(bytes(range(33, 127)))
    by_heart = dict(enumerate(text))
    run = Run(lambda said: by_heart.get(len(said), one(b"-")), b"!", 5, 3)
    while len(run.tokens) < len(text):
        run.step(run.draft())
    assert run.tokens[: len(text)] == text
    assert run.calls < len(text) * 0.6


@pytest.mark.parametrize(
    ("options", "scouts"),
    [
        ({}, 6),
        ({"room": 5}, 0),
        ({"longest": 5}, 0),
        ({"longest": 6}, 6),
        ({"costs": CostCurve(((1, 1.0), (64, 1.1)))}, 6),
        ({"costs": CostCurve(((1, 1.0), (8, 8.0)))}, 0),
    ],
)
def test_the_window_rides_along_where_it_has_room_and_pays(
    options: dict[str, Any], scouts: int
) -> None:
    tree = Run(scattered, b"hello", 5, 3).draft(**options)
    assert len(tree.scouts) == scouts


def test_a_window_that_brings_nothing_is_given_up_and_tried_again() -> None:
    run = Run(lambda text: TokenId(2 + len(text) % 250), b"hello", 5, 3)
    costs = CostCurve(((1, 1.0), (2, 1.0), (12, 1.4)))
    rode = []
    for _ in range(150):
        tree = run.draft(costs=costs)
        rode.append(bool(tree.scouts))
        # No guess of the window is ever right.
        model, run.model = run.model, lambda text: one(b"!") if len(text) % 2 else one(b"?")
        run.draft_state.pool.add(run.tokens[-1], (one(b"x"),))
        run.step(tree)
        run.model = model
    assert rode[0]
    assert not all(rode[:40])
    assert any(rode[100:])


def test_n_grams_are_drafted_best_first_and_one_after_the_other() -> None:
    run = Run(scattered, b"a", 1, 3)
    a, b, c, d, e = (one(bytes([letter])) for letter in b"avxyz")
    run.draft_state.pool.add(a, (b, c))
    run.draft_state.pool.add(a, (d, e))
    run.draft_state.pool.add(c, (e, a))
    tree = run.draft(room=2 + 5)
    drafted = [run.before(tree, node) for node in tree.drafted]
    assert drafted == [(a, d), (a, b), (a, d, e), (a, b, c), (a, b, c, e)]


def test_the_constraint_prunes_n_grams_and_its_runs_come_along() -> None:
    run = Run(scattered, b"~", 1, 3)
    run.draft_state.pool.add(one(b"~"), spell_bytes(b"x;"))
    run.draft_state.pool.add(one(b"~"), spell_bytes(b"q1"))
    run.draft_state.pool.add(one(b";"), spell_bytes(b"no"))
    matcher: Any = WordMatcher.of(["~x1;more", "~y22;more"]).advance(one(b"~"))
    tree = run.draft(matcher=matcher)
    (drafted,) = tree.drafted
    last = len(tree) - 1
    assert tree.tokens[drafted] == one(b"x")
    assert run.before(tree, last) == spell_bytes(b"~x1;more")


def test_the_pool_keeps_the_latest_of_each_token_and_of_all() -> None:
    pool = NgramPool()
    first, other = TokenId(7), TokenId(8)
    for last in (1, 2, 3, 2, 4, 5):
        pool.add(first, (TokenId(last),))
    assert pool.after(first) == [(5,), (4,), (2,), (3,)]
    for token in range(10, 2000):
        pool.add(TokenId(token), (other,))
    assert len(pool) == 1024
    assert pool.after(first) == []
    assert pool.after(TokenId(1999)) == [(other,)]


def test_a_window_that_was_given_up_for_want_of_room_stays_as_it_is() -> None:
    run = Run(scattered, b"hello", 3, 3)
    run.step(run.draft())
    tree = run.draft()
    # The step is computed without its draft.
    trunk = DraftTree.chain(run.tokens[-1:], ANYTHING)
    run.step(trunk)
    again = run.draft()
    assert [again.tokens[node] for node in again.scouts] == [
        tree.tokens[node] for node in tree.scouts
    ]


# --- the worked example of the page -------------------------------------------------------------


def text_of(tokens: Sequence[TokenId]) -> str:
    return " ".join((TOKEN_BYTES[token] or b"").decode() for token in tokens)


def picture(run: Run, tree: DraftTree) -> str:
    """A line for each node: its parent, the nodes it sees, and the model's choice after it."""
    lines = ["node  token  follows  is       sees           says"]
    says = {node: run.model(run.before(tree, node)) for node in tree.nodes_needing_logits}
    for node, sees in enumerate(tree.ancestors()):
        parent = tree.parents[node]
        kind = "scout" if node in tree.scouts else "certain" if tree.certain[node] else "drafted"
        sight = "".join("x" if seen else "." for seen in sees)
        said = text_of([says[node]]) if node in says else ""
        lines.append(
            f"{node:>4}  {text_of([tree.tokens[node]]):5}  {'' if parent is None else parent:>7}  "
            f"{kind:7}  {sight:13}  {said}".rstrip()
        )
    return "\n".join(lines)


def test_the_windows_of_the_page_are_drawn_by_the_code() -> None:
    """A model that continues a word, four columns, n-grams of three tokens."""
    run = Run(chain(b"speculation"), b"say:s", 4, 3)
    pictures = []
    while len(run.tokens) < len(b"say:speculation"):
        tree = run.draft(room=12)
        pictures.append(picture(run, tree))
        run.step(tree)
    page = PAGE.read_text(encoding="utf-8")
    assert text_of(run.tokens[4:15]) == "s p e c u l a t i o n"
    assert f"{len(pictures)} calls instead of 10" in page
    for drawn in (pictures[1], pictures[-1]):
        assert drawn in page
