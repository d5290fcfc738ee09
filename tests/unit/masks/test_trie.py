"""The trie of a vocabulary, packed masks and covers, compared with plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.masks.fewest_tokens import FewestTokens
from guided.masks.mask import mask_of, only_token, tokens_of
from guided.masks.mask_kernels import clear_tokens, set_tokens
from guided.masks.trie import BYTE, END, trie_from_tokens
from tests.kit.tiny_vocabulary import tiny_vocabulary

_TOKENS = st.lists(st.none() | st.binary(min_size=1, max_size=5), max_size=40)


@given(_TOKENS, st.binary(max_size=4))
def test_the_tokens_below_a_node_are_those_with_its_prefix(
    tokens: list[bytes | None], prefix: bytes
) -> None:
    trie = trie_from_tokens(tokens)
    trie.check()
    expected = {i for i, text in enumerate(tokens) if text is not None and text.startswith(prefix)}
    node = trie.find(prefix)
    found = set() if node is None else set(trie.tokens_below(node).tolist())
    assert found == expected


@given(_TOKENS, st.binary(max_size=6))
def test_the_endings_of_a_text_with_which_longer_tokens_begin(
    tokens: list[bytes | None], text: bytes
) -> None:
    trie = trie_from_tokens(tokens)
    expected = [
        (begin, trie.find(text[begin:]))
        for begin in range(len(text))
        if any(t and len(t) > len(text) - begin and t.startswith(text[begin:]) for t in tokens)
    ]
    assert trie.find_partial_tokens(text) == expected


@given(_TOKENS)
def test_every_node_knows_the_bytes_below_it(tokens: list[bytes | None]) -> None:
    """ASCII bytes one by one, all others and NUL as one."""
    trie = trie_from_tokens(tokens)
    for node in range(len(trie)):
        below = trie.nodes[node + 1 : trie.nodes[node, END], BYTE].tolist()
        expected = sum(1 << bit for bit in {byte if byte < 128 else 0 for byte in below})
        assert int(trie.bytes_below[node, 0]) | int(trie.bytes_below[node, 1]) << 64 == expected


@given(st.sets(st.integers(0, 99)), st.sets(st.integers(0, 99)))
def test_a_mask_holds_the_tokens_put_into_it(tokens: set[int], others: set[int]) -> None:
    mask = mask_of(100, tokens)
    assert mask.dtype == np.int32
    assert mask.shape == (4,)
    assert set(tokens_of(mask).tolist()) == tokens
    others_of = np.array(sorted(others), dtype=np.int32)
    set_tokens(others_of, mask)
    assert set(tokens_of(mask).tolist()) == tokens | others
    clear_tokens(others_of, mask)
    assert set(tokens_of(mask).tolist()) == tokens - others


@given(st.sets(st.integers(0, 70), max_size=3))
def test_a_lone_token_is_found_only_when_it_is_alone(tokens: set[int]) -> None:
    expected = next(iter(tokens)) if len(tokens) == 1 else None
    assert only_token(mask_of(71, tokens)) == expected


def test_an_empty_mask_allows_nothing() -> None:
    assert tokens_of(mask_of(33, [])).tolist() == []


def _fewest(text: bytes, tokens: set[bytes]) -> int:
    """Breadth first over positions."""
    reached, steps = {0}, 0
    while len(text) not in reached:
        reached = {
            start + len(token)
            for start in reached
            for token in tokens
            if text.startswith(token, start)
        }
        steps += 1
    return steps


@given(st.lists(st.sampled_from([b"a", b"b", b"ab", b"ba", b"name", b'":', b"aba"]), max_size=8))
def test_a_cover_spells_the_text_in_the_fewest_tokens(pieces: list[bytes]) -> None:
    vocabulary = tiny_vocabulary([b"ab", b"aba", b"name", b'":', b"bb"])
    text = b"".join(pieces)
    fewest = FewestTokens(trie_from_tokens(vocabulary.token_bytes))
    tokens = fewest.tokens(text)
    assert fewest.count(text) == len(tokens)
    assert vocabulary.decode(tokens) == text
    assert len(tokens) == _fewest(text, {t for t in vocabulary.token_bytes if t is not None})


def test_a_text_that_no_tokens_spell_has_no_cover() -> None:
    trie = trie_from_tokens([None, b"a", b"ab"])
    assert FewestTokens(trie).tokens(b"aba") == (2, 1)
    for text in (b"b", b"ba", b"abb", b"a" * 50 + b"c" + b"a" * 50):
        with pytest.raises(AssertionError, match="no tokens spell"):
            FewestTokens(trie).tokens(text)


@given(st.lists(st.binary(max_size=12).map(lambda text: bytes([97 + b % 2 for b in text]))))
def test_what_was_spelled_before_changes_no_cover(texts: list[bytes]) -> None:
    trie = trie_from_tokens(tiny_vocabulary([b"ab", b"aba", b"bb", b"aab"]).token_bytes)
    fewest = FewestTokens(trie)
    for text in texts:
        for place in range(len(text) + 1):
            alone = FewestTokens(trie).tokens(text[place:])
            assert fewest.count(text[place:]) == len(alone)
            assert fewest.tokens(text[place:]) == alone
