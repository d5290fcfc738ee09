"""Drafters that guess a known answer, and that tell what trees were verified."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from guided.decoding import Acceptance, Drafter, DraftTree, NoDrafter, OpenDrafter, TreeGrowth
from guided.spec import Forcing, TokenId
from tests.engine.finite_language import TOKEN_BYTES


class Prophet(NoDrafter):
    """Guesses the answers of an earlier run, with wrong branches and now and then a wrong turn."""

    def __init__(self, known: Sequence[tuple[TokenId, ...]], errors: float) -> None:
        self.known = known
        self.errors = errors
        self.draws = random.Random(0)

    def draft(self, tokens: Sequence[TokenId], growth: TreeGrowth) -> None:
        node = growth.tip
        so_far = tuple(tokens)
        while growth.room:
            done = len(so_far)
            following = [k[done] for k in self.known if len(k) > done and k[:done] == so_far]
            if not following:
                return
            wrong = [TokenId(self.draws.randrange(2, len(TOKEN_BYTES))) for _ in range(3)]
            first_wrong = self.draws.random() < self.errors
            order = [*wrong, following[0]] if first_wrong else [following[0], *wrong]
            tips = [growth.guess(node, token) for token in order]
            tip = tips[-1] if first_wrong else tips[0]
            if tip is None:
                return
            tree = growth.tree()
            line: list[TokenId] = []
            at: int | None = tip
            while at is not None and at != node:
                line.insert(0, tree.tokens[at])
                at = tree.parents[at]
            so_far = (*so_far, *line)
            node = tip


class Watch:
    """Opens drafters, and notes the guesses that were verified since it was last asked."""

    def __init__(self, open_drafter: OpenDrafter) -> None:
        self.open_drafter = open_drafter
        self.trees: list[tuple[tuple[TokenId, ...], int, int]] = []
        """Of each tree with guesses the text before it, how many they were, how many right."""

    def __call__(self, forcing: Forcing) -> Drafter:
        return _Watched(self, self.open_drafter(forcing))

    def take(self, prompts: Mapping[str, tuple[TokenId, ...]]) -> dict[str, tuple[int, int]]:
        """The guesses and the right ones by name of the prompt, which begins no other; forget."""
        trees, self.trees = self.trees, []
        return {
            name: (guessed, right)
            for name, prompt in prompts.items()
            for text, guessed, right in trees
            if text[: len(prompt)] == prompt
        }


class _Watched:
    def __init__(self, watch: Watch, drafter: Drafter) -> None:
        self.watch = watch
        self.drafter = drafter
        self.text: tuple[TokenId, ...] = ()

    def draft(self, tokens: Sequence[TokenId], growth: TreeGrowth) -> None:
        self.text = tuple(tokens)
        self.drafter.draft(tokens, growth)

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        self.drafter.learn(tree, acceptance)
        guessed = sum(not sure for sure in tree.certain)
        right = sum(not tree.certain[node] for node in acceptance.path)
        if guessed:
            self.watch.trees.append((self.text, guessed, right))
