"""Forced runs: tokens that a constraint leaves no choice about, spelled as the tokenizer would.

Where only one byte may follow, and one after that, the bytes are certain; how they fall into tokens
is the model's business. Splitting them otherwise than in training bends what the model says next,
so a run is what the tokenizer makes of the bytes together with the tokens before them. The end of a
run is given back as far as what comes behind it could make the tokenizer split it otherwise. See
docs/forced-runs.md.
"""

from __future__ import annotations

import functools
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

from guided.recognizer.recognizer import Recognizer, State
from guided.recognizer.table import DEAD, UNCOUNTED
from guided.spec import TokenId
from guided.tokens.trie import TokenTrie
from guided.tokens.vocabulary import Vocabulary
from guided.tokens.walk import Walker

__all__ = ["CONTEXT_TOKENS", "RunSpeller", "only_byte"]

CONTEXT_TOKENS: Final = 4
"""Tokens looked back on when spelling a run, and tokens at its end that may be given back."""
_MAX_RUN_BYTES: Final = 512
_SAMPLES: Final = 4
"""Continuations tried of each kind: tokenizers treat the letters of a script alike."""
_REMEMBERED: Final = 65_536
"""Beginnings of continuations whose kind is remembered."""
_SPELLINGS: Final = 8_192
"""Texts whose spelling is remembered: mostly quotes and commas with what is beside them."""

_Tokens: TypeAlias = tuple[TokenId, ...]


class RunSpeller:
    """Spells forced runs for one vocabulary."""

    def __init__(self, vocabulary: Vocabulary, trie: TokenTrie) -> None:
        self.vocabulary = vocabulary
        self.trie = trie
        self._spellings: dict[bytes, _Tokens] = {}

    def run(self, walker: Walker, state: State, recent: Sequence[TokenId]) -> tuple[TokenId, ...]:
        """The tokens forced from ``state`` on, behind the answer's ``recent`` tokens; often none.

        May raise LimitExceededError when the machine is full.
        """
        forced, states = _forced_bytes(walker, state)
        if not forced:
            return ()
        before, run = self._spelled(forced, tuple(recent))
        end = states[len(self.vocabulary.decode(run))]
        if not run or walker.machine.is_complete(end):
            return run
        certain, tail = run[:-CONTEXT_TOKENS], run[-CONTEXT_TOKENS:]
        kept = self._kept_of(walker, end, (*before, *certain)[-CONTEXT_TOKENS:], tail)
        return (*certain, *tail[:kept])

    def spelling(
        self, walker: Walker, state: State, recent: Sequence[TokenId]
    ) -> tuple[TokenId, ...]:
        """``run`` with the end that it gives back: likely, but not certain."""
        forced, _ = _forced_bytes(walker, state)
        return self._spelled(forced, tuple(recent))[1] if forced else ()

    def _spelled(self, forced: bytes, recent: _Tokens) -> tuple[_Tokens, _Tokens]:
        """The forced bytes as the tokenizer spells them behind as many recent tokens as will do.

        Recent tokens that it would spell otherwise itself were the model's choice: they stay, and
        the run is spelled with less of what stands before it. Returns those that were taken, too.
        """
        taken = len(recent)
        while taken >= 0:
            context = recent[len(recent) - taken :]
            text = self.vocabulary.decode(context) + forced
            tokens = self._tokens(text)
            if tokens is not None and tokens[:taken] == context:
                return context, tokens[taken:]
            # What runs on across the end of the context does so behind less of it: no need to ask.
            is_parted = tokens is None or self._parts(tokens, len(text) - len(forced))
            taken = taken - 1 if is_parted else 0
        return (), ()

    def _parts(self, tokens: _Tokens, place: int) -> bool:
        """Whether one of the tokens of a text begins at a place."""
        at = 0
        for token in tokens:
            if at >= place:
                break
            at += len(self.vocabulary.token_bytes[token] or b"")
        return at == place

    def _kept_of(self, walker: Walker, end: State, before: _Tokens, tail: _Tokens) -> int:
        """How many tokens of the tail stay whatever comes behind ``end``.

        ``before`` are tokens in front of the tail, without which it might be split otherwise. What
        splits the tail is a token that begins inside of it and reaches beyond. Then the tokens
        stay that spell what stands before it, so a place that leaves as many as are kept anyway
        need not be asked.
        """
        sizes = [len(self.vocabulary.token_bytes[token] or b"") for token in tail]
        text, ends = self.vocabulary.decode(tail), list(accumulate(sizes, initial=0))
        kept = len(tail)
        for begin, node in self.trie.begun_in(text):
            least = ends.index(begin) if begin in ends else 0
            if least >= kept:
                continue
            rests = self._continuations(walker, end, node, len(text) - begin)
            if rests and begin not in ends:
                least = self._spelled_as(before, tail, text[:begin])
            for rest in rests:
                if kept <= least:
                    break
                kept = min(kept, self._spelled_as(before, tail, text + rest))
        return kept

    def _continuations(self, walker: Walker, end: State, node: int, begun: int) -> list[bytes]:
        """How tokens go on behind the bytes begun; of many alike, a few stand for all."""
        tokens = walker.tokens_below(node, end).tolist()
        texts = [self.vocabulary.token_bytes[token] for token in tokens]
        return list(_few_of_each_kind([token[begun:] for token in texts if token]))

    def _spelled_as(self, before: _Tokens, tail: _Tokens, text: bytes) -> int:
        """How many tokens of the tail begin the spelling of a text that follows ``before``."""
        tokens = self._tokens(self.vocabulary.decode(before) + text) or ()
        spelled = (*before, *tail)
        pairs = enumerate(zip(spelled, tokens, strict=False))
        same = next((at for at, (old, new) in pairs if old != new), min(len(spelled), len(tokens)))
        return max(0, same - len(before))

    def _tokens(self, text: bytes) -> _Tokens | None:
        """The tokens of a text, ``None`` if it begins inside of a character."""
        known = self._spellings.get(text)
        if known is not None:
            return known
        whole = _whole_characters(text)
        if whole is None:
            return None
        if len(self._spellings) >= _SPELLINGS:
            self._spellings.clear()
        spelled = self._spellings[text] = tuple(map(TokenId, self.vocabulary.spell(whole)))
        return spelled


