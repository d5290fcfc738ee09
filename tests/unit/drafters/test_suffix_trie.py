"""The trie of suffixes knows, for every context, what a search through all texts finds."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from collections.abc import Sequence

import pytest

from guided.drafters.suffix_trie import MAX_CONTEXT, Contexts, SuffixTrie
from guided.spec import TokenId

_Text = tuple[TokenId, ...]
_Told = list[tuple[int, int, dict[TokenId, int]]]


def text_of(draws: random.Random, letters: int, longest: int) -> _Text:
    return tuple(TokenId(draws.randrange(letters)) for _ in range(draws.randrange(longest)))


def searched(texts: Sequence[_Text], tail: _Text) -> _Told:
    """By length, how often the tail's end is in the texts, and its successors; longest first."""
    found = []
    for length in range(min(MAX_CONTEXT, len(tail)), -1, -1):
        end = tail[len(tail) - length :]
        places = [
            (text, start + length)
            for text in texts
            for start in range(len(text) - length + 1)
            if text[start : start + length] == end
        ]
        if places and length:
            followers = Counter(text[place] for text, place in places if place < len(text))
            found.append((length, len(places), dict(followers)))
    return found


def told(contexts: Contexts) -> _Told:
    return [
        (context.length, context.count, dict(context.followers()))
        for context in contexts
        if 0 < context.length <= MAX_CONTEXT
    ]


@pytest.mark.parametrize("letters", [1, 2, 5, 40])
def test_contexts_are_those_that_a_search_finds(letters: int) -> None:
    """Also after texts were forgotten, and in step with a text that grows."""
    draws = random.Random(letters)
    trie, texts = SuffixTrie(), list[_Text]()
    for _ in range(60):
        if texts and draws.random() < 0.4:
            trie.forget_oldest()
            del texts[0]
        else:
            # The trie is made for repeated texts.
            again = draws.choice(texts) if texts and draws.random() < 0.3 else ()
            texts.append((*again, *text_of(draws, letters, 40)))
            trie.add(texts[-1])
        trie.check()
        assert len(trie) == len(texts)
        tail = text_of(draws, letters, 30)
        if texts and draws.random() < 0.7:
            whole = draws.choice(texts)
            tail = (*tail, *whole[: draws.randrange(len(whole) + 1)])
        more = text_of(draws, letters, 8)
        contexts = trie.contexts(tail)
        assert told(contexts) == searched(texts, tail)
        assert told(trie.follow(contexts, more)) == searched(texts, (*tail, *more))


def test_followers_come_by_falling_count_and_then_by_id() -> None:
    trie = SuffixTrie()
    for follower in (9, 4, 7, 7, 2, 4):
        trie.add((TokenId(1), TokenId(follower)))
    (context, _) = trie.contexts((TokenId(1),))
    assert context.followers() == [(4, 2), (7, 2), (2, 1), (9, 1)]


def test_nothing_is_left_of_what_was_forgotten() -> None:
    draws = random.Random(3)
    trie = SuffixTrie()
    for _ in range(20):
        trie.add(text_of(draws, 3, 60))
    for _ in range(20):
        trie.forget_oldest()
    trie.check()
    assert trie.nbytes == 0
    (nothing,) = trie.contexts((TokenId(1), TokenId(2)))
    assert nothing.followers() == []


@pytest.mark.parametrize(("letters", "again"), [(40_000, 0.0), (40_000, 0.8), (3, 0.0)])
def test_the_memory_that_it_tells_is_what_it_takes(letters: int, again: float) -> None:
    """For texts that resemble each other, and for some that do not."""
    draws = random.Random(5)
    before = [tuple(TokenId(draws.randrange(letters)) for _ in range(100)) for _ in range(40)]
    tracemalloc.start()
    trie = SuffixTrie()
    for place, text in enumerate(before):
        copied = before[max(0, place - 1)][: int(100 * again)]
        # Token ids are separate objects, as those of an answer are.
        trie.add([TokenId(int(str(token))) for token in (*copied, *text[len(copied) :])])
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.4 * trie.nbytes < taken < trie.nbytes
