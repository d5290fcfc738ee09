"""The walk of a recogniser over the trie of a vocabulary, compiled by numba.

One depth-first pass tells for every token whether all its bytes may follow a state. A byte that is
not allowed skips the whole subtree below it. Where the walk comes to a joint that was never
resolved, it stops, Python resolves it, and the walk goes on from the same node; so each joint costs
Python once in the life of a recogniser. A closing quote whose legality depends on which keys were
written before is beyond the walk: those tokens come back as uncertain and are tried one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from guided.recognizer.contexts import KNOWN, NONE
from guided.recognizer.joints import EMPTY_SLOT
from guided.recognizer.json_machine import JsonMachine, State
from guided.recognizer.labels import DONE
from guided.recognizer.table import DEAD, KEY_CLOSED
from guided.tokens.mask import Mask
from guided.tokens.trie import TokenTrie

__all__ = ["Walk", "walk_trie"]

_FINISHED, _JOINT_MISSING = 0, 1
_NO_CONTEXT = -1


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """What a walk found."""

    mask: Mask
    """Tokens all of whose bytes may follow; the uncertain ones are not among them."""
    uncertain: NDArray[np.int32]
    """Nodes whose tokens, those below included, have to be tried on the exact state."""
    contexts: NDArray[np.int32] | None = None
    """Where each allowed token leads, by token id, if asked for."""
    rows: NDArray[np.int32] | None = None

    @property
    def nbytes(self) -> int:
        """Memory of a walk without destinations, in bytes."""
        return self.mask.nbytes + self.uncertain.nbytes


def walk_trie(
    trie: TokenTrie,
    machine: JsonMachine,
    state: State,
    *,
    below: int = 0,
    destinations: bool = False,
) -> Walk:
    """Try the tokens below a node on ``state``, which stands where the node's bytes were read.

    May raise LimitExceededError when the machine is full.
    """
    mask = np.zeros(trie.words, dtype=np.int32)
    count = trie.vocabulary_size if destinations else 0
    contexts = np.full(count, _NO_CONTEXT, dtype=np.int32)
    rows = np.full(count, _NO_CONTEXT, dtype=np.int32)
    first, last = below + 1, int(trie.end[below])
    uncertain = np.empty(last - first, dtype=np.int32)
    levels = int(trie.depth[first:last].max(initial=0)) + 1
    stack = np.empty((2, levels), dtype=np.int32)
    stack[:, trie.depth[below]] = state.context, state.row
    # What the walk hands over when it stops: next node, number of uncertain nodes, missing joint.
    progress = np.array([first, 0, 0, 0], dtype=np.int64)
    key_context = state.context if state.key is not None else _NO_CONTEXT
    table = machine.table
    while True:
        status = _walk(
            trie.byte,
            trie.depth,
            trie.end,
            trie.token_start,
            trie.token_ids,
            table.cells,
            table.base,
            table.kind,
            table.byte_maps,
            table.label,
            table.exits,
            table.role,
            machine.joints.keys,
            machine.joints.contexts,
            machine.joints.rows,
            machine.joints.num_labels,
            machine.contexts.key_knowledge,
            key_context,
            last,
            stack,
            progress,
            mask.view(np.uint32),
            uncertain,
            contexts,
            rows,
        )
        if status == _FINISHED:
            break
        machine.remember_joint(int(progress[2]), int(progress[3]))
    found = uncertain[: progress[1]].copy()
    return Walk(mask, found, contexts, rows) if destinations else Walk(mask, found)


@njit(cache=True, inline="always")
def _find_joint(keys, key):  # type: ignore[no-untyped-def]
    mask = len(keys) - 1
    slot = (key * 0x9E3779B1 >> 7) & mask
    while keys[slot] != key:
        if keys[slot] == EMPTY_SLOT:
            return -1
        slot = (slot + 1) & mask
    return slot


@njit(cache=True, nogil=True)
def _walk(  # type: ignore[no-untyped-def]
    byte,
    depth,
    end,
    token_start,
    token_ids,
    cells,
    base,
    kind,
    byte_maps,
    label,
    exits,
    role,
    joint_keys,
    joint_contexts,
    joint_rows,
    num_labels,
    key_knowledge,
    key_context,
    last,
    stack,
    progress,
    words,
    uncertain,
    token_contexts,
    token_rows,
):
    node = progress[0]
    num_uncertain = progress[1]
    while node < last:
        level = depth[node]
        context = stack[0, level - 1]
        row = stack[1, level - 1]
        target = cells[base[row] + byte_maps[kind[row], byte[node]]]
        # The block may end before this byte, or with it: take labels until a row is left.
        while target == DEAD or exits[target]:
            ended = label[row] if target == DEAD else label[target]
            if ended == DEAD or (target == DEAD and context == 0 and ended == DONE):
                target = DEAD
                break
            joint = np.int64(context) * num_labels + ended
            slot = _find_joint(joint_keys, joint)
            if slot < 0:
                progress[0] = node
                progress[1] = num_uncertain
                progress[2] = context
                progress[3] = ended
                return _JOINT_MISSING
            context = joint_contexts[slot]
            row = joint_rows[slot]
            if target == DEAD:
                target = cells[base[row] + byte_maps[kind[row], byte[node]]]
            else:
                target = row
                break
        if target == DEAD:
            node = end[node]
            continue
        if role[target] == KEY_CLOSED:
            known = key_knowledge[context]
            if known != NONE and not (known == KNOWN and context == key_context):
                uncertain[num_uncertain] = node
                num_uncertain += 1
                node = end[node]
                continue
        stack[0, level] = context
        stack[1, level] = target
        for index in range(token_start[node], token_start[node + 1]):
            token = token_ids[index]
            words[token >> 5] |= np.uint32(1) << np.uint32(token & 31)
            if len(token_contexts):
                token_contexts[token] = context
                token_rows[token] = target
        node += 1
    progress[1] = num_uncertain
    return _FINISHED
