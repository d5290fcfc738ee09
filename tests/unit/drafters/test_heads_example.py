"""The worked example of docs/heads.md is what the code does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from guided.constraint import ConstraintCompiler
from guided.decoding import (
    Acceptance,
    DraftBudget,
    DraftBuilder,
    DraftRequest,
    DraftTree,
    VerifiedStep,
)
from guided.drafters.heads import MedusaHeads, MedusaShape
from guided.drafters.heads.medusa import MedusaDrafter
from guided.spec import Forcing, JsonSchema, TokenId
from tests.kit.draft_context import draft_context
from tests.unit.decoding.test_tree_example import PROMPT, SCHEMA, VOCABULARY, spell, text

PAGE = Path(__file__).parents[3] / "docs" / "heads.md"
HEADS = 7
LIKES = {2: {"blue": 3.0, "black": 2.5}, 6: {"fal": 2.0, "true": 1.0}}
"""By head, the logits of the tokens that it prefers; all others have 0."""


def medusa() -> MedusaDrafter:
    """Heads without residual blocks, for a state of a single number, which is 1."""
    module = MedusaHeads(MedusaShape(1, len(VOCABULARY), HEADS, layers=0))
    with torch.no_grad():
        for head in range(HEADS):
            matrix = module.vocabulary_matrix(head)
            matrix.zero_()
            for name, logit in LIKES.get(head, {}).items():
                (token,) = spell(name.encode())
                matrix[token, 0] = logit
    return MedusaDrafter(module, vocabulary_size=len(VOCABULARY), widths=(2,))


def drafted() -> DraftTree:
    """The first tree of an answer, once the prompt was computed."""
    prompt = spell(PROMPT)
    matcher = ConstraintCompiler(VOCABULARY).start(JsonSchema(SCHEMA))
    run = matcher.forced_run(Forcing.CANONICAL)
    drafter = medusa()
    draft_state = drafter.open(draft_context())
    path = tuple(range(len(prompt)))
    states = np.ones((len(prompt), 1), np.float32)
    tree = DraftTree.chain(prompt, None)
    draft_state.learn(VerifiedStep(tree, Acceptance(path, None, False), states, states[:, :0], 0))
    for token in run:
        matcher = matcher.advance(token)
    builder = DraftBuilder(
        DraftTree.chain(run, matcher),
        Forcing.CANONICAL,
        budget=DraftBudget(12),
        tokens_left=40,
        end_ids=VOCABULARY.end_ids,
    )
    drafter.propose([DraftRequest((*prompt, *run), draft_state, builder)])
    return builder.tree()


def picture(tree: DraftTree) -> str:
    """A line for each node: its distance from the state, and the head that predicts after it."""
    lines = ["node  token   follows  is        position  head after it"]
    decided = {parent for parent, sure in zip(tree.parents, tree.certain, strict=True) if sure}
    for node, depth in enumerate(tree.depths()):
        parent = tree.parents[node]
        kind = "certain" if tree.certain[node] else "drafted"
        head = "" if node in decided else str(depth) if depth < HEADS else "none"
        lines.append(
            f"{node:>4}  {text(tree.tokens[node]):6}  {'' if parent is None else parent:>7}  "
            f"{kind:8}  {f'p + {depth + 1}':8}  {head}".rstrip()
        )
    return "\n".join(lines)


def test_the_tree_of_the_page_is_drawn_by_the_code() -> None:
    tree = drafted()
    tree.check()
    assert picture(tree) in PAGE.read_text(encoding="utf-8")


def test_only_tokens_that_heads_like_are_in_it() -> None:
    """Head 2 predicts after the run that begins an object, head 6 after the run after a value."""
    tree = drafted()
    free = [text(t) for t, sure in zip(tree.tokens, tree.certain, strict=True) if not sure]
    assert free == ["blue", "black", "fal", "true"]
    assert TokenId(0) not in tree.tokens
