"""The worked example of docs/tree-verify.md is what the code does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from guided.constraint import ConstraintCompiler
from guided.decoding import (
    NO_HISTORY,
    Chooser,
    DraftBudget,
    DraftBuilder,
    DraftRequest,
    DraftTree,
    verify,
)
from guided.drafters import LookupDrafter
from guided.masks.mask import tokens_of
from guided.spec import Forcing, JsonSchema, Sampling, TokenId
from tests.kit.draft_context import draft_context
from tests.kit.tiny_vocabulary import tiny_vocabulary

PAGE = Path(__file__).parents[3] / "docs" / "tree-verify.md"
PIECES = (b'{"', b'":', b'":"', b'","', b"color", b"dark", b"true", b"fal", b"se", b"se}")
COLORS = (b"blue", b"black", b"red", b"bl", b"sky", b" blue")
VOCABULARY = tiny_vocabulary(PIECES + COLORS)
SCHEMA = """{"type": "object", "additionalProperties": false, "required": ["color", "dark"],
 "properties": {"color": {"enum": ["red", "blue", "black"]}, "dark": {"type": "boolean"}}}"""
PROMPT = b'sky:"blue" -> '
ANSWER = b'{"color":"blue","dark":false}'


def spell(text: bytes) -> tuple[TokenId, ...]:
    return tuple(map(TokenId, VOCABULARY.spell(text.decode())))


def text(token: int) -> str:
    return (VOCABULARY.token_bytes[token] or b"end").decode()


def drafted() -> DraftTree:
    """The first tree of the answer: the forced run, and room for ten drafts after it."""
    matcher = ConstraintCompiler(VOCABULARY).start(JsonSchema(SCHEMA))
    run = matcher.forced_run(Forcing.CANONICAL)
    for token in run:
        matcher = matcher.advance(token)
    builder = DraftBuilder(
        DraftTree.chain(run, matcher),
        Forcing.CANONICAL,
        budget=DraftBudget(10),
        tokens_left=40,
        end_ids=VOCABULARY.end_ids,
    )
    drafter = LookupDrafter(VOCABULARY)
    draft_state = drafter.open(draft_context())
    drafter.propose([DraftRequest((*spell(PROMPT), *run), draft_state, builder)])
    return builder.tree()


def picture(tree: DraftTree) -> str:
    """A line for each node: its parent, the nodes it sees, and the tokens allowed after it."""
    lines = ["node  token   follows  is        sees           logits  allowed after it"]
    needing_logits = set(tree.nodes_needing_logits)
    for node, sees in enumerate(tree.ancestors()):
        parent, matcher = tree.parents[node], tree.matchers[node]
        allowed = "" if matcher is None else " ".join(map(text, tokens_of(matcher.mask())))
        kind = "certain" if tree.certain[node] else "drafted"
        sight = "".join("x" if seen else "." for seen in sees)
        lines.append(
            f"{node:>4}  {text(tree.tokens[node]):6}  {'' if parent is None else parent:>7}  "
            f"{kind:8}  {sight:13}  {'yes' if node in needing_logits else '':6}  {allowed}".rstrip()
        )
    return "\n".join(lines)


def likes(tree: DraftTree) -> dict[int, NDArray[np.float32]]:
    """Logits of a model that wants to write the answer, wherever it stands."""
    wanted = spell(ANSWER)
    return {
        node: np.eye(len(VOCABULARY), dtype=np.float32)[wanted[min(depth + 1, len(wanted) - 1)]]
        for node, depth in enumerate(tree.depths())
        if node in tree.nodes_needing_logits
    }


def test_the_tree_of_the_page_is_drawn_by_the_code() -> None:
    tree = drafted()
    tree.check()
    assert picture(tree) in PAGE.read_text(encoding="utf-8")


def test_the_path_of_the_page_is_what_is_verified() -> None:
    tree = drafted()
    chooser = Chooser(Sampling(), seed=0, max_tokens=40, end_ids=VOCABULARY.end_ids)
    acceptance = verify(tree, likes(tree), chooser, tree.trunk_length, NO_HISTORY)
    assert acceptance.choice is None
    tokens = [tree.tokens[node] for node in acceptance.path]
    assert VOCABULARY.decode(tokens) == ANSWER
    assert f"`{', '.join(map(str, acceptance.path))}`" in PAGE.read_text(encoding="utf-8")
