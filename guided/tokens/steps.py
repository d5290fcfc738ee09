"""The moves of a recogniser in compiled code: one byte, the bytes of a token, the nodes of a trie.

Everything here works on the arrays of ``PackedMachine`` and says what ``JsonMachine.step`` says. It
stops where Python has to resolve a joint first, and it is *unsure* where that takes a text that was
written: a key, or an item that has to differ from others.
"""

from __future__ import annotations

from guided.recognizer.contexts import KNOWN, UNKNOWN
from guided.recognizer.joints import EMPTY_SLOT, EXACT, LABEL_BITS
from guided.recognizer.labels import OPEN_ARRAY
from guided.recognizer.table import (
    CLOSE_STRING,
    DEAD,
    IN_KEY,
    IN_RARE_KEY,
    KEY_CLOSED,
    START,
    TICK,
)
from guided.tokens.kernel import inlined, kernel
from guided.tokens.packed import (
    BASE,
    BEAT,
    ENDS,
    EXITS,
    HIGH,
    KIND,
    LABEL,
    LOW,
    NEED,
    ROLE,
)
from guided.tokens.trie import BYTE, DEPTH, END, FIRST_TOKEN

__all__ = [
    "ALIVE",
    "DIES",
    "FINISHED",
    "JOINT_MISSING",
    "NOWHERE",
    "PLACES_FULL",
    "UNSURE",
    "correct_mask",
    "take_token",
    "walk_nodes",
    "walk_places",
]

ALIVE, DIES, UNSURE, JOINT_MISSING = range(4)
"""What becomes of a byte; on JOINT_MISSING, context and row hold the context and the label."""
FINISHED, PLACES_FULL = 0, 1
"""What becomes of a walk, besides JOINT_MISSING."""
NOWHERE = -1
"""In place of a context."""
_LAST_OPEN_WAY = OPEN_ARRAY
"""Labels up to this one stand only where they may be taken, unless that depends on a text."""


@inlined
def _find(keys, context, label):  # type: ignore[no-untyped-def]
    """The slot of a joint, NOWHERE if it is not there."""
    key = (context << LABEL_BITS) | label
    mask = len(keys) - 1
    slot = (key * 0x9E3779B1 >> LABEL_BITS) & mask
    while keys[slot] != key:
        if keys[slot] == EMPTY_SLOT:
            return NOWHERE
        slot = (slot + 1) & mask
    return slot


@inlined
def _resolved(context, label, machine):  # type: ignore[no-untyped-def]
    """Status, context and row behind a label."""
    _, _, _, keys, contexts, rows, _, _, _ = machine
    slot = _find(keys, context, label)
    if slot == NOWHERE:
        return JOINT_MISSING, context, label
    if contexts[slot] == EXACT:
        return UNSURE, context, label
    if rows[slot] == DEAD:
        return DIES, context, label
    return ALIVE, contexts[slot], rows[slot]


@inlined
def _entered(context, row, count, machine, key_context, walking):  # type: ignore[no-untyped-def]
    """Status, context, row and count in a row whose bounds are kept.

    With ``walking`` the closing quote of a key passes where its text matters to no mask.
    """
    rows, _, _, _, _, _, knowledge, depths, taken = machine
    role = rows[row, ROLE]
    if role == KEY_CLOSED:
        known = knowledge[context]
        if not walking:
            return UNSURE, context, row, count
        if known == UNKNOWN or (known == KNOWN and context != key_context):
            return UNSURE, context, row, count
    elif role == IN_RARE_KEY and rows[row, ENDS] <= taken[context]:
        # It takes the names before it to tell whether any is left.
        return UNSURE, context, row, count
    if rows[row, EXITS]:
        if walking and rows[row, LABEL] <= _LAST_OPEN_WAY and depths[context] == 0:
            # The way goes on, and how only matters where another byte comes.
            return ALIVE, context, row, 0
        status, context, row = _resolved(context, rows[row, LABEL], machine)
        return status, context, row, 0
    return ALIVE, context, row, count


@inlined
def _behind(context, row, count, byte, machine, key_context, walking):  # type: ignore[no-untyped-def]
    """Status, context, row and count behind a byte."""
    rows, cells, byte_maps, _, _, _, _, _, _ = machine
    target = cells[rows[row, BASE] + byte_maps[rows[row, KIND], byte]]
    while target == DEAD:
        # The block may end here, and the byte may belong to what follows.
        label = rows[row, LABEL]
        if label == DEAD:
            return DIES, context, row, count
        status, context, row = _resolved(context, label, machine)
        if status != ALIVE:
            return status, context, row, count
        target = cells[rows[row, BASE] + byte_maps[rows[row, KIND], byte]]
    high = rows[target, HIGH]
    if high < 0:
        count = 0
    elif rows[target, BEAT] == CLOSE_STRING:
        if count < rows[target, LOW]:
            return DIES, context, target, count
        count = 0
    else:
        if rows[target, BEAT] == START:
            count = 0
        elif rows[target, BEAT] == TICK:
            count += 1
        if count + rows[target, NEED] > high:
            return DIES, context, target, count
    return _entered(context, target, count, machine, key_context, walking)


