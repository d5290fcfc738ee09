"""Forced runs: tokens that a constraint leaves no choice about, spelled as the tokenizer would.

Where only one byte may follow, and one after that, the bytes are certain; how they fall into tokens
is the model's business. Splitting them otherwise than in training bends what the model says next,
so a run is what the tokenizer makes of the bytes together with the tokens before them. The end of a
run is given back as far as what comes behind it could make the tokenizer split it otherwise. See
docs/forced-runs.md.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby

from cachetools import LRUCache

from guided.recognizer.json_machine import JsonMachine, State
from guided.spec import TokenId
from guided.tokens.mask import tokens_of
from guided.tokens.trie import TokenTrie
from guided.tokens.vocabulary import Vocabulary
from guided.tokens.walk import walk_trie

__all__ = ["CONTEXT_TOKENS", "RunSpeller"]

CONTEXT_TOKENS = 4
"""Tokens looked back on when spelling a run, and tokens at its end that may be given back."""
_MAX_RUN_BYTES = 512
_SAMPLES = 4
"""Continuations tried of each kind: tokenizers treat the letters of a script alike."""
_REMEMBERED = 65_536


class RunSpeller:
    """Spells forced runs for one vocabulary, and remembers what it asked the tokenizer."""

    def __init__(self, vocabulary: Vocabulary, trie: TokenTrie) -> None:
        self.vocabulary = vocabulary
        self.trie = trie
        self._kept: LRUCache[tuple[tuple[TokenId, ...], bytes], int] = LRUCache(_REMEMBERED)

    def run(
        self, machine: JsonMachine, state: State, recent: Sequence[TokenId]
    ) -> tuple[TokenId, ...]:
        """The tokens forced from ``state`` on, behind the answer's ``recent`` tokens; often none.

        May raise LimitExceededError when the machine is full.
        """
        forced, states = _forced_bytes(machine, state)
        run = self._spelled(forced, tuple(recent))
        end = states[len(self.vocabulary.decode(run))]
        if not run or machine.is_complete(end):
            return run
        tail = run[-CONTEXT_TOKENS:]
        kept = min(
            (self._kept_before(tail, rest) for rest in self._continuations(machine, end, tail)),
            default=len(tail),
        )
        return run[: len(run) - len(tail) + kept]

    def _spelled(self, forced: bytes, recent: tuple[TokenId, ...]) -> tuple[TokenId, ...]:
        """The forced bytes as the tokenizer spells them behind as many recent tokens as will do.

        Recent tokens that it would spell otherwise itself were the model's choice: they stay, and
        the run is spelled with less of what stands before it.
        """
        for taken in range(len(recent), -1, -1):
            context = recent[len(recent) - taken :]
            text = _whole_characters(self.vocabulary.decode(context) + forced)
            if text is None:
                continue
            tokens = self._tokens(text)
            if tokens[:taken] == context:
                return tokens[taken:]
        return ()

    def _continuations(
        self, machine: JsonMachine, end: State, tail: tuple[TokenId, ...]
    ) -> Iterator[bytes]:
        """What may come behind the tail and belongs to a token that begins inside of it.

        For every place in the tail: the tokens that begin with the text from there on, reach beyond
        it, and are allowed. Of many alike, a few stand for all.
        """
        text = self.vocabulary.decode(tail)
        for start in range(len(text)):
            node = self.trie.find(text[start:])
            if node is None or self.trie.end[node] == node + 1:
                continue
            walk = walk_trie(self.trie, machine, end, below=node)
            tokens = [self.vocabulary.token_bytes[token] for token in tokens_of(walk.mask).tolist()]
            for uncertain in walk.uncertain.tolist():
                below = self.trie.tokens_below(uncertain).tolist()
                tokens += [self.vocabulary.token_bytes[token] for token in below]
            yield from _few_of_each_kind([token[len(text) - start :] for token in tokens if token])

    def _kept_before(self, tail: tuple[TokenId, ...], rest: bytes) -> int:
        """How many tokens of the tail the tokenizer keeps when ``rest`` comes behind it."""
        key = (tail, rest)
        kept = self._kept.get(key)
        if kept is None:
            text = _whole_characters(self.vocabulary.decode(tail) + rest)
            tokens = () if text is None else self._tokens(text)
            kept = 0
            while kept < min(len(tail), len(tokens)) and tokens[kept] == tail[kept]:
                kept += 1
            self._kept[key] = kept
        return kept

    def _tokens(self, text: str) -> tuple[TokenId, ...]:
        return tuple(TokenId(token) for token in self.vocabulary.spell(text))


def _forced_bytes(machine: JsonMachine, state: State) -> tuple[bytes, list[State]]:
    """The bytes that have to follow, and the states before, between and behind them."""
    forced = bytearray()
    states = [state]
    while len(forced) < _MAX_RUN_BYTES:
        byte = machine.only_byte(states[-1])
        reached = None if byte is None else machine.step(states[-1], byte)
        if byte is None or reached is None:
            break
        forced.append(byte)
        states.append(reached)
    return bytes(forced), states


def _whole_characters(text: bytes) -> str | None:
    """The text without a character cut off at its end, ``None`` if it begins inside of one."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        cut_off = error.reason == "unexpected end of data"
        return text[: error.start].decode() if cut_off and error.start else None


def _few_of_each_kind(continuations: list[bytes]) -> Iterator[bytes]:
    """All continuations that begin with punctuation, and a few of every other kind."""
    for kind, group in groupby(sorted(continuations, key=_kind), key=_kind):
        alike = sorted(group, key=len)
        yield from alike if kind.startswith("P") else alike[:_SAMPLES]


def _kind(continuation: bytes) -> str:
    character = continuation[:4].decode(errors="ignore")[:1]
    if not character:
        return "part of a character"
    category = unicodedata.category(character)
    if character.isascii() and category[0] in "PS":
        return f"P{character}"
    return f"{category[0]} {character.isascii()}"
