"""The example of docs/draft-models.md: what each call of a draft model reads, and what it adds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from guided.decoding import (
    DraftBudget,
    DraftBuilder,
    DraftTree,
    Expansion,
    ProposalRates,
    assumed_rates,
)
from guided.drafters.draft_model.read_text import ReadText
from guided.drafters.draft_model.tree_growth import TreeGrowth
from guided.kv.block_cache import BlockCache, LayerGroup
from guided.model.batch import Segment
from guided.spec import Forcing
from tests.engine.finite_language import END_IDS, TOKEN_BYTES, WordMatcher, spell_bytes
from tests.kit.draft_context import draft_context

PROMPT = spell_bytes(b"name or me: ")
AFTER: Any = WordMatcher.of(['ab",me', 'ab",na', 'cd",me', 'cd",na'])
"""One of two tokens, the run that both force, and again one of two."""


def likes(*texts: bytes) -> NDArray[np.float32]:
    """Logits that prefer these tokens, the first most."""
    logits = np.full(len(TOKEN_BYTES), -9.0, np.float32)
    for rank, text in enumerate(texts):
        logits[spell_bytes(text)[0]] = 5.0 - rank
    return logits


def opened() -> tuple[DraftBuilder, ReadText]:
    """A tree after a prompt, of which all but the last two tokens were read."""
    builder = DraftBuilder(
        DraftTree.chain(PROMPT[-1:], AFTER),
        Forcing.CANONICAL,
        budget=DraftBudget(16),
        tokens_left=100,
        end_ids=END_IDS,
    )
    text = ReadText(BlockCache([LayerGroup(20)], 4).open(), ())
    text.reserve(len(PROMPT))
    text.make_segment([(row - 1 if row else None, token) for row, token in enumerate(PROMPT)], ())
    # As many as agree; the last token of a text is left in any case.
    text.commit_taken(PROMPT[:-1])
    text.reserve(20)
    return builder, text


def growth(builder: DraftBuilder, text: ReadText, *widths: int) -> TreeGrowth:
    expansion = Expansion(draft_context(), ProposalRates(assumed_rates()))
    unread = PROMPT[len(text) :]
    return TreeGrowth(builder, expansion, text, unread, widths, lambda token: (token,))


def told(segment: Segment) -> tuple[list[bytes | None], list[str], list[int]]:
    """The texts of a segment's tokens, what each sees, and which have logits computed."""
    assert segment.ancestors is not None
    sees = ["".join("x" if seen else "." for seen in row) for row in segment.ancestors]
    return (
        [TOKEN_BYTES[token] for token in segment.tokens],
        sees,
        list(segment.nodes_needing_logits),
    )


def lines(builder: DraftBuilder) -> list[bytes]:
    """The text of each path through the drafts to a leaf."""
    tree = builder.tree()
    leaves = [node for node, children in enumerate(tree.children()) if not children]
    paths = [builder.path(builder.root, leaf) for leaf in leaves]
    return [b"".join(TOKEN_BYTES[token] or b"" for token in path) for path in paths]


def test_a_tree_grows_by_a_level_with_each_call() -> None:
    builder, text = opened()
    grown = growth(builder, text, 2, 1)
    texts, sees, nodes_needing_logits = told(grown.first_segment())
    assert (texts, sees, nodes_needing_logits) == ([b":", b" "], ["x.", "xx"], [1])
    grown.expand_level(np.stack([likes(b"cd", b"ab")]))
    assert lines(builder) == [b'cd",', b'ab",']
    second = grown.next_segment()
    assert second is not None
    texts, sees, nodes_needing_logits = told(second)
    assert texts == [b"cd", b'",', b"ab", b'",']
    assert sees == ["xxx...", "xxxx..", "xx..x.", "xx..xx"]
    assert nodes_needing_logits == [1, 3]
    assert (second.earlier_depths, second.depths) == ((0, 1), (2, 3, 2, 3))
    grown.expand_level(np.stack([likes(b"me"), likes(b"na")]))
    assert lines(builder) == [b'cd",me', b'ab",na']
    assert grown.next_segment() is None
    # Tokens that the answer took are not read again.
    before = len(text)
    text.commit_taken((*PROMPT, *spell_bytes(b'cd",na')))
    assert len(text) == before + 4


def test_it_goes_on_at_once_from_what_was_staged_and_it_agrees_with() -> None:
    builder, text = opened()
    staged = builder.add(builder.root, spell_bytes(b"ab")[0])
    assert staged is not None
    grown = growth(builder, text, 2, 1)
    texts, sees, nodes_needing_logits = told(grown.first_segment())
    assert texts == [b":", b" ", b"ab", b'",']
    assert sees == ["x...", "xx..", "xxx.", "xxxx"]
    assert nodes_needing_logits == [1, 3]
    grown.expand_level(np.stack([likes(b"cd", b"ab"), likes(b"na", b"me")]))
    # The tokens after the staged ones were known, so they took no call.
    assert lines(builder) == [b'cd",', b'ab",na', b'ab",me']
    second = grown.next_segment()
    assert second is not None
    texts, sees, nodes_needing_logits = told(second)
    assert (texts, sees, nodes_needing_logits) == ([b"cd", b'",'], ["xx..x.", "xx..xx"], [1])


def test_what_was_staged_and_it_would_not_say_is_not_gone_on_from() -> None:
    builder, text = opened()
    staged = builder.add(builder.root, spell_bytes(b"ab")[0])
    assert staged is not None
    grown = growth(builder, text, 1, 1)
    grown.first_segment()
    grown.expand_level(np.stack([likes(b"cd", b"ab"), likes(b"na", b"me")]))
    assert lines(builder) == [b'ab",', b'cd",']


def test_nodes_that_find_no_row_are_not_read() -> None:
    """A token that takes several rows may not fit; others may."""
    builder, text = opened()
    text.forget_step()
    text.reserve(4)
    unread = PROMPT[len(text) :]
    expansion = Expansion(draft_context(), ProposalRates(assumed_rates()))
    grown = TreeGrowth(builder, expansion, text, unread, (2, 1), lambda token: (token,) * 2)
    grown.first_segment()
    grown.expand_level(np.stack([likes(b"cd", b"ab")]))
    assert grown.next_segment() is None
