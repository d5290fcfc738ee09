"""Forced runs: tokens that a constraint leaves no choice about, spelled as the tokenizer would.

Where only one byte may follow, and one after that, the bytes are certain; how they fall into tokens
is the model's business. Splitting them otherwise than in training bends what the model says next,
so a run is what the tokenizer makes of the bytes together with the tokens before them. The end of a
run is given back as far as a longer token, reaching beyond it, could still be what the tokenizer
would take. See docs/forced-runs.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from guided.recognizer.json_machine import JsonMachine, State
from guided.spec import TokenId
from guided.tokens.trie import TokenTrie
from guided.tokens.vocabulary import Vocabulary
from guided.tokens.walk import walk_trie

__all__ = ["CONTEXT_TOKENS", "canonical_run"]

CONTEXT_TOKENS = 4
"""Tokens looked back on when spelling a run, and tokens at its end that may be given back."""
_MAX_RUN_BYTES = 512


def canonical_run(
    machine: JsonMachine,
    state: State,
    recent: Sequence[TokenId],
    vocabulary: Vocabulary,
    trie: TokenTrie,
) -> tuple[TokenId, ...]:
    """The tokens forced from ``state`` on, behind the answer's ``recent`` tokens; often none."""
    forced, states = _forced_bytes(machine, state)
    run = _spelled(forced, tuple(recent), vocabulary)
    length = sum(len(vocabulary.token_bytes[token] or b"") for token in run)
    if not run or machine.is_complete(states[length]):
        return run
    return run[: _settled(run, machine, states[length], vocabulary, trie)]


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


def _spelled(
    forced: bytes, recent: tuple[TokenId, ...], vocabulary: Vocabulary
) -> tuple[TokenId, ...]:
    """The forced bytes as the tokenizer spells them behind as many recent tokens as will do.

    Recent tokens that it would spell otherwise itself were the model's choice: they stay, and the
    run is spelled with less of what stands before it.
    """
    for taken in range(len(recent), -1, -1):
        context = recent[len(recent) - taken :]
        text = _whole_characters(vocabulary.decode(context) + forced)
        if text is None:
            continue
        tokens = tuple(TokenId(token) for token in vocabulary.spell(text))
        if tokens[:taken] == context:
            return tokens[taken:]
    return ()


def _whole_characters(text: bytes) -> str | None:
    """The text without a character cut off at its end, ``None`` if it begins inside of one."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        cut_off = error.reason == "unexpected end of data"
        return text[: error.start].decode() if cut_off and error.start else None


def _settled(
    run: tuple[TokenId, ...],
    machine: JsonMachine,
    end: State,
    vocabulary: Vocabulary,
    trie: TokenTrie,
) -> int:
    """How many tokens of the run stay the same whatever comes behind it."""
    for kept in range(max(len(run) - CONTEXT_TOKENS, 0), len(run)):
        node = trie.find(vocabulary.decode(run[kept:]))
        if node is None or trie.end[node] == node + 1:
            continue
        walk = walk_trie(trie, machine, end, below=node)
        if walk.mask.any() or len(walk.uncertain):
            return kept
    return len(run)
