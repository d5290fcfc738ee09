"""The path of walks over the trie of a vocabulary in compiled code, and what all walks do with it.

A walk keeps its whole state in its *path*, so that it can stop where Python has to resolve a
transition first, and continue from the same node. The path is int64 ``[longest token + 3, 9]``::

    row 0      the progress of the walk: SITE LEVEL NUM_UNCERTAIN ENTRY ENTRY_STATUS
               NUM_DEFERRED READ_STACK
    row 1      stack row count                                     the state to begin with
    row 2      stack row count CHILD LAST OTHER NODE PART AFTER    at the node that a walk enters
    row 3 ...  the same, one row for each byte further down

Every row from 2 on is a state and the children of a node that have not been looked at yet: from
CHILD up to LAST in ``child_bytes`` and ``child_nodes`` of the trie.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.machine.table_layout import IN_KEY, IN_RARE_KEY, LABEL, PLAIN, ROLE
from guided.masks.machine_kernels import (
    NOWHERE,
    UNRESOLVED,
    Addresses,
    MachineArrays,
    machine_at,
    target_of,
)
from guided.masks.mask_kernels import clear_token, set_token
from guided.masks.trie import END, FIRST_CHILD, FIRST_TOKEN, NODE_WIDTH, TrieArrays
from guided.regular.dfa import DEAD
from guided.runtime.addresses import table_at
from guided.runtime.kernel import inlined

__all__ = [
    "AFTER",
    "ALL",
    "BEYOND",
    "CHILD",
    "COUNT",
    "DEFERRED_WIDTH",
    "ENTRY",
    "ENTRY_STATUS",
    "FINISHED",
    "INSIDE",
    "LARGE_SHARE",
    "LAST",
    "LEVEL",
    "NODE",
    "NOTHING",
    "NOT_READ",
    "NUM_DEFERRED",
    "NUM_UNCERTAIN",
    "OTHER",
    "OUTSIDE",
    "PART",
    "PATH_WIDTH",
    "PROGRESS",
    "READ_STACK",
    "ROW",
    "SITE",
    "SITE_WIDTH",
    "SLOTS_FULL",
    "STACK",
    "Walk",
    "allow_below",
    "allow_tokens",
    "begin_children",
    "begin_walk",
    "defer_node",
    "forbid_below",
    "is_wide_and_large",
    "put_state",
    "record_uncertain",
    "result",
    "walk_at",
]

FINISHED: Final = 0
SLOTS_FULL: Final = 1
"""How a walk ends, besides UNRESOLVED."""
LARGE_SHARE: Final = 256
"""A node is large if more than one in this many of all nodes are below it."""
_WIDE_SHARE: Final = 4
"""A row is wide at a node if one in this many of the children may follow."""

_NO_ENTRY: Final = -1000
"""In place of ENTRY: the state of the next site has to be found anew. No site has this entry."""
SITE: Final = 0
LEVEL: Final = 1
NUM_UNCERTAIN: Final = 2
ENTRY: Final = 3
ENTRY_STATUS: Final = 4
NUM_DEFERRED: Final = 5
READ_STACK: Final = 6
"""Columns of the progress of a walk: the site and the row of the path that it is at, how many sites
are uncertain, the latest site's entry and status, how many nodes were deferred, and whether the
stack was read."""
STACK: Final = 0
ROW: Final = 1
COUNT: Final = 2
CHILD: Final = 3
LAST: Final = 4
OTHER: Final = 5
NODE: Final = 6
PART: Final = 7
AFTER: Final = 8
PATH_WIDTH: Final = 9
"""Columns of the other rows of the path: the state; where among the children of which node the walk
is; which part of them it looks at; and the row after the exit action of the row. OTHER is for
``correct_mask``: the row of the other walk."""
PROGRESS: Final = 0
OUTSIDE: Final = 1
"""The first row of the path, and the level of a walk between two sites: the state to begin with."""

INSIDE: Final = 0
BEYOND: Final = 1
ALL: Final = 2
NOTHING: Final = 3
"""The children whose bytes lead on within the automaton of the row, those that come after its exit
action, both, or none."""
NOT_READ: Final = -2
"""In place of the row after an exit action, before it is looked up; DEAD if none is known."""

SITE_WIDTH: Final = 4
"""Numbers of a site, see ``walk_kernels.walk_sites``."""
DEFERRED_WIDTH: Final = 4
"""Numbers of a deferred node: the node, and stack, row and count there."""


class Walk(NamedTuple):
    """The memory that one walk works on."""

    trie: TrieArrays
    machine: MachineArrays
    path: NDArray[np.int64]
    words: NDArray[np.int32]
    """The mask being made."""
    uncertain: NDArray[np.int32]
    """Sites to be walked once more is known, int32 ``[nodes, SITE_WIDTH]``."""
    deferred: NDArray[np.int64]
    """Nodes with a state each, int64 ``[LARGE_SHARE, DEFERRED_WIDTH]``."""
    key_stack: int
    """The stack in which a key is being written, whose closing quote walks let pass."""
    large: int
    """A node with more nodes than this below it is large."""
    is_truncated: bool
    """Whether the stack is truncated."""


@inlined
def walk_at(
    trie: Addresses,
    machine: Addresses,
    scratch: Addresses,
    stack: int,
    row: int,
    is_truncated: bool,
) -> Walk:
    """Return the ``Walk`` on the arrays of a ``TokenTrie``, ``PackedMachine`` and ``Scratch``.

    ``trie`` and ``machine`` have the addresses of ``TrieArrays`` and ``MachineArrays``, in that
    order; ``scratch`` is ``Scratch.addresses``. ``stack`` and ``row`` are those that the walk
    begins with, even if it continues from another node: they determine which key was being written
    then (``Walk.key_stack``).
    """
    arrays = machine_at(machine)
    role = arrays.rows[row, ROLE]
    nodes = table_at(trie[0, 0], trie[0, 1], NODE_WIDTH, np.int32)
    return Walk(
        TrieArrays(
            nodes,
            table_at(trie[1, 0], trie[1, 1], None, np.int32),
            table_at(trie[2, 0], trie[2, 1], None, np.uint8),
            table_at(trie[3, 0], trie[3, 1], None, np.int32),
            table_at(trie[4, 0], trie[4, 1], 2, np.uint64),
        ),
        arrays,
        table_at(scratch[0, 0], scratch[0, 1], PATH_WIDTH, np.int64),
        table_at(scratch[1, 0], scratch[1, 1], None, np.int32),
        table_at(scratch[2, 0], scratch[2, 1], SITE_WIDTH, np.int32),
        table_at(scratch[3, 0], scratch[3, 1], DEFERRED_WIDTH, np.int64),
        int(stack) if role in (IN_KEY, IN_RARE_KEY) else NOWHERE,
        nodes[0, END] // LARGE_SHARE,
        bool(is_truncated),
    )


@inlined
def put_state(level: int, stack: int, row: int, count: int, path: NDArray[np.int64]) -> None:
    """Write the state after the bytes of a level into the path."""
    path[level, STACK], path[level, ROW], path[level, COUNT] = stack, row, count


@inlined
def begin_walk(
    stack: int,
    row: int,
    count: int,
    base: NDArray[np.int32],
    changes: NDArray[np.int32],
    walk: Walk,
) -> None:
    """Begin a walk from a state with a copy of a mask: the words of ``base`` with ``changes``.

    The walk's ``words`` and ``path`` are overwritten; ``deferred`` and ``uncertain`` are emptied by
    setting their counts to 0.
    """
    path, words = walk.path, walk.words
    # The other rows need no clearing: a walk writes a row before it reads it.
    for column in range(PATH_WIDTH):
        path[PROGRESS, column] = 0
    path[PROGRESS, LEVEL], path[PROGRESS, ENTRY] = OUTSIDE, _NO_ENTRY
    # What follows the exit action of the first row depends on the stack.
    path[PROGRESS, READ_STACK] = walk.machine.rows[row, LABEL] != DEAD
    put_state(OUTSIDE, stack, row, count, path)
    for word in range(len(words)):
        words[word] = base[word]
    for index in range(len(changes)):
        words[changes[index, 0]] = changes[index, 1]


@inlined
def result(
    status: int, stack: int, action: int, path: NDArray[np.int64]
) -> tuple[int, int, int, int, int]:
    """Return what ``walk_sites`` returns; it is described there.

    READ_STACK is never reset in the path, so it is still set when the walk continues.
    """
    # What is resolved next may depend on the stack, so the mask holds for this stack only.
    if status >= UNRESOLVED:
        path[PROGRESS, READ_STACK] = True
    return (
        status,
        path[PROGRESS, NUM_UNCERTAIN],
        stack if status >= UNRESOLVED else path[PROGRESS, READ_STACK],
        action,
        path[PROGRESS, NUM_DEFERRED],
    )


@inlined
def allow_tokens(node: int, walk: Walk) -> None:
    """Set the bits of the tokens that a node spells."""
    nodes, token_ids = walk.trie.nodes, walk.trie.token_ids
    for index in range(nodes[node, FIRST_TOKEN], nodes[node + 1, FIRST_TOKEN]):
        set_token(token_ids[index], walk.words)


@inlined
def allow_below(node: int, walk: Walk) -> None:
    """Set the bits of the tokens that a node and those below it spell."""
    nodes, token_ids = walk.trie.nodes, walk.trie.token_ids
    for index in range(nodes[node, FIRST_TOKEN], nodes[nodes[node, END], FIRST_TOKEN]):
        set_token(token_ids[index], walk.words)


@inlined
def forbid_below(node: int, walk: Walk) -> None:
    """Clear the bits of the tokens that a node and those below it spell."""
    nodes, token_ids = walk.trie.nodes, walk.trie.token_ids
    for index in range(nodes[node, FIRST_TOKEN], nodes[nodes[node, END], FIRST_TOKEN]):
        clear_token(token_ids[index], walk.words)


@inlined
def begin_children(level: int, node: int, walk: Walk) -> None:
    """Set a level to the first child of a node, whose state must be in the path."""
    nodes, path = walk.trie.nodes, walk.path
    path[level, CHILD], path[level, LAST] = nodes[node, FIRST_CHILD], nodes[node + 1, FIRST_CHILD]
    path[level, NODE], path[level, PART], path[level, AFTER] = node, ALL, NOT_READ


@inlined
def record_uncertain(node: int, entry: int, walk: Walk) -> None:
    """Record a site to be walked when more is known; ``walk_sites`` explains ``entry``.

    There is room for as many sites as the trie has nodes. Both numbers of code points are never
    written and stay 0, so that no bound passes the site over.
    """
    number = walk.path[PROGRESS, NUM_UNCERTAIN]
    walk.uncertain[number, 0], walk.uncertain[number, 3] = node, entry
    walk.path[PROGRESS, NUM_UNCERTAIN] = number + 1


@inlined
def defer_node(node: int, stack: int, row: int, count: int, walk: Walk) -> None:
    """Defer what is below a node to another walk, which begins with this state.

    There is room for ``LARGE_SHARE`` nodes: callers defer only large nodes and do not go below
    them, so there are not more.
    """
    number, deferred = walk.path[PROGRESS, NUM_DEFERRED], walk.deferred
    deferred[number, 0], deferred[number, 1] = node, stack
    deferred[number, 2], deferred[number, 3] = row, count
    walk.path[PROGRESS, NUM_DEFERRED] = number + 1


@inlined
def is_wide_and_large(node: int, row: int, walk: Walk) -> bool:
    """Return whether a context-independent mask is worth while at a node.

    It is if many nodes are below it and many of its children may follow. This decides how a mask is
    made and never what is in it, so both bounds only matter for speed; but ``deferred`` has room
    for no more nodes than LARGE_SHARE lets be large.
    """
    nodes, child_bytes = walk.trie.nodes, walk.trie.child_bytes
    if nodes[node, END] - node <= walk.large:
        return False
    # Names may run out in a stack, so their masks are not always independent of it: a node in a
    # name is walked here.
    if walk.machine.rows[row, ROLE] != PLAIN:
        return False
    first, last = nodes[node, FIRST_CHILD], nodes[node + 1, FIRST_CHILD]
    live = 0
    for child in range(first, last):
        live += target_of(walk.machine, row, child_bytes[child]) != DEAD
    is_wide: bool = live * _WIDE_SHARE >= last - first
    return is_wide