def only_byte(machine: Recognizer, state: State) -> int | None:
    """The one byte that may follow, ``None`` where there is a choice or the text may end."""
    byte = machine.only_byte(state)
    if byte is not None:
        return byte
    table = machine.table
    high = int(table.high[state.row])
    if high == UNCOUNTED or state.count < high or table.label[state.row] != DEAD:
        return None
    # The string is as long as it may be: of all bytes that go on, few are left.
    live = [byte for byte in table.edges(state.row) if machine.step(state, byte) is not None]
    return live[0] if len(live) == 1 else None


def _forced_bytes(walker: Walker, state: State) -> tuple[bytes, list[State]]:
    """The bytes that have to follow, and the states before, between and behind them."""
    forced, states, machine = b"", [state], walker.machine
    while len(forced) < _MAX_RUN_BYTES:
        followed, behind = walker.only_way(states[-1], _MAX_RUN_BYTES - len(forced))
        forced += followed
        states += behind
        byte = only_byte(machine, states[-1])
        reached = None if byte is None else machine.step(states[-1], byte)
        if byte is None or reached is None:
            break
        forced += bytes((byte,))
        states.append(reached)
    return forced[:_MAX_RUN_BYTES], states


def _whole_characters(text: bytes) -> str | None:
    """The text without a character cut off at its end, ``None`` if it begins inside of one."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        cut_off = error.reason == "unexpected end of data"
        return text[: error.start].decode() if cut_off and error.start else None


def _few_of_each_kind(continuations: list[bytes]) -> Iterator[bytes]:
    """All continuations that begin with punctuation, and a few of every other kind."""
    by_kind: defaultdict[str, list[bytes]] = defaultdict(list)
    for continuation in continuations:
        by_kind[_kind(continuation[:4])].append(continuation)
    for kind, alike in by_kind.items():
        yield from alike if kind.startswith("P") else sorted(alike, key=len)[:_SAMPLES]


@functools.lru_cache(maxsize=_REMEMBERED)
def _kind(begin: bytes) -> str:
    """What begins with these bytes, which are as long as a character may be."""
    character = begin.decode(errors="ignore")[:1]
    if not character:
        return "part of a character"
    category = unicodedata.category(character)
    if character.isascii() and category[0] in "PS":
        return f"P{character}"
    return f"{category[0]} {character.isascii()}"
