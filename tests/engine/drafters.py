"""Drafters that draft a known answer, and drafters that report the verified trees."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from guided.decoding import (
    DraftBuilder,
    DraftContext,
    Drafter,
    DraftRequest,
    DraftState,
    VerifiedStep,
)
from guided.spec import TokenId
from tests.engine.finite_language import TOKEN_BYTES


class OneByOne:
    """A drafter that drafts for one sequence after the other, and remembers nothing of them."""

    name = "one by one"
    wants_hidden_states = False
    widths: tuple[int, ...] = ()

    def open(self, context: DraftContext) -> DraftState | None:  # noqa: ARG002 - for all
        return self

    def propose(self, drafts: Sequence[DraftRequest]) -> None:
        for draft in drafts:
            assert isinstance(draft.draft_state, OneByOne)
            draft.draft_state.draft(draft.tokens, draft.builder)

    def draft(self, tokens: Sequence[TokenId], builder: DraftBuilder) -> None:
        """Nothing, unless a subclass does."""

    def learn(self, verified: VerifiedStep) -> None:
        """Nothing."""

    def end(self, tokens: Sequence[TokenId]) -> None:
        """Nothing."""


class OneEach(OneByOne):
    """Gives each sequence a drafter of its own."""

    def __init__(self, make: Callable[[], OneByOne]) -> None:
        self.make = make

    def open(self, context: DraftContext) -> DraftState | None:  # noqa: ARG002 - for all
        return self.make()


class Prophet(OneByOne):
    """Drafts the answers of an earlier run, with wrong branches and now and then a wrong turn."""

    def __init__(self, known: Sequence[tuple[TokenId, ...]], errors: float) -> None:
        self.known = known
        self.errors = errors
        self.draws = random.Random(0)

    def draft(self, tokens: Sequence[TokenId], builder: DraftBuilder) -> None:
        node = builder.last_node
        so_far = tuple(tokens)
        while builder.room:
            done = len(so_far)
            following = [k[done] for k in self.known if len(k) > done and k[:done] == so_far]
            if not following:
                return
            wrong = [TokenId(self.draws.randrange(2, len(TOKEN_BYTES))) for _ in range(3)]
            first_wrong = self.draws.random() < self.errors
            order = [*wrong, following[0]] if first_wrong else [following[0], *wrong]
            tips = [builder.add(node, token) for token in order]
            tip = tips[-1] if first_wrong else tips[0]
            if tip is None:
                return
            so_far = (*so_far, *builder.path(node, tip))
            node = tip


class Watch:
    """Records the drafts of another drafter that were verified since the last ``take``.

    The trees hold the tokens of other drafters, too.
    """

    def __init__(self, drafter: Drafter | None) -> None:
        self.drafter = drafter
        self.name = "watched" if drafter is None else drafter.name
        self.wants_hidden_states = drafter is not None and drafter.wants_hidden_states
        self.widths = () if drafter is None else drafter.widths
        self.trees: list[tuple[tuple[TokenId, ...], int, int]] = []
        """Of each tree with a draft: the text before it, how many tokens were drafted and right."""

    def open(self, context: DraftContext) -> DraftState | None:
        draft_state = None if self.drafter is None else self.drafter.open(context)
        return None if draft_state is None else _Watched(self, draft_state)

    def propose(self, drafts: Sequence[DraftRequest]) -> None:
        assert self.drafter is not None
        inner = []
        for draft in drafts:
            assert isinstance(draft.draft_state, _Watched)
            draft.draft_state.text = tuple(draft.tokens)
            inner.append(DraftRequest(draft.tokens, draft.draft_state.draft_state, draft.builder))
        self.drafter.propose(inner)

    def take(self, prompts: Mapping[str, tuple[TokenId, ...]]) -> dict[str, tuple[int, int]]:
        """Return and forget drafted and right tokens by the prompt, whose name begins no other."""
        trees, self.trees = self.trees, []
        return {
            name: (drafted, right)
            for name, prompt in prompts.items()
            for text, drafted, right in trees
            if text[: len(prompt)] == prompt
        }


class _Watched:
    def __init__(self, watch: Watch, draft_state: DraftState) -> None:
        self.watch = watch
        self.draft_state = draft_state
        self.text: tuple[TokenId, ...] = ()

    def end(self, tokens: Sequence[TokenId]) -> None:
        self.draft_state.end(tokens)

    def learn(self, verified: VerifiedStep) -> None:
        tree, acceptance = verified.tree, verified.acceptance
        self.draft_state.learn(verified)
        drafted = sum(not sure for sure in tree.certain)
        right = sum(not tree.certain[node] for node in acceptance.path)
        if drafted:
            self.watch.trees.append((self.text, drafted, right))
