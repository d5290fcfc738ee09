"""A look-up finds what followed the longest equal bytes, however they fall into tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.drafters.text_index import MATCH_LENGTHS, PromptIndex, TextIndex, TokenTable
from guided.spec import TokenId
from tests.engine.finite_language import END_IDS, TOKEN_BYTES, spell_bytes

TABLE = TokenTable(TOKEN_BYTES)
TOKENS = st.lists(st.sampled_from([*spell_bytes(b"a"), *spell_bytes(b"b"), *range(258, 271)]))


def index_of(prompt: bytes, *texts: bytes) -> TextIndex:
    index = TextIndex(TABLE, PromptIndex(TABLE, spell_bytes(prompt)))
    for text in texts:
        index.extend(spell_bytes(text))
    return index


def follower(index: TextIndex, tail: bytes) -> tuple[bytes | None, int] | None:
    match = index.match(tail)
    return None if match is None else (TOKEN_BYTES[match.token], match.length)


def test_the_longest_match_counts_and_of_equally_long_ones_the_latest() -> None:
    index = index_of(b"xxab1 yyyab2 zzab3 ")
    assert follower(index, b"yyyab") == (b"2", 5)
    assert follower(index, b"xxxab") == (b"1", 3)
    assert follower(index, b"ab") == (b"3", 2)


def test_a_match_may_end_inside_a_token() -> None:
    """ "name" is a token; after "xna" its rest follows, which is a token as well."""
    assert follower(index_of(b"x", b"name"), b"xna") == (b"me", 3)


def test_a_rest_that_is_no_token_is_not_drafted() -> None:
    """ "cdna" is a token, "dna" is not."""
    assert follower(index_of(b"xx", b"cdna"), b"xxc") is None


def test_nothing_follows_the_end_of_the_text() -> None:
    assert follower(index_of(b"ab"), b"ab") is None


def test_nothing_matches_across_a_special_token_and_none_is_drafted() -> None:
    tokens = [*spell_bytes(b"xy"), min(END_IDS), *spell_bytes(b"z")]
    for cut in range(len(tokens) + 1):
        index = TextIndex(TABLE, PromptIndex(TABLE, tokens[:cut]))
        index.extend(tokens[cut:])
        assert follower(index, b"xy") is None
        assert follower(index, b"yz") is None


@pytest.mark.parametrize(("others", "found"), [(11, (b"1", 5)), (12, (b"2", 2))])
def test_twelve_positions_are_compared(others: int, found: tuple[bytes, int]) -> None:
    """Besides the end of the text, wherever the prompt ends."""
    text = b"xyzab1" + b" ab2" * others + b"xyzab"
    for cut in range(len(text) + 1):
        assert follower(index_of(text[:cut], text[cut:]), b"xyzab") == found


@given(TOKENS, TOKENS, TOKENS)
def test_a_match_is_the_best_of_those_at_every_position(
    prompt: list[TokenId], before: list[TokenId], after: list[TokenId]
) -> None:
    """Wherever the prompt ends and the answer begins."""
    index = TextIndex(TABLE, PromptIndex(TABLE, prompt))
    index.extend(before)
    index.extend(after)
    tokens = [*prompt, *before, *after]
    assert len(index) == len(tokens)
    text = b"".join(TOKEN_BYTES[token] or b"" for token in tokens)
    tail = index.tail()
    assert tail == text[-MATCH_LENGTHS[0] :]

    starts = [sum(len(TOKEN_BYTES[t] or b"") for t in tokens[:at]) for at in range(len(tokens))]
    found: list[tuple[int, int, TokenId]] = []
    positions = [p for p in range(2, len(text)) if text[p - 2 : p] == tail[-2:]]
    for here in positions[-12:]:
        size = next(n for n in MATCH_LENGTHS if here >= n and text[here - n : here] == tail[-n:])
        at = max(i for i, start in enumerate(starts) if start <= here)
        rest = (TOKEN_BYTES[tokens[at]] or b"")[here - starts[at] :]
        token = TABLE.find(rest)
        if token is not None:
            found.append((size, here, token))
    match = index.match(tail)
    if not found:
        assert match is None
    else:
        size, _, token = max(found)
        assert match is not None
        assert (match.length, match.token) == (size, token)


SPELLINGS = TokenTable([b"l", b"le", b"leather", b"p", None, b"plate", b"le"])


def numbered(*numbers: int) -> list[TokenId]:
    return [TokenId(number) for number in numbers]


def test_of_equal_tokens_the_lowest_is_found() -> None:
    assert SPELLINGS.find(b"le") == 1
    assert SPELLINGS.find(b"lea") is None


def test_a_shorter_token_is_the_next_that_a_token_begins_with() -> None:
    assert [SPELLINGS.shorter(TokenId(token)) for token in (2, 1, 0, 5)] == [1, 0, None, 3]
    assert SPELLINGS.shorter(TokenId(4)) is None


def test_the_longest_are_those_that_no_other_begins_with() -> None:
    assert SPELLINGS.longest([0, 1, 2, 3, 5]) == numbered(2, 5)
    assert SPELLINGS.longest([3, 0, 1]) == numbered(1, 3)
    assert SPELLINGS.longest([4]) == SPELLINGS.longest([]) == []