@inlined
def _allow(node, nodes, token_ids, words):  # type: ignore[no-untyped-def]
    """Set the bits of the tokens that a node spells."""
    for index in range(nodes[node, FIRST_TOKEN], nodes[node + 1, FIRST_TOKEN]):
        token = token_ids[index]
        words[token >> 5] |= 1 << (token & 31)


@inlined
def _forbid_below(node, nodes, token_ids, words):  # type: ignore[no-untyped-def]
    """Clear the bits of the tokens that a node and those below it spell."""
    for index in range(nodes[node, FIRST_TOKEN], nodes[nodes[node, END], FIRST_TOKEN]):
        token = token_ids[index]
        words[token >> 5] &= ~(1 << (token & 31))


@kernel
def walk_nodes(  # type: ignore[no-untyped-def]
    nodes,
    token_ids,
    sites,
    machine,
    key_context,
    closings,
    missing,
    left,
    scratch,
    words,
    uncertain,
):
    """Set the bits of the tokens below some nodes of the trie, as far as they may follow.

    A site is a node, the code points that its text counts, those that a string with it has at
    least, and which of the rows ``closings`` its bytes lead to: DEAD for the state itself, whose
    own tokens are not asked for. Sites with fewer than ``missing`` code points or more than
    ``left`` are passed over. Returns FINISHED or what is missing.

    ``scratch`` is int64 ``[longest token + 3, 4]``: what the walk goes on with after it stopped
    (site, node, uncertain nodes, context of the joint), then context, row and count to begin with
    and the label of the joint, then context, row and count by depth.
    """
    site, node, doubts = scratch[0, 0], scratch[0, 1], scratch[0, 2]
    while site < len(sites):
        top = sites[site, 0]
        if node == DEAD:
            context, row, count = scratch[1, 0], scratch[1, 1], scratch[1, 2]
            if sites[site, 3] != DEAD:
                if sites[site, 1] < missing or sites[site, 2] > left:
                    site += 1
                    continue
                status, context, row, count = _entered(
                    context, closings[sites[site, 3]], 0, machine, key_context, True
                )
                if status >= JOINT_MISSING:
                    scratch[0, 0], scratch[0, 1], scratch[0, 2] = site, DEAD, doubts
                    scratch[0, 3], scratch[1, 3] = context, row
                    return status
                if status == UNSURE:
                    uncertain[doubts] = top
                    doubts += 1
                if status != ALIVE:
                    site += 1
                    continue
                _allow(top, nodes, token_ids, words)
            level = nodes[top, DEPTH] + 2
            scratch[level, 0], scratch[level, 1], scratch[level, 2] = context, row, count
            node = top + 1
        last = nodes[top, END]
        while node < last:
            level = nodes[node, DEPTH] + 2
            status, context, row, count = _behind(
                scratch[level - 1, 0],
                scratch[level - 1, 1],
                scratch[level - 1, 2],
                nodes[node, BYTE],
                machine,
                key_context,
                True,
            )
            if status == ALIVE:
                scratch[level, 0], scratch[level, 1], scratch[level, 2] = context, row, count
                _allow(node, nodes, token_ids, words)
                node += 1
                continue
            if status >= JOINT_MISSING:
                scratch[0, 0], scratch[0, 1], scratch[0, 2] = site, node, doubts
                scratch[0, 3], scratch[1, 3] = context, row
                return status
            if status == UNSURE:
                uncertain[doubts] = node
                doubts += 1
            node = nodes[node, END]
        site += 1
        node = DEAD
    scratch[0, 2] = doubts
    return FINISHED


@kernel
def correct_mask(  # type: ignore[no-untyped-def]
    nodes, token_ids, machine, key_context, other, scratch, words, uncertain
):
    """Make the mask of a row out of that of the ``other`` row, which most bytes lead on alike.

    Where both lead to the same row, all below is the same and stays; elsewhere what the other row
    may have set is forbidden and looked at anew. ``scratch`` is as for ``walk_nodes``; the fourth
    column by depth is where the other row leads. Returns FINISHED or what is missing.
    """
    rows, cells, byte_maps, _, _, _, _, _, _ = machine
    node, doubts = scratch[0, 1], scratch[0, 2]
    if node == DEAD:
        for column in range(3):
            scratch[2, column] = scratch[1, column]
        scratch[2, 3] = other
        node = 1
    while node < nodes[0, END]:
        level = nodes[node, DEPTH] + 2
        byte = nodes[node, BYTE]
        row, other = scratch[level - 1, 1], scratch[level - 1, 3]
        there = DEAD
        if other != DEAD:
            here = cells[rows[row, BASE] + byte_maps[rows[row, KIND], byte]]
            there = cells[rows[other, BASE] + byte_maps[rows[other, KIND], byte]]
            if here == there and (here != DEAD or rows[row, LABEL] == rows[other, LABEL]):
                node = nodes[node, END]
                continue
        status, context, row, count = _behind(
            scratch[level - 1, 0], row, scratch[level - 1, 2], byte, machine, key_context, True
        )
        if status >= JOINT_MISSING:
            scratch[0, 1], scratch[0, 2] = node, doubts
            scratch[0, 3], scratch[1, 3] = context, row
            return status
        if there == DEAD or rows[there, ROLE] == KEY_CLOSED or rows[there, EXITS]:
            there = DEAD
        if status != ALIVE or there == DEAD:
            _forbid_below(node, nodes, token_ids, words)
        if status == ALIVE:
            scratch[level, 0], scratch[level, 1], scratch[level, 2] = context, row, count
            scratch[level, 3] = there
            _allow(node, nodes, token_ids, words)
            node += 1
            continue
        if status == UNSURE:
            uncertain[doubts] = node
            doubts += 1
        node = nodes[node, END]
    scratch[0, 2] = doubts
    return FINISHED


@kernel
def walk_places(  # type: ignore[no-untyped-def]
    nodes, token_ids, machine, key_context, scratch, place_of_token, places
):
    """Where every token leads: its slot in the hash table ``places``, int64 ``[slots, 3]``.

    ``place_of_token`` keeps what it has for tokens that lead nowhere, or not for sure. Returns
    FINISHED, what is missing, or PLACES_FULL where half of the slots are taken.
    """
    for column in range(3):
        scratch[2, column] = scratch[1, column]
    slots, used = len(places), 0
    node = 1
    while node < nodes[0, END]:
        level = nodes[node, DEPTH] + 2
        status, context, row, count = _behind(
            scratch[level - 1, 0],
            scratch[level - 1, 1],
            scratch[level - 1, 2],
            nodes[node, BYTE],
            machine,
            key_context,
            False,
        )
        if status >= JOINT_MISSING:
            scratch[0, 3], scratch[1, 3] = context, row
            return status
        if status != ALIVE:
            node = nodes[node, END]
            continue
        scratch[level, 0], scratch[level, 1], scratch[level, 2] = context, row, count
        if nodes[node, FIRST_TOKEN] < nodes[node + 1, FIRST_TOKEN]:
            slot = (((context * 0x9E3779B1 + row) * 0x85EBCA77 + count) >> 9) % slots
            while places[slot, 0] != NOWHERE and not (
                places[slot, 0] == context and places[slot, 1] == row and places[slot, 2] == count
            ):
                slot = (slot + 1) % slots
            if places[slot, 0] == NOWHERE:
                used += 1
                if 2 * used > slots:
                    return PLACES_FULL
                places[slot, 0], places[slot, 1], places[slot, 2] = context, row, count
            for index in range(nodes[node, FIRST_TOKEN], nodes[node + 1, FIRST_TOKEN]):
                place_of_token[token_ids[index]] = slot
        node += 1
    return FINISHED


@kernel
def take_token(  # type: ignore[no-untyped-def]
    text, first, last, context, row, count, begun, machine
):
    """Status, context, row and count behind the bytes ``text[first:last]``, and where a key begins.

    ``begun`` is the place of the first byte of the key that is being written, NOWHERE for none.
    UNSURE where it takes the whole text of a key, or of an item, to go on.
    """
    rows, _, _, _, _, _, _, depths, _ = machine
    status, outer = ALIVE, context
    for index in range(first, last):
        status, context, row, count = _behind(
            context, row, count, text[index], machine, NOWHERE, False
        )
        if status == ALIVE and depths[context]:
            status = UNSURE
        if status != ALIVE:
            break
        if context != outer:
            outer, begun = context, NOWHERE
        if begun == NOWHERE and (rows[row, ROLE] == IN_KEY or rows[row, ROLE] == IN_RARE_KEY):
            begun = index + 1
    return status, context, row, count, begun
